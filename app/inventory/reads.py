"""Questions to the inventory, each named by what it asks. Ordered by a unique key, paged by key."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, false, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequest
from app.facts.candidates import drawn_hash
from app.facts.privacy import Names, is_hashed
from app.facts.types import Condition, Presence, Reading, Shape, Status, ThreadFacts, VersionReading
from app.inventory import cube, tables
from app.inventory.cursors import close_cursor, cursor_time, open_cursor
from app.inventory.encode import Json, pending_nodes, thread_from_row
from app.inventory.tables import NEVER
from app.inventory.topologies import Pushed, list_pushed
from app.inventory.views import (
    Alarm,
    Explained,
    Inventory,
    Observation,
    PollReason,
    PollSummary,
    RevisionSummary,
    ThreadItem,
    ThreadPage,
)
from app.inventory.writes import Dictionaries

Filters = Mapping[str, tuple[str, ...]]
FACETS = ("status", "condition", "pending", "state_version", "fields", "graph", "age")
NONE = "none"
MAX_LIMIT = 500
MOST_SORTED = 20_000
_SORTS = {
    "-updated_at": (tables.thread.c.updated_at, True),
    "created_at": (tables.thread.c.created_at, False),
    "thread_id": (tables.thread.c.thread_id, False),
}

_thread = tables.thread


# -- deployments, polls, revisions, alarms -------------------------------------------------------------------------


async def find_deployment(connection: AsyncConnection, name: str) -> Any | None:
    """The row of a deployment, or None."""
    return (await connection.execute(select(tables.deployment).where(tables.deployment.c.name == name))).one_or_none()


async def find_poll(connection: AsyncConnection, deployment_id: int, poll_id: int) -> PollSummary | None:
    """One poll of a deployment, or None."""
    query = _polls(deployment_id).where(tables.poll.c.id == poll_id)
    found = (await connection.execute(query)).one_or_none()
    return None if found is None else _poll(found)


async def find_latest_poll(
    connection: AsyncConnection, deployment_id: int, *, kinds: Sequence[str], states: Sequence[str]
) -> PollSummary | None:
    """The newest poll of these kinds and states, or None."""
    query = _polls(deployment_id).where(tables.poll.c.kind.in_(kinds), tables.poll.c.state.in_(states)).limit(1)
    found = (await connection.execute(query)).one_or_none()
    return None if found is None else _poll(found)


async def find_newest_polls(connection: AsyncConnection, deployment_id: int) -> dict[tuple[str, str], PollSummary]:
    """The newest poll of each kind and state, in one question."""
    table = tables.poll
    newest = [
        select(func.max(table.c.id))
        .where(table.c.deployment_id == deployment_id, table.c.kind == kind, table.c.state == state)
        .scalar_subquery()
        for kind in ("sweep", "scan")
        for state in ("complete", "incomplete", "failed", "running")
    ]
    rows = await connection.execute(select(table).where(table.c.id.in_(newest)))
    return {(row.kind, row.state): _poll(row) for row in rows}


async def find_complete_before(connection: AsyncConnection, deployment_id: int, poll_id: int) -> PollSummary | None:
    """The newest complete poll before another, or None."""
    query = _polls(deployment_id).where(tables.poll.c.id < poll_id, tables.poll.c.state == "complete").limit(1)
    found = (await connection.execute(query)).one_or_none()
    return None if found is None else _poll(found)


async def list_polls(connection: AsyncConnection, deployment_id: int, *, limit: int) -> tuple[PollSummary, ...]:
    """The newest polls, newest first."""
    return tuple(_poll(row) for row in await connection.execute(_polls(deployment_id).limit(limit)))


def _polls(deployment_id: int) -> Select[Any]:
    return select(tables.poll).where(tables.poll.c.deployment_id == deployment_id).order_by(tables.poll.c.id.desc())


def _poll(row: Any) -> PollSummary:
    return PollSummary(
        id=row.id,
        kind=row.kind,
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
        threads_seen=row.threads_seen,
        threads_expected=row.threads_expected,
        states_read=row.states_read,
        states_wanted=row.states_wanted,
        requests=row.requests,
        reasons=tuple(PollReason(code, sentence) for code, sentence in row.reasons),
    )


async def list_revisions(connection: AsyncConnection, deployment_id: int) -> tuple[RevisionSummary, ...]:
    """Every graph revision that was ever seen, newest first."""
    table = tables.graph_revision
    query = select(table).where(table.c.deployment_id == deployment_id).order_by(table.c.id.desc())
    pushed = await list_pushed(connection, deployment_id)
    return tuple(_revision(row, pushed) for row in await connection.execute(query))


def _revision(row: Any, pushed: Mapping[tuple[str, str], Pushed]) -> RevisionSummary:
    """Joins and deferred nodes are the topology's where one was pushed that draws the same: a drawing shows a join as several
    edges, and one that waits for a single node as any other. A reporter tells them itself, whatever is pushed beside."""
    found = row.topology
    said = pushed.get((row.graph_id, drawn_hash(found["nodes"], found["edges"]))) if pushed else None
    is_told = said is None or not row.assistant_id
    joins = {*(found["joins"] if is_told else ()), *(said.joins if said else ())}
    return RevisionSummary(
        id=row.id,
        graph=row.graph_id,
        assistant_id=row.assistant_id,
        hash=row.hash,
        xray_hash=row.xray_hash,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
        vanished_at=row.vanished_at,
        nodes=tuple(row.topology["nodes"]),
        joins=tuple(sorted(joins)),
        deferred=tuple(sorted({*found["deferred"], *(said.candidate.deferred if said else ())})),
        fields=tuple(row.topology["fields"]),
        edges=tuple((source, target, bool(conditional)) for source, target, conditional in row.topology["edges"]),
        variant=row.variant,
        topology_pushed_at=said.pushed_at if said else None,
    )


async def list_declared_fields(connection: AsyncConnection, deployment_id: int) -> set[str]:
    """Every state field that a graph revision or a drain of the deployment has ever named."""
    revisions = select(tables.graph_revision.c.topology).where(tables.graph_revision.c.deployment_id == deployment_id)
    drains = select(tables.drain.c.spec).where(tables.drain.c.deployment_id == deployment_id)
    found: set[str] = set()
    for topology in (await connection.execute(revisions)).scalars():
        found.update(topology["fields"])
    for spec in (await connection.execute(drains)).scalars():
        for target in spec["targets"]:
            if target["kind"] != "node":
                found.update(name for name in (target["name"], target["new"]) if name)
    return found


async def list_alarms(connection: AsyncConnection, deployment_id: int, deployment: str) -> tuple[Alarm, ...]:
    """The alarms that stand, newest first."""
    table = tables.alarm
    query = (
        select(table)
        .where(table.c.deployment_id == deployment_id, table.c.cleared_at.is_(None))
        .order_by(table.c.id.desc())
    )
    met = tables.deploy_thread
    removed = await connection.scalar(select(func.max(met.c.deploy_id)).where(met.c.deployment_id == deployment_id))
    return tuple(
        Alarm(
            id=row.id,
            deployment=deployment,
            code=row.code,
            sentence=row.sentence,
            count=row._mapping["count"],
            first_seen_at=row.first_seen_at,
            last_seen_at=row.last_seen_at,
            threads=_alarm_threads(deployment, row.code, removed),
            acknowledged_at=row.acknowledged_at,
        )
        for row in await connection.execute(query)
    )


def _alarm_threads(deployment: str, code: str, removed: int | None) -> str | None:
    """``removed``: the last deploy that removed a node where threads waited."""
    if code in ("removed_while_waiting", "deploy_broke") and removed is not None:
        return f"/api/v1/deployments/{deployment}/deploys/{removed}"
    shown = {"stranded", "lost", "unplaced", "unreadable", "graph_missing"}
    return f"/api/v1/deployments/{deployment}/threads?condition={code}" if code in shown else None


# -- threads for a poll --------------------------------------------------------------------------------------------


async def known_threads(
    connection: AsyncConnection, dictionaries: Dictionaries, thread_ids: Sequence[str]
) -> dict[str, ThreadFacts]:
    """What is remembered of these threads."""
    await dictionaries.load(connection)
    found = {}
    for start in range(0, len(thread_ids), 500):
        query = select(_thread).where(
            _thread.c.deployment_id == dictionaries.deployment_id,
            _thread.c.thread_id.in_(thread_ids[start : start + 500]),
        )
        for row in (await connection.execute(query)).mappings():
            found[row["thread_id"]] = thread_from_row(dict(row), dictionaries.shapes, dictionaries.routes)
    return found


async def list_unseen(
    connection: AsyncConnection, deployment_id: int, *, before_poll: int, after: str, limit: int
) -> list[str]:
    """Ids of threads that are remembered and that no poll since ``before_poll`` has listed, in order of id."""
    query = (
        select(_thread.c.thread_id)
        .where(
            _thread.c.deployment_id == deployment_id,
            _thread.c.seen_poll_id < before_poll,
            _thread.c.condition != Condition.GONE.value,
            _thread.c.thread_id > after,
        )
        .order_by(_thread.c.thread_id)
        .limit(limit)
    )
    return list((await connection.execute(query)).scalars())


async def list_oldest_readings(
    connection: AsyncConnection, deployment_id: int, *, where: ColumnElement[bool], limit: int
) -> list[str]:
    """Ids of threads by any condition, the longest not read first."""
    query = (
        select(_thread.c.thread_id)
        .where(_thread.c.deployment_id == deployment_id, where)
        .order_by(_thread.c.state_read_at, _thread.c.thread_id)
        .limit(limit)
    )
    return list((await connection.execute(query)).scalars())


async def list_ids(
    connection: AsyncConnection, deployment_id: int, *, where: ColumnElement[bool], after: str, limit: int
) -> list[str]:
    """Ids of threads by any condition, in order of id."""
    query = (
        select(_thread.c.thread_id)
        .where(_thread.c.deployment_id == deployment_id, where, _thread.c.thread_id > after)
        .order_by(_thread.c.thread_id)
        .limit(limit)
    )
    return list((await connection.execute(query)).scalars())


async def count_threads(connection: AsyncConnection, deployment_id: int, where: ColumnElement[bool]) -> int:
    """How many threads there are by any condition."""
    query = select(func.count()).select_from(_thread).where(_thread.c.deployment_id == deployment_id, where)
    return int(await connection.scalar(query) or 0)


def was_never_told() -> ColumnElement[bool]:
    """Threads of a reported deployment that are listed, and of which nothing was ever told: not what they have, nor since
    when they are there, so every population counts them."""
    return _thread.c.updated_at == NEVER


def is_alive(of: Any = _thread.c) -> ColumnElement[bool]:
    """Threads, or cells of them, that are not tombstones."""
    found: ColumnElement[bool] = of.condition != Condition.GONE.value
    return found


def is_idle() -> ColumnElement[bool]:
    """Threads whose row says that they are idle."""
    return _thread.c.status == Status.IDLE.value


def was_not_settled(of: Any = _thread.c) -> ColumnElement[bool]:
    """Threads that had something pending, failed, or could not be read when last seen."""
    found: ColumnElement[bool] = of.condition.not_in(
        [Condition.SETTLED.value, Condition.PRESUMED_SETTLED.value, Condition.NEVER_RAN.value, Condition.GONE.value]
    )
    return found


def is_of_graph(graph: str, of: Any = _thread.c) -> ColumnElement[bool]:
    """Threads that ran under a graph, by row or by head, and threads without a graph."""
    nowhere = and_(of.graph_id.is_(None), of.head_graph_id.is_(None))
    return or_(of.graph_id == graph, of.head_graph_id == graph, nowhere)


def has_graph(of: Any = _thread.c) -> ColumnElement[bool]:
    """Threads that name a graph, by row or by head."""
    return or_(of.graph_id.is_not(None), of.head_graph_id.is_not(None))


def may_belong(
    graph: str, *, metadata: Mapping[str, str], created_before: datetime | None, of: Any = _thread.c
) -> ColumnElement[bool]:
    """Threads that last ran under another graph and whose head nobody has read, or can read since that graph is not
    deployed: their work may be this graph's, since a run under another graph can "succeed", write nothing, and leave the
    work where it was. The head that is remembered is the one before the thread moved."""
    conditions = [Condition.PRESUMED_SETTLED.value, Condition.UNREAD.value, Condition.GRAPH_MISSING.value]
    moved_on = and_(of.state_read_at.is_(None), of.condition != Condition.GRAPH_MISSING.value)
    is_known = and_(of.head_graph_id.is_not(None), or_(of.head_graph_id == graph, ~moved_on))
    unread = and_(of.condition.in_(conditions), ~is_known)
    return and_(unread, of.graph_id != graph, *_selected(metadata, created_before))


def is_unverified_idle(revision_ids: Iterable[int]) -> ColumnElement[bool]:
    """Idle threads whose head was not read since they moved, or not under one of these revisions."""
    ids = list(revision_ids)
    elsewhere = or_(_thread.c.revision_id.is_(None), _thread.c.revision_id.not_in(ids))
    presumed = _thread.c.condition == Condition.PRESUMED_SETTLED.value
    return or_(presumed, and_(_thread.c.condition == Condition.SETTLED.value, elsewhere))


def has_not_arrived(drain_id: int, target: str | None = None) -> ColumnElement[bool]:
    """Threads that were not recorded as having entered a target of the drain, or this one."""
    table = tables.arrival
    here = and_(
        table.c.deployment_id == _thread.c.deployment_id,
        table.c.drain_id == drain_id,
        table.c.thread_id == _thread.c.thread_id,
    )
    if target is not None:
        here = and_(here, table.c.target == target)
    return ~select(table.c.thread_id).where(here).exists()


def vanished_since(poll: PollSummary, explained: Explained | None) -> ColumnElement[bool]:
    """Tombstones of threads that were not settled when last seen, made by this poll or later, and after what somebody has
    explained. Polls are counted and clocks go back: a time counts only where the poll was not kept."""
    found = [
        _thread.c.condition == Condition.GONE.value,
        _thread.c.was_waiting,
        _is_found_gone(poll.id, poll.started_at),
    ]
    if explained is not None:
        following = None if explained.poll_id is None else explained.poll_id + 1
        found.append(_is_found_gone(following, explained.at))
    return and_(*found)


def _is_found_gone(first_poll: int | None, since: datetime) -> ColumnElement[bool]:
    by_time = _thread.c.gone_at >= since
    if first_poll is None:
        return by_time
    return or_(_thread.c.gone_poll_id >= first_poll, and_(_thread.c.gone_poll_id.is_(None), by_time))


def has_mute_row() -> ColumnElement[bool]:
    """Threads whose row does not say when their state changed: one that did not move proves nothing."""
    return _thread.c.state_updated_at.is_(None)


def is_read_before(when: datetime) -> ColumnElement[bool]:
    """Threads that are there and whose state was last read before then."""
    return and_(_thread.c.condition != Condition.GONE.value, _thread.c.state_read_at < when)


def is_not_read_since(when: datetime) -> ColumnElement[bool]:
    """Threads whose state was not read since then, nor since they moved."""
    return or_(_thread.c.state_read_at.is_(None), _thread.c.state_read_at < when)


def is_settled_before(when: datetime) -> ColumnElement[bool]:
    """Settled threads whose head was last read before then."""
    return and_(_thread.c.condition == Condition.SETTLED.value, _thread.c.state_read_at < when)


# -- how leaves came and left ---------------------------------------------------------------------------------------


async def list_observations(
    connection: AsyncConnection, deployment_id: int, thread_id: str, *, limit: int
) -> tuple[Observation, ...]:
    """The timeline of one thread's leaves, newest first."""
    table = tables.observation
    query = (
        select(table)
        .where(table.c.deployment_id == deployment_id, table.c.thread_id == thread_id)
        .order_by(table.c.id.desc())
        .limit(limit)
    )
    return tuple(_observation(row) for row in await connection.execute(query))


