"""What the state fields of a class of threads mean for a rename, a kind, a removal, an erasure or a version. Pure.

What blocks blocks, whatever could not be seen beside it. What does not is clear only where every place was seen that may
hold the field: the row, the state under a graph that declares the field, what is half done or was sent.
"""

from collections.abc import Iterator

from app.drains.dispositions import Disposition, Finding, not_known
from app.drains.spec import Target
from app.drains.subjects import Routes, Rules, Subject
from app.drains.waiting import root_nodes, waits_unseen
from app.facts.types import Agreement, Condition, FieldFact, Kind, Presence, Reading, Shape


def judge_field(subject: Subject, target: Target, rules: Rules) -> Finding:
    """What a subject means for one field target."""
    match target.kind:
        case "remove":
            return _remove(subject, target, rules)
        case "erase":
            return _erase(subject, target, rules)
        case _:
            return _in_every_shape(subject, target, rules)


def _in_every_shape(subject: Subject, target: Target, rules: Rules) -> Finding:
    """Judge by what row and state hold, the worst of both. Idle is not finished: a settled thread can be resumed."""
    shapes = list(_shapes(subject))
    if not shapes:
        return not_known(Disposition.UNREAD)
    found = min((_by_shape(shape, target, rules) for shape in shapes), key=lambda finding: finding.disposition.rank)
    if found.disposition.group == "blocking":
        return found
    return _unseen(subject, target, rules) or found


def _shapes(subject: Subject) -> Iterator[Shape]:
    yield from (shape for shape in (subject.shape, subject.state_shape) if shape is not None)


def _unseen(subject: Subject, target: Target, rules: Rules) -> Finding | None:
    """Why row and state together do not show everything that may hold the field; None when they do."""
    if subject.condition in (Condition.UNREAD, Condition.LOST, Condition.STRANDED):
        return not_known(Disposition.UNREAD)  # its head holds more than the deployed graph shows
    if subject.shape is None and not _declares(subject, target.name, rules):
        return not_known(Disposition.UNREAD)
    if subject.condition is Condition.RUNNING and not subject.reading_is_current:
        return not_known(Disposition.RUNNING_UNSEEN)
    if subject.work.half_step:
        return Finding(Disposition.MAY_HOLD_TARGET, "half_step_unseen")
    if any(leaf.sent for leaf in subject.work.leaves):
        return Finding(Disposition.MAY_HOLD_TARGET, "deferred_unseen")
    return None


def _declares(subject: Subject, name: str, rules: Rules) -> bool:
    """Whether the revision that a state was read under shows a field: it declares it, or it declares none at all."""
    fields = rules.revision_fields.get(subject.revision_id or -1)
    return fields is not None and (not fields or name in fields)


def _by_shape(shape: Shape, target: Target, rules: Rules) -> Finding:
    match target.kind:
        case "rename":
            return _rename(shape, target, rules)
        case "kind":
            return _kind(shape, target, rules)
        case _:
            return _version(shape, target, rules)


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
            return not_known(Disposition.UNREAD)


def _kind(shape: Shape, target: Target, rules: Rules) -> Finding:
    """An integer is a number too. A field that is null has not the kind that is asked for; one that is absent has none to
    be wrong."""
    fact = rules.find(shape.fields, target.name)
    if fact is None or fact.presence is Presence.ABSENT:
        return Finding(Disposition.UNAFFECTED)
    fits = fact.kind is not None and target.required_kind in _kinds(fact.kind)
    return Finding(Disposition.MIGRATED if fits else Disposition.WRONG_KIND)


def _kinds(kind: Kind) -> tuple[str, ...]:
    return (kind.value, Kind.NUMBER.value) if kind is Kind.INTEGER else (kind.value,)


def _version(shape: Shape, target: Target, rules: Rules) -> Finding:
    found = shape.versions.get(target.name)
    if found is None or found.reading is Reading.UNKNOWN:
        return not_known(Disposition.UNREAD)
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


def _remove(subject: Subject, target: Target, rules: Rules) -> Finding:
    """A field that the schema no longer has is ignored, so it matters only where work is pending."""
    holds = any(_presence(rules.find(shape.fields, target.name)) is not Presence.ABSENT for shape in _shapes(subject))
    if subject.condition is Condition.SETTLED and not _waits(subject):
        if subject.revision_id is None:
            return not_known(Disposition.PRESUMED)
        may_wait = holds and waits_unseen(subject, rules, root_nodes(rules))
        return Finding(Disposition.MAY_HOLD_TARGET, "deferred_unseen") if may_wait else Finding(Disposition.UNAFFECTED)
    if holds:
        if subject.condition in (Condition.PRESUMED_SETTLED, Condition.UNPLACED):
            return not_known(_MAY_WAIT[subject.condition])
        return Finding(Disposition.HOLDS_OLD_FIELD)
    if not list(_shapes(subject)):
        return not_known(Disposition.UNREAD)
    return _unseen(subject, target, rules) or Finding(Disposition.UNAFFECTED)


_MAY_WAIT = {Condition.PRESUMED_SETTLED: Disposition.PRESUMED, Condition.UNPLACED: Disposition.UNPLACED}


def _waits(subject: Subject) -> bool:
    """Whether work is pending that nobody has dealt with."""
    return subject.work.half_step or any(leaf.scheduled or not leaf.acknowledged for leaf in subject.work.leaves)


def _erase(subject: Subject, target: Target, rules: Rules) -> Finding:
    """Present anywhere blocks, in settled threads and in the history too, which only storage shows."""
    if any(_presence(rules.find(shape.fields, target.name)) is Presence.PRESENT for shape in _shapes(subject)):
        return Finding(Disposition.HOLDS_OLD_FIELD)
    if subject.routes is not None and _stores(subject.routes.fields, target.name, rules):
        return Finding(Disposition.HOLDS_OLD_FIELD)
    if subject.condition is Condition.UNREAD:
        return not_known(Disposition.UNREAD)
    if subject.condition is Condition.RUNNING and not subject.reading_is_current:
        return not_known(Disposition.RUNNING_UNSEEN)
    if subject.routes is None or not _stores_by_field(subject.routes) or not rules.sees_history:
        return Finding(Disposition.MAY_HOLD_TARGET, "history_unseen")
    if subject.work.half_step:
        return Finding(Disposition.MAY_HOLD_TARGET, "half_step_unseen")
    if any(leaf.sent for leaf in subject.work.leaves):
        return Finding(Disposition.MAY_HOLD_TARGET, "deferred_unseen")
    return Finding(Disposition.UNAFFECTED)


def _stores_by_field(routes: Routes) -> bool:
    """Whether everything is stored under the name of its field: not what ``Send`` carried, nor what an entrypoint saves, nor a
    state that is any dict."""
    return bool(routes.branches) and not routes.sends and not routes.nameless


_STORED = FieldFact(Presence.PRESENT)


def _stores(fields: frozenset[str], name: str, rules: Rules) -> bool:
    return rules.find(dict.fromkeys(fields, _STORED), name) is not None


def _presence(fact: FieldFact | None) -> Presence:
    return Presence.ABSENT if fact is None else fact.presence
