"""Messages of any shape where a reporter's are expected: facts, or a sentence; nothing half written, no value stored."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from app.facts.privacy import Names
from app.inventory.current import current_of
from app.jobs.lines import told_of
from app.jobs.pushed import HistoryWanted, Under, judge_told
from tests.drawing import drawn
from tests.reporter.board import NAME, Board, board
from tests.unit.builders import NOW

SECRET = "s3cret value; of a state"
FACTS = f"/api/v1/deployments/{NAME}/facts"
NAMES = Names({"customer_name", "display_name", "state_version"}, key=b"k")
UNDER = Under("order", {}, current_of((), ()), {"wait"}, timedelta(hours=1))
SHAPE: dict[str, Any] = {
    "fields": {"customer_name": ["present", "text"], "#" + "0" * 24: ["null", "null"]},
    "versions": {"state_version": ["integer", 2, None]},
    "conflicts": {"customer_name->display_name": "agree"},
}
LINE: dict[str, Any] = {
    "thread_id": "one",
    "found": "state",
    "begun_at": "2026-01-01T00:00:00Z",
    "metadata": {"region": "north"},
    "state": {
        "checkpoint_id": "c2",
        "parent_id": "c1",
        "created_at": "2026-01-02T00:00:00Z",
        "source": "loop",
        "step": 2,
        "leaves": [
            {
                "node": "wait",
                "ns": "",
                "task_id": "t1",
                "checkpoint_id": "c2",
                "interrupts": 1,
                "error_class": None,
                "cause": "dynamic",
                "inside_unseen": False,
                "sent": False,
            }
        ],
        "unapplied": ["begin"],
        "finished": ["t0"],
        "heads": {"": "c2"},
        "steps": {"": 2},
        "run_id": None,
        "shape": SHAPE,
    },
    "stored": {
        "shape": SHAPE,
        "interrupts": [["t1", "i1"]],
        "answered": False,
        "may_hide": False,
        "routes": {"branches": ["wait"], "joins": ["end"], "sends": False, "fields": ["customer_name"], "empty": ["end"]},
    },
    "histories": [
        {
            "ns": "",
            "checkpoints": [
                {
                    "id": "c2",
                    "parent_id": "c1",
                    "source": "loop",
                    "step": 2,
                    "run_id": None,
                    "created_at": "2026-01-02T00:00:00Z",
                    "results": ["t1"],
                }
            ],
        }
    ],
}  # fmt: skip
TOPOLOGY: dict[str, Any] = {
    "graph_id": "order",
    "nodes": ["__start__", "begin", "wait", "end", "__end__"],
    "joins": ["end"],
    "deferred": ["end"],
    "edges": [["begin", "wait", False]],
    "fields": ["customer_name", "display_name"],
    "xray_hash": "0" * 16,
}
HOLD_TEXT = {
    *("thread_id", "metadata.region", "state.checkpoint_id", "state.parent_id", "state.run_id", "state.unapplied.0"),
    *("state.leaves.0.node", "state.leaves.0.ns", "state.leaves.0.task_id", "state.leaves.0.checkpoint_id"),
    *("state.finished.0", "state.heads.", "state.heads. (key)", "state.steps. (key)"),
    *("stored.interrupts.0.0", "stored.interrupts.0.1"),
    *("stored.routes.branches.0", "stored.routes.joins.0", "stored.routes.empty.0"),
    *("histories.0.ns", "histories.0.checkpoints.0.id", "histories.0.checkpoints.0.parent_id"),
    *("histories.0.checkpoints.0.run_id", "histories.0.checkpoints.0.results.0"),
}
"""Where a line may have a text that nobody can check: ids, names of nodes and namespaces, metadata that is allowed."""

ODD = some.sampled_from(
    [
        *(None, True, -1, 0, 7, 2**31, 2**63, 10**30, 0.5, 1e308, "", SECRET, "x" * 2000),
        *([], [None], {}, {SECRET: SECRET}),
        *("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:00:00-23:00"),
        *(
            "2026-01-01T00:00:00",
            "c1",
            "c2",
            "t1",
            "integer",
            "malformed",
            "present",
            "absent",
            "unreadable",
            "nothing",
        ),
        *("input", "fork", "loop", ["c1"], [["t1", "i1"]], "\u202e", "a/b", "|", "a:b|c"),
    ]
)


def _places(raw: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    for key in list(raw) if isinstance(raw, dict) else range(len(raw)) if isinstance(raw, list) else ():
        yield raw, key, f"{path}{key}"
        yield from _places(raw[key], f"{path}{key}.")


@some.composite
def spoilt(draw: some.DrawFn, right: dict[str, Any]) -> dict[str, Any]:
    """What is right, with some parts that are not: of another kind, missing, twice, or one more."""
    found = copy.deepcopy(right)
    for _ in range(draw(some.integers(1, 4))):
        holder, key, _ = draw(some.sampled_from(list(_places(found)) or [(found, "thread_id", "")]))
        match draw(some.sampled_from(("other", "other", "missing", "more", "renamed", "twice"))):
            case "other":
                holder[key] = draw(ODD)
            case "missing":
                del holder[key]
            case "twice" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case "renamed" if isinstance(holder, dict):
                holder[draw(some.sampled_from((SECRET, "", "values", "x" * 1200)))] = holder.pop(key)
            case _:
                holder.update({SECRET: draw(ODD)}) if isinstance(holder, dict) else holder.append(draw(ODD))
    return found


def _told(line: dict[str, Any]) -> Any:
    return told_of(orjson.dumps(line), NAMES, ["state_version"], ["region"], "order")


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(line=spoilt(LINE), before=spoilt(LINE))
@example(line=LINE | {"stored": LINE["stored"] | {"answered": True}}, before=LINE)
def test_a_line_is_refused_with_a_sentence_or_judged(line: dict[str, Any], before: dict[str, Any]) -> None:
    known = None
    for each in (before, line):
        try:
            told = _told(each)
        except (ValueError, TypeError) as error:
            assert SECRET not in str(error)  # noqa: PT017
            continue
        try:
            known = asyncio.run(judge_told(told, known, UNDER, NOW))
        except HistoryWanted:
            continue
        assert known.row.thread_id == each["thread_id"]


def _with_text(raw: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same line for each of its texts and names, with a secret in its place."""
    for _, _, path in list(_places(raw)):
        for as_key in (False, True):
            found = copy.deepcopy(raw)
            holder, key = next((holder, key) for holder, key, at in _places(found) if at == path)
            if as_key and isinstance(holder, dict):
                holder[SECRET] = holder.pop(key)
                yield f"{path} (key)", found
            elif not as_key and not isinstance(holder[key], dict | list):
                holder[key] = SECRET
                yield path, found


