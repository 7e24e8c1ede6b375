"""Rounds of bad weather, each with fine weather after it: what is said meanwhile, and whether all is right again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from pathlib import Path

from tests.counts import check_kept
from tests.storm.clocks import Clock, jumping
from tests.storm.database import Failing, Postgres, SqliteFile, failing
from tests.storm.mutants import MUTANTS, WHERE_IT_SHOWS
from tests.storm.people import People
from tests.storm.product import MAX_AGE, NAME, Product, running
from tests.storm.proxy import KINDS, PAGES, Proxy, Weather, served
from tests.storm.world import MOST_DELETED, TARGETS, World

JUMPS = (-400, -24, -1, -0.02, 0.02, 0.3, 1, 24, 400)  # hours
MOST_POLLS = 6
PATIENCE = (
    50.0  # seconds until a poll must have ended, and all must be right again: less than a lock is left behind for
)
A_MOMENT = timedelta(seconds=30)
DRAINS = ("approvals", "old-steps", "names")


@dataclass(frozen=True)
class Plan:
    """What is done: so many faults, by a seed."""

    database_url: str
    home: Path
    faults: int = 10_000
    seed: int = 1
    threads: int = 24
    stops_at_a_lie: bool = False
    minutes: float = 1e9
    mutate: str | None = None
    rounds: int = 1_000_000
    polls: tuple[int, int] = (6, 24)
    postgres: Postgres | None = None

    @property
    def sky(self) -> Weather | tuple[float, str] | None:
        """Weather that was asked for, for a broken rule."""
        return WHERE_IT_SHOWS[self.mutate] if self.mutate else None


@dataclass
class Seen:
    """The figures, and what must not be: there should be none of it."""

    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    requests: int = 0
    gates: int = 0
    drained: int = 0
    acts: int = 0
    polls_until_right: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    lies: list[str] = field(default_factory=list)

    @property
    def met(self) -> int:
        return sum(self.faults.values())


@dataclass
class Storm:
    """Everything that is at work in one run."""

    plan: Plan
    chance: random.Random
    world: World
    proxy: Proxy
    clock: Clock
    driver: Failing
    file: SqliteFile | None
    product: Product
    people: People
    seen: Seen
    sky: str = "calm"

    # -- one round ---------------------------------------------------------------------------------------------------

    async def round(self) -> None:
        """Bad weather while threads move and people act; then fine weather until all is right."""
        self.seen.rounds += 1
        self.world.may_delete = MOST_DELETED
        for drain in DRAINS:
            if self.chance.random() < 0.5:
                self.world.empty(drain)
        await self.product.poll(full=False)
        await self._look()
        async with self._bad_weather():
            watching = asyncio.create_task(self._watch())
            acting = asyncio.create_task(self._act() if self._somebody_acts() else _nothing())
            for _ in range(self.chance.randrange(*self.plan.polls)):
                self._shift()
                await self._look()
                for _ in range(self.chance.randrange(4)):
                    self.world.move(self.chance)
                await self.product.poll(full=self.chance.random() < 0.4)
                await self._look()
            for task in (watching, acting):
                task.cancel()
            await _ended(watching, acting)
        self._count()
        if not (self.plan.stops_at_a_lie and self.seen.lies):
            await self._recover()

    @asynccontextmanager
    async def _bad_weather(self) -> AsyncIterator[None]:
        sky, kind = self.plan.sky, self.chance.random()
        self.proxy.weather = sky if isinstance(sky, Weather) else _weather(self.chance) if sky is None else Weather()
        async with contextlib.AsyncExitStack() as stack:
            if sky is not None:
                self.driver.share, self.driver.where = sky if isinstance(sky, tuple) else (0.0, "")
            elif kind < 0.3:
                self.driver.share = self.chance.choice((0.03, 0.1, 0.3, 1.0))
                self.driver.where = self.chance.choice(("", "", "INSERT|UPDATE|COMMIT", "activity", "COMMIT"))
            elif self.plan.postgres is not None and kind < 0.6:
                await stack.enter_async_context(self.plan.postgres.away_or_dropping(self.chance))
            elif self.file is not None and kind < 0.45:
                stack.enter_context(self.file.full())
            elif self.file is not None and kind < 0.55:
                await stack.enter_async_context(self.file.locked())
            self.sky = f"{self.proxy.weather}, database {self.driver.share or f'{kind:.2f}'}"
            try:
                yield
            finally:
                self.driver.share = 0.0
                self.proxy.weather = Weather()

    def _shift(self) -> None:
        """The clock jumps, unless it is the network alone that a broken rule must show in."""
        sky = self.plan.sky
        is_about_the_network = isinstance(sky, Weather) and sky.share > 0
        if not is_about_the_network and self.chance.random() < (0.4 if sky is None else 1):
            self.clock.jump(timedelta(hours=self.chance.choice(JUMPS)))

    async def _watch(self) -> None:
        """Ask all the time, and let threads move under the polls."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.05, 0.3))
            if self.chance.random() < 0.3:
                self.world.move(self.chance)
            await self._look_at(self.chance.choice(TARGETS).drain)

    def _somebody_acts(self) -> bool:
        """In every second round. Who takes threads over hides what the product forgets of them."""
        if self.plan.sky is not None:
            return not isinstance(self.plan.sky, Weather)
        return self.chance.random() < 0.5

    async def _act(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(0.0, 0.05))
            self.seen.acts += 1
            await self.people.act()

    # -- what must be ------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        for target in TARGETS:
            await self._look_at(target.drain)

    async def _look_at(self, drain: str) -> None:
        """Ask its gate: is it drained although a thread needed it all the while since the evidence was taken?"""
        newest, needed, now = self.product.newest, set(self.world.needed[drain]), self.clock.now(UTC)
        before = self._moment()
        self.seen.gates += 1
        if await self.product.verdict(drain) != "drained":
            return
        self.seen.drained += 1
        if newest is None:
            self._lie(f"{drain} is drained, and no poll was complete")
            return
        still = {one for one, since in self.world.needed[drain].items() if since < newest.began and one in needed}
        if still - self.people.doubtful.get(drain, set()):
            self._lie(f"{drain} is drained, and {len(still)} need it since before the newest complete poll")
        began, ended = newest.at
        is_its_evidence = before == self._moment() and not self.product.at_work
        if is_its_evidence and began <= ended and now - ended > MAX_AGE + A_MOMENT:
            since = [poll.state for poll in self.product.polls[self.product.polls.index(newest) + 1 :]]
            self._lie(f"{drain} is drained by what is {now - ended} old, {since} since then")

    def _moment(self) -> tuple[int, int, int]:
        """The same as long as no poll began or ended and the clock did not jump."""
        return self.product.at_work, len(self.product.polls), self.clock.jumps

    def _lie(self, sentence: str) -> None:
        self.seen.lies.append(f"round {self.seen.rounds} ({self.sky}): {sentence}")

    async def _recover(self) -> None:
        """The faults have ended. Nothing is restarted; a few polls, and all is as it is on the server."""
        self.clock.jump(timedelta(0))
        await self.people.undo()
        end, polls, wrong = time.monotonic() + PATIENCE, 0, ["nothing was asked"]
        while wrong and polls < MOST_POLLS and time.monotonic() < end:
            polls += 1
            try:
                await asyncio.wait_for(self.product.poll(full=polls > 1), PATIENCE)
                wrong = await self._wrong()
            except TimeoutError:
                wrong = [f"a poll has not ended after {PATIENCE:.0f} seconds"]
        self.seen.polls_until_right[polls] += 1
        wrong += await self.people.missing()
        wrong += [f"{name} has ended" for name in self.product.app.state.runtime.schedule.ended]
        wrong += self.product.crashed + self.people.crashes
        self.product.crashed.clear()
        self.people.crashes.clear()
        self.seen.lies += [
            f"round {self.seen.rounds} ({self.sky}), {polls} polls after the storm: {each}" for each in wrong
        ]

    async def _wrong(self) -> list[str]:
        """What is not as it is on the server."""
        found = []
        if not _is_right(said := await self.product.counts(), self.world):
            found.append(f"the inventory says {said}, not {self.world.counts()}")
        if (ids := await self.product.ids()) != self.world.ids():
            found.append(f"threads that are listed, or not: {sorted(ids ^ self.world.ids())[:5]}")
        for drain in DRAINS:
            right_verdict = "blocked" if self.world.needing(drain) else "drained"
            if (verdict := await self.product.verdict(drain)) != right_verdict:
                found.append(f"{drain} is {verdict}, not {right_verdict}: {await self.product.codes(drain)}")
        if not found:
            try:
                await check_kept(self.plan.database_url)
            except AssertionError:
                found.append("the counts that are kept are not those of the threads")
        return found

    def _count(self) -> None:
        met = Counter(self.proxy.met) + Counter({f"{kind} (driver)": n for kind, n in self.driver.met.items()})
        for source in (self.file, self.plan.postgres):
            met += source.met if source is not None else Counter()
        met["clock_jump"] = self.clock.jumps
        self.seen.faults = met


