"""Traced runs: remember them, and answer when a node was entered, by whom, and whether the project is alive."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, case, delete, exists, false, func, or_, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.traces import RunEnd, TracedRun, written_at
from app.facts.types import Condition
from app.inventory import tables
from app.inventory.views import Coverage, Liveness, NodeActivity, Stay, TracedEntry, UnderWay, Visit

DAY = timedelta(days=1)
MOST_COUNTED = 1000  # runs that show that a project is alive: more show no more
_run, _thread, _seen = tables.trace_run, tables.thread, tables.observation


# -- writes ----------------------------------------------------------------------------------------------------------


async def keep_runs(connection: AsyncConnection, deployment_id: int, runs: Sequence[TracedRun]) -> None:
    """Runs by id: one that is read again replaces what was known of it."""
    if not runs:
        return
    rows = {
        run.run_id: {
            "deployment_id": deployment_id,
            "run_id": run.run_id,
            "node": run.node[:255],
            "thread_id": run.thread_id,
            "trace_id": run.trace_id,
            "started_at": run.started_at,
            "ended_at": run.ended_at,
            "end": run.end.value,
        }
        for run in runs
    }
    query = upsert(connection, _run, keys=("deployment_id", "run_id"))
    await connection.execute(query, list(rows.values()))


def upsert(
    connection: AsyncConnection, table: Any, *, keys: Collection[str], index: Collection[str] | None = None
) -> Any:
    """An insert that replaces a row with the same key. ``keys`` stay as they are; ``index``: the key, if it is fewer."""
    make = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    query = make(table)
    changed = {column.name: query.excluded[column.name] for column in table.columns if column.name not in keys}
    return query.on_conflict_do_update(index_elements=list(index or keys), set_=changed)


async def set_coverage(connection: AsyncConnection, deployment_id: int, covered: Iterable[Coverage]) -> None:
    """What was read without a gap, up to now: no reading of these nodes is under way any more."""
    rows = [
        {
            "deployment_id": deployment_id,
            "node": found.node,
            "exact": found.exact,
            "covered_from": found.covered_from,
            "covered_until": found.covered_until,
        }
        for found in covered
    ]
    if rows:
        query = upsert(connection, tables.trace_coverage, keys=("deployment_id", "node"))
        await connection.execute(query, rows)
        table = tables.trace_reading
        nodes = [row["node"] for row in rows]
        await connection.execute(delete(table).where(table.c.deployment_id == deployment_id, table.c.node.in_(nodes)))


async def set_under_way(connection: AsyncConnection, deployment_id: int, readings: Iterable[UnderWay]) -> None:
    """Where readings that did not come to their end go on."""
    rows = [{"deployment_id": deployment_id, **asdict(found)} for found in readings]
    if rows:
        query = upsert(connection, tables.trace_reading, keys=("deployment_id", "node"))
        await connection.execute(query, rows)


async def set_source(connection: AsyncConnection, deployment_id: int, **values: Any) -> None:
    """How the last attempt ended."""
    query = upsert(connection, tables.trace_source, keys=("deployment_id",))
    row = dict.fromkeys((column.name for column in tables.trace_source.columns), None)
    await connection.execute(query, [row | values | {"deployment_id": deployment_id}])


async def forget_runs(connection: AsyncConnection, deployment_id: int, nodes: Collection[str] | None = None) -> None:
    """Everything, when the project is another one; or the runs of some nodes, before they are read anew."""
    for table in (_run, tables.trace_coverage, tables.trace_reading):
        where = [table.c.deployment_id == deployment_id]
        if nodes is not None:
            where.append(table.c.node.in_(nodes))
        await connection.execute(delete(table).where(*where))
    if nodes is None:
        await connection.execute(
            delete(tables.node_activity).where(tables.node_activity.c.deployment_id == deployment_id)
        )


async def forget_coverage(connection: AsyncConnection, deployment_id: int, nodes: Collection[str]) -> None:
    """Read these nodes anew from the beginning of the window: of a time that no window reached, runs were forgotten."""
    for table in (tables.trace_coverage, tables.trace_reading):
        await connection.execute(delete(table).where(table.c.deployment_id == deployment_id, table.c.node.in_(nodes)))


async def roll_up(connection: AsyncConnection, deployment_id: int, *, since: datetime, until: datetime) -> None:
    """Count the runs of each day anew, from the day of ``since`` on."""
    day = midnight(since)
    while day <= until:
        is_that_day = and_(
            _run.c.deployment_id == deployment_id, _run.c.started_at >= day, _run.c.started_at < day + DAY
        )
        counts = select(
            _run.c.node,
            func.count().label("entered"),
            func.sum(case((_run.c.end == RunEnd.SUCCESS.value, 1), else_=0)).label("finished"),
            func.sum(case((_run.c.end == RunEnd.ERROR.value, 1), else_=0)).label("errored"),
            func.count(_run.c.thread_id).label("joined"),
        )
        found = (await connection.execute(counts.where(is_that_day).group_by(_run.c.node))).mappings().all()
        if found:
            rows = [{**row, "deployment_id": deployment_id, "day": day} for row in found]
            query = upsert(connection, tables.node_activity, keys=("deployment_id", "node", "day"))
            await connection.execute(query, rows)
        day += DAY


async def prune_runs(connection: AsyncConnection, deployment_id: int, *, before: datetime) -> None:
    """Forget runs of whole days that no window reaches; their counts stay."""
    is_old = and_(_run.c.deployment_id == deployment_id, _run.c.started_at < midnight(before))
    await connection.execute(delete(_run).where(is_old))


def midnight(when: datetime) -> datetime:
    """The day that a moment belongs to, in UTC."""
    return when.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


# -- reads -----------------------------------------------------------------------------------------------------------


async def find_source(connection: AsyncConnection, deployment_id: int) -> Any | None:
    """How the last attempt to read traces ended; None before the first."""
    table = tables.trace_source
    return (await connection.execute(select(table).where(table.c.deployment_id == deployment_id))).one_or_none()


async def list_coverage(connection: AsyncConnection, deployment_id: int) -> dict[str, Coverage]:
    """What was read, by node."""
    table = tables.trace_coverage
    rows = (await connection.execute(select(table).where(table.c.deployment_id == deployment_id))).all()
    return {row.node: Coverage(row.node, row.exact, row.covered_from, row.covered_until) for row in rows}


async def list_under_way(connection: AsyncConnection, deployment_id: int) -> dict[str, UnderWay]:
    """Readings that did not come to their end yet, by node."""
    table = tables.trace_reading
    rows = (await connection.execute(select(table).where(table.c.deployment_id == deployment_id))).all()
    return {row.node: UnderWay(row.node, row.exact, row.since, row.reached, row.until) for row in rows}


async def list_entries(
    connection: AsyncConnection,
    deployment_id: int,
    graph: str,
    nodes: Mapping[str, Collection[str]],
    *,
    since: datetime,
    limit: int,
) -> list[TracedEntry]:
    """Runs of these nodes in the window, newest first. ``nodes``: each with the other graphs that have one of its name; what
    a thread of those did is theirs. Any other run counts, also one that cannot be joined, and one of a thread that ran
    under another graph since."""
    query = (
        select(_run.c.node, _run.c.thread_id, _run.c.trace_id, _run.c.started_at)
        .where(
            _run.c.deployment_id == deployment_id,
            _run.c.node.in_(list(nodes)),
            _run.c.started_at >= since,
            ~_is_of_another(graph, nodes),
        )
        .order_by(_run.c.started_at.desc(), _run.c.run_id)
        .limit(limit)
    )
    return [TracedEntry(*row) for row in (await connection.execute(query)).all()]


def _is_of_another(graph: str, nodes: Mapping[str, Collection[str]]) -> ColumnElement[bool]:
    """The run's thread is known, belongs to other graphs only, and one of them has a node of this name."""
    theirs = [
        and_(_run.c.node == node, or_(_thread.c.graph_id.in_(others), _thread.c.head_graph_id.in_(others)))
        for node, others in nodes.items()
        if others
    ]
    if not theirs:
        return false()
    belongs = or_(
        _thread.c.graph_id == graph,
        _thread.c.head_graph_id == graph,
        and_(_thread.c.graph_id.is_(None), _thread.c.head_graph_id.is_(None)),
    )
    return exists().where(
        _thread.c.deployment_id == _run.c.deployment_id, _thread.c.thread_id == _run.c.thread_id, ~belongs, or_(*theirs)
    )


