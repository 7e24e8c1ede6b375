"""A topology file: what graphs look like by their own code, as ``drainboard topology`` prints it. Pure.

It says more than a server's drawing: which nodes wait for several others, which nodes refuse a state without a field, where a
graph stops by itself. What is read here has names and kinds; no schema is kept.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.facts.schemas import field_type
from app.facts.types import FieldType, Kind

SCHEMA = "drainboard.topology/1"
MAX_GRAPHS = 200
MAX_NAMES = 5_000
_LONGEST = 500

Join = tuple[frozenset[str], str]
"""The nodes that a join waits for, and the node that then runs."""


class BadTopology(ValueError):
    """Not a topology file. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class CandidateField:
    """A state field. ``required_by``: nodes of the root that refuse a state without it; ``checked_by``: those that check it."""

    type: FieldType
    required_by: frozenset[str] = frozenset()
    checked_by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidate:
    """One graph by its own code. ``kind``: graph or entrypoint. ``inner_fields``: the state fields of each subgraph, by its
    path. ``stops``: nodes before or after which it stops by itself. ``tasks``: what an entrypoint's code calls, in its order."""

    graph: str
    kind: str
    nodes: frozenset[str]
    edges: frozenset[tuple[str, str, bool]]
    joins: frozenset[Join] = frozenset()
    deferred: frozenset[str] = frozenset()
    fields: Mapping[str, CandidateField] = field(default_factory=dict)
    inner_fields: Mapping[str, Mapping[str, CandidateField]] = field(default_factory=dict)
    stops: Mapping[str, frozenset[str]] = field(default_factory=dict)
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def drawn(self) -> str:
        """What tells whether this is the graph that a server draws: 16 hex digits over nodes and edges."""
        return drawn_hash(self.nodes, self.edges)


def drawn_hash(nodes: Iterable[str], edges: Iterable[tuple[str, str, bool]]) -> str:
    """The same of any drawing."""
    parts = [*sorted(nodes), "edges", *sorted(f"{source}>{target}>{bool(cond)}" for source, target, cond in edges)]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


def read_topology(raw: object) -> dict[str, Candidate]:
    """The graphs of a topology file, by their id. Raises ``BadTopology``."""
    document = _mapping(raw, "The topology")
    if document.get("schema") != SCHEMA:
        raise BadTopology(f"This is not a topology of the form {SCHEMA}. `drainboard topology` makes one.")
    graphs = _mapping(document.get("graphs"), "`graphs`")
    if not 0 < len(graphs) <= MAX_GRAPHS:
        raise BadTopology(f"A topology has from 1 to {MAX_GRAPHS} graphs.")
    return {str(name): _candidate(str(name), _mapping(one, f"The graph `{name}`")) for name, one in graphs.items()}


def to_json(candidate: Candidate) -> dict[str, Any]:
    """A candidate as it is stored."""
    return {
        "kind": candidate.kind,
        "nodes": sorted(candidate.nodes),
        "edges": sorted([*edge] for edge in candidate.edges),
        "joins": sorted([sorted(sources), target] for sources, target in candidate.joins),
        "deferred": sorted(candidate.deferred),
        "fields": _fields_to_json(candidate.fields),
        "inner_fields": {path: _fields_to_json(found) for path, found in candidate.inner_fields.items()},
        "stops": {when: sorted(nodes) for when, nodes in candidate.stops.items()},
        "tasks": {name: list(tasks) for name, tasks in candidate.tasks.items()},
    }


def from_json(graph: str, raw: Mapping[str, Any]) -> Candidate:
    """The reverse."""
    return Candidate(
        graph=graph,
        kind=raw["kind"],
        nodes=frozenset(raw["nodes"]),
        edges=frozenset((source, target, bool(conditional)) for source, target, conditional in raw["edges"]),
        joins=frozenset((frozenset(sources), target) for sources, target in raw["joins"]),
        deferred=frozenset(raw["deferred"]),
        fields=_fields_from_json(raw["fields"]),
        inner_fields={path: _fields_from_json(found) for path, found in raw["inner_fields"].items()},
        stops={when: frozenset(nodes) for when, nodes in raw["stops"].items()},
        tasks={name: tuple(tasks) for name, tasks in raw["tasks"].items()},
    )


