"""A first sweep that is killed goes on where it stopped, and says until then that its numbers are partial."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import httpx
import pytest

from app.jobs.polling import taking_in
from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

SEARCH = "POST /threads/search"
COUNT = 40


@pytest.fixture(autouse=True)
def _remembers_at_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking_in, "REMEMBER_EVERY", 0.0)


async def _kill_at_page(it: Board, server: FakeAgentServer, page: int) -> None:
    """Cut a sweep while a page is listed."""
    reached = asyncio.Event()
    pages = 0

    async def hangs(_: httpx.Request) -> httpx.Response:
        reached.set()
        await asyncio.sleep(60)
        raise AssertionError

    def watch(request: httpx.Request) -> None:
        nonlocal pages
        pages += request.url.path == "/threads/search"
        if pages == page:
            server.fail(SEARCH, hangs)

    server.after = watch
    task = asyncio.ensure_future(it.poll(full=True))
    await asyncio.wait_for(reached.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.faults.clear()
    server.after = lambda _: None


async def test_it_lists_the_rest_only_and_finds_what_came_and_moved_behind_it(
    board: Open, server: FakeAgentServer
) -> None:
    threads = server.settled(COUNT)
    server.parked()
    async with board() as it:
        await _kill_at_page(it, server, 10)
        told = await it.inventory()
        assert (told["complete"], 0 < told["total"] < COUNT) == (False, True)
        assert await it.verdict() == "unknown"
        it.clock.tick(minutes=10)
        server.park(threads[0])
        server.thread(id="00000000-0000-7000-8000-000000000000", updated_at=it.clock.now)
        del server.threads[threads[-1].id]
        server.requests.clear()
        poll = await it.poll()
        assert (poll.kind, poll.state, poll.threads_seen) == ("sweep", "complete", COUNT)
        pages = server.asked(SEARCH)
        assert it.clock.now - poll.started_at >= timedelta(minutes=10)
        assert (await it.inventory())["total"] == COUNT + 1
        assert await it.conditions() == {"parked": 2, "presumed_settled": COUNT - 1}
        assert await it.verdict() == "blocked"
        server.requests.clear()
        await it.poll(full=True)
        assert pages < server.asked(SEARCH)


async def test_it_begins_anew_after_a_deploy(board: Open, server: FakeAgentServer) -> None:
    server.settled(COUNT)
    async with board() as it:
        await _kill_at_page(it, server, 10)
        it.clock.tick(minutes=10)
        server.deploy("support", "intake", "await_approval", "finish", "archive")
        server.requests.clear()
        poll = await it.poll()
        assert (poll.state, poll.threads_seen) == ("complete", COUNT)
        assert server.asked(SEARCH) > COUNT // 4
        assert it.clock.now - poll.started_at < timedelta(minutes=1)


async def test_states_that_were_read_after_it_last_remembered_are_not_trusted(
    board: Open, server: FakeAgentServer
) -> None:
    """The node was gone when they were read, and is back."""
    for _ in range(COUNT):
        server.parked(static=True).status = "interrupted"
    whole = ("intake", "await_approval", "finish")
    async with board() as it:

        def deploy(_: httpx.Request) -> None:
            if server.asked("/state") > COUNT // 2:
                server.deploy("support", "intake", "finish")

        server.after = deploy
        assert (await it.poll()).state == "incomplete"
        server.after = lambda _: None
        server.deploy("support", *whole)
        await it.poll()
        poll = await it.poll(full=True)
        assert poll.state == "complete"
        assert await it.conditions() == {"parked": COUNT}


async def test_drains_wait_for_its_end(board: Open, server: FakeAgentServer) -> None:
    server.settled(COUNT)
    async with board() as it:
        await _kill_at_page(it, server, 6)
        assert "sweep_incomplete" in await it.codes() or "never_swept" in await it.codes()
        source = next(one for one in (await it.deployment())["sources"] if one["name"] == "threads")
        assert source["status"] in ("incomplete", "not_evaluated")
        assert f"of {COUNT} threads so far, so every number is partial." in source["sentence"]
        assert NAME in await it.everything()
