"""What can be said of one thread alone: row, state and what was seen before, read together."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from app.facts.conditions import Judgement, judge_failure, judge_state, judge_unread, may_hold_work
from app.facts.types import (
    Cause,
    Condition,
    Interrupt,
    Leaf,
    LeafSource,
    RowFacts,
    RunFacts,
    StateFacts,
    StateFailure,
    Status,
    ThreadFacts,
)
from tests.unit.builders import HOUR, NODE, NOW, facts, leaf, parked, parked_row, row, run, state

TASK = "task-1"
PROOF = Interrupt(TASK, xxh3_128_hexdigest(f"{NODE}:{TASK}".encode()))
UNKNOWN_PROOF = Interrupt(TASK, "f" * 32)
NOT_RUN = state(checkpoint_id=None, heads={}, shape=None)


def judge(
    thread_row: RowFacts,
    thread_state: StateFacts,
    *,
    runs: tuple[RunFacts, ...] | None = None,
    known: ThreadFacts | None = None,
) -> Judgement:
    return judge_state(
        thread_row,
        thread_state,
        runs=runs,
        known=known,
        candidates={NODE, "finish", "nested"},
        stuck_after=timedelta(minutes=15),
        now=NOW,
    )


BUSY = row(status=Status.BUSY)
ERROR = row(status=Status.ERROR)


@pytest.mark.parametrize(
    ("thread_row", "thread_state", "runs", "condition"),
    [
        (row(), state(), None, Condition.SETTLED),
        (row(), NOT_RUN, None, Condition.NEVER_RAN),
        (row(), state(leaf()), None, Condition.PARKED),
        (parked_row(PROOF), state(leaf()), None, Condition.PARKED),
        (parked_row(), state(leaf(interrupts=0)), None, Condition.PARKED),
        (ERROR, state(leaf(error_class="ValueError")), None, Condition.FAILED),
        (row(), state(leaf(error_class="ValueError")), None, Condition.FAILED),
        (parked_row(), state(leaf("a"), leaf("b", task_id="t2", error_class="E")), None, Condition.FAILED),
        (row(), state(unapplied=("a",)), None, Condition.HALF_STEP),
        (parked_row(), state(leaf("b"), unapplied=("a",)), None, Condition.PARKED),
        (parked_row(PROOF), state(), None, Condition.STRANDED),
        (row(interrupts=(PROOF,)), state(), None, Condition.STRANDED),
        (parked_row(PROOF), state(leaf("finish", task_id="t2")), None, Condition.STRANDED),
        (parked_row(UNKNOWN_PROOF), state(), None, Condition.UNPLACED),
        (parked_row(), state(), None, Condition.UNPLACED),
        (ERROR, state(), None, Condition.UNPLACED),
        (BUSY, state(), None, Condition.RUNNING),
        (BUSY, state(leaf()), (run(),), Condition.RUNNING),
        (BUSY, state(leaf()), (run(durability="sync"),), Condition.RUNNING),
        (BUSY, state(leaf()), (run(durability="exit"),), Condition.UNREAD),
        (BUSY, state(), (run(durability=None),), Condition.UNREAD),
        (BUSY, state(), (run(), run(durability="exit")), Condition.UNREAD),
        (BUSY, state(), (run("pending", "exit"),), Condition.SCHEDULED),
        (BUSY, NOT_RUN, (run("pending"),), Condition.SCHEDULED),
        (BUSY, state(leaf()), (), Condition.PARKED),
        (BUSY, state(), (), Condition.SETTLED),
    ],
)
def test_the_first_condition_that_applies(
    thread_row: RowFacts, thread_state: StateFacts, runs: tuple[RunFacts, ...] | None, condition: Condition
) -> None:
    assert judge(thread_row, thread_state, runs=runs).condition is condition


@pytest.mark.parametrize(
    "thread_row",
    [parked_row(PROOF), parked_row(), row(interrupts=(PROOF,)), ERROR],
    ids=["interrupted", "breakpoint", "idle_with_interrupts", "error"],
)
def test_a_row_that_has_run_and_a_state_without_a_checkpoint_contradict_each_other(thread_row: RowFacts) -> None:
    """A wiped store, or another one: the row waits or failed, so the thread did run."""
    assert judge(thread_row, NOT_RUN).condition is not Condition.NEVER_RAN


def test_an_interrupt_proves_a_leaf_that_the_graph_no_longer_has() -> None:
    found = judge(parked_row(PROOF), state())
    assert found.leaves == (
        Leaf(NODE, "", TASK, "C", interrupts=1, cause=Cause.DYNAMIC, source=LeafSource.INTERRUPT_ID),
    )


def test_an_interrupt_of_an_outer_node_that_waits_inside_is_not_stranded() -> None:
    proof = Interrupt(TASK, xxh3_128_hexdigest(f"nested:{TASK}".encode()))
    assert judge(parked_row(proof), state(leaf("nested/sub_wait", ns=f"nested:{TASK}"))).condition is Condition.PARKED


# -- what was seen before ---------------------------------------------------------------------------------------------

SEEN = parked(parked_row(), leaf(interrupts=0, cause=Cause.UNKNOWN))


def test_a_leaf_that_was_seen_and_does_not_show_any_more_at_the_same_checkpoint_is_stranded() -> None:
    found = judge(SEEN.row, state(), known=SEEN)
    assert found.condition is Condition.STRANDED
    assert [one.source for one in found.leaves] == [LeafSource.LAST_SEEN]


def test_a_run_that_went_past_a_leaf_without_doing_it_lost_it() -> None:
    after = row(updated_at=NOW, state_updated_at=NOW)
    assert judge(after, state(), known=SEEN).condition is Condition.LOST


def test_a_leaf_that_a_run_of_another_graph_went_past_is_stranded_and_not_lost() -> None:
    """That run wrote nothing and the answer is kept: a run of the leaf's own graph takes it and goes on."""
    after = row(graph_id="nested", updated_at=NOW, state_updated_at=NOW)
    assert judge(after, state(graph_id="support"), known=SEEN).condition is Condition.STRANDED


