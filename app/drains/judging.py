"""Judges what a class of threads means for a drain (design §4.2). Pure.

Nothing here is ever clear by default: what was not shown to be clear is unknown. What excludes a thread from one target
only (its loss was acknowledged, it is past retention) never hides that it blocks for another.
"""

from collections.abc import Collection, Iterable

from app.drains.dispositions import Disposition, Finding, Standing, not_known
from app.drains.entered import never_entered
from app.drains.fields import judge_field
from app.drains.spec import Target
from app.drains.subjects import Rules, Subject, WorkLeaf
from app.drains.waiting import waits_unseen
from app.facts.topology import at_or_below
from app.facts.types import Condition

_AT_REST = frozenset({Condition.SETTLED, Condition.PARKED, Condition.FAILED})


def judge(subject: Subject, targets: Collection[Target], rules: Rules) -> Standing:
    """What a subject means for a drain, over all targets."""
    by_target = {target.key: _for_target(subject, target, rules) for target in targets}
    return Standing(_overall(by_target.values()), by_target)


def _overall(findings: Iterable[Finding]) -> Finding:
    """The worst of what counts; what is excluded from every target that it is not clear for is excluded."""
    found = sorted(findings, key=lambda finding: finding.disposition.rank)
    counting = [finding for finding in found if finding.disposition.group in ("blocking", "unknown")]
    return (counting or found)[0]


def _for_target(subject: Subject, target: Target, rules: Rules) -> Finding:
    if subject.condition is Condition.GONE:
        return Finding(Disposition.GONE)
    if subject.is_waived:
        return Finding(Disposition.WAIVED)
    found = _standing_at(subject, target, rules)
    if _is_past_retention(subject, target) and found.disposition.group in ("blocking", "clear"):
        return Finding(Disposition.RETENTION)
    return found


def _is_past_retention(subject: Subject, target: Target) -> bool:
    """Settled and idle beyond the rule. An erasure is about what is stored, however old: no retention there."""
    return subject.is_past_retention and subject.condition is Condition.SETTLED and target.kind != "erase"


def _standing_at(subject: Subject, target: Target, rules: Rules) -> Finding:
    match subject.condition:
        case Condition.GRAPH_MISSING:
            return Finding(Disposition.GRAPH_MISSING)
        case Condition.UNREADABLE:
            return Finding(Disposition.UNREADABLE)
        case Condition.NEVER_RAN:
            return Finding(Disposition.UNAFFECTED)
    if target.kind == "node":
        return _node(subject, target.name, rules)
    return judge_field(subject, target, rules)


def _node(subject: Subject, node: str, rules: Rules) -> Finding:
    hits = [leaf for leaf in subject.work.leaves if at_or_below(leaf.node, node)]
    open_hits = [leaf for leaf in hits if leaf.scheduled or not leaf.acknowledged]
    if open_hits:
        return Finding(_hit(subject.condition, open_hits))
    if subject.condition in (Condition.UNREAD, Condition.UNPLACED):
        return not_known(Disposition(subject.condition.value))
    if not hits and (subject.condition is Condition.PRESUMED_SETTLED or not _read_with(subject, node, rules)):
        settled = subject.condition in (Condition.SETTLED, Condition.PRESUMED_SETTLED)
        return not_known(Disposition.PRESUMED if settled else Disposition.UNREAD)
    if subject.condition is Condition.RUNNING and (not subject.reading_is_current or _inside_unseen(subject, node)):
        return not_known(Disposition.RUNNING_UNSEEN)
    if subject.work.half_step:
        return Finding(Disposition.MAY_HOLD_TARGET, "half_step_unseen")
    if _inside_unseen(subject, node) or _may_wait(subject, node, rules):
        return Finding(Disposition.MAY_HOLD_TARGET, "deferred_unseen")
    return Finding(Disposition.ACKNOWLEDGED if hits else Disposition.UNAFFECTED)


def _hit(condition: Condition, leaves: Collection[WorkLeaf]) -> Disposition:
    """A pending leaf at the target. A hit that is only remembered counts as much as one that is seen."""
    match condition:
        case Condition.STRANDED | Condition.LOST if any(not leaf.scheduled for leaf in leaves):
            return Disposition(condition.value)
        case Condition.RUNNING:
            return Disposition.RUNNING_AT_TARGET
        case Condition.SCHEDULED:
            return Disposition.SCHEDULED_AT_TARGET
        case _ if any(leaf.failed for leaf in leaves):
            return Disposition.FAILED_AT_TARGET
        case _:
            return Disposition.PARKED_AT_TARGET


def _read_with(subject: Subject, node: str, rules: Rules) -> bool:
    """Whether the state was read under a revision that has the node's whole path; without it, ``next`` is blind. Of a graph
    that each configuration draws its own way, storage can show that the thread was never sent there; of one that was
    deployed anew it cannot: a step that was half done then has stored no route yet."""
    if rules.varies and subject.condition in _AT_REST and never_entered(subject, node):
        return True
    return subject.revision_id is not None and node in rules.revision_nodes.get(subject.revision_id, ())


def _inside_unseen(subject: Subject, node: str) -> bool:
    """Whether a pending task has a subgraph that could not be seen, in which the target may be."""
    return any(leaf.inside_unseen and at_or_below(node, leaf.node) for leaf in subject.work.leaves)


def _may_wait(subject: Subject, node: str, rules: Rules) -> bool:
    """Whether the target, or a node below it, is a join or deferred and may be scheduled where no view shows it."""
    return waits_unseen(subject, rules, {path for path in rules.joins | rules.deferred if at_or_below(path, node)})
