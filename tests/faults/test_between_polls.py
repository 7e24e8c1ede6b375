"""Between polls idle heads are verified, a handful at a time, and how far that got is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.jobs.polling import verifying
from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

HEADS = 30


@pytest.fixture(autouse=True)
def _small_handfuls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "MOST", 10)


async def _verify(it: Board) -> int:
    it.clock.tick(seconds=6)
    found: int = await it.app.state.runtime.verify(NAME)
    it.clock.tick(seconds=6)
    return found


async def _told(it: Board) -> dict[str, Any]:
    return dict((await it.deployment())["verification"])


async def test_a_handful_after_the_other_until_the_drain_is_verified(board: Open, server: FakeAgentServer) -> None:
    server.settled(HEADS)
    async with board(verify_idle_per_sweep=0) as it:
        await it.poll()
        assert await it.codes() == {"idle_unverified"}
        assert await _verify(it) == 10
        told = await _told(it)
        assert (told["total"], told["left"]) == (HEADS, HEADS - 10)
        assert told["sentence"].startswith("10 of 30 idle heads verified, done in about ")
        assert told["sentence"] in (await it.http.get(f"/deployments/{NAME}")).text
        assert [await _verify(it) for _ in range(3)] == [10, 10, 0]
        assert (await _told(it))["sentence"] == "30 of 30 idle heads verified."
        await it.poll(full=True)
        assert await it.verdict() == "drained"


async def test_a_head_that_waits_is_found(board: Open, server: FakeAgentServer) -> None:
    server.settled(HEADS)
    server.parked(static=True).status = "idle"
    async with board(verify_idle_per_sweep=0) as it:
        await it.poll()
        while await _verify(it):
            assert await it.verdict() != "drained"
        assert await it.verdict() == "blocked"


async def test_with_another_key_nothing_is_read_before_a_poll_has_seen_what_it_shows(
    board: Open, server: FakeAgentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one key does not see is not gone: a worker with another one would empty the drain's threads."""
    monkeypatch.setenv("ONE_KEY", "one")
    monkeypatch.setenv("OTHER_KEY", "other")
    server.settled(HEADS)
    server.parked(static=True).status = "idle"
    async with board(verify_idle_per_sweep=0, api_key_env="ONE_KEY") as it:
        await it.poll()
    server.fail("/threads/", lambda _: httpx.Response(404, json={"detail": "Not found"}), times=1000)
    async with board(verify_idle_per_sweep=0, api_key_env="OTHER_KEY") as it:
        assert await _verify(it) == 0
        assert "gone" not in await it.conditions()
        assert await it.verdict() == "unknown"


async def test_nothing_is_read_for_a_drain_that_is_blocked(board: Open, server: FakeAgentServer) -> None:
    server.settled(HEADS)
    server.parked()
    async with board(verify_idle_per_sweep=0) as it:
        await it.poll()
        server.requests.clear()
        assert await _verify(it) == 0
        assert (server.requests, (await it.deployment())["verification"]) == ([], None)


async def test_what_was_read_while_a_graph_was_deployed_is_not_written(board: Open, server: FakeAgentServer) -> None:
    """The node is gone while heads are read, and back before the next poll."""
    server.settled(5)
    server.parked(static=True).status = "idle"

    def deploy(request: httpx.Request) -> None:
        if request.url.path.endswith("/state"):
            server.deploy("support", "intake", "finish")

    async with board(verify_idle_per_sweep=0) as it:
        await it.poll()
        server.after = deploy
        assert await _verify(it) == 0
        server.after = lambda _: None
        assert await _verify(it) == 0
        server.deploy("support", "intake", "await_approval", "finish")
        await it.poll()
        assert await it.verdict() == "unknown"
        await _verify(it)
        assert await it.verdict() == "blocked"


def test_threads_that_move_faster_than_they_are_read_are_told_with_the_budget_that_would_do() -> None:
    """240 heads a minute can be read, 480 move."""
    began = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    progress = None
    for number in range(12):
        at, left = began + timedelta(minutes=number), 1000 + 240 * number
        end = at + timedelta(seconds=60)
        progress = verifying.next_progress(progress, total=9000, left=left, done=240, started=at, now=end)
        at = end
    told = verifying.verification_of(verifying.as_kept(progress), requests_per_minute=300)
    assert told is not None
    assert (told.done_in_seconds, told.budget) == (None, 750)
    assert "Threads move faster than they can be read: 480 a minute" in told.sentence
    assert told.sentence.endswith("requests_per_minute = 750 would do.")