def test_what_was_lost_stays_lost_while_its_checkpoint_is_the_head() -> None:
    after = row(updated_at=NOW, state_updated_at=NOW)
    lost = facts(
        after, condition=Condition.LOST, leaves=(replace(SEEN.leaves[0], source=LeafSource.LAST_SEEN, lost=True),)
    )
    assert judge(after, state(), known=lost).condition is Condition.LOST


@pytest.mark.parametrize(
    "thread_state",
    [
        state(checkpoint_id="D", heads={"": "D"}),
        state(leaf(), heads={"": "C"}),
        state(leaf(task_id="t9"), heads={"": "C"}),
    ],
)
def test_a_leaf_that_went_on_or_still_shows_is_not_missing(thread_state: StateFacts) -> None:
    found = judge(row(updated_at=NOW, state_updated_at=NOW), thread_state, known=SEEN)
    assert found.condition in (Condition.SETTLED, Condition.PARKED)


def test_another_thread_with_the_same_id_has_no_past() -> None:
    assert judge(row(created_at=NOW), state(), known=SEEN).condition is Condition.SETTLED


def test_a_metadata_edit_alone_loses_nothing() -> None:
    """``updated_at`` moves, ``state_updated_at`` does not."""
    copied = parked(row(), leaf())
    edited = row(updated_at=NOW)
    assert judge(edited, state(), known=copied).condition is Condition.STRANDED


def test_an_inner_leaf_below_a_node_that_is_gone_is_not_forgotten() -> None:
    """The outer node was removed, so its namespace does not show; the root's head has not moved."""
    inner = leaf("nested/sub_wait", ns="nested:t1", checkpoint_id="I", interrupts=0)
    known = parked(parked_row(), inner, state=state(inner, heads={"": "C", "nested:t1": "I"}))
    waiting = judge(known.row, state(), known=known)
    assert waiting.condition is Condition.STRANDED
    answered = judge(row(updated_at=NOW, state_updated_at=NOW), state(), known=known)
    assert answered.condition in (Condition.STRANDED, Condition.LOST)


