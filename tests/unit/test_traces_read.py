"""Traces read poll by poll, on SQLite and on PostgreSQL: what is asked, what is remembered, and what a failure leaves."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from starlette.responses import JSONResponse

from app.demo.langsmith.runs import Runs
from app.demo.langsmith.standin import make_standin, serve_standin
from app.drains.spec import DrainSpec, Policy, Target, to_json
from app.inventory import reads, tables, traces, writes
from app.inventory.db import Database
from app.inventory.revisions import Drawn, keep_revisions
from app.inventory.store import Store
from app.jobs import traces as jobs
from app.jobs.traced import list_nodes
from app.jobs.traces import TraceReader
from app.settings import LangSmithSettings
from app.sources.langsmith import client
from tests.flows.tracing import Between, slow_down
from tests.unit.builders import facts, row, state, topology
from tests.unit.test_traces_source import NOW, _raw

NODE = "await_approval"


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(jobs, "utc_now", found)
    return found


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def between(runs: Runs) -> Iterator[Between]:
    found = Between(make_standin(runs))
    with serve_standin(found) as found.url:
        yield found


@pytest.fixture
async def store(database: Database) -> Store:
    return Store(database, b"0" * 64)


@pytest.fixture
async def deployment_id(store: Store) -> int:
    """A deployment with a graph of three nodes, and a drain of one of them."""
    spec = DrainSpec("drop", "d", "support", (Target("node", NODE),))
    async with store.database.write() as connection:
        found = await writes.ensure_deployment(connection, "d", NOW)
        await keep_revisions(connection, found, [Drawn(topology(NODE, "intake", "respond"))], now=NOW)
        values = {
            "name": "drop",
            "deployment_id": found,
            "spec": to_json(spec),
            "criteria_digest": "x",
            "criteria_version": 1,
            "managed_by_file": True,
            "created_at": NOW,
        }
        await writes.upsert_drain(connection, values)
    return found


@pytest.fixture
async def reader(store: Store, between: Between, clock: Clock) -> AsyncIterator[TraceReader]:
    found = TraceReader("d", LangSmithSettings(project="demo", endpoint=between.url), store)
    yield found
    await found.aclose()


async def _kept(store: Store) -> list[Any]:
    async with store.database.read() as connection:
        return list((await connection.execute(select(tables.trace_run).order_by(tables.trace_run.c.run_id))).all())


async def _source(store: Store, deployment_id: int) -> Any:
    async with store.database.read() as connection:
        return await traces.find_source(connection, deployment_id)


async def _coverage(store: Store, deployment_id: int) -> Any:
    async with store.database.read() as connection:
        return await traces.list_coverage(connection, deployment_id)


async def test_one_question_for_the_target_and_one_for_all_others_then_only_what_is_new(
    *, store: Store, deployment_id: int, reader: TraceReader, between: Between, runs: Runs, clock: Clock
) -> None:
    for raw in (_raw(1), _raw(2, name="intake"), _raw(3, name="choose_desk", node="intake")):
        runs.take(raw)
    await reader.read(deployment_id)
    asked = between.asked.count("/api/v2/runs/query")
    first = await _coverage(store, deployment_id)

    clock.now += timedelta(minutes=1)
    runs.take(_raw(5, ago=timedelta(seconds=-20)))
    await reader.read(deployment_id)
    second = await _coverage(store, deployment_id)

    assert asked == 2
    assert between.asked.count("/api/v2/runs/query") == 4
    assert sorted(run.node for run in await _kept(store)) == [NODE, NODE, "intake"]
    assert set(first) == {NODE, "intake", "respond"}
    assert (first[NODE].exact, first["intake"].exact) == (True, False)
    assert second[NODE].covered_from == first[NODE].covered_from
    assert second[NODE].covered_until == clock.now


async def test_a_run_is_counted_once_however_often_it_is_read(
    store: Store, deployment_id: int, reader: TraceReader, runs: Runs, clock: Clock
) -> None:
    for raw in (_raw(1), _raw(2), _raw(3, name="intake")):
        runs.take(raw)
    for _ in range(3):
        await reader.read(deployment_id)
        clock.now += timedelta(seconds=30)

    async with store.database.read() as connection:
        activity = await traces.list_activity(connection, deployment_id, since=NOW - timedelta(days=2))

    counts = {each.node: sum(e.entered for e in activity if e.node == each.node) for each in activity}
    assert counts == {NODE: 2, "intake": 1}


async def test_a_refusal_half_way_keeps_what_came_and_covers_nothing(
    *,
    store: Store,
    deployment_id: int,
    reader: TraceReader,
    between: Between,
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    for number in range(5):
        runs.take(_raw(number))
    passed: list[str] = []

    async def refuse_the_second(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["path"])
        if passed.count("/api/v2/runs/query") == 2:
            await slow_down()(scope, receive, send)
        else:
            await make_standin(runs)(scope, receive, send)

    between.app = refuse_the_second
    await reader.read(deployment_id)

    assert len(await _kept(store)) == 2
    assert await _coverage(store, deployment_id) == {}
    assert ((await _source(store, deployment_id)).status, (await _source(store, deployment_id)).code) == (
        "incomplete",
        "throttled",
    )


async def test_after_a_refusal_nobody_asks_for_a_while(
    *, store: Store, deployment_id: int, reader: TraceReader, between: Between, runs: Runs, clock: Clock
) -> None:
    runs.take(_raw(1))
    between.fail("/runs/query", slow_down())
    await reader.read(deployment_id)
    asked = len(between.asked)
    between.mend()

    clock.now += timedelta(seconds=10)
    await reader.read(deployment_id)
    assert len(between.asked) == asked

    clock.now += timedelta(seconds=30)
    await reader.read(deployment_id)
    assert (await _source(store, deployment_id)).status == "complete"


async def test_another_project_starts_anew(
    store: Store, deployment_id: int, reader: TraceReader, between: Between, runs: Runs
) -> None:
    runs.take(_raw(1))
    runs.take(_raw(2) | {"session_name": "other"})
    await reader.read(deployment_id)

    other = TraceReader("d", LangSmithSettings(project="other", endpoint=between.url), store)
    await other.read(deployment_id)
    await other.aclose()

    assert [run.run_id for run in await _kept(store)] == [str(uuid.UUID(int=3))]


async def test_a_project_of_the_same_name_elsewhere_is_read_from_its_beginning(
    *, store: Store, deployment_id: int, reader: TraceReader, runs: Runs, clock: Clock
) -> None:
    """The server may have traced into the new one for hours before the address here was changed."""
    runs.take(_raw(1, ago=timedelta(hours=2)))
    await reader.read(deployment_id)
    moved = Runs()
    moved.take(_raw(2, ago=timedelta(hours=1)))
    moved.take(_raw(3, ago=timedelta(hours=80)))
    between = Between(make_standin(moved))
    clock.now += timedelta(minutes=1)
    with serve_standin(between) as url:
        settings = LangSmithSettings(project="demo", endpoint=url, web_url="https://traces.example")
        other = TraceReader("d", settings, store)
        await other.read(deployment_id)
        await other.aclose()

    assert sorted(run.run_id for run in await _kept(store)) == [str(uuid.UUID(int=n)) for n in (2, 3)]


async def test_a_node_is_watched_since_the_project_began_at_the_earliest(
    store: Store, deployment_id: int, reader: TraceReader, runs: Runs
) -> None:
    """Otherwise a new project would say of every node that nobody has entered it for a month."""
    runs.take(_raw(1))
    await reader.read(deployment_id)

    async with store.database.read() as connection:
        [target, quiet] = await list_nodes(connection, deployment_id, [NODE, "respond"], is_sampled=False, now=NOW)

    assert (target.entered, quiet.entered) == (1, 0)
    assert quiet.watched_since == NOW - timedelta(minutes=1, seconds=1)


async def test_a_process_that_cannot_ask_forgets_nothing_that_a_wide_window_needs(
    *, store: Store, deployment_id: int, reader: TraceReader, between: Between, runs: Runs, clock: Clock
) -> None:
    """What is covered is not asked for again, so a run that is forgotten would never be found again."""
    async with store.database.write() as connection:
        spec = DrainSpec(
            "drop", "d", "support", (Target("node", NODE),), policy=Policy(trace_window=timedelta(days=14))
        )
        drain = await reads.find_drain(connection, "drop")
        await writes.update_drain(connection, drain.id, spec=to_json(spec))
    runs.take(_raw(1, ago=timedelta(days=9)))
    await reader.read(deployment_id)
    assert (await _coverage(store, deployment_id))[NODE].covered_from < NOW - timedelta(days=13)

    started_anew = TraceReader("d", reader.settings, store)
    between.fail("/info", slow_down())
    await started_anew.read(deployment_id)
    between.mend()
    clock.now += timedelta(minutes=1)
    await started_anew.read(deployment_id)
    await started_anew.aclose()

    assert [run.node for run in await _kept(store)] == [NODE]


@pytest.mark.parametrize(
    ("what", "days", "is_sampled", "quiet"),
    [
        ("watched for a month", 31, False, ["respond"]),
        ("sampled", 31, True, []),
        ("watched for less than a month", 29, False, []),
        ("not read for two days", 33, False, []),
        ("a project that fell silent", 39, False, []),
    ],
)
async def test_a_node_is_a_candidate_only_where_an_entry_would_have_left_a_trace(
    *,
    store: Store,
    deployment_id: int,
    reader: TraceReader,
    runs: Runs,
    clock: Clock,
    what: str,
    days: int,
    is_sampled: bool,
    quiet: list[str],
) -> None:
    runs.take(_raw(1, ago=timedelta(days=40)) | {"session_name": "demo"})
    await reader.read(deployment_id)
    runs.take(_raw(2, ago=-timedelta(days=30)))
    clock.now = NOW + timedelta(days=days if what != "not read for two days" else 31)
    await reader.read(deployment_id)

    async with store.database.read() as connection:
        found = await list_nodes(
            connection, deployment_id, [NODE, "respond"], is_sampled=is_sampled, now=NOW + timedelta(days=days)
        )

    assert [node.node for node in found if node.is_quiet] == quiet


# -- more than one poll reads ------------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll reads a page of three runs."""
    monkeypatch.setattr(client, "PAGE", 3)
    monkeypatch.setattr(client, "MAX_RUNS", 3)


