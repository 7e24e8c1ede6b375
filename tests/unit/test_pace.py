"""How fast a server is asked: less after a 429 or slow answers, and its budget again when that has passed."""

from __future__ import annotations

import asyncio

import pytest

from app.sources.agent_server import pace as module
from app.sources.agent_server.pace import Pace


class _Seconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> _Seconds:
    made = _Seconds()
    monkeypatch.setattr(module, "monotonic", made)
    return made


def _now(pace: Pace) -> tuple[int, int]:
    return pace.requests_per_minute, pace.concurrency


async def test_answers_that_come_together_halve_it_once(seconds: _Seconds) -> None:
    pace = Pace(1200, 16)
    for _ in range(5):
        pace.complained(None)
    assert (_now(pace), pace.because) == ((600, 8), "it answers 429")
    seconds.now += 2
    pace.complained(None)
    assert _now(pace) == (300, 4)


async def test_it_never_stops_and_comes_back_in_steps(seconds: _Seconds) -> None:
    pace = Pace(1200, 16)
    for _ in range(20):
        seconds.now += 2
        pace.complained(None)
    assert _now(pace) == (24, 1)
    steps = 0
    while pace.is_slowed:
        seconds.now += 6
        pace.answered(0.01)
        steps += 1
    assert (_now(pace), pace.slowed_at, steps) == ((1200, 16), None, 15)


async def test_slow_answers_take_away_one_at_a_time(seconds: _Seconds) -> None:
    pace = Pace(1200, 4)
    pace.answered(0.1)
    for _ in range(40):
        seconds.now += 2
        pace.answered(8.0)
    assert (_now(pace), pace.because) == ((1200, 1), "it answers slowly")


async def test_answers_that_are_always_heavy_are_not_slow(seconds: _Seconds) -> None:
    pace = Pace(1200, 4)
    for _ in range(40):
        seconds.now += 2
        pace.answered(3.0)
    assert _now(pace) == (1200, 4)


async def test_no_more_requests_run_at_once_than_it_says(seconds: _Seconds) -> None:
    pace = Pace(1_000_000, 8)
    running = most = 0

    async def ask() -> None:
        nonlocal running, most
        async with pace.turn():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(ask() for _ in range(40)))
    assert most == 8
    pace.complained(None)
    await asyncio.gather(*(ask() for _ in range(8)))
    most = 0
    await asyncio.gather(*(ask() for _ in range(40)))
    assert most == 4
    while pace.is_slowed:
        seconds.now += 6
        pace.answered(0.01)
    most = 0
    await asyncio.gather(*(ask() for _ in range(40)))
    assert most == 8
