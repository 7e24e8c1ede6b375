"""What each deploy did: which graphs it changed, which threads waited at a node that it removed, and what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, insert, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequest
from app.facts.types import Condition, Departure
from app.inventory import tables
from app.inventory.cursors import close_cursor, open_cursor
from app.inventory.views import Deploy, DeployThread, GraphChange

FATES = ("stranded", "lost", "unreadable", "not_read", "waiting", "unexplained", "gone", "taken_over", "completed")
"""What became of a wait, what a person must look at first. ``taken_over``: by new input, an update or time travel."""
UNFINISHED = ("stranded", "lost", "unreadable", "not_read")
MAX_NODES = 500

_kept = tables.deploy_thread
_thread = tables.thread
_leaf = tables.observation


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The newest deploy that removed nodes where threads waited, and how many of them nobody has brought to an end."""

    deploy: int
    noticed_at: datetime
    graph: str
    nodes: tuple[str, ...]
    threads: int


# -- writing -------------------------------------------------------------------------------------------------------


async def keep_deploy(
    connection: AsyncConnection,
    deployment_id: int,
    changes: Sequence[GraphChange],
    *,
    poll_id: int,
    now: datetime,
    comparison: Sequence[Mapping[str, Any]] | None = None,
) -> int:
    """Store a deploy, with the threads that were last seen waiting at a node which it removed. Call it before any of them is
    read again."""
    done = await connection.execute(
        insert(tables.deploy).values(
            deployment_id=deployment_id,
            poll_id=poll_id,
            noticed_at=now,
            changes=[asdict(change) for change in changes],
            comparison=None if comparison is None else list(comparison),
        )
    )
    deploy_id = int((done.inserted_primary_key or (0,))[0])
    for change in changes:
        removed = change.nodes_removed[:MAX_NODES]
        for node in removed:
            await connection.execute(_insert_waiting(deployment_id, deploy_id, change.graph, node))
    return deploy_id


def _insert_waiting(deployment_id: int, deploy_id: int, graph: str, node: str) -> Any:
    of_graph = or_(_thread.c.graph_id == graph, _thread.c.head_graph_id == graph)
    waiting = (
        select(literal(deployment_id), literal(deploy_id), _leaf.c.thread_id, literal(node), literal(graph))
        .distinct()
        .select_from(_leaf.join(_thread, _same_thread(_leaf)))
        .where(
            _leaf.c.deployment_id == deployment_id,
            _leaf.c.node == node,
            _leaf.c.left_at.is_(None),
            _thread.c.condition != Condition.GONE.value,
            of_graph,
            ~exists().where(
                _kept.c.deployment_id == deployment_id,
                _kept.c.deploy_id == deploy_id,
                _kept.c.thread_id == _leaf.c.thread_id,
                _kept.c.node == node,
            ),
        )
    )
    return insert(_kept).from_select(["deployment_id", "deploy_id", "thread_id", "node", "graph_id"], waiting)


# -- reading -------------------------------------------------------------------------------------------------------