def test_no_place_of_a_line_takes_a_text_but_ids_and_names_of_nodes() -> None:
    taken = set()
    for path, line in _with_text(LINE):
        try:
            _told(line)
        except ValueError as error:
            assert SECRET not in str(error)  # noqa: PT017
        else:
            taken.add(path)
    assert taken <= HOLD_TEXT, taken - HOLD_TEXT
    assert "thread_id" in taken


@pytest.fixture
async def orders(tmp_path: Path) -> AsyncIterator[Board]:
    async with board(tmp_path, metadata_keys=["region"], database_url=f"sqlite+aiosqlite:///{tmp_path}/b.db") as found:
        yield found


def _begin(number: int, topology: Any = TOPOLOGY, **more: Any) -> dict[str, Any]:
    begin = {"topology": topology, "saver": "sqlite", "langgraph": "1.2", "ids": "file"} | more
    return {"pass": f"p{number}", "begin": begin}


async def test_messages_of_any_shape_are_taken_or_refused_with_a_sentence(
    orders: Board, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bodies = [_begin(number, topology) for number, topology in enumerate(drawn(spoilt(TOPOLOGY), 60))]
    bodies += drawn(spoilt(_begin(1000)), 60)
    messages = [
        _begin(2000),
        *({"pass": "p2000", "threads": [line, LINE | {"thread_id": "good"}]} for line in drawn(spoilt(LINE), 120)),
        *drawn(spoilt({"pass": "p2000", "threads": [LINE], "left": {"ids": ["one"], "after": "", "limit": 5}}), 60),
    ]
    statuses = set()
    for body in bodies + messages:
        answer = await orders.client.post(FACTS, content=json.dumps(body))
        statuses.add(answer.status_code)
        assert answer.status_code in (200, 409, 422), (answer.text, body)
        if answer.status_code != 200:
            assert SECRET not in answer.text
            assert answer.json()["error"]["message"].rstrip().endswith(".")
        elif body.get("threads"):
            told = answer.json()
            assert told["taken"] + len(told["problems"]) + len(told["again"]) >= 1
            assert all(SECRET not in problem["message"] for problem in told["problems"])
    assert statuses >= {200, 422}
    conditions = await orders.conditions()
    assert conditions["good"] == "parked"
    assert (await orders.drain()).verdict.value != "drained"
    assert SECRET not in caplog.text


@pytest.mark.parametrize("number", [10**30, 2**64])
async def test_a_number_that_no_json_has_is_refused_in_a_topology(orders: Board, number: int) -> None:
    answer = await orders.client.post(FACTS, json=_begin(1, TOPOLOGY | {"nodes": [number]}))
    assert (answer.status_code, answer.json()["error"]["message"][:9]) == (422, "topology:")


async def test_what_a_line_names_against_the_rules_is_not_stored(orders: Board, tmp_path: Path) -> None:
    assert (await orders.client.post(FACTS, json=_begin(1))).status_code == 200
    lines = [line for path, line in _with_text(LINE) if path not in HOLD_TEXT]
    answer = await orders.client.post(FACTS, json={"pass": "p1", "threads": lines})
    assert answer.status_code == 200
    assert SECRET not in answer.text
    assert [problem["line"] for problem in answer.json()["problems"]] == list(range(1, len(lines) + 1))
    assert not await asyncio.to_thread(_is_written, tmp_path)


def _is_written(folder: Path) -> bool:
    return any(SECRET.encode() in file.read_bytes() for file in folder.iterdir() if file.is_file())
