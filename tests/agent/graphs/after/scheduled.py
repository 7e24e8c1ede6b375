"""A release later, with `t` renamed to `t2` and `c` removed.

Work that no view of a thread names: `t2` is scheduled, waits for its other arm, or waits for the end.
"""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt


class State(TypedDict, total=False):
    note: str
    fail: bool
    decision: str
    ran: Annotated[list[str], operator.add]


def runs(name: str) -> Any:
    return lambda state: {"ran": [name]}


def ask(state: State) -> State:
    return {"decision": str(interrupt({"note": state.get("note")})), "ran": ["b"]}


def fail_or_run(state: State) -> State:
    if state.get("fail"):
        raise ValueError(f"could not handle {state.get('note')}")
    return {"ran": ["a"]}


def goto_t2(state: State) -> Command[Any]:
    return Command(goto="t2", update={"ran": ["a"]})


def built(
    nodes: dict[str, Any], edges: list[tuple[Any, str]], *, defer: str = ""
) -> CompiledStateGraph[Any, Any, Any, Any]:
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node, defer=name == defer)
    for source, target in edges:
        builder.add_edge(source, target)
    return builder.compile()


# a has finished and its edge to t is stored, while b asks beside it.
half_step = built(
    {"a": runs("a"), "b": ask, "t2": runs("t2")},
    [(START, "a"), (START, "b"), ("a", "t2"), ("b", END), ("t2", END)],
)
# The same without an edge in the drawing.
goto = built({"a": goto_t2, "b": ask, "t2": runs("t2")}, [(START, "a"), (START, "b"), ("b", END), ("t2", END)])
# t waits for a, which finished steps ago, and for b.
join = built(
    {"a": runs("a"), "b1": runs("b1"), "b2": runs("b2"), "b": ask, "t2": runs("t2")},
    [(START, "a"), (START, "b1"), ("b1", "b2"), ("b2", "b"), (["a", "b"], "t2"), ("t2", END)],
)
# t waits until nothing else is left.
deferred = built(
    {"a": runs("a"), "b1": runs("b1"), "b2": runs("b2"), "b": ask, "t2": runs("t2")},
    [(START, "a"), (START, "b1"), ("b1", "b2"), ("b2", "b"), ("a", "t2"), ("b", END), ("t2", END)],
    defer="t2",
)
# b asks; a may fail beside it.
beside = built(
    {"a": fail_or_run, "b": ask},
    [(START, "a"), (START, "b"), ("a", END), ("b", END)],
)