def _observation(row: Any) -> Observation:
    return Observation(
        thread_id=row.thread_id,
        node=row.node,
        ns=row.ns,
        checkpoint_id=row.checkpoint_id,
        arrived_at=row.arrived_at,
        left_at=row.left_at,
        departure=row.departure,
    )


# -- drains --------------------------------------------------------------------------------------------------------


def in_population(graph: str, *, metadata: Mapping[str, str], created_before: datetime | None) -> ColumnElement[bool]:
    """The threads that a drain is about."""
    return and_(is_of_graph(graph), *_selected(metadata, created_before))


def is_told_by_cells(metadata: Mapping[str, str], created_before: datetime | None) -> bool:
    """Whether the cube can tell the threads of a population apart: it has neither metadata nor when a thread was made."""
    return not metadata and created_before is None


def _selected(metadata: Mapping[str, str], created_before: datetime | None) -> list[ColumnElement[bool]]:
    parts: list[ColumnElement[bool]] = [
        or_(_thread.c.metadata[key].as_string() == value, was_never_told()) for key, value in metadata.items()
    ]
    if created_before is not None:
        parts.append(_thread.c.created_at < created_before)
    return parts


def _shape_id(of: Any = _thread.c) -> ColumnElement[int | None]:
    """The row's shape, or the state's where the row has no values; of a running thread the state's first."""
    busy = and_(of.status == Status.BUSY.value, of.state_shape_id.is_not(None))
    return case((busy, of.state_shape_id), else_=func.coalesce(of.row_shape_id, of.state_shape_id))


