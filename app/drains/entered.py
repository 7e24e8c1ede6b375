"""What storage shows of a thread: whether it ever entered a node, whatever graph is deployed. Pure."""

from collections.abc import Collection

from app.drains.subjects import Subject
from app.facts.topology import at_or_below
from app.facts.types import Condition


def entered(subject: Subject, node: str) -> bool:
    """Whether a thread is at a target, or its storage shows a route to it."""
    if any(at_or_below(leaf.node, node) for leaf in subject.work.leaves):
        return True
    name = node.rpartition("/")[2]
    return subject.routes is not None and (name in subject.routes.branches or name in subject.routes.joins)


def shown_not_entered(subject: Subject, nodes: Collection[str]) -> bool:
    """A thread that is gone or never ran does not count; of others storage must show no route, and ``Send`` leaves no
    name. A run that writes at its end only stores nothing of a subgraph, so of an inner node the outermost one counts."""
    if subject.condition in (Condition.GONE, Condition.NEVER_RAN):
        return True
    if subject.routes is None or subject.routes.sends:
        return False
    return not any(entered(subject, node.partition("/")[0]) for node in nodes if "/" in node)


def never_entered(subject: Subject, node: str) -> bool:
    """Whether storage shows that a thread was never sent to a node. Then it does not wait there, although the configuration
    of the graph that it was read under does not draw the node. A graph that stores no route at all, as an entrypoint, shows
    nothing by it."""
    routes = subject.routes
    if routes is None or routes.sends or not routes.branches or subject.revision_id is None:
        return False
    return not entered(subject, node)
