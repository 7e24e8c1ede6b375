"""What the page of a deploy says first: who was hit, and what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from app.drains.sentences import names
from app.inventory.views import Deploy, DeploymentStatus, GraphChange, RevisionSummary
from app.web import paths
from app.web.graph_picture import GraphPicture, Href, NodeTotals, draw_graph

FATES: Mapping[str, str] = {
    "stranded": "It waits at a node that the deployed graph does not schedule; nobody has answered yet",
    "lost": "A run went past what it waited for without doing it",
    "unreadable": "Its graph is not deployed, or its state cannot be read",
    "not_read": "Its state was not read since, or cannot be trusted as current",
    "waiting": "It waits there again: the node was put back",
    "unexplained": "It waits there no more, and its history does not tell why",
    "gone": "The server no longer has it",
    "taken_over": "A new input, an update or time travel took its place",
    "completed": "It was answered, and the node ran",
}
TONES: Mapping[str, str] = {
    "stranded": "bad",
    "lost": "bad",
    "unreadable": "bad",
    "not_read": "unsure",
    "unexplained": "unsure",
}


@dataclass(frozen=True, slots=True)
class Said:
    """The headline of a deploy. ``steps``: what to do, and whether doing it twice harms nothing."""

    tone: Literal["bad", "unsure", "quiet"]
    word: str
    sentence: str
    steps: tuple[tuple[str, bool], ...] = ()


def headline(deploy: Deploy) -> Said:
    """The worst that became of the threads that this deploy met."""
    where, is_one = _where(deploy), _is_one(deploy)
    removed, back = ("it", "it") if is_one else ("them", "the nodes")
    hit = {fate: deploy.fates.get(fate, 0) for fate in FATES}
    if hit["stranded"]:
        it = "it" if hit["stranded"] == 1 else "them"
        return Said(
            "bad",
            "stranded",
            f"{_threads(hit['stranded'])} waited at {where} when this deploy removed {removed}. "
            f"If anyone answers {it} now, the answer is lost.{_also_lost(hit['lost'])}",
            (
                (f"Put {back} back and deploy: what is stranded then waits there again.", True),
                (f"Or take {it} over by hand, one by one: the list is below.", False),
            ),
        )
    if hit["lost"]:
        return Said(
            "bad",
            "lost",
            f"{_threads(hit['lost'])} waited at {where} when this deploy removed {removed}, and a run went past: what "
            f"{'it' if hit['lost'] == 1 else 'they'} waited for was never done.",
            (("Decide for each what the lost step should have done, and do it by hand.", False),),
        )
    if hit["unreadable"]:
        return Said(
            "bad",
            "unreadable",
            f"{_threads(hit['unreadable'])} waited at {where}; since this deploy nobody can read "
            f"{'it' if hit['unreadable'] == 1 else 'them'} or go on there.",
            (("Deploy the graph again: what waits in it is untouched.", True),),
        )
    if hit["not_read"]:
        were = "was" if hit["not_read"] == 1 else "were"
        sentence = f"{_threads(hit['not_read'])} waited at {where} when this deploy removed {removed}, and {were} not read since."
        return Said("unsure", "not known", sentence, (("Sweep everything, and look here again.", True),))
    if deploy.threads:
        sentence = f"{_threads(deploy.threads)} waited at {where}. Nobody is cut off any more: see what became of each."
        return Said("quiet", "nobody left", sentence)
    if any(change.nodes_removed for change in deploy.changes):
        return Said("quiet", "nobody hit", f"No thread was seen waiting at {where} when this deploy removed {removed}.")
    return Said("quiet", "nothing removed", "This deploy removed no node, so nobody was cut off.")


def pictures(deploy: Deploy, deployment: DeploymentStatus) -> tuple[GraphPicture, ...]:
    """The changed graphs as this deploy left them, with what it removed below."""
    found = []
    for change in deploy.changes:
        revision = _revision(deployment, change.graph, change.after)
        news = _news(change, _revision(deployment, change.graph, change.before), revision)
        if revision is not None and (news or change.nodes_removed):
            href = _href(deployment.name)
            found.append(draw_graph(revision, NodeTotals({}, {}), change.nodes_removed, href, news=news))
    return tuple(found)


def _news(change: GraphChange, before: RevisionSummary | None, after: RevisionSummary | None) -> dict[str, str]:
    """What a deploy did to the nodes that are there: new, or changed, which means that other edges lead to or from it, or that
    it waits for others than before."""
    if before is None or after is None:
        return {}
    kept = set(before.nodes) & set(after.nodes)
    changed = {node for node in kept if _around(before, node) != _around(after, node)}
    return {**dict.fromkeys(sorted(changed), "changed"), **dict.fromkeys(change.nodes_added, "new")}


def _around(revision: RevisionSummary, node: str) -> tuple[set[tuple[str, str, bool]], bool, bool]:
    edges = {edge for edge in revision.edges if node in edge[:2]}
    return edges, node in revision.joins, node in revision.deferred


def _revision(deployment: DeploymentStatus, graph: str, wanted: str | None) -> RevisionSummary | None:
    return next((each for each in deployment.revisions if (each.graph, each.hash) == (graph, wanted)), None)


def _href(deployment: str) -> Href:
    def href(node: str, condition: str | None) -> str:
        filters = {"pending": node} | ({"condition": condition} if condition else {})
        return paths.threads_path(deployment, **filters)

    return href


def _where(deploy: Deploy) -> str:
    gone = [change.graph for change in deploy.changes if change.kind == "vanished"]
    if gone:
        return f"the graph{'s' if len(gone) > 1 else ''} {', '.join(f'`{graph}`' for graph in gone)}"
    nodes = list(dict.fromkeys(node for change in deploy.changes for node in change.nodes_removed))
    return (
        names(nodes) if len(nodes) <= 3 else f"{', '.join(f'`{node}`' for node in nodes[:3])} and {len(nodes) - 3} more"
    )


def _is_one(deploy: Deploy) -> bool:
    """Whether it removed one thing: a graph, or a node."""
    gone = [change.graph for change in deploy.changes if change.kind == "vanished"]
    return len(gone or {node for change in deploy.changes for node in change.nodes_removed}) <= 1


def _also_lost(count: int) -> str:
    return f" {_threads(count)} lost {'its' if count == 1 else 'their'} answer already." if count else ""


def _threads(count: int) -> str:
    return f"{count:,} thread" if count == 1 else f"{count:,} threads"
