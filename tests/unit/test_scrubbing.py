"""A thread's id is taken out of what is stored, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from app.inventory.scrubbing import scrubbed

UUID = "0190a3c2-7d11-7c33-a0f0-2b8f6c1d9e55"


@pytest.mark.parametrize(
    ("thread_id", "before", "after"),
    [
        (UUID, {"oldest": {"thread_id": UUID}, "n": 1}, {"oldest": {"thread_id": "th_x"}, "n": 1}),
        (UUID, f"Look at {UUID}.", "Look at th_x."),
        (UUID, {"by": {UUID: ["a", UUID]}}, {"by": {"th_x": ["a", "th_x"]}}),
        ("1", {"n": 1, "at": "x 01", "thread_ids": ["1", "11"]}, {"n": 1, "at": "x 01", "thread_ids": ["th_x", "11"]}),
        ("drained", {"verdict": "drained", "thread_id": "drained"}, {"verdict": "drained", "thread_id": "th_x"}),
        ("drained", {"thread_ids": ["drained"]}, {"thread_ids": ["th_x"]}),
        ("user-7", "user-7 and user-77, not super-user-7", "th_x and user-77, not super-user-7"),
        ("a.b", "a.b axb", "th_x axb"),
        (UUID, None, None),
    ],
)
def test_whole_ids_are_replaced_and_nothing_else(thread_id: str, before: Any, after: Any) -> None:
    assert scrubbed(before, {thread_id: "th_x"}) == after


def test_an_id_that_was_cut_off_is_found_before_its_beginning() -> None:
    assert scrubbed("abc-def abc", {"abc": "th_x", "abc-def": "th_x"}) == "th_x th_x"