def has_entered(deployment_id: int, nodes: Collection[str]) -> ColumnElement[bool]:
    """Threads of which the traces show that they entered one of these nodes."""
    entered = select(_run.c.thread_id).where(
        _run.c.deployment_id == deployment_id, _run.c.node.in_(list(nodes)), _run.c.thread_id.is_not(None)
    )
    return _thread.c.thread_id.in_(entered)


async def find_liveness(
    connection: AsyncConnection, deployment_id: int, graph: str, *, but: Collection[str], since: datetime
) -> Liveness:
    """Runs of the graph's known threads: those of another deployment in the same project say nothing of this one."""
    is_ours = exists().where(
        _thread.c.deployment_id == _run.c.deployment_id,
        _thread.c.thread_id == _run.c.thread_id,
        or_(_thread.c.graph_id == graph, _thread.c.head_graph_id == graph),
    )
    is_mine = and_(
        _run.c.deployment_id == deployment_id, _run.c.started_at >= since, or_(_run.c.thread_id.is_(None), is_ours)
    )
    newest = await connection.scalar(
        select(_run.c.started_at).where(is_mine).order_by(_run.c.started_at.desc()).limit(1)
    )
    some = select(_run.c.run_id).where(is_mine, _run.c.node.not_in(but)).limit(MOST_COUNTED).subquery()
    return Liveness(int(await connection.scalar(select(func.count()).select_from(some)) or 0), newest)


