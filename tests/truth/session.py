"""One session: a real Agent Server and an installation of the product, several histories side by side, and what happens to them.

A drain selects its threads by metadata; a deploy, a kill of the server and a restart of the product happen to all histories. Everything
follows from the session's name and the chances that it is given, up to the order in which the server serves what is done at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.truth.births import BIRTHS, HELD, Maker
from tests.truth.deeds import KINDS, do, possible
from tests.truth.figures import Figures
from tests.truth.histories import STATES, History, Size, all_drains, histories
from tests.truth.lives import Life
from tests.truth.product import Product
from tests.truth.world import BEFORE, FILES, PARTS, World

MOST_HELD = 6
"""Of the ten runs that the server works on at once."""

DONE = {"support": "finished", "dropped": "finished_in_a_graph_that_goes", "functional": "functional_finished"}
"""A finished thread of each graph; of the others it is `…_done`."""


class Session:
    """One server, one product, several histories."""

    def __init__(self, name: str, folder: Path, figures: Figures, size: Size) -> None:
        self.name = name
        self.figures = figures
        self.size = size
        (folder / "server").mkdir(parents=True)
        (folder / "product").mkdir()
        self.world = World(folder / "server")
        stuck_after = random.Random(name).choice(("15m", "2s"))
        self.product = Product(folder / "product", self.world.url, stuck_after=stuck_after)
        self.histories: list[History] = []
        self.drains_by_file = False
        self.said: list[str] = []
        self.deed_number = 0
        self._holding = 0
        self._chosen: Counter[str] = Counter()
        self._stack = contextlib.AsyncExitStack()

    def dice(self, chance: int) -> random.Random:
        """What one step rolls: of the session, the step and the chance that it was given."""
        return random.Random(f"{self.name}/{len(self.said)}/{self.deed_number}/{chance}")

    async def begin(self, dice: random.Random) -> None:
        """Start the server, then the product, and the first threads before or after it."""
        await self.world.start()
        client: LangGraphClient = await self._stack.enter_async_context(get_client(url=self.world.url))
        self.histories = list(histories(self.name, self.size, dice, client, self.world))
        self.figures.histories += len(self.histories)
        self.figures.drains += len(all_drains(self.histories))
        self.world.restarts_later = dice.random() < 0.9
        self.drains_by_file = dice.random() < 0.3
        if opens_late := dice.random() < 0.8:  # threads that were there before the drain cannot leak
            await self._first_births(dice)
        await self._open(dice)
        if not opens_late:
            await self._first_births(dice)

    async def close(self) -> None:
        """End the product and the server."""
        try:
            await self.product.close()
        finally:
            await self._stack.aclose()
            self.world.stop()

    async def _open(self, dice: random.Random) -> None:
        drains = [watched.settings for _, watched in all_drains(self.histories)]
        if self.drains_by_file:
            self.product.drains = drains
        await self.product.open()
        if not self.drains_by_file:
            for drain in drains:
                drain["phase"] = "additive" if dice.random() < 0.15 else "observing"
            await self.product.put("/api/v1/drains", {"drains": drains})

    # -- threads -------------------------------------------------------------------------------------------------

    async def _first_births(self, dice: random.Random) -> None:
        """A finished thread for each drain's graph, since nobody removes anything of a graph that nobody uses; and others."""
        wanted = [
            self._finished(history, graph, dice)
            for history in self.histories
            for graph in dict.fromkeys(watched.graph for watched in history.drains)
        ]
        for history in self.histories:
            fitting = [(graph, shape) for graph in history.graphs for shape in history.suiting(graph)]
            wanted += [self._birth_of(history, fitting, dice)] if fitting and dice.random() < 0.7 else []
        for history, (graph, _, shape) in zip(self.histories, self.size.first, strict=False):
            wanted += [self._be_born(history, graph, shape, dice) for _ in range(2)]
        await asyncio.gather(*wanted)
        await self.births(dice, self.size.threads)

    async def fresh_traffic(self) -> None:
        """A finished thread in the new form for each drain's graph that has no thread any more."""
        wanted: list[Awaitable[None]] = []
        for history in self.histories:
            left = {life.graph for life in history.lives if not life.is_gone}
            bare = {watched.graph for watched in history.drains if self.world.has_graph(watched.graph)} - left
            history.maker.states = STATES["new"]
            wanted += [self._finished(history, graph, history.maker.dice) for graph in sorted(bare)]
        await asyncio.gather(*wanted)

    async def births(self, dice: random.Random, number: int) -> None:
        """So many threads begin in each history."""
        wanted = [self._birth(history, dice) for history in self.histories for _ in range(number)]
        await asyncio.gather(*(asked for asked in wanted if asked is not None))

    def _birth(self, history: History, dice: random.Random) -> Awaitable[None] | None:
        graphs = [graph for graph in history.graphs if self.world.has_graph(graph)]
        if not graphs:
            return None
        graph = dice.choice(graphs)
        suiting = history.suiting(graph) if dice.random() < 0.4 else []
        shapes = [shape for shape in suiting or BIRTHS[graph] if shape not in HELD or self._holding < MOST_HELD]
        shape = self._rarest(shapes, dice)
        self._holding += shape in HELD
        return self._be_born(history, graph, shape, dice)

    def _birth_of(self, history: History, among: list[tuple[str, str]], dice: random.Random) -> Awaitable[None]:
        """A thread that comes to what a drain removes: nobody removes what nobody uses."""
        shape = self._rarest([shape for _, shape in among], dice)
        self._holding += shape in HELD
        return self._be_born(history, next(graph for graph, one in among if one == shape), shape, dice)

    def _rarest(self, names: Iterable[str], dice: random.Random) -> str:
        """What this session has chosen least often yet, so that it has something of everything."""
        among = sorted(names)
        chosen = min(dice.sample(among, len(among)), key=lambda name: self._chosen[name])
        self._chosen[chosen] += 1
        return chosen

    def _finished(self, history: History, graph: str, dice: random.Random) -> Awaitable[None]:
        return self._be_born(history, graph, DONE.get(graph, f"{graph}_done"), dice)

    def _be_born(self, history: History, graph: str, shape: str, dice: random.Random) -> Awaitable[None]:
        maker = history.maker.rolling(random.Random(dice.random()))

        async def made() -> None:
            life = await BIRTHS[graph][shape](maker)
            self.figures.threads += 1
            self.figures.shapes[shape] += 1
            self._add(history, life)

        return made()

    def _add(self, history: History, life: Life) -> None:
        self._touch(life)
        history.lives.append(life)
        self.figures.steps += 1
        history.note_needs()

    def _touch(self, life: Life) -> None:
        self.deed_number += 1
        life.touched, life.is_known = self.deed_number, False

    # -- deeds ---------------------------------------------------------------------------------------------------

    @property
    def lives(self) -> list[tuple[History, Life]]:
        """Every thread, with its history."""
        return [(history, life) for history in self.histories for life in history.lives]

    def able(self, kind: str) -> dict[str, list[tuple[History, Life]]]:
        """The deeds of a kind that can be done now, and with which threads."""
        found: dict[str, list[tuple[History, Life]]] = {}
        for history, life in self.lives:
            for name in possible(history.maker, life, KINDS[kind]):
                found.setdefault(name, []).append((history, life))
        return found

    async def act(self, kinds: Sequence[str], dice: random.Random) -> None:
        """Deeds of these kinds, one kind after the other; where none of a kind can be done, of another one."""
        for kind in kinds:
            others = [kind, *dice.sample(list(KINDS), len(KINDS))]
            possible_kind = next((one for one in others if self.able(one)), None)
            await (self._act(possible_kind, dice) if possible_kind else self.births(dice, 1))

    async def _act(self, kind: str, dice: random.Random) -> None:
        """Deeds of a kind, each with another thread, at the same time."""
        able = self.able(kind)
        chosen: dict[str, tuple[str, History, Life, random.Random]] = {}
        for _ in range(dice.randint(1, self.size.at_once if kind != "deletions" else 2)):
            name = self._rarest(able, dice)
            history, life = self._one_of(able[name], dice)
            chosen.setdefault(life.thread_id, (name, history, life, random.Random(dice.random())))
        await asyncio.gather(*(self.do(*one) for one in chosen.values()))

    def _one_of(self, among: list[tuple[History, Life]], dice: random.Random) -> tuple[History, Life]:
        """Half of what is done is done with what a drain waits for."""
        waited_for = [one for one in among if one[0].is_about(one[1])] if dice.random() < 0.5 else []
        return dice.choice(waited_for or among)

    async def do(self, name: str, history: History, life: Life, dice: random.Random | None = None) -> None:
        """One deed with one thread."""
        self._touch(life)
        held = life.is_held
        maker: Maker = history.maker if dice is None else history.maker.rolling(dice)
        made = await do(name, maker, life)
        self._holding -= held and not life.is_held
        self._touch(life)
        self.figures.steps += 1
        self.figures.deeds[name] += 1
        history.note_needs()
        if made is not None:
            self._add(history, made)

    # -- to all of them ------------------------------------------------------------------------------------------

    async def deploy(self, parts: Mapping[str, str]) -> None:
        """Another revision of these parts, on the same threads."""
        self.figures.deploys += 1
        self.say(f"deploy {dict(parts)}")
        await self._let_go()
        await self.world.deploy(parts)
        for _, life in self.lives:
            life.was_deployed(self.world.has)

    async def deploy_something(self, dice: random.Random) -> None:
        """Another revision of some parts, of those that the histories use."""
        used = {FILES[graph] for history in self.histories for graph in history.graphs} & set(PARTS)
        used |= {"langgraph.json"} if any("dropped" in history.graphs for history in self.histories) else set()
        chosen = dice.sample(sorted(used), min(len(used), dice.randint(1, 3))) or ["support.py"]
        await self.deploy(
            {part: dice.choice([one for one in PARTS[part] if one != self.world.parts[part]]) for part in chosen}
        )

    async def put_back(self) -> None:
        """What was deployed at first, again."""
        back = {part: BEFORE for part, now in self.world.parts.items() if now != BEFORE}
        if back:
            await self.deploy(back)

    async def kill(self, dice: random.Random, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        """The server is killed and comes back. Of a thread that it has forgotten something of, nothing is claimed any more."""
        self.say("kill")
        await self._let_go()
        before = await self._stored()
        await self.world.kill(meanwhile() if meanwhile is not None else None, after=dice.random() * 2)
        after = await self._stored()
        for history, life in self.lives:
            if not life.is_held and before.get(life.thread_id) != after.get(life.thread_id):
                history.lives.remove(life)
                self.figures.forgotten += 1

    async def _stored(self) -> dict[str, Any]:
        """What the server's store has of each thread."""
        ids = [life.thread_id for _, life in self.lives if not life.is_gone]
        client = self.histories[0].maker.client
        found = await asyncio.gather(*(client.http.get(f"/threads/{thread_id}/storage") for thread_id in ids))
        return dict(zip(ids, found, strict=True))

    async def outage(self, meanwhile: Callable[[], Awaitable[Any]]) -> None:
        """The server is away for a while."""
        self.say("outage")
        await self._let_go()
        await self.world.without(meanwhile)

    async def restart(self) -> None:
        """The product ends and starts again on its database."""
        self.figures.restarts += 1
        self.say("restart")
        await self.product.close()
        await self.product.open()

    async def _let_go(self) -> None:
        """A node that is held does not let the server go: it would be killed before it has written its threads."""
        held = [(history, life) for history, life in self.lives if life.is_held]
        await asyncio.gather(*(self.do("let_it_go_on", history, life) for history, life in held))

    def say(self, what: str) -> None:
        """Note what happens, for the report of a lie."""
        self.said.append(what)
