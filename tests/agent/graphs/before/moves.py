"""Other ways to get somewhere and wait there: by a command, around again, out of a subgraph, inside several at once."""

import operator
from typing import Annotated, Any, Literal, TypedDict

from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from nested import around, inner
from scheduled import half_step, join


class State(TypedDict, total=False):
    case: Literal["goto", "end"]
    note: str
    rounds: int
    answers: Annotated[list[str], operator.add]


def begin(state: State) -> Command[Any]:
    return Command(goto="ask" if state.get("case") == "goto" else END)


def ask(state: State) -> State:
    return {"answers": [str(interrupt({"note": state.get("note")}))]}


def again(state: State) -> str:
    return "ask" if len(state.get("answers", [])) < state.get("rounds", 1) else END


def leave(state: State) -> Command[Any]:
    return Command(graph=Command.PARENT, goto="ask")


builder = StateGraph(State)
builder.add_node("begin", begin)
builder.add_node("ask", ask)
builder.add_edge(START, "begin")
builder.add_conditional_edges("ask", again)
moves = builder.compile()
stops = builder.compile(interrupt_before=["ask"])

out = StateGraph(State)
out.add_node("leave", leave)
out.add_edge(START, "leave")
parent = StateGraph(State)
parent.add_node("desk", out.compile())
parent.add_node("ask", ask)
parent.add_edge(START, "desk")
parent.add_edge("ask", END)
leaving = parent.compile()

half_inside = around("office", half_step)
join_inside = around("office", join)
remembering_deep = around("office", around("desk", inner(checkpointer=True)))


def newest(old: str, new: str) -> str:
    return new


class Several(TypedDict, total=False):
    """Written by two subgraphs in one step."""

    note: Annotated[str, newest]
    decision: Annotated[str, newest]


sending = StateGraph(Several)
sending.add_node("desk", inner())
sending.add_conditional_edges(START, lambda state: [Send("desk", {"note": state.get("note")})] * 2, ["desk"])
sent_inside = sending.compile()

beside = StateGraph(Several)
for name in ("left", "right"):
    beside.add_node(name, inner())
    beside.add_edge(START, name)
two_desks = beside.compile()

desk = inner()


async def call(state: State) -> State:
    await desk.ainvoke({"note": state.get("note", "")})
    return {}


caller = StateGraph(State)
caller.add_node("call", call)
caller.add_edge(START, "call")
calling = caller.compile()


@task
def first(note: str | None) -> str:
    return "done"


@task
def second(note: str | None) -> str:
    return str(interrupt({"note": note}))


@entrypoint()
def two_tasks(inputs: dict[str, Any]) -> dict[str, Any]:
    if inputs.get("fail"):
        raise ValueError(f"could not handle {inputs.get('note')}")
    done = {"first": first(inputs.get("note")).result()}
    return {**done, "second": second(inputs.get("note")).result()} if inputs.get("ask") else done
