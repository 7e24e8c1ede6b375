"""JSON of any shape where LangSmith's answers are expected: facts without a value, or one sentence; never anything else."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from starlette.responses import Response

from app.errors import SourceError
from app.sources.langsmith.client import LangSmith
from app.sources.langsmith.reduce import Malformed, reduce_run
from tests.drawing import drawn
from tests.flows.tracing import Between
from tests.unit.test_traces_source import BACKENDS, NODE, NOW, SECRET, _raw, _runs, served  # noqa: F401

RUN: dict[str, Any] = {
    "id": "0190d3a0-0000-7000-8000-000000000001",
    "trace_id": "0190d3a0-0000-7000-8000-000000000002",
    "thread_id": "0190d3a0-0000-7000-8000-000000000003",
    "name": NODE,
    "status": "success",
    "start_time": NOW.isoformat(),
    "end_time": NOW.isoformat(),
    "inputs": {"customer": SECRET},
    "error": SECRET,
}
TIMES = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-23:59", "9999-12-31T23:59:59.999999", "soon", "")
ODD = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False)
    | some.sampled_from((*TIMES, SECRET, NODE, "a" * 5000, "-" * 8, 10**30, "success", "error")),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from((*RUN, SECRET)), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
ODD_RUN = some.dictionaries(some.sampled_from(list(RUN)), ODD, max_size=4).map(lambda more: RUN | more) | ODD
PARTS = ("items", "next_cursor", "runs", "cursors")
ODD_PAGE = some.dictionaries(some.sampled_from(PARTS), ODD, max_size=4).map(
    lambda more: {"items": [RUN], "next_cursor": None, "runs": [RUN], "cursors": {"next": None}} | more
) | some.lists(ODD_RUN, max_size=3).map(lambda runs: {"items": runs, "runs": runs})


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(raw=ODD_RUN.filter(lambda raw: isinstance(raw, dict)))
@example(raw=RUN | {"start_time": TIMES[0]})
@example(raw=RUN | {"end_time": TIMES[1]})
def test_a_run_is_malformed_or_tells_no_value(raw: dict[str, Any]) -> None:
    try:
        found = reduce_run(raw, {NODE})
    except Malformed:
        return
    assert SECRET not in repr(found)
    if found is not None:
        assert all(one is None or one + timedelta(days=1) for one in (found.started_at, found.ended_at))


STRANGE_CURSORS = (["next"], "next", 7, {"next": 7})


@pytest.mark.parametrize("version", BACKENDS)
async def test_an_answer_of_any_shape_is_runs_or_a_sentence(served: Any, version: str) -> None:  # noqa: F811
    between: Between = served(_runs(_raw(1)), version=version)
    source = LangSmith(deployment="d", project="demo", endpoint=between.url, api_key="key")
    project = await source.open()
    window = {"since": NOW - timedelta(days=1), "until": NOW + timedelta(minutes=1)}
    outcomes = set()
    odd = [{"items": [], "runs": [], "cursors": cursor, "next_cursor": cursor} for cursor in STRANGE_CURSORS]
    for answer in [*odd, *drawn(ODD_PAGE, 80)]:
        between.fail("/runs/query", Response(json.dumps(answer), media_type="application/json"), _NO_MORE)
        try:
            found = [page async for page in source.pages(project, [NODE], exact=True, **window)]
        except SourceError as error:
            assert SECRET not in error.message  # noqa: PT017
            outcomes.add("refused")
        else:
            assert SECRET not in repr(found)
            outcomes.add("read")
    await source.aclose()
    assert outcomes == {"refused", "read"}


_NO_MORE = Response(json.dumps({"items": [], "runs": []}), media_type="application/json")


@pytest.mark.parametrize("version", BACKENDS)
@pytest.mark.parametrize("cursor", [[], {}, 0, 7, False, ["next"]])
async def test_what_is_no_cursor_is_no_end_of_the_runs(served: Any, version: str, cursor: Any) -> None:  # noqa: F811
    between: Between = served(_runs(_raw(1)), version=version)
    source = LangSmith(deployment="d", project="demo", endpoint=between.url, api_key="key")
    project = await source.open()
    answer = {"items": [RUN], "runs": [RUN], "cursors": {"next": cursor}, "next_cursor": cursor}
    between.fail("/runs/query", Response(json.dumps(answer), media_type="application/json"))
    with pytest.raises(SourceError, match="does not speak its language"):
        [page async for page in source.pages(project, [NODE], exact=True, since=NOW - timedelta(days=1), until=NOW)]
    await source.aclose()


@pytest.mark.parametrize("cursors", [[], 0, False, ["next"], 7])
async def test_what_holds_no_cursors_is_no_end_of_the_runs(served: Any, cursors: Any) -> None:  # noqa: F811
    between: Between = served(_runs(_raw(1)), version=BACKENDS[-1])
    source = LangSmith(deployment="d", project="demo", endpoint=between.url, api_key="key")
    project = await source.open()
    assert project.is_old
    between.fail(
        "/runs/query", Response(json.dumps({"runs": [RUN], "cursors": cursors}), media_type="application/json")
    )
    with pytest.raises(SourceError, match="does not speak its language"):
        [page async for page in source.pages(project, [NODE], exact=True, since=NOW - timedelta(days=1), until=NOW)]
    await source.aclose()


@pytest.mark.parametrize("start", [*TIMES, 7, None, [], {SECRET: SECRET}])
async def test_a_project_of_any_shape_is_read_or_refused_with_a_sentence(served: Any, start: Any) -> None:  # noqa: F811
    between: Between = served(_runs(_raw(1)))
    project = {"id": RUN["id"], "name": "demo", "tenant_id": RUN["id"], "start_time": start}
    between.fail("/sessions", Response(json.dumps([project]), media_type="application/json"))
    source = LangSmith(deployment="d", project="demo", endpoint=between.url, api_key="key")
    try:
        assert (await source.open()).began_at
    except SourceError as error:
        assert SECRET not in error.message  # noqa: PT017
    finally:
        await source.aclose()
