"""A customer-support agent in the middle of a migration: what Drainboard's demo looks at.

Two graphs, without a network or a language model, so that every run does the same. Read them as an example of how work
comes to be parked in LangGraph; each node says in which way. This file runs inside the Agent Server and imports nothing
of Drainboard.

    support   intake ─┬─ triage ─┬─ await_approval ── collect_payment ─┬─ respond
                      │          ├─ refund (compute, confirm) ─────────┤
                      │          ├─ lookup_order ──────────────────────┤
                      └─ legacy_triage ────────────────────────────────┘

    parcels   receive ── check_item, once for each item ── close_parcel

Two things are on their way out. The field ``customer_name`` is being renamed to ``display_name``: new threads write the
new name and state version 2, old threads have the old one. And the node ``legacy_triage`` is still deployed although
nothing enters it any more, which is just what a drain has to prove before it is removed.
"""

import operator
from typing import Annotated, Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

APPROVAL_LIMIT = 100
SECOND_APPROVAL_LIMIT = 1000


class SupportState(TypedDict, total=False):
    """A channel that no node and no input ever wrote is *absent* in a thread, which is not the same as null."""

    ticket_id: str
    topic: str
    amount: int
    customer_name: str | None  # the old name
    display_name: str | None  # the new name
    state_version: int
    messages: Annotated[list[dict[str, str]], operator.add]
    approved_by: list[str]
    order_id: str | None
    outcome: str


def note(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "text": text}]}


def intake(state: SupportState) -> dict[str, Any]:
    return note(f"Ticket {state.get('ticket_id', 'without a number')} received")


def choose_triage(state: SupportState) -> Literal["triage", "legacy_triage"]:
    """The way into the old node is still in the code. Only the fax line used it, and that was cut long ago."""
    return "legacy_triage" if state.get("topic") == "fax" else "triage"


def triage(state: SupportState) -> dict[str, Any]:
    return note(f"This is about: {state.get('topic', 'something')}")


def legacy_triage(state: SupportState) -> dict[str, Any]:
    return note("Typed in by hand")


def choose_desk(
    state: SupportState,
) -> Literal["await_approval", "collect_payment", "refund", "lookup_order", "respond"]:
    match state.get("topic"):
        case "purchase":
            return "await_approval" if state.get("amount", 0) >= APPROVAL_LIMIT else "collect_payment"
        case "refund":
            return "refund"
        case "order":
            return "lookup_order"
        case _:
            return "respond"


def await_approval(state: SupportState) -> Command[Literal["collect_payment", "respond"]]:
    """Asks a person: `interrupt` parks the thread here until somebody answers, for days if need be.

    A large sum needs a second signature. Both are asked for by the same task: after the first answer the thread is
    parked at the same node again, with another interrupt.
    """
    amount = state.get("amount", 0)
    signatures = [interrupt({"question": f"Sell for {amount} on account?"})]
    if amount >= SECOND_APPROVAL_LIMIT:
        signatures.append(interrupt({"question": f"Still sell for {amount}, as the second to sign?"}))
    if "no" in signatures:
        return Command(goto="respond", update={"outcome": "declined"})
    return Command(goto="collect_payment", update={"approved_by": signatures})


class RefundState(TypedDict, total=False):
    """What the subgraph shares with its parent; channels of the same name are handed down and up."""

    amount: int
    outcome: str
    messages: Annotated[list[dict[str, str]], operator.add]


def compute_refund(state: RefundState) -> dict[str, Any]:
    return note(f"We owe {state.get('amount', 0)}")


def confirm_refund(state: RefundState) -> dict[str, Any]:
    """An interrupt inside a subgraph: the parent's `next` says `refund`, only the inner state says where exactly."""
    answer = interrupt({"question": f"Refund {state.get('amount', 0)}?"})
    return {"outcome": "refunded" if answer == "yes" else "kept"}


def lookup_order(state: SupportState) -> dict[str, Any]:
    """Fails for orders of the old shop. The thread stays here, with status `error`, until somebody retries it."""
    order_id = state.get("order_id")
    if order_id is None or order_id.startswith("OLD-"):
        raise LookupError(f"No order {order_id}")
    return note(f"Order {order_id} is on its way")


def collect_payment(state: SupportState) -> dict[str, Any]:
    """Has a *static* breakpoint in front of it (`interrupt_before` below): parked, but without any interrupt to show."""
    return {"outcome": "paid"}


def respond(state: SupportState) -> dict[str, Any]:
    return note("Closed: " + state.get("outcome", "answered"))


refund = (
    StateGraph(RefundState)
    .add_node(compute_refund)
    .add_node(confirm_refund)
    .add_edge(START, "compute_refund")
    .add_edge("compute_refund", "confirm_refund")
    .add_edge("confirm_refund", END)
    .compile()
)

support = (
    StateGraph(SupportState)
    .add_node(intake)
    .add_node(triage)
    .add_node(legacy_triage)
    .add_node(await_approval)
    .add_node("refund", refund)
    .add_node(lookup_order)
    .add_node(collect_payment)
    .add_node(respond)
    .add_edge(START, "intake")
    .add_conditional_edges("intake", choose_triage)
    .add_conditional_edges("triage", choose_desk)
    .add_edge("legacy_triage", "respond")
    .add_edge("refund", "respond")
    .add_edge("lookup_order", "respond")
    .add_edge("collect_payment", "respond")
    .add_edge("respond", END)
    .compile(interrupt_before=["collect_payment"])
)


class ParcelState(TypedDict, total=False):
    ticket_id: str
    items: list[str]
    customer_name: str | None
    display_name: str | None
    state_version: int
    checked: Annotated[list[str], operator.add]
    outcome: str


class ItemState(TypedDict):
    item: str


def receive(state: ParcelState) -> dict[str, Any]:
    return {"outcome": "checking"}


def each_item(state: ParcelState) -> list[Send]:
    return [Send("check_item", {"item": item}) for item in state.get("items", [])]


def check_item(state: ItemState) -> dict[str, Any]:
    """Runs once per item, at the same time; each asks on its own, so `next` names the node several times.

    When some are answered and others are not, the step is half done. What the finished ones scheduled is stored, yet no
    view of the server names it: a graph where this happens cannot be cleared by looking at `next`. This is why the
    fan-out has a graph of its own here: in `support` it would keep every drain of a node from ever turning green.
    """
    interrupt({"question": f"Is {state['item']} in the parcel?"})
    return {"checked": [state["item"]]}


def close_parcel(state: ParcelState) -> dict[str, Any]:
    return {"outcome": "complete"}


parcels = (
    StateGraph(ParcelState)
    .add_node(receive)
    .add_node(check_item)
    .add_node(close_parcel)
    .add_edge(START, "receive")
    .add_conditional_edges("receive", each_item, ["check_item"])
    .add_edge("check_item", "close_parcel")
    .add_edge("close_parcel", END)
    .compile()
)
