"""Every row of the page of facts is met by a test that exists, or says what it waits for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.facts_table import FALSE_RULES, READING, Met

FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts" / "agent_server.md"
SECTIONS = {"2": (READING, 24), "5": (FALSE_RULES, 16)}


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_of_the_page_is_listed(section: str) -> None:
    table, rows = SECTIONS[section]
    assert len(table) == rows
    if FACTS.is_file():  # the page is beside the repository, not in it
        assert len(list(_rows(FACTS.read_text(encoding="utf-8"), section))) == rows


@pytest.mark.parametrize(("key", "met"), [*READING.items(), *FALSE_RULES.items()])
def test_every_row_is_met_or_says_what_it_waits_for(key: str, met: Met) -> None:
    assert met.tests or met.waits
    for test in met.tests:
        module, _, function = test.partition("::")
        assert hasattr(importlib.import_module(f"tests.flows.{module}"), function), test


def _rows(page: str, section: str) -> Iterator[str]:
    """The rows of the section's table, without its head."""
    inside = below_head = False
    for line in page.splitlines():
        if line.startswith("## "):
            inside, below_head = line.startswith(f"## {section}."), False
        elif inside and line.startswith("|---"):
            below_head = True
        elif inside and below_head and line.startswith("|"):
            yield line
