"""How a session ends: people bring to an end what is left, the drains soak, and it is seen which of them are drained."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Mapping
from typing import Any

from tests.truth import checks
from tests.truth.deeds import possible
from tests.truth.drains import Watched
from tests.truth.histories import History, all_drains
from tests.truth.lives import Life
from tests.truth.observing import Observer
from tests.truth.people import People
from tests.truth.session import Session

WAYS_OUT = (
    "let_it_go_on",
    "cancel_the_delayed_run",
    "go_on_at_home",
    "finish_again",
    "answer",
    "go_on",
    "finish_by_input",
    "migrate",
)
"""What a person would do to bring a thread to its end, the first that can be done."""

MOST_DEEDS = 8
FEW = 7
"""Threads deleted between two sweeps: more at once look like a store that was wiped."""

SOAK = 2


class Ending:
    """Puts back what was deployed, finishes or deletes what is left of most histories, soaks, and counts."""

    def __init__(self, session: Session, observer: Observer, people: People) -> None:
        self.session = session
        self.observer = observer
        self.people = people

    async def come(self, dice: random.Random) -> None:
        """All of it."""
        await self.observer.poll(full=False)
        if dice.random() < 0.9:
            await self.session.put_back()
            await self.observer.poll(full=False)
        self.session.world.restarts_later = False
        cleaned = [history for history in self.session.histories if dice.random() < 0.9]
        if self.session.size.may_wipe and dice.random() < 0.5:
            await self._wipe()
        left = [(history, life) for history in cleaned for life in list(history.lives)]
        await asyncio.gather(*(self._finish(history, life) for history, life in left))
        await self.observer.poll(full=True)
        if dice.random() < 0.5:
            await self.people.deal_with_losses(dice, all_of_them=True)
        await self._delete([(history, life) for history, life in left if history.is_left(life)], dice)
        await self.session.fresh_traffic()
        await self._soak()
        await self._last_look()

    async def _wipe(self) -> None:
        """Somebody deletes every thread that has not come to its end, at once."""
        await asyncio.gather(
            *(
                self.session.do("delete", history, life)
                for history, life in self.session.lives
                if "delete" in possible(history.maker, life, ["delete"]) and (life.at or life.is_delayed)
            )
        )
        await self.observer.poll(full=True)

    async def _finish(self, history: History, life: Life) -> None:
        for _ in range(MOST_DEEDS):
            names = possible(history.maker, life)
            wanted = next((name for name in WAYS_OUT if name in names), None)
            if not history.is_left(life) or wanted is None:
                break
            if life.at in (("fail",), ("spin",)) and wanted == "go_on":
                wanted = "finish_by_input"
            await self.session.do(wanted, history, life)
        if life.is_held:
            await self.session.do("cancel_with_rollback", history, life)

    async def _delete(self, left: list[tuple[History, Life]], dice: random.Random) -> None:
        few = len(left) if dice.random() < 0.2 else FEW
        for start in range(0, len(left), few or 1):
            await asyncio.gather(*(self.session.do("delete", *one) for one in left[start : start + few]))
            await self.observer.poll(full=True)

    async def _soak(self) -> None:
        await self.people.observe()
        await self.people.attest()
        await self.people.explain_disappearances()
        await self.observer.poll(full=True)
        await self.people.explain_falls()
        for _ in range(SOAK):
            await self.observer.poll(full=True)

    async def _last_look(self) -> None:
        figures = self.session.figures
        figures.kills += self.session.world.kills
        answers = await self.observer.ask()
        for history, watched in all_drains(self.session.histories):
            answer = answers[watched.name]
            is_drained, was_needed = answer["verdict"] == "drained", watched.name in history.needed
            figures.drains_needed += was_needed
            figures.drains_drained += is_drained
            figures.needed_and_drained += is_drained and was_needed
            if was_needed:
                figures.histories_needed.add(history.name)
            if is_drained and was_needed:
                figures.histories_drained.add(history.name)
            if not is_drained and not any(history.is_left(life) for life in history.lives):
                await self._held_back(history, watched, answer)
        checks.departures(self.session.product, figures)

    async def _held_back(self, history: History, watched: Watched, answer: Mapping[str, Any]) -> None:
        """Keep why, and say of which threads."""
        codes = sorted({reason["code"] for reason in answer["reasons"]})
        parts = [node.replace("/", ".") for node in watched.nodes] + list(watched.fields)
        self.session.figures.held_back[f"{watched.graph} {' '.join(parts)}: {', '.join(codes)}"] += 1
        sys.stderr.write(f"held back: {watched.name}: {', '.join(codes)}\n")
        for life in history.lives:
            shown = await self.session.product.evidence(life.thread_id) if not life.is_gone else {"condition": "gone"}
            sys.stderr.write(f"    {shown['condition']}: {life.as_one_line}\n")
