"""JSON of any shape where the server's answers are expected: our own error, or facts that hold nothing but names."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from app.cli.index import _rows as rows
from app.errors import SettingsError
from app.facts.candidates import SCHEMA, BadTopology, read_topology
from app.facts.privacy import Names
from app.facts.raw import Malformed
from app.facts.reading import Reading
from app.facts.states import reduce_history, reduce_state
from app.settings import DeploymentSettings, DrainSettings, Settings, load_settings
from app.sources.agent_server import reduce
from app.sources.thread_index.reduce import COLUMNS, reduce_entry
from app.sources.thread_index.reduce import Malformed as IndexMalformed
from tests.unit.builders import NOW

SECRET = "s3cret value; of a state"
"""Not an identifier, as no value of interest is: what leaves may only be a name."""
READING = Reading(Names({"customer_name"}, key=b"k"), ("state_version",), (("customer_name", "display_name"),), ())
TIMES = (NOW.isoformat(), "0001-01-01T00:00:00+14:00", "")
WORDS = some.sampled_from(
    (
        *(
            "thread_id",
            "status",
            "created_at",
            "updated_at",
            "values",
            "next",
            "tasks",
            "checkpoint",
        ),
        *(
            "checkpoint_id",
            "parent_checkpoint",
            "metadata",
            "state",
            "name",
            "id",
            "result",
            "error",
        ),
        *(
            "interrupts",
            "path",
            "graph_id",
            "source",
            "step",
            "run_id",
            "kwargs",
            "command",
        ),
        *(
            "goto",
            "config",
            "configurable",
            "durability",
            "nodes",
            "edges",
            "target",
            "conditional",
        ),
        *(
            "defer",
            "channel_values",
            "by_channel",
            "versions",
            "checkpoints",
            "count",
            "state_schema",
            "properties",
        ),
        *(
            "$ref",
            "anyOf",
            "ttl",
            "expires_at",
            "customer_name",
            "state_version",
        ),
    )
)
LEAVES = (
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False)
    | some.sampled_from(("idle", "busy", "running", "loop", *TIMES))
)  # fmt: skip
ANYTHING = some.recursive(
    LEAVES, lambda inner: some.lists(inner, max_size=4) | some.dictionaries(WORDS, inner, max_size=9), max_leaves=15
)
REDUCERS: dict[str, Callable[[Any], object]] = {
    "row": lambda raw: reduce.reduce_row(raw, READING),
    "state": lambda raw: reduce_state(raw, READING),
    "history": reduce_history,
    "runs": reduce.reduce_runs,
    "last_run": reduce.reduce_last_run,
    "ended": reduce.reduce_ended,
    "expiry": reduce.reduce_expiry,
    "durability": reduce.reduce_durability,
    "storage": lambda raw: reduce.reduce_storage(raw, READING),
    "graph": lambda raw: reduce.reduce_graph("g", "a", plain=raw, xray=raw, schemas=raw),
    "drawing": reduce.reduce_drawing,
}


@pytest.mark.parametrize("parent", [7, [], "text", {"checkpoint_id": 7}, {"checkpoint_id": ""}, {"checkpoint_id": {}}])
def test_a_parent_that_cannot_be_read_is_no_beginning_of_a_line(parent: Any) -> None:
    checkpoint = {"checkpoint": {"checkpoint_id": "c"}, "metadata": {}, "tasks": [], "next": [], "values": {}}
    assert reduce_history([checkpoint | {"parent_checkpoint": None}])[0].parent_id is None
    with pytest.raises(Malformed):
        reduce_history([checkpoint | {"parent_checkpoint": parent}])
    with pytest.raises(Malformed):
        reduce_state(checkpoint | {"parent_checkpoint": parent}, READING)


HEADERS = (b"", b"thread_id,state\n", b'{"thread_id": "a"}\n', b'{"thread_id":', b'\xef\xbb\xbfthread_id\n"')
HOLD_VALUES = frozenset({"values", "result", "error"})


def _with_secrets(raw: Any) -> Any:
    """The same, with values where a server sends values."""
    if isinstance(raw, list):
        return [_with_secrets(one) for one in raw]
    if not isinstance(raw, dict):
        return raw
    holding = {"customer_name": SECRET, SECRET: [SECRET, {"note": SECRET}]}
    return {key: holding if key in HOLD_VALUES else _with_secrets(value) for key, value in raw.items()}


def _told(found: object) -> str:
    parts = found if isinstance(found, tuple) else (found,)
    return repr([asdict(one) if is_dataclass(one) and not isinstance(one, type) else one for one in parts])


@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(raw=ANYTHING | some.dictionaries(WORDS, ANYTHING, min_size=4, max_size=14))
def test_a_reducer_says_that_an_answer_is_malformed_or_tells_no_value(raw: Any) -> None:
    answer = _with_secrets(raw)
    for name, reducer in REDUCERS.items():
        try:
            found = reducer(answer)
        except Malformed as error:
            assert SECRET not in str(error), name  # noqa: PT017
        else:
            assert SECRET not in _told(found), name


@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(raw=some.binary(max_size=80) | some.text(max_size=80).map(str.encode), header=some.sampled_from(HEADERS))
def test_a_file_of_an_index_is_refused_with_a_sentence_or_read(raw: bytes, header: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index"
        file.write_bytes(header + raw)
        with contextlib.suppress(SettingsError):
            assert all(set(row) <= set(COLUMNS) for row in rows(file))


@pytest.mark.parametrize("content", ["thread_id," + "x" * 140_000, '{"a":' * 5000])
def test_a_file_of_an_index_that_no_parser_takes_is_refused_with_a_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "index").write_text(content)
    with pytest.raises(SettingsError):
        list(rows(tmp_path / "index"))


def test_settings_that_are_nested_too_deeply_are_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text("x = " + "[" * 5000)
    with pytest.raises(SettingsError):
        load_settings(tmp_path / "deep.toml")


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(raw=some.dictionaries(some.sampled_from(COLUMNS), ANYTHING | some.text(max_size=300)))
def test_a_line_of_an_index_is_refused_or_taken(raw: dict[str, Any]) -> None:
    with contextlib.suppress(IndexMalformed):
        reduce_entry(raw)


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(raw=ANYTHING, graph=ANYTHING)
def test_a_topology_is_refused_or_read(raw: Any, graph: Any) -> None:
    for given_ in (raw, {"schema": SCHEMA, "graphs": raw}, {"schema": SCHEMA, "graphs": {"g": graph}}):
        with contextlib.suppress(BadTopology):
            read_topology(given_)


KEYS = some.sampled_from([*Settings.model_fields, *DeploymentSettings.model_fields, *DrainSettings.model_fields])
VALUES = some.recursive(
    LEAVES | some.sampled_from(("1h", "prod", "http://a.test", "token", [], {})),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(KEYS, inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(raw=some.dictionaries(KEYS, VALUES, max_size=8) | some.binary(max_size=60))
def test_a_settings_file_is_refused_with_a_sentence_or_read(raw: dict[str, Any] | bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "drainboard.toml"
        file.write_bytes(raw if isinstance(raw, bytes) else _as_toml(raw).encode())
        try:
            load_settings(file)
        except SettingsError as error:
            assert error.message.rstrip().endswith((".", "?"))  # noqa: PT017


def _as_toml(raw: dict[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in raw.items())


def _value(raw: Any) -> str:
    match raw:
        case None:
            return '""'
        case dict():
            return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in raw.items()) + " }"
        case list():
            return f"[{', '.join(_value(value) for value in raw)}]"
        case float():
            return repr(raw) if math.isfinite(raw) else "inf"
    return json.dumps(raw)