@pytest.mark.usefixtures("few")
async def test_a_first_reading_that_is_too_long_goes_on_where_it_stopped_until_it_is_whole(
    *, store: Store, deployment_id: int, reader: TraceReader, between: Between, runs: Runs, clock: Clock
) -> None:
    for number in range(0, 16, 2):
        runs.take(_raw(number, ago=timedelta(hours=1)))
    seen = []
    for _ in range(4):
        await reader.read(deployment_id)
        source = await _source(store, deployment_id)
        seen.append(
            (len(await _kept(store)), source.status, source.code, NODE in await _coverage(store, deployment_id))
        )
        clock.now += timedelta(seconds=30)

    assert [kept for kept, *_ in seen[:3]] == [3, 5, 7]  # the run at which it goes on is read twice
    assert {tuple(rest) for _, *rest in seen[:3]} == {("incomplete", "under_way", False)}
    assert seen[3] == (8, "complete", None, True)
    found = (await _coverage(store, deployment_id))[NODE]
    assert (found.covered_from, found.covered_until) == (NOW - timedelta(hours=72), clock.now - timedelta(seconds=30))
    assert between.asked.count("/api/v2/runs/query") < 20

    asked = between.asked.count("/api/v2/runs/query")
    runs.take(_raw(0, ago=-timedelta(seconds=90)) | {"id": str(uuid.UUID(int=99))})
    await reader.read(deployment_id)
    assert len(await _kept(store)) == 9
    assert between.asked.count("/api/v2/runs/query") - asked <= 8  # only what is new, and ten minutes before


