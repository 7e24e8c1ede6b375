"""What one thread means for one drain: exactly one disposition, the first that applies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.drains.dispositions import Disposition
from app.drains.entered import never_entered
from app.drains.judging import judge
from app.drains.spec import Policy, Target
from app.drains.subjects import Subject, Work, WorkLeaf
from app.facts.types import Agreement, Condition, Shape
from tests.unit.builders import NODE, RENAME_TARGET, VERSION_TARGET, names, routes, rules, shape, subject, target

HERE = WorkLeaf(NODE)
ELSEWHERE = WorkLeaf("finish")
GONE_FROM_GRAPH = WorkLeaf(NODE, scheduled=False)
C, D = Condition, Disposition


def of(found: Subject, *targets: Target, **changes: Any) -> tuple[Disposition, str | None]:
    overall = judge(found, targets or (target(),), rules(**changes)).overall
    return overall.disposition, overall.reason


@pytest.mark.parametrize(
    ("found", "disposition", "reason"),
    [
        (subject(C.SETTLED), D.UNAFFECTED, None),
        (subject(C.NEVER_RAN), D.UNAFFECTED, None),
        (subject(C.NEVER_RAN, revision_id=None), D.UNAFFECTED, None),
        (subject(C.GONE, HERE), D.GONE, None),
        (subject(C.GRAPH_MISSING), D.GRAPH_MISSING, None),
        (subject(C.UNREADABLE), D.UNREADABLE, None),
        (subject(C.PARKED, HERE), D.PARKED_AT_TARGET, None),
        (subject(C.PARKED, ELSEWHERE, HERE), D.PARKED_AT_TARGET, None),
        (subject(C.PARKED, ELSEWHERE), D.UNAFFECTED, None),
        (subject(C.PARKED, ELSEWHERE, revision_id=2), D.UNREAD, "threads_unread"),
        (subject(C.PARKED, HERE, revision_id=2), D.PARKED_AT_TARGET, None),
        (subject(C.FAILED, WorkLeaf(NODE, failed=True)), D.FAILED_AT_TARGET, None),
        (subject(C.FAILED, WorkLeaf("finish", failed=True)), D.UNAFFECTED, None),
        (subject(C.FAILED, WorkLeaf("finish", failed=True), HERE), D.PARKED_AT_TARGET, None),
        (subject(C.RUNNING, HERE), D.RUNNING_AT_TARGET, None),
        (subject(C.RUNNING, ELSEWHERE), D.RUNNING_UNSEEN, "running_unseen"),
        (subject(C.RUNNING, ELSEWHERE, reading_is_current=True), D.UNAFFECTED, None),
        (subject(C.RUNNING, reading_is_current=True, revision_id=None), D.UNREAD, "threads_unread"),
        (subject(C.SCHEDULED, HERE), D.SCHEDULED_AT_TARGET, None),
        (subject(C.SCHEDULED), D.UNAFFECTED, None),
        (subject(C.STRANDED, GONE_FROM_GRAPH), D.STRANDED, None),
        (subject(C.LOST, GONE_FROM_GRAPH), D.LOST, None),
        (subject(C.STRANDED, WorkLeaf("finish", scheduled=False)), D.UNAFFECTED, None),
        (subject(C.STRANDED, WorkLeaf("finish", scheduled=False), HERE), D.PARKED_AT_TARGET, None),
        (subject(C.UNREAD), D.UNREAD, "threads_unread"),
        (subject(C.UNREAD, HERE), D.PARKED_AT_TARGET, None),
        (subject(C.UNPLACED), D.UNPLACED, "threads_unplaced"),
        (subject(C.PRESUMED_SETTLED), D.PRESUMED, "idle_unverified"),
        (subject(C.SETTLED, revision_id=None), D.PRESUMED, "idle_unverified"),
        (subject(C.SETTLED, revision_id=2), D.PRESUMED, "idle_unverified"),
        (subject(C.SETTLED, revision_id=99), D.PRESUMED, "idle_unverified"),
        (subject(C.HALF_STEP, work=Work((), half_step=True)), D.MAY_HOLD_TARGET, "half_step_unseen"),
        (subject(C.PARKED, work=Work((ELSEWHERE,), half_step=True)), D.MAY_HOLD_TARGET, "half_step_unseen"),
        (subject(C.PARKED, work=Work((HERE,), half_step=True)), D.PARKED_AT_TARGET, None),
    ],
)
def test_a_node_drain(found: Subject, disposition: Disposition, reason: str | None) -> None:
    assert of(found) == (disposition, reason)


@pytest.mark.parametrize(
    ("leaf", "node", "hit"),
    [
        ("nested/sub_wait", "nested/sub_wait", True),
        ("nested/sub_wait", "nested", True),
        ("nested", "nested/sub_wait", False),
        ("nested2", "nested", False),
    ],
)
def test_a_target_covers_every_leaf_below_its_path(leaf: str, node: str, hit: bool) -> None:
    found, _ = of(subject(C.PARKED, WorkLeaf(leaf)), target(name=node))
    assert (found is D.PARKED_AT_TARGET) == hit


def test_a_subgraph_that_cannot_be_seen_may_hold_an_inner_target() -> None:
    unseen = WorkLeaf("nested", inside_unseen=True)
    assert of(subject(C.PARKED, unseen), target(name="nested/sub_wait")) == (D.MAY_HOLD_TARGET, "deferred_unseen")
    assert of(subject(C.RUNNING, unseen, reading_is_current=True), target(name="nested/sub_wait")) == (
        D.RUNNING_UNSEEN,
        "running_unseen",
    )
    assert of(subject(C.PARKED, unseen), target(name="finish"))[0] is D.UNAFFECTED


@pytest.mark.parametrize(
    ("joins", "deferred", "stored", "waits"),
    [
        ((NODE,), (), None, True),
        ((NODE,), (), routes(), False),
        ((NODE,), (), routes(NODE), False),
        ((NODE,), (), routes(joins=[NODE]), True),
        ((), (NODE,), None, True),
        ((), (NODE,), routes(), False),
        ((), (NODE,), routes(NODE), True),
        ((), (NODE,), routes(joins=[NODE]), True),
        ((f"{NODE}/inner",), (), None, True),
        (("finish",), ("finish",), None, False),
    ],
)
def test_a_join_or_a_deferred_node_may_wait_where_no_view_shows_it(
    joins: tuple[str, ...], deferred: tuple[str, ...], stored: Any, waits: bool
) -> None:
    found = of(subject(C.SETTLED, routes=stored), joins=frozenset(joins), deferred=frozenset(deferred))
    assert found == ((D.MAY_HOLD_TARGET, "deferred_unseen") if waits else (D.UNAFFECTED, None))


PRESENT, EMPTY, NULL = "Jane", "", None


@pytest.mark.parametrize(
    ("values", "disposition"),
    [
        ({}, D.NEITHER_FIELD),
        ({"display_name": NULL}, D.NEITHER_FIELD),
        ({"display_name": EMPTY}, D.NEITHER_FIELD),
        ({"display_name": PRESENT}, D.MIGRATED),
        ({"display_name": 0}, D.MIGRATED),
        ({"display_name": False}, D.MIGRATED),
        ({"customer_name": PRESENT}, D.HOLDS_OLD_FIELD),
        ({"customer_name": 0}, D.HOLDS_OLD_FIELD),
        ({"customer_name": NULL}, D.HOLDS_OLD_FIELD),
        ({"customer_name": EMPTY}, D.HOLDS_OLD_FIELD),
        ({"customer_name": PRESENT, "display_name": NULL}, D.HOLDS_OLD_FIELD),
        ({"customer_name": PRESENT, "display_name": EMPTY}, D.HOLDS_OLD_FIELD),
        ({"customer_name": NULL, "display_name": PRESENT}, D.MIGRATED),
        ({"customer_name": EMPTY, "display_name": PRESENT}, D.MIGRATED),
        ({"customer_name": NULL, "display_name": NULL}, D.HOLDS_OLD_FIELD),
        ({"customer_name": PRESENT, "display_name": PRESENT}, D.MIGRATED),
        ({"customer_name": PRESENT, "display_name": "John"}, D.CONFLICT),
    ],
)
@pytest.mark.parametrize("condition", [C.SETTLED, C.PRESUMED_SETTLED, C.PARKED, C.FAILED, C.UNPLACED, C.STRANDED])
def test_a_rename(values: dict[str, object], disposition: Disposition, condition: Condition) -> None:
    found = of(subject(condition, shape=shape(values)), RENAME_TARGET)[0]
    hides = condition is C.STRANDED and disposition.group != "blocking"  # its head holds more than is shown
    assert found is (D.UNREAD if hides else disposition)


@pytest.mark.parametrize("condition", [C.SETTLED, C.PARKED])
def test_of_row_and_state_the_worse_counts(condition: Condition) -> None:
    old, new = shape({"customer_name": "a"}), shape({"display_name": "a"})
    assert of(subject(condition, shape=new, state_shape=old), RENAME_TARGET)[0] is D.HOLDS_OLD_FIELD
    assert of(subject(condition, shape=old, state_shape=new), RENAME_TARGET)[0] is D.HOLDS_OLD_FIELD


def test_a_state_says_nothing_of_a_field_that_its_graph_does_not_declare() -> None:
    only_read = subject(C.PARKED, shape=None, state_shape=shape({}))
    assert of(only_read, RENAME_TARGET, revision_fields={1: ("display_name",)})[0] is D.UNREAD
    assert of(only_read, RENAME_TARGET, revision_fields={1: ("customer_name",)})[0] is D.NEITHER_FIELD


@pytest.mark.parametrize(
    "work", [Work((), half_step=True), Work((WorkLeaf("other", sent=True),))], ids=["half step", "sent"]
)
def test_what_a_half_step_or_a_send_holds_does_not_show(work: Work) -> None:
    found = of(subject(C.PARKED, shape=shape({"display_name": "a"}), work=work), RENAME_TARGET)
    assert found[0] is D.MAY_HOLD_TARGET


@pytest.mark.parametrize("changes", [{"joins": frozenset({NODE})}, {"deferred": frozenset({NODE})}])
def test_a_running_thread_may_hold_a_join_or_a_deferred_target(changes: dict[str, Any]) -> None:
    running = subject(C.RUNNING, WorkLeaf("other"), reading_is_current=True)
    assert of(running, **changes)[0] is D.MAY_HOLD_TARGET


def test_a_running_thread_in_a_half_step_may_hold_the_target() -> None:
    running = subject(C.RUNNING, reading_is_current=True, work=Work((WorkLeaf("other"),), half_step=True))
    assert of(running)[0] is D.MAY_HOLD_TARGET


def test_a_rename_with_neither_field_blocks_where_the_policy_says_so() -> None:
    found = of(subject(shape=shape({})), RENAME_TARGET, policy=Policy(neither="block"))
    assert found[0].group == "blocking"


def test_both_sides_that_nobody_compared_are_unread() -> None:
    both = shape({"customer_name": "a", "display_name": "a"}, conflicts={})
    assert of(subject(shape=both), RENAME_TARGET) == (D.UNREAD, "threads_unread")


def test_a_field_that_was_kept_under_its_hash_is_found() -> None:
    kept = names("note").kept("customer_name")
    hashed = Shape(fields={kept: shape({"note": "x"}).fields["note"]})
    assert of(subject(shape=hashed), RENAME_TARGET)[0] is D.HOLDS_OLD_FIELD


@pytest.mark.parametrize(
    ("values", "disposition"),
    [
        ({"state_version": 2}, D.MIGRATED),
        ({"state_version": 3}, D.MIGRATED),
        ({"state_version": 1}, D.OLD_VERSION),
        ({"state_version": 0}, D.OLD_VERSION),
        ({}, D.OLD_VERSION),
        ({"state_version": True}, D.BAD_VERSION),
        ({"state_version": 2.0}, D.BAD_VERSION),
        ({"state_version": "2"}, D.BAD_VERSION),
        ({"state_version": None}, D.BAD_VERSION),
        ({"state_version": -1}, D.BAD_VERSION),
        ({"state_version": 10000}, D.BAD_VERSION),
    ],
)
def test_a_minimum_version(values: dict[str, object], disposition: Disposition) -> None:
    assert of(subject(shape=shape(values)), VERSION_TARGET)[0] is disposition


def test_a_missing_version_is_unaffected_where_the_policy_says_so() -> None:
    assert of(subject(shape=shape({})), VERSION_TARGET, policy=Policy(missing_version="unaffected"))[0] is D.UNAFFECTED


@pytest.mark.parametrize(("value", "disposition"), [(3, D.FUTURE_VERSION), (2, D.MIGRATED), (1, D.OLD_VERSION)])
def test_a_future_version_blocks_only_if_the_drain_says_the_newest(value: int, disposition: Disposition) -> None:
    found = subject(shape=shape({"state_version": value}))
    assert of(found, VERSION_TARGET, newest_versions={"state_version": 2})[0] is disposition


@pytest.mark.parametrize("field", [RENAME_TARGET, VERSION_TARGET])
def test_fields_that_nobody_saw_are_unread(field: Target) -> None:
    assert of(subject(shape=None), field) == (D.UNREAD, "threads_unread")
    assert of(subject(C.UNREAD), field) == (D.UNREAD, "threads_unread")
    assert of(subject(C.RUNNING), field) == (D.RUNNING_UNSEEN, "running_unseen")


def test_what_blocks_by_a_field_blocks_although_the_thread_is_unread() -> None:
    assert of(subject(C.UNREAD, shape=shape({"customer_name": "a"})), RENAME_TARGET)[0] is D.HOLDS_OLD_FIELD


def test_the_first_disposition_over_all_targets_counts_and_each_target_has_its_own() -> None:
    standing = judge(
        subject(C.PARKED, HERE, shape=shape({"customer_name": "a"})), (VERSION_TARGET, RENAME_TARGET, target()), rules()
    )
    assert standing.overall.disposition is D.PARKED_AT_TARGET
    assert {label: found.disposition for label, found in standing.by_target.items()} == {
        f"node:{NODE}": D.PARKED_AT_TARGET,
        "rename:customer_name->display_name": D.HOLDS_OLD_FIELD,
        "version:state_version>=2": D.OLD_VERSION,
    }


def test_a_field_to_remove_and_to_erase_are_two_targets_although_they_have_one_name() -> None:
    found = subject(routes=routes(fields=["note"]), shape=shape({}))
    assert of(found, target("erase", "note"), target("remove", "note"))[0] is D.HOLDS_OLD_FIELD
    assert of(found, target("remove", "note"), target("erase", "note"))[0] is D.HOLDS_OLD_FIELD


# -- properties -------------------------------------------------------------------------------------------------------

WORK_LEAVES = st.builds(
    WorkLeaf,
    st.sampled_from([NODE, "finish", "nested", "nested/sub_wait"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
SHAPES = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["customer_name", "display_name", "state_version"]),
        st.sampled_from([None, "", "a", "b", 0, 1, 2, True]),
    ).map(shape),
)
SUBJECTS = st.builds(
    Subject,
    condition=st.sampled_from(list(Condition)),
    work=st.builds(Work, st.lists(WORK_LEAVES, max_size=3).map(tuple), st.booleans()),
    shape=SHAPES,
    revision_id=st.sampled_from([None, 1, 2, 9]),
    reading_is_current=st.booleans(),
    routes=st.sampled_from([None, routes(), routes(NODE), routes(joins=[NODE], sends=True), routes(fields=["note"])]),
    is_waived=st.sampled_from([False, False, False, True]),
    is_past_retention=st.booleans(),
)
TARGETS = st.lists(
    st.sampled_from(
        [
            target(),
            target(name="nested/sub_wait"),
            RENAME_TARGET,
            VERSION_TARGET,
            target("erase", "note"),
            target("remove", "note"),
            target("kind", "note", required_kind="text"),
        ]
    ),
    min_size=1,
    max_size=3,
    unique=True,
)
MANY = settings(max_examples=400, deadline=None)


@MANY
@given(SUBJECTS, TARGETS, st.sampled_from([frozenset(), frozenset({NODE})]))
def test_every_subject_has_one_disposition_and_an_unknown_one_has_a_reason(
    found: Subject, targets: list[Target], joins: frozenset[str]
) -> None:
    standing = judge(found, targets, rules(joins=joins))
    assert standing.overall in standing.by_target.values()
    groups = {one.disposition.group for one in standing.by_target.values()}
    worst = next(group for group in ("blocking", "unknown", "excluded", "clear") if group in groups)
    assert standing.overall.disposition.group == worst
    for one in standing.by_target.values():
        assert (one.reason is not None) == (one.disposition.group == "unknown")


@MANY
@given(SUBJECTS, TARGETS, TARGETS)
def test_another_target_never_makes_a_thread_clearer(found: Subject, targets: list[Target], more: list[Target]) -> None:
    before = judge(found, targets, rules()).overall.disposition
    after = judge(found, [*targets, *more], rules()).overall.disposition
    worse = ["clear", "excluded", "unknown", "blocking"]
    assert worse.index(after.group) >= worse.index(before.group)


@MANY
@given(SUBJECTS, st.booleans())
def test_a_thread_is_clear_of_a_node_only_when_it_was_read_where_the_node_shows(found: Subject, varies: bool) -> None:
    disposition, _ = of(found, varies=varies)
    if disposition.group == "clear" and found.condition is not C.NEVER_RAN:
        by_storage = found.condition in (C.SETTLED, C.PARKED, C.FAILED) and never_entered(found, NODE)
        assert found.revision_id == 1 or (varies and by_storage)
        assert not any(leaf.node == NODE for leaf in found.work.leaves)
        assert not found.is_waived
        assert found.condition not in (C.UNREAD, C.UNPLACED, C.PRESUMED_SETTLED)


@MANY
@given(SUBJECTS, WORK_LEAVES)
def test_more_pending_work_never_makes_a_thread_clearer_of_a_node(found: Subject, leaf: WorkLeaf) -> None:
    more = replace(found, work=Work((*found.work.leaves, leaf), found.work.half_step))
    clear = judge(found, (target(),), rules()).overall.disposition.group == "clear"
    assert clear or judge(more, (target(),), rules()).overall.disposition.group != "clear"


def test_agreement_is_what_the_comparison_said() -> None:
    both = shape(
        {"customer_name": "a", "display_name": "b"}, conflicts={"customer_name->display_name": Agreement.AGREE}
    )
    assert of(subject(shape=both), RENAME_TARGET)[0] is D.MIGRATED


def test_groups_follow_the_order_of_precedence() -> None:
    order = [found.group for found in Disposition]
    assert order == sorted(order, key=["excluded", "blocking", "unknown", "clear"].index)
    assert len({found.rank for found in Disposition}) == len(Disposition)


def test_every_reason_of_every_target_counts_so_that_accepting_one_hides_no_other() -> None:
    """The inner node may run unseen, the join may wait: one thread, two reasons."""
    running = subject(C.RUNNING, WorkLeaf("nested", inside_unseen=True), reading_is_current=True)
    targets = (target(), target("node", "nested/sub_wait"))
    standing = judge(running, targets, rules(joins=frozenset({NODE})))
    assert standing.overall.reason == "deferred_unseen"
    assert standing.reasons == {"deferred_unseen", "running_unseen"}


def test_what_blocks_has_no_reason_of_the_unknown() -> None:
    parked = subject(C.PARKED, WorkLeaf(NODE), shape=None)
    assert judge(parked, (target(), VERSION_TARGET), rules()).reasons == frozenset()
