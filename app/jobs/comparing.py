"""A deploy beside what was there a moment before: the comparison that a preflight makes, with what the server draws now."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.jsonable import to_jsonable
from app.drains.preflight import compare, drawn_joins
from app.drains.preflight_outcomes import Outcome
from app.drains.preflights import read_deployed, weigh
from app.drains.sentences import threads
from app.facts.candidates import Candidate, CandidateField, drawn_hash
from app.facts.topology import UNREADABLE
from app.facts.types import Topology
from app.inventory.deploys import find_last_comparison
from app.inventory.revisions import Drawn
from app.inventory.store import Store
from app.inventory.topologies import Pushed, list_pushed
from app.settings import DeploymentSettings

STANDS = timedelta(days=1)
MOST = 200
_NAMED_ELSEWHERE = (Outcome.WOULD_STRAND, Outcome.WOULD_DROP_SEND)  # by the nodes that went, for as long as it lasts


async def compare_deploy(
    connection: AsyncConnection,
    store: Store,
    deployment_id: int,
    settings: DeploymentSettings,
    drawn: Collection[Drawn],
    *,
    now: datetime,
) -> list[dict[str, Any]] | None:
    """What the graphs that are drawn now change for the threads as they were last seen; None at the first look, where nothing
    was known before. Call it before what is drawn is kept."""
    before = await read_deployed(connection, deployment_id)
    if not before:
        return None
    after = _candidates(drawn, await list_pushed(connection, deployment_id))
    broken = {each.topology.graph_id for each in drawn} - set(after)
    known = {graph: found for graph, found in before.items() if graph not in broken}
    changes = [change for change in compare(known, after, is_whole=True) if not change.kind.is_unseen]
    if not changes:
        return []
    answers, _ = await weigh(connection, store, deployment_id, settings, changes, now=now)
    return [_kept(one) for one in answers[:MOST]]


def _kept(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = to_jsonable(answer)
    return found


def _candidates(drawn: Iterable[Drawn], pushed: Mapping[tuple[str, str], Pushed]) -> dict[str, Candidate]:
    """The graphs as they are drawn now, over all configurations; one that cannot be drawn is left out."""
    by_graph: dict[str, list[Topology]] = {}
    for each in drawn:
        by_graph.setdefault(each.topology.graph_id, []).append(each.topology)
    return {
        graph: _candidate(graph, found, pushed)
        for graph, found in by_graph.items()
        if all(one.xray_hash != UNREADABLE for one in found)
    }


def _candidate(graph: str, found: Sequence[Topology], pushed: Mapping[tuple[str, str], Pushed]) -> Candidate:
    """What was pushed of exactly this graph; otherwise what a drawing shows, which does not tell what nodes refuse."""
    nodes = frozenset(node for one in found for node in one.nodes)
    edges = frozenset(edge for one in found for edge in one.edges)
    if (said := pushed.get((graph, drawn_hash(nodes, edges)))) is not None:
        return said.candidate
    own = found[0]
    fields = {name: CandidateField(own.types[name]) for name in own.types if all(name in one.fields for one in found)}
    looks = not own.fields and all("/" not in node for node in nodes) and len(nodes) == 1
    return Candidate(
        graph=graph,
        kind="entrypoint" if looks else "graph",
        nodes=nodes,
        edges=edges,
        joins=frozenset(drawn_joins(edges)),
        deferred=frozenset(node for one in found for node in one.deferred),
        fields=fields,
    )


async def broken_by_deploy(connection: AsyncConnection, deployment_id: int, *, now: datetime) -> tuple[str, int] | None:
    """What the newest deploy of the last day is known to have broken, strandings aside: a sentence, and how many threads."""
    deploy = await find_last_comparison(connection, deployment_id, since=now - STANDS)
    worst = [one for one in (deploy.comparison if deploy else None) or () if _is_broken(str(one["outcome"]))]
    if deploy is None or not worst:
        return None
    count = sum(int(str(one["count"])) for one in worst)
    said = f"The deploy of {deploy.noticed_at:%-d %b, %H:%M} UTC touched {threads(count)}. {worst[0]['sentence']}"
    return said[:500], count


def _is_broken(outcome: str) -> bool:
    return Outcome(outcome).breaks and Outcome(outcome) not in _NAMED_ELSEWHERE
