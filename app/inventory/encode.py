"""Facts <-> what a table holds. Everything here is made of names, ids, kinds, counts and times."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

import orjson

from app.facts.candidates import type_to_json
from app.facts.types import (
    Agreement,
    Cause,
    Condition,
    FieldFact,
    Interrupt,
    Kind,
    Leaf,
    LeafSource,
    Presence,
    Reading,
    RowFacts,
    RunFacts,
    Shape,
    StateFacts,
    StateFailure,
    Status,
    StorageFacts,
    ThreadFacts,
    Topology,
    VersionReading,
)

Json = dict[str, Any]
_LEAF_FIELDS = tuple(field.name for field in fields(Leaf))


def digest(content: Json) -> str:
    """The key of a dictionary entry: 32 hex digits over its canonical JSON."""
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


# -- shapes --------------------------------------------------------------------------------------------------------


def shape_to_json(shape: Shape) -> Json:
    """A shape as its dictionary entry."""
    return {
        "fields": {name: [fact.presence, fact.kind] for name, fact in shape.fields.items()},
        "versions": {key: [found.reading, found.value, found.kind] for key, found in shape.versions.items()},
        "conflicts": dict(shape.conflicts),
    }


def shape_from_json(raw: Json) -> Shape:
    """The reverse."""
    return Shape(
        fields={name: FieldFact(Presence(fact[0]), _kind(fact[1])) for name, fact in raw["fields"].items()},
        versions={key: VersionReading(Reading(v[0]), v[1], _kind(v[2])) for key, v in raw["versions"].items()},
        conflicts={label: Agreement(found) for label, found in raw["conflicts"].items()},
    )


def _kind(raw: str | None) -> Kind | None:
    return None if raw is None else Kind(raw)


# -- pending work --------------------------------------------------------------------------------------------------


LeafKey = tuple[str, bool, bool, bool, bool, bool]


def work_of(facts: ThreadFacts) -> tuple[tuple[LeafKey, ...], bool]:
    """What is pending on a thread: each distinct leaf once, without ids, and whether a step is half done."""
    leaves = {
        (
            leaf.node,
            leaf.error_class is not None,
            leaf.inside_unseen,
            leaf.source is LeafSource.STATE,
            leaf.sent,
            leaf.acknowledged,
        )
        for leaf in facts.leaves
    }
    half = facts.state is not None and (bool(facts.state.unapplied) or facts.state.may_hide)
    return tuple(sorted(leaves)), half


def work_to_json(facts: ThreadFacts) -> Json:
    """The same as its dictionary entry."""
    leaves, half = work_of(facts)
    return {"leaves": [list(leaf) for leaf in leaves], "half_step": half}


def pending_nodes(work: Json) -> tuple[str, ...]:
    """The distinct pending nodes of a work entry."""
    return tuple(sorted({leaf[0] for leaf in work["leaves"]}))


def is_dealt_with(work: Json) -> bool:
    """Whether a person has acknowledged every leaf of a work entry that the deployed graph does not schedule, and there is
    one. A leaf is written as node, failed, inside unseen, scheduled, sent, acknowledged."""
    unscheduled = [leaf for leaf in work["leaves"] if not leaf[3]]
    return bool(unscheduled) and all(leaf[5:] == [True] for leaf in unscheduled)


def routes_to_json(storage: StorageFacts) -> Json:
    """What storage tells of routes, as its dictionary entry. Without a join it waits for nothing."""
    found: Json = {
        "branches": sorted(storage.branches),
        "joins": sorted(storage.joins),
        "sends": storage.sends,
        "fields": sorted(storage.fields),
        "empty": sorted(storage.empty),
        "nameless": storage.nameless,
    }
    if storage.joins and storage.waits_for is not None:
        found["waits_for"] = sorted([target, sorted(sources)] for target, sources in storage.waits_for)
    return found if storage.is_counted else found | {"counted": False}


def waits_for_of(routes: Json) -> frozenset[tuple[str, frozenset[str]]] | None:
    """Each stored join's target and the nodes that it waits for. None: an entry of an earlier version does not say."""
    if routes["joins"] and "waits_for" not in routes:
        return None
    return frozenset((target, frozenset(sources)) for target, sources in routes.get("waits_for", ()))


def is_counted(routes: Json) -> bool:
    """Whether it was looked for at which joins nothing waits."""
    return bool(routes.get("counted", True))


def is_nameless(routes: Json) -> bool:
    """Whether some state is stored under no field's name. Entries of earlier versions do not say, so it may be."""
    return bool(routes.get("nameless", True))


# -- one thread ----------------------------------------------------------------------------------------------------


