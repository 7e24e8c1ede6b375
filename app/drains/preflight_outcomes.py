"""What a change of a candidate means for a class of threads, as it was measured on the real server. Pure.

Nothing is safe by default: a class of threads that was not shown to be untouched is unknown.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from app.drains.dispositions import Disposition, Finding
from app.drains.judging import judge
from app.drains.preflight import Change, ChangeKind, may_be_taken
from app.drains.spec import Target
from app.drains.subjects import Routes, Rules, Subject, WorkLeaf
from app.drains.waiting import waits_unseen
from app.facts.topology import at_or_below
from app.facts.types import Condition, FieldFact, Kind, Presence


class Outcome(StrEnum):
    """The worst first; what is not known after what is known to break."""

    WOULD_STRAND = "would_strand"
    WOULD_DROP_SEND = "would_drop_send"
    WOULD_FAIL_TO_LOAD = "would_fail_to_load"
    WOULD_HIDE = "would_hide"
    MAY_STRAND = "may_strand"
    UNKNOWN = "unknown"
    SAFE = "safe"

    @property
    def breaks(self) -> bool:
        """Whether it is known to break something."""
        return self.value.startswith("would_")


_NOT_READ = frozenset({Condition.UNREAD, Condition.UNPLACED, Condition.GRAPH_MISSING, Condition.UNREADABLE})
_UNREAD = _NOT_READ | {Condition.PRESUMED_SETTLED}
_HOLDS_MORE = _NOT_READ | {Condition.STRANDED, Condition.LOST}  # than the deployed graph shows
_NO_STATE = frozenset({Condition.GRAPH_MISSING, Condition.UNREADABLE})
_NOTHING = frozenset({Condition.GONE, Condition.NEVER_RAN})
_HITS = frozenset(found for found in Disposition if found.group == "blocking")


def outcome_of(change: Change, subject: Subject, rules: Rules) -> Outcome:
    """What a change means for threads that look like this."""
    if subject.condition in _NOTHING or change.is_addition:
        return Outcome.SAFE
    return _RULES.get(change.kind, _inside)(change, subject, rules)


def _graph_removed(change: Change, subject: Subject, rules: Rules) -> Outcome:  # noqa: ARG001 - every rule is asked the same
    return Outcome.WOULD_FAIL_TO_LOAD


def _graph_unreadable(change: Change, subject: Subject, rules: Rules) -> Outcome:  # noqa: ARG001
    return Outcome.UNKNOWN


def _breakpoint_changed(change: Change, subject: Subject, rules: Rules) -> Outcome:  # noqa: ARG001
    return Outcome.SAFE


def _node_removed(change: Change, subject: Subject, rules: Rules) -> Outcome:
    node = change.name
    found = _judged(Target("node", node), subject, rules)
    hits = _at(subject, node)
    if subject.condition in _NO_STATE and not hits:
        return Outcome.UNKNOWN
    if found.disposition in _HITS:
        is_sent = bool(hits) and all(leaf.sent for leaf in hits)
        return Outcome.WOULD_DROP_SEND if is_sent else Outcome.WOULD_STRAND
    if found.disposition is Disposition.MAY_HOLD_TARGET:
        return Outcome.MAY_STRAND if _is_at_work(subject) else Outcome.UNKNOWN
    return _rest(found)


def _node_deferred(change: Change, subject: Subject, rules: Rules) -> Outcome:
    """The channel that leads to a deferred node has another form: what is stored in the plain one cannot be read."""
    node = change.name
    if any(leaf.scheduled for leaf in _at(subject, node)):
        return Outcome.WOULD_FAIL_TO_LOAD
    found = _judged(Target("node", node), subject, rules)
    if subject.work.half_step:
        return Outcome.MAY_STRAND
    return Outcome.SAFE if found.disposition is Disposition.MAY_HOLD_TARGET else _rest(found)


def _join_changed(change: Change, subject: Subject, rules: Rules) -> Outcome:  # noqa: ARG001
    """What came to a join stays under the names of the nodes that it waited for, where no other join looks. A node that its
    join has started shows in no view; its interrupt alone tells."""
    if any(not leaf.scheduled for leaf in _at(subject, change.name)):
        return Outcome.WOULD_STRAND
    if subject.condition in _UNREAD:
        return Outcome.UNKNOWN
    return Outcome.SAFE if not _is_under_way(subject) or _fits_join(change, subject) else Outcome.MAY_STRAND


def _join_unseen(change: Change, subject: Subject, rules: Rules) -> Outcome:  # noqa: ARG001
    """A drawing shows the same edges whether a node waits for all that lead to it or runs after each. It matters to a thread that
    is under way, unless what it has stored shows that the candidate goes on with it."""
    if subject.condition is Condition.PRESUMED_SETTLED:
        return Outcome.SAFE if change.is_witnessed else Outcome.UNKNOWN
    if subject.condition in _UNREAD:
        return Outcome.UNKNOWN
    return Outcome.SAFE if not _is_under_way(subject) or _fits_join(change, subject) else Outcome.UNKNOWN


def is_witnessed(change: Change, subjects: Iterable[Subject]) -> bool:
    """Whether some thread was led to a node in the way that the candidate has, and none in another."""
    led = [one for one in subjects if one.routes is not None and _is_led(change, one.routes)]
    return bool(led) and all(_fits_routes(change, one.routes) for one in led if one.routes is not None)


def _fits_join(change: Change, subject: Subject) -> bool:
    """Whether the candidate goes on with whatever is on its way to a node. Half a step has stored nothing yet, and a run that
    goes on stores more."""
    at_rest = subject.condition is not Condition.RUNNING and not subject.work.half_step
    return at_rest and subject.routes is not None and _fits_routes(change, subject.routes)


def _fits_routes(change: Change, routes: Routes) -> bool:
    """What joins hold stays with joins of the same sources only. And what came by an edge of its own is not remembered where the
    node is to wait for others, too."""
    name = change.name.rpartition("/")[2]
    if routes.waits_for is None:
        return False
    others = {sources for target, sources in routes.waits_for if target == name} - change.joins
    if others and change.name not in routes.empty:
        return False
    return not (change.joins_anew and name in routes.branches)


def _is_led(change: Change, routes: Routes) -> bool:
    return change.name.rpartition("/")[2] in routes.joins | routes.branches


def _node_not_deferred(change: Change, subject: Subject, rules: Rules) -> Outcome:
    return _may_wait(change.name, subject, replace(rules, deferred=rules.deferred | {change.name}))


def _may_wait(node: str, subject: Subject, rules: Rules) -> Outcome:
    if subject.condition in _UNREAD:
        return Outcome.UNKNOWN
    if _is_under_way(subject) and waits_unseen(subject, rules, {node}):
        return Outcome.MAY_STRAND
    return Outcome.SAFE


def _field_removed(change: Change, subject: Subject, rules: Rules) -> Outcome:
    target = Target("remove", change.name)
    if change.renamed_to is not None:  # who goes on with a settled thread would miss it, too
        target = Target("rename", change.name, new=change.renamed_to)
    if subject.condition in _NO_STATE:
        return Outcome.UNKNOWN
    found = _judged(target, subject, rules)
    return Outcome.WOULD_HIDE if found.disposition in _HITS else _rest(found)


def _field_required(change: Change, subject: Subject, rules: Rules) -> Outcome:
    """A node that checks its input does not start without the field, and the state of a thread that waits there cannot even be
    read."""
    facts = _facts(change.name, subject, rules)
    is_lacking = facts is not None and any(fact is None or fact.presence is Presence.ABSENT for fact in facts)
    if change.is_suspected:
        return Outcome.UNKNOWN if is_lacking else Outcome.SAFE
    if subject.condition in _HOLDS_MORE or facts is None:
        return Outcome.UNKNOWN
    if is_lacking:
        return _refused_by(change.field.required_by if change.field else frozenset(), change, subject)
    return _seen_whole(subject)


def _field_retyped(change: Change, subject: Subject, rules: Rules) -> Outcome:
    wanted = change.field
    facts = _facts(change.name, subject, rules)
    if wanted is None or wanted.type.kinds is None:
        return Outcome.UNKNOWN
    kinds = {fact.kind for fact in facts or () if fact is not None and fact.kind is not None}
    wrong = kinds - wanted.type.kinds
    is_same = change.before is not None and change.before.digest == wanted.type.digest
    if change.is_suspected and is_same:
        return Outcome.UNKNOWN if wrong else Outcome.SAFE
    if subject.condition in _HOLDS_MORE or facts is None:
        return Outcome.UNKNOWN
    if not wrong:
        fits = not kinds or not wanted.checked_by or wanted.type.is_loose or is_same
        return _seen_whole(subject) if fits else Outcome.UNKNOWN
    if not wanted.checked_by or any(may_be_taken(Kind(kind), wanted.type) for kind in wrong):
        return Outcome.UNKNOWN
    return _refused_by(wanted.checked_by, change, subject)


def _refused_by(nodes: Collection[str], change: Change, subject: Subject) -> Outcome:
    """What it means that these nodes refuse a thread's state: certain where it waits at one of them, or where all do."""
    every = {node for node in (change.candidate.nodes if change.candidate else ()) if "/" not in node}
    if every <= set(nodes) or any(leaf.node.split("/")[0] in nodes for leaf in subject.work.leaves):
        return Outcome.WOULD_FAIL_TO_LOAD
    return Outcome.UNKNOWN


