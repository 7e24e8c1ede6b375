"""What may be kept of a payload: presence, kinds, versions, names that were declared. Never a value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from app.facts.privacy import (
    Names,
    compare,
    error_class,
    fact_of,
    identifier,
    is_hashed,
    kind_of,
    node_name,
    read_version,
)
from app.facts.types import Agreement, Condition, FieldFact, Kind, Presence, Reading, VersionReading
from app.inventory.encode import detail_to_json, routes_to_json, shape_to_json, work_to_json
from app.sources.agent_server import reduce
from tests.unit.builders import (
    KEY,
    NOW,
    facts,
    names,
    raw_row,
    raw_run,
    raw_state,
    raw_storage,
    raw_task,
    reading,
    uuid_of,
)

CANARY = "canary 5c1e must not leak"
QUICK = settings(max_examples=30, deadline=None, phases=(Phase.explicit, Phase.generate))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)


def canaries() -> st.SearchStrategy[Any]:
    """JSON with the canary somewhere in it: as text, in a list, as a value or a key of an object."""
    return st.recursive(
        st.sampled_from([CANARY, f"{CANARY}!", f"ValueError('{CANARY}')", f"{CANARY}(x)"]),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=2),
            st.dictionaries(
                st.sampled_from(["error", "message", "value", "note", CANARY, "id2"]), inner, min_size=1, max_size=2
            ),
        ),
        max_leaves=4,
    )


# -- nothing leaks ------------------------------------------------------------------------------------------------


@QUICK
@given(st.data())
def test_no_value_of_any_payload_is_in_a_fact_or_in_what_is_stored_of_it(data: st.DataObject) -> None:
    put = lambda: data.draw(canaries())  # noqa: E731
    task = raw_task(
        interrupts=[{"id": "47fdaf0002f2291e3d9ca7f0f95431e7", "value": put(), "resumable": put()}],
        error=f"ValueError('{CANARY}')",
        path=put(),
    )
    inner = raw_state(raw_task("sub_wait", "t2", error=put() if data.draw(st.booleans()) else None), checkpoint_id="I")
    inner |= {"values": {"note": put()}, "metadata": {"source": "loop", "x": put()}}
    outer = raw_task("nested", "t3", state=inner, config=put())
    done = raw_task("finish", "t4", result={"note": put()})
    values = {
        "note": put(),
        CANARY: put(),
        "legacy_notes": [put()],
        "state_version": put(),
        "customer_name": put(),
        "display_name": put(),
    }
    row = reduce.reduce_row(
        raw_row(
            values=values,
            metadata={"graph_id": "support", "assistant_id": "a", "customer": put(), CANARY: put()},
            config={"configurable": put()},
            interrupts={"t1": [{"id": "47fd", "value": put()}, put()]},
            error={"error": data.draw(st.sampled_from(["ValueError", CANARY])), "message": put()},
            extracted=put(),
            status=data.draw(st.sampled_from(["idle", "busy", "interrupted", "error"])),
        ),
        reading(),
    )
    state = reduce.reduce_state(
        raw_state(
            task,
            outer,
            done,
            values=values,
            interrupts=[put()],
            config=put(),
            unknown=put(),
            metadata={
                "graph_id": "support",
                "source": "loop",
                "step": 1,
                "writes": put(),
                CANARY: put(),
                "run_id": uuid_of(7),
            },
        ),
        reading(),
    )
    runs = reduce.reduce_runs(
        [raw_run(kwargs={"durability": put(), "input": put(), "command": {"resume": put()}}, metadata=put())]
    )
    storage = reduce.reduce_storage(raw_storage("note", CANARY, "branch:to:intake") | {"more": put()}, reading())
    stored = facts(row, state=state, leaves=state.leaves, runs=runs, storage=storage, condition=Condition.FAILED)
    said = [
        repr(stored),
        json.dumps(detail_to_json(stored)),
        json.dumps(work_to_json(stored)),
        json.dumps(routes_to_json(storage)),
        *(json.dumps(shape_to_json(shape)) for shape in (row.shape, state.shape) if shape),
    ]
    for text in said:
        assert CANARY not in text
        assert "canary" not in text


def test_the_source_of_a_checkpoint_is_one_of_langgraphs_own_words() -> None:
    """The metadata of a checkpoint is the application's to write; only words that LangGraph uses are kept."""
    state = reduce.reduce_state(raw_state(metadata={"source": CANARY, "step": 1}), reading())
    assert CANARY not in repr(state)


