"""Who polls: this process, or workers; and what to say when none is there."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from app.errors import at
from app.inventory.store import Store
from app.inventory.views import WorkerSummary
from app.inventory.workers import list_workers
from app.settings import Settings

SILENT_AFTER = timedelta(seconds=45)


@dataclass(frozen=True, slots=True)
class Work:
    """``by``: ``here``, or ``workers``; ``alive``: those that are there; ``sentence``: what is wrong, or None."""

    by: Literal["here", "workers"]
    alive: tuple[WorkerSummary, ...] = ()
    sentence: str | None = None


async def find_work(store: Store, settings: Settings, now: datetime) -> Work:
    """Who polls now. Workers are known on PostgreSQL only."""
    if not settings.is_on_postgresql:
        return Work(settings.work)
    async with store.database.read() as connection:
        known = await list_workers(connection)
    sentence = nobody_works(known, now) if settings.work == "workers" else None
    return Work(settings.work, tuple(each for each in known if is_alive(each, now)), sentence)


def is_alive(worker: WorkerSummary, now: datetime) -> bool:
    """Whether a worker was heard of lately and did not say that it ends."""
    return worker.ended_at is None and now - worker.seen_at < SILENT_AFTER


def nobody_works(known: Iterable[WorkerSummary], now: datetime) -> str | None:
    """A sentence when no worker is there. ``known``: newest first."""
    known = tuple(known)
    if any(is_alive(each, now) for each in known):
        return None
    since = f"since {at(known[0].seen_at)}" if known else "yet"
    return f"No worker has reported {since}, so nothing is polled. Start `drainboard worker`."
