"""Who waits on the gate of a drain."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.inventory import tables
from app.inventory.views import Waiter

SILENT_AFTER = timedelta(minutes=1)
MOST = 50

_table = tables.waiter


async def add_waiter(
    connection: AsyncConnection,
    drain: Any,
    *,
    waiter_id: str,
    caller: str,
    until: datetime,
    verdict: str,
    now: datetime,
) -> None:
    """Somebody begins to wait."""
    await connection.execute(
        insert(_table).values(
            id=waiter_id,
            deployment_id=drain.deployment_id,
            drain_id=drain.id,
            caller=caller,
            since=now,
            until=until,
            seen_at=now,
            asked=1,
            verdict=verdict,
        )
    )


async def touch_waiter(
    connection: AsyncConnection, drain_id: int, waiter_id: str, *, verdict: str, now: datetime
) -> None:
    """It asked again; one that has ended is left as it is."""
    await connection.execute(
        update(_table)
        .where(_table.c.id == waiter_id, _table.c.drain_id == drain_id, _table.c.outcome.is_(None))
        .values(seen_at=now, asked=_table.c.asked + 1, verdict=verdict)
    )


async def end_waiter(
    connection: AsyncConnection, drain_id: int, waiter_id: str, *, outcome: str, by: str, now: datetime
) -> bool:
    """It waits no more; False when it did not wait. Whoever ends it first has ended it."""
    done = await connection.execute(
        update(_table)
        .where(_table.c.id == waiter_id, _table.c.drain_id == drain_id, _table.c.outcome.is_(None))
        .values(outcome=outcome, ended_at=now, ended_by=by)
    )
    return bool(done.rowcount)


async def count_waiting(connection: AsyncConnection, drain_id: int, *, now: datetime) -> int:
    """How many wait on a drain now."""
    waits = _table.c.outcome.is_(None) & (_table.c.until > now - SILENT_AFTER)
    query = select(func.count()).select_from(_table).where(_table.c.drain_id == drain_id, waits)
    return int(await connection.scalar(query) or 0)


async def list_waiters(
    connection: AsyncConnection, drain: Any, *, now: datetime, ended_since: datetime | None = None
) -> tuple[Waiter, ...]:
    """Those that wait, and those that ended since then, newest first. One that went silent beyond its time waits no more."""
    waits = _table.c.outcome.is_(None) & (_table.c.until > now - SILENT_AFTER)
    wanted = waits if ended_since is None else or_(waits, _table.c.ended_at >= ended_since)
    query = select(_table).where(_table.c.drain_id == drain.id, wanted).order_by(_table.c.since.desc(), _table.c.id)
    return tuple(_waiter(row, drain.name, now) for row in await connection.execute(query.limit(MOST)))


async def find_waiter(connection: AsyncConnection, drain: Any, waiter_id: str, *, now: datetime) -> Waiter | None:
    """One waiter of a drain, or None."""
    query = select(_table).where(_table.c.drain_id == drain.id, _table.c.id == waiter_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _waiter(row, drain.name, now)


def _waiter(row: Any, drain: str, now: datetime) -> Waiter:
    return Waiter(
        id=row.id,
        drain=drain,
        caller=row.caller,
        since=row.since,
        until=row.until,
        seen_at=row.seen_at,
        asked=row.asked,
        verdict=row.verdict,
        outcome=row.outcome,
        ended_at=row.ended_at,
        ended_by=row.ended_by,
        is_silent=row.outcome is None and now - row.seen_at > SILENT_AFTER,
    )
