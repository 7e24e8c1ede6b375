"""Topologies that the application pushed, and what each graph revision looks like with what they tell.

A pushed topology belongs to a revision that draws the same nodes and edges. Until it is deployed, or after, it belongs to none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.candidates import Candidate, from_json, to_json, type_from_json
from app.facts.types import FieldType
from app.inventory import tables

KEPT = 20  # of one graph
_JOINED = "joined_before"

_table = tables.topology


@dataclass(frozen=True, slots=True)
class Pushed:
    """A topology as it was pushed. ``joined_before``: nodes that were joins by others that drew the same: a thread may still
    wait there, and a topology may be pushed before it is deployed."""

    candidate: Candidate
    pushed_at: datetime
    actor: str
    joined_before: frozenset[str] = frozenset()

    @property
    def joins(self) -> frozenset[str]:
        """Nodes that are joins by this topology, or were by an earlier one."""
        return self.joined_before | {target for _, target in self.candidate.joins}


async def keep_topologies(
    connection: AsyncConnection, deployment_id: int, candidates: Iterable[Candidate], *, actor: str, now: datetime
) -> None:
    """Store them; one that looks the same as another of its graph takes its place."""
    known = await list_pushed(connection, deployment_id)
    for candidate in candidates:
        before = known.get((candidate.graph, candidate.drawn))
        mine = and_(_table.c.deployment_id == deployment_id, _table.c.graph_id == candidate.graph)
        await connection.execute(delete(_table).where(mine, _table.c.drawn == candidate.drawn))
        await connection.execute(
            insert(_table).values(
                deployment_id=deployment_id,
                graph_id=candidate.graph,
                drawn=candidate.drawn,
                content=to_json(candidate) | {_JOINED: sorted(before.joins if before is not None else ())},
                pushed_at=now,
                actor=actor,
            )
        )
        newest = select(_table.c.drawn).where(mine).order_by(_table.c.pushed_at.desc(), _table.c.drawn).limit(KEPT)
        kept = list((await connection.execute(newest)).scalars())
        await connection.execute(delete(_table).where(mine, _table.c.drawn.not_in(kept)))


async def list_pushed(connection: AsyncConnection, deployment_id: int) -> Mapping[tuple[str, str], Pushed]:
    """The topologies that were pushed, by graph and by what they draw."""
    query = select(_table).where(_table.c.deployment_id == deployment_id).order_by(_table.c.graph_id, _table.c.drawn)
    return {
        (row.graph_id, row.drawn): Pushed(
            from_json(row.graph_id, row.content), row.pushed_at, row.actor, frozenset(row.content.get(_JOINED, ()))
        )
        for row in await connection.execute(query)
    }


@dataclass(frozen=True, slots=True)
class Declared:
    """What the server told of a revision's state fields: what each takes, which an input must have, and what those of each
    subgraph take (None: it did not tell)."""

    types: Mapping[str, FieldType]
    required: frozenset[str]
    inner_types: Mapping[str, Mapping[str, FieldType]] | None


async def list_declared(connection: AsyncConnection, deployment_id: int) -> dict[int, Declared]:
    """What the server told of the state fields, by revision."""
    table = tables.graph_revision
    query = select(table.c.id, table.c.topology).where(table.c.deployment_id == deployment_id).order_by(table.c.id)
    return {
        row.id: Declared(
            _types(row.topology.get("types", {})),
            frozenset(row.topology.get("required", ())),
            _inner_types(row.topology.get("inner_types")),
        )
        for row in await connection.execute(query)
    }


def _inner_types(raw: Mapping[str, Any] | None) -> Mapping[str, Mapping[str, FieldType]] | None:
    return None if raw is None else {path: _types(fields) for path, fields in raw.items()}


def _types(raw: Mapping[str, Any]) -> Mapping[str, FieldType]:
    return {name: type_from_json(one) for name, one in raw.items()}