@pytest.mark.usefixtures("few")
async def test_the_sentence_says_how_far_a_long_reading_has_come(
    store: Store, deployment_id: int, reader: TraceReader, runs: Runs
) -> None:
    for number in range(0, 12, 2):
        runs.take(_raw(number))
    await reader.read(deployment_id)

    sentence = (await _source(store, deployment_id)).sentence
    assert f"{NOW - timedelta(seconds=64):%Y-%m-%d %H:%M} UTC" in sentence
    assert "next polls go on" in sentence


@pytest.mark.usefixtures("few")
async def test_a_long_absence_is_made_up_for_without_losing_what_was_read_before(
    store: Store, deployment_id: int, reader: TraceReader, runs: Runs, clock: Clock
) -> None:
    """Meanwhile the time that is covered ends where it ended, so that the traces get stale and prove nothing."""
    runs.take(_raw(1))
    await reader.read(deployment_id)
    until = clock.now
    clock.now += timedelta(hours=9)
    for number in range(0, 22, 2):
        runs.take(_raw(number, ago=-timedelta(hours=8)) | {"id": str(uuid.UUID(int=100 + number))})

    await reader.read(deployment_id)
    half_way = (await _coverage(store, deployment_id))[NODE]
    for _ in range(6):
        await reader.read(deployment_id)
    after = (await _coverage(store, deployment_id))[NODE]

    assert half_way.covered_until == until
    assert (after.covered_from, after.covered_until) == (half_way.covered_from, clock.now)
    assert len(await _kept(store)) == 12


