"""Facts as JSON. What is not named here does not leave the process."""

from datetime import datetime
from typing import Any

from drainboard_reporter.facts.types import CheckpointFacts, Leaf, Shape, StateFacts, StorageFacts, Topology
from drainboard_reporter.snapshots import Stored

Json = dict[str, Any]


def topology_json(found: Topology) -> Json:
    """What the graph looks like."""
    return {
        "nodes": sorted(found.nodes),
        "joins": sorted(found.joins),
        "deferred": sorted(found.deferred),
        "edges": [list(edge) for edge in found.edges],
        "fields": sorted(found.fields),
        "xray_hash": found.xray_hash,
    }


def state_json(state: StateFacts) -> Json:
    """What the state shows."""
    return {
        "checkpoint_id": state.checkpoint_id,
        "parent_id": state.parent_id,
        "created_at": _iso(state.created_at),
        "source": state.source,
        "step": state.step,
        "leaves": [_leaf(leaf) for leaf in state.leaves],
        "unapplied": list(state.unapplied),
        "finished": sorted(state.finished),
        "heads": dict(state.heads),
        "steps": dict(state.steps),
        "run_id": state.run_id,
        "shape": _shape(state.shape),
    }


def stored_json(stored: Stored) -> Json:
    """What the checkpointer holds beside."""
    return {
        "shape": _shape(stored.shape),
        "interrupts": [[one.task_id, one.interrupt_id] for one in stored.interrupts],
        "answered": stored.answered,
        "may_hide": stored.may_hide,
        "routes": _routes(stored.routes),
    }


def history_json(ns: str, history: tuple[CheckpointFacts, ...] | None) -> Json:
    """The checkpoints of one namespace, newest first; None: they could not be read."""
    return {"ns": ns, "checkpoints": None if history is None else [_checkpoint(found) for found in history]}


def _leaf(leaf: Leaf) -> Json:
    return {
        "node": leaf.node,
        "ns": leaf.ns,
        "task_id": leaf.task_id,
        "checkpoint_id": leaf.checkpoint_id,
        "interrupts": leaf.interrupts,
        "error_class": leaf.error_class,
        "cause": leaf.cause.value,
        "inside_unseen": leaf.inside_unseen,
        "sent": leaf.sent,
    }


def _shape(shape: Shape | None) -> Json | None:
    if shape is None:
        return None
    return {
        "fields": {name: [fact.presence.value, _value(fact.kind)] for name, fact in shape.fields.items()},
        "versions": {
            key: [found.reading.value, found.value, _value(found.kind)] for key, found in shape.versions.items()
        },
        "conflicts": {label: found.value for label, found in shape.conflicts.items()},
    }


def _routes(routes: StorageFacts) -> Json:
    return {
        "branches": sorted(routes.branches),
        "joins": sorted(routes.joins),
        "sends": routes.sends,
        "fields": sorted(routes.fields),
        "empty": sorted(routes.empty),
    }


def _checkpoint(found: CheckpointFacts) -> Json:
    return {
        "id": found.id,
        "parent_id": found.parent_id,
        "source": found.source,
        "step": found.step,
        "run_id": found.run_id,
        "created_at": _iso(found.created_at),
        "results": sorted(found.results),
    }


def _value(kind: Any) -> str | None:
    return None if kind is None else str(kind.value)


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()
