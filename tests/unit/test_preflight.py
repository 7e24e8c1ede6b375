"""What a candidate changes, and what that means for classes of threads: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.drains.preflight import Change, ChangeKind, Deployed, compare
from app.drains.preflight_answers import ChangeAnswer, PreflightReason, verdict_of
from app.drains.preflight_drains import drains_for
from app.drains.preflight_outcomes import Outcome, is_witnessed, outcome_of
from app.drains.spec import Policy
from app.drains.subjects import Routes, Rules, Subject, Work, WorkLeaf
from app.facts.candidates import Candidate, CandidateField
from app.facts.schemas import field_type
from app.facts.types import Condition, FieldFact, FieldType, Kind, Presence, Shape
from app.settings import DrainSettings

TEXT = field_type({"type": "string"})
RULES = Rules(
    revision_nodes={1: frozenset({"a", "ask", "desk", "desk/sub", "t"})},
    joins=frozenset(),
    deferred=frozenset(),
    find=lambda fields, name: fields.get(name),
    policy=Policy(),
    newest_versions={},
    revision_fields={1: frozenset({"note"})},
)


def deployed(*nodes: str, edges: Any = (), fields: Any = ("note",), **more: Any) -> Deployed:
    return Deployed(
        "g", frozenset(nodes), frozenset(edges), more.pop("deferred", frozenset()), frozenset(fields), **more
    )


def candidate(*nodes: str, edges: Any = (), fields: Any = ("note",), **more: Any) -> Candidate:
    found = fields if isinstance(fields, Mapping) else {name: CandidateField(TEXT) for name in fields}
    return Candidate("g", more.pop("kind", "graph"), frozenset(nodes), frozenset(edges), fields=found, **more)


def changes(before: Deployed, after: Candidate) -> list[tuple[str, str, str | None]]:
    return [(one.kind.value, one.name, one.renamed_to) for one in compare({"g": before}, {"g": after}, is_whole=True)]


def subject(condition: Condition, *leaves: WorkLeaf, half_step: bool = False, **more: Any) -> Subject:
    return Subject(
        condition=condition,
        work=Work(leaves, half_step),
        shape=more.pop("shape", None),
        revision_id=more.pop("revision_id", 1),
        reading_is_current=True,
        routes=more.pop("routes", None),
        **more,
    )


# --- What changes ----------------------------------------------------------------------------------------------------


def test_the_same_graph_changes_nothing() -> None:
    assert changes(deployed("a", "ask"), candidate("a", "ask")) == []


def test_of_a_removed_subgraph_only_the_top_is_named() -> None:
    before = deployed("a", "desk", "desk/sub", "desk/deep/down")
    assert changes(before, candidate("a")) == [("node_removed", "desk", None)]


def test_a_node_is_not_suggested_at_another_depth_or_with_other_neighbours() -> None:
    before = deployed("a", "desk", "desk/sub", edges=[("a", "desk", False)])
    assert changes(before, candidate("a", "desk", "sub", edges=[("a", "desk", False)]))[0] == (
        "node_removed",
        "desk/sub",
        None,
    )


def test_two_fields_that_went_are_never_a_rename() -> None:
    before = deployed("a", fields=("x", "y"))
    assert [one[2] for one in changes(before, candidate("a", fields=("z",)))] == [None, None, None]


def test_a_field_of_another_type_is_no_rename() -> None:
    before = deployed("a", fields=("old",), types={"old": TEXT})
    number = CandidateField(field_type({"type": "integer"}))
    assert changes(before, candidate("a", fields={"new": number}))[0] == ("field_removed", "old", None)


def test_a_graph_that_declares_no_fields_shows_all_that_is_stored() -> None:
    assert changes(deployed("a", fields=()), candidate("a", fields=("x",))) == []
    assert changes(deployed("a", fields=("x",)), candidate("a", fields=())) == []


def test_a_field_that_nodes_need_is_noticed_where_the_server_told_no_fields() -> None:
    needed = {"x": CandidateField(TEXT, required_by=frozenset({"a"}))}
    assert changes(deployed("a", fields=()), candidate("a", fields=needed)) == [("field_required", "x", None)]


FLOW = [("__start__", "flow", False), ("flow", "__end__", True)]


def test_an_entrypoint_may_be_renamed_and_what_is_inside_is_not_known() -> None:
    before = deployed("flow", edges=FLOW, fields=())
    after = candidate("stream", fields=(), kind="entrypoint", tasks={"stream": ("first",)})
    assert changes(before, after) == [("tasks_unseen", "flow", None)]


def test_a_graph_of_one_node_that_always_ends_is_no_entrypoint() -> None:
    edges = [("__start__", "flow", False), ("flow", "__end__", False)]
    after = candidate("stream", fields=(), kind="entrypoint")
    assert ("node_removed", "flow", None) in changes(deployed("flow", edges=edges, fields=()), after)


def test_the_order_of_tasks_is_compared_where_it_was_pushed() -> None:
    known = candidate("flow", fields=(), kind="entrypoint", tasks={"flow": ("first", "second")})
    before = deployed("flow", edges=FLOW, fields=(), pushed=known)
    assert changes(before, known) == []
    assert changes(before, replace(known, tasks={"flow": ("second", "first")})) == [("tasks_changed", "flow", None)]


@pytest.mark.parametrize(("now", "matters"), [
    ({}, True),
    ({"x": CandidateField(TEXT)}, False),
    ({"x": CandidateField(TEXT), "new": CandidateField(TEXT)}, False),
    ({"x": CandidateField(TEXT), "new": CandidateField(TEXT, required_by=frozenset({"sub"}))}, True),
    ({"x": CandidateField(TEXT, required_by=frozenset({"sub"}))}, True),
    ({"x": CandidateField(field_type({"type": "integer"}))}, True),
])  # fmt: skip
def test_fields_of_a_subgraph_matter_where_they_may_be_missed_or_refused(now: Any, matters: bool) -> None:
    known = candidate("desk", "desk/sub", inner_fields={"desk": {"x": CandidateField(TEXT)}})
    before = deployed("desk", "desk/sub", pushed=known)
    assert bool(changes(before, replace(known, inner_fields={"desk": now}))) is matters


@pytest.mark.parametrize(("told", "now", "expected"), [
    ({"desk": {"x": TEXT}}, {"x": CandidateField(TEXT)}, []),
    ({"desk": {"x": TEXT}}, {}, [("inner_field_changed", "desk.x")]),
    ({"desk": {"x": field_type({"type": "integer"})}}, {"x": CandidateField(TEXT)}, [("inner_field_changed", "desk.x")]),
    ({"desk": {}}, {"x": CandidateField(TEXT)}, [("inner_field_changed", "desk.x")]),
    ({"desk": {}}, {}, []),
    ({"desk": {"x": TEXT}}, {"x": CandidateField(TEXT, checked_by=frozenset({"sub"}))}, [("inner_checks_unseen", "desk")]),
    ({}, {"x": CandidateField(TEXT)}, [("inner_fields_unseen", "desk")]),
    (None, {"x": CandidateField(TEXT)}, [("inner_fields_unseen", "desk")]),
])  # fmt: skip
def test_without_a_topology_the_server_tells_what_fields_of_a_subgraph_take(told: Any, now: Any, expected: Any) -> None:
    before = deployed("desk", "desk/sub", inner_types=told)
    after = candidate("desk", "desk/sub", inner_fields={"desk": now})
    assert [(kind, name) for kind, name, _ in changes(before, after)] == expected


def test_a_join_of_one_node_is_known_only_from_a_topology() -> None:
    one = frozenset({(frozenset({"a"}), "t")})
    edges = [("a", "t", False)]
    known = candidate("a", "t", edges=edges, joins=one)
    before = deployed("a", "t", edges=edges)
    assert changes(replace(before, pushed=known), candidate("a", "t", edges=edges)) == [("join_changed", "t", None)]


# --- What it means ---------------------------------------------------------------------------------------------------

REMOVED = Change(ChangeKind.NODE_REMOVED, "g", "ask")
WAITS = WorkLeaf("ask")


@pytest.mark.parametrize(("known", "expected"), [
    (subject(Condition.PARKED, WAITS), Outcome.WOULD_STRAND),
    (subject(Condition.PARKED, replace(WAITS, sent=True)), Outcome.WOULD_DROP_SEND),
    (subject(Condition.PARKED, replace(WAITS, sent=True), WAITS), Outcome.WOULD_STRAND),
    (subject(Condition.FAILED, replace(WAITS, failed=True)), Outcome.WOULD_STRAND),
    (subject(Condition.RUNNING, WAITS), Outcome.WOULD_STRAND),
    (subject(Condition.SCHEDULED, WAITS), Outcome.WOULD_STRAND),
    (subject(Condition.PARKED, WorkLeaf("a")), Outcome.SAFE),
    (subject(Condition.PARKED, WorkLeaf("a"), half_step=True), Outcome.MAY_STRAND),
    (subject(Condition.HALF_STEP, half_step=True), Outcome.MAY_STRAND),
    (subject(Condition.SETTLED), Outcome.SAFE),
    (subject(Condition.SETTLED, revision_id=None), Outcome.UNKNOWN),
    (subject(Condition.PRESUMED_SETTLED), Outcome.UNKNOWN),
    (subject(Condition.UNREAD), Outcome.UNKNOWN),
    (subject(Condition.UNPLACED), Outcome.UNKNOWN),
    (subject(Condition.UNREADABLE), Outcome.UNKNOWN),
    (subject(Condition.GRAPH_MISSING), Outcome.UNKNOWN),
    (subject(Condition.NEVER_RAN), Outcome.SAFE),
    (subject(Condition.GONE, WAITS), Outcome.SAFE),
])  # fmt: skip
def test_a_removed_node_by_what_threads_do(known: Subject, expected: Outcome) -> None:
    assert outcome_of(REMOVED, known, RULES) is expected


def test_a_node_that_its_join_has_started_is_stranded_when_the_join_waits_for_others() -> None:
    change = Change(ChangeKind.JOIN_CHANGED, "g", "t")
    by_join = subject(Condition.STRANDED, WorkLeaf("t", scheduled=False))
    by_edge = subject(Condition.PARKED, WorkLeaf("t"))
    assert outcome_of(change, by_join, RULES) is Outcome.WOULD_STRAND
    assert outcome_of(change, by_edge, RULES) is Outcome.MAY_STRAND
    assert outcome_of(change, subject(Condition.SETTLED), RULES) is Outcome.SAFE


def led(*joins: str, branch: bool = False, empty: bool = False) -> Routes:
    """A thread that was led to `t` by joins of these nodes, or by an edge of its own."""
    return Routes(
        branches=frozenset({"a", "t"} if branch else {"a"}),
        joins=frozenset({"t"} if joins else ()),
        sends=False,
        empty=frozenset({"t"} if empty else ()),
        waits_for=frozenset(("t", frozenset(one)) for one in joins),
    )


JOINED, PLAIN = frozenset({frozenset("ab")}), frozenset[frozenset[str]]()


@pytest.mark.parametrize(("routes", "as_a_join", "as_edges"), [
    (led(), True, True),
    (led("ab"), True, False),
    (led("ab", empty=True), True, True),
    (led("abc"), False, False),
    (led("ab", "abc"), False, False),
    (led("abc", empty=True), True, True),
    (led(branch=True), False, True),
    (led("ab", branch=True), False, False),
    (replace(led("ab"), waits_for=None), False, False),
    (None, False, False),
])  # fmt: skip
def test_what_a_thread_has_stored_tells_whether_the_candidate_goes_on_with_it(
    routes: Routes | None, as_a_join: bool, as_edges: bool
) -> None:
    parked = subject(Condition.PARKED, WorkLeaf("b"), routes=routes)
    for joins, fits in ((JOINED, as_a_join), (PLAIN, as_edges)):
        change = Change(ChangeKind.JOIN_UNSEEN, "g", "t", is_suspected=True, joins=joins, joins_anew=bool(joins))
        expected = Outcome.SAFE if fits else Outcome.UNKNOWN
        assert outcome_of(change, parked, RULES) is expected
        assert outcome_of(replace(change, kind=ChangeKind.JOIN_CHANGED), parked, RULES) is (
            Outcome.SAFE if fits else Outcome.MAY_STRAND
        )
        for more in ({"condition": Condition.RUNNING}, {"work": Work((WorkLeaf("b"),), half_step=True)}):
            assert outcome_of(change, replace(parked, **more), RULES) is Outcome.UNKNOWN  # type: ignore[arg-type]


def test_an_idle_thread_that_nobody_read_is_safe_where_others_show_how_its_graph_leads_to_a_node() -> None:
    change = Change(ChangeKind.JOIN_UNSEEN, "g", "t", is_suspected=True, joins=JOINED, joins_anew=True)
    unread = subject(Condition.PRESUMED_SETTLED)
    shown, other = (subject(Condition.SETTLED, routes=led(*joins)) for joins in (("ab",), ("abc",)))
    for witnesses, expected in (([], False), ([subject(Condition.SETTLED, routes=led())], False), ([shown], True)):
        assert is_witnessed(change, [unread, *witnesses]) is expected
    assert not is_witnessed(change, [shown, other])
    assert outcome_of(replace(change, is_witnessed=True), unread, RULES) is Outcome.SAFE
    assert outcome_of(change, unread, RULES) is Outcome.UNKNOWN
    assert outcome_of(replace(change, is_witnessed=True), subject(Condition.UNREAD), RULES) is Outcome.UNKNOWN


@pytest.mark.parametrize("kind", [ChangeKind.FIELD_REQUIRED, ChangeKind.FIELD_RETYPED])
def test_a_check_that_may_have_been_there_all_along_matters_to_threads_that_it_refuses_only(kind: ChangeKind) -> None:
    change = Change(
        kind, "g", "x", candidate=candidate("a", "ask"), field=NEEDED, before=NEEDED.type, is_suspected=True
    )
    fits, wrong = (Shape({"x": FieldFact(Presence.PRESENT, one)}) for one in (Kind.INTEGER, Kind.OBJECT))
    lacks = Shape({})
    refused = lacks if kind is ChangeKind.FIELD_REQUIRED else wrong
    for condition in (Condition.PARKED, Condition.UNREAD, Condition.STRANDED, Condition.SETTLED):
        assert outcome_of(change, subject(condition, WAITS, shape=refused), RULES) is Outcome.UNKNOWN
        assert outcome_of(change, subject(condition, WAITS, shape=fits), RULES) is Outcome.SAFE
        assert outcome_of(change, subject(condition, WAITS), RULES) is Outcome.SAFE


CONDITIONS = st.sampled_from([one for one in Condition if one not in (Condition.GONE, Condition.NEVER_RAN)])
LEAVES = st.lists(
    st.builds(WorkLeaf, st.sampled_from(["a", "ask", "desk", "desk/sub", "t"]), st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    max_size=3,
)  # fmt: skip
NEEDED = CandidateField(FieldType("d", frozenset({Kind.INTEGER})), frozenset({"a", "ask"}), frozenset({"a", "ask"}))
EVERY = [
    Change(kind, "g", "ask", candidate=candidate("a", "ask"), field=NEEDED, within="ask")
    for kind in ChangeKind
    if kind
    not in (
        ChangeKind.BREAKPOINT_CHANGED,
        ChangeKind.GRAPH_ADDED,
        ChangeKind.NODE_ADDED,
        ChangeKind.FIELD_ADDED,
        ChangeKind.INNER_CHECKS_UNSEEN,  # all that is known says that nothing changes
    )
]


@given(st.sampled_from(EVERY), CONDITIONS, LEAVES)
def test_what_was_not_read_is_never_safe(change: Change, condition: Condition, leaves: list[WorkLeaf]) -> None:
    unread = subject(condition, *leaves, revision_id=None, shape=None)
    if condition in (Condition.UNREAD, Condition.UNREADABLE, Condition.GRAPH_MISSING, Condition.UNPLACED):
        assert outcome_of(change, unread, RULES) is not Outcome.SAFE


@given(st.lists(st.sampled_from(list(Outcome)), max_size=6), st.sampled_from(list(Outcome)))
def test_one_more_thread_never_makes_a_verdict_better(outcomes: list[Outcome], more: Outcome) -> None:
    order = ["safe", "unknown", "blocked"]
    before, after = (verdict_of([_answer(one) for one in found], []) for found in (outcomes, [*outcomes, more]))
    assert order.index(after) >= order.index(before)
    assert verdict_of([_answer(one) for one in outcomes], [PreflightReason("scan_stale", "Old.")]) != "safe"


def _answer(outcome: Outcome) -> ChangeAnswer:
    return ChangeAnswer("node_removed", "g", "ask", outcome.value, 1, "So.")


def test_every_fact_of_a_field_counts() -> None:
    """Row and state may say different things; the worst of them is what happens."""
    change = Change(ChangeKind.FIELD_RETYPED, "g", "x", candidate=candidate("a", "ask"), field=NEEDED)
    fits = Shape({"x": FieldFact(Presence.PRESENT, Kind.INTEGER)})
    wrong = Shape({"x": FieldFact(Presence.PRESENT, Kind.OBJECT)})
    both = subject(Condition.PARKED, WAITS, shape=fits, state_shape=wrong)
    assert outcome_of(change, both, RULES) is Outcome.WOULD_FAIL_TO_LOAD
    assert outcome_of(change, replace(both, state_shape=fits), RULES) is Outcome.SAFE
    assert outcome_of(change, subject(Condition.PARKED, WAITS), RULES) is Outcome.UNKNOWN


# --- The drains that are needed --------------------------------------------------------------------------------------


def test_the_drain_that_is_needed_is_one_that_can_be_made_and_is_named_the_same_every_time() -> None:
    found = [
        REMOVED,
        Change(ChangeKind.FIELD_RETYPED, "g", "x", field=NEEDED),
        Change(ChangeKind.FIELD_REMOVED, "g", "old", "new"),
    ]
    weighed = [ChangeAnswer(one.kind.value, "g", one.name, "would_strand", 1, "So.") for one in found]
    [drain] = drains_for("prod", found, weighed)
    made = DrainSettings.model_validate(drain)
    assert (made.remove_nodes, made.require_kinds, made.rename_fields[0].new) == (("ask",), {"x": "integer"}, "new")
    assert drains_for("prod", found, weighed) == ({**drain},)
    assert drains_for("prod", found, [replace(one, outcome="safe") for one in weighed]) == ()
