"""What a session is made of: how much happens in it, its histories, and what their threads may hold."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from langgraph_sdk.client import LangGraphClient

from tests.truth.births import BIRTHS, COMES_TO, Maker
from tests.truth.drains import CANDIDATES, Watched
from tests.truth.lives import COUNT, NEW, NOTES, OLD, SECRET, VERSION, Life
from tests.truth.world import World

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
ATTESTATION = "export queues"


@dataclass(frozen=True)
class Size:
    """How much happens in one session. `at_once`: with how many threads something is done at the same time. `deploy`: what is
    deployed before anything else happens. `first`: graph, target and shape of each of the first histories."""

    histories: int = 10
    threads: int = 5
    steps: int = 12
    at_once: int = 6
    may_kill: bool = True
    may_wipe: bool = True
    deploy: Mapping[str, str] = field(default_factory=dict)
    first: tuple[tuple[str, Mapping[str, Any], str], ...] = ()


@dataclass
class History:
    """One history: its threads, its drains, and what they once needed."""

    name: str
    maker: Maker
    drains: list[Watched]
    graphs: tuple[str, ...]
    lives: list[Life] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)

    def suiting(self, graph: str) -> list[str]:
        """Shapes that come to what a drain of this history removes from a graph."""
        nodes = [node for watched in self.drains if watched.graph == graph for node in watched.nodes]
        return [shape for node in nodes for shape in COMES_TO.get((graph, node), ())]

    def is_about(self, life: Life) -> bool:
        """Whether a drain of the history waits for what this thread holds now."""
        return any(watched.needed_by([life]) for watched in self.drains)

    def note_needs(self) -> None:
        """Remember the drains whose target a thread needs now."""
        self.needed |= {watched.name for watched in self.drains if watched.needed_by(self.lives)}

    def is_left(self, life: Life) -> bool:
        """Whether a drain of the history waits for this thread, or may."""
        if life.is_gone:
            return False
        by_field = any(watched.may_hold_back(life) for watched in self.drains)
        unclear = life.unsure or life.outdated or life.lost or life.was_refused
        return bool(life.at or life.is_busy or unclear or by_field)


Chosen = tuple[str, Mapping[str, Any]]
Mutant = Callable[[], AbstractContextManager[None]]


def histories(
    session: str, size: Size, dice: random.Random, client: LangGraphClient, world: World
) -> Iterator[History]:
    """The histories of a session, without their threads. The targets are dealt out, so that a session has many of them."""
    deck: list[Chosen] = [(graph, more) for graph, targets in CANDIDATES.items() for more in targets]
    for number, dealt in enumerate(dice.sample(deck, size.histories)):
        name = f"{session}-{number}"
        other = dice.choice(("support", *GRAPHS))
        chosen = [dealt, (other, dice.choice(CANDIDATES[other]))]
        if number < len(size.first):
            chosen = [size.first[number][:2]]
        is_mixed = dice.random() < 0.4 or any(more.get("fields") for _, more in chosen)
        states = STATES["mixed" if is_mixed else "new"]
        drains = [Watched(name, graph, policy=_policy(dice), **more) for graph, more in chosen]
        first = [place for place, state in enumerate(states) if any(drain.suits(state) for drain in drains)]
        maker = Maker(name, client, world, random.Random(name), states, Counter(dict.fromkeys(first, -1)))
        by_name = {drain.name: drain for drain in drains}
        yield History(name, maker, list(by_name.values()), tuple(dict.fromkeys(graph for graph, _ in chosen)))


def all_drains(histories: Sequence[History]) -> list[tuple[History, Watched]]:
    """Every drain, with its history."""
    return [(history, watched) for history in histories for watched in history.drains]


def _policy(dice: random.Random) -> dict[str, Any]:
    """Some drains ask for an attestation, some for a sweep that is a quarter of a minute old at most."""
    asks = {"attestations": [ATTESTATION]} if dice.random() < 0.2 else {}
    return asks | ({"sweep_max_age": "15s"} if dice.random() < 0.2 else {})
