"""Short writes. Every one may run twice; none makes a request."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, case, delete, false, func, insert, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import CLOCKS_DIFFER
from app.facts.types import Condition, Departure, Leaf, Shape, ThreadFacts
from app.inventory import cube, tables
from app.inventory.db import on_rollback
from app.inventory.encode import (
    Json,
    detail_to_json,
    digest,
    routes_to_json,
    shape_from_json,
    shape_to_json,
    work_of,
    work_to_json,
)

RULES = 2
"""Which rules what is remembered was proved by. Raise it with a rule that a drained verdict of before might not pass: see ``proofs``."""

CURRENT = frozenset({"sync", "async"})
MOST_MET = 10_000


@dataclass
class Dictionaries:
    """The dictionary entries of one deployment, as far as this process has met them."""

    deployment_id: int
    shapes: dict[int, Shape] = field(default_factory=dict)
    works: dict[int, Json] = field(default_factory=dict)
    routes: dict[int, Json] = field(default_factory=dict)
    _ids: dict[tuple[str, str], int] = field(default_factory=dict)
    _met: dict[Hashable, tuple[Shape | None, int]] = field(default_factory=dict)  # by what costs less than a digest
    _loaded: dict[str, int] = field(default_factory=dict)  # the newest id up to which all are here, by table

    async def load(self, connection: AsyncConnection) -> None:
        """Read the entries that are not here yet."""
        await self._load(connection, tables.shape, self.shapes, shape_from_json)
        await self._load(connection, tables.work, self.works, lambda raw: raw)
        await self._load(connection, tables.routes, self.routes, lambda raw: raw)

    async def shape_id(self, connection: AsyncConnection, shape: Shape | None) -> int | None:
        """The id of a shape, made when it is new."""
        if shape is None:
            return None
        if (met := self._met.get(id(shape))) is not None:
            return met[1]
        found = await self._id(connection, tables.shape, shape_to_json(shape))
        self.shapes.setdefault(found, shape)
        self._meet(id(shape), shape, found)
        return found

    async def work_id(self, connection: AsyncConnection, facts: ThreadFacts) -> int:
        """The id of what is pending on a thread."""
        leaves, half = work_of(facts)
        if (met := self._met.get((leaves, half))) is not None:
            return met[1]
        content = work_to_json(facts)
        found = await self._id(connection, tables.work, content)
        self.works.setdefault(found, content)
        self._meet((leaves, half), None, found)
        return found

    async def routes_id(self, connection: AsyncConnection, facts: ThreadFacts) -> int | None:
        """The id of what storage tells of a thread's routes."""
        if facts.storage is None:
            return None
        content = routes_to_json(facts.storage)
        found = await self._id(connection, tables.routes, content)
        self.routes.setdefault(found, content)
        return found

    def _meet(self, key: Hashable, shape: Shape | None, found: int) -> None:
        """Remember an entry. A shape is held, so that no other object gets its ``id``."""
        if len(self._met) >= MOST_MET:
            self._met.clear()
        self._met[key] = (shape, found)

    async def _load(
        self, connection: AsyncConnection, table: Table, into: dict[int, Any], parse: Callable[[Json], Any]
    ) -> None:
        newest = self._loaded.get(table.name, 0)
        query = select(table.c.id, table.c.digest, table.c.content).where(
            table.c.deployment_id == self.deployment_id, table.c.id > newest
        )
        for row in await connection.execute(query):
            into[row.id] = parse(row.content)
            self._ids[table.name, row.digest] = row.id
            self._loaded[table.name] = max(newest, row.id, self._loaded.get(table.name, 0))

    async def _id(self, connection: AsyncConnection, table: Table, content: Json) -> int:
        """Look up or make an entry. The poll's lock keeps two writers of one deployment apart."""
        key = digest(content)
        if (found := self._ids.get((table.name, key))) is not None:
            return found
        mine = table.c.deployment_id == self.deployment_id
        known = await connection.scalar(select(table.c.id).where(mine, table.c.digest == key))
        if known is None:
            known = 1 + (await connection.scalar(select(func.coalesce(func.max(table.c.id), 0)).where(mine)) or 0)
            await connection.execute(
                insert(table).values(deployment_id=self.deployment_id, id=known, digest=key, content=content)
            )
            on_rollback(connection, partial(self._unmake, table.name, key, int(known)))
        self._ids[table.name, key] = known
        return int(known)

    def _unmake(self, table: str, key: str, made: int) -> None:
        """An entry that was rolled back: another process may give its id to another one."""
        entries: dict[str, dict[int, Any]] = {"shape": self.shapes, "work": self.works, "routes": self.routes}
        self._ids.pop((table, key), None)
        entries[table].pop(made, None)
        self._loaded[table] = min(self._loaded.get(table, 0), made - 1)
        self._met.clear()


