"""Forgetting what is over turns no verdict into drained, and hides nothing that comes back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from app.jobs import forgetting
from app.jobs.forgetting import forget_over
from app.jobs.worker import Jobs, Timing
from app.settings import KeepSettings
from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

YEARS = timedelta(days=1000)
NODES = ("intake", "await_approval", "finish")


async def forget(it: Board) -> dict[str, int]:
    runtime = it.app.state.runtime
    return dict(await forget_over(runtime.store, KeepSettings(), NAME, it.clock()))


@pytest.mark.parametrize("knows", [True, False], ids=["kept", "with a broken rule"])
async def test_a_thread_that_comes_back_after_years_without_its_node_is_stranded(
    board: Open, server: FakeAgentServer, monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    """It was deleted while it waited, and the node was removed while the drain was drained. Of its row and its state nothing
    shows any more that it waits: only the tombstone knows."""
    if not knows:
        monkeypatch.setattr(forgetting, "_touches", lambda *_: False)
    server.settled(3)
    thread, other = server.parked(static=True), server.settled(1)[0]
    async with board(verify_idle_per_sweep=100) as it:
        await it.poll(full=True)
        del server.threads[thread.id], server.threads[other.id]
        for _ in range(2):
            await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        it.clock.tick(days=YEARS.days)
        assert await it.verdict() == "unknown", "nobody has looked for years"
        for _ in range(2):
            await it.poll(full=True)
        assert await it.verdict() == "drained"
        told = await forget(it)
        assert told["tombstones"] == 1 if knows else 2
        assert told["polls"] >= 2
        assert await it.verdict() == "drained"
        thread.status = "idle"  # as a copy, or after a run was rolled back
        server.threads[thread.id] = thread
        await it.poll(full=True)
        assert await it.verdict() == ("blocked" if knows else "drained"), "the rule is what keeps it from a lie"


async def test_a_blocked_drain_stays_blocked_and_an_unknown_one_unknown(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    lost, waiting = server.parked(), server.parked()
    async with board(verify_idle_per_sweep=100) as it:
        await it.poll(full=True)
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        server.finish(lost)
        await it.poll(full=True)
        it.clock.tick(days=YEARS.days)
        await it.poll(full=True)
        before = await it.gate()
        assert before["verdict"] == "blocked"
        assert before["dispositions"]["lost"] == before["dispositions"]["stranded"] == 1
        deploys = await it.get(f"/api/v1/deployments/{NAME}/deploys")
        await forget(it)
        after = await it.gate()
        assert (after["reasons"], after["dispositions"]) == (before["reasons"], before["dispositions"])
        assert await it.get(f"/api/v1/deployments/{NAME}/deploys") == deploys, "they still wait for what it removed"
        await it.poll(full=True)
        assert await it.verdict() == "blocked"
        alarms = {alarm["code"] for alarm in (await it.deployment())["alarms"]}
        assert {"lost", "stranded", "removed_while_waiting"} <= alarms
        assert waiting.id in server.threads


class _Offered(list[tuple[str, str]]):
    """A queue that only remembers what it is offered."""

    async def offer(self, task: str, deployment: str) -> None:
        self.append((task, deployment))

    async def offer_poll(self, deployment: str) -> None:
        self.append(("poll", deployment))


async def test_workers_forget_once_an_hour_one_deployment_after_the_other(board: Open, server: FakeAgentServer) -> None:
    server.settled(1)
    async with board() as it:
        await it.poll(full=True)
        queue: Any = _Offered()
        jobs, hour = Jobs(it.app.state.runtime, queue, Timing(tick=5)), 3600 * 490_000
        for second in range(0, 3600, 5):
            await jobs.schedule(hour + second)
        assert queue == [("forget", NAME)]
        it.clock.tick(days=YEARS.days)
        await it.poll(full=True)
        await it.poll(full=True)
        await jobs.forget(NAME)
        assert await forget(it) == {}, "that was all"
        await jobs.forget("nowhere")
