"""What the graphs of the table are made of. Every node writes its own name into `ran`, so that everybody sees what ran."""

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from version import AFTER

Node = tuple[str, Any]


class State(TypedDict, total=False):
    note: str
    fail: bool
    ran: Annotated[list[str], operator.add]


def either(before: Any, after: Any) -> Any:
    """What is deployed: the graph before the change, or the one after it."""
    return after if AFTER else before


def runs(name: str, **update: Any) -> Node:
    return name, lambda state: {"ran": [name], **update}


def asks(name: str) -> Node:
    def ask(state: Any) -> dict[str, Any]:
        interrupt({"asks": name})
        return {"ran": [name]}

    return name, ask


def fails(name: str) -> Node:
    def fail(state: Any) -> dict[str, Any]:
        raise ValueError(name)

    return name, fail


def goes_to(name: str, target: str) -> Node:
    return name, lambda state: Command(goto=target, update={"ran": [name]})


def graph(
    nodes: Sequence[Node],
    edges: Sequence[tuple[Any, str]],
    *,
    state: type = State,
    defer: Sequence[str] = (),
    **compiled: Any,
) -> Any:
    """A graph of these nodes and edges."""
    builder = StateGraph(state)
    for name, node in nodes:
        builder.add_node(name, node, defer=name in defer)
    for source, target in edges:
        builder.add_edge(source, target)
    return builder.compile(**compiled)


def line(*nodes: Node, state: type = State, **compiled: Any) -> Any:
    """One node after the other."""
    names = [START, *(name for name, _ in nodes), END]
    return graph(nodes, list(pairwise(names)), state=state, **compiled)


def sends(target: Node, *, many: int = 2) -> Any:
    """As many tasks of one node as there are, by `Send`."""
    builder = StateGraph(State)
    builder.add_node(*runs("begin"))
    builder.add_node(*target)
    builder.add_edge(START, "begin")
    builder.add_conditional_edges("begin", lambda state: [Send(target[0], {"note": "x"})] * many, [target[0]])
    builder.add_edge(target[0], END)
    return builder.compile()


def inside(name: str, *nodes: Node, checkpointer: bool | None = None) -> Node:
    """A node that is a graph of its own. What ran inside comes out once, when it has ended."""
    return name, line(*nodes, checkpointer=checkpointer)