def _insert(connection: AsyncConnection, table: Table) -> Any:
    return (sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert)(table)


async def ensure_deployment(connection: AsyncConnection, name: str, now: datetime) -> int:
    """The id of a deployment, made when it is new."""
    table = tables.deployment
    values = {"name": name, "created_at": now, "capabilities": {}, "assistants": {}, "rules": RULES}
    statement = _insert(connection, table).values(**values)
    await connection.execute(statement.on_conflict_do_nothing(index_elements=["name"]))
    found = await connection.scalar(select(table.c.id).where(table.c.name == name))
    return int(found or 0)


async def update_deployment(connection: AsyncConnection, deployment_id: int, **values: Any) -> None:
    """Change facts about a deployment."""
    await connection.execute(update(tables.deployment).where(tables.deployment.c.id == deployment_id).values(**values))


async def sweep_done(connection: AsyncConnection, deployment_id: int, *, started_at: datetime) -> None:
    """A complete sweep answers whatever wanted one before it began."""
    table = tables.deployment
    await connection.execute(
        update(table)
        .where(table.c.id == deployment_id, table.c.sweep_wanted_at <= started_at)
        .values(sweep_wanted_at=None)
    )


# -- the lock of a deployment's poll -------------------------------------------------------------------------------


async def take_lock(
    connection: AsyncConnection,
    deployment_id: int,
    *,
    holder: str,
    now: datetime,
    lease: timedelta,
    left: Collection[str] = (),
) -> datetime | None:
    """Take or renew the lock; the time until which it is ours, or None when another holder has it. ``left``: holders that ended
    and could not give it back. A lock for longer than anybody takes one was taken by a clock that went wrong."""
    table = tables.deployment
    until = now + lease
    over = or_(table.c.lock_until < now, table.c.lock_until > until + CLOCKS_DIFFER)
    free = or_(table.c.lock_holder.is_(None), over, table.c.lock_holder.in_([holder, *left]))
    done = await connection.execute(
        update(table).where(table.c.id == deployment_id, free).values(lock_holder=holder, lock_until=until)
    )
    return until if done.rowcount else None


async def release_lock(connection: AsyncConnection, deployment_id: int, *, holder: str) -> None:
    """Give the lock back, if it is still ours."""
    table = tables.deployment
    await connection.execute(
        update(table)
        .where(table.c.id == deployment_id, table.c.lock_holder == holder)
        .values(lock_holder=None, lock_until=None)
    )


# -- polls ---------------------------------------------------------------------------------------------------------


async def begin_poll(
    connection: AsyncConnection,
    deployment_id: int,
    *,
    kind: str,
    now: datetime,
    trusted_until: datetime | None = None,
) -> int:
    """A new poll that runs. Polls that a dead process left running are closed as failed, and what they read since
    ``trusted_until`` is not trusted."""
    table = tables.poll
    await cube.move_ages(connection, deployment_id, now)
    await _put_back(connection, deployment_id, now)
    is_dead = and_(table.c.deployment_id == deployment_id, table.c.state == "running")
    if (began := await connection.scalar(select(func.min(table.c.started_at)).where(is_dead))) is not None:
        await distrust_readings(connection, deployment_id, since=max(began, trusted_until or began))
    await connection.execute(
        update(table)
        .where(is_dead)
        .values(state="failed", finished_at=now, reasons=[["interrupted", "The process that polled was stopped."]])
    )
    done = await connection.execute(
        insert(table).values(deployment_id=deployment_id, kind=kind, state="running", started_at=now, reasons=[])
    )
    return int((done.inserted_primary_key or (0,))[0])


