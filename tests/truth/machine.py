"""The truth machine, a state machine of Hypothesis: what may happen to a real Agent Server is a rule, and after every poll what the
product says is held against what is true.

One example is one session. Which rules run, and what each of them rolls, is Hypothesis's choice, from a seed. Nothing is shrunk: a
session takes a minute.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, assume, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
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

CHANCES = st.integers(0, 2**32 - 1)
LOOKS = st.sampled_from(("nobody", "meanwhile", "scan", "scan", "sweep"))
"""Who looks at what happens: nobody, a poll that runs at the same time, or one afterwards."""

AFTER_DEEDS = st.sampled_from(("nobody", "meanwhile", "scan", "scan", "sweep", "a deploy", "a deploy", "a kill"))
"""What follows deeds: a look, or something that happens to the server with a look after it."""


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
        self.session = Session(self.name, self.folder / "session", self.figures, self.size)
        self.observer = Observer(self.session, self.mutants)
        self.people = People(self.session)
        self.run(lambda: self._begin(self.session, chance))

    async def _begin(self, session: Session, chance: int) -> None:
        await session.begin(session.dice(chance))
        await self.observer.ask()
        await self.observer.poll(full=False)
        if self.size.deploy:
            await session.deploy(self.size.deploy)
            await self.observer.poll(full=False)

    # -- what may happen at any time -----------------------------------------------------------------------------

    @rule(chance=CHANCES, look=LOOKS)
    def threads_begin(self, chance: int, look: str) -> None:
        """Some histories get another thread."""
        self.run(lambda: self._looked_at(look, self.now.births(self.now.dice(chance), 1)))

    @rule(full=st.booleans())
    def somebody_polls(self, full: bool) -> None:
        """The product looks."""
        self.run(lambda: self.observer.poll(full=full))

    @rule(chance=CHANCES)
    def somebody_says_something(self, chance: int) -> None:
        """A waiver, an acknowledgement, an attestation, another phase."""
        self.run(lambda: self.people.speak(self.now.dice(chance)))

    @rule(full=st.booleans())
    def the_product_restarts(self, full: bool) -> None:
        """It ends and starts on its database, and looks."""
        self.run(lambda: self.now.restart())
        self.run(lambda: self.observer.poll(full=full))

    # -- what happens to the server ------------------------------------------------------------------------------

    @precondition(lambda self: self.now.world.restarts_later)
    @rule(chance=CHANCES, look=LOOKS)
    def another_revision_is_deployed(self, chance: int, look: str) -> None:
        """On the same folder; a poll may meet the restart."""
        self.run(lambda: self._met(look, self.now.deploy_something(self.now.dice(chance))))

    @precondition(lambda self: self.now.world.restarts_later)
    @rule(look=LOOKS)
    def everything_is_put_back(self, look: str) -> None:
        """The revision that was deployed at first, again."""
        self.run(lambda: self._met(look, self.now.put_back()))

    @precondition(lambda self: self.now.world.restarts_later and self.size.may_kill)
    @rule(look=LOOKS)
    def the_server_is_killed(self, look: str) -> None:
        """SIGKILL; a poll may be on its way."""
        self.run(lambda: self._met(look, self.now.kill()))

    @precondition(lambda self: self.now.world.restarts_later)
    @rule(full=st.booleans())
    def a_poll_finds_no_server(self, full: bool) -> None:
        """The server is stopped, somebody polls, the server starts."""
        self.run(lambda: self.now.outage(lambda: self.observer.poll_in_vain(full=full)))

    # -- what must be true ---------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_said_that_is_not_so(self) -> None:
        """Where a lie ends the session; elsewhere lies are counted, and the histories go on."""
        if self.stops_at_a_lie:
            assert self.figures.lies == []

    def teardown(self) -> None:
        """People finish what is left; then the server ends."""
        if self.session is None:
            return
        try:
            if not (self.stops_at_a_lie and self.figures.lies):
                self.run(lambda: Ending(self.session, self.observer, self.people).come(self.session.dice(0)))
                self.nothing_is_said_that_is_not_so()
        finally:
            self.runner.run(self.session.close())
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

    async def _followed_by(self, what: str, happens: Coroutine[Any, Any, None], chance: int) -> None:
        is_world = what in ("a deploy", "a kill")
        await self._looked_at("nobody" if is_world else what, happens)
        if is_world and self.now.world.restarts_later:
            if what == "a deploy":
                await self.now.deploy_something(self.now.dice(chance))
            elif self.size.may_kill:
                await self.now.kill()
            await self.observer.poll(full=False)

    async def _looked_at(self, look: str, happens: Coroutine[Any, Any, None]) -> None:
        if look == "meanwhile":
            await asyncio.gather(happens, self.observer.poll(full=False))
            return
        await happens
        if look != "nobody":
            await self.observer.poll(full=look == "sweep")

    async def _met(self, look: str, happens: Coroutine[Any, Any, None]) -> None:
        if look == "meanwhile":
            await asyncio.gather(happens, self.observer.poll_in_vain(full=True))
        await (self._looked_at("scan", asyncio.sleep(0)) if look == "meanwhile" else self._looked_at(look, happens))


def _rule_of(kind: str) -> Callable[..., None]:
    """Deeds of a kind, wherever one of them can be done."""

    def act(self: TruthMachine, chance: int, then: str) -> None:
        self.run(lambda: self._followed_by(then, self.now.act(kind, self.now.dice(chance)), chance))

    act.__name__ = kind.replace(" ", "_")
    act.__doc__ = f"Deeds: {', '.join(KINDS[kind])}."
    made: Callable[..., None] = precondition(lambda self: bool(self.now.able(kind)))(
        rule(chance=CHANCES, then=AFTER_DEEDS)(act)
    )
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
