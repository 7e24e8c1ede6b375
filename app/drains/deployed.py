"""Whether what a drain names is deployed, when it went, and what a deploy changed of it. Pure.

A target is looked for in the graph revisions: a node by its path, a field by its name in the graph's state. Without it, the
server shows nothing of threads that still need it; of an erasure neither, since an input that has the field is then stored
whole, under no name of its own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from app.drains.spec import DrainSpec, Target
from app.facts.topology import UNREADABLE, at_or_below
from app.inventory.views import RevisionSummary


def deployed_targets(spec: DrainSpec, revisions: Iterable[RevisionSummary]) -> dict[str, bool | None]:
    """Whether each target is deployed now, in any configuration of its graph, by its key; None while the graph was never seen,
    or cannot be drawn."""
    of_graph = [found for found in revisions if found.graph == spec.graph]
    current = [found for found in of_graph if found.vanished_at is None]
    sought = spec.targets
    drawn = [found for found in current if found.xray_hash != UNREADABLE]
    if not of_graph or (current and not drawn):
        return {target.key: None for target in sought}
    absent = None if len(drawn) < len(current) else False  # a drawing that cannot be read may have it
    return {target.key: any(_has(found, target) for found in drawn) or absent for target in sought}


def _has(revision: RevisionSummary, target: Target) -> bool:
    """A graph that declares no fields shows all that is stored."""
    if target.kind == "node":
        return target.name in revision.nodes
    return not revision.fields or target.name in revision.fields


def removed_targets(
    spec: DrainSpec,
    revisions: Sequence[RevisionSummary],
    before: Mapping[str, datetime],
    *,
    was_drained: bool,
    now: datetime,
) -> dict[str, datetime]:
    """When each target was removed, for those that went while the drain was drained. Deployed again, it counts no more."""
    found = {}
    for key, is_deployed in deployed_targets(spec, revisions).items():
        if key in before and is_deployed is not True:
            found[key] = before[key]
        elif is_deployed is False and was_drained:
            found[key] = _last_seen(spec, key, revisions) or now
    return found


def _last_seen(spec: DrainSpec, key: str, revisions: Iterable[RevisionSummary]) -> datetime | None:
    """When the last revision of the graph that had a target was replaced or went."""
    targets = [target for target in spec.targets if target.key == key]
    had = [found for found in revisions if found.graph == spec.graph and any(_has(found, each) for each in targets)]
    return max((found.vanished_at for found in had if found.vanished_at is not None), default=None)


def nodes_by_revision(
    spec: DrainSpec, revisions: Iterable[RevisionSummary], removed: Mapping[str, datetime]
) -> dict[int, frozenset[str]]:
    """The paths of every revision. After a removal that was safe, nothing can be pending at what is no longer there."""
    nodes = [target for target in spec.targets if target.kind == "node"]
    return {found.id: frozenset(found.nodes) | _went_before(spec, found, nodes, removed) for found in revisions}


def fields_by_revision(
    spec: DrainSpec, revisions: Iterable[RevisionSummary], removed: Mapping[str, datetime]
) -> dict[int, frozenset[str]]:
    """The state fields of every revision; none where it declares none. The same for what was safely removed."""
    fields = [target for target in spec.targets if target.kind not in ("node", "erase")]
    return {
        found.id: frozenset(found.fields)
        | (_went_before(spec, found, fields, removed) if found.fields else frozenset())
        for found in revisions
    }


def _went_before(
    spec: DrainSpec, revision: RevisionSummary, targets: Collection[Target], removed: Mapping[str, datetime]
) -> frozenset[str]:
    if revision.graph != spec.graph:
        return frozenset()
    return frozenset(
        target.name for target in targets if target.key in removed and revision.first_seen_at >= removed[target.key]
    )


def touched_at(spec: DrainSpec, revisions: Iterable[RevisionSummary], *, since: datetime | None) -> datetime | None:
    """When the last deploy after ``since`` was noticed that changed what a target is: its node, the nodes below, its
    joins, or a field. None: there was none."""
    if since is None:
        return None
    of_graph = sorted((found for found in revisions if found.graph == spec.graph), key=lambda found: found.id)
    times: list[datetime] = []
    for variant in {found.variant for found in of_graph}:
        line = [found for found in of_graph if found.variant == variant]
        times += [
            after.first_seen_at
            for before, after in pairwise([None, *line])
            if after is not None and after.first_seen_at > since and _is_other_target(spec, before, after)
        ]
        times += [
            found.vanished_at for found in line[-1:] if found.vanished_at is not None and found.vanished_at > since
        ]
    return max(times, default=None)


def _is_other_target(spec: DrainSpec, before: RevisionSummary | None, after: RevisionSummary) -> bool:
    if before is None:  # the first of its line: it touches what it has
        return any(at_or_below(found, node) for found in after.nodes for node in spec.nodes)
    fields = set(spec.fields)
    if fields & set(before.fields) != fields & set(after.fields):
        return True
    return any(_around(before, node) != _around(after, node) for node in spec.nodes)


def _around(revision: RevisionSummary, node: str) -> tuple[frozenset[str], ...]:
    return tuple(
        frozenset(found for found in group if at_or_below(found, node))
        for group in (revision.nodes, revision.joins, revision.deferred)
    )
