"""Races and changes after which a drain would have counted something that was not so any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx

from app.inventory import traces
from app.inventory.views import Coverage
from tests.faults.conftest import DRAIN, NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer, status
from tests.faults.test_drains_are_written import ask

MINE = "/api/v1/drains/drop-it"
NODE = "await_approval"


async def test_an_acknowledgement_that_is_taken_back_while_a_poll_reads_counts_no_more(
    board: Open, server: FakeAgentServer
) -> None:
    thread = server.parked()
    server.settled(2)
    server.deploy("support", "intake", "finish")
    async with board() as it:
        await it.poll(full=True)
        owned = {"owner": "payments", "reason": "by hand", "thread_ids": [thread.id]}
        _, said = await ask(it, "POST", f"{MINE}/acknowledgements", owned)
        assert (await it.gate())["dispositions"]["acknowledged"] == 1

        async def take_back(request: httpx.Request) -> httpx.Response:
            assert (await ask(it, "DELETE", f"{MINE}/acknowledgements/{said['id']}"))[0] == 200
            return server._route(request)

        server.fail(f"GET /threads/{thread.id}/state", take_back, times=1)
        await it.poll(full=True)
        gate = await it.gate()
        assert (gate["verdict"], gate["dispositions"]["stranded"], gate["waivers"]) == ("blocked", 1, [])


async def _cover(it: Board) -> None:
    long_ago = it.clock() - timedelta(days=30)
    async with it.app.state.runtime.store.database.write() as connection:
        await traces.set_coverage(
            connection, 1, [Coverage(NODE, exact=True, covered_from=long_ago, covered_until=it.clock())]
        )


async def _is_covered(it: Board) -> bool:
    async with it.app.state.runtime.store.database.read() as connection:
        return NODE in await traces.list_coverage(connection, 1)


async def test_traces_are_read_anew_for_a_window_that_may_reach_back_beyond_what_is_kept(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    other: dict[str, Any] = DRAIN | {"name": "other"}
    async with board() as it:
        await it.poll(full=True)
        await _cover(it)
        assert (await ask(it, "POST", "/api/v1/drains", other))[0] == 201
        assert not await _is_covered(it)
        await _cover(it)
        assert (await ask(it, "PATCH", "/api/v1/drains/other", {"policy": {"trace_window": "14d"}}))[0] == 200
        assert not await _is_covered(it)
        await _cover(it)
        assert (await ask(it, "PATCH", "/api/v1/drains/other", {"owner": "somebody"}))[0] == 200
        assert await _is_covered(it)


async def test_a_thread_that_names_no_graph_and_has_checkpoints_is_not_one_that_never_ran(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    hidden, empty = (server.thread(graph=None, ran=False, values=None) for _ in range(2))
    async with board() as it:
        server.stored[hidden.id] = 3
        await it.poll(full=True)
        threads = {one["thread_id"]: one for one in (await it.get(f"/api/v1/deployments/{NAME}/threads"))["items"]}
        assert threads[hidden.id]["condition"] == "unread"
        assert threads[empty.id]["condition"] == "never_ran"
        assert await it.verdict() == "unknown"


async def test_a_removal_is_not_safe_any_more_once_a_thread_that_was_waived_then_counts_again(
    board: Open, server: FakeAgentServer
) -> None:
    """Nobody has seen what it needed: its state could not be read while the node was there, and shows nothing without it."""
    server.settled(3)
    hidden = server.parked(static=True)
    hidden.status = "idle"  # as a copy of a waiting thread is
    async with board() as it:
        server.fail(f"GET /threads/{hidden.id}/state", status(500))
        await it.poll(full=True)
        owned = {"owner": "payments", "reason": "by hand", "thread_ids": [hidden.id]}
        _, said = await ask(it, "POST", f"{MINE}/waivers", owned)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.faults.clear()
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        assert await ask(it, "DELETE", f"{MINE}/waivers/{said['id']}") == (200, {"ended": 1})
        assert "target_not_deployed" in await it.codes()
        await it.poll(full=True)
        await it.poll(full=True)
        assert "target_not_deployed" in await it.codes()
        await ask(it, "POST", f"{MINE}/waivers", owned)
        assert "target_not_deployed" not in await it.codes()
        await it.poll(full=True)
        assert await it.verdict() == "drained"
