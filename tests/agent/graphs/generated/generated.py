"""Graphs made from `specs.json`: each node asks some times, is a subgraph, or only passes on; a node may be sent to several times."""

import json
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send, interrupt

SPECS = json.loads((Path(__file__).parent / "specs.json").read_text(encoding="utf-8"))


class State(TypedDict, total=False):
    ran: Annotated[list[str], operator.add]


def asking(name: str, asks: int) -> Any:
    def node(state: State) -> State:
        for number in range(asks):
            interrupt(f"{name}, question {number + 1}")
        return {"ran": [name]}

    return node


def built(spec: dict[str, Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
    builder = StateGraph(State)
    for node in spec["nodes"]:
        inner = built(node["inner"]) if node["inner"] else asking(node["name"], node["asks"])
        builder.add_node(node["name"], inner)
    names = [node["name"] for node in spec["nodes"] if not node["sent"]]
    if spec["in_a_row"]:
        for source, target in zip([START, *names], [*names, END], strict=True):
            builder.add_edge(source, target)
    else:
        for name in names:
            builder.add_edge(START, name)
    sends = [Send(node["name"], {}) for node in spec["nodes"] for _ in range(node["sent"])]
    if sends:
        builder.add_conditional_edges(START, lambda state: sends)
    return builder.compile(checkpointer=spec["remembers"] or None)


globals().update({name: built(spec) for name, spec in SPECS.items()})