async def list_drains(connection: AsyncConnection) -> list[Any]:
    """Every drain, by name."""
    return list(await connection.execute(select(tables.drain).order_by(tables.drain.c.name)))


async def lock_drains(connection: AsyncConnection, deployment_id: int) -> list[Any]:
    """The drains of a deployment, by name, which nobody else changes until the transaction ends."""
    query = select(tables.drain).where(tables.drain.c.deployment_id == deployment_id).order_by(tables.drain.c.name)
    return list(await connection.execute(query.with_for_update()))


async def find_drain(connection: AsyncConnection, name: str) -> Any | None:
    """The row of a drain, or None."""
    return (await connection.execute(select(tables.drain).where(tables.drain.c.name == name))).one_or_none()


async def count_leaks(
    connection: AsyncConnection, drain_id: int, *, closed_at: datetime, since: datetime | None
) -> int:
    """Threads created after intake closed that were seen to enter a target (since then, if given)."""
    table = tables.arrival
    query = select(func.count(func.distinct(table.c.thread_id))).where(
        table.c.drain_id == drain_id, table.c.created_at > closed_at
    )
    if since is not None:
        query = query.where(table.c.seen_at >= since)
    return int(await connection.scalar(query) or 0)


async def list_evaluations(
    connection: AsyncConnection, drain_id: int, *, limit: int, before: int | None = None
) -> list[Any]:
    """The stored answers of a drain, newest first; those before an id when that is given."""
    table = tables.evaluation
    query = select(table).where(table.c.drain_id == drain_id).order_by(table.c.id.desc()).limit(limit)
    return list(await connection.execute(query if before is None else query.where(table.c.id < before)))


