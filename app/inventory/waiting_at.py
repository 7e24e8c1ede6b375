"""How many threads wait at each node, by condition and graph: what the picture of a graph shows."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.types import Condition
from app.inventory.encode import pending_nodes
from app.inventory.reads import Filters, InventoryScope, check_filters, list_classes


@dataclass(frozen=True, slots=True)
class WaitingAt:
    """Threads of one condition that are pending at a node. ``graphs``: those that they belong to. A thread is counted at each
    node where it is pending."""

    node: str
    condition: str
    graphs: frozenset[str]
    count: int


async def count_waiting(
    connection: AsyncConnection, scope: InventoryScope, filters: Filters, *, now: datetime
) -> tuple[WaitingAt, ...]:
    """Of the threads that the filters let through; tombstones wait nowhere unless they are asked for."""
    check_filters(filters)
    await scope.dictionaries.load(connection)
    counts: Counter[tuple[str, str, frozenset[str]]] = Counter()
    for (_, condition, work, _, graph, head_graph, _), n in await list_classes(connection, scope, filters, now):
        if condition == Condition.GONE.value and "condition" not in filters:
            continue
        for node in pending_nodes(scope.dictionaries.works[work]):
            counts[node, condition, frozenset({graph, head_graph} - {None})] += n
    return tuple(WaitingAt(*key, n) for key, n in sorted(counts.items(), key=lambda each: each[0][:2]))
