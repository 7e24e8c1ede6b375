"""What people say to the product about threads and drains, and what is true afterwards: that nobody waits for those threads."""

from __future__ import annotations

import random
from typing import Any

from tests.truth.drains import Watched
from tests.truth.histories import ATTESTATION, History, all_drains
from tests.truth.lives import Life
from tests.truth.product import BASE
from tests.truth.session import Session

SAID = {"owner": "the machine", "reason": "dealt with by hand"}
MOURNED = ("stranded", "lost")
"""Conditions in which a thread can be acknowledged."""


class People:
    """Those who look after the drains of one session. They say only what is so."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.waivers: list[tuple[Watched, str, str]] = []
        self.phases: dict[str, str] = {}

    async def speak(self, dice: random.Random) -> None:
        """One thing that somebody says, of those that can be said now."""
        ways = [self.take_over, self.take_back, self.deal_with_losses, self.explain_falls, self.attest]
        ways += [] if self.session.drains_by_file else [self.close_or_open]
        said = self.session.figures.said
        before = sum(said.values())
        for way in dice.sample(ways, len(ways)):
            await way(dice)
            if sum(said.values()) > before:
                return

    # -- threads -------------------------------------------------------------------------------------------------

    async def take_over(self, dice: random.Random) -> None:
        """A thread that needs a drain's target is waived."""
        waiting = [
            (watched, life)
            for history, watched in self._open()
            for life in watched.needed_by(history.lives)
            if life.is_known
        ]
        if waiting:
            watched, life = dice.choice(waiting)
            body = {"thread_ids": [life.thread_id], **SAID}
            said = await self.session.product.post(f"/api/v1/drains/{watched.name}/waivers", body)
            watched.excused.add(life.thread_id)
            self.waivers.append((watched, said["id"], life.thread_id))
            self._did("waive")

    async def take_back(self, dice: random.Random) -> None:
        """A waiver is taken back."""
        if self.waivers:
            watched, waiver, thread_id = self.waivers.pop(dice.randrange(len(self.waivers)))
            await self.session.product.delete(f"/api/v1/drains/{watched.name}/waivers/{waiver}")
            watched.excused.discard(thread_id)
            self._did("take a waiver back")

    async def deal_with_losses(self, dice: random.Random, *, all_of_them: bool = False) -> None:
        """Threads that are stranded or lost are dealt with, for one drain or for the deployment."""
        shown = await self.session.product.conditions()
        mourned = [
            (history, life)
            for history, life in self.session.lives
            if life.is_known and shown.get(life.thread_id) in MOURNED
        ]
        if not mourned:
            return
        chosen = mourned if all_of_them else [dice.choice(mourned)]
        body = {"thread_ids": [life.thread_id for _, life in chosen], **SAID}
        await self.session.product.post(f"{self._of_drain(dice, chosen[0][0])}/acknowledgements", body)
        for _, life in chosen:
            self._dealt_with(life)
        self._did("acknowledge threads")

    def _of_drain(self, dice: random.Random, history: History) -> str:
        mine = [watched for _, watched in self._open() if watched in history.drains]
        return f"/api/v1/drains/{dice.choice(mine).name}" if mine and dice.random() < 0.5 else BASE

    def _dealt_with(self, life: Life) -> None:
        life.was_dealt_with(self.session.world.has)
        life.is_known = False

    # -- drains --------------------------------------------------------------------------------------------------

    async def explain_falls(self, dice: random.Random | None = None) -> None:
        """Falls at a deploy are explained, of drains that no thread needs."""
        answers = await self.session.product.answers()
        for history, watched in self._open():
            codes = {reason["code"] for reason in answers[watched.name]["reasons"]}
            known = all(life.is_known or life.is_gone for life in history.lives)
            needed = watched.needed_by(history.lives) or any(watched.was_lost_by(life) for life in history.lives)
            if "fell_at_deploy" in codes and known and not needed:
                body = {"codes": ["fell_at_deploy"], **SAID}
                await self.session.product.post(f"/api/v1/drains/{watched.name}/acknowledgements", body)
                self._did("explain a fall")

    async def attest(self, dice: random.Random | None = None) -> None:
        """Attestations that a drain asks for are ticked."""
        for _, watched in self._open():
            if "attestations" in watched.policy:
                body: dict[str, Any] = {"names": [ATTESTATION], "owner": SAID["owner"]}
                await self.session.product.post(f"/api/v1/drains/{watched.name}/attestations", body)
                self._did("attest")

    async def explain_disappearances(self) -> None:
        """Whoever deleted so many threads says so."""
        _, alarms = await self.session.product.counts()
        if "mass_disappearance" in alarms:
            await self.session.product.post(f"{BASE}/acknowledgements", {"codes": ["mass_disappearance"], **SAID})
            self._did("explain a disappearance")

    async def close_or_open(self, dice: random.Random) -> None:
        """A drain is closed, or begins to observe."""
        _, watched = dice.choice(all_drains(self.session.histories))
        await self._to(watched, "observing" if self.phases.get(watched.name) == "closed" else "closed")

    async def observe(self) -> None:
        """Every drain observes, if it can be changed."""
        if not self.session.drains_by_file:
            for _, watched in all_drains(self.session.histories):
                await self._to(watched, "observing")

    async def _to(self, watched: Watched, phase: str) -> None:
        await self.session.product.patch(f"/api/v1/drains/{watched.name}", {"phase": phase})
        self.phases[watched.name] = phase
        self._did(f"phase {phase}")

    def _open(self) -> list[tuple[History, Watched]]:
        found = all_drains(self.session.histories)
        return [(history, watched) for history, watched in found if self.phases.get(watched.name) != "closed"]

    def _did(self, what: str) -> None:
        self.session.figures.said[what] += 1
        self.session.say(what)