def _seen_whole(subject: Subject) -> Outcome:
    """Whether what row and state show of a field is all: not where a step is half done, or a run goes on unseen."""
    is_unseen = subject.condition is Condition.RUNNING and not subject.reading_is_current
    return Outcome.UNKNOWN if subject.work.half_step or is_unseen else Outcome.SAFE


def _inner_checks_unseen(change: Change, subject: Subject, rules: Rules) -> Outcome:
    """Nothing says that anything changes, so threads that were not read are as safe as they are now."""
    return Outcome.SAFE if subject.condition in _UNREAD else _inside(change, subject, rules)


def _inside(change: Change, subject: Subject, rules: Rules) -> Outcome:  # noqa: ARG001
    """What nobody can see into: it matters where work is pending in there."""
    if subject.condition in _UNREAD:
        return Outcome.UNKNOWN
    inside = any(at_or_below(leaf.node, change.within or change.name) for leaf in subject.work.leaves)
    is_running = subject.condition in (Condition.RUNNING, Condition.SCHEDULED)
    return Outcome.UNKNOWN if inside or is_running else Outcome.SAFE


def _facts(name: str, subject: Subject, rules: Rules) -> list[FieldFact | None] | None:
    """What row and state say of a field; None when nobody saw either."""
    shapes = [shape for shape in (subject.shape, subject.state_shape) if shape is not None]
    return [rules.find(shape.fields, name) for shape in shapes] or None


