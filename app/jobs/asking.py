"""Asking workers for a poll, and waiting until one has begun it."""

import asyncio
from typing import TYPE_CHECKING

from app.clock import monotonic, utc_now
from app.errors import SourceError, StoreError
from app.inventory import reads
from app.inventory.freshness import Polls, read_polls
from app.inventory.store import Store
from app.inventory.views import PollSummary
from app.inventory.workers import list_workers
from app.jobs.who_works import nobody_works

if TYPE_CHECKING:
    from app.jobs.queue import Queue

TAKEN_WITHIN = 10.0  # seconds; a worker that is free takes a job up at once
LONGEST = 100.0  # while another poll runs; the command line gives up an answer after two minutes


async def ask_workers(store: Store, queue: "Queue", name: str, *, full: bool) -> PollSummary:
    """The poll that a worker began. One that runs already is answered with, unless a sweep is asked for and it is a scan.
    Raises ``StoreError`` (``no_worker``) when nobody takes it up; then it waits in the queue."""
    before = await _polls(store, name)
    if (running := _fitting(before, after=0, full=full)) is not None and running.state == "running":
        return running
    newest = max((poll.id for poll in _newest(before)), default=0)
    job = await queue.ask(name, full=full)
    began = idle_since = monotonic()
    while monotonic() - began < LONGEST and monotonic() - idle_since < TAKEN_WITHIN:
        is_open = await queue.is_open(job)
        polls = await _polls(store, name)
        if (found := _fitting(polls, after=newest, full=full)) is not None:
            return found
        if not is_open:
            raise SourceError(f"A worker could not begin the poll of {name}; its log says why.")
        if polls is not None and polls.running is not None:
            idle_since = monotonic()
        await asyncio.sleep(0.1)
    raise await _not_taken(store, name)


async def _not_taken(store: Store, name: str) -> StoreError:
    async with store.database.read() as connection:
        nobody = nobody_works(await list_workers(connection), utc_now())
    if nobody is not None:
        return StoreError(f"{nobody} The poll of {name} waits for it.", code="no_worker")
    return StoreError(
        f"Every worker is busy. The poll of {name} waits, and begins when one is free.", code="workers_busy"
    )


def _fitting(polls: Polls | None, *, after: int, full: bool) -> PollSummary | None:
    """A poll that is no older than the question, and a sweep where one is asked for."""
    fits = (poll for poll in _newest(polls) if poll.id > after and (poll.kind == "sweep" or not full))
    return next(fits, None)


def _newest(polls: Polls | None) -> list[PollSummary]:
    found = (polls.running, polls.last) if polls is not None else ()
    return [poll for poll in found if poll is not None]


async def _polls(store: Store, name: str) -> Polls | None:
    async with store.database.read() as connection:
        row = await reads.find_deployment(connection, name)
        return None if row is None else await read_polls(connection, row.id)
