"""What the Agent Server answers, reduced to facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.facts.types import Cause, Interrupt, Kind, Presence, Reading, Status
from app.sources.agent_server import reduce
from app.sources.agent_server.reduce import Malformed
from tests.unit.builders import drawing, raw_row, raw_run, raw_state, raw_storage, raw_task, reading
from tests.unit.test_privacy import JSON

GARBAGE = settings(max_examples=80, deadline=None)


# -- garbage --------------------------------------------------------------------------------------------------------

TIMES = st.sampled_from(
    ["2026-11-30T12:00:00Z", "2026-11-30", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "x", ""]
)
NEAR = st.one_of(JSON, TIMES)


def near(shape: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object that has the right keys, some with garbage in them and some missing."""
    return st.dictionaries(st.sampled_from(sorted(shape)), NEAR, max_size=4).flatmap(
        lambda wrong: st.sets(st.sampled_from(sorted(shape)), max_size=3).map(
            lambda gone: {key: value for key, value in (shape | wrong).items() if key not in gone}
        )
    )


def only_malformed(call: Any) -> None:
    try:
        call()
    except Malformed as error:
        assert str(error)  # noqa: PT017


@GARBAGE
@given(st.one_of(JSON, near(raw_row())))
def test_any_json_is_a_row_or_malformed(raw: Any) -> None:
    only_malformed(lambda: reduce.reduce_row(raw, reading()))


@GARBAGE
@given(
    st.one_of(
        JSON, near(raw_state(raw_task())), near(raw_task()).map(lambda task: {"tasks": [task], "checkpoint_id": "C"})
    )
)
def test_any_json_is_a_state_or_malformed(raw: Any) -> None:
    only_malformed(lambda: reduce.reduce_state(raw, reading()))


@GARBAGE
@given(st.one_of(JSON, near(raw_run()).map(lambda run: [run])))
def test_any_json_is_a_list_of_runs_or_malformed(raw: Any) -> None:
    only_malformed(lambda: reduce.reduce_runs(raw))


@GARBAGE
@given(st.one_of(JSON, near(raw_storage("note"))))
def test_any_json_is_a_storage_or_malformed(raw: Any) -> None:
    only_malformed(lambda: reduce.reduce_storage(raw, reading()))


@GARBAGE
@given(st.one_of(JSON, near(drawing("a", "b"))), JSON)
def test_any_json_is_a_graph_or_malformed(raw: Any, schemas: Any) -> None:
    only_malformed(lambda: reduce.reduce_graph("g", "a", plain=raw, xray=raw, schemas=schemas))
    only_malformed(lambda: reduce.reduce_drawing(raw))


@pytest.mark.parametrize("key", ["created_at", "updated_at", "state_updated_at"])
@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_no_utc_clock_can_show_is_malformed_and_no_crash(key: str, time: str) -> None:
    only_malformed(lambda: reduce.reduce_row(raw_row(**{key: time}), reading()))


def test_a_state_as_deep_as_a_parser_lets_through_is_read_or_malformed() -> None:
    text = raw_state()
    for _ in range(240):
        text = raw_state(raw_task(state=text))
    only_malformed(lambda: reduce.reduce_state(text, reading()))