async def list_evaluations_between(
    connection: AsyncConnection, drain_id: int, *, since: datetime, until: datetime
) -> list[Any]:
    """The stored answers of a drain in a time, oldest first, with the one that held when it began."""
    table = tables.evaluation
    of_drain = select(table).where(table.c.drain_id == drain_id)
    before = of_drain.where(table.c.evaluated_at < since).order_by(table.c.id.desc()).limit(1)
    within = of_drain.where(table.c.evaluated_at >= since, table.c.evaluated_at <= until).order_by(table.c.id)
    return [*await connection.execute(before), *await connection.execute(within)]


async def list_looks(
    connection: AsyncConnection, deployment_id: int, *, since: datetime, until: datetime
) -> list[datetime]:
    """When the complete polls of a time began, oldest first."""
    table = tables.poll
    query = (
        select(table.c.started_at)
        .where(table.c.deployment_id == deployment_id, table.c.state == "complete")
        .where(table.c.started_at >= since, table.c.started_at <= until)
        .order_by(table.c.id)
    )
    return list((await connection.execute(query)).scalars())


# -- inventory -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InventoryScope:
    """What a question about the inventory needs to know of its deployment."""

    deployment_id: int
    deployment: str
    dictionaries: Dictionaries
    names: Names
    version_key: str
    fields: tuple[str, ...]


