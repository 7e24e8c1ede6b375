"""What fields mean: kinds, removals, erasures; and what excludes a thread from one target but never from another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.drains.dispositions import Disposition
from app.drains.judging import judge
from app.drains.spec import Target
from app.drains.subjects import Subject, Work, WorkLeaf
from app.facts.types import Condition
from tests.unit.builders import NODE, RENAME_TARGET, names, routes, rules, shape, subject, target
from tests.unit.test_dispositions import MANY, SUBJECTS, TARGETS

C, D = Condition, Disposition
HERE, ELSEWHERE = WorkLeaf(NODE), WorkLeaf("finish")
STRANDED = WorkLeaf(NODE, scheduled=False)
DEALT_WITH = WorkLeaf(NODE, scheduled=False, acknowledged=True)
INTEGER = target("kind", "note", required_kind="integer")
NUMBER = target("kind", "note", required_kind="number")
REMOVE = target("remove", "legacy_notes")
ERASE = target("erase", "legacy_notes")
HOLDS, HOLDS_NOT = shape({"legacy_notes": "x"}), shape({"note": "x"})


def of(found: Subject, *targets: Target, **changes: Any) -> tuple[Disposition, str | None]:
    overall = judge(found, targets, rules(**changes)).overall
    return overall.disposition, overall.reason


# -- kinds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "wanted", "disposition"),
    [
        ({"note": 3}, INTEGER, D.MIGRATED),
        ({"note": 0}, INTEGER, D.MIGRATED),
        ({"note": "3"}, INTEGER, D.WRONG_KIND),
        ({"note": ""}, INTEGER, D.WRONG_KIND),
        ({"note": True}, INTEGER, D.WRONG_KIND),
        ({"note": 3.0}, INTEGER, D.WRONG_KIND),
        ({"note": [3]}, INTEGER, D.WRONG_KIND),
        ({"note": None}, INTEGER, D.WRONG_KIND),
        ({"note": 3}, NUMBER, D.MIGRATED),
        ({"note": 3.5}, NUMBER, D.MIGRATED),
        ({}, INTEGER, D.UNAFFECTED),
    ],
)
@pytest.mark.parametrize("condition", [C.SETTLED, C.PRESUMED_SETTLED, C.PARKED, C.FAILED])
def test_a_kind(values: dict[str, object], wanted: Target, disposition: Disposition, condition: Condition) -> None:
    assert of(subject(condition, shape=shape(values)), wanted)[0] is disposition


def test_a_kind_that_nobody_saw_is_unread() -> None:
    assert of(subject(shape=None), INTEGER) == (D.UNREAD, "threads_unread")
    assert of(subject(C.RUNNING, shape=shape({"note": 3})), INTEGER) == (D.RUNNING_UNSEEN, "running_unseen")


# -- removals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "disposition", "reason"),
    [
        (subject(C.SETTLED, shape=HOLDS), D.UNAFFECTED, None),
        (subject(C.SETTLED, shape=None), D.UNAFFECTED, None),
        (subject(C.SETTLED, revision_id=None), D.PRESUMED, "idle_unverified"),
        (subject(C.NEVER_RAN, shape=HOLDS), D.UNAFFECTED, None),
        (subject(C.PARKED, ELSEWHERE, shape=HOLDS), D.HOLDS_OLD_FIELD, None),
        (subject(C.PARKED, ELSEWHERE, shape=shape({"legacy_notes": None})), D.HOLDS_OLD_FIELD, None),
        (subject(C.PARKED, ELSEWHERE, shape=HOLDS_NOT), D.UNAFFECTED, None),
        (subject(C.PARKED, ELSEWHERE, shape=HOLDS_NOT, state_shape=HOLDS), D.HOLDS_OLD_FIELD, None),
        (subject(C.FAILED, ELSEWHERE, shape=HOLDS), D.HOLDS_OLD_FIELD, None),
        (subject(C.SCHEDULED, shape=HOLDS), D.HOLDS_OLD_FIELD, None),
        (subject(C.RUNNING, shape=HOLDS), D.HOLDS_OLD_FIELD, None),
        (subject(C.RUNNING, shape=HOLDS_NOT), D.RUNNING_UNSEEN, "running_unseen"),
        (subject(C.RUNNING, shape=HOLDS_NOT, reading_is_current=True), D.UNAFFECTED, None),
        (subject(C.HALF_STEP, shape=HOLDS, work=Work((), half_step=True)), D.HOLDS_OLD_FIELD, None),
        (subject(C.HALF_STEP, shape=HOLDS_NOT, work=Work((), half_step=True)), D.MAY_HOLD_TARGET, "half_step_unseen"),
        (subject(C.PARKED, ELSEWHERE, shape=None), D.UNREAD, "threads_unread"),
        (subject(C.PRESUMED_SETTLED, shape=HOLDS), D.PRESUMED, "idle_unverified"),
        (subject(C.PRESUMED_SETTLED, shape=HOLDS_NOT), D.UNAFFECTED, None),
        (subject(C.UNPLACED, shape=HOLDS), D.UNPLACED, "threads_unplaced"),
        (subject(C.STRANDED, STRANDED, shape=HOLDS), D.HOLDS_OLD_FIELD, None),
        (subject(C.STRANDED, STRANDED, shape=HOLDS_NOT), D.UNREAD, "threads_unread"),
        (subject(C.UNREAD, shape=HOLDS_NOT), D.UNREAD, "threads_unread"),
        (subject(C.SETTLED, DEALT_WITH, shape=HOLDS), D.UNAFFECTED, None),
    ],
)
def test_a_removed_field_matters_only_where_work_is_pending(
    found: Subject, disposition: Disposition, reason: str | None
) -> None:
    assert of(found, REMOVE) == (disposition, reason)


@pytest.mark.parametrize(
    ("found", "disposition"),
    [
        (subject(shape=HOLDS), D.MAY_HOLD_TARGET),
        (subject(shape=HOLDS, routes=routes("intake", joins=["j"])), D.MAY_HOLD_TARGET),
        (subject(shape=HOLDS, routes=replace(routes(joins=["j"]), empty=frozenset({"j"}))), D.UNAFFECTED),
        (subject(shape=HOLDS, routes=routes("intake", "t")), D.UNAFFECTED),
        (subject(shape=HOLDS_NOT), D.UNAFFECTED),
    ],
)
def test_work_that_may_wait_at_a_join_may_need_a_field_that_is_to_be_removed(
    found: Subject, disposition: Disposition
) -> None:
    assert of(found, REMOVE, joins=frozenset({"j"}), deferred=frozenset({"inner/t"}))[0] is disposition


BY_FIELD = routes("intake")

# -- erasures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "disposition", "reason"),
    [
        (subject(shape=HOLDS), D.HOLDS_OLD_FIELD, None),
        (subject(shape=HOLDS, routes=BY_FIELD), D.HOLDS_OLD_FIELD, None),
        (subject(shape=HOLDS_NOT), D.MAY_HOLD_TARGET, "history_unseen"),
        (subject(shape=HOLDS_NOT, routes=routes("intake", fields=["note", "legacy_notes"])), D.HOLDS_OLD_FIELD, None),
        (subject(shape=HOLDS_NOT, routes=routes("intake", fields=["note"])), D.UNAFFECTED, None),
        (subject(shape=shape({"legacy_notes": None}), routes=routes("intake", fields=["note"])), D.UNAFFECTED, None),
        (subject(C.PRESUMED_SETTLED, shape=None, routes=BY_FIELD), D.UNAFFECTED, None),
        (subject(C.PARKED, ELSEWHERE, shape=HOLDS_NOT, routes=BY_FIELD), D.UNAFFECTED, None),
        (subject(C.PARKED, WorkLeaf("finish", sent=True), routes=BY_FIELD), D.MAY_HOLD_TARGET, "deferred_unseen"),
        (subject(C.HALF_STEP, work=Work((), True), routes=BY_FIELD), D.MAY_HOLD_TARGET, "half_step_unseen"),
        (subject(C.UNREAD, routes=BY_FIELD), D.UNREAD, "threads_unread"),
        (subject(C.RUNNING, routes=BY_FIELD), D.RUNNING_UNSEEN, "running_unseen"),
        (subject(C.RUNNING, routes=BY_FIELD, reading_is_current=True), D.UNAFFECTED, None),
        (subject(routes=routes("intake", sends=True)), D.MAY_HOLD_TARGET, "history_unseen"),
        (subject(routes=routes()), D.MAY_HOLD_TARGET, "history_unseen"),
        (subject(C.GONE, shape=HOLDS), D.GONE, None),
    ],
)
def test_an_erasure_blocks_wherever_the_field_is_stored(
    found: Subject, disposition: Disposition, reason: str | None
) -> None:
    assert of(found, ERASE) == (disposition, reason)


def test_a_stored_field_is_found_under_the_hash_of_its_name() -> None:
    hashed = names("other").hashed("passport_number")
    found = subject(shape=HOLDS_NOT, routes=routes(fields=[hashed]))
    assert of(found, target("erase", "passport_number"))[0] is D.HOLDS_OLD_FIELD


# -- what excludes a thread -------------------------------------------------------------------------------------------


def test_a_waived_thread_is_excluded_whatever_it_is_doing() -> None:
    for condition in C:
        expected = D.GONE if condition is C.GONE else D.WAIVED
        assert of(subject(condition, HERE, is_waived=True), target(), ERASE)[0] is expected


def test_retention_takes_settled_threads_out_of_every_target_but_an_erasure() -> None:
    old = subject(shape=shape({"customer_name": "a", "legacy_notes": "x"}), is_past_retention=True)
    assert of(old, RENAME_TARGET)[0] is D.RETENTION
    assert of(old, target())[0] is D.RETENTION
    assert of(old, ERASE)[0] is D.HOLDS_OLD_FIELD
    assert of(old, RENAME_TARGET, ERASE)[0] is D.HOLDS_OLD_FIELD


@pytest.mark.parametrize("condition", [found for found in C if found not in (C.SETTLED, C.GONE)])
def test_retention_is_for_settled_threads_only(condition: Condition) -> None:
    found = subject(condition, HERE, shape=shape({"customer_name": "a"}), is_past_retention=True)
    assert of(found, target(), RENAME_TARGET)[0] is not D.RETENTION


def test_retention_does_not_hide_that_a_settled_thread_was_not_read_with_the_node() -> None:
    assert of(subject(revision_id=2, is_past_retention=True), target()) == (D.PRESUMED, "idle_unverified")


@pytest.mark.parametrize("condition", [C.STRANDED, C.LOST, C.SETTLED])
def test_what_was_acknowledged_is_excluded_from_its_target_alone(condition: Condition) -> None:
    found = subject(condition, DEALT_WITH, shape=shape({"customer_name": "a"}))
    assert of(found, target())[0] is D.ACKNOWLEDGED
    assert of(found, target(), RENAME_TARGET)[0] is D.HOLDS_OLD_FIELD


def test_another_loss_at_the_target_is_not_covered_by_the_acknowledgement() -> None:
    assert of(subject(C.STRANDED, DEALT_WITH, STRANDED), target())[0] is D.STRANDED


def test_a_thread_that_waits_there_again_blocks_although_its_loss_was_acknowledged() -> None:
    assert of(subject(C.PARKED, HERE, DEALT_WITH), target())[0] is D.PARKED_AT_TARGET
    assert of(subject(C.PARKED, WorkLeaf(NODE, acknowledged=True)), target())[0] is D.PARKED_AT_TARGET


def test_an_acknowledgement_hides_nothing_that_could_not_be_seen() -> None:
    assert of(subject(C.UNREAD, DEALT_WITH), target())[0] is D.UNREAD
    assert of(subject(C.RUNNING, DEALT_WITH), target())[0] is D.RUNNING_UNSEEN
    half_done = subject(C.STRANDED, work=Work((DEALT_WITH,), half_step=True))
    assert of(half_done, target()) == (D.MAY_HOLD_TARGET, "half_step_unseen")


@MANY
@given(SUBJECTS, TARGETS, st.booleans())
def test_nothing_is_excluded_but_by_a_person_or_a_rule(found: Subject, targets: list[Target], past: bool) -> None:
    disposition = judge(found, targets, rules()).overall.disposition
    if disposition.group == "excluded" and found.condition is not C.GONE:
        acknowledged = any(leaf.acknowledged and not leaf.scheduled for leaf in found.work.leaves)
        assert found.is_waived or acknowledged or found.is_past_retention