def test_the_run_of_a_checkpoint_is_kept_only_if_it_looks_like_an_id() -> None:
    state = reduce.reduce_state(raw_state(metadata={"source": "loop", "run_id": CANARY}), reading())
    assert CANARY not in repr(state)


@QUICK
@given(canaries())
def test_a_graph_keeps_names_only(put: Any) -> None:
    drawn = {
        "nodes": [{"id": "intake", "data": put, "metadata": {"x": put}}],
        "edges": [{"source": "a", "target": "b", "data": put}],
    }
    schemas = {"state_schema": {"properties": {"note": {"default": put}}, "title": put}, "config_schema": put}
    assert "canary" not in repr(reduce.reduce_graph("g", "a", plain=drawn, xray=drawn, schemas=schemas))


def test_a_complaint_about_a_payload_does_not_repeat_it() -> None:
    for broken in (CANARY, [CANARY], raw_row(status=CANARY), raw_row(thread_id=[CANARY]), raw_row(created_at=CANARY)):
        with pytest.raises(reduce.Malformed) as error:
            reduce.reduce_row(broken, reading())
        assert CANARY not in str(error.value)
        assert error.value.__cause__ is None


@pytest.mark.parametrize(
    ("value", "kept"),
    [("eu", "eu"), (7, "7"), (True, "true"), (1.5, "1.5"), ([CANARY], ""), ({CANARY: 1}, ""), (None, "")],
)
def test_only_allow_listed_metadata_is_kept_and_only_scalars(value: object, kept: str) -> None:
    row = reduce.reduce_row(raw_row(metadata={"region": value, "other": CANARY}), reading())
    assert row.metadata == {"region": kept}


# -- names ----------------------------------------------------------------------------------------------------------


def test_a_declared_name_is_kept_in_clear_and_any_other_as_a_hash() -> None:
    known = names("note")
    assert known.kept("note") == "note"
    assert is_hashed(known.kept("jane@example.org"))
    assert "jane" not in known.kept("jane@example.org")


def test_a_field_that_is_declared_later_is_still_found() -> None:
    early, late = names("note"), names("note", "old_field")
    fields = {early.kept("old_field"): FieldFact(Presence.PRESENT, Kind.TEXT)}
    assert late.find(fields, "old_field") == FieldFact(Presence.PRESENT, Kind.TEXT)
    assert late.in_clear(fields) == {"old_field": FieldFact(Presence.PRESENT, Kind.TEXT)}
    assert names("other").find(fields, "nothing") is None


def test_another_key_makes_another_hash() -> None:
    assert Names([], key=KEY).kept("x") != Names([], key=b"1" * 64).kept("x")


def test_a_name_that_looks_like_a_hash_is_hashed_too() -> None:
    assert names("#abc").kept("#abc") != "#abc"


# -- presence, kinds and versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "presence", "kind"),
    [
        (None, Presence.NULL, Kind.NULL),
        ("", Presence.EMPTY, Kind.TEXT),
        ([], Presence.EMPTY, Kind.LIST),
        ({}, Presence.EMPTY, Kind.OBJECT),
        (0, Presence.PRESENT, Kind.INTEGER),
        (0.0, Presence.PRESENT, Kind.NUMBER),
        (False, Presence.PRESENT, Kind.BOOLEAN),
        (True, Presence.PRESENT, Kind.BOOLEAN),
        (1, Presence.PRESENT, Kind.INTEGER),
        (1.0, Presence.PRESENT, Kind.NUMBER),
        (" ", Presence.PRESENT, Kind.TEXT),
        ([None], Presence.PRESENT, Kind.LIST),
        ({"a": None}, Presence.PRESENT, Kind.OBJECT),
    ],
)
def test_presence_is_taken_from_the_key_and_never_from_truthiness(
    value: object, presence: Presence, kind: Kind
) -> None:
    assert fact_of(value) == FieldFact(presence, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Kind.BOOLEAN),
        (False, Kind.BOOLEAN),
        (1.0, Kind.NUMBER),
        (2.5, Kind.NUMBER),
        ("2", Kind.TEXT),
        ("", Kind.TEXT),
        (None, Kind.NULL),
        (-1, Kind.INTEGER),
        (10000, Kind.INTEGER),
        (10**30, Kind.INTEGER),
        ([2], Kind.LIST),
        ({}, Kind.OBJECT),
    ],
)
def test_a_version_that_is_no_integer_from_0_to_9999_is_malformed(value: object, kind: Kind) -> None:
    assert read_version({"v": value}, "v") == VersionReading(Reading.MALFORMED, kind=kind)


