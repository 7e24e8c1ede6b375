"""A release later: one `check` task per document, all asking at once."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt


class State(TypedDict, total=False):
    documents: list[str]
    note: str
    verdicts: Annotated[list[str], operator.add]


class Document(TypedDict):
    name: str
    note: str


def plan(state: State) -> State:
    return {}


def each_document(state: State) -> list[Send]:
    return [Send("check", {"name": name, "note": state.get("note")}) for name in state["documents"]]


def check(document: Document) -> State:
    return {"verdicts": [f"{document['name']}: {interrupt(dict(document))}"]}


def publish(state: State) -> State:
    return {}


builder = StateGraph(State)
builder.add_node("plan", plan)
builder.add_node("check", check)
builder.add_node("publish", publish)
builder.add_edge(START, "plan")
builder.add_conditional_edges("plan", each_document)
builder.add_edge("check", "publish")
builder.add_edge("publish", END)
graph = builder.compile()
