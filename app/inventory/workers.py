"""Which workers there are: each has a row of its own, and says again and again that it is there."""

from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.inventory import tables
from app.inventory.views import WorkerSummary

SHOWN = 100
_worker = tables.worker


async def begin_worker(connection: AsyncConnection, name: str, *, concurrency: int, now: datetime) -> int:
    """A new worker; its id."""
    values = {"name": name, "concurrency": concurrency, "started_at": now, "seen_at": now}
    done = await connection.execute(insert(_worker).values(**values))
    return int((done.inserted_primary_key or (0,))[0])


async def keep_worker(
    connection: AsyncConnection, worker_id: int, *, now: datetime, ended_at: datetime | None = None
) -> None:
    """It is there, or has ended."""
    await connection.execute(update(_worker).where(_worker.c.id == worker_id).values(seen_at=now, ended_at=ended_at))


async def forget_workers(connection: AsyncConnection, *, before: datetime) -> None:
    """Forget those that were not there for long; the newest stays, since it says when anybody was there last."""
    newest = select(_worker.c.id).order_by(_worker.c.seen_at.desc(), _worker.c.id.desc()).limit(1).scalar_subquery()
    await connection.execute(_worker.delete().where(_worker.c.seen_at < before, _worker.c.id != newest))


async def list_workers(connection: AsyncConnection) -> tuple[WorkerSummary, ...]:
    """Those that were seen lately, newest first."""
    query = select(_worker).order_by(_worker.c.seen_at.desc(), _worker.c.id.desc()).limit(SHOWN)
    return tuple(_told(row) for row in await connection.execute(query))


def _told(row: Any) -> WorkerSummary:
    return WorkerSummary(row.name, row.concurrency, row.started_at, row.seen_at, row.ended_at)
