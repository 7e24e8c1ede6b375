"""One evaluation for many callers, and never one that began before its caller asked."""

from __future__ import annotations

import asyncio
import gc
from datetime import datetime

import pytest

from app.drains.sharing import Shared
from tests.unit.builders import MINUTE, NOW


class Source:
    """Something that changes, and evaluations of it that end when the test says so."""

    def __init__(self) -> None:
        self.value = 0
        self.began: list[datetime] = []
        self.go_on = asyncio.Event()

    async def evaluate(self, now: datetime) -> int:
        self.began.append(now)
        seen = self.value
        await self.go_on.wait()
        return seen


async def test_who_asks_while_one_is_worked_out_gets_the_next_one() -> None:
    source, shared = Source(), Shared[int]()
    first = asyncio.create_task(shared.ask("drain", NOW, source.evaluate))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    source.value = 1  # changed after the first evaluation began
    later = [asyncio.create_task(shared.ask("drain", NOW + n * MINUTE, source.evaluate)) for n in (3, 9, 5)]
    await asyncio.sleep(0)
    source.go_on.set()
    assert await first == 0
    assert [await one for one in later] == [1, 1, 1]
    assert source.began == [NOW, NOW + 9 * MINUTE]  # two evaluations for four callers, the second at the latest time


async def test_drains_are_not_mixed_up_and_a_failure_reaches_all_who_share_it() -> None:
    shared = Shared[str]()

    async def name(_: datetime) -> str:
        return "a"

    async def fail(_: datetime) -> str:
        raise LookupError("no such drain")

    one, *failed = await asyncio.gather(
        shared.ask("a", NOW, name),
        shared.ask("b", NOW, fail),
        shared.ask("b", NOW, fail),
        return_exceptions=True,
    )
    assert one == "a"
    assert [type(each) for each in failed] == [LookupError, LookupError]
    assert await shared.ask("b", NOW, name) == "a"


async def test_a_caller_who_goes_away_takes_nothing_from_the_others() -> None:
    source, shared = Source(), Shared[int]()
    gone, stays = (asyncio.create_task(shared.ask("drain", NOW, source.evaluate)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    source.go_on.set()
    assert await stays == 0


async def test_a_failure_that_nobody_waits_for_any_more_says_nothing() -> None:
    shared, go_on, said = Shared[str](), asyncio.Event(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))

    async def fail(_: datetime) -> str:
        await go_on.wait()
        raise LookupError("no such drain")

    caller = asyncio.create_task(shared.ask("a", NOW, fail))
    await asyncio.sleep(0.01)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    go_on.set()
    await asyncio.sleep(0.01)
    del caller  # it holds what it waited for
    gc.collect()
    assert said == []
