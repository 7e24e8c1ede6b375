"""What only a green verdict needs: read for drains that no thread blocks. Bounded; the rest stays unknown."""

from sqlalchemy import ColumnElement, and_

from app.drains.needs import GreenNeed
from app.inventory import reads, tables, writes
from app.jobs.polling.again import by_condition, read_ids
from app.jobs.polling.taking_in import write_threads
from app.jobs.polling.work import BATCH, Work
from app.jobs.readings import Readings, gather


async def read_for_green(work: Work, readings: Readings, need: GreenNeed) -> None:
    """Idle heads, busy threads, storage of one drain; then what no row tells."""
    if need.idle_heads is not None and work.poll.kind == "sweep":
        budget = work.settings.verify_idle_per_sweep
        async for known in by_condition(work, need.idle_heads, limit=budget):
            budget -= len(known)
            await write_threads(work, readings, await gather(readings.read(f.row, f) for f in known))
        if need.recheck is not None:
            await _recheck_settled(work, readings, need.recheck, budget)
    elif need.idle_heads is not None:
        await _read_moved(work, readings, need.idle_heads)
    if need.busy is not None:
        async for known in by_condition(work, need.busy, limit=None):
            await write_threads(work, readings, await gather(readings.read(f.row, f, with_runs=True) for f in known))
    await _read_stored(work, readings, need)
    await _read_what_no_row_tells(work, readings, need)


async def _read_moved(work: Work, readings: Readings, idle_heads: ColumnElement[bool]) -> None:
    """A scan reads the idle heads that moved."""
    moved_ids = sorted(work.poll.moved_ids)
    for start in range(0, len(moved_ids), BATCH):
        those = and_(idle_heads, tables.thread.c.thread_id.in_(moved_ids[start : start + BATCH]))
        async for known in by_condition(work, those, limit=None):
            await write_threads(work, readings, await gather(readings.read(f.row, f) for f in known))


async def _read_stored(work: Work, readings: Readings, need: GreenNeed) -> None:
    again = need.stored_again if work.poll.kind == "sweep" else None
    for where in (need.storage, again):
        if where is not None and work.server.has_storage is not False:
            await _read_storage(work, readings, where)


async def _read_storage(work: Work, readings: Readings, where: ColumnElement[bool]) -> None:
    """Stored channels of threads, as many as the budget of one poll has room for."""
    settings = work.settings
    limit = settings.verify_idle_per_sweep
    if settings.erase_requests_per_minute is not None:
        minutes = settings.poll_interval.total_seconds() / 60
        limit = max(1, int(settings.erase_requests_per_minute * minutes))
    async for known in by_condition(work, where, limit=limit):
        await write_threads(work, readings, await gather(readings.read_storage(facts) for facts in known))


async def _read_what_no_row_tells(work: Work, readings: Readings, need: GreenNeed) -> None:
    """Where rows do not say when a state changed, one that did not move proves nothing: read all again, the longest not
    read first. What is beyond the budget is not known any more."""
    if need.counted is None:
        return
    stale = and_(need.counted, reads.has_mute_row(), reads.is_read_before(work.poll.started_at))
    async with work.reading() as connection:
        ids = await reads.list_oldest_readings(
            connection, work.deployment_id, where=stale, limit=work.settings.verify_idle_per_sweep
        )
    await read_ids(work, readings, ids)
    async with work.writing() as connection:
        await writes.distrust_older_readings(connection, work.deployment_id, stale)


async def _recheck_settled(work: Work, readings: Readings, where: ColumnElement[bool], budget: int) -> None:
    """Read settled heads again, the longest not read first: deleting a run changes a head and moves no row."""
    stale = and_(where, reads.is_settled_before(work.poll.started_at))
    async with work.reading() as connection:
        ids = await reads.list_oldest_readings(connection, work.deployment_id, where=stale, limit=max(0, budget))
    await read_ids(work, readings, ids)