async def find_movement(
    connection: AsyncConnection, deployment_id: int, population: ColumnElement[bool]
) -> tuple[datetime | None, datetime | None]:
    """When the first thread of a population was created, and when one that ever ran last moved. Tombstones count; of those that
    were forgotten it is not known any more of which population they were."""
    ran = case((_thread.c.condition != Condition.NEVER_RAN.value, _thread.c.state_updated_at))
    moved = func.max(ran, type_=tables.UtcDateTime)
    created = func.min(_thread.c.created_at, type_=tables.UtcDateTime)
    query = select(created, moved).where(_thread.c.deployment_id == deployment_id, population)
    row = (await connection.execute(query)).one()
    mine = tables.deployment.c.id == deployment_id
    forgotten = await connection.scalar(select(tables.deployment.c.forgotten_since).where(mine))
    return min((each for each in (row[0], forgotten) if each is not None), default=None), row[1]


async def list_stays(
    connection: AsyncConnection, deployment_id: int, threads: Collection[str], paths: Collection[str]
) -> list[Stay]:
    """Observations of these threads at or below these nodes."""
    below = [_seen.c.node.startswith(f"{path}/", autoescape=True) for path in paths]
    columns = (
        _seen.c.thread_id,
        _seen.c.node,
        _seen.c.left_at,
        _seen.c.departure,
        _seen.c.checkpoint_id,
        _seen.c.ended_at,
    )
    found: list[Stay] = []
    wanted = sorted(threads)
    for start in range(0, len(wanted), 500):
        query = select(*columns, _looked_before().label("looked_before")).where(
            _seen.c.deployment_id == deployment_id,
            _seen.c.thread_id.in_(wanted[start : start + 500]),
            or_(_seen.c.node.in_(paths), *below),
        )
        found += [_stay(row) for row in (await connection.execute(query)).all()]
    return found


def _looked_before() -> ColumnElement[datetime]:
    """When the last complete poll before the one that saw a leaf began: then it was not there yet."""
    poll = tables.poll
    begun = func.max(poll.c.started_at, type_=tables.UtcDateTime)
    return (
        select(begun)
        .where(
            poll.c.deployment_id == _seen.c.deployment_id,
            poll.c.id < _seen.c.arrived_poll_id,
            poll.c.state == "complete",
        )
        .scalar_subquery()
    )


def _stay(row: Any) -> Stay:
    came_after = written_at(row.checkpoint_id) or row.looked_before
    return Stay(row.thread_id, row.node, row.left_at, row.departure, came_after, row.ended_at)


async def list_activity(
    connection: AsyncConnection, deployment_id: int, *, since: datetime, nodes: Collection[str] | None = None
) -> tuple[NodeActivity, ...]:
    """Counts per node and day, by node, oldest day first."""
    table = tables.node_activity
    where = [table.c.deployment_id == deployment_id, table.c.day >= midnight(since)]
    if nodes is not None:
        where.append(table.c.node.in_(nodes))
    rows = (await connection.execute(select(table).where(*where).order_by(table.c.node, table.c.day))).all()
    return tuple(NodeActivity(row.node, row.day, row.entered, row.finished, row.errored, row.joined) for row in rows)


async def list_visits(
    connection: AsyncConnection, deployment_id: int, thread_id: str, *, limit: int
) -> tuple[Visit, ...]:
    """Which nodes a thread entered, newest first."""
    query = (
        select(_run)
        .where(_run.c.deployment_id == deployment_id, _run.c.thread_id == thread_id)
        .order_by(_run.c.started_at.desc(), _run.c.run_id)
        .limit(limit)
    )
    rows = (await connection.execute(query)).all()
    return tuple(Visit(row.node, row.started_at, row.end, row.trace_id) for row in rows)


async def list_newest_entries(
    connection: AsyncConnection, deployment_id: int, nodes: Collection[str], *, limit: int
) -> list[Any]:
    """The newest runs of these nodes, newest first."""
    query = (
        select(_run)
        .where(_run.c.deployment_id == deployment_id, _run.c.node.in_(list(nodes)))
        .order_by(_run.c.started_at.desc(), _run.c.run_id)
        .limit(limit)
    )
    return list((await connection.execute(query)).all())


async def list_newest_run(
    connection: AsyncConnection, deployment_id: int, threads: Collection[str]
) -> Mapping[str, datetime]:
    """When each of these threads was last seen running."""
    found: dict[str, datetime] = {}
    wanted = sorted(threads)
    for start in range(0, len(wanted), 500):
        newest = func.max(_run.c.started_at, type_=tables.UtcDateTime)
        query = (
            select(_run.c.thread_id, newest)
            .where(_run.c.deployment_id == deployment_id, _run.c.thread_id.in_(wanted[start : start + 500]))
            .group_by(_run.c.thread_id)
        )
        found |= {row[0]: row[1] for row in (await connection.execute(query)).all()}
    return found


async def list_last_entered(connection: AsyncConnection, deployment_id: int) -> Mapping[str, datetime]:
    """When each node was last entered, as far back as runs are kept."""
    newest = func.max(_run.c.started_at, type_=tables.UtcDateTime)
    query = select(_run.c.node, newest).where(_run.c.deployment_id == deployment_id).group_by(_run.c.node)
    return {row[0]: row[1] for row in (await connection.execute(query)).all()}