async def test_a_reading_that_is_refused_again_and_again_comes_to_its_end_all_the_same(
    *,
    store: Store,
    deployment_id: int,
    reader: TraceReader,
    between: Between,
    runs: Runs,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every second page is refused. Each attempt goes on where the one before stopped."""
    monkeypatch.setattr(client, "PAGE", 3)
    for number in range(0, 24, 2):
        runs.take(_raw(number))
    passed: list[str] = []

    async def refuse_every_second(scope: Any, receive: Any, send: Any) -> None:
        is_asked = scope["path"].endswith("/runs/query")
        passed.extend([scope["path"]] * is_asked)
        if is_asked and len(passed) % 2 == 0:
            await slow_down()(scope, receive, send)
        else:
            await make_standin(runs)(scope, receive, send)

    between.app = refuse_every_second
    for _ in range(14):
        await reader.read(deployment_id)
        clock.now += timedelta(hours=1)

    assert len(await _kept(store)) == 12
    assert NODE in await _coverage(store, deployment_id)


async def test_pages_that_do_not_come_newest_first_are_kept_and_count_for_nothing(
    *, store: Store, deployment_id: int, reader: TraceReader, between: Between, runs: Runs
) -> None:
    page = {
        "items": [
            {"id": str(uuid.UUID(int=n + 1)), "name": NODE, "status": "success", "start_time": (NOW + d).isoformat()}
            for n, d in enumerate((-timedelta(hours=9), -timedelta(hours=1)))
        ],
        "next_cursor": "more",
    }
    runs.take(_raw(1))
    between.fail("/api/v2/runs/query", JSONResponse(page), slow_down())
    await reader.read(deployment_id)

    assert len(await _kept(store)) == 2
    async with store.database.read() as connection:
        assert await traces.list_under_way(connection, deployment_id) == {}


async def test_a_node_that_becomes_a_target_is_asked_about_anew_and_alone(
    *, store: Store, deployment_id: int, reader: TraceReader, between: Between, runs: Runs, clock: Clock
) -> None:
    """What runs inside another node under the same name was found with the others, and is no entry of the target."""
    runs.take(_raw(1))
    runs.take(_raw(2, name="respond", node="intake"))
    await reader.read(deployment_id)
    assert "respond" in {run.node for run in await _kept(store)}

    async with store.database.write() as connection:
        await traces.forget_coverage(connection, deployment_id, {"respond"})  # as a new drain does
        values = {
            "name": "more",
            "deployment_id": deployment_id,
            "spec": to_json(DrainSpec("more", "d", "support", (Target("node", "respond"),))),
            "criteria_digest": "x",
            "criteria_version": 1,
            "managed_by_file": True,
            "created_at": NOW,
        }
        await writes.upsert_drain(connection, values)
    between.fail("/runs/query", slow_down())
    await reader.read(deployment_id)

    assert "respond" not in {run.node for run in await _kept(store)}


# -- whose run it was --------------------------------------------------------------------------------------------------


async def _entries(store: Store, deployment_id: int, **elsewhere: set[str]) -> int:
    async with store.database.read() as connection:
        nodes = {NODE: elsewhere.get("graphs", set())}
        found = await traces.list_entries(
            connection, deployment_id, "support", nodes, since=NOW - timedelta(days=1), limit=9
        )
    return len(found)


async def test_what_a_thread_did_before_it_went_to_another_graph_still_counts(
    store: Store, deployment_id: int, reader: TraceReader, runs: Runs
) -> None:
    """Its row names the graph of its last run only. If the other graph has a node of that name the run is the other's."""
    for number in (1, 2):
        runs.take(_raw(number))
    await reader.read(deployment_id)
    moved = row(str(uuid.UUID(int=1)), graph_id="billing")
    async with store.database.write() as connection:
        poll = await writes.begin_poll(connection, deployment_id, kind="sweep", now=NOW)
        known = store.dictionaries(deployment_id)
        await writes.upsert_threads(connection, known, [facts(moved, state=state(graph_id="billing"))], poll_id=poll)

    assert await _entries(store, deployment_id) == 2
    assert await _entries(store, deployment_id, graphs={"research"}) == 2
    assert await _entries(store, deployment_id, graphs={"billing"}) == 1