@pytest.mark.parametrize("value", [0, 1, 2, 9999])
def test_a_version_is_an_integer(value: int) -> None:
    assert read_version({"v": value}, "v") == VersionReading(Reading.INTEGER, value)


def test_a_version_that_has_no_key_is_missing() -> None:
    assert read_version({}, "v") == VersionReading(Reading.MISSING)


@given(JSON)
def test_every_json_value_has_a_kind_and_a_presence(value: Any) -> None:
    assert fact_of(value).kind is kind_of(value)
    assert (fact_of(value).presence is Presence.NULL) == (value is None)


# -- renames ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, None),
        ({"old": "a"}, None),
        ({"old": "a", "new": None}, None),
        ({"old": "", "new": "a"}, None),
        ({"old": "a", "new": "a"}, Agreement.AGREE),
        ({"old": "a", "new": "b"}, Agreement.DISAGREE),
        ({"old": 0, "new": 0}, Agreement.AGREE),
        ({"old": False, "new": False}, Agreement.AGREE),
        ({"old": 1, "new": True}, Agreement.DISAGREE),
        ({"old": 1, "new": 1.0}, Agreement.DISAGREE),
        ({"old": "1", "new": 1}, Agreement.DISAGREE),
        ({"old": {"a": 1, "b": 2}, "new": {"b": 2, "a": 1}}, Agreement.AGREE),
        ({"old": [1], "new": [True]}, Agreement.DISAGREE),
        ({"old": {"a": 1}, "new": {"a": 1.0}}, Agreement.DISAGREE),
        ({"old": [0], "new": [False]}, Agreement.DISAGREE),
    ],
)
def test_both_sides_of_a_rename_are_compared_with_their_kinds(
    values: dict[str, object], found: Agreement | None
) -> None:
    assert compare(values, "old", "new") is found


def nested(depth: int) -> object:
    value: object = "x"
    for _ in range(depth):
        value = [value]
    return value


def test_values_as_deep_as_a_parser_lets_through_can_be_compared() -> None:
    """orjson reads 1024 levels; one such thread must not stop a poll."""
    row = raw_row(values={"customer_name": nested(1000), "display_name": nested(1000)})
    assert reduce.reduce_row(row, reading()).shape is not None


# -- errors, names of nodes, ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ({"error": "ValueError", "message": CANARY}, "ValueError"),
        ({"error": "my.module.Broken", "message": CANARY}, "my.module.Broken"),
        ({"error": CANARY, "message": CANARY}, "error"),
        ({"error": "ValueError\n", "message": ""}, "error"),
        ({"error": 7}, "error"),
        ({}, "error"),
        (f"ValueError('{CANARY}')", "ValueError"),
        ("KeyError('x')", "KeyError"),
        (CANARY, "error"),
        (f"{CANARY}(x)", "error"),
        ("ValueError", "error"),
        (7, "error"),
        ([CANARY], "error"),
    ],
)
def test_of_an_error_its_class_is_kept_if_it_looks_like_one(raw: object, found: str) -> None:
    assert error_class(raw) == found


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_node_names_never_become_the_same_path(first: str, second: str) -> None:
    assert (node_name(first) == node_name(second)) == (first == second)
    assert "/" not in node_name(first)


@given(JSON)
def test_an_identifier_is_bounded_text_or_nothing(raw: Any) -> None:
    found = identifier(raw)
    assert found is None or (isinstance(found, str) and 0 < len(found) <= 255)


def test_every_fact_survives_being_built_again() -> None:
    assert replace(facts(), seen_at=NOW).row.thread_id == uuid_of(1)