_CLOSED: Mapping[str, tuple[str, ...]] = {
    "status": tuple(Status),
    "condition": tuple(Condition),
    "age": cube.AGE_NAMES,
}


def _is_a_version(value: str) -> bool:
    is_number = value.isascii() and value.isdigit() and len(value) <= 4 and str(int(value)) == value
    return is_number or value in (Reading.MISSING, Reading.MALFORMED, Reading.UNKNOWN)


def check_filters(filters: Filters) -> None:
    """Refuse a filter that is no facet, and a value that no thread can have: it would count none, and look like an answer."""
    for key, values in filters.items():
        if key not in FACETS:
            raise BadRequest(f"There is no filter {key[:40]!r}. Filters are: {', '.join(FACETS)}.")
        if (known := _CLOSED.get(key)) and (odd := next((value for value in values if value not in known), None)):
            raise BadRequest(f"There is no {key} {odd[:40]!r}. There are: {', '.join(known)}.")
        for value in values:
            if "\x00" in value:
                raise BadRequest(f"A filter {key} may not hold the character NUL.")
            if key == "state_version" and not _is_a_version(value):
                raise BadRequest(
                    "Write a state_version filter as a number from 0 to 9999, missing, malformed or unknown."
                )
            if key == "fields" and value.rpartition(":")[2] not in (*Presence, "unknown"):
                raise BadRequest(
                    "Write a fields filter as name:presence, with absent, null, empty, present or unknown."
                )


