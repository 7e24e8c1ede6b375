"""Whether a node may be scheduled where no view of a thread shows it: at a join, or deferred. Pure."""

from collections.abc import Collection

from app.drains.subjects import Rules, Subject


def waits_unseen(subject: Subject, rules: Rules, nodes: Collection[str]) -> bool:
    """Whether one of these joins and deferred nodes may wait. Storage, where it was read, shows that none does."""
    joins, deferred = rules.joins.intersection(nodes), rules.deferred.intersection(nodes)
    if not joins and not deferred:
        return False
    if subject.routes is None:
        return True
    routes = subject.routes
    waits_at_join = any(_last(path) in routes.joins for path in (joins | deferred) - routes.empty)
    return waits_at_join or any(_last(path) in routes.branches for path in deferred - routes.empty)


def root_nodes(rules: Rules) -> frozenset[str]:
    """The joins and deferred nodes of the root. Those of a subgraph wait only while a task of the root does, which shows."""
    return frozenset(path for path in rules.joins | rules.deferred if "/" not in path)


def _last(path: str) -> str:
    return path.rpartition("/")[2]
