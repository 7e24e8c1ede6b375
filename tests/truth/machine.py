"""The truth machine: random histories on a real Agent Server, the product beside them, and the truth in between.

A session is one server and one installation of the product. Several histories live in it side by side, each with threads and drains of
its own (a drain selects by metadata); a deploy, a kill of the server and a restart of the product happen to all of them. Everything
follows from the seed, up to the order in which the server serves what is done at once.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.truth import checks
from tests.truth.births import BIRTHS, HELD, Maker
from tests.truth.deeds import do, possible
from tests.truth.drains import CANDIDATES, Watched
from tests.truth.figures import Figures
from tests.truth.lives import COUNT, NEW, NOTES, OLD, SECRET, VERSION, Life
from tests.truth.product import Product
from tests.truth.world import BEFORE, PARTS, World

STATES: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "new": ({NEW: "x", VERSION: 2}, {NEW: "x", VERSION: 3, COUNT: 3}, {VERSION: 2}),
    "mixed": (
        {NEW: "x", VERSION: 2, COUNT: "3"},
        {OLD: "x", NEW: "x", VERSION: 2, NOTES: "n"},
        {OLD: "x", NEW: "other", VERSION: 2},
        {OLD: "x", VERSION: 1, SECRET: "s"},
        {OLD: "x", NEW: "", NOTES: "n"},
        {VERSION: "2", COUNT: 3},
        {VERSION: True, SECRET: "s"},
        {VERSION: 9},
        {},
    ),
}
"""What the `support` threads of a history hold."""

GRAPHS = ("support", *(graph for graph in BIRTHS if graph != "support"))
MOST_HELD = 6
"""Of the ten runs that the server works on at once."""

FEW = 7


@dataclass(frozen=True)
class Size:
    """How much happens in one session."""

    histories: int = 8
    threads: int = 5
    rounds: int = 6
    deeds: int = 3
    may_kill: bool = True
    deploy: Mapping[str, str] = field(default_factory=dict)  # what is deployed before the first round
    first: tuple[
        tuple[str, Mapping[str, Any], str], ...
    ] = ()  # graph, target, and a shape, of each of the first histories


@dataclass
class History:
    """One history: its threads, its drains, and what was done."""

    name: str
    maker: Maker
    drains: list[Watched]
    graphs: tuple[str, ...]
    lives: list[Life] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)

    def note_needs(self) -> None:
        """Remember the drains whose target a thread needs now."""
        self.needed |= {watched.name for watched in self.drains if watched.needed_by(self.lives)}


Mutant = Callable[[], AbstractContextManager[None]]


class Session:
    """One server, one product, several histories. `mutants`: rules of the product that are broken while it is asked once more."""

    def __init__(
        self, seed: str, folder: Path, figures: Figures, size: Size, *, mutants: Mapping[str, Mutant] | None = None
    ) -> None:
        self.dice = random.Random(seed)
        self.seed = seed
        self.figures = figures
        self.size = size
        self.mutants = mutants or {}
        (folder / "server").mkdir(parents=True)
        (folder / "product").mkdir()
        self.world = World(folder / "server")
        self.product = Product(folder / "product", self.world.url)
        self.histories: list[History] = []
        self.said: list[str] = []
        self.deed_number = 0
        self.done_at = time.time()

    async def run(self) -> None:
        """All of it, to the end of its histories."""
        await self.world.start()
        try:
            async with get_client(url=self.world.url) as client:
                self._begin(client)
                await self._live()
                await self._end()
        finally:
            await self.product.close()
            self.world.stop()

    def _begin(self, client: LangGraphClient) -> None:
        for number in range(self.size.histories):
            name = f"{self.seed}-{number}"
            states = STATES["new" if self.dice.random() < 0.5 else "mixed"]
            maker = Maker(name, client, self.world, random.Random(name), states)
            graphs = tuple(dict.fromkeys(["support"] * (self.dice.random() < 0.5) + self.dice.sample(GRAPHS, 2)))[:2]
            drains = [Watched(name, graph, **more) for graph in graphs for more in CANDIDATES[graph]]
            chosen = self.dice.sample(drains, min(2, len(drains)))
            if number < len(self.size.first):
                graph, target, _ = self.size.first[number]
                graphs, chosen = (graph,), [Watched(name, graph, **target)]
            self.histories.append(History(name, maker, chosen, graphs))
        self.product.drains = [watched.settings for history in self.histories for watched in history.drains]
        self.figures.histories += len(self.histories)
        self.figures.drains += len(self.product.drains)

    # -- living --------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        self.world.restarts_later = self.dice.random() < 0.65
        opens_late = self.dice.random() < 0.7  # threads that were there before the drain cannot leak
        if not opens_late:
            await self.product.open()
        await self._births(self.size.threads)
        if opens_late:
            await self.product.open()
        if self.size.deploy:
            await self._poll()
            await self._deploy_parts(self.size.deploy)
            await self._poll()
        for _ in range(self.size.rounds):
            await self._round()

    async def _round(self) -> None:
        may_restart = self.world.restarts_later
        weights = [6, 4 * may_restart, 1 * may_restart * self.size.may_kill, 1, 2]
        match self.dice.choices(["deeds", "deploy", "kill", "restart", "births"], weights)[0]:
            case "deploy":
                await self._deploy()
            case "kill":
                self._say("kill")
                await self._while_polled(self.world.kill(all_done_at=self.done_at))
            case "restart":
                await self._restart()
            case "births":
                await self._births(1)
        polls_meanwhile = self.dice.random() < 0.4
        await asyncio.gather(self._deeds(), *([self._poll()] if polls_meanwhile else []))
        if self.dice.random() < 0.8:
            await self._poll()

    async def _restart(self) -> None:
        self.figures.restarts += 1
        self._say("restart")
        await self.product.close()
        await self.product.open()

    async def _deploy(self) -> None:
        part = self.dice.choice(sorted(PARTS))
        others = [choice for choice in PARTS[part] if choice != self.world.parts[part]]
        await self._deploy_parts({part: self.dice.choice(others)})

    async def _deploy_parts(self, parts: Mapping[str, str]) -> None:
        self.figures.deploys += 1
        self._say(f"deploy {parts}")
        # A node that is held does not let the server go: it would be killed before it has written its threads.
        await asyncio.gather(*(self._do("let_it_go_on", history, life) for history, life in self._held()))
        await self._while_polled(self.world.deploy(parts))

    async def _while_polled(self, restart: Awaitable[None]) -> None:
        """Restart the server, in the middle of a poll now and then: it is incomplete, or has seen what was there before."""
        looks = self.product.is_open and self.dice.random() < 0.4
        await asyncio.gather(restart, *([self._poll_in_vain()] if looks else []))

    async def _poll_in_vain(self) -> None:
        began = self.deed_number
        summary = await self.product.poll(full=self.dice.random() < 0.5)
        self.figures.polls += 1
        self.figures.incomplete += summary["state"] != "complete"
        self._say(f"poll during a restart: {summary['kind']} {summary['state']}")
        lives = [life for life in self._untouched(began) if not life.run_deleted]
        for watched, answer in await self._answers():
            checks.count(answer, self.figures)
            if summary["state"] == "complete":
                self.figures.lies += checks.false_drained(watched, answer, lives)

    async def _answers(self) -> list[tuple[Watched, dict[str, Any]]]:
        answers = await self.product.answers()
        return [(watched, answers[watched.name]) for history in self.histories for watched in history.drains]

    def _held(self) -> list[tuple[History, Life]]:
        return [(history, life) for history in self.histories for life in history.lives if life.is_held]

    async def _births(self, number: int) -> None:
        wanted = [self._birth(history) for history in self.histories for _ in range(number)]
        if not any(history.lives for history in self.histories):
            for history, (graph, _, shape) in zip(self.histories, self.size.first, strict=False):
                wanted += [self._be_born(self._own_dice(history), history, graph, shape) for _ in range(2)]
        await asyncio.gather(*(asked for asked in wanted if asked is not None))

    def _birth(self, history: History) -> Any:
        graphs = [graph for graph in history.graphs if self.world.has_graph(graph)]
        if not graphs:
            return None
        graph = self.dice.choice(graphs)
        shapes = [shape for shape in BIRTHS[graph] if shape not in HELD or self._may_hold()]
        shape = self.dice.choice(shapes)
        self._holding += shape in HELD
        return self._be_born(self._own_dice(history), history, graph, shape)

    _holding = 0

    def _may_hold(self) -> bool:
        return self._holding < MOST_HELD

    def _own_dice(self, history: History) -> Maker:
        """What happens at the same time must not take each other's chances."""
        return replace(history.maker, dice=random.Random(self.dice.random()))

    async def _be_born(self, maker: Maker, history: History, graph: str, shape: str) -> None:
        life = await BIRTHS[graph][shape](maker)
        self.figures.threads += 1
        self.figures.shapes[shape] += 1
        self._add(history, life)

    def _add(self, history: History, life: Life) -> None:
        self.deed_number += 1
        life.touched = self.deed_number
        history.lives.append(life)
        self.figures.steps += 1
        self.done_at = time.time()
        history.note_needs()

    async def _deeds(self) -> None:
        chosen = []
        for history in self.histories:
            lives = [life for life in history.lives if possible(history.maker, life)]
            for life in self.dice.sample(lives, min(len(lives), self.dice.randint(0, self.size.deeds))):
                names = possible(history.maker, life)
                weights = [0.15 if name == "delete" else 1.0 for name in names]
                chosen.append((self.dice.choices(names, weights)[0], history, life, self._own_dice(history)))
        # A server in memory forgets what runs in flight write, when it deletes a thread: not at the same time.
        await asyncio.gather(*(self._do(*one) for one in chosen if one[0] != "delete"))
        await asyncio.gather(*(self._do(*one) for one in chosen if one[0] == "delete"))

    async def _do(self, name: str, history: History, life: Life, maker: Maker | None = None) -> None:
        self.deed_number += 1
        life.touched = self.deed_number
        held = life.is_held
        made = await do(name, maker or history.maker, life)
        self._holding -= held and not life.is_held
        self.deed_number += 1
        life.touched = self.deed_number
        self.figures.steps += 1
        self.figures.deeds[name] += 1
        self.done_at = time.time()
        history.note_needs()
        if made is not None:
            self._add(history, made)

    # -- looking -------------------------------------------------------------------------------------------------

    async def _poll(self, *, full: bool | None = None) -> bool:
        if not self.product.is_open:
            return False
        full = self.dice.random() < 0.4 if full is None else full
        began = self.deed_number
        summary = await self.product.poll(full=full)
        self.figures.polls += 1
        self._say(f"poll {summary['kind']} {summary['state']}")
        if summary["state"] != "complete":
            self.figures.incomplete += 1
            return False
        untouched = self._untouched(began)
        drains = [watched for history in self.histories for watched in history.drains]
        is_sweep = summary["kind"] == "sweep"
        before = len(self.figures.lies)
        await checks.check(self.product, self.world, drains, untouched, self.figures, is_sweep=is_sweep)
        self._report_lies(before)
        await self._ask_mutants(drains, self._untouched(began))
        for life in self._untouched(began):
            if is_sweep or not life.run_deleted:
                life.was_polled(self.world.has)
        return True

    def _untouched(self, began: int) -> list[Life]:
        return [life for history in self.histories for life in history.lives if life.touched <= began]

    async def _ask_mutants(self, drains: Iterable[Watched], lives: list[Life]) -> None:
        """Ask again with a broken rule: the truth must notice."""
        for name, mutant in self.mutants.items():
            with mutant():
                answers = await self.product.answers()
            for watched in drains:
                caught = list(checks.false_drained(watched, answers[watched.name], lives))
                if caught:
                    self.figures.caught.setdefault(name, set()).add(watched.history)

    def _say(self, what: str) -> None:
        self.said.append(what)

    def _report_lies(self, before: int) -> None:
        for lie in self.figures.lies[before:]:
            sys.stderr.write(f"LIE {lie.kind} {lie.what}\n    session {self.seed}: {self.said}\n")

    # -- ending --------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Put everything back; finish or delete what is left of most histories; soak; look what is drained."""
        await self._poll()
        back = {part: BEFORE for part, now in self.world.parts.items() if now != BEFORE}
        if back and self.dice.random() < 0.9:
            await self._deploy_parts(back)
            await self._poll()
        if self.world.restarts_later:
            self.world.restarts_later = False
            await self._round()
        cleaned = [history for history in self.histories if self.dice.random() < 0.85]
        if self.dice.random() < 0.06:
            await self._wipe()
        left = [(history, life) for history in cleaned for life in list(history.lives)]
        await asyncio.gather(*(self._finish(history, life) for history, life in left))
        await asyncio.gather(
            *(self._do("delete", history, life) for history, life in left if self._is_left(history, life))
        )
        for _ in range(3):
            await self._poll(full=True)
        await self._last_look()

    async def _wipe(self) -> None:
        """Somebody deletes nearly everything that waits."""
        self._say("wipe")
        waiting = [(history, life) for history in self.histories for life in history.lives if life.at]
        able = [(history, life) for history, life in waiting if "delete" in possible(history.maker, life)]
        await asyncio.gather(*(self._do("delete", history, life) for history, life in able))

    async def _delete_what_is(self, left: list[tuple[History, Life]]) -> None:
        """A few between two sweeps: more at once look like a store that was wiped."""
        for start in range(0, len(left), FEW):
            await asyncio.gather(*(self._do("delete", *one) for one in left[start : start + FEW]))
            await self._poll(full=True)

    async def _finish(self, history: History, life: Life) -> None:
        """Do what a person would do to finish it, as far as the truth is known."""
        for _ in range(4):
            names = possible(history.maker, life)
            wanted = next((name for name in _WAYS_OUT if name in names), None)
            if not self._is_left(history, life) or wanted is None:
                break
            await self._do(wanted, history, life)
        if life.is_held:
            await self._do("cancel_with_rollback", history, life)

    def _is_left(self, history: History, life: Life) -> bool:
        """Whether a drain of the history waits for this thread, or may."""
        if life.is_gone:
            return False
        by_field = any(watched.may_hold_back(life) for watched in history.drains)
        return bool(
            life.at or life.is_busy or life.unsure or life.outdated or life.lost or by_field or life.shape == "refused"
        )

    async def _last_look(self) -> None:
        self.figures.kills += self.world.kills
        answers = await self.product.answers()
        for history in self.histories:
            for watched in history.drains:
                answer = answers[watched.name]
                is_drained, was_needed = answer["verdict"] == "drained", watched.name in history.needed
                self.figures.drains_needed += was_needed
                self.figures.drains_drained += is_drained
                self.figures.needed_and_drained += is_drained and was_needed
                if is_drained and was_needed:
                    self.figures.histories_drained.add(history.name)
                if not is_drained and not any(self._is_left(history, life) for life in history.lives):
                    self._held_back(watched, answer)
        checks.departures(self.product, self.figures)

    def _held_back(self, watched: Watched, answer: Mapping[str, Any]) -> None:
        codes = sorted({reason["code"] for reason in answer["reasons"]})
        self.figures.held_back[f"{watched.graph} {watched.name.rpartition('-')[2]}: {', '.join(codes)}"] += 1


_WAYS_OUT = (
    "let_it_go_on",
    "cancel_the_delayed_run",
    "go_on_at_home",
    "finish_again",
    "answer",
    "go_on",
)


async def run_session(
    seed: str, folder: Path, figures: Figures, size: Size, *, mutants: Mapping[str, Mutant] | None = None
) -> None:
    """One session with its own server and product, in a folder that does not exist yet."""
    await Session(seed, folder, figures, size, mutants=mutants).run()
