"""States that must be read although no row moved, and remembered threads by any condition."""

from collections.abc import AsyncIterator, Sequence

from sqlalchemy import ColumnElement, and_, or_

from app.facts.types import Condition, ThreadFacts
from app.inventory import reads, tables
from app.jobs.polling.taking_in import write_threads
from app.jobs.polling.work import BATCH, Work
from app.jobs.readings import Readings, gather


async def read_again(work: Work, readings: Readings) -> None:
    """Threads whose state could not be read last time, or not be trusted, although their row did not move: also those
    that were read in a poll which did not see to its end under which revision."""
    table = tables.thread
    distrusted = and_(
        table.c.state_read_at.is_not(None),
        table.c.revision_id.is_(None),
        table.c.graph_id.in_(list(readings.current.primary)),
        table.c.condition.not_in([Condition.GONE.value, Condition.NEVER_RAN.value, Condition.SETTLED.value]),
    )
    where = or_(table.c.condition == Condition.UNREAD.value, distrusted)
    async for known in by_condition(work, where, limit=None):
        left = [facts for facts in known if facts.row.thread_id not in readings.touched]
        await write_threads(work, readings, await gather(readings.read(f.row, f) for f in left))


async def read_ids(work: Work, readings: Readings, ids: Sequence[str]) -> None:
    """Read the states of remembered threads, a batch at a time."""
    for start in range(0, len(ids), BATCH):
        async with work.reading() as connection:
            known = await reads.known_threads(connection, work.dictionaries, ids[start : start + BATCH])
        await write_threads(work, readings, await gather(readings.read(f.row, f) for f in known.values()))


async def by_condition(
    work: Work, where: ColumnElement[bool], *, limit: int | None
) -> AsyncIterator[list[ThreadFacts]]:
    """Remembered threads by a condition, a batch at a time."""
    after, left = "", limit
    while left is None or left > 0:
        async with work.reading() as connection:
            size = BATCH if left is None else min(BATCH, left)
            ids = await reads.list_ids(connection, work.deployment_id, where=where, after=after, limit=size)
            known = await reads.known_threads(connection, work.dictionaries, ids)
        if not ids:
            return
        after = ids[-1]
        left = None if left is None else left - len(ids)
        yield list(known.values())
