"""What LangGraph answers in the process -> the parts that the shared rules look at. Pure; nothing is kept here.

A ``StateSnapshot`` has the parts of the Agent Server's answer, as objects. A ``CheckpointTuple`` has what the server's row and
storage have: the channels as they are stored, whatever the code declares now, and the writes that were not applied yet.
"""

import dataclasses
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from drainboard_reporter.facts.privacy import identifier, node_name
from drainboard_reporter.facts.reading import Reading
from drainboard_reporter.facts.storage import is_field, storage_of
from drainboard_reporter.facts.topology import prefixes
from drainboard_reporter.facts.types import Interrupt, Shape, StorageFacts, Topology

NOBODY = "00000000-0000-0000-0000-000000000000"  # the task of what a caller writes
INTERRUPT, RESUME, SENDS, ROOT = "__interrupt__", "__resume__", "__pregel_tasks", "__root__"
_OF_A_FINISHED_TASK = frozenset({"__no_writes__", "__return__", SENDS})
_DEEPEST = 60


@dataclass(frozen=True, slots=True)
class Stored:
    """What the checkpointer holds of a thread's head, whatever the code is now.

    ``answered``: somebody answered a question that the code no longer asks. ``may_hide``: a caller said where to go, or the
    head schedules a node that the code does not have, and no state shows it.
    """

    shape: Shape | None
    interrupts: tuple[Interrupt, ...]
    answered: bool
    may_hide: bool
    routes: StorageFacts


def state_of(snapshot: Any) -> dict[str, Any]:
    """A ``StateSnapshot`` with the parts that the server's answer has, values made plain."""
    return {
        "values": fields_of(snapshot.values),
        "next": list(snapshot.next),
        "tasks": [_task(task) for task in snapshot.tasks],
        "checkpoint": _place(snapshot.config),
        "parent_checkpoint": _place(snapshot.parent_config),
        "metadata": snapshot.metadata,
        "created_at": snapshot.created_at,
    }


def _task(task: Any) -> dict[str, Any]:
    inner = task.state
    return {
        "id": task.id,
        "name": task.name,
        "path": list(task.path),
        "error": _error(task.error),
        "interrupts": list(task.interrupts),
        "result": task.result,
        "state": state_of(inner) if hasattr(inner, "tasks") else None,
        "checkpoint": inner.get("configurable") if isinstance(inner, Mapping) else None,
    }


def _error(error: object) -> object:
    """An error by its class. A checkpointer keeps it as an object or as its representation."""
    if error is None or isinstance(error, str):
        return error
    return {"error": type(error).__name__}


def _place(config: Any) -> dict[str, Any]:
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    found = configurable if isinstance(configurable, Mapping) else {}
    return {key: found.get(key) for key in ("checkpoint_id", "checkpoint_ns")}


def fields_of(values: object) -> object:
    """The fields of a state; anything but a mapping as it is."""
    found = plain(values, depth=0)
    return {str(name): plain(value) for name, value in found.items()} if isinstance(found, Mapping) else None


