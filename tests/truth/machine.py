"""The truth machine, a state machine of Hypothesis: what may happen to a real Agent Server is a rule, and after every poll what the
product says is held against what is true.

One example is one session. Which rules run, and what each of them rolls, is Hypothesis's choice, from a seed. Nothing is shrunk: a
session takes a minute.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, assume, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.truth.deeds import KINDS
from tests.truth.ending import Ending
from tests.truth.figures import Figures
from tests.truth.histories import Mutant, Size
from tests.truth.observing import Observer
from tests.truth.people import People
from tests.truth.session import Session

Deed = Coroutine[Any, Any, None]
CHANCES = st.integers(0, 2**32 - 1)
OTHERS = st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=2)
"""Kinds of deeds that are done in the same step."""

NEXT = st.sampled_from(
    ("nobody looks", "meanwhile", "scan", "sweep", "deploy", "deploy", "deploy", "put back", "kill", "people", "people")
)
"""What follows: a look, something that happens to the server, or somebody speaks. Hypothesis leaves many rules out of each session;
so these, which every session needs, are no rules but choices of all rules."""


class TruthMachine(RuleBasedStateMachine):
    """One session, from its first threads to the end of its drains."""

    name: ClassVar[str]
    size: ClassVar[Size] = Size()
    figures: ClassVar[Figures]
    mutants: ClassVar[Mapping[str, Mutant]] = {}
    stops_at_a_lie: ClassVar[bool] = False
    ends_when_caught: ClassVar[bool] = False

    session: Session | None = None

    @initialize(chance=CHANCES)
    def a_session_begins(self, chance: int) -> None:
        """A server, a product, histories with threads."""
        assume(chance)  # the simplest example of all is the same rule again and again
        self.folder = Path(tempfile.mkdtemp(prefix="truth-"))
        self.runner = asyncio.Runner()
        session = self.session = Session(self.name, self.folder / "session", self.figures, self.size)
        self.observer = Observer(session, self.mutants)
        self.people = People(session)
        self.run(lambda: self._begin(session, chance))

    async def _begin(self, session: Session, chance: int) -> None:
        await session.begin(session.dice(chance))
        await self.observer.ask()
        await self.observer.poll(full=False)
        if self.size.deploy:
            await session.deploy(self.size.deploy)
            await self.observer.poll(full=False)

    # -- what may happen: deeds have a rule for each kind, made below ----------------------------------------------

    @rule(chance=CHANCES, then=NEXT)
    def threads_begin(self, chance: int, then: str) -> None:
        """Some histories get another thread."""
        self.happens("births", lambda dice: self.now.births(dice, 1), chance, then)

    @rule(chance=CHANCES, then=NEXT)
    def the_product_restarts(self, chance: int, then: str) -> None:
        """It ends and starts on its database."""
        self.happens("restart", lambda _: self.now.restart(), chance, "scan" if then == "meanwhile" else then)

    @rule(chance=CHANCES, full=st.booleans(), then=NEXT)
    def a_poll_finds_no_server(self, chance: int, full: bool, then: str) -> None:
        """The server is stopped, somebody polls, the server starts."""
        if self.now.world.restarts_later:
            in_vain = partial(self.observer.poll_in_vain, full=full)
            self.happens("outage", lambda _: self.now.outage(in_vain), chance, "sweep")
        else:
            self.happens("births", lambda dice: self.now.births(dice, 1), chance, then)

    # -- what must be true ---------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_said_that_is_not_so(self) -> None:
        """Where a lie ends the session; elsewhere lies are counted, and the histories go on."""
        if self.stops_at_a_lie:
            assert self.figures.lies == []

    def teardown(self) -> None:
        """People finish what is left; then the server ends."""
        session = self.session
        if session is None:
            return
        try:
            if not (self.stops_at_a_lie and self.figures.lies):
                self.run(lambda: Ending(session, self.observer, self.people).come(session.dice(0)))
                self.nothing_is_said_that_is_not_so()
        finally:
            self.runner.run(session.close())
            self.runner.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- running -------------------------------------------------------------------------------------------------

    @property
    def now(self) -> Session:
        """The session, which has begun."""
        assert self.session is not None
        return self.session

    def run(self, happens: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """To its end, in the loop that the server's client and the product live in; nothing, once a broken rule was caught."""
        if not (self.ends_when_caught and self.figures.false_drained):
            self.runner.run(happens())

    def happens(self, what: str, deed: Callable[[random.Random], Deed], chance: int, then: str) -> None:
        """One step: a deed, and what follows it."""
        self.figures.steps_by[what] += 1
        self.run(lambda: self._followed(deed(self.now.dice(chance)), self.now.dice(chance + 1), then))

    async def _followed(self, deed: Deed, dice: random.Random, then: str) -> None:
        if then == "meanwhile":
            await asyncio.gather(deed, self.observer.poll(full=False))
            return
        await deed
        if then in ("deploy", "put back", "kill"):
            await self._met(then, dice)
        if then == "people":
            await self.people.speak(dice)
        if then != "nobody looks":
            await self.observer.poll(full=then == "sweep")

    async def _met(self, what: str, dice: random.Random) -> None:
        """Something that happens to the server; a poll may meet it: it fails, or has seen what was there before."""
        session = self.now
        if not session.world.restarts_later or (what == "kill" and not self.size.may_kill):
            return
        self.figures.steps_by[what] += 1
        poll = partial(self.observer.poll_in_vain, full=dice.random() < 0.7) if dice.random() < 0.5 else None
        if what == "kill":
            await session.kill(dice, poll)
            return
        happens = session.deploy_something(dice) if what == "deploy" else session.put_back()
        await asyncio.gather(happens, *([poll()] if poll else []))


def _rule_of(kind: str) -> Callable[..., None]:
    """Deeds of a kind, and of two others; where none of a kind can be done, of yet another."""

    def act(self: TruthMachine, chance: int, also: list[str], then: str) -> None:
        self.happens(kind, lambda dice: self.now.act((kind, *also), dice), chance, then)

    act.__name__ = kind.replace(" ", "_")
    act.__doc__ = f"Deeds: {', '.join(KINDS[kind])}."
    made: Callable[..., None] = rule(chance=CHANCES, also=OTHERS, then=NEXT)(act)
    return made


for _kind in KINDS:
    setattr(TruthMachine, _kind.replace(" ", "_"), _rule_of(_kind))


def run_session(
    name: str,
    figures: Figures,
    size: Size,
    *,
    mutants: Mapping[str, Mutant] | None = None,
    stops_at_a_lie: bool = False,
    ends_when_caught: bool = False,
) -> None:
    """One session: one example of the machine. Its name is its seed. `stops_at_a_lie`: by an AssertionError with the steps that led
    to it. `ends_when_caught`: nothing more happens after the first false `drained`, which is what a broken rule is for."""
    given = {
        "name": name,
        "size": size,
        "figures": figures,
        "mutants": mutants or {},
        "stops_at_a_lie": stops_at_a_lie,
        "ends_when_caught": ends_when_caught,
    }
    machine = seed(name)(type("TruthMachine", (TruthMachine,), given))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=1,
            stateful_step_count=size.steps,
            phases=[Phase.generate],
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
