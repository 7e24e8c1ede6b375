"""Rows of the list: the states that they need are read, then a page is written in one transaction."""

from collections.abc import Sequence

from app.clock import utc_now
from app.facts.types import RowFacts, ThreadFacts
from app.inventory import reads, writes
from app.jobs.polling.work import Work
from app.jobs.readings import Readings, gather, moved, reads_the_same


async def take_in(work: Work, readings: Readings, rows: Sequence[RowFacts], *, thorough: bool) -> None:
    """One page of rows: read the states that it needs, then write it in one transaction."""
    poll = work.poll
    async with work.reading() as connection:
        known = await reads.known_threads(connection, work.dictionaries, [row.thread_id for row in rows])
    calls, unmoved = [], []
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
            calls.append(readings.row_only(row, before, utc_now()))
        if poll.kind == "scan" and (before is None or moved(row, before)):
            poll.moved_ids.add(row.thread_id)
    threads = await gather(calls)
    poll.seen += len(rows) if poll.kind == "sweep" and thorough else 0
    async with work.writing() as connection:
        await writes.upsert_threads(connection, work.dictionaries, threads, poll_id=poll.id)
        await writes.mark_seen(connection, poll.deployment_id, unmoved, poll_id=poll.id, now=utc_now())
        await work.keep_progress(connection, readings)


async def write_threads(work: Work, readings: Readings, threads: Sequence[ThreadFacts]) -> None:
    """Write threads that were read."""
    async with work.writing() as connection:
        await writes.upsert_threads(connection, work.dictionaries, threads, poll_id=work.poll.id)
        await work.keep_progress(connection, readings)