async def get_inventory(
    connection: AsyncConnection, scope: InventoryScope, filters: Filters, *, now: datetime
) -> Inventory:
    """Counts by every facet of the threads that the filters let through."""
    check_filters(filters)
    await scope.dictionaries.load(connection)
    counts: dict[str, Counter[str]] = {name: Counter() for name in FACETS if name != "fields"}
    shapes: Counter[int | None] = Counter()
    total = 0
    for (status, condition, work, shape, graph, head_graph, age), n in await list_classes(
        connection, scope, filters, now
    ):
        counts["condition"][condition] += n
        if condition == Condition.GONE.value and "condition" not in filters:
            continue
        total += n
        counts["status"][status] += n
        counts["age"][cube.AGE_NAMES[age]] += n
        for node in pending_nodes(scope.dictionaries.works[work]):
            counts["pending"][node] += n
        for name in {graph, head_graph} - {None} or {NONE}:
            counts["graph"][name] += n
        shapes[shape] += n
    for shape_id, n in shapes.items():
        counts["state_version"][_version(scope, shape_id)] += n
    for name in ("missing", "malformed", "unknown"):
        counts["state_version"].setdefault(name, 0)
    newest = await find_latest_poll(
        connection, scope.deployment_id, kinds=("sweep", "scan"), states=("complete", "incomplete")
    )
    facets: dict[str, Any] = {name: dict(sorted(found.items())) for name, found in counts.items()}
    facets["age"] = {age: counts["age"].get(age, 0) for age in cube.AGE_NAMES}
    return Inventory(
        deployment=scope.deployment,
        as_of=newest.started_at if newest else None,
        poll=newest.id if newest else None,
        complete=newest is not None and newest.state == "complete",
        total=total,
        filters=dict(filters),
        facets={**facets, "fields": _fields(scope, shapes, total)},
    )


async def list_classes(
    connection: AsyncConnection, scope: InventoryScope, filters: Filters, now: datetime
) -> list[tuple[tuple[Any, ...], int]]:
    """Threads that the filters let through, by what the facets need of each. Tombstones too, where no condition is asked
    for: they count only as such."""
    asked = filters if "condition" in filters else {**filters, "condition": tuple(Condition)}

    def columns(of: Any) -> list[ColumnElement[Any]]:
        return [of.status, of.condition, of.work_id, _shape_id(of), of.graph_id, of.head_graph_id]

    found = await cube.count_by_age(
        connection, scope.deployment_id, columns, lambda of: _where(scope, asked, of), now=now
    )
    ages = filters.get("age", cube.AGE_NAMES)
    return [(key, n) for key, n in found.items() if cube.AGE_NAMES[key[-1]] in ages]


