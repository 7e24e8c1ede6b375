"""Forgets what is over, a few rows at a time. Each question says what of its table a verdict may still rest on: that stays.

Graph revisions, drawings and topologies, what people said of drains, arrivals, and the dictionaries of shapes, work and routes
are never forgotten: judging a thread of today may need the oldest of them.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, delete, exists, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.types import Condition, Departure
from app.inventory import deploys, tables

OVER = ("complete", "incomplete", "failed")
_MUST_STAY = (Departure.LOST.value, Departure.UNEXPLAINED.value)
_ANSWERS = 2  # before a removal: the one on which a target went, and the first without it

_thread, _leaf, _poll = tables.thread, tables.observation, tables.poll


async def forget_tombstones(
    connection: AsyncConnection, deployment_id: int, *, before: datetime, works: Collection[int], limit: int
) -> int:
    """Threads that are gone since before then; how many. Their deployment is locked. ``works``: what waited at a node that an
    open drain names; if such a thread comes back without that node, only its tombstone knows.

    One that vanished after the last complete sweep began counts for ``mass_disappearance``; one that is still listed, or that a
    trace names, would be unknown without its tombstone.
    """
    of_thread = (_thread.c.deployment_id, _thread.c.thread_id)
    where = and_(
        _thread.c.deployment_id == deployment_id,
        _thread.c.condition == Condition.GONE.value,
        _thread.c.gone_at < before,
        _thread.c.changed_at < before,
        or_(
            _thread.c.gone_poll_id < _last_sweep(deployment_id, _poll.c.id),
            and_(_thread.c.gone_poll_id.is_(None), _thread.c.gone_at < _last_sweep(deployment_id, _poll.c.started_at)),
        ),
        _thread.c.seen_poll_id < _last_sweep(deployment_id, _poll.c.id),
        _thread.c.work_id.not_in(works),
        ~_names(tables.index_thread, *of_thread),
        ~_names(tables.trace_run, *of_thread),
    )
    query = select(_thread.c.thread_id, _thread.c.created_at).where(where).order_by(_thread.c.gone_at).limit(limit)
    rows = list(await connection.execute(query))
    if not rows:
        return 0
    those = [row.thread_id for row in rows]
    is_open = and_(_leaf.c.deployment_id == deployment_id, _leaf.c.thread_id.in_(those), _leaf.c.left_at.is_(None))
    await connection.execute(delete(_leaf).where(is_open))
    await _remember_oldest(connection, deployment_id, min(row.created_at for row in rows))
    return (await connection.execute(delete(_thread).where(where, _thread.c.thread_id.in_(those)))).rowcount


async def forget_departures(connection: AsyncConnection, deployment_id: int, *, before: datetime, limit: int) -> int:
    """How leaves left before then; how many. What is lost or unexplained stays as long as its thread, and what a deploy met as
    long as that deploy."""
    is_there = exists().where(
        _thread.c.deployment_id == _leaf.c.deployment_id,
        _thread.c.thread_id == _leaf.c.thread_id,
        _thread.c.condition != Condition.GONE.value,
    )
    met = tables.deploy_thread
    was_met = _names(met, _leaf.c.deployment_id, _leaf.c.thread_id, met.c.node == _leaf.c.node)
    where = and_(
        _leaf.c.deployment_id == deployment_id,
        _leaf.c.left_at < before,
        or_(_leaf.c.departure.not_in(_MUST_STAY), ~is_there),
        ~was_met,
    )
    return await _forget(connection, _leaf, where, oldest=_leaf.c.left_at, limit=limit)


async def forget_polls(connection: AsyncConnection, deployment_id: int, *, before: datetime, limit: int) -> int:
    """Polls that began before then; how many. The newest of each kind and outcome stay, since freshness is read from them; the
    first complete sweep, which says what was there from the beginning; and the complete poll that came before a stay was first
    seen, since it says when that stay cannot have begun."""
    mine = _poll.c.deployment_id == deployment_id
    newest = select(func.max(_poll.c.id)).where(mine).group_by(_poll.c.kind, _poll.c.state)
    first = select(func.min(_poll.c.id)).where(mine, _poll.c.kind == "sweep", _poll.c.state == "complete")
    later = _poll.alias("later")
    following = (
        select(func.min(later.c.id))
        .where(later.c.deployment_id == deployment_id, later.c.state == "complete", later.c.id > _poll.c.id)
        .correlate(_poll)  # two levels up, which SQLAlchemy does not find by itself
        .scalar_subquery()
    )
    came_next = (
        exists()
        .where(
            _leaf.c.deployment_id == _poll.c.deployment_id,
            _leaf.c.arrived_poll_id > _poll.c.id,
            _leaf.c.arrived_poll_id <= following,
        )
        .correlate(_poll)
    )
    where = and_(
        mine,
        _poll.c.started_at < before,
        _poll.c.state.in_(OVER),
        _poll.c.id.not_in(newest.scalar_subquery()),
        _poll.c.id.not_in(select(func.coalesce(first.scalar_subquery(), 0))),
        or_(_poll.c.state != "complete", ~came_next),
    )
    return await _forget(connection, _poll, where, oldest=_poll.c.id, limit=limit)


async def forget_answers(connection: AsyncConnection, drain: Any, *, before: datetime, limit: int) -> int:
    """Stored answers of a drain from before then; how many. Its newest stays, with which the next is compared, and those on which
    a target was removed."""
    table = tables.evaluation
    kept = [await _newest_answers(connection, drain.id, until=None, count=1)]
    for when in drain.removed.values():
        until = datetime.fromisoformat(when)
        kept.append(await _newest_answers(connection, drain.id, until=until, count=_ANSWERS))
    ids = {one for some in kept for one in some}
    where = and_(table.c.drain_id == drain.id, table.c.evaluated_at < before, table.c.id.not_in(ids))
    return await _forget(connection, table, where, oldest=table.c.id, limit=limit)


async def forget_deploys(connection: AsyncConnection, deployment_id: int, *, before: datetime, limit: int) -> int:
    """Deploys that were noticed before then, with the threads that they met; how many. The latest stays, and each after which
    somebody still waits, or is stranded or lost."""
    table = tables.deploy
    mine = table.c.deployment_id == deployment_id
    where = and_(
        mine,
        table.c.noticed_at < before,
        table.c.id != select(func.max(table.c.id)).where(mine).scalar_subquery(),
        table.c.id.not_in(deploys.list_open(deployment_id)),
    )
    return await _forget(connection, table, where, oldest=table.c.id, limit=limit)


async def forget_audit(connection: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Lines of the audit from before then, of every deployment and of none; how many."""
    table = tables.activity
    return await _forget(connection, table, table.c.at < before, oldest=table.c.at, limit=limit)


