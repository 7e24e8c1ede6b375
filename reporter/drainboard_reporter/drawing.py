"""What the graph looks like: nodes, joins, deferred nodes, edges and fields, from its public drawing and channels."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from drainboard_reporter.dashboard import ReporterError
from drainboard_reporter.facts.privacy import node_name
from drainboard_reporter.facts.storage import is_field
from drainboard_reporter.facts.topology import prefixes, reduce_topology
from drainboard_reporter.facts.types import Topology


def draw(graph: Any, graph_id: str) -> Topology:
    """The topology of a compiled graph. Raises ``ReporterError`` where it cannot be drawn."""
    try:
        plain, xray = (_drawing(graph.get_graph(xray=inner)) for inner in (False, True))
        channels = [(path, name) for path, one in _graphs(graph) for name in one.channels]
        fields = [name for name in graph.stream_channels_list if is_field(name)]
    except Exception as error:  # noqa: BLE001 - whatever a graph's own code raises
        raise ReporterError(
            f"The graph {graph_id} cannot be drawn: it raised {type(error).__name__}. Its nodes are then not known."
        ) from None
    found = reduce_topology(graph_id, "", plain=plain, xray=xray, fields=fields)
    joins = {f"{path}{node_name(name.rpartition(':')[2])}" for path, name in channels if name.startswith("join:")}
    named = {prefix for path, one in _graphs(graph) for node in _nodes(one) for prefix in prefixes(f"{path}{node}")}
    return replace(found, joins=found.joins | joins, nodes=found.nodes | named)


def _graphs(graph: Any) -> Iterator[tuple[str, Any]]:
    """The graph and those inside it, each with the path that its nodes' names begin with."""
    yield "", graph
    for namespace, inner in graph.get_subgraphs(recurse=True):
        yield "".join(f"{node_name(part)}/" for part in namespace.split("|")), inner


def _nodes(graph: Any) -> Iterator[str]:
    yield from (node_name(name) for name in graph.nodes if name not in ("__start__", "__end__"))


def _drawing(drawn: Any) -> Mapping[str, object]:
    return {
        "nodes": [{"id": str(key), "metadata": node.metadata} for key, node in drawn.nodes.items()],
        "edges": [
            {"source": edge.source, "target": edge.target, "conditional": edge.conditional} for edge in drawn.edges
        ],
    }
