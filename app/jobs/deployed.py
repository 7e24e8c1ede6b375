"""Which graphs are deployed now, and how each configuration draws them.

A graph may be made anew for each configuration. The server draws a thread's state with the configuration that the thread
keeps, so drawings are kept by configuration and not by assistant: hundreds of assistants, one drawing. A sweep draws every
configuration once, up to a limit; a scan only those that are new, and one for each drawing that is known.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from app.facts.types import Topology
from app.inventory.revisions import Drawn
from app.inventory.views import Drawing, RevisionSummary
from app.jobs.readings import gather
from app.sources.agent_server.client import AgentServer, Assistant, Deployed

MAX_DRAWINGS = 500  # a sweep
MAX_NEW_DRAWINGS = 50  # a scan
_NEVER = datetime.min.replace(tzinfo=UTC)


def unchanged(deployed: Deployed, revisions: Collection[RevisionSummary]) -> bool:
    """Whether the same graphs are deployed as were stored."""
    stored = {found.graph for found in revisions if found.vanished_at is None and found.variant is None}
    return {found.graph_id for found in deployed.graphs} == stored


def restarted(deployed: Deployed, drawings: Iterable[Drawing]) -> set[str]:
    """Graphs whose own assistant was written anew since it was last drawn: the server has started, maybe with other code."""
    known = {found.assistant_id: found.edited_at for found in drawings}
    return {
        found.graph_id for found in deployed.graphs if known.get(found.assistant_id, found.edited_at) != found.edited_at
    }


async def looks_the_same(
    server: AgentServer, deployed: Deployed, revisions: Collection[RevisionSummary], drawings: Collection[Drawing], *,
    graphs: Collection[str],
) -> bool:  # fmt: skip
    """Whether one configuration of every drawing of these graphs still gives the same drawing."""
    now = {(found.graph_id, found.config): found for found in (*deployed.graphs, *deployed.others)}
    asked: list[tuple[Assistant, str]] = []
    for revision in revisions:
        if revision.vanished_at is not None or revision.graph not in graphs:
            continue
        if revision.variant is None:
            found = next((found for found in deployed.graphs if found.graph_id == revision.graph), None)
        else:
            configs = [each.config for each in drawings if each.revision_id == revision.id]
            found = next((now[revision.graph, one] for one in configs if (revision.graph, one) in now), None)
        if found is not None:
            asked.append((found, revision.xray_hash))
    hashes = await gather(server.drawing_hash(assistant) for assistant, _ in asked)
    return all(found == expected for found, (_, expected) in zip(hashes, asked, strict=True))


async def draw_all(
    server: AgentServer, deployed: Deployed, drawings: Collection[Drawing], revisions: Collection[RevisionSummary]
) -> tuple[list[Drawn], dict[Assistant, str]]:
    """Every graph as its own assistant draws it, and each other drawing that a configuration makes of it; and the hash of the
    drawing by assistant, as far as the limit goes, what was drawn longest ago first."""
    own = await gather(server.topology(assistant) for assistant in deployed.graphs)
    drawn_at = {(found.graph, found.config): found.drawn_at or _NEVER for found in drawings}
    turn = sorted(deployed.others, key=lambda found: drawn_at.get((found.graph_id, found.config), _NEVER))
    turn = turn[:MAX_DRAWINGS]
    hashes = dict(zip(turn, await gather(server.drawing_hash(each) for each in turn), strict=True))
    hashes |= {assistant: each.xray_hash for assistant, each in zip(deployed.graphs, own, strict=True)}
    of_graph = {each.graph_id: each for each in own}
    groups = _groups(deployed, hashes, of_graph)
    others = await gather(server.topology(group[0]) for group in groups)
    mine = {assistant.graph_id: assistant.config for assistant in deployed.graphs}
    drawn = [Drawn(each, None, frozenset({mine[each.graph_id]})) for each in own]
    for group, topology in zip(groups, others, strict=True):
        configs = frozenset(assistant.config for assistant in group)
        drawn.append(Drawn(topology, _variant(group, configs, revisions), configs))
    return drawn, hashes


def _groups(deployed: Deployed, hashes: Mapping[Assistant, str], own: Mapping[str, Topology]) -> list[list[Assistant]]:
    """Assistants by drawing, those that draw as the graph's own assistant aside."""
    groups: dict[tuple[str, str], list[Assistant]] = {}
    for assistant in deployed.others:
        found = hashes.get(assistant)
        if found is not None and found != own[assistant.graph_id].xray_hash:
            groups.setdefault((assistant.graph_id, found), []).append(assistant)
    return list(groups.values())


def _variant(group: Collection[Assistant], configs: Collection[str], revisions: Iterable[RevisionSummary]) -> str:
    """The name of a line of revisions: one of its configurations, the one it had before where that is still among them."""
    graph = next(iter(group)).graph_id
    before = {found.variant for found in revisions if found.graph == graph and found.variant in configs}
    return min(found for found in before or configs if found is not None)


def drawings_of(
    deployed: Deployed,
    hashes: Mapping[Assistant, str],
    revisions: Collection[RevisionSummary],
    drawings: Collection[Drawing],
    *,
    forget: Collection[str],
    now: datetime,
) -> list[Drawing]:
    """Which revision each configuration stands for. What was not drawn now keeps what it had, but in graphs to ``forget``:
    those may have changed."""
    known = {(found.graph, found.config): found for found in drawings}
    alive = {(found.graph, found.xray_hash): found.id for found in revisions if found.vanished_at is None}
    alive |= {
        (found.graph, found.xray_hash): found.id
        for found in revisions
        if found.vanished_at is None and found.variant is None
    }
    ids = set(alive.values())
    result = []
    for assistant in (*deployed.graphs, *deployed.others):
        before = known.get((assistant.graph_id, assistant.config))
        made = Drawing(assistant.graph_id, assistant.config, assistant.assistant_id, assistant.edited_at, None, None)
        if assistant in hashes:
            made = replace(made, revision_id=alive.get((assistant.graph_id, hashes[assistant])), drawn_at=now)
        elif before is not None and assistant.graph_id not in forget and before.revision_id in ids:
            made = replace(made, revision_id=before.revision_id, drawn_at=before.drawn_at)
        result.append(made)
    return result
