"""Workers are killed at random while threads move; what Drainboard says is compared with the servers all the time."""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from app.main import create_app
from app.settings import load_settings
from tests.kills.world import Place, served

ROOT = Path(__file__).parents[2]
POLICY = {"soak_sweeps": 1, "soak_hold": "0s"}
SETTLED_WITHIN = 300.0


@dataclass
class Plan:
    """What is done. ``lease``: seconds until a dead worker's lock is free; 0: as it comes."""

    database_url: str
    home: Path
    kills: int = 50
    seed: int = 1
    workers: int = 3
    deployments: int = 4
    threads: int = 150
    lease: float = 10.0
    pause: float = 6.0


@dataclass
class Seen:
    """The figures, and the lies: there should be none."""

    kills: int = 0
    in_a_poll: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    polls: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    requests: int = 0
    seconds: float = 0.0
    lies: list[str] = field(default_factory=list)

    def states(self) -> Counter[str]:
        return Counter(f"{poll['kind']} {poll['state']}" for poll in self.polls.values())

    def interrupted(self) -> int:
        return sum(any(r["code"] == "interrupted" for r in poll["reasons"]) for poll in self.polls.values())


async def kill_workers(plan: Plan) -> Seen:
    """The whole run; the figures."""
    seen, chance, began = Seen(), random.Random(plan.seed), time.monotonic()
    places = [Place(f"place-{number}") for number in range(plan.deployments)]
    for place in places:
        place.fill(plan.threads)
    async with served(places) as url, _board(plan, url, places) as http, _workers(plan) as workers:
        watch = asyncio.create_task(_watch(http, places, seen))
        moving = asyncio.create_task(_move(plan, places, random.Random(plan.seed + 1), seen))
        asking = asyncio.create_task(_ask(http, places, random.Random(plan.seed + 2), seen))
        try:
            await _until(lambda: all(place.turns for place in places), "Nobody polled.")
            for _ in range(plan.kills):
                await workers.all_up()
                await asyncio.sleep(chance.uniform(0.3, plan.pause))
                seen.in_a_poll += await workers.kill(chance.randrange(plan.workers), places)
                seen.kills += 1
            await moving
            await _settle(http, places, seen)
        finally:
            for task in (watch, moving, asking):
                task.cancel()
            results = await asyncio.gather(watch, moving, asking, return_exceptions=True)
        seen.lies += [f"crashed: {found!r}" for found in results if isinstance(found, Exception)]
        _judge(places, seen)
    seen.seconds = time.monotonic() - began
    return seen


# -- those who work ------------------------------------------------------------------------------------------------


@dataclass
class Workers:
    """Processes at work, by their ids, and the one that forks them."""

    home: Path
    forks: asyncio.subprocess.Process
    running: list[tuple[Path, int]] = field(default_factory=list)
    made: int = 0

    async def start(self) -> tuple[Path, int]:
        """Another one, with its log."""
        self.made += 1
        log = self.home / f"worker-{self.made}.log"
        assert self.forks.stdin is not None
        assert self.forks.stdout is not None
        self.forks.stdin.write(f"{log}\n".encode())
        return log, int(await self.forks.stdout.readline())

    async def all_up(self) -> None:
        """Until each is at work: one that only begins is killed too seldom in the middle of something."""
        for log, _ in self.running:
            said, end = "", time.monotonic() + SETTLED_WITHIN
            while not log.exists() or "worker.started" not in (said := log.read_text()):
                if time.monotonic() > end:
                    raise AssertionError(f"{log.stem} did not start: {said[-2000:]}")
                await asyncio.sleep(0.05)

    async def kill(self, index: int, places: list[Place]) -> int:
        """Kill one where it stands, and put another in its place; in how many polls it was."""
        (_, process), now = self.running[index], asyncio.get_running_loop().time()
        mine = [turn for place in places for turn in place.turns.values() if turn.name.startswith(f"{process}.")]
        os.kill(process, signal.SIGKILL)
        self.running[index] = await self.start()
        return sum(now - turn.last < 0.2 for turn in mine)


@asynccontextmanager
async def _workers(plan: Plan) -> AsyncIterator[Workers]:
    config = plan.home / "drainboard.toml"
    environment = os.environ | {"DRAINBOARD_CONFIG": str(config), "KILLS_LEASE": str(plan.lease)}
    command = ("-m", "tests.kills.told_worker")
    forks = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, env=environment, stdin=PIPE, stdout=PIPE
    )
    workers = Workers(plan.home, forks)
    try:
        for _ in range(plan.workers):
            workers.running.append(await workers.start())
        yield workers
    finally:
        for _, process in workers.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        if forks.stdin is not None:
            forks.stdin.close()
        await forks.wait()  # those that still end their work do so with it


@asynccontextmanager
async def _board(plan: Plan, url: str, places: list[Place]) -> AsyncIterator[httpx.AsyncClient]:
    """``serve``, in this process, which polls nothing."""
    file = plan.home / "drainboard.toml"
    file.write_text(_settings(plan.database_url, url, places), encoding="utf-8")
    async with AsyncExitStack() as stack:
        application = create_app(load_settings(file))
        await stack.enter_async_context(application.router.lifespan_context(application))
        transport = httpx.ASGITransport(application)
        client = httpx.AsyncClient(transport=transport, base_url="http://drainboard.test", timeout=120)
        yield await stack.enter_async_context(client)


