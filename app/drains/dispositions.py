"""What one thread means for one drain: exactly one disposition at a time (design §4.2). Pure.

Threads that look the same to every rule are judged together: a ``Subject`` is such a class, and the inventory counts
how many threads are in it. Nothing here is ever clear by default: what was not shown to be clear is unknown.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from app.drains.spec import Policy, Target
from app.facts.topology import at_or_below
from app.facts.types import Agreement, Condition, FieldFact, Presence, Reading, Shape


class Disposition(StrEnum):
    """In the order of precedence: the first that applies to a thread counts."""

    GONE = "gone"
    WAIVED = "waived"
    ACKNOWLEDGED = "acknowledged"
    RETENTION = "retention"
    GRAPH_MISSING = "graph_missing"
    UNREADABLE = "unreadable"
    STRANDED = "stranded"
    LOST = "lost"
    PARKED_AT_TARGET = "parked_at_target"
    FAILED_AT_TARGET = "failed_at_target"
    RUNNING_AT_TARGET = "running_at_target"
    SCHEDULED_AT_TARGET = "scheduled_at_target"
    CONFLICT = "conflict"
    HOLDS_OLD_FIELD = "holds_old_field"
    WRONG_KIND = "wrong_kind"
    BAD_VERSION = "bad_version"
    OLD_VERSION = "old_version"
    FUTURE_VERSION = "future_version"
    UNREAD = "unread"
    UNPLACED = "unplaced"
    MAY_HOLD_TARGET = "may_hold_target"
    RUNNING_UNSEEN = "running_unseen"
    PRESUMED = "presumed"
    MIGRATED = "migrated"
    PASSED = "passed"
    NEITHER_FIELD = "neither_field"
    UNAFFECTED = "unaffected"

    @property
    def group(self) -> str:
        """``excluded``, ``blocking``, ``unknown`` or ``clear``."""
        return _GROUPS[self]

    @property
    def rank(self) -> int:
        """Precedence: lower comes first."""
        return _RANKS[self]


_ORDER = tuple(Disposition)
_RANKS = {disposition: rank for rank, disposition in enumerate(_ORDER)}
_FIRST = {"blocking": Disposition.GRAPH_MISSING, "unknown": Disposition.UNREAD, "clear": Disposition.MIGRATED}


def _group(disposition: Disposition) -> str:
    found = "excluded"
    for group, first in _FIRST.items():
        if _RANKS[disposition] >= _RANKS[first]:
            found = group
    return found


_GROUPS = {disposition: _group(disposition) for disposition in _ORDER}


@dataclass(frozen=True, slots=True)
class WorkLeaf:
    """A pending leaf as the rules see it."""

    node: str
    failed: bool = False
    inside_unseen: bool = False
    scheduled: bool = True  # False: pending by proof or memory only, the deployed graph does not schedule it
    sent: bool = False  # by ``Send``: what it was sent does not show


@dataclass(frozen=True, slots=True)
class Work:
    """What is pending on a thread, and whether finished tasks stand beside it that are not applied yet."""

    leaves: tuple[WorkLeaf, ...] = ()
    half_step: bool = False


@dataclass(frozen=True, slots=True)
class Routes:
    """What a thread's storage ever held of routes (names without a path); ``sends``: entries that leave no name."""

    branches: frozenset[str]
    joins: frozenset[str]
    sends: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """A class of threads that look the same to every rule.

    ``shape`` is the row's, ``state_shape`` what was read since (None: nobody saw it). ``revision_id``: the graph
    revision that the state was read under. ``reading_is_current``: a running thread's state was read within the
    drain's ``max_age`` from a run that writes checkpoints as it goes. ``routes`` None: storage was not read since.
    """

    condition: Condition
    work: Work
    shape: Shape | None
    revision_id: int | None
    reading_is_current: bool
    routes: Routes | None
    state_shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What the rules need beside a subject.

    ``revision_nodes`` and ``revision_fields``: the paths and the state fields of every revision.
    ``waiting``: nodes that are a join or deferred in any revision of the
    drain's graph. ``find``: a field's fact in a shape, however its name was kept.
    """

    revision_nodes: Mapping[int, Collection[str]]
    joins: frozenset[str]
    deferred: frozenset[str]
    find: Callable[[Mapping[str, FieldFact], str], FieldFact | None]
    policy: Policy
    newest_versions: Mapping[str, int]
    revision_fields: Mapping[int, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A disposition, with the reason code that an unknown one counts under."""

    disposition: Disposition
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a subject means for a drain, and for each of its targets."""

    overall: Finding
    by_target: Mapping[str, Finding]

    @property
    def reasons(self) -> frozenset[str]:
        """Every reason why it is not known, over all targets: accepting one of them must not hide another. Empty for what
        blocks or is excluded."""
        if self.overall.disposition.group in ("blocking", "excluded"):
            return frozenset()
        return frozenset(found.reason for found in self.by_target.values() if found.reason is not None)


_REASONS = {
    Disposition.UNREAD: "threads_unread",
    Disposition.UNPLACED: "threads_unplaced",
    Disposition.RUNNING_UNSEEN: "running_unseen",
    Disposition.PRESUMED: "idle_unverified",
}


def judge(subject: Subject, targets: Collection[Target], rules: Rules) -> Standing:
    """What a subject means for a drain: the first disposition, in the order of precedence, over all targets."""
    by_target = {target.label: _for_target(subject, target, rules) for target in targets}
    overall = min(by_target.values(), key=lambda finding: finding.disposition.rank)
    return Standing(overall, by_target)


def _for_target(subject: Subject, target: Target, rules: Rules) -> Finding:
    match subject.condition:
        case Condition.GONE:
            return Finding(Disposition.GONE)
        case Condition.GRAPH_MISSING:
            return Finding(Disposition.GRAPH_MISSING)
        case Condition.UNREADABLE:
            return Finding(Disposition.UNREADABLE)
        case Condition.NEVER_RAN:
            return Finding(Disposition.UNAFFECTED)
    match target.kind:
        case "node":
            return _node(subject, target.name, rules)
        case "rename":
            return _field(subject, target, rules, lambda shape: _rename(shape, target, rules))
        case "version":
            return _field(subject, target, rules, lambda shape: _version(shape, target, rules))
        case _:
            return Finding(Disposition.UNREAD, "not_evaluated")


# -- nodes ---------------------------------------------------------------------------------------------------------


def _node(subject: Subject, node: str, rules: Rules) -> Finding:
    hit = [leaf for leaf in subject.work.leaves if at_or_below(leaf.node, node)]
    if hit:
        return Finding(_hit(subject.condition, hit))
    if subject.condition in (Condition.UNREAD, Condition.UNPLACED):
        return _unknown(Disposition(subject.condition.value))
    if subject.condition is Condition.PRESUMED_SETTLED or not _read_with(subject, node, rules):
        settled = subject.condition in (Condition.SETTLED, Condition.PRESUMED_SETTLED)
        return _unknown(Disposition.PRESUMED if settled else Disposition.UNREAD)
    if subject.condition is Condition.RUNNING and (not subject.reading_is_current or _inside_unseen(subject, node)):
        return _unknown(Disposition.RUNNING_UNSEEN)
    if subject.work.half_step:
        return Finding(Disposition.MAY_HOLD_TARGET, "half_step_unseen")
    if _inside_unseen(subject, node) or _may_wait(subject, node, rules):
        return Finding(Disposition.MAY_HOLD_TARGET, "deferred_unseen")
    return Finding(Disposition.UNAFFECTED)


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
    """Whether the state was read under a revision that has the node's whole path; without it, ``next`` is blind."""
    return subject.revision_id is not None and node in rules.revision_nodes.get(subject.revision_id, ())