def detail_to_json(facts: ThreadFacts) -> Json:
    """What the narrow columns of a thread do not have."""
    state = facts.state
    return {
        "interrupts": [[found.task_id, found.interrupt_id] for found in facts.row.interrupts],
        "error_class": facts.row.error_class,
        "leaves": [{name: getattr(leaf, name) for name in _LEAF_FIELDS} for leaf in facts.leaves],
        "failure": facts.failure,
        "failures": facts.failures,
        "checkpoints": None if facts.storage is None else facts.storage.checkpoints,
        "runs": None
        if facts.runs is None
        else [[run.run_id, run.status, _iso(run.created_at), run.durability, run.leaps] for run in facts.runs],
        "state": None
        if state is None
        else {
            "checkpoint_id": state.checkpoint_id,
            "parent_id": state.parent_id,
            "created_at": _iso(state.created_at),
            "source": state.source,
            "step": state.step,
            "graph_id": state.graph_id,
            "unapplied": list(state.unapplied),
            "heads": dict(state.heads),
            "finished": sorted(state.finished),
            "run_id": state.run_id,
            "may_hide": state.may_hide,
            "leaves": [index for index, leaf in enumerate(facts.leaves) if leaf in state.leaves],
        },
    }


def thread_from_row(row: Mapping[str, Any], shapes: Mapping[int, Shape], routes: Mapping[int, Json]) -> ThreadFacts:
    """A row of the thread table, with its dictionary entries, as facts again."""
    detail = row["detail"]
    leaves = tuple(_leaf(raw) for raw in detail["leaves"])
    return ThreadFacts(
        row=RowFacts(
            thread_id=row["thread_id"],
            status=Status(row["status"]),
            created_at=row["created_at"],
            updated_at=row["updated_at"],
            state_updated_at=row["state_updated_at"],
            graph_id=row["graph_id"],
            assistant_id=row["assistant_id"],
            metadata=row["metadata"],
            shape=shapes.get(row["row_shape_id"]),
            interrupts=tuple(Interrupt(*pair) for pair in detail["interrupts"]),
            error_class=detail["error_class"],
            config=row["config"],
        ),
        seen_at=row["seen_at"],
        condition=Condition(row["condition"]),
        leaves=leaves,
        state=_state(detail["state"], leaves, shapes.get(row["state_shape_id"])),
        state_read_at=row["state_read_at"],
        revision_id=row["revision_id"],
        failure=None if detail["failure"] is None else StateFailure(detail["failure"]),
        failures=detail["failures"],
        runs=None
        if detail["runs"] is None
        else tuple(RunFacts(run[0], run[1], datetime.fromisoformat(run[2]), *run[3:]) for run in detail["runs"]),
        storage=_storage(routes.get(row["routes_id"]), detail["checkpoints"]),
        stuck=row["stuck"],
        gone_at=row["gone_at"],
        head_graph=row["head_graph_id"] if detail["state"] is None else None,
    )


def _leaf(raw: Json) -> Leaf:
    return Leaf(**{**raw, "cause": Cause(raw["cause"]), "source": LeafSource(raw["source"])})


def _state(raw: Json | None, leaves: tuple[Leaf, ...], shape: Shape | None) -> StateFacts | None:
    if raw is None:
        return None
    return StateFacts(
        checkpoint_id=raw["checkpoint_id"],
        parent_id=raw["parent_id"],
        created_at=_time(raw["created_at"]),
        source=raw["source"],
        step=raw["step"],
        graph_id=raw["graph_id"],
        leaves=tuple(leaves[index] for index in raw["leaves"]),
        unapplied=tuple(raw["unapplied"]),
        shape=shape,
        heads=raw["heads"],
        finished=frozenset(raw["finished"]),
        run_id=raw["run_id"],
        may_hide=raw.get("may_hide", False),
    )


def _storage(routes: Json | None, checkpoints: int | None) -> StorageFacts | None:
    if routes is None:
        return None
    return StorageFacts(
        branches=frozenset(routes["branches"]),
        joins=frozenset(routes["joins"]),
        sends=routes["sends"],
        fields=frozenset(routes["fields"]),
        checkpoints=checkpoints,
        empty=frozenset(routes.get("empty", ())),
        nameless=is_nameless(routes),
        waits_for=waits_for_of(routes),
        is_counted=is_counted(routes),
    )


# -- topology ------------------------------------------------------------------------------------------------------


def topology_to_json(topology: Topology) -> Json:
    """A topology as stored with its revision."""
    return {
        "nodes": sorted(topology.nodes),
        "joins": sorted(topology.joins),
        "deferred": sorted(topology.deferred),
        "edges": [list(edge) for edge in topology.edges],
        "fields": sorted(topology.fields),
        "types": {name: type_to_json(found) for name, found in topology.types.items()},
        "required": sorted(topology.required),
        "inner_types": None
        if topology.inner_types is None
        else {
            path: {name: type_to_json(one) for name, one in fields.items()}
            for path, fields in topology.inner_types.items()
        },
    }


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()


def _time(raw: str | None) -> datetime | None:
    return None if raw is None else datetime.fromisoformat(raw)
