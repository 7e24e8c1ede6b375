"""The page of situations is what the tables say that the other tests check on a real server."""

from __future__ import annotations

import pytest

from tests.agent.situations import RECIPES
from tests.docs.situations_page import PAGE, drain_says, page, situation_of
from tests.flows.test_verdicts import HARMLESS, NEEDED, SEEN


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew with ./scripts/situations"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.build.__name__)
def test_what_the_page_says_of_a_drain_is_what_the_verdicts_are_checked_for(recipe: object) -> None:
    one = situation_of(recipe)  # type: ignore[arg-type]
    said = drain_says(one)
    if one.name in HARMLESS:
        assert said == "clear"
    if one.name in {name for name, _ in SEEN}:
        assert said == "blocked"
    if one.name in {name for name, _ in NEEDED}:
        assert said != "clear"
