"""Builders: sensible facts, payloads and evidence; a test overrides what matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from app.drains.dispositions import Disposition
from app.drains.spec import DrainSpec, Policy, Target
from app.drains.subjects import Routes, Rules, Subject, Work, WorkLeaf
from app.drains.verdicts import Evidence, SoakState
from app.facts.privacy import Names, shape_of
from app.facts.types import (
    Cause,
    Condition,
    Interrupt,
    Leaf,
    RowFacts,
    RunFacts,
    Shape,
    StateFacts,
    Status,
    StorageFacts,
    ThreadFacts,
    Topology,
)
from app.inventory.views import PollSummary, SourceStatus
from app.sources.agent_server.reduce import Reading

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
KEY = b"0" * 64
NODE = "await_approval"
NODE_KEY = f"node:{NODE}"
DECLARED = ("customer_name", "display_name", "state_version", "note", "legacy_notes")
RENAME = ("customer_name", "display_name")


def uuid_of(number: int) -> str:
    """A thread id; larger numbers sort later."""
    return f"00000000-0000-7000-8000-{number:012x}"


def names(*declared: str) -> Names:
    return Names(declared or DECLARED, key=KEY)


def reading(**changes: Any) -> Reading:
    made = Reading(names=names(), version_keys=("state_version",), renames=(RENAME,), metadata_keys=("region",))
    return replace(made, **changes)


# -- payloads as the Agent Server sends them ------------------------------------------------------------------------


def raw_row(thread_id: str = uuid_of(1), **changes: Any) -> dict[str, Any]:
    """A row of ``threads.search``."""
    return {
        "thread_id": thread_id,
        "created_at": "2026-11-29T08:00:00.100000+00:00",
        "updated_at": "2026-11-29T09:00:00.200000+00:00",
        "state_updated_at": "2026-11-29T09:00:00.200000+00:00",
        "metadata": {"graph_id": "support", "assistant_id": "a76bea17-1a15-53a6-bfc6-e12c619f641d"},
        "status": "idle",
        "values": {"note": "secret", "state_version": 2},
        "interrupts": {},
    } | changes


def raw_task(name: str = NODE, task_id: str = "0fa89786-5130-fd48-501d-53ef2749d145", **changes: Any) -> dict[str, Any]:
    """An unfinished task of a state."""
    return {
        "id": task_id,
        "name": name,
        "path": ["__pregel_pull", name],
        "error": None,
        "interrupts": [],
        "checkpoint": None,
        "state": None,
        "result": None,
    } | changes


def raw_state(*tasks: Mapping[str, Any], checkpoint_id: str | None = "1f1ecba7-0001", **changes: Any) -> dict[str, Any]:
    """An answer of ``get_state(subgraphs=True)``."""
    place = {"checkpoint_id": checkpoint_id, "thread_id": uuid_of(1), "checkpoint_ns": ""}
    return {
        "values": {"note": "secret", "state_version": 2},
        "next": [task["name"] for task in tasks if task.get("result") is None],
        "tasks": list(tasks),
        "metadata": {"graph_id": "support", "source": "loop", "step": 1, "run_id": "r"},
        "created_at": "2026-11-29T09:00:00.100000+00:00",
        "checkpoint": place if checkpoint_id else None,
        "parent_checkpoint": place | {"checkpoint_id": "1f1ecba7-0000"},
        "interrupts": [],
        "checkpoint_id": checkpoint_id,
        "parent_checkpoint_id": "1f1ecba7-0000",
    } | changes


def raw_run(status: str = "running", durability: str | None = "async", **changes: Any) -> dict[str, Any]:
    return {
        "run_id": "01a22c73-c536-738f-b645-8ee3093c6695",
        "status": status,
        "created_at": "2026-11-30T11:59:00+00:00",
        "kwargs": {"durability": durability, "input": {"note": "secret"}},
    } | changes


def raw_storage(*channels: str) -> dict[str, Any]:
    return {
        "checkpoints": {"count": 3, "bytes": 9},
        "channel_values": {"by_channel": {name: {"versions": 1, "bytes": 1} for name in channels}},
    }


def drawing(*nodes: str, edges: Sequence[tuple[str, str]] = (), defer: Sequence[str] = ()) -> dict[str, Any]:
    """An answer of ``GET /assistants/{id}/graph``."""
    return {
        "nodes": [
            {"id": name, "type": "runnable", "data": {"name": name}}
            | ({"metadata": {"defer": True}} if name in defer else {})
            for name in ("__start__", *nodes, "__end__")
        ],
        "edges": [{"source": source, "target": target} for source, target in edges],
    }


# -- facts ----------------------------------------------------------------------------------------------------------


def shape(values: Mapping[str, object] | None = None, **changes: Any) -> Shape:
    """The shape of these values, with the rename compared."""
    found = {"note": "x", "state_version": 2} if values is None else values
    made = shape_of(found, names=names(), version_keys=("state_version",), renames=(RENAME,))
    return replace(made, **changes)


def row(thread_id: str = uuid_of(1), **changes: Any) -> RowFacts:
    made = RowFacts(
        thread_id=thread_id,
        status=Status.IDLE,
        created_at=NOW - 30 * HOUR,
        updated_at=NOW - HOUR,
        state_updated_at=NOW - HOUR,
        graph_id="support",
        assistant_id="a76bea17",
        metadata={},
        shape=shape(),
        interrupts=(),
    )
    return replace(made, **changes)


def parked_row(*interrupts: Interrupt, **changes: Any) -> RowFacts:
    return row(status=Status.INTERRUPTED, interrupts=interrupts, **changes)


def leaf(node: str = NODE, **changes: Any) -> Leaf:
    made = Leaf(node=node, ns="", task_id="task-1", checkpoint_id="C", interrupts=1, cause=Cause.DYNAMIC)
    return replace(made, **changes)


def state(*leaves: Leaf, **changes: Any) -> StateFacts:
    made = StateFacts(
        checkpoint_id="C",
        parent_id="B",
        created_at=NOW - HOUR,
        source="loop",
        step=1,
        graph_id="support",
        leaves=leaves,
        unapplied=(),
        shape=shape(),
        heads={"": "C"},
    )
    return replace(made, **changes)


def facts(thread_row: RowFacts | None = None, **changes: Any) -> ThreadFacts:
    """A settled thread."""
    made = ThreadFacts(
        row=thread_row or row(),
        seen_at=NOW,
        condition=Condition.SETTLED,
        leaves=(),
        state=state(),
        state_read_at=NOW,
        revision_id=None,
    )
    return replace(made, **changes)


def parked(thread_row: RowFacts | None = None, *leaves: Leaf, **changes: Any) -> ThreadFacts:
    waiting = leaves or (leaf(),)
    made = facts(
        thread_row or parked_row(), condition=Condition.PARKED, leaves=waiting, state=state(*waiting), revision_id=1
    )
    return replace(made, **changes)


def run(status: str = "running", durability: str | None = "async", created_at: datetime = NOW - MINUTE) -> RunFacts:
    return RunFacts("run-1", status, created_at, durability)


def storage(*branches: str, joins: Sequence[str] = (), sends: bool = False) -> StorageFacts:
    return StorageFacts(frozenset(branches), frozenset(joins), sends, frozenset({"note"}), 3)


def topology(*nodes: str, **changes: Any) -> Topology:
    made = Topology(
        "support", "a1", frozenset(nodes or (NODE, "finish")), frozenset(), frozenset(), (), frozenset(), "x"
    )
    return replace(made, **changes)


# -- drains ---------------------------------------------------------------------------------------------------------


def target(kind: str = "node", name: str = NODE, **changes: Any) -> Target:
    return Target(kind, name, **changes)  # type: ignore[arg-type]


RENAME_TARGET = Target("rename", "customer_name", new="display_name")
VERSION_TARGET = Target("version", "state_version", minimum=2)


def rules(**changes: Any) -> Rules:
    """Revision 1 has the target; revision 2 has not."""
    made = Rules(
        revision_nodes={1: {NODE, "finish", "nested", "nested/sub_wait"}, 2: {"finish"}},
        joins=frozenset(),
        deferred=frozenset(),
        find=names().find,
        policy=Policy(),
        newest_versions={},
    )
    return replace(made, **changes)


def subject(condition: Condition = Condition.SETTLED, *leaves: WorkLeaf, **changes: Any) -> Subject:
    made = Subject(
        condition=condition,
        work=Work(leaves),
        shape=shape(),
        revision_id=1,
        reading_is_current=False,
        routes=None,
    )
    return replace(made, **changes)


def routes(
    *branches: str, joins: Sequence[str] = (), sends: bool = False, fields: Sequence[str] = ("state_version",)
) -> Routes:
    return Routes(frozenset(branches), frozenset(joins), sends, frozenset(fields))


def spec(*targets: Target, policy: Mapping[str, Any] | None = None, **changes: Any) -> DrainSpec:
    made = DrainSpec("drop-it", "prod", "support", targets or (target(),), policy=Policy(**(policy or {})))
    return replace(made, **changes)


def poll(number: int = 7, **changes: Any) -> PollSummary:
    made = PollSummary(number, "sweep", "complete", NOW - MINUTE, NOW - MINUTE, 40, 40, 3, 3, 10)
    return replace(made, **changes)


def evidence(**changes: Any) -> Evidence:
    """Evidence on which a drain of one node, or of what the spec says, is drained."""
    asked: DrainSpec = changes.get("spec", spec())
    made = Evidence(
        spec=spec(),
        criteria_version=1,
        soak=SoakState(holds_since=NOW - 5 * HOUR, sweeps=5),
        source=SourceStatus("threads", "complete", NOW - MINUTE, 60, 40, 40),
        last_sweep=poll(),
        complete_sweep=poll(),
        complete_scan=poll(),
        dispositions={Disposition.UNAFFECTED: 38, Disposition.GONE: 2},
        by_target={},
        unknowns={},
        deployed={target.key: True for target in asked.targets},
        leaks=0,
        fresh_leaks=0,
        intake_is_open=False,
        graph_was_seen=True,
        unsettled=0,
        attested={},
        said=(),
        of_graph=10,
        intake_unseen=0,
        unread_elsewhere=0,
        alarms={},
        oldest=None,
        must_act=(),
        configured=frozenset({"threads"}),
        poll_interval=timedelta(seconds=30),
        sweep_interval=HOUR,
        requests_per_minute=1200,
    )
    return replace(made, **changes)
