"""What holds for every page: no complaint of the browser, no finding of axe, no scrolling sideways."""

from collections import Counter
from pathlib import Path

import pytest

from tests.browser.conftest import Open, violations
from tests.flows.product import ROOT

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOUR_RULES = ["color-contrast", "link-in-text-block"]  # all else is the same in dark
NARROW_RULES = [
    "target-size",
    "scrollable-region-focusable",
    "aria-required-children",
    "aria-required-parent",
    "color-contrast",
]
TABLE_ROLES = ("table", "rowgroup", "row", "columnheader", "rowheader", "cell")
DARK_GROUND = "rgb(17, 19, 22)"
NARROW = 320
WIDTHS = (NARROW, 768)
RUN = "([type, values]) => axe.run(document, { runOnly: { type, values }, resultTypes: ['violations'] })"
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true })"
TOO_WIDE = """width => [...document.querySelectorAll('body *')]
    .filter(each => each.getBoundingClientRect().right > width + 1 && !each.closest('.scroll, .unseen'))
    .map(each => each.outerHTML.slice(0, 120)).slice(0, 3)"""
TABLES_TOO_WIDE = """[...document.querySelectorAll('.scroll')]
    .filter(each => each.querySelector('table') && each.scrollWidth > each.clientWidth + 1)
    .map(each => each.getAttribute('aria-label'))"""
Pages = dict[str, tuple[str, int]]


@pytest.fixture(scope="session")
def axe() -> str:
    assert AXE.is_file(), f"{AXE} is missing: run ./scripts/setup dev, then this again."
    return Path(AXE).read_text(encoding="utf-8")


def test_axe_finds_nothing_in_light_and_dark_wide_and_narrow(open_page: Open, pages: Pages, axe: str) -> None:
    watched = open_page()
    found = {}
    for name, (path, status) in pages.items():
        watched.page.emulate_media(color_scheme="light")
        page = watched.go(path, status)
        page.evaluate(axe)
        page.evaluate(OPEN_ALL)
        said = page.evaluate(RUN, ["tag", RULES])
        page.emulate_media(color_scheme="dark")
        dark = page.evaluate(RUN, ["rule", COLOUR_RULES])
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == DARK_GROUND
        page.set_viewport_size({"width": NARROW, "height": 800})
        narrow = page.evaluate(RUN, ["rule", NARROW_RULES])
        page.set_viewport_size({"width": 1280, "height": 800})
        for look, each in (("light", said), ("dark", dark), ("narrow", narrow)):
            if each["violations"]:
                found[f"{name}, {look}"] = violations(each)
    assert found == {}


def test_a_table_is_the_same_table_on_a_phone(open_page: Open, pages: Pages) -> None:
    """By the tree that Chromium gives to screen readers: rows become paragraphs there, and a header is out of sight."""
    page = open_page().go(pages["threads"][0])
    tree = page.context.new_cdp_session(page)
    found = []
    for width in (1280, NARROW):
        page.set_viewport_size({"width": width, "height": 800})
        nodes = tree.send("Accessibility.getFullAXTree")["nodes"]
        roles = Counter(node["role"]["value"] for node in nodes if not node["ignored"])
        found.append({role: roles[role] for role in TABLE_ROLES})
    assert found[0] == found[1]
    assert found[0]["columnheader"] == 8


def test_no_page_scrolls_sideways(open_page: Open, pages: Pages) -> None:
    watched = open_page()
    for name, (path, status) in pages.items():
        page = watched.go(path, status)
        page.evaluate(OPEN_ALL)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                name,
                page.evaluate(TOO_WIDE, width),
            )
            if width == NARROW:
                assert page.evaluate(TABLES_TOO_WIDE) == [], name
