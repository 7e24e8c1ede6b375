"""Whether this process lives, and whether it can answer. What is said is for everybody: no names, no addresses."""

import asyncio
from dataclasses import dataclass
from typing import Literal

from app.clock import utc_now
from app.errors import StoreError
from app.inventory.db import head_revision
from app.jobs.runtime import Runtime
from app.jobs.who_works import find_work

PATIENCE = 5.0  # seconds, for the database


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. ``elsewhere``: not the work of this process. ``sentence``: what to do about a failure."""

    name: Literal["database", "schema", "schedule"]
    status: Literal["ok", "failed", "unknown", "elsewhere"]
    sentence: str | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """Who polls, and a sentence when nobody does. That is no reason to take this process out of service: it can say so."""

    by: Literal["here", "workers"]
    workers: int
    sentence: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of a probe."""

    status: Literal["ok", "ready", "failed", "not_ready"]
    checks: tuple[Check, ...]
    work: Polled | None = None

    @property
    def http_status(self) -> int:
        """What a prober looks at."""
        return 200 if self.status in ("ok", "ready") else 503


def liveness(runtime: Runtime) -> Health:
    """Whether this process does its work; when not, a restart helps. A database that is away is no reason for one."""
    schedule = _schedule(runtime)
    return Health("failed" if schedule.status == "failed" else "ok", (schedule,))


async def readiness(runtime: Runtime) -> Health:
    """Whether this process can answer: the database does, its schema is of this version, and the schedule lives."""
    checks = (*await _database(runtime), _schedule(runtime))
    if any(check.status not in ("ok", "elsewhere") for check in checks):
        return Health("not_ready", checks)
    work = await find_work(runtime.store, runtime.settings, utc_now())
    return Health("ready", checks, Polled(work.by, len(work.alive), work.sentence))


async def _database(runtime: Runtime) -> tuple[Check, Check]:
    try:
        async with asyncio.timeout(PATIENCE):
            revision = await runtime.store.database.revision()
    except TimeoutError:
        return Check("database", "failed", f"The database has not answered for {PATIENCE:.0f} seconds."), _UNSEEN
    except StoreError as error:
        return Check("database", "failed", error.message), _UNSEEN
    answers = Check("database", "ok")
    if revision == head_revision():
        return answers, Check("schema", "ok")
    sentence = "The database's schema is not the one of this version. Run `drainboard db upgrade`."
    return answers, Check("schema", "failed", sentence)


_UNSEEN = Check("schema", "unknown", "The database does not answer.")


def _schedule(runtime: Runtime) -> Check:
    schedule = runtime.schedule
    if not schedule.is_here:
        return Check("schedule", "elsewhere", "This process does not poll.")
    if not schedule.ended:
        return Check("schedule", "ok")
    sentence = f"{len(schedule.ended)} of {schedule.size} parts of the schedule have ended. Restart this process."
    return Check("schedule", "failed", sentence)
