"""The graphs of the table, each as it is before and after its change."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, Required, TypedDict

from kit import END, START, State, asks, either, fails, goes_to, graph, inside, line, runs, sends
from langgraph.func import entrypoint, task
from langgraph.types import interrupt
from pydantic import BaseModel

# --- Nodes ---------------------------------------------------------------------------------------------------------

begin, end, ask = runs("begin"), runs("end"), asks("ask")
untouched = line(begin, ask, end)
node_removed = either(line(begin, ask, end), line(begin, end))
node_renamed = either(line(begin, ask, end), line(begin, asks("approve"), end))
node_removed_after_all_ended = either(line(begin, ask, end), line(begin, end))
node_added = either(line(begin, ask, end), line(begin, ask, runs("log"), end))
order_changed = either(line(begin, ask, runs("log"), end), line(begin, runs("log"), ask, end))
node_failed_removed = either(line(begin, fails("ask"), end), line(begin, end))
node_failed_kept = either(line(begin, fails("ask"), end), line(begin, runs("ask"), end))
bulk_renamed = either(line(begin, runs("ask"), end), line(begin, runs("approve"), end))
two_removed = either(line(begin, ask, end), graph([begin], [(START, "begin"), ("begin", END)]))

_beside = [(START, "a"), (START, "b"), ("a", END), ("b", END)]
one_of_two_removed = either(graph([asks("a"), asks("b")], _beside), graph([asks("a")], _beside[::2]))

# --- Static breakpoints --------------------------------------------------------------------------------------------

breakpoint_node_removed = either(line(begin, runs("ask"), end, interrupt_before=["ask"]), line(begin, end))
breakpoint_dropped = either(line(begin, runs("ask"), end, interrupt_before=["ask"]), line(begin, runs("ask"), end))
breakpoint_added = either(line(begin, ask, end), line(begin, ask, end, interrupt_before=["end"]))
breakpoint_after_node_removed = either(line(begin, runs("ask"), end, interrupt_after=["begin"]), line(begin, end))

# --- Subgraphs -----------------------------------------------------------------------------------------------------

inner_renamed = either(
    line(begin, inside("desk", runs("first"), ask), end),
    line(begin, inside("desk", runs("first"), asks("approve")), end),
)
inner_removed = either(
    line(begin, inside("desk", runs("first"), ask, runs("last")), end),
    line(begin, inside("desk", runs("first"), runs("last")), end),
)
inner_of_memory_renamed = either(
    line(begin, inside("desk", runs("first"), ask, checkpointer=True), end),
    line(begin, inside("desk", runs("first"), asks("approve"), checkpointer=True), end),
)
two_deep_renamed = either(
    line(begin, inside("office", inside("desk", runs("first"), ask)), end),
    line(begin, inside("office", inside("desk", runs("first"), asks("approve"))), end),
)
outer_renamed = either(
    line(begin, inside("desk", runs("first"), ask), end), line(begin, inside("counter", runs("first"), ask), end)
)
subgraph_became_node = either(line(begin, inside("desk", runs("first"), ask), end), line(begin, asks("desk"), end))
node_became_subgraph = either(line(begin, asks("desk"), end), line(begin, inside("desk", runs("first"), ask), end))
inner_added = either(
    line(begin, inside("desk", runs("first"), ask), end),
    line(begin, inside("desk", runs("first"), ask, runs("last")), end),
)

# --- Send ----------------------------------------------------------------------------------------------------------

send_target_renamed = either(sends(asks("review")), sends(asks("check")))
send_half_done_renamed = either(sends(asks("review")), sends(asks("check")))
send_kept = either(sends(asks("review")), sends(asks("review"), many=3))

# --- Half steps, joins, deferred nodes -----------------------------------------------------------------------------

_half = [(START, "a"), (START, "b"), ("a", "t"), ("b", END), ("t", END)]
_half_u = [(START, "a"), (START, "b"), ("a", "u"), ("b", END), ("u", END)]
half_step_renamed = either(
    graph([runs("a"), asks("b"), runs("t")], _half), graph([runs("a"), asks("b"), runs("u")], _half_u)
)
half_step_rewired = either(
    graph([runs("a"), asks("b"), runs("t"), runs("u")], [*_half, ("t", "u"), ("u", END)]),
    graph([runs("a"), asks("b"), runs("t"), runs("u")], [*_half_u, ("t", END)]),
)
goto_renamed = either(
    graph([goes_to("a", "t"), asks("b"), runs("t")], [(START, "a"), (START, "b"), ("b", END), ("t", END)]),
    graph([goes_to("a", "u"), asks("b"), runs("u")], [(START, "a"), (START, "b"), ("b", END), ("u", END)]),
)
_to_b = [(START, "a"), (START, "b1"), ("b1", "b")]
_joined = [runs("a"), runs("b1"), asks("b"), runs("t")]
join_renamed = either(
    graph(_joined, [*_to_b, (["a", "b"], "t"), ("t", END)]),
    graph([*_joined[:3], runs("u")], [*_to_b, (["a", "b"], "u"), ("u", END)]),
)
join_source_added = either(
    graph(_joined, [*_to_b, (["a", "b"], "t"), ("t", END)]),
    graph([*_joined, runs("c")], [*_to_b, (START, "c"), (["a", "b", "c"], "t"), ("t", END)]),
)
join_source_renamed = either(
    graph(_joined, [*_to_b, (["a", "b"], "t"), ("t", END)]),
    graph([runs("x"), *_joined[1:]], [(START, "x"), *_to_b[1:], (["x", "b"], "t"), ("t", END)]),
)
join_became_edges = either(
    graph(_joined, [*_to_b, (["a", "b"], "t"), ("t", END)]),
    graph(_joined, [*_to_b, ("a", END), ("b", "t"), ("t", END)]),
)
edges_became_join = either(
    graph(_joined, [*_to_b, ("a", "t"), ("b", "t"), ("t", END)]),
    graph(_joined, [*_to_b, (["a", "b"], "t"), ("t", END)]),
)
_late = [*_to_b, ("a", "t"), ("b", END), ("t", END)]
deferred_renamed = either(
    graph(_joined, _late, defer=["t"]),
    graph([*_joined[:3], runs("u")], [*_to_b, ("a", "u"), ("b", END), ("u", END)], defer=["u"]),
)
deferred_no_more = either(graph(_joined, _late, defer=["t"]), graph(_joined, _late))
deferred_now = either(graph(_joined, _late), graph(_joined, _late, defer=["t"]))
_at_t = [runs("a"), runs("b1"), runs("b"), asks("t")]
deferred_now_at_it = either(
    line(begin, ask, end),
    graph([begin, ask, end], [(START, "begin"), ("begin", "ask"), ("ask", "end"), ("end", END)], defer=["ask"]),
)
deferred_no_more_at_it = either(graph(_at_t, _late, defer=["t"]), graph(_at_t, _late))
_join_t = [*_to_b, (["a", "b"], "t"), ("t", END)]
join_source_added_at_it = either(
    graph(_at_t, _join_t), graph([*_at_t, runs("c")], [*_to_b, (START, "c"), (["a", "b", "c"], "t"), ("t", END)])
)
join_became_edges_at_it = either(graph(_at_t, _join_t), graph(_at_t, [*_to_b, ("a", END), ("b", "t"), ("t", END)]))
edges_became_join_at_it = either(graph(_at_t, [*_to_b, ("b", "t"), ("a", "t"), ("t", END)]), graph(_at_t, _join_t))
half_step_deferred_now = either(
    graph([runs("a"), asks("b"), runs("t")], _half), graph([runs("a"), asks("b"), runs("t")], _half, defer=["t"])
)

# --- Fields --------------------------------------------------------------------------------------------------------


class Named(State, total=False):
    customer_name: str
    amount: str
    score: Any


class Renamed(State, total=False):
    display_name: str
    amount: str
    score: Any


class Demanded(State, total=False):
    customer_name: Required[str]
    amount: str
    score: Any
    region: Required[str]


class Retyped(State, total=False):
    customer_name: str
    amount: list[str]
    score: Any


class Unnamed(State, total=False):
    amount: str
    score: Any


_asking = (begin, ask, end)
named = line(*_asking, state=Named)
field_removed = either(named, line(*_asking, state=Unnamed))
field_removed_held_by_settled = either(named, line(*_asking, state=Unnamed))
field_removed_held_by_none = either(named, line(*_asking, state=Unnamed))
field_renamed = either(named, line(*_asking, state=Renamed))
field_required_unchecked = either(named, line(*_asking, state=Demanded))
field_retyped_unchecked = either(named, line(*_asking, state=Retyped))
field_retyped_held_by_none = either(named, line(*_asking, state=Retyped))
field_added = either(line(*_asking, state=Unnamed), named)


class Checked(BaseModel):
    note: str | None = None
    amount: Any = None
    region: str | None = None
    ran: Annotated[list[str], operator.add] = []


class Tight(BaseModel):
    note: str | None = None
    amount: Any = None
    region: str
    ran: Annotated[list[str], operator.add] = []


class Listed(BaseModel):
    note: str | None = None
    amount: list[str] | None = None
    region: str | None = None
    ran: Annotated[list[str], operator.add] = []


class Counted(BaseModel):
    note: str | None = None
    amount: int | None = None
    region: str | None = None
    ran: Annotated[list[str], operator.add] = []


checked = line(*_asking, state=Checked)
field_required = either(checked, line(*_asking, state=Tight))
field_required_and_there = either(checked, line(*_asking, state=Tight))
field_required_after_all_ended = either(checked, line(*_asking, state=Tight))
field_retyped = either(checked, line(*_asking, state=Listed))
field_retyped_and_fits = either(checked, line(*_asking, state=Listed))
field_retyped_maybe = either(checked, line(*_asking, state=Counted))


@dataclass
class Plain:
    note: str | None = None
    ran: Annotated[list[str], operator.add] = field(default_factory=list)


@dataclass
class Demanding:
    region: str
    note: str | None = None
    ran: Annotated[list[str], operator.add] = field(default_factory=list)


dataclass_field_required = either(line(*_asking, state=Plain), line(*_asking, state=Demanding))


class Unchecked(TypedDict, total=False):
    note: str
    region: str
    ran: Annotated[list[str], operator.add]


now_checked = either(line(*_asking, state=Unchecked), line(*_asking, state=Tight))


# --- Functional API ------------------------------------------------------------------------------------------------


def _flow(name: str, *, tasks: tuple[str, ...] = ("first", "second")) -> Any:
    def first() -> str:
        return "first"

    def second() -> str:
        return f"second {interrupt('asks')}"

    made = {"first": first, "second": second}
    steps = [task(made[each.partition(":")[0]], name=each.rpartition(":")[2]) for each in tasks]

    def body(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"ran": [step().result().split()[0] for step in steps]}

    body.__name__ = name
    return entrypoint()(body)


flow_untouched = _flow("flow")
flow_renamed = either(_flow("flow"), _flow("stream"))
flow_task_renamed = either(_flow("flow"), _flow("flow", tasks=("first", "second:renamed")))
flow_became_graph = either(_flow("flow"), line(begin, ask, end))
flow_dropped = _flow("flow")
graph_became_flow = either(line(begin, ask, end), _flow("flow"))

# --- Graphs --------------------------------------------------------------------------------------------------------

dropped = line(begin, ask, end)
dropped_settled = line(begin, ask, end)
dropped_never_ran = line(begin, ask, end)
renamed_graph = line(begin, ask, end)
