"""What the graphs of a deployment look like, and looked like: one line of revisions for each graph as its own assistant draws
it, and one more for each other drawing that a configuration makes of it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import and_, delete, insert, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.topology import topology_hash
from app.facts.types import Topology
from app.inventory import reads, tables
from app.inventory.encode import topology_to_json
from app.inventory.views import Drawing, GraphChange, RevisionSummary

_table = tables.graph_revision


@dataclass(frozen=True, slots=True)
class Drawn:
    """A graph as it is drawn now, with the configurations that draw it so. ``variant``: None for the graph's own assistant."""

    topology: Topology
    variant: str | None = None
    configs: frozenset[str] = frozenset()


# -- reading -------------------------------------------------------------------------------------------------------


async def list_drawings(connection: AsyncConnection, deployment_id: int) -> tuple[Drawing, ...]:
    """How each configuration that an assistant has draws its graph."""
    table = tables.drawing
    query = select(table).where(table.c.deployment_id == deployment_id).order_by(table.c.graph_id, table.c.config)
    return tuple(
        Drawing(row.graph_id, row.config, row.assistant_id, row.edited_at, row.revision_id, row.drawn_at)
        for row in await connection.execute(query)
    )


# -- writing -------------------------------------------------------------------------------------------------------


async def keep_revisions(
    connection: AsyncConnection, deployment_id: int, drawn: Collection[Drawn], *, now: datetime
) -> tuple[GraphChange, ...]:
    """Store what the graphs look like now, and say what a deploy changed.

    A drawing that appears because an assistant was made, or goes with one, is a new revision but no deploy. Nor is the
    first look at a deployment.
    """
    revisions = await reads.list_revisions(connection, deployment_id)
    drawings = await list_drawings(connection, deployment_id)
    stood = {found.id: found for found in revisions if found.vanished_at is None}
    changes, kept = [], set()
    for each in drawn:
        before = _before(each, stood.values(), drawings)
        found = _same(each, stood.values())
        if found is not None:
            await _refresh(connection, found, each, now)
            kept.add(found.id)
        else:
            await _add(connection, deployment_id, each, now)
        replaced = before is not None and (found is None or found.id != before.id)
        if replaced or (before is None and each.variant is None):
            changes.append(_change(before, each))
    graphs = {each.topology.graph_id for each in drawn}
    for known in stood.values():
        if known.id not in kept:
            await connection.execute(update(_table).where(_table.c.id == known.id).values(vanished_at=now))
        if known.graph not in graphs and known.variant is None:
            changes.append(_change(known, None))
    return tuple(changes) if revisions else ()


def _same(drawn: Drawn, stood: Iterable[RevisionSummary]) -> RevisionSummary | None:
    """The deployed revision that looks the same, in the same line or, of a variant, in any other than the graph's own."""
    graph, found = drawn.topology.graph_id, topology_hash(drawn.topology)
    alike = [each for each in stood if each.graph == graph and each.hash == found]
    return next((each for each in alike if (each.variant is None) == (drawn.variant is None)), None)


def _before(drawn: Drawn, stood: Collection[RevisionSummary], drawings: Sequence[Drawing]) -> RevisionSummary | None:
    """How the same configurations drew the graph until now; None when they are new."""
    graph = drawn.topology.graph_id
    if drawn.variant is None:
        return next((each for each in stood if each.graph == graph and each.variant is None), None)
    ids = {each.revision_id for each in drawings if each.graph == graph and each.config in drawn.configs}
    before = [each for each in stood if each.id in ids]
    same = [each for each in before if each.hash == topology_hash(drawn.topology)]
    return next(iter(same or before), None)


async def _refresh(connection: AsyncConnection, known: RevisionSummary, drawn: Drawn, now: datetime) -> None:
    values = {"last_seen_at": now, "xray_hash": drawn.topology.xray_hash, "topology": topology_to_json(drawn.topology)}
    await connection.execute(update(_table).where(_table.c.id == known.id).values(values))


