"""The outbox of webhooks: what receivers were told of drains, what is to be sent, and what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, delete, func, insert, select, true, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.inventory import tables
from app.inventory.cursors import close_cursor, cursor_time, open_cursor

State = Literal["waiting", "delivered", "dead"]
STATES: tuple[State, ...] = ("waiting", "delivered", "dead")

_row = tables.delivery
_told = tables.drain_told


@dataclass(frozen=True, slots=True)
class Told:
    """What receivers were last told of a drain; of one that they never heard of, nothing."""

    is_drained: bool = False
    is_regressed: bool = False
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """One message to one receiver. ``id``: what the receiver knows it by, the same at every attempt."""

    id: str
    webhook: str
    event: str
    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that this process sends now, for the ``attempts``-th time."""

    id: str
    event: str
    body: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a message. ``deployment`` None: a test. ``status``: what the receiver answered last; ``problem``: why the
    last attempt failed; ``next_at``: when the next one is due, of one that waits."""

    id: str
    webhook: str
    event: str
    subject: str
    deployment: str | None
    created_at: datetime
    state: State
    attempts: int
    next_at: datetime | None
    status: int | None
    problem: str | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """One receiver. ``host``: of its address, of which the rest may be a secret. ``deployments``: those of which it is told, as far
    as the caller may see them. ``waiting``, ``delivered`` and ``dead`` count its messages; ``oldest_waiting``: when the first of
    those that wait was made."""

    name: str
    host: str
    events: tuple[str, ...]
    deployments: tuple[str, ...]
    oldest_waiting: datetime | None
    waiting: int
    delivered: int
    dead: int


# -- what was told -------------------------------------------------------------------------------------------------


async def find_told(connection: AsyncConnection, drain_id: int) -> Told:
    """What receivers were last told of a drain."""
    query = select(_told.c.is_drained, _told.c.is_regressed, _told.c.is_stale).where(_told.c.drain_id == drain_id)
    row = (await connection.execute(query)).one_or_none()
    return Told() if row is None else Told(*row)


async def keep_told(connection: AsyncConnection, drain_id: int, told: Told, now: datetime) -> None:
    """Remember what receivers were told of a drain, whose row is locked."""
    values = asdict(told) | {"told_at": now}
    done = await connection.execute(update(_told).where(_told.c.drain_id == drain_id).values(**values))
    if not done.rowcount:
        await connection.execute(insert(_told).values(drain_id=drain_id, **values))


async def count_alarmed(connection: AsyncConnection, deployment_id: int) -> Mapping[str, int]:
    """How many threads the alarms that stand are about, by code."""
    table = tables.alarm
    query = select(table.c.code, table.c.count).where(
        table.c.deployment_id == deployment_id, table.c.cleared_at.is_(None)
    )
    return {code: count or 0 for code, count in await connection.execute(query)}


# -- sending -------------------------------------------------------------------------------------------------------


async def add_delivery(connection: AsyncConnection, deployment_id: int | None, new: NewDelivery, now: datetime) -> None:
    """Put a message into the outbox, due at once."""
    values = asdict(new) | {"deployment_id": deployment_id, "created_at": now, "next_at": now, "state": "waiting"}
    await connection.execute(insert(_row).values(**values))


async def is_due(connection: AsyncConnection, webhook: str, now: datetime) -> bool:
    """Whether a message to a receiver is to be sent now."""
    return (await connection.execute(select(_row.c.id).where(_due(webhook, now)).limit(1))).first() is not None


async def claim(connection: AsyncConnection, webhook: str, *, now: datetime, lease: timedelta) -> Claimed | None:
    """The message to a receiver that has been due longest; for the time of the lease nobody else takes it. None: nothing is due,
    or another process was first."""
    query = select(_row).where(_due(webhook, now)).order_by(_row.c.next_at, _row.c.id).limit(1)
    found = (await connection.execute(query)).first()
    if found is None:
        return None
    same = and_(_row.c.id == found.id, _row.c.state == "waiting", _row.c.next_at == found.next_at)
    changes = {"attempts": found.attempts + 1, "next_at": now + lease}
    done = await connection.execute(update(_row).where(same).values(**changes))
    return Claimed(found.id, found.event, found.body, found.attempts + 1) if done.rowcount else None


async def settle(connection: AsyncConnection, claimed: Claimed, changes: Mapping[str, Any]) -> None:
    """Write what became of an attempt, unless another one was made meanwhile."""
    same = and_(_row.c.id == claimed.id, _row.c.attempts == claimed.attempts, _row.c.state == "waiting")
    await connection.execute(update(_row).where(same).values(**changes))


async def is_overtaken(connection: AsyncConnection, delivery_id: str) -> bool:
    """Whether a receiver was to be told later that what a message says of a drain is over, or is so again."""
    later = _row.alias()
    query = select(later.c.id).where(
        _row.c.id == delivery_id,
        _row.c.event == "drained",
        later.c.webhook == _row.c.webhook,
        later.c.deployment_id == _row.c.deployment_id,
        later.c.subject == _row.c.subject,
        later.c.event.in_(("drained", "withdrawn")),
        later.c.created_at > _row.c.created_at,
    )
    return (await connection.execute(query.limit(1))).first() is not None


async def revive(connection: AsyncConnection, delivery_id: str, now: datetime) -> bool:
    """Send a message again that was given up; False when it was not."""
    dead = and_(_row.c.id == delivery_id, _row.c.state == "dead")
    changes = {"state": "waiting", "attempts": 0, "next_at": now, "ended_at": None}
    return bool((await connection.execute(update(_row).where(dead).values(**changes))).rowcount)


async def has_ended(connection: AsyncConnection, *, before: datetime) -> bool:
    """Whether there is a message whose story ended before."""
    return (await connection.execute(select(_row.c.id).where(_row.c.ended_at < before).limit(1))).first() is not None


async def forget_ended(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete the messages whose story ended before; how many."""
    return (await connection.execute(delete(_row).where(_row.c.ended_at < before))).rowcount