def _settings(database_url: str, url: str, places: list[Place]) -> str:
    lines = [f"database_url = {json.dumps(database_url)}", 'work = "workers"', 'log_level = "info"']
    for place in places:
        lines += ["[[deployments]]", f'name = "{place.name}"', f'url = "{url}/{place.name}"', 'poll_interval = "2s"']
        lines += ['sweep_interval = "6s"', "requests_per_minute = 1000000", "concurrency = 4", "page_size = 10"]
    for place in places:
        for name, node in (("held", "await_approval"), ("empties", "old_step")):
            lines += [
                "[[drains]]",
                f'name = "{name}-{place.name}"',
                f'deployment = "{place.name}"',
                'graph = "support"',
            ]
            lines += [f'remove_nodes = ["{node}"]', 'policy = { soak_sweeps = 1, soak_hold = "0s" }']
    return "\n".join(lines) + "\n"


# -- what happens meanwhile ----------------------------------------------------------------------------------------


async def _move(plan: Plan, places: list[Place], chance: random.Random, seen: Seen) -> None:
    """Threads move; what waits at ``old_step`` is done a while before the last kill."""
    most = {place.name: len(place.waiting("old_step")) for place in places}
    while seen.kills < plan.kills:
        part = max(0.0, 1 - seen.kills / (plan.kills * 0.7))
        for place in places:
            place.move(chance, most[place.name] * part)
        await asyncio.sleep(0.2)


async def _ask(http: httpx.AsyncClient, places: list[Place], chance: random.Random, seen: Seen) -> None:
    """People ask for polls."""
    while True:
        await asyncio.sleep(4)
        path = f"/api/v1/deployments/{chance.choice(places).name}/poll"
        answer = await http.post(path, json={"full": chance.random() < 0.5})
        seen.asked[answer.json().get("error", {}).get("code", "begun")] += 1


async def _watch(http: httpx.AsyncClient, places: list[Place], seen: Seen) -> None:
    """Ask gates and polls all the time."""
    while True:
        for place in places:
            await _look(http, place, seen)
        await asyncio.sleep(1.5)


async def _look(http: httpx.AsyncClient, place: Place, seen: Seen) -> None:
    for drain, node in (("held", "await_approval"), ("empties", "old_step")):
        verdict = (await http.get(f"/api/v1/drains/{drain}-{place.name}/gate")).json()["verdict"]
        seen.answers[f"{drain} {verdict}"] += 1
        if verdict == "drained" and place.waiting(node):
            seen.lies.append(f"{drain} of {place.name} is drained, and {len(place.waiting(node))} wait")
    for poll in (await http.get(f"/api/v1/deployments/{place.name}")).json()["polls"]:
        seen.polls[place.name, poll["id"]] = poll


async def _settle(http: httpx.AsyncClient, places: list[Place], seen: Seen) -> None:
    """Until each place was swept once more, everything is counted right, and what is empty is drained."""
    for place in places:
        path = f"/api/v1/deployments/{place.name}"
        before = (await http.get(path)).json()["last_sweep"]
        newest = before["id"] if before else 0

        async def is_right(path: str = path, newest: int = newest, place: Place = place) -> bool:
            sweep = (await http.get(path)).json()["last_sweep"]
            if sweep is None or sweep["id"] <= newest:
                return False
            gate = (await http.get(f"/api/v1/drains/empties-{place.name}/gate")).json()
            return (await _counts(http, place)) == place.truth() and gate["verdict"] == "drained"

        end = time.monotonic() + SETTLED_WITHIN
        while not await is_right():
            if time.monotonic() > end:
                gate = (await http.get(f"/api/v1/drains/empties-{place.name}/gate")).json()
                codes = [reason["code"] for reason in gate["reasons"]]
                seen.lies.append(f"{place.name}: {await _counts(http, place)}, not {place.truth()}; {codes}")
                break
            await asyncio.sleep(0.2)
        await _look(http, place, seen)


async def _counts(http: httpx.AsyncClient, place: Place) -> dict[str, dict[str, int]]:
    facets = (await http.get(f"/api/v1/deployments/{place.name}/inventory")).json()["facets"]
    return {name: {key: count for key, count in facets[name].items() if count} for name in ("status", "pending")}


def _judge(places: list[Place], seen: Seen) -> None:
    for place in places:
        for one, other in place.at_once():
            seen.lies.append(f"{place.name} was polled twice at once: {one}, {other}")
        if "none" in place.turns:
            seen.lies.append(f"{place.name} was asked by somebody without the lock")
        seen.turns += len(place.turns)
        seen.requests += sum(turn.requests for turn in place.turns.values())
    by_name = {place.name: place for place in places}
    for (name, number), poll in seen.polls.items():
        if (poll["kind"], poll["state"]) == ("sweep", "complete"):
            least = by_name[name].live_at(datetime.fromisoformat(poll["started_at"]))
            if poll["threads_seen"] < least:
                seen.lies.append(f"sweep {number} of {name} is complete with {poll['threads_seen']} of {least} threads")


async def _until(is_so: Any, complaint: str) -> None:
    end = time.monotonic() + SETTLED_WITHIN
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(complaint)
        await asyncio.sleep(0.05)