async def _add(connection: AsyncConnection, deployment_id: int, drawn: Drawn, now: datetime) -> None:
    topology = drawn.topology
    await connection.execute(
        insert(_table).values(
            deployment_id=deployment_id,
            graph_id=topology.graph_id,
            assistant_id=topology.assistant_id,
            hash=topology_hash(topology),
            xray_hash=topology.xray_hash,
            topology=topology_to_json(topology),
            first_seen_at=now,
            last_seen_at=now,
            variant=drawn.variant,
        )
    )


def _change(before: RevisionSummary | None, after: Drawn | None) -> GraphChange:
    had, has = set(before.nodes) if before else set(), set(after.topology.nodes) if after else set()
    held, holds = set(before.fields) if before else set(), set(after.topology.fields) if after else set()
    kind: Literal["changed", "appeared", "vanished"] = "changed"
    if before is None or after is None:
        kind = "appeared" if before is None else "vanished"
    graph = after.topology.graph_id if after else before.graph if before else ""
    return GraphChange(
        graph=graph,
        kind=kind,
        variant=after.variant if after else None,
        before=before.hash if before else None,
        after=topology_hash(after.topology) if after else None,
        nodes_added=tuple(sorted(has - had)),
        nodes_removed=tuple(sorted(had - has)),
        nodes_kept=len(had & has),
        fields_added=tuple(sorted(holds - held)),
        fields_removed=tuple(sorted(held - holds)),
    )


async def keep_drawings(
    connection: AsyncConnection, deployment_id: int, drawings: Collection[Drawing], *, graphs: Collection[str]
) -> None:
    """Store how each configuration draws these graphs, and trust no reading that was made as if it were another way."""
    table = tables.drawing
    known = {(found.graph, found.config): found for found in await list_drawings(connection, deployment_id)}
    wanted = {(found.graph, found.config): found for found in drawings}
    stale = [key for key in known if key not in wanted]
    for graph, config in stale:
        is_it = and_(table.c.deployment_id == deployment_id, table.c.graph_id == graph, table.c.config == config)
        await connection.execute(delete(table).where(is_it))
    changed = [found for key, found in wanted.items() if known.get(key) != found]
    for found in changed:
        is_it = and_(
            table.c.deployment_id == deployment_id, table.c.graph_id == found.graph, table.c.config == found.config
        )
        values = {
            "assistant_id": found.assistant_id,
            "edited_at": found.edited_at,
            "revision_id": found.revision_id,
            "drawn_at": found.drawn_at,
        }
        if (found.graph, found.config) in known:
            await connection.execute(update(table).where(is_it).values(values))
        else:
            await connection.execute(
                insert(table).values(deployment_id=deployment_id, graph_id=found.graph, config=found.config, **values)
            )
    for graph in graphs:
        await _distrust(connection, deployment_id, graph, [found for found in drawings if found.graph == graph])


async def _distrust(connection: AsyncConnection, deployment_id: int, graph: str, drawings: Sequence[Drawing]) -> None:
    """Of a graph that is not drawn the same with every configuration: readings under a deployed revision that is not the one
    of the thread's configuration prove nothing."""
    revisions = [found for found in await reads.list_revisions(connection, deployment_id) if found.graph == graph]
    deployed = [found.id for found in revisions if found.vanished_at is None]
    varies = any(found.variant is not None for found in revisions)
    if not varies and all(found.revision_id is not None for found in drawings):
        return
    thread = tables.thread
    right: dict[int, list[str]] = {revision_id: [] for revision_id in deployed}
    for found in drawings:
        if found.revision_id is not None:
            right.setdefault(found.revision_id, []).append(found.config)
    undrawn = [found.config for found in drawings if found.revision_id is None]
    for revision_id, configs in right.items():
        wrong = (
            or_(thread.c.config.is_(None), not_(thread.c.config.in_(configs)))
            if varies
            else thread.c.config.in_(undrawn)
        )
        await connection.execute(
            update(thread)
            .where(thread.c.deployment_id == deployment_id, thread.c.graph_id == graph)
            .where(thread.c.revision_id == revision_id, wrong)
            .values(revision_id=None)
        )