async def _put_back(connection: AsyncConnection, deployment_id: int, now: datetime) -> None:
    """Deploys that were noticed later than now: a clock was put back, so that they are older than whatever follows."""
    graph, deploy = tables.graph_revision, tables.deploy
    for time in (graph.c.first_seen_at, graph.c.vanished_at, deploy.c.noticed_at):
        later = and_(time.table.c.deployment_id == deployment_id, time > now)
        await connection.execute(update(time.table).where(later).values({time: now}))


async def update_poll(connection: AsyncConnection, poll_id: int, **values: Any) -> None:
    """Progress or outcome of a poll."""
    await connection.execute(update(tables.poll).where(tables.poll.c.id == poll_id).values(**values))


# -- threads -------------------------------------------------------------------------------------------------------


async def upsert_threads(
    connection: AsyncConnection,
    dictionaries: Dictionaries,
    threads: Sequence[ThreadFacts],
    *,
    poll_id: int,
    listed: bool = True,
) -> None:
    """Write threads as they are known now. Without ``listed`` they were read by id, which does not show that a list has them."""
    if not threads:
        return
    last = {facts.row.thread_id: facts for facts in threads}  # one statement cannot write a row twice
    values = [await _thread_values(connection, dictionaries, facts, poll_id) for facts in last.values()]
    statement = _insert(connection, tables.thread)
    keys = ("deployment_id", "thread_id")
    written = (column.name for column in tables.thread.columns if column.computed is None)
    kept = keys if listed else (*keys, "seen_poll_id")
    changes = {name: statement.excluded[name] for name in written if name not in kept}
    changes["gone_poll_id"] = _gone_poll_id(statement.excluded)
    statement = statement.on_conflict_do_update(index_elements=list(keys), set_=changes)
    await _execute_many(connection, statement, tables.thread.c.thread_id, values)
    await _keep_observations(connection, dictionaries.deployment_id, threads, poll_id)


def _gone_poll_id(new: Any) -> ColumnElement[int | None]:
    """The poll that found a thread gone, also where what is known of it is written again."""
    table = tables.thread
    return case((table.c.gone_at == new.gone_at, table.c.gone_poll_id), else_=new.gone_poll_id)


async def _execute_many(connection: AsyncConnection, statement: Any, told: Any, rows: list[Any]) -> None:
    """Insert rows. PostgreSQL takes many in one statement only where something is returned, and counts what changed once for each
    statement; SQLite is quicker row by row."""
    await connection.execute(statement if connection.dialect.name == "sqlite" else statement.returning(told), rows)


async def _keep_observations(
    connection: AsyncConnection, deployment_id: int, threads: Sequence[ThreadFacts], poll_id: int
) -> None:
    """The timeline of leaves: when each was first seen pending, and when and how it left. One that is pending again (a
    node that was put back) is open again."""
    table = tables.observation
    arrived = [
        _observation(deployment_id, facts, leaf, poll_id)
        for facts in threads
        if facts.state is not None and facts.state_read_at is not None
        for leaf in facts.state.leaves
    ]
    if arrived:
        again = {"left_at": None, "left_poll_id": None, "departure": None, "ended_at": None}
        keys = ["deployment_id", "thread_id", "task_id", "checkpoint_id"]
        first = {tuple(one[key] for key in keys): one for one in reversed(arrived)}
        statement = _insert(connection, table).on_conflict_do_update(index_elements=keys, set_=again)
        await _execute_many(connection, statement, table.c.id, list(reversed(first.values())))
    for facts in threads:
        for departed in facts.departed:
            await connection.execute(
                update(table)
                .where(
                    table.c.deployment_id == deployment_id,
                    table.c.thread_id == facts.row.thread_id,
                    table.c.task_id == (departed.leaf.task_id or ""),
                    table.c.checkpoint_id == (departed.leaf.checkpoint_id or ""),
                    table.c.left_at.is_(None),
                )
                .values(
                    left_at=facts.seen_at,
                    left_poll_id=poll_id,
                    departure=departed.departure.value,
                    ended_at=departed.ended_at,
                )
            )