# -- looking -------------------------------------------------------------------------------------------------------


async def find_delivery(connection: AsyncConnection, delivery_id: str) -> Delivery | None:
    """One message, or None."""
    found = (await connection.execute(_list().where(_row.c.id == delivery_id))).one_or_none()
    return None if found is None else _shown(found)


async def list_deliveries(
    connection: AsyncConnection,
    *,
    deployments: Sequence[str] | None,
    webhook: str | None = None,
    state: State | None = None,
    cursor: str | None = None,
    limit: int,
) -> tuple[tuple[Delivery, ...], str | None]:
    """Messages, newest first, and the cursor of the next page. ``deployments`` None: about all, and tests."""
    query = _list().where(_over(deployments))
    if webhook is not None:
        query = query.where(_row.c.webhook == webhook)
    if state is not None:
        query = query.where(_row.c.state == state)
    if cursor is not None:
        value, key = open_cursor(cursor, "deliveries")
        query = query.where(tuple_(_row.c.created_at, _row.c.id) < (cursor_time(value), key))
    rows = list(await connection.execute(query.order_by(_row.c.created_at.desc(), _row.c.id.desc()).limit(limit + 1)))
    found = tuple(_shown(row) for row in rows[:limit])
    last = found[-1] if len(rows) > limit else None
    return found, close_cursor("deliveries", last.created_at.isoformat(), last.id) if last else None


async def count_deliveries(
    connection: AsyncConnection, *, deployments: Sequence[str] | None
) -> Mapping[tuple[str, str], int]:
    """How many messages there are, by webhook and state."""
    query = (
        select(_row.c.webhook, _row.c.state, func.count().label("n")).select_from(_joined()).where(_over(deployments))
    )
    rows = await connection.execute(query.group_by(_row.c.webhook, _row.c.state))
    return {(row.webhook, row.state): row.n for row in rows}


async def find_oldest_waiting(
    connection: AsyncConnection, *, deployments: Sequence[str] | None
) -> Mapping[str, datetime]:
    """When the oldest message that waits was made, by webhook."""
    query = select(_row.c.webhook, func.min(_row.c.created_at, type_=tables.UtcDateTime()).label("at"))
    waits = and_(_row.c.state == "waiting", _over(deployments))
    rows = await connection.execute(query.select_from(_joined()).where(waits).group_by(_row.c.webhook))
    return {row.webhook: row.at for row in rows}


def _due(webhook: str, now: datetime) -> ColumnElement[bool]:
    return and_(_row.c.webhook == webhook, _row.c.state == "waiting", _row.c.next_at <= now)


def _joined() -> Any:
    return _row.outerjoin(tables.deployment, _row.c.deployment_id == tables.deployment.c.id)


def _list() -> Any:
    return select(_row, tables.deployment.c.name.label("deployment")).select_from(_joined())


def _over(deployments: Sequence[str] | None) -> ColumnElement[bool]:
    return true() if deployments is None else tables.deployment.c.name.in_(deployments)


def _shown(row: Any) -> Delivery:
    return Delivery(
        id=row.id,
        webhook=row.webhook,
        event=row.event,
        subject=row.subject,
        deployment=row.deployment,
        created_at=row.created_at,
        state=row.state,
        attempts=row.attempts,
        next_at=row.next_at if row.state == "waiting" else None,
        status=row.status,
        problem=row.problem,
        ended_at=row.ended_at,
    )
