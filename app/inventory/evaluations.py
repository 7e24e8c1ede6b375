"""Stored answers of drains: which one held at a time, and what changed before and after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from app.inventory import tables

_stored = tables.evaluation


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One stored answer; ``answer`` is the JSON that the API gave then, maybe of an older version."""

    number: int
    at: datetime
    verdict: str
    criteria_version: int
    answer: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """A stored answer, and those beside it. It held until ``until``; None: it is the newest."""

    stored: StoredAnswer
    until: datetime | None
    earlier: int | None
    later: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """What a drain said at one of the times that were asked for: its dispositions, threads by each."""

    drain_id: int
    at: datetime
    dispositions: Mapping[str, int]


async def list_answers(
    connection: AsyncConnection, drain_id: int, *, before: int | None, limit: int
) -> tuple[tuple[StoredAnswer, ...], int | None]:
    """Stored answers, newest first, and the number that the next page begins before; None: the end."""
    query = _of(drain_id).order_by(_stored.c.id.desc()).limit(limit + 1)
    rows = list(await connection.execute(query if before is None else query.where(_stored.c.id < before)))
    return tuple(_answer(row) for row in rows[:limit]), rows[limit - 1].id if len(rows) > limit else None


async def find_answer(
    connection: AsyncConnection, drain_id: int, *, at: datetime | None = None, number: int | None = None
) -> HeldAnswer | None:
    """The answer of that number, or the one that held at that time; None when there was none yet."""
    query = _of(drain_id).order_by(_stored.c.id.desc()).limit(1)
    if number is not None:
        query = query.where(_stored.c.id == number)
    if at is not None:
        query = query.where(_stored.c.evaluated_at <= at)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    later = (
        await connection.execute(_of(drain_id).where(_stored.c.id > row.id).order_by(_stored.c.id).limit(1))
    ).one_or_none()
    earlier = await connection.scalar(
        select(func.max(_stored.c.id)).where(_stored.c.drain_id == drain_id, _stored.c.id < row.id)
    )
    return HeldAnswer(_answer(row), later.evaluated_at if later else None, earlier, later.id if later else None)


async def list_samples(
    connection: AsyncConnection, drain_ids: Sequence[int], times: Sequence[datetime]
) -> tuple[Sample, ...]:
    """What each drain said at each of these times, by time; nothing for times before its first answer. One short look along
    the index for each, however many answers are stored."""
    found: list[Sample] = []
    for drain_id in drain_ids:
        parts = [_held(drain_id, place, at) for place, at in enumerate(times)]
        rows = await connection.execute(union_all(*parts))
        found += [Sample(drain_id, times[row.place], row.dispositions) for row in rows]
    return tuple(sorted(found, key=lambda sample: sample.at))


def _held(drain_id: int, place: int, at: datetime) -> Select[Any]:
    newest = (
        select(_stored.c.id)
        .where(_stored.c.drain_id == drain_id, _stored.c.evaluated_at <= at)
        .order_by(_stored.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(literal(place).label("place"), _stored.c.answer["dispositions"].label("dispositions")).where(
        _stored.c.id == newest
    )


def _of(drain_id: int) -> Select[Any]:
    return select(_stored).where(_stored.c.drain_id == drain_id)


def _answer(row: Any) -> StoredAnswer:
    return StoredAnswer(row.id, row.evaluated_at, row.verdict, row.criteria_version, row.answer)
