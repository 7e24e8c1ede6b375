"""Whether something waits at a join or a deferred node: shown by the history, or not shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from app.facts.joins import deferred_is_empty, join_is_empty, lines_back, written
from app.facts.types import CheckpointFacts
from app.inventory.views import RevisionSummary
from tests.unit.builders import HOUR, NOW, leaf, state

EDGES = (("a", "t", False), ("b", "t", False), ("t", "__end__", False), ("c", "t", True))


def revision(number: int = 1, **changes: object) -> RevisionSummary:
    made = RevisionSummary(
        id=number, graph="join", assistant_id="x", hash="h", xray_hash="h", first_seen_at=NOW - 9 * HOUR, last_seen_at=NOW,
        vanished_at=None, nodes=("a", "b", "t"), joins=("t",), deferred=(), fields=(), edges=EDGES,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def _checkpoint(step: int, tasks: Sequence[str]) -> CheckpointFacts:
    return CheckpointFacts(
        id=f"c{step}", parent_id=f"c{step - 1}" if step else None, source="loop" if step else "input", step=step,
        graph_id="join", run_id="r", created_at=NOW - HOUR + timedelta(seconds=step), results=frozenset(),
        tasks=frozenset(tasks), finished=frozenset(tasks),
    )  # fmt: skip


def ran(*steps: Sequence[str], **changes: dict[int, dict[str, object]]) -> tuple[CheckpointFacts, ...]:
    """A history, newest first: the head, and below it a checkpoint for each step with the tasks that ran from it."""
    found = [_checkpoint(step, tasks) for step, tasks in enumerate([*steps, ()])]
    for at, change in changes.get("at", {}).items():
        found[at] = replace(found[at], **change)  # type: ignore[arg-type]
    return tuple(reversed(found))


def is_empty(history: tuple[CheckpointFacts, ...], line: list[RevisionSummary], *waits_for: str) -> bool:
    return join_is_empty("t", history, line, waits_for=[frozenset(names) for names in waits_for or ("ab",)])


WHOLE = ran(["a"], ["b"], ["t"], ["end"])


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(WHOLE, id="one after the other"),
        pytest.param(ran(["a"], ["b"], [], ["end"]), id="the server does not show the join itself"),
        pytest.param(ran(["a", "b"], []), id="both at once"),
        pytest.param(ran(["a"], ["b"], [], ["a", "b"], []), id="twice"),
        pytest.param(ran(["x"], ["y"]), id="no source ran"),
        pytest.param(ran(["a"], ["b"], [], ["x"], at={4: {"source": "input"}}), id="a new input after it"),
    ],
)
def test_a_join_that_ran_as_often_as_all_its_sources_is_empty(history: tuple[CheckpointFacts, ...]) -> None:
    assert is_empty(history, [revision()])


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(ran(["a"], ["x"]), id="one source ran"),
        pytest.param(ran(["a"], ["b"]), id="it is ready and has not run"),
        pytest.param(ran(["a"], ["b"], [], ["a"]), id="a source ran again after it"),
        pytest.param(ran(["a"], ["b"], ["a"]), id="a source ran beside it"),
        pytest.param(ran(["a"], ["b"], ["x"], at={3: {"source": "input"}}), id="a new input when it was ready"),
        pytest.param(ran(["a"], ["b"], [], ["x"], at={4: {"source": "update"}}), id="the head was written by hand"),
        pytest.param(ran(["a"], ["b"], [], ["x"], ["y"], at={4: {"source": "fork"}}), id="it was forked"),
        pytest.param(ran(["a"], ["b"], [], ["x"], at={4: {"step": 9}}), id="a run left out what it did"),
        pytest.param(ran(["a"], ["b"], [], ["x"], at={4: {"step": None}}), id="a step is not known"),
        pytest.param(ran(["a"], ["b"], [], ["x"], at={3: {"graph_id": "other"}}), id="another graph ran"),
        pytest.param(ran(["a"], ["b"], [], at={3: {"finished": frozenset({"a"})}}), id="a half step of a source"),
        pytest.param(WHOLE[:-1], id="the beginning is missing"),
        pytest.param((), id="there is no history"),
    ],
)
def test_a_join_may_hold_something(history: tuple[CheckpointFacts, ...]) -> None:
    assert not is_empty(history, [revision()])


def test_the_graph_must_have_looked_the_same_since_the_thread_began() -> None:
    other = revision(1, edges=(*EDGES, ("z", "a", False)), first_seen_at=NOW - 20 * HOUR)
    late = revision(2, first_seen_at=NOW - timedelta(minutes=1))
    early = revision(2, first_seen_at=NOW - 5 * HOUR)
    assert not is_empty(WHOLE, [late, other])
    assert is_empty(WHOLE, [early, other])
    assert is_empty(WHOLE, [late, revision(1)])


def test_a_join_without_a_static_edge_or_behind_another_join_is_not_judged() -> None:
    assert not is_empty(WHOLE, [revision(edges=(("c", "t", True),))])
    assert not is_empty(WHOLE, [revision(joins=("t", "a"))])


def test_each_join_of_a_node_is_counted_by_itself() -> None:
    line = [revision(edges=(*EDGES, ("e", "t", False)))]
    left = ran(["a", "b"], [], ["a"], ["e"], ["t"])
    assert not is_empty(left, line, "ab")
    assert not is_empty(left, line, "ab", "e")
    assert is_empty(ran(["a", "b"], [], ["e"], ["t"]), line, "ab")
    assert not is_empty(WHOLE, line, "az"), "a source that the drawing does not have"


def test_nothing_waits_at_a_deferred_node_when_nothing_is_left() -> None:
    line = [revision(deferred=("t",))]
    assert deferred_is_empty("t", state(), line)
    assert not deferred_is_empty("t", state(leaf("b")), line)
    assert not deferred_is_empty("t", state(unapplied=("a",)), line)
    assert not deferred_is_empty("t", state(may_hide=True), line)
    assert not deferred_is_empty("t", state(checkpoint_id=None), line)


def test_a_graph_that_lost_a_node_since_may_hide_what_a_deferred_node_waits_for() -> None:
    before = revision(1, deferred=("t",), nodes=("a", "b", "gone", "t"), first_seen_at=NOW - 20 * HOUR)
    after = revision(2, deferred=("t",), first_seen_at=NOW - timedelta(minutes=1))
    assert not deferred_is_empty("t", state(), [after, before])
    assert deferred_is_empty("t", state(created_at=NOW), [after, before])
    grown = revision(2, deferred=("t",), nodes=("a", "b", "new", "t"), first_seen_at=NOW)
    assert deferred_is_empty("t", state(), [grown, revision(1, deferred=("t",))])


def test_lines_and_routes_are_of_the_root_and_of_one_drawing() -> None:
    others = [revision(1), revision(2, variant="v"), revision(3, graph="x"), revision(4), revision(5)]
    assert [found.id for found in lines_back(others[3], others)] == [4, 1]
    assert [found.id for found in lines_back(others[1], others)] == [2, 1], (
        "before it was another drawing, it was the graph's own"
    )
    assert written(["t", "u"], ["t", "desk/t", "v"]) == {"t"}