async def forget_asides(connection: AsyncConnection, deployment_id: int, *, before: datetime, limit: int) -> int:
    """Alarms that ended, gates that nobody waits on any more, and counts of traces of days before then; how many."""
    alarm, waiter, day = tables.alarm, tables.waiter, tables.node_activity
    found = 0
    for table, ended in ((alarm, alarm.c.cleared_at), (waiter, waiter.c.until), (day, day.c.day)):
        where = and_(table.c.deployment_id == deployment_id, ended < before)
        found += await _forget(connection, table, where, oldest=ended, limit=limit)
    return found


# -- calls ---------------------------------------------------------------------------------------------------------


async def _forget(
    connection: AsyncConnection, table: Table, where: ColumnElement[bool], *, oldest: ColumnElement[Any], limit: int
) -> int:
    keys = list(table.primary_key)
    rows: Sequence[Any] = (await connection.execute(select(*keys).where(where).order_by(oldest).limit(limit))).all()
    if not rows:
        return 0
    those = keys[0].in_([row[0] for row in rows]) if len(keys) == 1 else tuple_(*keys).in_([tuple(row) for row in rows])
    return (await connection.execute(delete(table).where(those, where))).rowcount


def _last_sweep(deployment_id: int, column: ColumnElement[Any]) -> Any:
    """Of the newest complete sweep; null, and so nothing is before it, while there is none."""
    mine = and_(_poll.c.deployment_id == deployment_id, _poll.c.kind == "sweep", _poll.c.state == "complete")
    return select(column).where(mine).order_by(_poll.c.id.desc()).limit(1).scalar_subquery()


def _names(
    table: Table, deployment_id: ColumnElement[int], thread_id: ColumnElement[str], *more: ColumnElement[bool]
) -> ColumnElement[bool]:
    """Whether a row of another table names a thread."""
    return exists().where(table.c.deployment_id == deployment_id, table.c.thread_id == thread_id, *more)


async def _remember_oldest(connection: AsyncConnection, deployment_id: int, created_at: datetime) -> None:
    """A drain's traces must reach back to the first thread that there was, also when it is forgotten."""
    table = tables.deployment
    is_older = or_(table.c.forgotten_since.is_(None), table.c.forgotten_since > created_at)
    where = and_(table.c.id == deployment_id, is_older)
    await connection.execute(update(table).where(where).values(forgotten_since=created_at))


async def _newest_answers(
    connection: AsyncConnection, drain_id: int, *, until: datetime | None, count: int
) -> Sequence[int]:
    table = tables.evaluation
    query: Select[Any] = select(table.c.id).where(table.c.drain_id == drain_id)
    if until is not None:
        query = query.where(table.c.evaluated_at <= until)
    return list((await connection.execute(query.order_by(table.c.id.desc()).limit(count))).scalars())
