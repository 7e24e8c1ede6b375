"""The cube: how many threads there are of each kind, so that an overview costs what the kinds cost and not the threads.

Triggers of the schema keep it in the very transaction that writes a thread, whoever writes it; nobody calls anything. Who
writes threads beside a poll calls ``register.lock_places`` first: all writers of one deployment then queue there, and no two of
them can wait for each other's cells.

How old a thread is depends on when one asks. Its cell has its age at one moment, the same for all; the edges between the ages
of that moment are kept beside them (``thread_age``), each poll moves both on, and a question looks up the threads between the
edges of then and of now.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    SmallInteger,
    and_,
    case,
    cast,
    delete,
    false,
    func,
    literal,
    select,
    text,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.inventory import tables
from app.inventory.db import Database

AGES: Mapping[str, tuple[str, timedelta]] = {  # by the name of the edge behind them
    "hour": ("1h", timedelta(hours=1)),
    "day": ("1d", timedelta(days=1)),
    "week": ("7d", timedelta(days=7)),
    "month": ("30d", timedelta(days=30)),
    "quarter": ("90d", timedelta(days=90)),
}
AGE_NAMES = (*(name for name, _ in AGES.values()), "older")
OLDEST = len(AGES)

_cell, _thread, _age = tables.thread_cell, tables.thread, tables.thread_age
_TEXTS = ("graph_id", "head_graph_id", "assistant_id")
_IDS = ("row_shape_id", "state_shape_id", "revision_id", "routes_id")
_PLAIN = ("status", "condition", "work_id", "reading_is_current")
KEYS = tuple(str(column.name) for column in _cell.primary_key)  # SQLAlchemy's names are no plain text

Edges = Mapping[str, datetime]
Columns = Callable[[Any], list[ColumnElement[Any]]]
Where = Callable[[Any], ColumnElement[bool]]


def _as_threads() -> Any:
    """The cells under the names of the thread's columns, and null where a thread has null. ``state_read_at`` has no time in
    it: null where the state was not read."""
    return select(
        _cell.c.deployment_id,
        *(func.nullif(_cell.c[name], "").label(name) for name in _TEXTS),
        *(func.nullif(_cell.c[name], -1).label(name) for name in _IDS),
        *(_cell.c[name] for name in _PLAIN),
        case((_cell.c.is_read, 1)).label("state_read_at"),
        _cell.c.age,
        _cell.c.n,
    ).subquery("cells")


cells = _as_threads()


# -- counting ------------------------------------------------------------------------------------------------------


async def count(connection: AsyncConnection, deployment_id: int, where: Where) -> int:
    """How many threads there are by a condition that does not depend on their age."""
    query = select(func.sum(cells.c.n)).where(cells.c.deployment_id == deployment_id, where(cells.c))
    return int(await connection.scalar(query) or 0)


async def count_by(
    connection: AsyncConnection, deployment_id: int, columns: Columns, where: Where
) -> list[tuple[Any, ...]]:
    """Threads by some of their columns: the values, and how many as the last one."""
    parts = [column.label(f"part_{number}") for number, column in enumerate(columns(cells.c))]
    total = func.sum(cells.c.n)
    query = (
        select(*parts, total)
        .where(cells.c.deployment_id == deployment_id, where(cells.c))
        .group_by(*parts)
        .having(total != 0)
    )
    return [(*row[:-1], int(row[-1])) for row in (await connection.execute(query)).all()]


async def count_by_age(
    connection: AsyncConnection, deployment_id: int, columns: Columns, where: Where, *, now: datetime
) -> dict[tuple[Any, ...], int]:
    """Threads by some of their columns and by age now, which is an index of ``AGE_NAMES`` and comes last in the key."""
    found: dict[tuple[Any, ...], int] = {}
    for *key, n in await count_by(connection, deployment_id, lambda of: [*columns(of), of.age], where):
        found[tuple(key)] = n
    edges = await find_edges(connection, deployment_id)
    mine = and_(_of_thread(deployment_id), where(_thread.c))
    for *key, then, today, n in await _between(connection, mine, columns, edges, edges_at(now)):
        found[*key, then] = found.get((*key, then), 0) - n
        found[*key, today] = found.get((*key, today), 0) + n
    return {key: n for key, n in found.items() if n}


async def _between(
    connection: AsyncConnection, where: ColumnElement[bool], columns: Columns, before: Edges | None, after: Edges
) -> list[tuple[Any, ...]]:
    """Threads whose age differs between two moments: their columns, both ages, how many."""
    labels = [column.label(f"part_{number}") for number, column in enumerate(columns(_thread.c))]
    then, today = age_of(before).label("age_then"), age_of(after).label("age_now")
    changed = select(*labels, then, today).where(where)
    # One range at a time: SQLite goes through all threads for several that are joined by "or".
    rows = union_all(*(changed.where(one) for one in _windows(before, after))).subquery("moved")
    parts = [rows.c[label.name] for label in labels]
    query = (
        select(*parts, rows.c.age_then, rows.c.age_now, func.count())
        .where(rows.c.age_then != rows.c.age_now)
        .group_by(*parts, rows.c.age_then, rows.c.age_now)
    )
    return [tuple(row) for row in (await connection.execute(query)).all()]


@asynccontextmanager
async def in_order(connection: AsyncConnection) -> AsyncIterator[None]:
    """Within it, PostgreSQL takes rows in the order of an index where there is one. It takes a question about many classes for one
    that finds next to nothing, and would rather find all and sort them."""
    if connection.dialect.name == "sqlite":
        yield
        return
    await connection.execute(text("SET LOCAL enable_sort = off"))
    yield
    await connection.execute(text("SET LOCAL enable_sort = on"))


def _of_thread(deployment_id: int) -> ColumnElement[bool]:
    return _thread.c.deployment_id == deployment_id


def _windows(before: Edges | None, after: Edges) -> list[ColumnElement[bool]]:
    """The times between the edges of two moments, each moment once."""
    changed = _thread.c.changed_at
    if before is None:
        return [changed > min(after.values())]
    found: list[tuple[datetime, datetime]] = []
    for start, end in sorted((min(before[name], after[name]), max(before[name], after[name])) for name in AGES):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return [and_(changed > start, changed <= end) for start, end in found]


def age_of(edges: Edges | None) -> ColumnElement[int]:
    """A thread's age at the moment of these edges, as an index of ``AGE_NAMES``."""
    if edges is None:
        return cast(literal(OLDEST), SmallInteger)
    cases = [(_thread.c.changed_at > edges[name], number) for number, name in enumerate(AGES)]
    return cast(case(*cases, else_=OLDEST), SmallInteger)