def _fields(scope: InventoryScope, shapes: Mapping[int | None, int], total: int) -> dict[str, dict[str, int]]:
    """Presence of every field with a name in clear. The buckets of each add up to ``total``."""
    counts = {name: Counter[str]() for name in scope.fields}
    for shape_id, n in shapes.items():
        shape = scope.dictionaries.shapes.get(shape_id) if shape_id is not None else None
        present = scope.names.in_clear(shape.fields) if shape else {}
        for name in present:
            if not is_hashed(name):
                counts.setdefault(name, Counter())
        for name, found in present.items():
            if not is_hashed(name):
                counts[name][found.presence.value] += n
    unknown = shapes.get(None, 0)
    buckets = {}
    for name, by_presence in sorted(counts.items()):
        by_presence["absent"] += total - unknown - by_presence.total()
        by_presence["unknown"] = unknown
        buckets[name] = {key: by_presence.get(key, 0) for key in (*(p.value for p in Presence), "unknown")}
    return buckets


def _version(scope: InventoryScope, shape_id: int | None) -> str:
    found = _version_reading(scope, shape_id)
    return str(found.value) if found.reading is Reading.INTEGER else found.reading.value


def _version_reading(scope: InventoryScope, shape_id: int | None) -> VersionReading:
    shape: Shape | None = scope.dictionaries.shapes.get(shape_id) if shape_id is not None else None
    found = shape.versions.get(scope.version_key) if shape else None
    return found or VersionReading(Reading.UNKNOWN)


def _where(scope: InventoryScope, filters: Filters, of: Any) -> ColumnElement[bool]:
    """Threads, or cells of them, that every filter but that of the age lets through: the same key is OR, different keys are
    AND."""
    parts: list[ColumnElement[bool]] = [of.deployment_id == scope.deployment_id]
    if Condition.GONE.value not in filters.get("condition", ()):
        parts.append(is_alive(of))
    for key, values in filters.items():
        match key:
            case "condition" if set(values) >= set(Condition):
                pass  # every one: named, they would draw the index of conditions
            case "status" | "condition":
                parts.append(of[key].in_(values))
            case "pending":
                wanted = set(values)
                ids = [i for i, work in scope.dictionaries.works.items() if wanted & set(pending_nodes(work))]
                parts.append(of.work_id.in_(ids))
            case "state_version":
                parts.append(_shape_in(scope, partial(_is_version, scope, values), of))
            case "fields":
                parts.append(_shape_in(scope, partial(_has_field, scope, values), of))
            case "graph":
                parts.append(or_(*(_graph_is(value, of) for value in values)))
    return and_(*parts)


def _thread_where(scope: InventoryScope, filters: Filters, now: datetime) -> ColumnElement[bool]:
    """Threads that every filter lets through."""
    where = _where(scope, filters, _thread.c)
    if "age" not in filters:
        return where
    ages = [cube.AGE_NAMES.index(age) for age in filters["age"]]
    return and_(where, cube.age_of(cube.edges_at(now)).in_(ages))


def _graph_is(value: str, of: Any) -> ColumnElement[bool]:
    if value == NONE:
        return and_(of.graph_id.is_(None), of.head_graph_id.is_(None))
    return or_(of.graph_id == value, of.head_graph_id == value)


def _shape_in(scope: InventoryScope, wanted: Callable[[int | None], bool], of: Any) -> ColumnElement[bool]:
    ids = [shape_id for shape_id in scope.dictionaries.shapes if wanted(shape_id)]
    nobody_saw = _shape_id(of).is_(None) if wanted(None) else false()
    return or_(_shape_id(of).in_(ids), nobody_saw)


def _is_version(scope: InventoryScope, wanted: Sequence[str], shape_id: int | None) -> bool:
    return _version(scope, shape_id) in wanted


def _has_field(scope: InventoryScope, wanted: Sequence[str], shape_id: int | None) -> bool:
    shape = scope.dictionaries.shapes.get(shape_id) if shape_id is not None else None
    for item in wanted:
        name, _, presence = item.rpartition(":")
        if shape is None:
            found = "unknown"
        else:
            fact = scope.names.find(shape.fields, name)
            found = "absent" if fact is None else fact.presence.value
        if found == presence:
            return True
    return False


