"""What a candidate changes of the graphs that are deployed. Pure.

A rename is only ever a suggestion: LangGraph knows none, it sees one node go and another come.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from app.facts.candidates import Candidate, CandidateField, Join
from app.facts.topology import at_or_below
from app.facts.types import FieldType, Kind

_START, _END = "__start__", "__end__"


class ChangeKind(StrEnum):
    """What is another in the candidate, or could not be compared."""

    GRAPH_REMOVED = "graph_removed"
    GRAPH_ADDED = "graph_added"
    NODE_REMOVED = "node_removed"
    NODE_ADDED = "node_added"
    NODE_DEFERRED = "node_deferred"
    NODE_NOT_DEFERRED = "node_not_deferred"
    JOIN_CHANGED = "join_changed"
    JOIN_UNSEEN = "join_unseen"
    FIELD_REMOVED = "field_removed"
    FIELD_ADDED = "field_added"
    FIELD_REQUIRED = "field_required"
    FIELD_RETYPED = "field_retyped"
    INNER_FIELD_CHANGED = "inner_field_changed"
    INNER_FIELDS_UNSEEN = "inner_fields_unseen"
    INNER_CHECKS_UNSEEN = "inner_checks_unseen"
    BREAKPOINT_CHANGED = "breakpoint_changed"
    TASKS_CHANGED = "tasks_changed"
    TASKS_UNSEEN = "tasks_unseen"
    GRAPH_UNREADABLE = "graph_unreadable"

    @property
    def is_unseen(self) -> bool:
        """Whether it is not known of what is deployed, so that nothing says that it is another."""
        return self.value.endswith("_unseen")


@dataclass(frozen=True, slots=True)
class Deployed:
    """A graph as it is deployed now, over all configurations that draw it. ``inner_types``: what the fields of each subgraph take,
    where the server tells (None: it does not). ``pushed``: what its application said of it, where a topology of exactly this
    graph was pushed. ``is_readable``: it can be drawn."""

    graph: str
    nodes: frozenset[str]
    edges: frozenset[tuple[str, str, bool]]
    deferred: frozenset[str]
    fields: frozenset[str]
    types: Mapping[str, FieldType] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    inner_types: Mapping[str, Mapping[str, FieldType]] | None = None
    pushed: Candidate | None = None
    is_readable: bool = True

    @property
    def joins(self) -> frozenset[Join]:
        """Its joins; without a topology, wherever several unconditional edges lead into one node."""
        return self.pushed.joins if self.pushed is not None else frozenset(drawn_joins(self.edges))

    @property
    def is_entrypoint(self) -> bool:
        """Whether it is one function of the functional API. A drawing shows one node that always ends, and no fields."""
        if self.pushed is not None:
            return self.pushed.kind == "entrypoint"
        shown = {(_START, one, False) for one in self.nodes} | {(one, _END, True) for one in self.nodes}
        return not self.fields and len(self.nodes) == 1 and self.edges == shown


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is another in the candidate.

    ``renamed_to``: what it looks to be called there. ``candidate``: the graph there. ``field``: a state field as it is there,
    ``before`` its type as it is deployed. ``is_suspected``: it looks the same, as far as anybody can see without a topology of
    what is deployed; threads to which it would matter are not safe. ``within``: the node inside which it is, where nobody sees.

    ``joins``: what each join of the node waits for there, by plain names. ``joins_anew``: some of these joins are new, or may be;
    ``is_witnessed``: threads show that the node is deployed as it is there, and none shows another way.
    """

    kind: ChangeKind
    graph: str
    name: str
    renamed_to: str | None = None
    candidate: Candidate | None = None
    field: CandidateField | None = None
    before: FieldType | None = None
    is_suspected: bool = False
    within: str | None = None
    joins: frozenset[frozenset[str]] = frozenset()
    joins_anew: bool = False
    is_witnessed: bool = False

    @property
    def is_addition(self) -> bool:
        """Nothing that is stored can need it."""
        return self.kind in (ChangeKind.GRAPH_ADDED, ChangeKind.NODE_ADDED, ChangeKind.FIELD_ADDED)

    @property
    def may_touch_unread(self) -> bool:
        """Whether it is a reason to doubt threads that nobody read: not where all that is known says that nothing changes."""
        if self.kind in (ChangeKind.JOIN_UNSEEN, ChangeKind.INNER_FIELDS_UNSEEN):
            return not self.is_witnessed
        return not (self.is_addition or self.is_suspected)