def edges_at(now: datetime) -> Edges:
    """The edges between the ages at a moment."""
    return {name: now - length for name, (_, length) in AGES.items()}


async def find_edges(connection: AsyncConnection, deployment_id: int, *, lock: bool = False) -> Edges | None:
    """The edges at the moment whose ages the cells have, in order; None before the first poll."""
    query = select(_age).where(_age.c.deployment_id == deployment_id)
    row = (await connection.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if row is None else {name: row._mapping[name] for name in AGES}


# -- keeping -------------------------------------------------------------------------------------------------------


async def move_ages(connection: AsyncConnection, deployment_id: int, now: datetime) -> None:
    """Bring the ages of the cells to this moment, and drop cells without threads. At the beginning of a transaction, before
    any thread is written in it."""
    after = edges_at(now)
    before = await find_edges(connection, deployment_id, lock=True)
    moved = await _between(connection, _of_thread(deployment_id), _key_of_thread, before, after)
    changes: dict[tuple[Any, ...], int] = {}
    for *key, then, today, n in moved:
        changes[*key, then] = changes.get((*key, then), 0) - n
        changes[*key, today] = changes.get((*key, today), 0) + n
    await _add(connection, changes)
    insert = _insert(connection, _age).values(deployment_id=deployment_id, **after)
    await connection.execute(insert.on_conflict_do_update(index_elements=["deployment_id"], set_=dict(after)))
    await connection.execute(delete(_cell).where(_cell.c.deployment_id == deployment_id, _cell.c.n == 0))


def _key_of_thread(of: Any) -> list[ColumnElement[Any]]:
    """What makes a thread's cell, but for its age, in the order of ``KEYS``."""
    found: dict[str, ColumnElement[Any]] = {name: of[name] for name in _PLAIN}
    found |= {name: func.coalesce(of[name], "") for name in _TEXTS}
    found |= {name: func.coalesce(of[name], -1) for name in _IDS}
    found |= {
        "deployment_id": of.deployment_id,
        "is_read": case((of.state_read_at.is_not(None), true()), else_=false()),
    }
    return [found[name] for name in KEYS if name != "age"]


async def _add(connection: AsyncConnection, changes: Mapping[tuple[Any, ...], int]) -> None:
    rows = [dict(zip(KEYS, key, strict=True)) | {"n": n} for key, n in sorted(changes.items()) if n]
    if not rows:
        return
    statement = _insert(connection, _cell)
    more = {"n": _cell.c.n + statement.excluded.n}
    await connection.execute(statement.on_conflict_do_update(index_elements=list(KEYS), set_=more), rows)


def _insert(connection: AsyncConnection, table: Any) -> Any:
    return (sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert)(table)


# -- checking ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell that does not say what the rows say. ``cell`` has names, ids and words, never a value."""

    deployment: str
    cell: Mapping[str, object]
    kept: int
    counted: int


async def find_differences(connection: AsyncConnection, deployment_id: int, name: str) -> list[Difference]:
    """Count the threads of a deployment anew and compare."""
    kept = await _kept(connection, deployment_id)
    counted = await _counted(connection, deployment_id)
    return [
        Difference(name, dict(zip(KEYS, key, strict=True)), kept.get(key, 0), counted.get(key, 0))
        for key in sorted({*kept, *counted})
        if kept.get(key, 0) != counted.get(key, 0)
    ]


async def rebuild(connection: AsyncConnection, deployment_id: int) -> None:
    """Make the cells of a deployment anew from its threads."""
    table = tables.deployment
    await connection.execute(select(table.c.id).where(table.c.id == deployment_id).with_for_update(key_share=True))
    await find_edges(connection, deployment_id, lock=True)
    await connection.execute(delete(_cell).where(_cell.c.deployment_id == deployment_id))
    await _add(connection, await _counted(connection, deployment_id))


async def _kept(connection: AsyncConnection, deployment_id: int) -> dict[tuple[Any, ...], int]:
    query = select(*(_cell.c[name] for name in KEYS), _cell.c.n).where(_cell.c.deployment_id == deployment_id)
    return {tuple(key): n for *key, n in (await connection.execute(query)).all()}


async def _counted(connection: AsyncConnection, deployment_id: int) -> dict[tuple[Any, ...], int]:
    edges = await find_edges(connection, deployment_id)
    names = [name for name in KEYS if name != "age"]
    labels = [column.label(name) for name, column in zip(names, _key_of_thread(_thread.c), strict=True)]
    rows = select(*labels, age_of(edges).label("age")).where(_thread.c.deployment_id == deployment_id).subquery("rows")
    parts = [rows.c[name] for name in KEYS]
    query = select(*parts, func.count()).group_by(*parts)
    return {tuple(key): n for *key, n in (await connection.execute(query)).all()}


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of all counts found. ``differences`` are those from before a repair."""

    threads: int
    differences: tuple[Difference, ...]
    is_repaired: bool = False


async def check_counts(database: Database, *, repair: bool = False) -> Checked:
    """Count the threads of every deployment anew and compare; with ``repair`` make what differs anew."""
    threads, found = 0, []
    async with database.read() as connection:
        table = tables.deployment
        known = (await connection.execute(select(table.c.id, table.c.name).order_by(table.c.name))).all()
        for row in known:
            threads += sum((await _counted(connection, row.id)).values())
            found += await find_differences(connection, row.id, row.name)
    if repair and found:
        async with database.write() as connection:
            for row in known:
                await rebuild(connection, row.id)
    return Checked(threads, tuple(found), is_repaired=repair and bool(found))
