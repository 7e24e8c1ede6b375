"""What the fault storm found, each in small."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import SourceError
from app.facts.privacy import Names
from app.facts.raw import Malformed
from app.facts.reading import Reading
from app.facts.states import reduce_state
from app.inventory import writes
from app.inventory.db import Database
from app.inventory.store import Store
from app.jobs import turns
from app.jobs.polling import lock
from app.jobs.polling.lock import PollLock
from app.sources.agent_server.client import AgentServer
from app.sources.agent_server.lanes import Lanes
from app.sources.agent_server.reduce import reduce_drawing, reduce_graph, reduce_runs

READING = Reading(Names((), key=b"k"), (), (), ())
STATE: dict[str, Any] = {
    "values": {},
    "next": ["ask"],
    "tasks": [{"id": "t", "name": "ask", "state": None, "path": ["__pregel_pull", "ask"]}],
    "metadata": {},
    "checkpoint": {"checkpoint_id": "c"},
}


async def test_a_request_that_was_cancelled_leaves_no_lane_behind_that_is_never_free() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")

    server = await asyncio.start_server(_quietly(answer), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with httpx.AsyncClient(transport=Lanes(1), timeout=httpx.Timeout(2, pool=1.0)) as http:
        for turns_of_the_loop in range(24):
            asked = asyncio.create_task(http.get(url))
            for _ in range(turns_of_the_loop):
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            assert (await http.get(url)).status_code == 200, turns_of_the_loop
    server.close()


def _quietly(answer: Any) -> Any:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return served


@pytest.mark.parametrize(
    "odd",
    [
        {"checkpoint": 7},
        {"checkpoint": {"checkpoint_id": 7}},
        {"checkpoint": None},
        {"tasks": {}},
        {"next": [7]},
        {"tasks": [{"id": "t", "name": "ask", "state": 7}]},
    ],
)
def test_a_state_of_which_a_part_is_something_else_is_malformed_and_not_that_of_an_idle_thread(odd: Any) -> None:
    assert reduce_state(STATE, READING).leaves
    with pytest.raises(Malformed):
        reduce_state(STATE | odd, READING)


def test_a_graph_of_which_a_part_cannot_be_read_is_not_another_graph() -> None:
    for odd in (
        {"nodes": [{"id": 7}]},
        {"nodes": [{"id": "a", "metadata": []}]},
        {"nodes": [], "edges": [{"source": 1}]},
    ):
        with pytest.raises(Malformed):
            reduce_drawing(odd)
    for schemas in ({"state_schema": 7}, {"state_schema": {"properties": 7}}):
        with pytest.raises(Malformed):
            reduce_graph("g", "a", plain={"nodes": []}, xray={"nodes": []}, schemas=schemas)
    with pytest.raises(Malformed):
        reduce_runs([{"run_id": "r", "status": 7}])


@pytest.mark.parametrize(
    ("body", "is_gone"),
    [
        ({"json": {"detail": "Thread with ID x not found"}}, True),
        ({"json": {"error": "not_found", "message": "thread_not_found"}}, True),
        ({"json": {"detail": "Not Found"}}, False),
        ({"json": {"message": "no Route matched with those values"}}, False),
        ({"json": {"message": "Cannot GET /threads/thread-1", "error": "Not Found", "statusCode": 404}}, False),
        ({"text": "default backend - 404"}, False),
        ({"html": "<html>404</html>"}, False),
    ],
)
async def test_a_gateway_that_does_not_know_the_way_is_no_thread_that_is_gone(body: Any, is_gone: bool) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(404, **body))
    server = AgentServer(
        name="s", url="http://agent.test", api_key=None, reading=READING, requests_per_minute=1000, concurrency=1, transport=transport
    )  # fmt: skip
    async with server:
        if is_gone:
            assert await server.thread("x") is None
        else:
            with pytest.raises(SourceError):
                await server.thread("x")


async def test_a_state_with_tasks_that_are_none_is_a_failure_of_that_thread_alone() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=STATE | {"tasks": 7}))
    server = AgentServer(
        name="s", url="http://agent.test", api_key=None, reading=READING, requests_per_minute=1000, concurrency=1, transport=transport
    )  # fmt: skip
    async with server:
        assert str(await server.state("x")) == "lasting"


async def test_a_lock_that_could_not_be_given_back_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migrated_sqlite: Path
) -> None:
    shutil.copy(migrated_sqlite, tmp_path / "board.db")
    store = Store(Database(f"sqlite+aiosqlite:///{tmp_path}/board.db"), b"k")
    release, now = writes.release_lock, [datetime(2026, 12, 1, tzinfo=UTC)]
    monkeypatch.setattr(lock, "utc_now", lambda: now[0])

    async def fails(*_: Any, **__: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr(writes, "release_lock", fails)
    async with PollLock("prod", store).held() as deployment_id:
        pass
    monkeypatch.setattr(writes, "release_lock", release)
    async with asyncio.timeout(5), PollLock("prod", store).held():
        pass
    store.left_locks.clear()
    async with store.database.write() as connection:  # by a clock that was a day ahead
        await writes.take_lock(
            connection, deployment_id, holder="dead", now=now[0] + timedelta(days=1), lease=lock.LEASE
        )
    async with asyncio.timeout(5), PollLock("prod", store).held():
        pass
    await store.database.close()


def test_what_is_of_a_time_that_is_not_yet_is_due_now() -> None:
    now, hour = datetime(2026, 12, 1, tzinfo=UTC), timedelta(hours=1)
    assert turns._has_passed(hour, since=now + 24 * hour, now=now)
    assert turns._has_passed(hour, since=now - hour, now=now)
    assert not turns._has_passed(hour, since=now - hour / 2, now=now)
