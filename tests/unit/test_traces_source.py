"""LangSmith asked through its own SDK, over HTTP, against the stand-in: pages, limits, both kinds of backend, and faults."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.demo.langsmith.runs import Runs
from app.demo.langsmith.standin import make_standin, serve_standin
from app.errors import SourceError, Throttled
from app.facts.traces import RunEnd, TracedRun, run_name
from app.sources.langsmith import client
from app.sources.langsmith.client import LangSmith, RunPage
from app.sources.langsmith.reduce import Malformed, filter_of, reduce_run
from tests.flows.tracing import Between, failed, html, slow_down

NOW = datetime.now(UTC).replace(microsecond=0)
SECRET = "canary-in-a-trace"
NODE = "await_approval"


def _raw(
    number: int, *, name: str = NODE, node: str | None = None, ago: timedelta = timedelta(minutes=1)
) -> dict[str, Any]:
    """A run as a tracer posts it."""
    start = NOW - ago - timedelta(seconds=number)
    return {
        "id": str(uuid.UUID(int=number + 1)),
        "trace_id": str(uuid.UUID(int=7)),
        "name": name,
        "run_type": "chain",
        "session_name": "demo",
        "start_time": start.isoformat(),
        "end_time": (start + timedelta(seconds=1)).isoformat(),
        "inputs": {"customer": SECRET},
        "outputs": {"customer": SECRET},
        "extra": {
            "metadata": {"langgraph_node": node or name, "thread_id": str(uuid.UUID(int=number)), "email": SECRET}
        },
    }


def _runs(*raws: dict[str, Any]) -> Runs:
    runs = Runs(keep_raw=True)
    for raw in raws:
        runs.take(raw)
    return runs


@pytest.fixture
def served() -> Iterator[Callable[..., Between]]:
    """Serve runs; the address is in ``url`` of what is returned."""
    with ExitStack() as stack:

        def serve(runs: Runs, **options: Any) -> Between:
            between = Between(make_standin(runs, **options))
            between.url = stack.enter_context(serve_standin(between))
            return between

        yield serve


@pytest.fixture
async def ask() -> AsyncIterator[Callable[..., Any]]:
    """Read every page of a question."""
    opened: list[LangSmith] = []

    async def question(url: str, *names: str, exact: bool = True, project: str = "demo") -> list[RunPage]:
        source = LangSmith(deployment="d", project=project, endpoint=url, api_key="key")
        opened.append(source)
        found = await source.open()
        window = {"since": NOW - timedelta(days=14), "until": NOW + timedelta(minutes=1)}
        return [page async for page in source.pages(found, names or (NODE,), exact=exact, **window)]

    yield question
    for source in opened:
        await source.aclose()


BACKENDS = ("0.16.20", "0.13.2")


@pytest.mark.parametrize("version", BACKENDS)
async def test_runs_are_read_to_the_last_page(
    served: Any, ask: Any, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 3)
    monkeypatch.setattr(client, "OLD_PAGE", 3)
    between = served(_runs(*map(_raw, range(8))), version=version)

    pages = await ask(between.url)

    assert [len(page.runs) for page in pages] == [3, 3, 2]
    assert all(page.is_whole for page in pages)
    assert len({run.run_id for page in pages for run in page.runs}) == 8


@pytest.mark.parametrize("version", BACKENDS)
async def test_a_window_of_two_weeks_is_not_one_day(served: Any, ask: Any, version: str) -> None:
    between = served(_runs(_raw(1), _raw(2, ago=timedelta(days=10))), version=version)

    [page] = await ask(between.url)

    assert len(page.runs) == 2


async def test_what_runs_inside_a_node_is_no_entry_of_it(served: Any, ask: Any) -> None:
    between = served(_runs(_raw(1), _raw(2, name="choose_desk", node=NODE), _raw(3, name=NODE, node="other")))

    [page] = await ask(between.url)

    assert [run.run_id for run in page.runs] == [str(uuid.UUID(int=2))]


@pytest.mark.parametrize("version", BACKENDS)
async def test_nothing_leaves_the_source_but_ids_names_times_and_status(served: Any, ask: Any, version: str) -> None:
    """Even where a backend ignores what was selected and hands out everything."""
    between = served(_runs(_raw(1)), version=version, ignores_selects=True)

    [page] = await ask(between.url)

    assert SECRET not in repr(page)
    assert page.runs[0] == TracedRun(
        run_id=str(uuid.UUID(int=2)),
        node=NODE,
        thread_id=str(uuid.UUID(int=1)),
        trace_id=str(uuid.UUID(int=7)),
        started_at=NOW - timedelta(minutes=1, seconds=1),
        ended_at=NOW - timedelta(minutes=1),
        end=RunEnd.SUCCESS,
    )


@pytest.mark.parametrize("version", BACKENDS)
async def test_a_full_page_without_a_cursor_is_a_loss(
    served: Any, ask: Any, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 3)
    monkeypatch.setattr(client, "OLD_PAGE", 3)
    between = served(_runs(*map(_raw, range(3))), version=version)

    [page] = await ask(between.url)

    assert page.after is client.After.LOST


async def test_a_run_that_cannot_be_understood_makes_its_page_a_part(served: Any, ask: Any) -> None:
    between = served(_runs(_raw(1)))
    between.fail("/runs/query", failed(200, items=[{"id": str(uuid.uuid4()), "name": NODE}]))

    [page] = await ask(between.url)

    assert (page.runs, page.is_whole) == ((), False)


@pytest.mark.parametrize("version", BACKENDS)
async def test_a_page_that_is_refused_half_way_keeps_those_before_it(
    served: Any, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 3)
    monkeypatch.setattr(client, "OLD_PAGE", 3)
    between = served(_runs(*map(_raw, range(8))), version=version)
    source = LangSmith(deployment="d", project="demo", endpoint=between.url, api_key="key")
    project = await source.open()
    window = {"since": NOW - timedelta(days=1), "until": NOW + timedelta(minutes=1)}
    pages = aiter(source.pages(project, [NODE], exact=True, **window))

    kept = await anext(pages)
    between.fail("/runs/query", slow_down())
    with pytest.raises(Throttled):
        await anext(pages)
    await source.aclose()

    assert len(kept.runs) == 3


FAULTS: dict[str, tuple[str, Any, str]] = {
    "429 with a body": ("/runs/query", failed(429, detail="quota of tenant 4711"), "throttled"),
    "429 without one": ("/runs/query", slow_down(), "throttled"),
    "429 of the project": ("/sessions", slow_down(), "throttled"),
    "html": ("/runs/query", html(), "source_failed"),
    "html instead of a version": ("/info", html(), "source_failed"),
    "no such route": ("/runs/query", failed(404), "backend_too_old"),
    "a refused key": ("/runs/query", failed(403), "source_failed"),
    "a broken backend": ("/runs/query", failed(500, detail=SECRET), "source_failed"),
    "a list instead of a page": ("/runs/query", failed(200, items="many"), "source_failed"),
}


@pytest.mark.parametrize("version", BACKENDS)
@pytest.mark.parametrize("what", FAULTS)
async def test_a_fault_is_said_in_a_sentence_without_anything_of_the_answer(
    served: Any, ask: Any, version: str, what: str
) -> None:
    path, answer, code = FAULTS[what]
    between = served(_runs(_raw(1)), version=version)
    between.fail(path, answer)

    with pytest.raises(SourceError) as raised:
        await ask(between.url)

    assert raised.value.code == code
    assert SECRET not in raised.value.message
    assert "4711" not in raised.value.message


async def test_a_project_that_is_not_there_has_its_own_code(served: Any, ask: Any) -> None:
    between = served(_runs(_raw(1)))

    with pytest.raises(SourceError) as raised:
        await ask(between.url, project="another")

    assert raised.value.code == "no_project"


async def test_the_key_follows_nobody_to_another_host(served: Any, ask: Any) -> None:
    elsewhere = served(_runs(_raw(1)))
    between = served(_runs(_raw(1)))
    from starlette.responses import RedirectResponse

    for path in ("/info", "/sessions", "/runs/query"):
        between.mend()
        between.fail(path, RedirectResponse(elsewhere.url + path))
        with pytest.raises(SourceError):
            await ask(between.url)

    assert elsewhere.asked == []


def test_a_name_with_quotes_stays_a_name() -> None:
    assert (
        filter_of(['say "hi" \\'], exact=False)
        == 'and(in(name, ["say \\"hi\\" \\\\"]), eq(metadata_key, "langgraph_node"))'
    )


@pytest.mark.parametrize(("path", "name"), [("a", "a"), ("outer/inner", "inner"), ("outer/with%2Fslash", "with/slash")])
def test_a_run_has_the_last_part_of_a_nodes_path_as_its_name(path: str, name: str) -> None:
    assert run_name(path) == name


def test_an_id_that_may_name_a_person_is_no_thread() -> None:
    raw = {"id": str(uuid.uuid4()), "name": NODE, "start_time": NOW.isoformat(), "thread_id": "ada@example.org"}

    run = reduce_run(raw, [NODE])

    assert run is not None
    assert run.thread_id is None


@pytest.mark.parametrize("missing", ["id", "name", "start_time"])
def test_a_run_without_id_name_or_time_is_malformed(missing: str) -> None:
    raw = {"id": str(uuid.uuid4()), "name": NODE, "start_time": NOW.isoformat()}
    del raw[missing]

    with pytest.raises(Malformed):
        reduce_run(raw, [NODE])
