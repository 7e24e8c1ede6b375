"""Waits on a gate: asks again until it is drained, says how it goes, and lets itself be cancelled from the drain's page."""

import asyncio
import contextlib
import getpass
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from app.cli import output
from app.cli.connection import Api, Refused
from app.clock import monotonic
from app.durations import duration_text, span

LONGEST_PAUSE = 10.0
SAY_EVERY = 60.0


@dataclass
class Wait:
    """One wait. ``quiet``: say nothing but the end."""

    drain: str
    seconds: float
    caller: str
    max_age: str | None = None
    quiet: bool = False
    _said: tuple[str, float] = field(default=("", -SAY_EVERY))
    _id: str | None = None

    async def answer(self, api: Api) -> Mapping[str, Any]:
        """The gate's answer when it is drained, at the end of the wait, or when somebody has cancelled it."""
        until = monotonic() + self.seconds
        found: Mapping[str, Any] = await api.get("drains", self.drain, "gate", max_age=self.max_age)
        if self.seconds <= 0 or found["verdict"] == "drained":
            return found
        await self._begin(api)
        try:
            while True:
                left = until - monotonic()
                if found["verdict"] == "drained" or left <= 0:
                    await self._report(api, found, "drained" if found["verdict"] == "drained" else "ran_out")
                    return found
                if await self._report(api, found, None):
                    output.problem(f"The wait on {self.drain} was cancelled on its page.")
                    return found
                self._say(found, left)
                await asyncio.sleep(min(left, LONGEST_PAUSE, max(1.0, float(found["retry_after_seconds"] or 2))))
                found = await api.get("drains", self.drain, "gate", max_age=self.max_age)
        except BaseException:
            with contextlib.suppress(Exception):
                await self._report(api, found, "ran_out")
            raise

    async def _begin(self, api: Api) -> None:
        """Be seen. A server that does not keep waiters is waited on all the same."""
        wait = duration_text(timedelta(seconds=max(1, int(self.seconds))))
        with contextlib.suppress(Refused):
            said = await api.post("drains", self.drain, "waiters", body={"caller": self.caller, "wait": wait})
            self._id = said.get("id")

    async def _report(self, api: Api, found: Mapping[str, Any], outcome: str | None) -> bool:
        """Say what the gate answered; whether somebody has cancelled the wait."""
        if self._id is None:
            return False
        body = {"verdict": found["verdict"], "outcome": outcome}
        try:
            said = await api.put("drains", self.drain, "waiters", self._id, body=body)
        except Refused:
            return False
        return bool(said.get("outcome") == "cancelled")

    def _say(self, found: Mapping[str, Any], left: float) -> None:
        headline, at = self._said
        if self.quiet or (found["headline"] == headline and monotonic() - at < SAY_EVERY):
            return
        self._said = (found["headline"], monotonic())
        remaining = span(timedelta(seconds=left))
        sys.stderr.flush()
        output.err.print(
            f"{output.MARKS[found['verdict']]}  {output.sentence(found['headline'])} [dim]{remaining} left[/]"
        )


def caller() -> str:
    """Who waits, in the words of the pipeline that it runs in, or of the machine."""
    env = os.environ
    if repository := env.get("GITHUB_REPOSITORY"):
        return f"GitHub {repository}, run {env.get('GITHUB_RUN_ID', '?')}"[:200]
    if project := env.get("CI_PROJECT_PATH"):
        return f"GitLab {project}, pipeline {env.get('CI_PIPELINE_ID', '?')}"[:200]
    with contextlib.suppress(OSError, KeyError, ImportError):
        return f"{getpass.getuser()} on {socket.gethostname()}"[:200]
    return socket.gethostname()[:200] or "command line"
