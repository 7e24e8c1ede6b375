"""The table: a change of a graph, the threads that were parked under it, and what a preflight must say of it.

What really happened to these threads is not written here: `test_truth.py` deploys the change and looks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.preflight.lives import Life

GRAPHS = Path(__file__).parent / "graphs"
DROPPED = frozenset({"flow_dropped", "dropped", "dropped_settled", "dropped_never_ran", "renamed_graph"})
RENAMED = "renamed_graph_again"

Says = Mapping[tuple[str, str], Mapping[str, int]]
"""What is said of each change, by kind and name: how many threads by outcome. No outcome: safe."""


@dataclass(frozen=True)
class Row:
    """One change. `owes`: what must still run of each parked thread, by the names that nodes write; by default the last part of
    every leaf. `renamed`: what a removed name is suggested to be called now."""

    graph: str
    says: Says
    lives: tuple[Life, ...] = ()
    owes: tuple[str, ...] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def parked(self) -> tuple[Life, ...]:
        """Its threads."""
        return self.lives or (Life(self.graph),)


def files(*, after: bool) -> dict[str, str]:
    """The application as it is before or after all changes."""
    graphs = {row.graph: f"./changes.py:{row.graph}" for row in TABLE if not (after and row.graph in DROPPED)}
    if after:
        graphs[RENAMED] = "./changes.py:renamed_graph"
    made = {path.name: path.read_text(encoding="utf-8") for path in sorted(GRAPHS.glob("*.py"))}
    configuration: dict[str, Any] = {"dependencies": ["."], "graphs": graphs}
    return {**made, "version.py": f"AFTER = {after}\n", "langgraph.json": json.dumps(configuration)}


def _row(graph: str, kind: str = "", name: str = "", /, owes: tuple[str, ...] | None = None, **said: int) -> Row:
    """A row with one change that matters and one thread that was parked by asking."""
    return Row(graph, {(kind, name): said} if kind else {}, owes=owes)


def _lived(
    graph: str,
    kind: str,
    name: str,
    *hows: str,
    given: Mapping[str, Any] | None = None,
    also: Says | None = None,
    **said: int,
) -> Row:
    return Row(graph, {(kind, name): said, **(also or {})}, tuple(Life(graph, how, given or {}) for how in hows))


_REGION: Says = {("field_retyped", "region"): {}}
_HELD = {"customer_name": "Ada", "amount": "seven"}

TABLE: tuple[Row, ...] = (
    # Nodes
    _row("untouched"),
    _row("node_removed", "node_removed", "ask", would_strand=1),
    Row("node_renamed", {("node_removed", "ask"): {"would_strand": 1}}, renamed={"ask": "approve"}),
    _lived("node_removed_after_all_ended", "node_removed", "ask", "settles"),
    _row("node_added"),
    _row("order_changed"),
    _row("node_failed_removed", "node_removed", "ask", would_strand=1),
    _row("node_failed_kept"),
    Row(
        "bulk_renamed",
        {("node_removed", "ask"): {"would_strand": 1}},
        (Life("bulk_renamed", "bulk"),),
        renamed={"ask": "approve"},
    ),
    Row("two_removed", {("node_removed", "ask"): {"would_strand": 1}, ("node_removed", "end"): {}}),
    _row("one_of_two_removed", "node_removed", "b", would_strand=1),
    # Static breakpoints
    _row("breakpoint_node_removed", "node_removed", "ask", would_strand=1),
    Row(
        "breakpoint_after_node_removed",
        {("node_removed", "ask"): {"would_strand": 1}, ("breakpoint_changed", "begin"): {}},
    ),
    _row("breakpoint_dropped", "breakpoint_changed", "ask"),
    _row("breakpoint_added", "breakpoint_changed", "end"),
    # Subgraphs
    Row("inner_renamed", {("node_removed", "desk/ask"): {"would_strand": 1}}, renamed={"desk/ask": "desk/approve"}),
    _row("inner_removed", "node_removed", "desk/ask", would_strand=1),
    Row(
        "inner_of_memory_renamed",
        {("node_removed", "desk/ask"): {"would_strand": 1}},
        renamed={"desk/ask": "desk/approve"},
    ),
    Row(
        "two_deep_renamed",
        {("node_removed", "office/desk/ask"): {"would_strand": 1}},
        renamed={"office/desk/ask": "office/desk/approve"},
    ),
    Row("outer_renamed", {("node_removed", "desk"): {"would_strand": 1}}, renamed={"desk": "counter"}),
    Row(
        "subgraph_became_node",
        {("node_removed", "desk/ask"): {"would_strand": 1}, ("node_removed", "desk/first"): {}},
    ),
    _row("node_became_subgraph", owes=("ask",)),
    _row("inner_added"),
    # Send
    Row("send_target_renamed", {("node_removed", "review"): {"would_drop_send": 1}}, renamed={"review": "check"}),
    Row(
        "send_half_done_renamed",
        {("node_removed", "review"): {"would_drop_send": 1}},
        (Life("send_half_done_renamed", "half"),),
        renamed={"review": "check"},
    ),
    _row("send_kept"),
    # Half steps, joins, deferred nodes
    Row(
        "half_step_renamed",
        {("node_removed", "t"): {"may_strand": 1}},
        owes=("b", "t"),
        renamed={"t": "u"},
    ),
    _row("half_step_rewired", owes=("b", "t")),
    Row("goto_renamed", {("node_removed", "t"): {"may_strand": 1}}, owes=("b", "t"), renamed={"t": "u"}),
    Row("join_renamed", {("node_removed", "t"): {"may_strand": 1}}, owes=("b", "t"), renamed={"t": "u"}),
    _row("join_source_added", "join_changed", "t", owes=("b", "t"), may_strand=1),
    Row(
        "join_source_renamed",
        {("node_removed", "a"): {}, ("join_changed", "t"): {"may_strand": 1}},
        owes=("b", "t"),
        renamed={"a": "x"},
    ),
    _row("join_became_edges", "join_changed", "t", owes=("b", "t"), may_strand=1),
    _row("edges_became_join", "join_changed", "t", owes=("b", "t", "t"), may_strand=1),
    _row("join_source_added_at_it", "join_changed", "t", owes=("t",), would_strand=1),
    _row("join_became_edges_at_it", "join_changed", "t", owes=("t",), would_strand=1),
    Row("edges_became_join_at_it", {("join_changed", "t"): {"may_strand": 1}}, owes=("t",)),
    Row("deferred_renamed", {("node_removed", "t"): {"may_strand": 1}}, owes=("b", "t"), renamed={"t": "u"}),
    _row("deferred_no_more", "node_not_deferred", "t", owes=("b", "t"), may_strand=1),
    _row("deferred_no_more_at_it", "node_not_deferred", "t", may_strand=1),
    _row("deferred_now_at_it", "node_deferred", "ask", would_fail_to_load=1),
    _row("deferred_now", "node_deferred", "t", owes=("b",), may_strand=1),
    # Fields
    _lived("field_removed", "field_removed", "customer_name", "asks", given=_HELD, would_hide=1),
    _lived("field_removed_held_by_settled", "field_removed", "customer_name", "settles", given=_HELD),
    _lived("field_removed_held_by_none", "field_removed", "customer_name", "asks", "settles"),
    Row(
        "field_renamed",
        {("field_removed", "customer_name"): {"would_hide": 2}},
        (Life("field_renamed", "asks", _HELD), Life("field_renamed", "settles", _HELD)),
        renamed={"customer_name": "display_name"},
    ),
    _row("field_added"),
    _row("field_required_unchecked"),
    _lived("field_required", "field_required", "region", "asks", "settles", also=_REGION, would_fail_to_load=2),
    _lived("field_required_and_there", "field_required", "region", "asks", given={"region": "eu"}, also=_REGION),
    _lived("field_required_after_all_ended", "field_required", "region", "settles", also=_REGION, would_fail_to_load=1),
    _row("dataclass_field_required", "field_required", "region", would_fail_to_load=1),
    Row(
        "now_checked",
        {
            ("field_required", "region"): {"would_fail_to_load": 1},
            **{("field_retyped", name): {} for name in ("note", "ran", "region")},
        },
    ),
    _lived("field_retyped", "field_retyped", "amount", "asks", "settles", given=_HELD, would_fail_to_load=2),
    _lived("field_retyped_held_by_none", "field_retyped", "amount", "asks"),
    _lived("field_retyped_unchecked", "field_retyped", "amount", "asks", given=_HELD, unknown=1),
    _lived("field_retyped_maybe", "field_retyped", "amount", "asks", given=_HELD, unknown=1),
    # Functional API
    _row("flow_untouched", owes=("second",)),
    _row("flow_renamed", owes=("second",)),
    _row("flow_task_renamed", "tasks_changed", "flow", owes=("second",), unknown=1),
    _row("flow_became_graph", "node_removed", "flow", owes=("second",), would_strand=1),
    Row(
        "graph_became_flow",
        {
            ("node_removed", "ask"): {"would_strand": 1},
            **{("node_removed", name): {} for name in ("begin", "end")},
            **{("field_removed", name): {"would_hide": 1} for name in ("note", "ran")},
            ("field_removed", "fail"): {},
        },
    ),
    _row("flow_dropped", "graph_removed", "flow_dropped", would_fail_to_load=1),
    # Graphs
    _row("dropped", "graph_removed", "dropped", would_fail_to_load=1),
    _lived("dropped_settled", "graph_removed", "dropped_settled", "settles", would_fail_to_load=1),
    _lived("dropped_never_ran", "graph_removed", "dropped_never_ran", "never"),
    _row("renamed_graph", "graph_removed", "renamed_graph", would_fail_to_load=1),
)
LIMITS = frozenset({"field_retyped_unchecked", "field_retyped_maybe", "flow_task_renamed"})
