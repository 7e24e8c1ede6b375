"""Threads by what is known of their routes: which channels they have stored, as their storage tells."""

from collections.abc import Iterable, Mapping

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.types import Condition
from app.inventory import reads, tables
from app.inventory.encode import Json, waits_for_of

_thread = tables.thread
_IDLE = (Condition.SETTLED.value, Condition.PRESUMED_SETTLED.value)
_UNDER_WAY = tuple(
    one.value
    for one in (
        Condition.PARKED,
        Condition.FAILED,
        Condition.HALF_STEP,
        Condition.SCHEDULED,
        Condition.STRANDED,
        Condition.LOST,
    )
)


def is_under_way_untold(graph: str, routes: Mapping[int, Json]) -> ColumnElement[bool]:
    """Threads of a graph at which work waits, and of whose joins nothing is known since they moved. ``routes``: the entries of
    the dictionary."""
    silent = [one for one, raw in routes.items() if waits_for_of(raw) is None]
    unread = _thread.c.routes_id.is_(None)
    return and_(
        reads.is_of_graph(graph),
        _thread.c.condition.in_(_UNDER_WAY),
        or_(unread, _thread.c.routes_id.in_(silent)) if silent else unread,
    )


async def are_shown(
    connection: AsyncConnection, deployment_id: int, graph: str, nodes: Iterable[str], routes: Mapping[int, Json]
) -> bool:
    """Whether for each of these nodes some thread of the graph is known to have been led there."""
    for name in {node.rpartition("/")[2] for node in nodes}:
        led = [one for one, raw in routes.items() if name in raw["branches"] or name in raw["joins"]]
        where = and_(reads.is_of_graph(graph), reads.is_alive(), _thread.c.routes_id.in_(led))
        if not led or not await reads.count_threads(connection, deployment_id, where):
            return False
    return True


async def list_newest_idle(connection: AsyncConnection, deployment_id: int, graph: str, *, limit: int) -> list[str]:
    """Idle threads of a graph whose storage was not read, the newest change first."""
    query = (
        select(_thread.c.thread_id)
        .where(_thread.c.deployment_id == deployment_id, _thread.c.graph_id == graph)
        .where(_thread.c.condition.in_(_IDLE), _thread.c.routes_id.is_(None))
        .order_by(_thread.c.changed_at.desc(), _thread.c.thread_id)
        .limit(limit)
    )
    return list((await connection.execute(query)).scalars())
