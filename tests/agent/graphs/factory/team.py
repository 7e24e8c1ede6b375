"""A graph that its assistant's config makes: `review` is only there for an assistant that asks for it."""

from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class State(TypedDict, total=False):
    note: str
    decision: str


def intake(state: State) -> State:
    return {}


def ask(state: State) -> State:
    return {"decision": str(interrupt({"note": state.get("note")}))}


def build(middle: str) -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(State)
    builder.add_node("intake", intake)
    builder.add_node(middle, ask)
    builder.add_node("notify", intake)
    builder.add_edge(START, "intake")
    builder.add_edge("intake", middle)
    builder.add_edge(middle, "notify")
    builder.add_edge("notify", END)
    return builder


def make_graph(config: RunnableConfig) -> Any:
    asked = config.get("configurable", {}).get("reviewed")
    return build("review" if asked else "approve").compile()


plain = build("approve").compile()