def _inside_unseen(subject: Subject, node: str) -> bool:
    """Whether a pending task has a subgraph that could not be seen, in which the target may be."""
    return any(leaf.inside_unseen and at_or_below(node, leaf.node) for leaf in subject.work.leaves)


def _may_wait(subject: Subject, node: str, rules: Rules) -> bool:
    """Whether the target, or a node below it, is a join or deferred and may be scheduled where no view shows it."""
    joins = {path for path in rules.joins if at_or_below(path, node)}
    deferred = {path for path in rules.deferred if at_or_below(path, node)}
    if not joins and not deferred:
        return False
    if subject.routes is None:
        return True
    waits_at_join = any(_last(path) in subject.routes.joins for path in joins | deferred)
    return waits_at_join or any(_last(path) in subject.routes.branches for path in deferred)


def _last(path: str) -> str:
    return path.rpartition("/")[2]


# -- fields --------------------------------------------------------------------------------------------------------


def _field(subject: Subject, target: Target, rules: Rules, rule: Callable[[Shape], Finding]) -> Finding:
    """Judge by what row and state hold, the worst of both. What blocks blocks, whatever could not be seen beside it."""
    shapes = [shape for shape in (subject.shape, subject.state_shape) if shape is not None]
    if not shapes:
        return _unknown(Disposition.UNREAD)
    found = min((rule(shape) for shape in shapes), key=lambda finding: finding.disposition.rank)
    if found.disposition.group == "blocking":
        return found
    if subject.condition in (Condition.UNREAD, Condition.LOST, Condition.STRANDED):
        return _unknown(Disposition.UNREAD)  # its head holds more than the deployed graph shows
    if subject.shape is None and not _declares(subject, target.name, rules):
        return _unknown(Disposition.UNREAD)
    if subject.condition is Condition.RUNNING and not subject.reading_is_current:
        return _unknown(Disposition.RUNNING_UNSEEN)
    if subject.work.half_step:
        return Finding(Disposition.MAY_HOLD_TARGET, "half_step_unseen")
    if any(leaf.sent for leaf in subject.work.leaves):
        return Finding(Disposition.MAY_HOLD_TARGET, "deferred_unseen")
    return found


