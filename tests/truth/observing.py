"""Looks of the product at what happens, and after each what it says, held against what is true."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tests.truth import checks
from tests.truth.drains import Watched
from tests.truth.histories import Mutant, all_drains
from tests.truth.lives import Life
from tests.truth.session import Session


class Observer:
    """Polls of one session. `mutants`: rules of the product that are broken while it is asked once more."""

    def __init__(self, session: Session, mutants: Mapping[str, Mutant] | None = None) -> None:
        self.session = session
        self.figures = session.figures
        self.mutants = mutants or {}

    @property
    def drains(self) -> list[Watched]:
        """Every drain of the session."""
        return [watched for _, watched in all_drains(self.session.histories)]

    async def ask(self) -> dict[str, dict[str, Any]]:
        """What the product says of every drain; counted."""
        answers = await self.session.product.answers()
        for watched in self.drains:
            checks.count(answers[watched.name], self.figures)
        return answers

    async def poll(self, *, full: bool) -> None:
        """A poll, and everything that can be checked after it."""
        began, before = self.session.deed_number, len(self.figures.lies)
        await self._ask_for_fresh_evidence(began)
        summary = await self._polled(full=full)
        if summary["state"] != "complete":
            await self.ask()
            return
        is_sweep = summary["kind"] == "sweep"
        await checks.check(
            self.session.product,
            self.session.world,
            self.drains,
            self._untouched(began),
            self.figures,
            is_sweep=is_sweep,
        )
        self._report_lies(before)
        await self._ask_mutants(self._untouched(began))
        for life in self._untouched(began):
            if is_sweep or not life.run_deleted:
                life.was_polled(self.session.world.has)

    async def poll_in_vain(self, *, full: bool) -> None:
        """A poll while the server ends, is away, or begins: it is incomplete, or has seen what was there before."""
        began, before = self.session.deed_number, len(self.figures.lies)
        summary = await self._polled(full=full)
        answers = await self.ask()
        lives = [life for life in self._untouched(began) if not life.run_deleted]
        if summary["state"] == "complete":
            for watched in self.drains:
                self.figures.lies += checks.false_drained(watched, answers[watched.name], lives)
        self._report_lies(before)

    async def _polled(self, *, full: bool) -> dict[str, Any]:
        summary = await self.session.product.poll(full=full)
        self.figures.polls += 1
        self.figures.incomplete += summary["state"] != "complete"
        self.session.say(f"poll {summary['kind']} {summary['state']}")
        return summary

    async def _ask_for_fresh_evidence(self, began: int) -> None:
        """Before a poll, somebody asks for evidence that is a second old: what is older proves nothing."""
        for watched in self.drains[:1]:
            answer = await self.session.product.gate(watched.name, max_age="1s")
            checks.count(answer, self.figures)
            known = [life for life in self._untouched(began) if life.is_known]
            self.figures.lies += checks.false_drained(watched, answer, known)

    def _untouched(self, began: int) -> list[Life]:
        return [life for _, life in self.session.lives if life.touched <= began]

    async def _ask_mutants(self, lives: list[Life]) -> None:
        """Ask again with a broken rule: the truth must notice."""
        for name, mutant in self.mutants.items():
            with mutant():
                answers = await self.session.product.answers()
            for watched in self.drains:
                if list(checks.false_drained(watched, answers[watched.name], lives)):
                    self.figures.caught.setdefault(name, set()).add(watched.history)

    def _report_lies(self, before: int) -> None:
        for lie in self.figures.lies[before:]:
            sys.stderr.write(f"LIE {lie.kind} {lie.what}\n    session {self.session.name}: {self.session.said}\n")
