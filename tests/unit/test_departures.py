"""How a leaf left, from a history (design §3.4). Each case is a history that the real server showed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.facts.departures import Circumstances, ended_at, judge_departure
from app.facts.types import CheckpointFacts, Departure, Leaf

T0 = datetime(2026, 11, 30, 12, tzinfo=UTC)


def checkpoint(
    name: str, parent: str | None, source: str = "loop", *, step: int = 0, **more: object
) -> CheckpointFacts:
    found = CheckpointFacts(
        id=name,
        parent_id=parent,
        source=source,
        step=step,
        graph_id="support",
        run_id="run",
        created_at=T0 + timedelta(minutes=step),
        results=frozenset(),
    )
    return replace(found, **more)  # type: ignore[arg-type]


LEAF = Leaf(node="await_approval", ns="", task_id="task", checkpoint_id="C")
INNER = replace(LEAF, node="refund/confirm", ns="refund:outer")
HERE = checkpoint("C", "B", step=2)
DONE = replace(HERE, results=frozenset({"task"}))
BEFORE = checkpoint("B", None, "input", step=1)


def found(*history: CheckpointFacts, **more: object) -> Circumstances:
    known = Circumstances(
        history=history, durability={"run": "async"}, mover="run", node_gone_since=None, waits_no_more=True
    )
    return replace(known, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("history", "departure"),
    [
        ((checkpoint("D", "C", step=3), DONE, BEFORE), Departure.COMPLETED),
        ((checkpoint("E", "D", step=4), checkpoint("D", "C", step=3), DONE, BEFORE), Departure.COMPLETED),
        ((checkpoint("D", "C", step=3), HERE, BEFORE), Departure.LOST),
        ((checkpoint("D", "C", "input", step=3), HERE, BEFORE), Departure.ABANDONED),
        ((checkpoint("D", "C", "update", step=3), HERE, BEFORE), Departure.OVERRIDDEN),
        ((checkpoint("D", "C", "update", step=3), DONE, BEFORE), Departure.OVERRIDDEN),
        ((checkpoint("F", "B", "fork", step=2), checkpoint("D", "C", step=3), DONE, BEFORE), Departure.FORKED),
        ((checkpoint("D", "C", "fork", step=3), DONE, BEFORE), Departure.FORKED),
        ((HERE, BEFORE), Departure.LOST),
        ((DONE, BEFORE), Departure.COMPLETED),
        ((checkpoint("Z", "Y", step=9),), Departure.UNEXPLAINED),
        ((checkpoint("D", "D", step=3), HERE, BEFORE), Departure.UNEXPLAINED),
        ((checkpoint("E", "D", step=4), checkpoint("D", "E", step=3), HERE, BEFORE), Departure.UNEXPLAINED),
        ((), Departure.UNEXPLAINED),
        ((checkpoint("D", "C", step=3, graph_id="other"), DONE, BEFORE), Departure.UNEXPLAINED),
    ],
)
def test_the_child_of_the_checkpoint_tells_how_a_leaf_left(
    history: tuple[CheckpointFacts, ...], departure: Departure
) -> None:
    assert judge_departure(LEAF, found(*history)) is departure


def test_a_leaf_was_done_when_the_next_checkpoint_was_written_and_not_when_somebody_looked() -> None:
    went_on = (checkpoint("E", "D", step=9), checkpoint("D", "C", step=3), DONE, BEFORE)
    assert ended_at(LEAF, Departure.COMPLETED, went_on) == T0 + timedelta(minutes=3)
    assert ended_at(LEAF, Departure.ABANDONED, went_on) is None
    assert ended_at(LEAF, Departure.COMPLETED, (DONE, BEFORE)) is None, "nothing was written since"
    assert ended_at(LEAF, Departure.COMPLETED, (checkpoint("Z", "Y", step=9),)) is None


def test_a_history_that_cannot_be_read_explains_nothing() -> None:
    assert judge_departure(LEAF, found(history=None)) is Departure.UNEXPLAINED


@pytest.mark.parametrize("durability", ["exit", None])
def test_a_run_that_writes_nothing_until_its_end_never_shows_a_loss(durability: str | None) -> None:
    history = (checkpoint("D", "C", step=3), HERE, BEFORE)
    assert judge_departure(LEAF, found(*history, durability={"run": durability})) is Departure.UNEXPLAINED


@pytest.mark.parametrize(("durability", "departure"), [("async", Departure.LOST), ("exit", Departure.UNEXPLAINED)])
def test_an_inner_namespace_that_stands_still_is_a_loss_only_after_a_run_that_writes_as_it_goes(
    durability: str, departure: Departure
) -> None:
    assert judge_departure(INNER, found(HERE, BEFORE, durability={"run": durability})) is departure


def test_the_head_of_a_row_that_still_waits_is_no_loss() -> None:
    assert judge_departure(LEAF, found(HERE, BEFORE, waits_no_more=False)) is Departure.UNEXPLAINED


@pytest.mark.parametrize(("minutes", "departure"), [(2, Departure.LOST), (9, Departure.UNEXPLAINED)])
def test_without_its_node_only_what_was_written_after_the_deploy_is_a_loss(minutes: int, departure: Departure) -> None:
    """Today's graph shows no result of a task whose node it lacks, done or not."""
    history = (checkpoint("D", "C", step=3), HERE, BEFORE)
    since = T0 + timedelta(minutes=minutes)
    assert judge_departure(LEAF, found(*history, node_gone_since=since)) is departure