def _judged(target: Target, subject: Subject, rules: Rules) -> Finding:
    return judge(subject, [target], rules).by_target[target.key]


def _rest(found: Finding) -> Outcome:
    return Outcome.SAFE if found.disposition.group in ("clear", "excluded") else Outcome.UNKNOWN


def _at(subject: Subject, node: str) -> list[WorkLeaf]:
    return [leaf for leaf in subject.work.leaves if at_or_below(leaf.node, node) and not leaf.acknowledged]


def _is_at_work(subject: Subject) -> bool:
    return subject.work.half_step or bool(subject.work.leaves)


def _is_under_way(subject: Subject) -> bool:
    return _is_at_work(subject) or subject.condition in (Condition.RUNNING, Condition.SCHEDULED)


_RULES: Mapping[ChangeKind, Callable[[Change, Subject, Rules], Outcome]] = {
    ChangeKind.GRAPH_REMOVED: _graph_removed,
    ChangeKind.GRAPH_UNREADABLE: _graph_unreadable,
    ChangeKind.BREAKPOINT_CHANGED: _breakpoint_changed,
    ChangeKind.NODE_REMOVED: _node_removed,
    ChangeKind.NODE_DEFERRED: _node_deferred,
    ChangeKind.NODE_NOT_DEFERRED: _node_not_deferred,
    ChangeKind.JOIN_CHANGED: _join_changed,
    ChangeKind.JOIN_UNSEEN: _join_unseen,
    ChangeKind.FIELD_REMOVED: _field_removed,
    ChangeKind.FIELD_REQUIRED: _field_required,
    ChangeKind.FIELD_RETYPED: _field_retyped,
    ChangeKind.INNER_CHECKS_UNSEEN: _inner_checks_unseen,
}
