"""Workers beside a ``serve`` that leaves the polling to them, on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import update

import app.jobs.asking
from app.clock import utc_now
from app.inventory import tables
from app.jobs.queue import POLL, Queue, lock_of, open_queue
from app.jobs.runtime import Runtime, open_runtime
from app.jobs.worker import Timing, Worker
from app.main import create_app
from app.settings import Settings
from tests.faults.conftest import DRAIN, NAME
from tests.faults.fake_server import Clock, FakeAgentServer

QUICK = Timing(beat=0.2, dead_after=1.0, look=0.1, tick=1, grace=1.0, again=0.1)


@dataclass
class Crew:
    """A database, the server that is looked at, and who asked it."""

    settings: Settings
    server: FakeAgentServer
    busy: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    at_once: int = 0

    def transport(self, who: str) -> Callable[[str], httpx.AsyncBaseTransport]:
        """The server as one process sees it. Every answer takes a moment."""

        async def answer(request: httpx.Request) -> httpx.Response:
            self.asked.append(who)
            self.busy[who] = self.busy.get(who, 0) + 1
            self.at_once = max(self.at_once, sum(count > 0 for count in self.busy.values()))
            await asyncio.sleep(0.005)
            try:
                return await self.server.transport.handle_async_request(request)
            finally:
                self.busy[who] -= 1

        return lambda _: httpx.MockTransport(answer)

    @asynccontextmanager
    async def board(self) -> AsyncIterator[httpx.AsyncClient]:
        """``serve``, which asks the server nothing."""
        application = create_app(self.settings, transport=self.transport("serve"))
        async with application.router.lifespan_context(application):
            transport = httpx.ASGITransport(application, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test") as http:
                yield http

    @asynccontextmanager
    async def workers(self, *names: str) -> AsyncIterator[Queue]:
        """Workers that work until the end of the block."""
        async with AsyncExitStack() as stack:
            for name in names:
                opened = open_runtime(self.settings, schedule=False, transport=self.transport(name))
                runtime: Runtime = await stack.enter_async_context(opened)
                queue = await stack.enter_async_context(open_queue(self.settings))
                worker = Worker(runtime, queue, name=name, concurrency=2, timing=QUICK)
                stack.push_async_callback(_end, worker, asyncio.create_task(worker.run(), name=name))
            yield queue


async def _end(worker: Worker, task: asyncio.Task[None]) -> None:
    worker.stop()
    async with asyncio.timeout(20):
        await task


@pytest.fixture
def crew(empty_postgres: str, tmp_path: Path) -> Crew:
    settings = Settings(
        database_url=empty_postgres,
        key_file=tmp_path / "board.key",
        home=tmp_path,
        work="workers",
        deployments=[
            {"name": NAME, "url": "http://agent.test", "requests_per_minute": 600_000, "poll_interval": "1s"},
            {"name": "told", "reported": True, "poll_interval": "1s"},
        ],
        drains=[DRAIN],
    )
    return Crew(settings, FakeAgentServer(Clock(utc_now())))


async def _until(http: httpx.AsyncClient, path: str, found: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(20):
        while not found(answer := (await http.get(path)).json()):
            await asyncio.sleep(0.05)
    return answer


async def test_workers_poll_what_serve_leaves_to_them_one_at_a_time(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew.server.settled(20)
    crew.server.parked()
    path = f"/api/v1/deployments/{NAME}"
    async with crew.board() as http:
        with monkeypatch.context() as patch:
            patch.setattr(app.jobs.asking, "TAKEN_WITHIN", 0.2)
            refused = await http.post(f"{path}/poll", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_worker")
        assert "No worker has reported yet" in refused.json()["error"]["message"]
        assert "No worker has reported yet" in (await http.get("/")).text
        assert (await http.get("/readyz")).json()["work"]["sentence"].startswith("No worker")
        async with crew.workers("one", "two") as queue:
            await _until(http, path, lambda found: found["last_sweep"] is not None)
            for full in (True, False, True):
                begun = (await http.post(f"{path}/poll", json={"full": full})).json()["poll"]
                poll = await _until(http, f"{path}/polls/{begun}", lambda found: found["state"] != "running")
                assert poll["state"] == "complete"
                await queue.offer_poll(NAME)
            assert (await http.get(f"{path}/inventory")).json()["total"] == 21
            assert (await http.get("/api/v1/drains/drop-it/gate")).json()["verdict"] == "blocked"
            polls = [each["id"] for each in (await http.get(path)).json()["polls"]]
            await _until(http, path, lambda found: found["polls"][0]["id"] > polls[0] + 1)  # by themselves
            assert (await http.get("/readyz")).json()["work"] == {"by": "workers", "workers": 2, "sentence": None}
            assert "No worker" not in (await http.get("/")).text
            page = (await http.get("/settings")).text
            assert all(f'data-head="Name">{name}' in page for name in ("one", "two"))
            assert "drainboard_workers 2.0" in (await http.get("/metrics")).text
        assert (await http.get("/readyz")).json()["work"]["workers"] == 0
        assert "No worker has reported since" in (await http.get("/")).text
    assert set(crew.asked) <= {"one", "two"}
    assert crew.at_once == 1


async def test_a_job_of_a_worker_that_died_in_a_poll_is_done_by_another(crew: Crew) -> None:
    crew.server.settled(5)
    async with crew.board() as http, open_runtime(crew.settings, schedule=False) as dead:
        async with open_queue(crew.settings) as queue:
            for _ in range(2):  # its own job, and a twin that somebody asked for
                await queue.ask(NAME, full=True)
                ghost = await queue.app.job_manager.register_worker()
                taken = await queue.app.job_manager.fetch_job(queues=None, worker_id=ghost)
                if taken is None:
                    break
            async with dead.store.database.write() as connection:
                held = {"lock_holder": "dead", "lock_until": utc_now() + timedelta(seconds=1)}
                await connection.execute(update(tables.deployment).where(tables.deployment.c.name == NAME).values(held))
            assert await queue._has_poll(NAME)
        async with crew.workers("alive") as queue:
            swept = await _until(http, f"/api/v1/deployments/{NAME}", lambda found: found["last_sweep"] is not None)
            assert swept["total"] == 5
            async with asyncio.timeout(20):
                while any(job.worker_id == ghost for job in await queue.app.job_manager.list_jobs_async()):
                    await asyncio.sleep(0.05)


async def test_a_poll_that_fails_is_made_again_later_each_time_and_blocks_nobody(crew: Crew) -> None:
    crew.server.settled(3)
    crew.server.fail("assistants/search", lambda _: httpx.Response(500, json={}), times=2)
    path = f"/api/v1/deployments/{NAME}"
    async with crew.board() as http, crew.workers("one") as queue:

        async def waits() -> bool:
            jobs = await queue.app.job_manager.list_jobs_async(lock=lock_of(NAME), task=POLL, status="todo")
            return any(job.attempts > 0 and job.scheduled_at > utc_now() for job in jobs)

        async with asyncio.timeout(20):
            while not await waits():
                await asyncio.sleep(0.05)
        answer = await http.post(f"{path}/poll", json={"full": True})  # whoever asks does not wait for it
        assert answer.status_code == 202
        await _until(http, path, lambda found: found["last_sweep"] is not None)


async def test_a_database_that_goes_away_is_waited_for(crew: Crew) -> None:
    crew.server.settled(3)
    path = f"/api/v1/deployments/{NAME}"
    async with crew.board() as http, crew.workers("one"):
        await _until(http, path, lambda found: found["last_sweep"] is not None)
        with psycopg.connect(crew.settings.database_url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
        with contextlib.suppress(ValueError):
            await http.get(path)
        before = (await _until(http, path, lambda found: "polls" in found))["polls"][0]["id"]
        await _until(http, path, lambda found: "polls" in found and found["polls"][0]["id"] > before)