def _observation(deployment_id: int, facts: ThreadFacts, leaf: Leaf, poll_id: int) -> Json:
    return {
        "deployment_id": deployment_id,
        "thread_id": facts.row.thread_id,
        "node": leaf.node,
        "ns": leaf.ns,
        "task_id": leaf.task_id or "",
        "checkpoint_id": leaf.checkpoint_id or "",
        "arrived_at": facts.state_read_at,
        "arrived_poll_id": poll_id,
    }


async def _thread_values(
    connection: AsyncConnection, dictionaries: Dictionaries, facts: ThreadFacts, poll_id: int
) -> dict[str, Any]:
    row, state = facts.row, facts.state
    return {
        "deployment_id": dictionaries.deployment_id,
        "thread_id": row.thread_id,
        "status": row.status.value,
        "condition": facts.condition.value,
        "stuck": facts.stuck,
        "graph_id": row.graph_id,
        "head_graph_id": state.graph_id if state else facts.head_graph,
        "was_waiting": facts.condition is Condition.GONE and bool(facts.leaves),
        "assistant_id": row.assistant_id,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "state_updated_at": row.state_updated_at,
        "row_shape_id": await dictionaries.shape_id(connection, row.shape),
        "state_shape_id": await dictionaries.shape_id(connection, state.shape if state else None),
        "work_id": await dictionaries.work_id(connection, facts),
        "routes_id": await dictionaries.routes_id(connection, facts),
        "revision_id": facts.revision_id,
        "seen_at": facts.seen_at,
        "seen_poll_id": poll_id,
        "state_read_at": facts.state_read_at,
        "reading_is_current": _reading_is_current(facts),
        "gone_at": facts.gone_at,
        "gone_poll_id": None if facts.gone_at is None else poll_id,
        "config": row.config,
        "metadata": dict(row.metadata),
        "detail": detail_to_json(facts),
    }


async def rejudge_thread(connection: AsyncConnection, dictionaries: Dictionaries, facts: ThreadFacts) -> None:
    """Write what a thread's leaves mean now; when it was seen and read stays."""
    table = tables.thread
    await connection.execute(
        update(table)
        .where(table.c.deployment_id == dictionaries.deployment_id, table.c.thread_id == facts.row.thread_id)
        .values(
            condition=facts.condition.value,
            work_id=await dictionaries.work_id(connection, facts),
            detail=detail_to_json(facts),
        )
    )


def _reading_is_current(facts: ThreadFacts) -> bool:
    """Whether the state of a running thread is where it really is: every running run writes as it goes."""
    if facts.state is None or facts.runs is None:
        return False
    return all(run.durability in CURRENT for run in facts.runs if run.status == "running")


async def mark_seen(
    connection: AsyncConnection, deployment_id: int, thread_ids: Sequence[str], *, poll_id: int | None, now: datetime
) -> None:
    """Threads that a poll listed and that did not move; ``poll_id`` None: they were read by id, and not listed."""
    table = tables.thread
    values = {"seen_at": now} if poll_id is None else {"seen_at": now, "seen_poll_id": poll_id}
    for start in range(0, len(thread_ids), 500):
        some = thread_ids[start : start + 500]
        await connection.execute(
            update(table).where(table.c.deployment_id == deployment_id, table.c.thread_id.in_(some)).values(**values)
        )


async def mark_gone(
    connection: AsyncConnection, deployment_id: int, thread_ids: Sequence[str], *, poll_id: int, now: datetime
) -> None:
    """Threads that the server says do not exist. What was known of them stays, and whether they were waiting."""
    table = tables.thread
    rested = [Condition.SETTLED.value, Condition.PRESUMED_SETTLED.value, Condition.NEVER_RAN.value]
    waited = case(
        (table.c.condition == Condition.GONE.value, table.c.was_waiting),
        (table.c.condition.in_(rested), false()),
        else_=true(),
    )
    for start in range(0, len(thread_ids), 500):
        await connection.execute(
            update(table)
            .where(table.c.deployment_id == deployment_id, table.c.thread_id.in_(thread_ids[start : start + 500]))
            .values(condition=Condition.GONE.value, gone_at=now, gone_poll_id=poll_id, stuck=False, was_waiting=waited)
        )
        leaves = tables.observation
        await connection.execute(
            update(leaves)
            .where(
                leaves.c.deployment_id == deployment_id,
                leaves.c.thread_id.in_(thread_ids[start : start + 500]),
                leaves.c.left_at.is_(None),
            )
            .values(left_at=now, left_poll_id=poll_id, departure=Departure.DELETED.value)
        )


