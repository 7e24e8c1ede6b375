"""Threads by classes that look the same to the rules of a drain: counted, listed, found."""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass, fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, String, and_, case, cast, false, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.types import Condition, Departure, Status
from app.inventory import cube, tables
from app.inventory.cursors import close_cursor, cursor_time, open_cursor

_thread = tables.thread
_NOTHING = -1  # in place of null, which is equal to nothing
_CHUNK = 2000  # classes in one statement
_IDS = 500  # threads in one statement
MOST_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Lens:
    """What tells the threads of one drain apart beside what is stored of each.

    ``cutoff``: a running thread's reading is current after it. ``waived``: threads that a person took over.
    ``changed_before``: a thread whose state last changed before it is past the drain's retention. None: there is no such
    thing in this drain.
    """

    cutoff: datetime
    waived: ColumnElement[bool] | None = None
    changed_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """What makes threads look the same to the rules of a drain."""

    condition: str
    work_id: int
    shape_id: int | None
    state_shape_id: int | None
    revision_id: int | None
    is_current: bool
    routes_id: int | None
    is_waived: bool = False
    is_past_retention: bool = False


@dataclass(frozen=True, slots=True)
class SubjectCount:
    """How many threads look the same."""

    key: SubjectKey
    count: int


@dataclass(frozen=True, slots=True)
class SubjectThread:
    """One thread with its class."""

    thread_id: str
    key: SubjectKey
    status: str
    assistant_id: str | None
    created_at: datetime
    since: datetime


def _columns(lens: Lens) -> dict[str, ColumnElement[Any]]:
    """A column for each part of the key that differs between the threads of a drain."""
    current = and_(_is_said_current(), _thread.c.state_read_at >= lens.cutoff)
    found = _stored(_thread.c) | {"is_current": _as_number(current)}
    if lens.waived is not None:
        found["is_waived"] = _as_number(lens.waived)
    if lens.changed_before is not None:
        found["is_past_retention"] = _as_number(_is_past(lens.changed_before))
    return {part.name: found[part.name] for part in fields(SubjectKey) if part.name in found}


def _stored(of: Any) -> dict[str, ColumnElement[Any]]:
    """The parts of the key that do not depend on the drain or the time, of threads or of cells."""
    return {
        "condition": of.condition,
        "work_id": of.work_id,
        "shape_id": func.coalesce(_row_shape_id(of), _NOTHING),
        "state_shape_id": func.coalesce(of.state_shape_id, _NOTHING),
        "revision_id": func.coalesce(of.revision_id, _NOTHING),
        "routes_id": func.coalesce(of.routes_id, _NOTHING),
    }


def _is_said_current() -> ColumnElement[bool]:
    """Running threads whose runs write as they go: how current the reading is depends on when it was made."""
    return and_(_thread.c.condition == Condition.RUNNING.value, _thread.c.reading_is_current)


def _is_past(changed_before: datetime) -> ColumnElement[bool]:
    """A row that does not say when its state changed is never past a retention: an update may have moved the state and not the
    row. Only of idle threads does it matter."""
    idle = [Condition.SETTLED.value, Condition.PRESUMED_SETTLED.value]
    return and_(_thread.c.condition.in_(idle), _thread.c.state_updated_at < changed_before)


