"""The ordinary agent, a release later: `await_approval` is `await_signoff`, `customer_name` is `display_name`, `legacy_notes` is gone."""

import asyncio
from pathlib import Path
from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

GATES = Path(__file__).parent / "gates"


class State(TypedDict, total=False):
    case: Literal["ask", "ask_twice", "finish", "fail", "spin", "hold"]
    gate: str
    answer_gate: str
    note: str
    decision: str
    outcome: str
    display_name: Any
    retry_count: Any
    passport_number: Any
    state_version: Any


async def gate_opened(name: str | None) -> None:
    """Say by a file that a node runs, and wait until somebody writes another; without a name do not wait."""
    if name:
        (GATES / f"{name}.reached").touch()
        while not (GATES / f"{name}.open").exists():
            await asyncio.sleep(0.05)


def intake(state: State) -> State:
    return {}


def route(state: State) -> str:
    return state.get("case", "finish")


async def await_signoff(state: State) -> State:
    answer = interrupt({"question": "May we?", "note": state.get("note")})
    await gate_opened(state.get("answer_gate"))
    if state.get("case") == "ask_twice":
        answer = interrupt({"question": "Sure?", "note": state.get("note")})
    return {"decision": str(answer)}


async def hold(state: State) -> State:
    await gate_opened(state.get("gate"))
    return {}


def fail(state: State) -> State:
    raise ValueError(f"could not handle {state.get('note')}")


def spin(state: State) -> State:
    return {"outcome": "again"}


def notify(state: State) -> State:
    return {"outcome": "done"}


builder = StateGraph(State)
for node in (intake, await_signoff, hold, fail, spin, notify):
    builder.add_node(node.__name__, node)
builder.add_edge(START, "intake")
builder.add_conditional_edges(
    "intake",
    route,
    {
        "ask": "await_signoff",
        "ask_twice": "await_signoff",
        "finish": "notify",
        "fail": "fail",
        "spin": "spin",
        "hold": "hold",
    },
)
builder.add_edge("await_signoff", "hold")
builder.add_edge("hold", "notify")
builder.add_edge("fail", "notify")
builder.add_edge("spin", "spin")
builder.add_edge("notify", END)
graph = builder.compile()