def _declares(subject: Subject, name: str, rules: Rules) -> bool:
    """Whether the revision that a state was read under shows a field: it declares it, or it declares none at all."""
    fields = rules.revision_fields.get(subject.revision_id or -1)
    return fields is not None and (not fields or name in fields)


def _rename(shape: Shape, target: Target, rules: Rules) -> Finding:
    old = _presence(rules.find(shape.fields, target.name))
    new = _presence(rules.find(shape.fields, target.new or ""))
    if old is Presence.ABSENT:
        if new is Presence.PRESENT:
            return Finding(Disposition.MIGRATED)
        blocks = rules.policy.neither == "block"
        return Finding(Disposition.HOLDS_OLD_FIELD if blocks else Disposition.NEITHER_FIELD)
    if new is not Presence.PRESENT:
        return Finding(Disposition.HOLDS_OLD_FIELD)
    if old is not Presence.PRESENT:
        return Finding(Disposition.MIGRATED)
    match shape.conflicts.get(target.label):
        case Agreement.AGREE:
            return Finding(Disposition.MIGRATED)
        case Agreement.DISAGREE:
            return Finding(Disposition.CONFLICT)
        case None:  # read before anybody asked for this rename: the next sweep reads it again
            return _unknown(Disposition.UNREAD)


def _version(shape: Shape, target: Target, rules: Rules) -> Finding:
    found = shape.versions.get(target.name)
    if found is None or found.reading is Reading.UNKNOWN:
        return _unknown(Disposition.UNREAD)
    if found.reading is Reading.MISSING:
        old = rules.policy.missing_version == "old"
        return Finding(Disposition.OLD_VERSION if old else Disposition.UNAFFECTED)
    if found.reading is Reading.MALFORMED or found.value is None:
        return Finding(Disposition.BAD_VERSION)
    newest = rules.newest_versions.get(target.name)
    if newest is not None and found.value > newest:
        return Finding(Disposition.FUTURE_VERSION)
    if target.minimum is None or found.value < target.minimum:
        return Finding(Disposition.OLD_VERSION)
    return Finding(Disposition.MIGRATED)


def _presence(fact: FieldFact | None) -> Presence:
    return Presence.ABSENT if fact is None else fact.presence


def _unknown(disposition: Disposition) -> Finding:
    return Finding(disposition, _REASONS[disposition])
