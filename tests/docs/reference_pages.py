"""Writes the pages of the reference that are made from the code: `python -m tests.docs.reference_pages`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.docs import api_page, cli_page, evidence_page, settings_page

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "api.md": api_page.page,
    "command-line.md": cli_page.page,
    "evidence.md": evidence_page.page,
    "settings.md": settings_page.page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
