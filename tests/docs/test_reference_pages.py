"""The pages of the reference that are made from the code are what the code says now."""

from __future__ import annotations

import pytest

from tests.docs import settings_page
from tests.docs.reference_pages import PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "write it anew with ./scripts/reference"


def test_every_class_of_settings_is_on_the_page() -> None:
    assert set(settings_page.SECTIONS) == settings_page.models()
