"""A release later, with `sub_wait` renamed to `sub_hold`.

Questions asked inside a subgraph, inside one that remembers (`checkpointer=True`), and two levels down.
"""

import asyncio
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import interrupt

GATES = Path(__file__).parent / "gates"


class State(TypedDict, total=False):
    gate: str
    note: str
    decision: str


class InnerState(State, total=False):
    inner_field: str


async def gate_opened(name: str | None) -> None:
    """Say by a file that a node runs, and wait until somebody writes another; without a name do not wait."""
    if name:
        (GATES / f"{name}.reached").touch()
        while not (GATES / f"{name}.open").exists():
            await asyncio.sleep(0.05)


def pass_on(state: State) -> State:
    return {}


def ask(state: State) -> State:
    return {"decision": str(interrupt({"note": state.get("note")}))}


async def inner_start(state: InnerState) -> InnerState:
    await gate_opened(state.get("gate"))
    return {"inner_field": "kept"}


def inner(
    *, waiting_node: str = "sub_hold", checkpointer: bool | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    builder = StateGraph(InnerState)
    builder.add_node("sub_start", inner_start)
    builder.add_node(waiting_node, ask)
    builder.add_node("sub_end", pass_on)
    builder.add_edge(START, "sub_start")
    builder.add_edge("sub_start", waiting_node)
    builder.add_edge(waiting_node, "sub_end")
    builder.add_edge("sub_end", END)
    return builder.compile(checkpointer=checkpointer)


def around(name: str, subgraph: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    builder = StateGraph(State)
    builder.add_node("begin", pass_on)
    builder.add_node(name, subgraph)
    builder.add_node("finish", pass_on)
    builder.add_edge(START, "begin")
    builder.add_edge("begin", name)
    builder.add_edge(name, "finish")
    builder.add_edge("finish", END)
    return builder.compile()


nested = around("desk", inner())
remembering = around("desk", inner(checkpointer=True))
deep = around("office", around("desk", inner()))