async def list_threads(
    connection: AsyncConnection,
    scope: InventoryScope,
    filters: Filters,
    *,
    cursor: str | None,
    limit: int,
    sort: str,
    now: datetime,
) -> ThreadPage:
    """A page of threads, by key."""
    check_filters(filters)
    if sort not in _SORTS:
        raise BadRequest(f"There is no order {sort[:40]!r}. Orders are: {', '.join(_SORTS)}.")
    if not 1 <= limit <= MAX_LIMIT:
        raise BadRequest(f"limit goes from 1 to {MAX_LIMIT}.")
    await scope.dictionaries.load(connection)
    where = _thread_where(scope, filters, now)
    found = [(key, n) for key, n in await list_classes(connection, scope, filters, now) if _is_listed(filters, key[1])]
    total = sum(n for _, n in found)
    column, descending = _SORTS[sort]
    query = select(_thread, _shape_id().label("shape_id")).where(where)
    if cursor is not None:
        value, thread_id = open_cursor(cursor, sort)
        query = query.where(_after(column, value, thread_id, descending=descending))
    first: ColumnElement[Any] = column
    if await _are_few(connection, scope, found):
        alike = [
            tables.thread.c.condition.in_({key[1] for key, _ in found}),
            tables.thread.c.work_id.in_({key[2] for key, _ in found}),
        ]
        query, first = query.where(*alike), func.coalesce(column, column)  # found by what they are, then sorted
    order = (first.desc(), _thread.c.thread_id.desc()) if descending else (first, _thread.c.thread_id)
    rows = list(await connection.execute(query.order_by(*order).limit(limit + 1)))
    more = len(rows) > limit
    items = tuple(_item(scope, row) for row in rows[:limit])
    last = rows[limit - 1] if more else None
    if last is None:
        return ThreadPage(items, None, total)
    key = getattr(last, column.name)
    return ThreadPage(
        items, close_cursor(sort, key.isoformat() if isinstance(key, datetime) else key, last.thread_id), total
    )


async def _are_few(
    connection: AsyncConnection, scope: InventoryScope, found: list[tuple[tuple[Any, ...], int]]
) -> bool:
    """Whether so few threads have the conditions and the work of those that are asked for that they can all be sorted. Else one
    goes through the threads in order until the page is full."""
    pairs = {(key[1], key[2]) for key, _ in found}

    def alike(of: Any) -> ColumnElement[bool]:
        return and_(of.condition.in_({one for one, _ in pairs}), of.work_id.in_({one for _, one in pairs}))

    return await cube.count(connection, scope.deployment_id, alike) <= MOST_SORTED


def _is_listed(filters: Filters, condition: str) -> bool:
    return condition != Condition.GONE.value or condition in filters.get("condition", ())


def _after(column: Any, value: str, thread_id: str, *, descending: bool) -> ColumnElement[bool]:
    key = value if column is _thread.c.thread_id else cursor_time(value)
    if descending:
        return or_(column < key, and_(column == key, _thread.c.thread_id < thread_id))
    return or_(column > key, and_(column == key, _thread.c.thread_id > thread_id))


def _item(scope: InventoryScope, row: Any) -> ThreadItem:
    return ThreadItem(
        thread_id=row.thread_id,
        graph_id=row.graph_id,
        status=row.status,
        condition=row.condition,
        pending=pending_nodes(scope.dictionaries.works[row.work_id]),
        state_version=_version_reading(scope, row.shape_id),
        created_at=row.created_at,
        updated_at=row.updated_at,
        seen_at=row.seen_at,
        stuck=row.stuck,
        assistant_id=row.assistant_id,
    )


async def count_by(connection: AsyncConnection, deployment_id: int, column: str) -> dict[str, int]:
    """Live threads by status or condition."""
    return dict(sorted(await cube.count_by(connection, deployment_id, lambda of: [of[column]], is_alive)))


async def find_thread(
    connection: AsyncConnection, dictionaries: Dictionaries, thread_id: str
) -> tuple[ThreadFacts, Json] | None:
    """What is remembered of one thread, and its pending work; None when it was never seen."""
    found = await known_threads(connection, dictionaries, [thread_id])
    if not found:
        return None
    query = select(_thread.c.work_id).where(
        _thread.c.deployment_id == dictionaries.deployment_id, _thread.c.thread_id == thread_id
    )
    return found[thread_id], dictionaries.works[(await connection.execute(query)).scalar_one()]
