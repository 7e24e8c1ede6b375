"""Traces read poll by poll, on SQLite and on PostgreSQL: what is asked, what is remembered, and what a failure leaves."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from app.demo.langsmith.runs import Runs
from app.demo.langsmith.standin import make_standin, serve_standin
from app.drains.spec import DrainSpec, Target, to_json
from app.inventory import tables, traces, writes
from app.inventory.db import Database
from app.inventory.revisions import Drawn, keep_revisions
from app.inventory.store import Store
from app.jobs import traces as jobs
from app.jobs.traced import list_nodes
from app.jobs.traces import TraceReader
from app.settings import LangSmithSettings
from app.sources.langsmith import client
from tests.flows.tracing import Between, slow_down
from tests.unit.builders import topology
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


async def test_a_node_is_watched_since_the_project_began_at_the_earliest(
    store: Store, deployment_id: int, reader: TraceReader, runs: Runs
) -> None:
    """Otherwise a new project would say of every node that nobody has entered it for a month."""
    runs.take(_raw(1))
    await reader.read(deployment_id)

    async with store.database.read() as connection:
        [target, quiet] = await list_nodes(connection, deployment_id, [NODE, "respond"], now=NOW)

    assert (target.entered, quiet.entered) == (1, 0)
    assert quiet.watched_since == NOW - timedelta(minutes=1, seconds=1)
