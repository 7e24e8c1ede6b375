"""Threads that move, park, end, come and go between any two requests of a poll: what is remembered is what is there.

With more threads and polls it takes longer and meets more: MOVING_THREADS=300 MOVING_POLLS=6 .venv/bin/python -m pytest FILE
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer, Thread

THREADS = int(os.environ.get("MOVING_THREADS", "7"))
POLLS = int(os.environ.get("MOVING_POLLS", "2"))
OFTEN = 0.2  # how often something happens after a request
TICKS = (0, 0, 1, 300, 2_000)  # milliseconds from one change to the next: some changes fall on the same moment

Row = tuple[str, str, tuple[str, ...], str, str]


@pytest.fixture
def address(address_of_either: str) -> str:
    """Each case on one kind of database."""
    return address_of_either


@pytest.fixture(autouse=True)
def _less_is_logged(_nothing_leaks_into_logs: None) -> None:
    """The steps of the database's driver are most of the time of these tests."""
    for name in ("aiosqlite", "httpx", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)


class Life:
    """Does something to the server after a request, by chance."""

    def __init__(self, server: FakeAgentServer, chance: random.Random) -> None:
        self.server = server
        self.chance = chance

    def __call__(self, _: httpx.Request) -> None:
        while self.chance.random() < OFTEN:
            self.server.clock.tick(milliseconds=self.chance.choice(TICKS))
            self.chance.choice(self._deeds())()

    def _deeds(self) -> list[Callable[[], object]]:
        if not self.server.threads:
            return [self._make]
        thread = self.chance.choice(list(self.server.threads.values()))
        return [
            self._make,
            lambda: self._delete(thread),
            lambda: self._rename(thread),
            lambda: self.server.park(thread) if thread.status == "idle" else self.server.finish(thread),
            lambda: self.server.park(thread, "finish") if thread.status == "idle" else self.server.finish(thread),
            lambda: self._make_anew(thread),
        ]

    def _make(self) -> Thread:
        """Its id may be before what was listed already, as an id that a client chose is."""
        now = self.server.clock.now
        made = self.server.thread(id=_an_id(self.chance), created_at=now, updated_at=now)
        if self.chance.random() < 0.5:
            self.server.park(made)
        return made

    def _delete(self, thread: Thread) -> None:
        del self.server.threads[thread.id]

    def _rename(self, thread: Thread) -> None:
        """Its fields change, and nothing else."""
        thread.values = {"note": "n", "state_version": self.chance.randint(1, 3), "customer_name": "c"}
        thread.updated_at = thread.head_at = self.server.clock.now

    def _make_anew(self, thread: Thread) -> None:
        """The same id, another thread."""
        self._delete(thread)
        now = self.server.clock.tick(milliseconds=1)
        self.server.thread(id=thread.id, created_at=now, updated_at=now)


def _an_id(chance: random.Random) -> str:
    return f"{chance.getrandbits(32):08x}-0000-4000-8000-{chance.getrandbits(48):012x}"


def _there(server: FakeAgentServer) -> set[Row]:
    return {
        (
            one.id,
            one.status,
            tuple(sorted(node for node, _ in one.pending)),
            one.created_at.isoformat(),
            one.updated_at.isoformat(),
        )
        for one in server.threads.values()
    }


def _row(item: dict[str, Any]) -> Row:
    times = [str(item[name]).replace("Z", "+00:00") for name in ("created_at", "updated_at")]
    return (item["thread_id"], item["status"], tuple(item["pending"]), times[0], times[1])


async def _remembered(it: Board) -> set[Row]:
    page = await it.get(f"/api/v1/deployments/{NAME}/threads?limit=500")
    assert page["next_cursor"] is None
    return {_row(item) for item in page["items"]}


@pytest.mark.parametrize("seed", range(100))
async def test_after_a_quiet_poll_the_inventory_is_what_the_server_has(
    board: Open, server: FakeAgentServer, seed: int
) -> None:
    chance = random.Random(seed)
    life = Life(server, chance)
    async with board(page_size=chance.choice([2, 4, 50])) as it:
        for _ in range(THREADS):
            it.clock.tick(milliseconds=chance.choice(TICKS))
            life._make()
        for number in range(POLLS):
            server.after = life
            await it.poll(full=chance.random() < 0.3)
            server.after = lambda _: None
            if number == 1:
                poll = await it.poll()
                assert poll.state == "complete", poll.reasons
                assert _there(server) <= await _remembered(it)
        it.clock.tick(seconds=1)
        poll = await it.poll(full=True)
        assert poll.state == "complete", poll.reasons
        assert await _remembered(it) == _there(server)
        again = await it.poll()
        assert (again.state, again.states_read) == ("complete", 0)
        assert timedelta(0) <= it.clock.now - again.started_at