def plain(value: object, *, depth: int = _DEEPEST) -> object:
    """A value as JSON has it, so that its kind is the one that an Agent Server would show."""
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return plain(value.value, depth=depth)
    if isinstance(value, datetime | date | time | UUID | Decimal | bytes):
        return str(value)
    if depth < 0:
        return value
    if isinstance(value, Mapping):
        return dict(value) if depth == 0 else {str(key): plain(one, depth=depth - 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value) if depth == 0 else [plain(one, depth=depth - 1) for one in value]
    return _object(value, depth)


def _object(value: object, depth: int) -> object:
    """Models and dataclasses by their fields; whatever else is an object without a look inside."""
    names = getattr(type(value), "model_fields", None)
    if isinstance(names, Mapping):
        return plain({name: getattr(value, name, None) for name in names}, depth=depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({one.name: getattr(value, one.name, None) for one in dataclasses.fields(value)}, depth=depth)
    return value


# -- what is stored ------------------------------------------------------------------------------------------------


def stored_of(saved: Any, reading: Reading, topology: Topology, *, shown: Collection[str | None]) -> Stored:
    """A ``CheckpointTuple`` of the root. ``shown``: ids of the tasks that the state shows."""
    checkpoint, writes = saved.checkpoint, list(saved.pending_writes or ())
    channels: Mapping[str, object] = checkpoint.get("channel_values") or {}
    interrupts = tuple(_interrupts(writes))
    unseen = any(one.task_id not in shown for one in interrupts)
    from_outside = {channel for task, channel, _ in writes if task == NOBODY}
    sent_nowhere = any(channel.startswith(("branch:to:", "join:")) or channel == SENDS for channel in from_outside)
    return Stored(
        shape=reading.shape(_stored_fields(channels, checkpoint)),
        interrupts=interrupts,
        answered=unseen and RESUME in from_outside,
        may_hide=sent_nowhere or _schedules_what_is_not_there(checkpoint, channels, topology),
        routes=_routes(checkpoint, channels, {channel for _, channel, _ in writes}, reading, topology),
    )


def _schedules_what_is_not_there(
    checkpoint: Mapping[str, Any], channels: Mapping[str, object], topology: Topology
) -> bool:
    """Whether the head schedules a node that the code does not have, which no state shows. A trigger that an older step left
    behind, under code that did not have the node then either, does not count: only what the head's own step has written."""
    nodes = {path for path in topology.nodes if "/" not in path}
    versions = checkpoint.get("channel_versions") or {}
    newest = max(map(str, versions.values()), key=_version, default="")
    for channel in channels:
        name = channel.removeprefix("branch:to:")
        if name != channel and node_name(name) not in nodes and _version(versions.get(channel)) == _version(newest):
            return True
    sends = channels.get(SENDS)
    return any(
        node_name(str(getattr(one, "node", ""))) not in nodes for one in (sends if isinstance(sends, list) else ())
    )


def _version(raw: object) -> float:
    """A channel's version as a number: savers count ``3`` or ``000…3.0.4711``, of which the first part counts steps."""
    try:
        return float(str(raw).partition(".")[0])
    except ValueError:
        return -1.0


def _stored_fields(channels: Mapping[str, object], checkpoint: Mapping[str, Any]) -> object:
    """The fields as they are stored; None where a state is not kept by field."""
    if ROOT in channels:
        return fields_of(channels[ROOT])
    found = {name: plain(value) for name, value in channels.items() if is_field(name)}
    by_field = found or any(name.startswith("branch:to:") for name in checkpoint.get("channel_versions") or ())
    return found if by_field else None


def _interrupts(writes: Collection[tuple[str, str, Any]]) -> Iterator[Interrupt]:
    """Ids of the questions of tasks that are not finished. The question itself is not looked at."""
    done = {task for task, channel, _ in writes if not channel.startswith("__") or channel in _OF_A_FINISHED_TASK}
    for task, channel, raised in writes:
        if channel == INTERRUPT and task not in done:
            for one in raised if isinstance(raised, list | tuple) else (raised,):
                if found := identifier(getattr(one, "id", None)):
                    yield Interrupt(task_id=task, interrupt_id=found)


def _routes(
    checkpoint: Mapping[str, Any],
    channels: Mapping[str, object],
    written: Collection[str],
    reading: Reading,
    topology: Topology,
) -> StorageFacts:
    """Channels that were ever written on the way to this head, and at which joins and deferred nodes nothing waits."""
    versions = {str(name): 1 for name in checkpoint.get("channel_versions") or ()}
    found = storage_of({**versions, **dict.fromkeys(map(str, written), 1)}, reading, checkpoints=None)
    ran = {node_name(str(name)) for name in checkpoint.get("versions_seen") or () if not str(name).startswith("__")}
    roots = {path for path in topology.joins | topology.deferred | found.joins if "/" not in path}
    return replace(
        found,
        branches=found.branches | ran | _inside(found.branches | ran, topology),
        empty=frozenset(node for node in roots if not _waits(node, channels, versions, written)),
        versions={},
    )


def _inside(entered: Collection[str], topology: Topology) -> frozenset[str]:
    """The nodes inside subgraphs that were entered: their own checkpoints are not looked at, so all of them may have been."""
    return frozenset(
        path.rpartition("/")[2] for path in topology.nodes if "/" in path and next(prefixes(path)) in entered
    )


def _waits(node: str, channels: Mapping[str, object], versions: Mapping[str, int], written: Collection[str]) -> bool:
    """Whether something waits at a join or a deferred node of the root. What a join holds is always stored by the code that
    has it; where it is not, other code wrote the head, and nobody knows."""
    for channel in {*versions, *written}:
        target = node_name(channel.rpartition(":")[2])
        if target != node or not channel.startswith(("join:", "branch:to:")):
            continue
        if channel in written:
            return True
        if channel.startswith("branch:to:") and channel in channels:
            return True
        if channel.startswith("join:") and not _is_empty(channels.get(channel, node)):
            return True
    return False


def _is_empty(barrier: object) -> bool:
    """Whether a join holds no name: a set of them, or one with whether the run has finished."""
    held = barrier[0] if isinstance(barrier, list | tuple) and len(barrier) == 2 else barrier
    return isinstance(held, set | frozenset | list | tuple) and not held