async def distrust_readings(connection: AsyncConnection, deployment_id: int, *, since: datetime) -> None:
    """The graph changed while states were read: under which revision they were read since is not known."""
    table = tables.thread
    await connection.execute(
        update(table)
        .where(table.c.deployment_id == deployment_id, table.c.state_read_at >= since)
        .values(revision_id=None)
    )


async def distrust_older_readings(connection: AsyncConnection, deployment_id: int, where: ColumnElement[bool]) -> None:
    """What was read of these threads may have changed since, and no row would tell: it counts under no revision, and what
    the row had of fields counts no more."""
    table = tables.thread
    those = and_(table.c.deployment_id == deployment_id, where)
    never = and_(those, table.c.condition == Condition.NEVER_RAN.value)
    await connection.execute(update(table).where(never).values(condition=Condition.UNREAD.value))
    await connection.execute(update(table).where(those).values(revision_id=None, row_shape_id=None))


# -- alarms --------------------------------------------------------------------------------------------------------


async def keep_alarms(
    connection: AsyncConnection,
    deployment_id: int,
    found: Mapping[str, tuple[str, int | None]],
    *,
    clear: Collection[str],
    now: datetime,
) -> None:
    """Raise or refresh alarms (``{code: (sentence, count)}``); those of ``clear`` that were not found end. An acknowledgement
    is of what was seen until then: what is found again may be something else."""
    table = tables.alarm
    open_alarms = and_(table.c.deployment_id == deployment_id, table.c.cleared_at.is_(None))
    for code, (sentence, count) in found.items():
        done = await connection.execute(
            update(table)
            .where(open_alarms, table.c.code == code)
            .values(sentence=sentence, count=count, last_seen_at=now, acknowledged_at=None)
        )
        if not done.rowcount:
            await connection.execute(
                insert(table).values(
                    deployment_id=deployment_id,
                    code=code,
                    sentence=sentence,
                    count=count,
                    first_seen_at=now,
                    last_seen_at=now,
                )
            )
    ended = [code for code in clear if code not in found]
    await connection.execute(update(table).where(open_alarms, table.c.code.in_(ended)).values(cleared_at=now))


# -- drains --------------------------------------------------------------------------------------------------------


async def upsert_drain(connection: AsyncConnection, values: Mapping[str, Any]) -> None:
    """Write a drain by its name."""
    statement = _insert(connection, tables.drain).values(**values)
    changes = {key: value for key, value in values.items() if key not in ("name", "created_at")}
    await connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=changes))


async def update_drain(connection: AsyncConnection, drain_id: int, **values: Any) -> None:
    """Change what is remembered of a drain."""
    await connection.execute(update(tables.drain).where(tables.drain.c.id == drain_id).values(**values))


async def keep_arrivals(connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> int:
    """Store threads that were first seen at a target now; how many were new."""
    new = 0
    for row in rows:
        statement = _insert(connection, tables.arrival).values(**row).on_conflict_do_nothing()
        # Not by the count of rows: PostgreSQL answers -1 where the key is returned, and a leak would go unnoticed.
        new += len((await connection.execute(statement.returning(tables.arrival.c.thread_id))).all())
    return new


async def forget_arrivals(connection: AsyncConnection, drain_id: int) -> None:
    """The drain's criteria changed: its arrivals were about something else."""
    await connection.execute(delete(tables.arrival).where(tables.arrival.c.drain_id == drain_id))


async def add_evaluation(connection: AsyncConnection, values: Mapping[str, Any]) -> None:
    """Store an answer, so that it can be explained later."""
    await connection.execute(insert(tables.evaluation).values(**values))
