"""A checked state, whose next revision is stricter."""

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel


class State(BaseModel):
    note: str | None = None
    amount: Any = None
    decision: str | None = None


def await_amount(state: State) -> dict[str, str]:
    return {"decision": state.decision or str(interrupt({"note": state.note}))}


builder = StateGraph(State)
builder.add_node("await_amount", await_amount)
builder.add_edge(START, "await_amount")
builder.add_edge("await_amount", END)
graph = builder.compile()