def compare(before: Mapping[str, Deployed], after: Mapping[str, Candidate], *, is_whole: bool) -> tuple[Change, ...]:
    """What the candidate changes. ``is_whole``: it has all graphs, so that one that it lacks is dropped."""
    gone = sorted(set(before) - set(after)) if is_whole else []
    new = sorted(set(after) - set(before))
    found = [
        Change(ChangeKind.GRAPH_REMOVED, graph, graph, _renamed_graph(before[graph], gone, new, after))
        for graph in gone
    ]
    found += [Change(ChangeKind.GRAPH_ADDED, graph, graph) for graph in new]
    for graph in sorted(set(before) & set(after)):
        found += _of_graph(before[graph], after[graph])
    return tuple(found)


def drawn_joins(edges: Iterable[tuple[str, str, bool]]) -> Iterator[Join]:
    """Nodes with several unconditional edges into them, and where these come from."""
    sources: dict[str, set[str]] = {}
    for source, target, conditional in edges:
        if not conditional and target.rpartition("/")[2] != _END:
            sources.setdefault(target, set()).add(source)
    yield from ((frozenset(found), target) for target, found in sorted(sources.items()) if len(found) > 1)


def _renamed_graph(
    before: Deployed, gone: Collection[str], new: Collection[str], after: Mapping[str, Candidate]
) -> str | None:
    if len(gone) != 1 or len(new) != 1:
        return None
    (other,) = new
    return other if after[other].nodes == before.nodes else None


def _of_graph(before: Deployed, after: Candidate) -> Iterator[Change]:
    if not before.is_readable:
        yield Change(ChangeKind.GRAPH_UNREADABLE, before.graph, before.graph)
        return
    yield from _nodes(before, after)
    yield from _waiting(before, after)
    yield from _fields(before, after)
    yield from _inside(before, after)
    yield from _stops(before, after)


# -- nodes -----------------------------------------------------------------------------------------------------------


def _nodes(before: Deployed, after: Candidate) -> Iterator[Change]:
    gone, new = _tops(before.nodes - after.nodes), _tops(after.nodes - before.nodes)
    same_trigger = (
        before.is_entrypoint and after.kind == "entrypoint"
    )  # an entrypoint starts from its input, not by its name
    for node in gone:
        if not same_trigger:
            renamed = _renamed_node(node, gone, new, before, after)
            yield Change(ChangeKind.NODE_REMOVED, before.graph, node, renamed)
    yield from (Change(ChangeKind.NODE_ADDED, before.graph, node) for node in new if not same_trigger)


def _tops(nodes: Collection[str]) -> list[str]:
    """Those that have no other of them above."""
    return sorted(node for node in nodes if not any(at_or_below(node, other) for other in nodes if other != node))


def _renamed_node(
    node: str, gone: Collection[str], new: Collection[str], before: Deployed, after: Candidate
) -> str | None:
    """The one that came, if just this one went, at the same depth and with the same neighbours."""
    if len(gone) != 1 or len(new) != 1:
        return None
    (other,) = new
    is_beside = other.rpartition("/")[0] == node.rpartition("/")[0]
    return other if is_beside and _around(node, before.edges) == _around(other, after.edges) else None


def _around(node: str, edges: Iterable[tuple[str, str, bool]]) -> set[tuple[str, str]]:
    """The neighbours of a node; what is inside it is no neighbour."""
    found = set()
    for source, target, _ in edges:
        if node in (source, target) and not any(one != node and at_or_below(one, node) for one in (source, target)):
            found.add(("" if source == node else source, "" if target == node else target))
    return found


