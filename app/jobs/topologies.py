"""Topologies that an application pushes after it was deployed: stored, and compared with what its server draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.drains.preflights import read_deployed
from app.drains.register import By
from app.facts.candidates import Candidate, drawn_hash
from app.inventory import reads, register, writes
from app.inventory.topologies import keep_topologies
from app.jobs.runtime import Runtime


@dataclass(frozen=True, slots=True)
class PushedGraph:
    """One graph of a pushed topology. ``matches``: the server draws the same; None: it was not drawn since."""

    graph: str
    matches: bool | None
    joins: int
    deferred: int
    sentence: str


@dataclass(frozen=True, slots=True)
class TopologyTaken:
    """What became of a pushed topology."""

    deployment: str
    pushed_at: datetime
    graphs: tuple[PushedGraph, ...]


async def take_topology(
    runtime: Runtime, deployment: str, candidates: Mapping[str, Candidate], by: By
) -> TopologyTaken:
    """Keep what an application says of its graphs. The same push twice is harmless. Raises ``NotFound``."""
    runtime.deployment(deployment)
    async with runtime.store.database.write() as connection:
        deployment_id = await writes.ensure_deployment(connection, deployment, by.now)
        await keep_topologies(connection, deployment_id, candidates.values(), actor=by.actor, now=by.now)
        await register.add_activity(
            connection,
            deployment_id,
            now=by.now,
            actor=by.actor,
            action="topology.pushed",
            subject=deployment,
            detail={"graphs": sorted(candidates)},
        )
        deployed = {
            (one.graph, drawn_hash(one.nodes, one.edges))
            for one in await reads.list_revisions(connection, deployment_id)
            if one.vanished_at is None
        }
        known = await read_deployed(connection, deployment_id)
    graphs = tuple(_pushed(one, deployed, is_known=one.graph in known) for _, one in sorted(candidates.items()))
    return TopologyTaken(deployment, by.now, graphs)


def _pushed(candidate: Candidate, deployed: set[tuple[str, str]], *, is_known: bool) -> PushedGraph:
    matches = (candidate.graph, candidate.drawn) in deployed if is_known else None
    return PushedGraph(candidate.graph, matches, len(candidate.joins), len(candidate.deferred), _SENTENCES[matches])


_SENTENCES = {
    True: "The server draws the same: its joins and deferred nodes are now known exactly.",
    False: "It is of another version than the one that was last drawn. It counts as soon as the server draws the same.",
    None: "The server was not seen to have this graph yet. It counts as soon as it draws the same.",
}
