"""Functional API: a thread is pending at its entrypoint, and its state is whatever was returned; and a graph whose state is any dict."""

from typing import Any

from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


@task
def ask(note: str | None) -> str:
    return str(interrupt({"note": note}))


@entrypoint()
def functional(inputs: dict[str, Any]) -> dict[str, Any]:
    decision = ask(inputs.get("note")).result() if inputs.get("ask") else "none"
    return {**inputs, "decision": decision}


def wait(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "decision": str(interrupt({"note": state.get("note")}))}


builder = StateGraph(dict)
builder.add_node("wait", wait)
builder.add_edge(START, "wait")
builder.add_edge("wait", END)
freeform = builder.compile()
