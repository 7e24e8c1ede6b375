"""A server that never rests: threads come, run and are deleted all the time. A finished drain becomes drained; one with a
forgotten thread never does."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from langgraph_sdk import get_client

from app.clock import monotonic, utc_now
from app.drains.answers import Answer
from app.jobs.runtime import Runtime, open_runtime
from app.settings import load_settings
from tests.agent.fixtures import FreshServer
from tests.agent.situations import Bench, revision
from tests.flows.product import to_toml

LONGEST = 90.0
WORKERS = 3
SOAK = {"soak_sweeps": 2, "soak_hold": "2s"}


@dataclass
class Story:
    """What happened: the answers of both drains after every poll, and the traffic meanwhile."""

    finished: list[Answer] = field(default_factory=list)
    forgotten: list[Answer] = field(default_factory=list)
    ran: int = 0
    deleted: int = 0
    statuses: Counter[str] = field(default_factory=Counter)


@pytest.fixture(scope="module")
def story(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Answer what waited, forget one failed thread, and poll under traffic until the finished drain is drained."""
    server = module_agent_server(revision("before"))
    return asyncio.run(_play(server.url, server.folder, tmp_path_factory.mktemp("busy")))


async def _play(url: str, server_folder: Path, folder: Path) -> Story:
    config = folder / "drainboard.toml"
    config.write_text(to_toml(_settings(url)))
    told = Story()
    async with get_client(url=url) as client, open_runtime(load_settings(config), schedule=False) as runtime:
        bench = Bench(client, server_folder)
        waiting = [await bench.ran("support", {"case": "ask"}) for _ in range(3)]
        with contextlib.suppress(Exception):
            await bench.ran("support", {"case": "fail"})
        async with _traffic(bench, told):
            await runtime.poll("real", full=True)
            for thread in waiting:
                await bench.answer(thread, "support")
            await _poll_until_drained(runtime, told)
    return told


def _settings(url: str) -> dict[str, object]:
    drain = {"deployment": "real", "graph": "support", "policy": SOAK}
    return {
        "deployments": [{"name": "real", "url": url, "requests_per_minute": 60_000}],
        "drains": [
            {"name": "finished", "remove_nodes": ["await_approval"], **drain},
            {"name": "forgotten", "remove_nodes": ["fail"], **drain},
        ],
    }


@contextlib.asynccontextmanager
async def _traffic(bench: Bench, told: Story) -> AsyncIterator[None]:
    workers = [asyncio.create_task(_work(bench, told, number)) for number in range(WORKERS)]
    try:
        yield
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _work(bench: Bench, told: Story, number: int) -> None:
    """Threads that run to their end; every other one is deleted again, and some are asked twice."""
    while True:
        thread = await bench.ran("support", {"case": ("finish", "hold")[number % 2]})
        await bench.run(thread, "support", input={"case": "finish"})
        told.ran += 2
        if told.ran % 4:
            await bench.client.threads.delete(thread)
            told.deleted += 1


async def _poll_until_drained(runtime: Runtime, told: Story) -> None:
    ends = monotonic() + LONGEST
    while monotonic() < ends:
        for full in (False, True):
            await runtime.poll("real", full=full)
            told.finished.append(await runtime.drains.answer("finished", now=utc_now()))
            told.forgotten.append(await runtime.drains.answer("forgotten", now=utc_now()))
            told.statuses.update(item.verdict.value for item in told.finished[-1:])
        if told.finished[-1].verdict.value == "drained":
            return


def test_a_finished_drain_becomes_drained_within_its_soak(story: Story) -> None:
    codes = [sorted({reason.code for reason in answer.reasons}) for answer in story.finished]
    assert story.finished[-1].verdict.value == "drained", codes
    last = story.finished[-1]
    assert last.soak.holds_since is not None
    assert last.population.as_of is not None
    assert last.population.as_of - last.soak.holds_since >= timedelta(seconds=2)


def test_a_drain_with_a_forgotten_thread_never_does(story: Story) -> None:
    assert {answer.verdict.value for answer in story.forgotten} == {"blocked"}


def test_there_was_traffic_all_the_time(story: Story) -> None:
    sizes = [answer.population.size for answer in story.finished]
    assert story.ran > 2 * WORKERS
    assert story.deleted > 0
    assert sizes[-1] > sizes[0]