def _fields_to_json(fields: Mapping[str, CandidateField]) -> dict[str, Any]:
    return {
        name: [*type_to_json(one.type), sorted(one.required_by), sorted(one.checked_by)] for name, one in fields.items()
    }


def _fields_from_json(raw: Mapping[str, Any]) -> dict[str, CandidateField]:
    return {
        name: CandidateField(type_from_json(one[:3]), frozenset(one[3]), frozenset(one[4])) for name, one in raw.items()
    }


def type_to_json(found: FieldType) -> list[Any]:
    """A field's type as it is stored."""
    return [found.digest, None if found.kinds is None else sorted(found.kinds), found.is_loose]


def type_from_json(raw: list[Any]) -> FieldType:
    """The reverse."""
    digest, kinds, is_loose = raw
    return FieldType(digest, None if kinds is None else frozenset(Kind(kind) for kind in kinds), is_loose)


# -- reading ---------------------------------------------------------------------------------------------------------


def _candidate(graph: str, raw: Mapping[str, object]) -> Candidate:
    kind = raw.get("kind")
    if kind not in ("graph", "entrypoint"):
        raise BadTopology(f"The graph `{graph[:100]}` has a `kind` that is neither graph nor entrypoint.")
    return Candidate(
        graph=_name(graph),
        kind=str(kind),
        nodes=_names(raw.get("nodes"), "nodes"),
        edges=frozenset(_edge(one) for one in _list(raw.get("edges"), "edges")),
        joins=frozenset(_join(one) for one in _list(raw.get("joins", []), "joins")),
        deferred=_names(raw.get("deferred", []), "deferred"),
        fields=_fields(raw),
        inner_fields={
            _name(path): _fields(_mapping(one, "A subgraph"))
            for path, one in _mapping(raw.get("subgraphs", {}), "`subgraphs`").items()
        },
        stops={
            when: _names(_mapping(raw.get("breakpoints", {}), "`breakpoints`").get(when, []), "breakpoints")
            for when in ("before", "after")
        },
        tasks={
            _name(name): tuple(_name(one) for one in _list(tasks, "tasks"))
            for name, tasks in _mapping(raw.get("tasks", {}), "`tasks`").items()
        },
    )


def _fields(raw: Mapping[str, object]) -> dict[str, CandidateField]:
    found = _mapping(raw.get("fields", {}), "`fields`")
    return {_name(name): _field(_mapping(one, "A field")) for name, one in found.items()}


def _field(raw: Mapping[str, object]) -> CandidateField:
    return CandidateField(
        type=field_type(raw.get("schema")),
        required_by=_names(raw.get("required_by", []), "required_by"),
        checked_by=_names(raw.get("checked_by", []), "checked_by"),
    )


def _edge(raw: object) -> tuple[str, str, bool]:
    match raw:
        case [source, target, bool(conditional)]:
            return _name(source), _name(target), conditional
        case _:
            raise BadTopology("An edge is written as [source, target, conditional].")


def _join(raw: object) -> Join:
    found = _mapping(raw, "A join")
    return _names(found.get("sources"), "sources"), _name(found.get("target"))


def _names(raw: object, what: str) -> frozenset[str]:
    return frozenset(_name(one) for one in _list(raw, what))


def _name(raw: object) -> str:
    if not isinstance(raw, str) or not 0 < len(raw) <= _LONGEST:
        raise BadTopology(f"A name in the topology is no text of 1 to {_LONGEST} characters.")
    return raw


def _list(raw: object, what: str) -> list[object]:
    if not isinstance(raw, list) or len(raw) > MAX_NAMES:
        raise BadTopology(f"`{what}` is no list of at most {MAX_NAMES:,}.")
    return raw


def _mapping(raw: object, what: str) -> Mapping[str, object]:
    if not isinstance(raw, Mapping) or len(raw) > MAX_NAMES:
        raise BadTopology(f"{what} is no table of at most {MAX_NAMES:,} entries.")
    return raw