# -- running ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("since", "wrote", "stuck"), [(16, 16, True), (14, 14, False), (60, 1, False), (1, 60, False)])
def test_a_run_is_stuck_when_it_has_written_no_checkpoint_for_too_long(since: int, wrote: int, stuck: bool) -> None:
    began = run(created_at=NOW - timedelta(minutes=since))
    found = judge(BUSY, state(created_at=NOW - timedelta(minutes=wrote)), runs=(began,))
    assert (found.condition, found.stuck) == (Condition.RUNNING, stuck)


# -- not read ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thread_row", "may"),
    [
        (row(), False),
        (row(shape=None), True),
        (row(interrupts=(PROOF,)), True),
        (row(error_class="E"), True),
        (BUSY, True),
        (ERROR, True),
        (parked_row(), True),
    ],
)
def test_only_an_idle_row_with_values_and_nothing_else_presumes_that_nothing_waits(
    thread_row: RowFacts, may: bool
) -> None:
    assert may_hold_work(thread_row, None) is may
    assert judge_unread(thread_row, None).condition is (Condition.UNREAD if may else Condition.PRESUMED_SETTLED)
    assert may_hold_work(thread_row, SEEN)


@pytest.mark.parametrize(
    ("failure", "failures", "condition"),
    [
        (StateFailure.THREAD_MISSING, 1, Condition.GONE),
        (StateFailure.GRAPH_MISSING, 1, Condition.GRAPH_MISSING),
        (StateFailure.LASTING, 1, Condition.UNREAD),
        (StateFailure.LASTING, 2, Condition.UNREADABLE),
        (StateFailure.PASSING, 1, Condition.UNREAD),
        (StateFailure.PASSING, 9, Condition.UNREAD),
    ],
)
def test_a_state_that_could_not_be_read_keeps_what_was_seen(
    failure: StateFailure, failures: int, condition: Condition
) -> None:
    assert judge_failure(failure, failures, SEEN) == Judgement(condition, SEEN.leaves)
    assert judge_failure(failure, failures, None) == Judgement(condition, ())


# -- properties -------------------------------------------------------------------------------------------------------

LEAVES = st.lists(
    st.builds(
        leaf,
        st.sampled_from([NODE, "finish", "nested/sub_wait"]),
        task_id=st.sampled_from(["t1", "t2"]),
        error_class=st.sampled_from([None, "E"]),
    ),
    max_size=2,
)
ROWS = st.builds(
    row,
    status=st.sampled_from(list(Status)),
    interrupts=st.sampled_from([(), (PROOF,), (UNKNOWN_PROOF,)]),
    error_class=st.sampled_from([None, "E"]),
    updated_at=st.sampled_from([NOW - HOUR, NOW]),
)
STATES = st.builds(
    lambda leaves, head, unapplied: state(
        *leaves, checkpoint_id=head, heads={"": head} if head else {}, unapplied=unapplied
    ),
    LEAVES,
    st.sampled_from(["C", "D"]),
    st.sampled_from([(), ("a",)]),
)
KNOWN: Any = st.one_of(st.none(), st.builds(lambda leaves: parked(parked_row(), *leaves), LEAVES))
RUNS = st.one_of(
    st.none(),
    st.lists(
        st.builds(run, st.sampled_from(["running", "pending"]), st.sampled_from(["sync", "exit", None])), max_size=2
    ).map(tuple),
)


@given(ROWS, STATES, KNOWN, RUNS)
def test_a_thread_with_a_pending_leaf_is_never_settled(
    thread_row: RowFacts, thread_state: StateFacts, known: ThreadFacts | None, runs: tuple[RunFacts, ...] | None
) -> None:
    found = judge(thread_row, thread_state, runs=runs, known=known)
    assert set(thread_state.leaves) <= set(found.leaves)
    if found.condition is Condition.SETTLED:
        assert not found.leaves
        assert not thread_state.unapplied
        assert thread_row.status is Status.IDLE or runs == ()
    if found.stuck:
        assert found.condition is Condition.RUNNING
