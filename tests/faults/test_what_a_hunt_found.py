"""Histories that once ended in a false `drained` (docs/decisions/0008), as far as the fake server can play them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.faults.conftest import DRAIN, Open
from tests.faults.fake_server import FakeAgentServer, refuse

VERSION_DRAIN: dict[str, Any] = {key: value for key, value in DRAIN.items() if key != "remove_nodes"} | {
    "minimum_state_version": 2
}


async def test_a_graph_that_was_never_seen_is_not_drained_whatever_the_target(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(1, values={"state_version": 1})
    async with board(drains=[VERSION_DRAIN | {"graph": "suport"}]) as it:
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "unknown"
        assert {"empty_population", "target_not_deployed"} <= await it.codes()


async def test_twenty_that_waited_and_vanish_together_are_no_progress(board: Open, server: FakeAgentServer) -> None:
    waiting = [server.parked() for _ in range(20)]
    async with board() as it:
        await it.poll(full=True)
        assert await it.verdict() == "blocked"
        for thread in waiting:
            del server.threads[thread.id]
        server.settled(1)
        await it.poll(full=True)
        await it.poll(full=True)
        assert "mass_disappearance" in await it.codes()
        assert await it.verdict() == "unknown"


async def test_threads_that_vanish_over_a_cut_sweep_are_counted_together(board: Open, server: FakeAgentServer) -> None:
    waiting = [server.parked() for _ in range(30)]
    async with board() as it:
        await it.poll(full=True)
        for thread in waiting:
            del server.threads[thread.id]
        server.settled(1)
        server.fail("GET /threads/", refuse, skip=25)
        assert (await it.poll(full=True)).state == "incomplete"
        server.faults.clear()
        await it.poll()
        await it.poll(full=True)
        assert await it.verdict() != "drained"
        assert "mass_disappearance" in await it.codes()


async def test_one_time_that_is_not_yet_does_not_blind_the_scans(board: Open, server: FakeAgentServer) -> None:
    ahead, other = server.settled(2)
    async with board() as it:
        await it.poll(full=True)
        ahead.updated_at = it.clock.now + timedelta(hours=6)
        await it.poll()
        server.park(other)
        await it.poll()
        assert await it.verdict() == "blocked"


async def test_intake_that_closes_later_is_still_open(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board(drains=[DRAIN | {"intake_closed_at": "2030-01-01T00:00:00Z"}]) as it:
        await it.poll(full=True)
        assert await it.verdict() == "unknown"
        assert "phase_not_observing" in await it.codes()


async def test_intake_that_closes_later_cannot_be_accepted(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    policy = DRAIN["policy"] | {"accept": ["intake_unseen"]}
    async with board(drains=[DRAIN | {"intake_closed_at": "2030-01-01T00:00:00Z", "policy": policy}]) as it:
        await it.poll(full=True)
        assert await it.verdict() == "unknown"


async def test_a_drain_that_begins_to_observe_soaks_from_then_on(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board(drains=[DRAIN | {"phase": "additive"}]) as it:
        await it.poll(full=True)
        await it.poll(full=True)
    async with board(drains=[DRAIN]) as it:
        assert await it.verdict() == "unknown"
        assert "soaking" in await it.codes()
        assert (await it.poll()).kind == "sweep"
        assert await it.verdict() == "drained"


async def test_a_drain_that_was_away_from_the_file_soaks_anew(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board() as it:
        await it.poll(full=True)
        assert await it.verdict() == "drained"
    async with board(drains=[DRAIN | {"name": "another"}]) as it:
        assert "drain_closed" in await it.codes()
    async with board() as it:
        assert await it.verdict() == "unknown"
        assert "soaking" in await it.codes()
