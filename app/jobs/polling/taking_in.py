"""Rows of the list: the states that they need are read, then a page is written in one transaction.

Three things go on at once, each bounded: a page is listed, the states of the pages before it are read, and a page that is
read is written. Pages are written in the order in which they were listed.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from app.clock import monotonic, utc_now
from app.errors import SourceError
from app.facts.types import RowFacts, ThreadFacts
from app.inventory import reads, writes
from app.jobs.polling.work import Work
from app.jobs.readings import Readings, gather, moved, reads_the_same

Rows = Sequence[RowFacts]


class Remember(Protocol):
    """Remembers how far a sweep is."""

    async def __call__(self, *, cursor: str) -> None:
        """``cursor``: the last id."""


REMEMBER_EVERY = 60.0  # seconds
PAGES_READ = 2  # whose states are read at once: else the last few states of a page leave the server idle


@dataclass(frozen=True, slots=True)
class Taken:
    """A page with what was read for it, to be written: threads that are known better now, and ids of the others."""

    rows: int
    threads: tuple[ThreadFacts, ...]
    unmoved: tuple[str, ...]


async def take_in_all(
    work: Work,
    readings: Readings,
    pages: AsyncGenerator[tuple[RowFacts, ...]],
    *,
    thorough: bool,
    remember: Remember | None = None,
) -> None:
    """Every page. When the list breaks off, what was listed until then is still read and written.

    ``remember`` is told now and then which id was the last, when everything until there is written and nothing is being
    read; not of a list that does not go by id.
    """
    told, last = monotonic(), ""
    waiting: deque[tuple[Rows, asyncio.Task[Taken]]] = deque()
    coming = asyncio.ensure_future(_next(pages))
    failure: SourceError | None = None
    try:
        while True:
            try:
                rows = await coming
            except SourceError as error:
                failure = error
                break
            if rows is None:
                break
            coming = asyncio.ensure_future(_next(pages))
            while waiting and (len(waiting) >= PAGES_READ or _come_again(rows, waiting)):
                await _write_first(work, readings, waiting, thorough=thorough)
            if remember is not None and monotonic() - told >= REMEMBER_EVERY and last:
                while waiting:
                    await _write_first(work, readings, waiting, thorough=thorough)
                await remember(cursor=last)
                told = monotonic()
            remember = remember if rows[0].thread_id > last else None
            last = rows[-1].thread_id
            waiting.append((rows, asyncio.ensure_future(look_at(work, readings, rows, thorough=thorough))))
        while waiting:
            await _write_first(work, readings, waiting, thorough=thorough)
    finally:
        await _end(coming, *(task for _, task in waiting))
        await pages.aclose()
    if failure is not None:
        raise failure


async def take_in_by_id(work: Work, readings: Readings, rows: Rows) -> None:
    """Rows that were asked for by id. They count as not listed, also for a sweep that goes on where this one stops."""
    taken = await look_at(work, readings, rows, thorough=False)
    async with work.writing() as connection:
        await writes.upsert_threads(connection, work.dictionaries, taken.threads, poll_id=work.poll.id, listed=False)
        await writes.mark_seen(connection, work.deployment_id, taken.unmoved, poll_id=None, now=utc_now())
        await work.keep_progress(connection, readings)


async def look_at(work: Work, readings: Readings, rows: Rows, *, thorough: bool) -> Taken:
    """Compare rows with what is remembered, and read the states that they need."""
    poll = work.poll
    poll.sample = poll.sample or next((row.thread_id for row in rows), None)
    async with work.reading() as connection:
        known = await reads.known_threads(connection, work.dictionaries, [row.thread_id for row in rows])
    calls, unmoved, plain = [], [], []
    for row in rows:
        before = known.get(row.thread_id)
        if before is not None and before.row.created_at != row.created_at:
            before = None
        if row.thread_id in readings.touched and before is not None and not moved(row, before):
            unmoved.append(row.thread_id)
        elif readings.needs_state(row, before, thorough=thorough):
            calls.append(readings.read(row, before))
        elif before is not None and not moved(row, before) and reads_the_same(row, before):
            unmoved.append(row.thread_id)
        else:
            plain.append(readings.row_only(row, before, utc_now()))
        if poll.kind == "scan" and (before is None or moved(row, before)):
            poll.moved_ids.add(row.thread_id)
    return Taken(len(rows), (*await gather(calls), *plain), tuple(unmoved))


async def write(work: Work, readings: Readings, taken: Taken, *, thorough: bool) -> None:
    """Write a page, and how far the poll got."""
    poll = work.poll
    poll.seen += taken.rows if poll.kind == "sweep" and thorough else 0
    async with work.writing() as connection:
        await writes.upsert_threads(connection, work.dictionaries, taken.threads, poll_id=poll.id)
        await writes.mark_seen(connection, poll.deployment_id, taken.unmoved, poll_id=poll.id, now=utc_now())
        await work.keep_progress(connection, readings)


async def write_threads(work: Work, readings: Readings, threads: Sequence[ThreadFacts]) -> None:
    """Write threads that were read by id."""
    async with work.writing() as connection:
        await writes.upsert_threads(connection, work.dictionaries, threads, poll_id=work.poll.id, listed=False)
        await work.keep_progress(connection, readings)


async def _next(pages: AsyncGenerator[tuple[RowFacts, ...]]) -> tuple[RowFacts, ...] | None:
    return await anext(pages, None)


def _come_again(rows: Rows, waiting: deque[tuple[Rows, asyncio.Task[Taken]]]) -> bool:
    """Whether a thread is on a page that is not written yet: what is remembered of it would be old."""
    ids = {row.thread_id for row in rows}
    return any(row.thread_id in ids for page, _ in waiting for row in page)


async def _write_first(
    work: Work, readings: Readings, waiting: deque[tuple[Rows, asyncio.Task[Taken]]], *, thorough: bool
) -> None:
    taken = await waiting[0][1]
    waiting.popleft()
    await write(work, readings, taken, thorough=thorough)


async def _end(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel what still runs, and wait until it has ended."""
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
