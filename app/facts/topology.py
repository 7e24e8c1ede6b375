"""What a graph looks like as deployed now, from the server's drawings of it. Pure.

The drawing with inner nodes (xray) names them ``outer:inner`` and drops the outer names; the plain one has the outer
names. Names are therefore those of both, and every prefix of an inner one. Joins show as several unconditional edges
into a node, deferred nodes as ``metadata.defer``. Edges never prove that a node cannot be reached.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from app.facts.privacy import node_name
from app.facts.types import FieldType, Topology

UNREADABLE = "unreadable"
_ENDS = frozenset({"__start__", "__end__"})


def reduce_topology(
    graph_id: str,
    assistant_id: str,
    *,
    plain: Mapping[str, object],
    xray: Mapping[str, object],
    fields: Iterable[str],
    types: Mapping[str, FieldType] | None = None,
    required: Iterable[str] = (),
    inner_types: Mapping[str, Mapping[str, FieldType]] | None = None,
) -> Topology:
    """Reduce the two answers of ``GET /assistants/{id}/graph`` and the names of the state schema to a topology."""
    nodes: set[str] = set()
    deferred: set[str] = set()
    for raw, metadata in (*_nodes(plain), *_nodes(xray)):
        path = _path(raw)
        if path.rpartition("/")[2] in _ENDS:
            continue
        nodes.update(prefixes(path))
        if metadata.get("defer") is True:
            deferred.add(path)
    edges = sorted({*_edges(plain), *_edges(xray)})
    return Topology(
        graph_id=graph_id,
        assistant_id=assistant_id,
        nodes=frozenset(nodes),
        joins=frozenset(_joins(edges)),
        deferred=frozenset(deferred),
        edges=tuple(edges),
        fields=frozenset(fields),
        xray_hash=drawing_hash(xray),
        types=types or {},
        required=frozenset(required),
        inner_types=inner_types,
    )


def unreadable_topology(graph_id: str, assistant_id: str) -> Topology:
    """A graph that is deployed and cannot be drawn: nothing is known to be in it."""
    nothing: frozenset[str] = frozenset()
    return Topology(graph_id, assistant_id, nothing, nothing, nothing, (), nothing, xray_hash=UNREADABLE)


def drawing_hash(drawing: Mapping[str, object]) -> str:
    """The hash of one drawing, whatever order the server lists things in: 16 hex digits."""
    nodes = sorted(f"{raw}:{metadata.get('defer') is True}" for raw, metadata in _nodes(drawing))
    edges = sorted(f"{source}>{target}>{conditional}" for source, target, conditional in _edges(drawing))
    return hashlib.sha256("\x1f".join([*nodes, "edges", *edges]).encode()).hexdigest()[:16]


def prefixes(path: str) -> Iterator[str]:
    """``a/b/c`` -> ``a``, ``a/b``, ``a/b/c``."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        yield "/".join(parts[:depth])


def topology_hash(topology: Topology) -> str:
    """The hash that tells one revision of a graph from another: 16 hex digits over everything but the assistant."""
    parts = [
        topology.graph_id,
        *sorted(topology.nodes),
        "joins",
        *sorted(topology.joins),
        "deferred",
        *sorted(topology.deferred),
        "edges",
        *(f"{source}>{target}>{conditional}" for source, target, conditional in topology.edges),
        "fields",
        *sorted(topology.fields),
    ]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


def at_or_below(node: str, target: str) -> bool:
    """Whether a pending node is the target's leaf, or a leaf below its path."""
    return node == target or node.startswith(f"{target}/")


def _path(raw: str) -> str:
    """A node id of a drawing as a path. LangGraph refuses ``:`` in a node's name, so it only separates."""
    return "/".join(node_name(part) for part in raw.split(":"))


def _nodes(drawing: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    nodes = drawing.get("nodes")
    for node in nodes if isinstance(nodes, list) else []:
        if isinstance(node, Mapping) and isinstance(node.get("id"), str):
            metadata = node.get("metadata")
            yield node["id"], metadata if isinstance(metadata, Mapping) else {}


def _edges(drawing: Mapping[str, object]) -> Iterator[tuple[str, str, bool]]:
    edges = drawing.get("edges")
    for edge in edges if isinstance(edges, list) else []:
        if isinstance(edge, Mapping) and isinstance(edge.get("source"), str) and isinstance(edge.get("target"), str):
            yield _path(edge["source"]), _path(edge["target"]), edge.get("conditional") is True


def _joins(edges: Iterable[tuple[str, str, bool]]) -> Iterator[str]:
    """Nodes with several unconditional edges into them: a join, or as good as one."""
    sources = Counter(target for _, target, conditional in edges if not conditional)
    for target, count in sources.items():
        if count > 1 and target.rpartition("/")[2] not in _ENDS:
            yield target
