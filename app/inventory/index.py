"""The application's own list of threads: remember it, and compare it with the threads that were seen, both ways."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, case, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.index import IndexEntry
from app.inventory import tables
from app.inventory.traces import upsert
from app.inventory.views import Comparison, IndexLine

MISSING, HIDDEN, OTHER_FORM, NO_ID = "missing", "hidden", "other_form", "no_id"
HOLDS = timedelta(minutes=5)
MOST_KEPT = 200
_entry, _thread = tables.index_thread, tables.thread
Population = tuple[str, datetime | None]  # a graph, and before when its threads were created


# -- writes ----------------------------------------------------------------------------------------------------------


async def keep_entries(
    connection: AsyncConnection, deployment_id: int, entries: Sequence[IndexEntry], *, reading: int, is_list: bool
) -> int:
    """Entries by id; how many of them were there twice. What the server said of an id stays with it.

    ``is_list``: they are part of one list, in which of two with one id the open one counts, since it may need something.
    Otherwise the newer one does.
    """
    rows: dict[str, IndexEntry] = {}
    twice = 0
    for entry in entries:
        before = rows.get(entry.thread_id)
        twice += before is not None
        if before is None or before.closed_at is not None or not is_list:
            rows[entry.thread_id] = entry
    if not rows:
        return twice
    if is_list:
        twice += await _drop_open(connection, deployment_id, rows, reading=reading)
    values = [
        {
            "deployment_id": deployment_id,
            "thread_id": entry.thread_id,
            "graph_id": entry.graph_id,
            "created_at": entry.created_at,
            "closed_at": entry.closed_at,
            "state_version": entry.state_version,
            "state": entry.state,
            "reading": reading,
        }
        for entry in rows.values()
    ]
    if not values:
        return twice
    query = upsert(connection, _entry, keys=("deployment_id", "thread_id", "checked_at", "found"), index=_KEY)
    await connection.execute(query, values)
    return twice


_KEY = ("deployment_id", "thread_id")


async def _drop_open(
    connection: AsyncConnection, deployment_id: int, rows: dict[str, IndexEntry], *, reading: int
) -> int:
    """Ids that an earlier batch of the same reading had; those that it had open are taken out of ``rows``."""
    query = select(_entry.c.thread_id, _entry.c.closed_at, _entry.c.reading).where(
        _entry.c.deployment_id == deployment_id,
        _entry.c.thread_id.in_(list(rows)),  # by its key: SQLite would go through all that the reading has so far
    )
    found = [row for row in (await connection.execute(query)).all() if row.reading == reading]
    for row in found:
        if row.closed_at is None:
            del rows[row.thread_id]
    return len(found)


async def set_source(connection: AsyncConnection, deployment_id: int, **values: Any) -> None:
    """How the last reading went."""
    row = dict.fromkeys((column.name for column in tables.index_source.columns), None)
    query = upsert(connection, tables.index_source, keys=("deployment_id",))
    await connection.execute(query, [row | values | {"deployment_id": deployment_id}])


async def forget_older(connection: AsyncConnection, deployment_id: int, *, reading: int) -> None:
    """Entries that a whole reading did not see any more."""
    is_older = and_(_entry.c.deployment_id == deployment_id, _entry.c.reading < reading)
    await connection.execute(delete(_entry).where(is_older))


async def forget(connection: AsyncConnection, deployment_id: int) -> None:
    """The whole list, as if it had never been there."""
    for table in (_entry, tables.index_source):
        await connection.execute(delete(table).where(table.c.deployment_id == deployment_id))


async def set_found(
    connection: AsyncConnection, deployment_id: int, found: Mapping[str, str], *, now: datetime
) -> None:
    """What the server said of ids."""
    for thread_id, word in found.items():
        where = and_(_entry.c.deployment_id == deployment_id, _entry.c.thread_id == thread_id)
        await connection.execute(update(_entry).where(where).values(found=word, checked_at=now))


# -- reads -----------------------------------------------------------------------------------------------------------


async def find_source(connection: AsyncConnection, deployment_id: int) -> Any | None:
    """How the last reading went; None before the first."""
    table = tables.index_source
    return (await connection.execute(select(table).where(table.c.deployment_id == deployment_id))).one_or_none()


async def count_entries(connection: AsyncConnection, deployment_id: int, *, reading: int | None = None) -> int:
    """Listed ids; of one reading only, where it is given."""
    where = [_entry.c.deployment_id == deployment_id]
    if reading is not None:
        where.append(_entry.c.reading == reading)
    return int(await connection.scalar(select(func.count()).where(*where)) or 0)


async def count_listed(connection: AsyncConnection, deployment_id: int, ids: Collection[str], *, reading: int) -> int:
    """How many of these ids a reading has listed."""
    where = (_entry.c.deployment_id == deployment_id, _entry.c.thread_id.in_(ids), _entry.c.reading == reading)
    return int(await connection.scalar(select(func.count()).select_from(_entry).where(*where)) or 0)


def of_population(graph: str, created_before: datetime | None) -> ColumnElement[bool]:
    """Listed ids that a drain is about. What the list does not say counts."""
    found = or_(_entry.c.graph_id.is_(None), _entry.c.graph_id == graph)
    if created_before is None:
        return found
    return and_(found, or_(_entry.c.created_at.is_(None), _entry.c.created_at < created_before))


def _seen() -> ColumnElement[bool]:
    return exists().where(_thread.c.deployment_id == _entry.c.deployment_id, _thread.c.thread_id == _entry.c.thread_id)


def _verdict(expired_before: datetime) -> ColumnElement[str]:
    """What one listed id is, in a word: ``IndexLine`` has them."""
    is_expired = and_(_entry.c.found == MISSING, _entry.c.created_at < expired_before)
    return case(
        (_seen(), "seen"),
        (_entry.c.closed_at.is_not(None), "closed"),
        (is_expired, "expired"),
        (_entry.c.found == MISSING, "unknown"),
        (_entry.c.found.is_not(None), _entry.c.found),
        else_="unchecked",
    )


async def compare(
    connection: AsyncConnection, deployment_id: int, where: ColumnElement[bool] | None, *, expired_before: datetime
) -> Comparison:
    """How many listed ids are what, and how many of them are closed."""
    is_mine = [_entry.c.deployment_id == deployment_id, *([] if where is None else [where])]
    word = _verdict(expired_before).label("word")
    closed = func.count(_entry.c.closed_at)
    rows = (await connection.execute(select(word, func.count(), closed).where(*is_mine).group_by(word))).all()
    return Comparison({row[0]: row[1] for row in rows}, sum(row[2] for row in rows))


@dataclass
class Comparisons:
    """Comparisons of one deployment, which take seconds for a million ids, kept until something may change them for the
    worse: another list, or another answer of the server. What gets better, a thread that is seen or an id that expires, shows
    with the next poll, or after ``HOLDS``.
    """

    deployment_id: int
    _known: dict[Any, tuple[Any, datetime, Comparison]] = field(default_factory=dict)

    async def of(
        self, connection: AsyncConnection, population: Population | None, *, expired_before: datetime, now: datetime
    ) -> Comparison:
        """The listed ids of a population, or all of them."""
        mark = await self._mark(connection)
        key, where = population, None if population is None else of_population(*population)
        if (known := self._known.get(key)) is not None:
            marked, made_at, found = known
            is_same = marked == mark if found.unresolved else marked[:-1] == mark[:-1]
            if is_same and abs(now - made_at) < HOLDS:
                return found
        found = await compare(connection, self.deployment_id, where, expired_before=expired_before)
        self._known = {key: (mark, now, found), **dict(list(self._known.items())[:MOST_KEPT])}
        return found

    async def _mark(self, connection: AsyncConnection) -> tuple[Any, ...]:
        """What changes with the list, with what the server said of its ids, and last with each poll."""
        source = await find_source(connection, self.deployment_id)
        asked = func.max(_entry.c.checked_at, type_=tables.UtcDateTime)
        checked = await connection.scalar(select(asked).where(_entry.c.deployment_id == self.deployment_id))
        polled = func.max(tables.poll.c.id)
        poll = await connection.scalar(select(polled).where(tables.poll.c.deployment_id == self.deployment_id))
        return None if source is None else tuple(source), checked, poll


async def count_states(connection: AsyncConnection, deployment_id: int, *, limit: int) -> dict[str, int]:
    """How often the application uses each of its own words, the most used first."""
    count = func.count().label("count")
    query = select(_entry.c.state, count).where(_entry.c.deployment_id == deployment_id, _entry.c.state.is_not(None))
    rows = (
        await connection.execute(query.group_by(_entry.c.state).order_by(count.desc(), _entry.c.state).limit(limit))
    ).all()
    return {row[0]: row[1] for row in rows}


async def count_only_on_server(connection: AsyncConnection, deployment_id: int) -> int:
    """Living threads that the list does not have."""
    listed = exists().where(
        _entry.c.deployment_id == _thread.c.deployment_id, _entry.c.thread_id == _thread.c.thread_id
    )
    where = and_(_thread.c.deployment_id == deployment_id, _thread.c.gone_at.is_(None), ~listed)
    return int(await connection.scalar(select(func.count()).select_from(_thread).where(where)) or 0)


async def list_unresolved(
    connection: AsyncConnection, deployment_id: int, *, checked_before: datetime, limit: int
) -> list[str]:
    """Open ids that nobody has seen and that the server was not asked for lately, those never asked for first."""
    query = (
        select(_entry.c.thread_id)
        .where(
            _entry.c.deployment_id == deployment_id,
            _entry.c.closed_at.is_(None),
            ~_seen(),
            or_(_entry.c.checked_at.is_(None), _entry.c.checked_at < checked_before),
        )
        .order_by(_entry.c.checked_at.is_not(None), _entry.c.checked_at, _entry.c.thread_id)
        .limit(limit)
    )
    return list((await connection.scalars(query)).all())


async def list_only_in_index(
    connection: AsyncConnection, deployment_id: int, *, expired_before: datetime, limit: int
) -> tuple[IndexLine, ...]:
    """Listed ids that nobody has seen and that are not settled, with why."""
    word = _verdict(expired_before)
    query = (
        select(_entry.c.thread_id, word, _entry.c.graph_id, _entry.c.created_at, _entry.c.state)
        .where(_entry.c.deployment_id == deployment_id, word.not_in(("seen", "closed", "expired")))
        .order_by(_entry.c.thread_id)
        .limit(limit)
    )
    return tuple(IndexLine(*row) for row in (await connection.execute(query)).all())


async def list_known(connection: AsyncConnection, deployment_id: int, ids: Collection[str]) -> set[str]:
    """Which of these are threads that were seen."""
    query = select(_thread.c.thread_id).where(_thread.c.deployment_id == deployment_id, _thread.c.thread_id.in_(ids))
    return set((await connection.scalars(query)).all())


async def find_entry(connection: AsyncConnection, deployment_id: int, thread_id: str) -> Any | None:
    """One listed id; None where the list does not have it."""
    where = and_(_entry.c.deployment_id == deployment_id, _entry.c.thread_id == thread_id)
    return (await connection.execute(select(_entry).where(where))).one_or_none()