def _waiting(before: Deployed, after: Candidate) -> Iterator[Change]:
    """What waits elsewhere than in a view: joins, which keep what came under the names of all that they wait for, and deferred
    nodes, whose channel has another form."""
    kept = before.nodes & after.nodes
    for node in sorted(kept):
        if (node in after.deferred) != (node in before.deferred):
            is_now = node in after.deferred
            yield Change(ChangeKind.NODE_DEFERRED if is_now else ChangeKind.NODE_NOT_DEFERRED, before.graph, node)
    changed = {target for _, target in before.joins - _joins_like(before, after)} & kept
    if before.pushed is not None:
        changed |= {target for _, target in after.joins - before.joins if _led_to(before, target)} & kept
    yield from (_join(ChangeKind.JOIN_CHANGED, node, before, after) for node in sorted(changed))
    if before.pushed is None:
        unseen = {target for _, target in before.joins | after.joins} & kept - changed
        yield from (_join(ChangeKind.JOIN_UNSEEN, node, before, after) for node in sorted(unseen))


def _join(kind: ChangeKind, node: str, before: Deployed, after: Candidate) -> Change:
    known = before.pushed.joins if before.pushed is not None else frozenset()
    joins = {sources for sources, target in after.joins if target == node}
    return Change(
        kind,
        before.graph,
        node,
        is_suspected=kind.is_unseen,
        joins=frozenset(frozenset(source.rpartition("/")[2] for source in sources) for sources in joins),
        joins_anew=any((sources, node) not in known for sources in joins),
    )


def _joins_like(before: Deployed, after: Candidate) -> frozenset[Join]:
    """The candidate's joins as they can be compared: where only a drawing is known, as a drawing shows them."""
    return after.joins if before.pushed is not None else after.joins | frozenset(drawn_joins(after.edges))


def _led_to(before: Deployed, node: str) -> bool:
    return any(target == node for _, target, _ in before.edges)


# -- fields ----------------------------------------------------------------------------------------------------------


def _fields(before: Deployed, after: Candidate) -> Iterator[Change]:
    yield from _names(before, after)
    for name in sorted(after.fields):
        yield from _required(name, before, after)
        yield from _retyped(name, before, after)


def _names(before: Deployed, after: Candidate) -> Iterator[Change]:
    """Fields that go and come. A graph that declares none shows all that is stored; an entrypoint only what it returned."""
    shows_all = not after.fields and after.kind == "graph"
    if not before.fields or shows_all:
        return
    gone, new = sorted(before.fields - set(after.fields)), sorted(set(after.fields) - before.fields)
    renamed = new[0] if len(gone) == len(new) == 1 and _may_be_renamed(before, after, gone[0], new[0]) else None
    for name in gone:
        yield Change(ChangeKind.FIELD_REMOVED, before.graph, name, renamed)
    yield from (Change(ChangeKind.FIELD_ADDED, before.graph, name) for name in new if name not in _needed(after))


def _required(name: str, before: Deployed, after: Candidate) -> Iterator[Change]:
    found, was = after.fields[name], before.pushed.fields.get(name) if before.pushed is not None else None
    if found.required_by - (was.required_by if was is not None else frozenset()):
        is_suspected = before.pushed is None and name in before.required
        yield Change(
            ChangeKind.FIELD_REQUIRED, before.graph, name, candidate=after, field=found, is_suspected=is_suspected
        )


def _retyped(name: str, before: Deployed, after: Candidate) -> Iterator[Change]:
    found, was = after.fields[name], before.pushed.fields.get(name) if before.pushed is not None else None
    if (before.fields and name not in before.fields) or found.type.kinds is None:
        return
    known = before.types.get(name) or (was.type if was is not None else None)
    is_other = known is not None and known.digest != found.type.digest
    is_new_check = bool(found.checked_by - (was.checked_by if was is not None else frozenset()))
    if is_other or is_new_check:
        is_suspected = not is_other and before.pushed is None
        yield Change(
            ChangeKind.FIELD_RETYPED,
            before.graph,
            name,
            candidate=after,
            field=found,
            before=known,
            is_suspected=is_suspected,
        )


def _needed(after: Candidate) -> set[str]:
    return {name for name, found in after.fields.items() if found.required_by}


def _may_be_renamed(before: Deployed, after: Candidate, old: str, new: str) -> bool:
    known = before.types.get(old)
    return known is None or known.digest == after.fields[new].type.digest


