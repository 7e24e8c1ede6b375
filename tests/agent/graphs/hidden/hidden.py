"""Graphs whose threads hold work, or data, that no view of a thread shows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt


class State(TypedDict, total=False):
    """What every graph here keeps."""

    ran: Annotated[list[str], operator.add]
    note: str
    go: str
    legacy_notes: str
    passport_number: str
    customer_name: str
    display_name: str


Node = Callable[[State], dict[str, Any]]


def node(name: str, **values: str) -> Node:
    """A node that writes down that it ran."""
    return lambda _: {"ran": [name], **values}


def asks(_: State) -> dict[str, Any]:
    """A node that asks."""
    interrupt({"question": "may I?"})
    return {"ran": ["asks"]}


def build(nodes: str, edges: str, *, deferred: str = "") -> StateGraph[State]:
    """A graph of nodes with one-letter names; ``edges`` like ``ab>t``: a join of a and b."""
    graph = StateGraph(State)
    for name in nodes:
        graph.add_node(name, asks if name == "q" else node(name), defer=name in deferred)
    for edge in edges.split():
        sources, _, target = edge.partition(">")
        if sources == "^":
            graph.add_edge(START, target)
        else:
            graph.add_edge(list(sources) if len(sources) > 1 else sources, target)
    return graph


deferred_join = build("abcdqt", "^>a ^>b ^>c ab>t c>d d>q", deferred="t").compile()

_solo = build("at", "^>a")
_solo.add_edge(["a"], "t")
solo_join = _solo.compile(interrupt_before=["t"])

behind_a_join = build("abcjt", "^>a ^>b ^>c ab>j c>t", deferred="t").compile(interrupt_before=["j"])

_routed = build("rabet", "^>r ab>t e>t")
_routed.add_conditional_edges("r", lambda state: list(state.get("go", "")), ["a", "b", "e"])
two_ways_in = _routed.compile()

_approval = build("iqf", "^>i q>f")
_approval.add_conditional_edges("i", lambda state: "f" if state.get("go") else "q", ["q", "f"])
approval = _approval.compile()

other = build("x", "^>x").compile()

_migrates = StateGraph(State)
_migrates.add_node("m", lambda state: {"customer_name": "x", **({"display_name": "x"} if state.get("go") else {})})
_migrates.add_edge(START, "m")
migrates = _migrates.compile()

_outer = StateGraph(State)
_outer.add_node("outer", build("wv", "^>w w>v").compile())
_outer.add_edge(START, "outer")
inside = _outer.compile()

_sends = build("sw", "^>s")
_sends.add_conditional_edges("s", lambda _: [Send("w", {"passport_number": "x"})], ["w"])
sends = _sends.compile()

_anything = StateGraph(dict)
_anything.add_node("s", lambda state: {**state, "ran": "s"})
_anything.add_edge(START, "s")
anything = _anything.compile()


@entrypoint()
def saves(_: dict[str, Any], *, previous: Any = None) -> entrypoint.final[dict[str, Any], dict[str, Any]]:
    """What it saves is not what it answers."""
    return entrypoint.final(value={"ok": previous is None}, save={"passport_number": "x"})
