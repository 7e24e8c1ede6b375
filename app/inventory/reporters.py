"""Reporters of deployments without a server: their passes, and which threads a pass has not told of yet."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, insert, literal, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.types import Condition, RowFacts, Status, ThreadFacts
from app.inventory import tables
from app.inventory.encode import detail_to_json
from app.inventory.index import MISSING
from app.inventory.reads import was_never_told
from app.inventory.tables import NEVER
from app.inventory.traces import upsert
from app.inventory.writes import Dictionaries

_entry, _thread, _table = tables.index_thread, tables.thread, tables.reporter


@dataclass(frozen=True, slots=True)
class ReportedPass:
    """One round of a reporter over all threads, and the poll that it counts as. ``watermark``: the newest change that was
    known when it began."""

    pass_id: str
    poll_id: int
    graph_id: str
    topology_hash: str
    revision_id: int
    saver: str
    langgraph_version: str
    lists: str
    began_at: datetime
    told_at: datetime
    ended_at: datetime | None
    watermark: datetime | None


# -- passes --------------------------------------------------------------------------------------------------------


async def find_pass(connection: AsyncConnection, deployment_id: int) -> ReportedPass | None:
    """The pass that is under way, or was the last one."""
    row = (await connection.execute(select(_table).where(_table.c.deployment_id == deployment_id))).mappings().first()
    return None if row is None else ReportedPass(**{key: row[key] for key in ReportedPass.__dataclass_fields__})


async def keep_pass(connection: AsyncConnection, deployment_id: int, found: ReportedPass) -> None:
    """Remember it instead of the one before."""
    values = {key: getattr(found, key) for key in ReportedPass.__dataclass_fields__}
    query = upsert(connection, _table, keys=("deployment_id",))
    await connection.execute(query, [{"deployment_id": deployment_id, **values}])


async def newest_change(connection: AsyncConnection, deployment_id: int) -> datetime | None:
    """When a thread changed last, of those that were told of."""
    query = select(func.max(_thread.c.updated_at)).where(_thread.c.deployment_id == deployment_id)
    found: datetime | None = await connection.scalar(query.where(~was_never_told()))
    return found


# -- what is left --------------------------------------------------------------------------------------------------


def _is_of(graph: str | None) -> ColumnElement[bool]:
    """Listed ids that a reporter of this graph is to read. What the list does not say counts."""
    return true() if graph is None else or_(_entry.c.graph_id.is_(None), _entry.c.graph_id == graph)


def _is_open(graph: str) -> ColumnElement[bool]:
    """A thread that the index lists as open."""
    return exists().where(
        _entry.c.deployment_id == _thread.c.deployment_id,
        _entry.c.thread_id == _thread.c.thread_id,
        _entry.c.closed_at.is_(None),
        _is_of(graph),
    )


def is_told_in(found: ReportedPass) -> ColumnElement[bool]:
    """Threads that the pass has told of."""
    return _thread.c.seen_poll_id == found.poll_id


def _must_be_told(graph: str) -> ColumnElement[bool]:
    """Every thread that was ever told of and is not gone, and those that the index lists, gone ones too: they may be back."""
    return or_(and_(_thread.c.condition != Condition.GONE.value, ~was_never_told()), _is_open(graph))


def _is_unasked(found: ReportedPass) -> ColumnElement[bool]:
    """Listed ids without a thread here: those that have expired, asked for in the pass or not."""
    has_thread = exists().where(
        _thread.c.deployment_id == _entry.c.deployment_id, _thread.c.thread_id == _entry.c.thread_id
    )
    unasked = or_(_entry.c.checked_at.is_(None), _entry.c.checked_at < found.began_at)
    return and_(_entry.c.closed_at.is_(None), _is_of(found.graph_id), ~has_thread, unasked)


async def list_left(
    connection: AsyncConnection, deployment_id: int, found: ReportedPass, *, after: str, limit: int
) -> list[str]:
    """Ids that the pass has not told of: threads in the database's order of ids, from one of them on; behind the last of them
    listed ids without a thread, which are no longer here once they were asked for."""
    threads = (
        select(_thread.c.thread_id)
        .where(
            _thread.c.deployment_id == deployment_id,
            ~is_told_in(found),
            _must_be_told(found.graph_id),
            _thread.c.thread_id > after,
        )
        .order_by(_thread.c.thread_id)
    )
    listed = (
        select(_entry.c.thread_id)
        .where(_entry.c.deployment_id == deployment_id, _is_unasked(found))
        .order_by(_entry.c.thread_id)
    )
    left = list((await connection.scalars(threads.limit(limit))).all())
    return left or list((await connection.scalars(listed.limit(limit))).all())


async def list_told(
    connection: AsyncConnection, deployment_id: int, found: ReportedPass, ids: Collection[str]
) -> set[str]:
    """Which of these ids the pass has told of."""
    told = select(_thread.c.thread_id).where(
        _thread.c.deployment_id == deployment_id, is_told_in(found), _thread.c.thread_id.in_(ids)
    )
    asked = select(_entry.c.thread_id).where(
        _entry.c.deployment_id == deployment_id, _entry.c.checked_at >= found.began_at, _entry.c.thread_id.in_(ids)
    )
    return {*(await connection.scalars(told)).all(), *(await connection.scalars(asked)).all()}


# -- threads of which nothing was told -----------------------------------------------------------------------------


def never_told(thread_id: str, graph_id: str | None, created_at: datetime | None, now: datetime) -> ThreadFacts:
    """A thread that is listed, and that is all that is known."""
    row = RowFacts(
        thread_id=thread_id,
        status=Status.IDLE,
        created_at=created_at or NEVER,
        updated_at=NEVER,
        state_updated_at=None,
        graph_id=graph_id,
        assistant_id=None,
        metadata={},
        shape=None,
        interrupts=(),
    )
    return ThreadFacts(row=row, seen_at=now, condition=Condition.UNREAD)


async def add_listed(
    connection: AsyncConnection,
    dictionaries: Dictionaries,
    graph_id: str | None,
    *,
    expired_before: datetime,
    now: datetime,
) -> None:
    """Threads for the ids that the index lists as open and nobody told of: unread, until somebody does."""
    facts = never_told("", graph_id, None, now)
    constants = {
        "status": facts.row.status.value,
        "condition": facts.condition.value,
        "stuck": False,
        "updated_at": NEVER,
        "work_id": await dictionaries.work_id(connection, facts),
        "seen_at": now,
        "seen_poll_id": 0,
        "reading_is_current": False,
        "was_waiting": False,
        "metadata": {},
        "detail": detail_to_json(facts),
    }
    has_thread = exists().where(
        _thread.c.deployment_id == _entry.c.deployment_id, _thread.c.thread_id == _entry.c.thread_id
    )
    is_expired = and_(_entry.c.found.is_not_distinct_from(MISSING), _entry.c.created_at < expired_before)
    listed = select(
        _entry.c.deployment_id,
        _entry.c.thread_id,
        func.coalesce(_entry.c.graph_id, graph_id),
        func.coalesce(_entry.c.created_at, literal(NEVER, tables.UtcDateTime())),
        *(literal(value, _thread.c[name].type) for name, value in constants.items()),
    ).where(
        _entry.c.deployment_id == dictionaries.deployment_id,
        _entry.c.closed_at.is_(None),
        _is_of(graph_id),
        ~has_thread,
        ~func.coalesce(is_expired, False),
    )
    columns = ["deployment_id", "thread_id", "graph_id", "created_at", *constants]
    await connection.execute(insert(_thread).from_select(columns, listed))


async def drop_unlisted(connection: AsyncConnection, deployment_id: int, found: ReportedPass) -> None:
    """After a whole pass: threads of which nothing was ever told, and that nobody lists any more."""
    await connection.execute(
        delete(_thread).where(
            _thread.c.deployment_id == deployment_id, was_never_told(), ~is_told_in(found), ~_is_open(found.graph_id)
        )
    )


async def drop_expired(connection: AsyncConnection, deployment_id: int, thread_ids: Sequence[str]) -> None:
    """Threads of which nothing was ever told, and that are too old to be found any more."""
    await connection.execute(
        delete(_thread).where(
            _thread.c.deployment_id == deployment_id, was_never_told(), _thread.c.thread_id.in_(thread_ids)
        )
    )


async def find_entries(connection: AsyncConnection, deployment_id: int, ids: Collection[str]) -> dict[str, Any]:
    """What the index lists of these ids."""
    query = select(_entry).where(_entry.c.deployment_id == deployment_id, _entry.c.thread_id.in_(ids))
    return {row.thread_id: row for row in await connection.execute(query)}