# -- what is inside --------------------------------------------------------------------------------------------------


def _inside(before: Deployed, after: Candidate) -> Iterator[Change]:
    """Fields of subgraphs, whose values nobody lists, and the tasks of an entrypoint."""
    pushed = before.pushed
    for path in sorted(after.inner_fields):
        yield from _inner_fields(path, before, after.inner_fields[path])
    if not (before.is_entrypoint and after.kind == "entrypoint"):
        return
    node = min(before.nodes, default=before.graph)
    if pushed is None:
        yield Change(ChangeKind.TASKS_UNSEEN, before.graph, node, within=node)
    elif sorted(pushed.tasks.values()) != sorted(after.tasks.values()):
        yield Change(ChangeKind.TASKS_CHANGED, before.graph, node, within=node)


def _inner_fields(path: str, before: Deployed, now: Mapping[str, CandidateField]) -> Iterator[Change]:
    """The fields of one subgraph. The server tells what they take, and not which of its nodes check them."""
    was = _inner_before(path, before, now)
    if was is None:
        is_new = not any(at_or_below(node, path) and node != path for node in before.nodes)
        if before.pushed is None and (before.inner_types is None or not is_new):
            yield Change(ChangeKind.INNER_FIELDS_UNSEEN, before.graph, path, within=path, is_suspected=True)
        return
    for name in sorted({*was, *now}):
        if not was or _may_matter(was.get(name), now.get(name)):  # one that declares none stores any, under no name
            yield Change(ChangeKind.INNER_FIELD_CHANGED, before.graph, f"{path}.{name}", within=path)
    if before.pushed is None and any(one.checked_by | one.required_by for one in now.values()):
        yield Change(ChangeKind.INNER_CHECKS_UNSEEN, before.graph, path, within=path, is_suspected=True)


def _inner_before(
    path: str, before: Deployed, now: Mapping[str, CandidateField]
) -> Mapping[str, CandidateField] | None:
    """The fields of a subgraph as it is deployed, those that the server tells checked as in the candidate; None: there is none,
    or nobody knows."""
    if before.pushed is not None:
        return before.pushed.inner_fields.get(path)
    types = (before.inner_types or {}).get(path)
    if types is None:
        return None
    return {
        name: CandidateField(found, now[name].required_by, now[name].checked_by)
        if name in now
        else CandidateField(found)
        for name, found in types.items()
    }


def _may_matter(was: CandidateField | None, now: CandidateField | None) -> bool:
    """Whether a field of a subgraph that is stored may be missed, or be refused: not one that is new and needed by nobody."""
    if was is None or now is None:
        return now is None or bool(now.required_by)
    return (
        was.type.digest != now.type.digest or not now.required_by | now.checked_by <= was.required_by | was.checked_by
    )


def _stops(before: Deployed, after: Candidate) -> Iterator[Change]:
    if before.pushed is None:
        return
    for when in ("before", "after"):
        changed = before.pushed.stops.get(when, frozenset()) ^ after.stops.get(when, frozenset())
        yield from (
            Change(ChangeKind.BREAKPOINT_CHANGED, before.graph, node) for node in sorted(changed) if node in after.nodes
        )


_COERCED: Mapping[Kind, frozenset[Kind]] = {
    Kind.TEXT: frozenset({Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN}),
    Kind.INTEGER: frozenset({Kind.BOOLEAN, Kind.TEXT}),
    Kind.NUMBER: frozenset({Kind.INTEGER, Kind.BOOLEAN, Kind.TEXT}),
    Kind.BOOLEAN: frozenset({Kind.INTEGER, Kind.NUMBER}),
}


def may_be_taken(kind: Kind, wanted: FieldType) -> bool:
    """Whether a check may take a value of another kind than it asks for: text that is a number, a number that is a time. It
    depends on the value, which nobody here knows."""
    others = (wanted.kinds or frozenset()) & _COERCED.get(kind, frozenset())
    if kind in (Kind.INTEGER, Kind.NUMBER) and wanted.is_loose:
        others -= {Kind.TEXT}  # plain text is never made of a number
    return bool(others)