def _as_number(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return case((condition, 1), else_=0)


def changed_at() -> ColumnElement[datetime]:
    """When a thread's state last changed, as far as its row says."""
    return func.coalesce(_thread.c.changed_at, _thread.c.updated_at, type_=tables.UtcDateTime)


def _row_shape_id(of: Any) -> ColumnElement[int | None]:
    """The row's shape. A running thread's row has old values or none: there only the state counts, where it was read."""
    busy = and_(of.status == Status.BUSY.value, of.state_shape_id.is_not(None))
    return case((busy, None), else_=of.row_shape_id)


def _key(row: Any) -> SubjectKey:
    found = row._mapping

    def reference(name: str) -> int | None:
        value = found[name]
        return None if value == _NOTHING else int(value)

    return SubjectKey(
        condition=found["condition"],
        work_id=found["work_id"],
        shape_id=reference("shape_id"),
        state_shape_id=reference("state_shape_id"),
        revision_id=reference("revision_id"),
        is_current=bool(found["is_current"]),
        routes_id=reference("routes_id"),
        is_waived=bool(found.get("is_waived")),
        is_past_retention=bool(found.get("is_past_retention")),
    )


async def count_subjects(
    connection: AsyncConnection, deployment_id: int, where: ColumnElement[bool], *, lens: Lens
) -> list[SubjectCount]:
    """Threads by classes that look the same, from their rows: where the cube cannot tell them apart, or they are few."""
    columns = [column.label(name) for name, column in _columns(lens).items()]
    keyed = select(*columns).where(_thread.c.deployment_id == deployment_id, where).subquery("keyed")
    parts = [keyed.c[column.name] for column in columns]
    query = select(*parts, func.count().label("n")).group_by(*parts)
    return [SubjectCount(_key(row), row.n) for row in await connection.execute(query)]


async def count_population(
    connection: AsyncConnection,
    deployment_id: int,
    rows: ColumnElement[bool],
    in_cells: cube.Where | None,
    *,
    lens: Lens,
) -> dict[SubjectKey, Counter[str | None]]:
    """Threads by classes that look the same and by the assistant that ran them, from the cube. What it does not have (waivers,
    retention, how current the reading of a running thread is) is looked up for the threads that it can matter for.
    ``in_cells`` None: from the rows."""
    found: dict[SubjectKey, Counter[str | None]] = {}
    if in_cells is None:
        for key, assistant, n in await _count_rows(connection, deployment_id, rows, lens=lens):
            found.setdefault(key, Counter())[assistant] += n
        return found

    def columns(of: Any) -> list[ColumnElement[Any]]:
        return [of.reading_is_current, of.assistant_id, *_stored(of).values()]

    conditions = set()
    for is_current, assistant, *parts, n in await cube.count_by(connection, deployment_id, columns, in_cells):
        condition, work_id, *ids = parts
        shape, state_shape, revision, routes = (None if part == _NOTHING else part for part in ids)
        key = SubjectKey(condition, work_id, shape, state_shape, revision, is_current=False, routes_id=routes)
        found.setdefault(key, Counter())[assistant] += n
        conditions.add((condition, is_current))
    by_index = lens.changed_before is not None and await _are_few_past(connection, deployment_id, lens.changed_before)
    for where in _looked_up(lens, conditions, by_index=by_index):
        for key, assistant, n in await _count_rows(connection, deployment_id, and_(where, rows), lens=lens):
            found[_plain(key)][assistant] -= n
            found.setdefault(key, Counter())[assistant] += n
    kept = {key: Counter({name: n for name, n in by.items() if n}) for key, by in found.items()}
    return {key: by for key, by in kept.items() if by}


def _plain(key: SubjectKey) -> SubjectKey:
    """The class as the cube has it."""
    return replace(key, is_current=False, is_waived=False, is_past_retention=False)


async def _count_rows(
    connection: AsyncConnection, deployment_id: int, where: ColumnElement[bool], *, lens: Lens
) -> list[tuple[SubjectKey, str | None, int]]:
    columns = [column.label(name) for name, column in _columns(lens).items()]
    keyed = (
        select(*columns, _thread.c.assistant_id)
        .where(_thread.c.deployment_id == deployment_id, where)
        .subquery("keyed")
    )
    parts = [keyed.c[column.name] for column in columns]
    query = select(*parts, keyed.c.assistant_id, func.count().label("n")).group_by(*parts, keyed.c.assistant_id)
    return [(_key(row), row.assistant_id, row.n) for row in await connection.execute(query)]


async def _are_few_past(connection: AsyncConnection, deployment_id: int, changed_before: datetime) -> bool:
    """Whether so few threads can be past a retention, by the ages of the cube, that their rows are read one by one. Else all
    are gone through in the index of the classes, which has everything."""
    edges = [*(await cube.find_edges(connection, deployment_id) or {}).values()]
    ages = [age for age in range(cube.OLDEST + 1) if age >= len(edges) or edges[age] < changed_before]
    return await cube.count(connection, deployment_id, lambda of: of.age.in_(ages)) <= MOST_ROWS


def _looked_up(
    lens: Lens, conditions: Collection[tuple[str, bool]], *, by_index: bool
) -> Iterator[ColumnElement[bool]]:
    """Threads of which the cube does not have all of the key, each once. ``conditions``: which there are, and with a reading
    that is said to be current. ``by_index``: find what is past the retention by when it changed."""
    running = _is_said_current()
    if (Condition.RUNNING.value, True) in conditions:
        yield running
    if lens.waived is not None:
        yield and_(lens.waived, ~running)
    if lens.changed_before is not None:
        past = _is_past(lens.changed_before)
        if by_index:
            past = and_(past, _thread.c.changed_at < lens.changed_before)
        yield past if lens.waived is None else and_(past, ~lens.waived)


async def find_subject(
    connection: AsyncConnection, deployment_id: int, where: ColumnElement[bool], *, lens: Lens
) -> SubjectKey | None:
    """The class of one thread; None when there is none."""
    columns = [column.label(name) for name, column in _columns(lens).items()]
    query = select(*columns).where(_thread.c.deployment_id == deployment_id, where).limit(1)
    found = (await connection.execute(query)).one_or_none()
    return None if found is None else _key(found)


def looks_like(keys: Collection[SubjectKey], *, lens: Lens) -> ColumnElement[bool]:
    """Threads of these classes. Conditions and work are named once more by themselves, for the index that has them; within the
    classes they are hidden from it, since PostgreSQL would go through the index once for every class."""
    columns = _columns(lens)
    columns |= {name: func.coalesce(columns[name], columns[name]) for name in ("condition", "work_id")}
    wanted = [name.name in columns for name in fields(SubjectKey)]
    values = [
        tuple(_value(part) for part, is_wanted in zip(astuple(key), wanted, strict=True) if is_wanted) for key in keys
    ]
    classes = or_(*(tuple_(*columns.values()).in_(chunk) for chunk in _chunks(values)))
    condition = _thread.c.condition.in_(sorted({key.condition for key in keys}))
    return and_(condition, _thread.c.work_id.in_(sorted({key.work_id for key in keys})), classes)


def _value(part: Any) -> Any:
    if part is None:
        return _NOTHING
    return int(part) if isinstance(part, bool) else part


def _chunks(values: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    yield from (values[start : start + _CHUNK] for start in range(0, max(1, len(values)), _CHUNK))


async def list_subject_threads(
    connection: AsyncConnection,
    deployment_id: int,
    where: ColumnElement[bool],
    *,
    lens: Lens,
    cursor: str | None,
    limit: int,
    many: bool = False,
) -> tuple[list[SubjectThread], str | None]:
    """Threads with their classes, oldest last change first, and the cursor of the next page. ``many``: go through all threads
    in that order, which ends soon; else find those that are meant and sort them."""
    columns = [column.label(name) for name, column in _columns(lens).items()]
    since: ColumnElement[Any] = _thread.c.changed_at if many else changed_at()
    query = select(
        _thread.c.thread_id,
        _thread.c.status,
        _thread.c.assistant_id,
        _thread.c.created_at,
        since.label("since"),
        *columns,
    ).where(_thread.c.deployment_id == deployment_id, where)
    if cursor is not None:
        value, thread_id = open_cursor(cursor, "since")
        when = cursor_time(value)
        query = query.where(or_(since > when, and_(since == when, _thread.c.thread_id > thread_id)))
    query = query.order_by(since, _thread.c.thread_id).limit(limit + 1)
    async with cube.in_order(connection) if many else contextlib.nullcontext():
        rows = list(await connection.execute(query))
    items = [
        SubjectThread(row.thread_id, _key(row), row.status, row.assistant_id, row.created_at, row.since)
        for row in rows[:limit]
    ]
    more = len(rows) > limit
    return items, close_cursor("since", items[-1].since.isoformat(), items[-1].thread_id) if more else None


async def count_completed(
    connection: AsyncConnection, deployment_id: int, nodes: Collection[str], where: ColumnElement[bool], *, lens: Lens
) -> Counter[SubjectKey]:
    """Threads by class that were seen pending at one of these nodes, or below, and went on when it was done."""
    done = _completed(deployment_id, nodes).distinct().limit(MOST_ROWS + 1)
    ids = list((await connection.execute(done)).scalars()) if nodes else []
    chunks = [_thread.c.thread_id.in_(ids[start : start + _IDS]) for start in range(0, len(ids), _IDS)]
    found: Counter[SubjectKey] = Counter()
    for these in chunks if len(ids) <= MOST_ROWS else [has_completed(deployment_id, nodes)]:
        for one in await count_subjects(connection, deployment_id, and_(where, these), lens=lens):
            found[one.key] += one.count
    return found


async def count_by_metadata(
    connection: AsyncConnection, deployment_id: int, where: ColumnElement[bool], *, key: str, limit: int
) -> list[tuple[str | None, int]]:
    """Threads by the value of a metadata key, most first."""
    value = _thread.c.metadata[key].as_string().label("value")
    query = (
        select(value, func.count().label("n"))
        .where(_thread.c.deployment_id == deployment_id, where)
        .group_by(value)
        .order_by(func.count().desc(), value.is_not(None), value)
        .limit(limit)
    )
    return [(None if row.value is None else str(row.value), row.n) for row in await connection.execute(query)]


def of_assistant(assistant: str | None) -> ColumnElement[bool]:
    """Threads that this assistant ran; None: that none is known of."""
    return _thread.c.assistant_id.is_(None) if assistant is None else _thread.c.assistant_id == assistant


def of_metadata(key: str, value: str | None) -> ColumnElement[bool]:
    """Threads with this value of a metadata key, as ``count_by_metadata`` tells it; None: that lack it."""
    found = _thread.c.metadata[key].as_string()
    return found.is_(None) if value is None else cast(found, String) == value


def has_completed(deployment_id: int, nodes: Collection[str]) -> ColumnElement[bool]:
    """Threads that were seen pending at one of these nodes, or below, and went on when it was done."""
    return _thread.c.thread_id.in_(_completed(deployment_id, nodes))


def _completed(deployment_id: int, nodes: Collection[str]) -> Select[Any]:
    leaf = tables.observation
    return select(leaf.c.thread_id).where(
        leaf.c.deployment_id == deployment_id,
        _is_at(nodes),
        leaf.c.left_at.is_not(None),
        leaf.c.departure == Departure.COMPLETED.value,
    )


async def count_departed(
    connection: AsyncConnection, deployment_id: int, nodes: Collection[str], *, since: datetime
) -> int:
    """Threads that are known to have left one of these nodes since then, other than by being lost."""
    leaf = tables.observation
    query = select(func.count(func.distinct(leaf.c.thread_id))).where(
        leaf.c.deployment_id == deployment_id, leaf.c.left_at >= since, leaf.c.departure.in_(_KNOWN), _is_at(nodes)
    )
    return int(await connection.scalar(query) or 0)


_KNOWN = [found.value for found in Departure if found not in (Departure.LOST, Departure.UNEXPLAINED)]


def _is_at(nodes: Collection[str]) -> ColumnElement[bool]:
    node = tables.observation.c.node
    return or_(false(), *(or_(node == path, node.startswith(path + "/", autoescape=True)) for path in nodes))