async def _nothing() -> None:
    """Nobody does anything."""


def _is_right(said: dict[str, dict[str, int]], world: World) -> bool:
    """Whether every row is counted, and whatever waits where its row shows it; what waits unseen may be."""
    right, hidden = world.counts(), world.hidden()
    waits = [(said["pending"].get(node, 0) - right["pending"].get(node, 0), hidden[node]) for node in said["pending"]]
    alike = all(said[name] == right[name] for name in ("status", "old"))
    return alike and set(right["pending"]) <= set(said["pending"]) and all(0 <= more <= most for more, most in waits)


def _weather(chance: random.Random) -> Weather:
    share = chance.choice((0.05, 0.2, 0.3, 0.5, 0.7, 1.0))
    kinds = chance.choice((tuple(KINDS), tuple(KINDS), PAGES, (chance.choice(tuple(KINDS)),)))
    where = chance.choice(
        (".", ".", "/threads", "/threads/search", "/state", "/state", "/assistants", "GET /threads/[^/]*$", "/storage")
    )
    return Weather(share, kinds, where)


async def ride(plan: Plan) -> Seen:
    """The whole run; the figures."""
    began, seen, chance = time.monotonic(), Seen(), random.Random(plan.seed)
    world = World()
    world.fill(plan.threads)
    proxy = Proxy(world, random.Random(plan.seed + 1))
    broken = MUTANTS[plan.mutate]() if plan.mutate else contextlib.nullcontext()
    with broken, jumping() as clock, failing(random.Random(plan.seed + 2)) as driver, _file(plan) as file:
        async with served(proxy) as url, running(url, plan.database_url, plan.home, clock) as product:
            people = People(product.http, world, NAME, random.Random(plan.seed + 3))
            storm = Storm(plan, chance, world, proxy, clock, driver, file, product, people, seen)
            await storm._recover()
            while not _is_over(plan, seen, time.monotonic() - began):
                await storm.round()
    seen.outcomes, seen.refused, seen.requests = product.outcomes, people.refused, proxy.asked
    seen.seconds = time.monotonic() - began
    return seen


def _is_over(plan: Plan, seen: Seen, seconds: float) -> bool:
    is_enough = seen.met >= plan.faults or seen.rounds >= plan.rounds or seconds > plan.minutes * 60
    return is_enough or (plan.stops_at_a_lie and bool(seen.lies))


@contextlib.contextmanager
def _file(plan: Plan) -> Iterator[SqliteFile | None]:
    if not plan.database_url.startswith("sqlite"):
        yield None
        return
    found = SqliteFile(Path(plan.database_url.split("///", 1)[1]))
    with found.watched():
        yield found


async def _ended(*tasks: asyncio.Task[None]) -> None:
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(found, Exception):
            raise found