async def list_deploys(
    connection: AsyncConnection, deployment_id: int, deployment: str, *, cursor: str | None, limit: int
) -> tuple[tuple[Deploy, ...], str | None]:
    """Deploys, newest first, and the cursor of the next page."""
    table = tables.deploy
    query = select(table).where(table.c.deployment_id == deployment_id).order_by(table.c.id.desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(table.c.id < _number(cursor))
    rows = list(await connection.execute(query))
    latest = await connection.scalar(select(func.max(table.c.id)).where(table.c.deployment_id == deployment_id))
    fates = await _count_fates(connection, deployment_id, [row.id for row in rows[:limit]])
    found = tuple(_deploy(row, deployment, fates.get(row.id, {}), latest) for row in rows[:limit])
    return found, str(found[-1].id) if len(rows) > limit else None


async def list_deploy_times(
    connection: AsyncConnection, deployment_id: int, graph: str, *, since: datetime, until: datetime
) -> list[tuple[datetime, int]]:
    """When deploys of a graph were noticed in a time, oldest first, and their ids."""
    table = tables.deploy
    query = (
        select(table)
        .where(table.c.deployment_id == deployment_id, table.c.noticed_at >= since, table.c.noticed_at <= until)
        .order_by(table.c.id)
    )
    rows = list(await connection.execute(query))
    return [(row.noticed_at, row.id) for row in rows if any(change["graph"] == graph for change in row.changes)]


async def find_deploy(
    connection: AsyncConnection, deployment_id: int, deployment: str, deploy_id: int
) -> Deploy | None:
    """One deploy, or None."""
    table = tables.deploy
    query = select(table).where(table.c.deployment_id == deployment_id, table.c.id == deploy_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    latest = await connection.scalar(select(func.max(table.c.id)).where(table.c.deployment_id == deployment_id))
    fates = await _count_fates(connection, deployment_id, [deploy_id])
    return _deploy(row, deployment, fates.get(deploy_id, {}), latest)


async def list_deploy_threads(
    connection: AsyncConnection,
    deployment_id: int,
    deploy_id: int,
    *,
    fate: str | None,
    cursor: str | None,
    limit: int,
) -> tuple[tuple[DeployThread, ...], str | None]:
    """The threads that waited at a node which a deploy removed, the worst fate first, then by id; the next page's cursor."""
    if fate is not None and fate not in FATES:
        raise BadRequest(f"There is no fate {fate[:40]!r}. Fates are: {', '.join(FATES)}.")
    found = _fates(deployment_id).where(_kept.c.deploy_id == deploy_id).subquery()
    badness = case({word: place for place, word in enumerate(FATES)}, value=found.c.fate)
    query = select(found, badness.label("badness")).order_by(badness, found.c.thread_id, found.c.node).limit(limit + 1)
    if fate is not None:
        query = query.where(found.c.fate == fate)
    if cursor is not None:
        query = query.where(_after(badness, found, *open_cursor(cursor, "fates")))
    rows = list(await connection.execute(query))
    items = tuple(
        DeployThread(row.thread_id, row.node, row.graph_id, row.fate, row.condition, row.since) for row in rows[:limit]
    )
    last = rows[limit - 1] if len(rows) > limit else None
    return items, None if last is None else close_cursor("fates", f"{last.badness}{last.thread_id}", last.node)


def _after(badness: ColumnElement[int], found: Any, value: str, node: str) -> ColumnElement[bool]:
    """After a line: its badness, one digit, and its thread's id make up the value."""
    bad, thread_id = int(value[:1]) if value[:1].isdecimal() else 0, value[1:]
    later = or_(found.c.thread_id > thread_id, and_(found.c.thread_id == thread_id, found.c.node > node))
    return or_(badness > bad, and_(badness == bad, later))


async def find_unfinished(connection: AsyncConnection, deployment_id: int) -> Unfinished | None:
    """The newest deploy after which threads still are stranded or lost at a node that it removed."""
    found = _fates(deployment_id).subquery()
    query = (
        select(found.c.deploy_id, func.count(func.distinct(found.c.thread_id)).label("n"))
        .where(found.c.fate.in_(UNFINISHED))
        .group_by(found.c.deploy_id)
        .order_by(found.c.deploy_id.desc())
        .limit(1)
    )
    newest = (await connection.execute(query)).one_or_none()
    if newest is None:
        return None
    where = (found.c.deploy_id == newest.deploy_id, found.c.fate.in_(UNFINISHED))
    places = list(
        await connection.execute(
            select(found.c.graph_id, found.c.node).where(*where).distinct().order_by(found.c.graph_id, found.c.node)
        )
    )
    noticed_at = await connection.scalar(
        select(tables.deploy.c.noticed_at).where(tables.deploy.c.id == newest.deploy_id)
    )
    graph = places[0].graph_id
    nodes = tuple(place.node for place in places if place.graph_id == graph)
    return Unfinished(newest.deploy_id, noticed_at, graph, nodes, newest.n) if noticed_at is not None else None


def list_open(deployment_id: int) -> Select[Any]:
    """The deploys after which somebody still waits, or is stranded or lost, at a node that they removed."""
    found = _fates(deployment_id).subquery()
    return select(found.c.deploy_id).where(found.c.fate.in_((*UNFINISHED, "waiting"))).distinct()


async def find_last_comparison(connection: AsyncConnection, deployment_id: int, *, since: datetime) -> Deploy | None:
    """The newest deploy since then that was compared with what was there before; without what became of the threads."""
    table = tables.deploy
    query = (
        select(table)
        .where(table.c.deployment_id == deployment_id, table.c.noticed_at >= since)
        .order_by(table.c.id.desc())
        .limit(1)
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None or row.comparison is None else _deploy(row, "", {}, row.id)


def _fates(deployment_id: int) -> Select[Any]:
    """Each wait that a deploy met, with what became of it: by the leaves that stood then and by the thread as it is now."""
    at_or_after = and_(
        _leaf.c.deployment_id == _kept.c.deployment_id,
        _leaf.c.thread_id == _kept.c.thread_id,
        _leaf.c.node == _kept.c.node,
        or_(_leaf.c.left_at.is_(None), _leaf.c.left_at >= tables.deploy.c.noticed_at),
        _leaf.c.arrived_at < tables.deploy.c.noticed_at,
    )
    return (
        select(
            _kept.c.deploy_id,
            _kept.c.thread_id,
            _kept.c.node,
            _kept.c.graph_id,
            _thread.c.condition,
            func.min(_leaf.c.arrived_at, type_=tables.UtcDateTime).label("since"),
            _fate().label("fate"),
        )
        .select_from(
            _kept.join(tables.deploy, tables.deploy.c.id == _kept.c.deploy_id)
            .outerjoin(_thread, _same_thread(_kept))
            .outerjoin(_leaf, at_or_after)
        )
        .where(_kept.c.deployment_id == deployment_id)
        .group_by(
            _kept.c.deploy_id,
            _kept.c.thread_id,
            _kept.c.node,
            _kept.c.graph_id,
            _thread.c.condition,
            _thread.c.state_read_at,
            tables.deploy.c.noticed_at,
        )
    )


def _fate() -> ColumnElement[str]:
    """The worst of a thread's leaves at that node counts."""
    condition = _thread.c.condition
    stands = func.max(case((_leaf.c.left_at.is_(None), 1), else_=0)) == 1
    read_at = _thread.c.state_read_at
    unread_since = or_(read_at.is_(None), read_at < tables.deploy.c.noticed_at)
    taken = [Departure.ABANDONED.value, Departure.OVERRIDDEN.value, Departure.FORKED.value]

    def left(*departures: str) -> ColumnElement[bool]:
        return func.max(case((_leaf.c.departure.in_(departures), 1), else_=0)) == 1

    return case(
        (or_(condition.is_(None), condition == Condition.GONE.value), literal("gone")),
        (left(Departure.LOST.value), literal("lost")),
        (and_(stands, condition == Condition.LOST.value), literal("lost")),
        (
            and_(stands, condition.in_([Condition.GRAPH_MISSING.value, Condition.UNREADABLE.value])),
            literal("unreadable"),
        ),
        (and_(stands, unread_since), literal("not_read")),
        (and_(stands, condition.in_([Condition.STRANDED.value, Condition.UNPLACED.value])), literal("stranded")),
        (and_(stands, condition == Condition.UNREAD.value), literal("not_read")),
        (stands, literal("waiting")),
        (left(Departure.UNEXPLAINED.value), literal("unexplained")),
        (left(Departure.DELETED.value), literal("gone")),
        (left(*taken), literal("taken_over")),
        (left(Departure.COMPLETED.value), literal("completed")),
        else_=literal("not_read"),
    )


async def _count_fates(
    connection: AsyncConnection, deployment_id: int, deploy_ids: Sequence[int]
) -> dict[int, dict[str, int]]:
    """Threads by what became of them, by deploy; and all of them under an empty word."""
    found = _fates(deployment_id).where(_kept.c.deploy_id.in_(deploy_ids)).subquery()
    threads = func.count(func.distinct(found.c.thread_id)).label("n")
    counts: dict[int, dict[str, int]] = {}
    for row in await connection.execute(
        select(found.c.deploy_id, found.c.fate, threads).group_by(found.c.deploy_id, found.c.fate)
    ):
        counts.setdefault(row.deploy_id, {})[row.fate] = row.n
    for row in await connection.execute(select(found.c.deploy_id, threads).group_by(found.c.deploy_id)):
        counts[row.deploy_id][""] = row.n
    return counts


def _same_thread(table: Any) -> ColumnElement[bool]:
    return and_(_thread.c.deployment_id == table.c.deployment_id, _thread.c.thread_id == table.c.thread_id)


def _deploy(row: Any, deployment: str, fates: dict[str, int], latest: int | None) -> Deploy:
    return Deploy(
        id=row.id,
        deployment=deployment,
        noticed_at=row.noticed_at,
        poll=row.poll_id,
        changes=tuple(_change(raw) for raw in row.changes),
        threads=fates.get("", 0),
        fates={fate: fates.get(fate, 0) for fate in FATES},
        latest=row.id == latest,
        comparison=None if row.comparison is None else tuple(row.comparison),
    )


def _change(raw: Any) -> GraphChange:
    lists = ("nodes_added", "nodes_removed", "fields_added", "fields_removed")
    values: Any = {key: tuple(value) if key in lists else value for key, value in raw.items()}
    return GraphChange(**values)


def _number(cursor: str) -> int:
    if not cursor.isdecimal() or len(cursor) > 18:
        raise BadRequest("The cursor is not one of this list. Start again without a cursor.")
    return int(cursor)