@pytest.mark.parametrize("raw", [{}, {"detail": "x"}, {"values": {}}, {"checkpoint": None}, {"tasks": [], "next": []}])
def test_an_object_without_the_parts_of_a_state_is_malformed_and_no_thread_that_never_ran(raw: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        reduce.reduce_state(raw, reading())


# -- rows -----------------------------------------------------------------------------------------------------------


def test_a_nul_in_a_name_is_dropped_since_no_database_takes_it() -> None:
    """PostgreSQL refuses it in text, and one thread must not stop a poll."""
    strange = {"graph_id": "a\x00b", "region": "e\x00u"}
    found = reduce.reduce_row(raw_row(metadata=strange), replace(reading(), metadata_keys=("region",)))
    assert (found.graph_id, found.metadata) == ("ab", {"region": "eu"})


def test_a_row_without_values_says_nothing_of_fields() -> None:
    without = raw_row()
    del without["values"]
    for raw in (raw_row(values=None), without, raw_row(values=[1])):
        assert reduce.reduce_row(raw, reading()).shape is None


def test_a_row_with_empty_values_has_a_shape_in_which_everything_is_absent() -> None:
    shape = reduce.reduce_row(raw_row(values={}), reading()).shape
    assert shape is not None
    assert shape.fields == {}
    assert shape.versions["state_version"].reading is Reading.MISSING


def test_a_row_is_reduced_to_ids_kinds_and_times() -> None:
    row = reduce.reduce_row(
        raw_row(
            status="interrupted",
            values={"note": "", "state_version": 0, "customer_name": None},
            interrupts={"t1": [{"id": "i1", "value": "x"}, {"id": "i2"}], "t2": [{"value": "no id"}], "t3": "x"},
        ),
        reading(),
    )
    assert row.status is Status.INTERRUPTED
    assert row.interrupts == (Interrupt("t1", "i1"), Interrupt("t1", "i2"))
    assert row.shape is not None
    assert {name: fact.presence for name, fact in row.shape.fields.items()} == {
        "customer_name": Presence.NULL,
        "note": Presence.EMPTY,
        "state_version": Presence.PRESENT,
    }
    assert row.shape.versions["state_version"].value == 0


def test_times_of_any_zone_become_utc() -> None:
    row = reduce.reduce_row(
        raw_row(created_at="2026-11-30T14:00:00+02:00", updated_at="2026-11-30T12:00:00"), reading()
    )
    assert row.created_at == row.updated_at
    assert row.created_at.isoformat().endswith("+00:00")


# -- states -----------------------------------------------------------------------------------------------------------


def test_a_thread_that_never_ran_has_no_checkpoint_and_no_shape() -> None:
    raw = raw_state(
        checkpoint_id=None, values={}, metadata=None, created_at=None, parent_checkpoint=None, parent_checkpoint_id=None
    )
    state = reduce.reduce_state(raw, reading())
    assert (state.checkpoint_id, state.shape, state.leaves, state.heads) == (None, None, (), {})


def test_a_task_that_waits_is_a_leaf_with_its_interrupts() -> None:
    state = reduce.reduce_state(raw_state(raw_task(interrupts=[{"id": "i", "value": 1}])), reading())
    assert [(leaf.node, leaf.ns, leaf.interrupts, leaf.cause) for leaf in state.leaves] == [
        ("await_approval", "", 1, Cause.DYNAMIC)
    ]


def test_a_finished_task_beside_a_waiting_one_is_half_a_step() -> None:
    state = reduce.reduce_state(raw_state(raw_task("a", "t1", result={}), raw_task("b", "t2")), reading())
    assert [leaf.node for leaf in state.leaves] == ["b"]
    assert state.unapplied == ("a",)


def test_a_task_for_each_send_is_a_leaf_of_its_own() -> None:
    state = reduce.reduce_state(
        raw_state(raw_task("work", "t1"), raw_task("work", "t2"), raw_task("work", "t3", result={})), reading()
    )
    assert [leaf.task_id for leaf in state.leaves] == ["t1", "t2"]
    assert state.unapplied == ("work",)


def test_inner_nodes_are_paths_in_the_namespace_of_their_task() -> None:
    deepest = raw_state(raw_task("ask", "t3"), checkpoint_id="C3")
    middle = raw_state(raw_task("desk", "t2", state=deepest), checkpoint_id="C2")
    state = reduce.reduce_state(raw_state(raw_task("nested", "t1", state=middle), checkpoint_id="C1"), reading())
    (leaf,) = state.leaves
    assert (leaf.node, leaf.ns, leaf.checkpoint_id) == ("nested/desk/ask", "nested:t1|desk:t2", "C3")
    assert state.heads == {"": "C1", "nested:t1": "C2", "nested:t1|desk:t2": "C3"}


@pytest.mark.parametrize(
    ("changes", "unseen"),
    [
        ({"state": None}, False),
        ({"state": None, "checkpoint": {"configurable": {"checkpoint_ns": "nested:t"}}}, True),
        ({"state": raw_state(checkpoint_id="I")}, True),
        ({"state": raw_state(checkpoint_id=None)}, False),
    ],
)
def test_a_subgraph_whose_place_is_not_shown_may_hold_anything_below(changes: dict[str, Any], unseen: bool) -> None:
    (leaf,) = reduce.reduce_state(raw_state(raw_task("nested", **changes)), reading()).leaves
    assert (leaf.node, leaf.inside_unseen) == ("nested", unseen)


@pytest.mark.parametrize(
    ("error", "error_class", "cause"),
    [
        ("ValueError('secret')", "ValueError", Cause.UNKNOWN),
        ("something secret", "error", Cause.UNKNOWN),
        ("CancelledError()", None, Cause.CANCELLED),
        (None, None, Cause.UNKNOWN),
    ],
)
def test_a_cancelled_task_did_not_fail_by_itself(error: str | None, error_class: str | None, cause: Cause) -> None:
    (leaf,) = reduce.reduce_state(raw_state(raw_task(error=error)), reading()).leaves
    assert (leaf.error_class, leaf.cause) == (error_class, cause)


def test_a_name_in_next_without_a_task_is_pending_all_the_same() -> None:
    state = reduce.reduce_state(raw_state(raw_task("a"), next=["a", "b", "b"]), reading())
    assert sorted(leaf.node for leaf in state.leaves) == ["a", "b", "b"]


def test_a_slash_in_a_nodes_name_is_no_level() -> None:
    (leaf,) = reduce.reduce_state(raw_state(raw_task("ask/again")), reading()).leaves
    assert leaf.node == "ask%2Fagain"


# -- runs, storage ------------------------------------------------------------------------------------------------------


def test_only_active_runs_are_kept() -> None:
    runs = reduce.reduce_runs(
        [raw_run(status) for status in ("pending", "running", "success", "error", "timeout", "interrupted")]
    )
    assert [run.status for run in runs] == ["pending", "running"]


@pytest.mark.parametrize(
    ("durability", "kept"),
    [("sync", "sync"), ("async", "async"), ("exit", "exit"), ("secret", None), (None, None), ([], None)],
)
def test_durability_is_one_of_three_words(durability: Any, kept: str | None) -> None:
    (run,) = reduce.reduce_runs([raw_run(durability=durability)])
    assert run.durability == kept


def test_storage_tells_routes_joins_sends_and_names() -> None:
    storage = reduce.reduce_storage(
        raw_storage("note", "__start__", "branch:to:b/c", "join:a+b:t", "__pregel_tasks", "jane@example.org"), reading()
    )
    assert storage.branches == {"b%2Fc"}
    assert storage.joins == {"t"}
    assert storage.sends
    assert len(storage.fields) == 2
    assert "note" in storage.fields
    assert not any("jane" in name for name in storage.fields)
    assert storage.checkpoints == 3


def test_a_row_keeps_the_kind_of_a_field() -> None:
    shape = reduce.reduce_row(raw_row(values={"note": 1.5}), reading()).shape
    assert shape is not None
    assert shape.fields["note"].kind is Kind.NUMBER
