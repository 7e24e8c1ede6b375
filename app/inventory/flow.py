"""How many threads came to a node and how many left it, poll by poll."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.topology import at_or_below
from app.inventory import tables

SOME = 500  # ids in one statement

_leaf = tables.observation


@dataclass(frozen=True, slots=True)
class FlowPoint:
    """What one poll saw come to and leave a node or one of the nodes below it. Threads are counted, once for each node and
    direction, however many tasks they had there.

    ``at``: when the poll began. ``complete``: it saw everything; between two complete polls more may have come and gone, and
    what passed between two polls without being seen is in neither number. ``left`` maps a departure to its threads.
    """

    poll_id: int
    at: datetime
    node: str
    arrived: int
    left: Mapping[str, int]
    complete: bool


async def flow(
    connection: AsyncConnection, deployment_id: int, nodes: Collection[str], *, since: datetime, until: datetime
) -> tuple[FlowPoint, ...]:
    """What was seen to come to these nodes and leave them in ``[since, until)``, by poll, oldest first.

    A poll at which nobody came or left has no point: that it looked is told by the polls. What is below a node counts as the
    node.
    """
    names = await _names(connection, deployment_id)
    came: Counter[tuple[int, str]] = Counter()
    left: dict[tuple[int, str], Counter[str]] = {}
    for node in sorted(set(nodes)):
        for row in await connection.execute(_came(deployment_id, _below(node, names), since, until)):
            came[row.poll_id, node] += row.n
        for row in await connection.execute(_left(deployment_id, _below(node, names), since, until)):
            left.setdefault((row.poll_id, node), Counter())[row.departure] += row.n
    polls = await _polls(connection, deployment_id, {poll_id for poll_id, _ in (*came, *left)})
    keys = sorted(key for key in {*came, *left} if key[0] in polls)
    return tuple(
        FlowPoint(
            poll_id=poll_id,
            at=polls[poll_id].started_at,
            node=node,
            arrived=came[poll_id, node],
            left=dict(sorted(left.get((poll_id, node), Counter()).items())),
            complete=polls[poll_id].state == "complete",
        )
        for poll_id, node in keys
    )


def _came(deployment_id: int, nodes: list[str], since: datetime, until: datetime) -> Select[Any]:
    return (
        select(_leaf.c.arrived_poll_id.label("poll_id"), _threads())
        .where(_leaf.c.deployment_id == deployment_id, _leaf.c.node.in_(nodes))
        .where(_leaf.c.arrived_at >= since, _leaf.c.arrived_at < until)
        .group_by(_leaf.c.arrived_poll_id)
    )


def _left(deployment_id: int, nodes: list[str], since: datetime, until: datetime) -> Select[Any]:
    return (
        select(_leaf.c.left_poll_id.label("poll_id"), _leaf.c.departure, _threads())
        .where(_leaf.c.deployment_id == deployment_id, _leaf.c.node.in_(nodes))
        .where(_leaf.c.left_at >= since, _leaf.c.left_at < until)
        .where(_leaf.c.left_poll_id.is_not(None))
        .group_by(_leaf.c.left_poll_id, _leaf.c.departure)
    )


def _threads() -> ColumnElement[int]:
    return func.count(func.distinct(_leaf.c.thread_id)).label("n")


async def _names(connection: AsyncConnection, deployment_id: int) -> set[str]:
    """Every node at which a thread was ever seen pending: the dictionary of pending work has each of them."""
    table = tables.work
    contents = await connection.execute(select(table.c.content).where(table.c.deployment_id == deployment_id))
    return {leaf[0] for content in contents.scalars() for leaf in content["leaves"]}


def _below(node: str, names: Collection[str]) -> list[str]:
    return sorted({node, *(name for name in names if at_or_below(name, node))})


async def _polls(connection: AsyncConnection, deployment_id: int, ids: Collection[int]) -> dict[int, Any]:
    table = tables.poll
    found: dict[int, Any] = {}
    wanted = sorted(ids)
    for start in range(0, len(wanted), SOME):
        query = select(table.c.id, table.c.started_at, table.c.state).where(
            table.c.deployment_id == deployment_id, table.c.id.in_(wanted[start : start + SOME])
        )
        found |= {row.id: row for row in await connection.execute(query)}
    return found
