"""A thread's state, and its history, as LangGraph gives them -> facts. Pure.

The Agent Server's answers and the snapshots of the library have the same parts, so both end here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.facts.privacy import error_class, identifier, node_name
from app.facts.raw import (
    Malformed,
    checkpoint_of,
    known_source,
    listed,
    mapped,
    maybe_listed,
    maybe_mapped,
    maybe_time,
    parent_of,
    step_of,
    text_of,
    uuid_of,
)
from app.facts.reading import Reading
from app.facts.types import Cause, CheckpointFacts, Leaf, StateFacts

_CANCELLED = "CancelledError"


def reduce_state(raw: object, reading: Reading) -> StateFacts:
    """The answer of ``GET /threads/{id}/state?subgraphs=true``, down through its subgraphs."""
    state = mapped(raw, "thread state")
    if not {"values", "next", "tasks"} <= state.keys() or not {"checkpoint", "checkpoint_id"} & state.keys():
        raise Malformed("the thread state lacks its parts")  # else it would look like a thread that never ran
    checkpoint_id = checkpoint_of(state)
    if checkpoint_id is None and (state["tasks"] or state["next"]):
        raise Malformed("something is pending in a thread that never ran")
    metadata = state.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    source = known_source(metadata.get("source"))
    seen = _Seen([], [], {}, set(), [], {})
    _walk(state, prefix="", ns="", source=source, seen=seen)
    return StateFacts(
        checkpoint_id=checkpoint_id,
        parent_id=parent_of(state),
        created_at=maybe_time(state.get("created_at")),
        source=source,
        step=step_of(metadata),
        graph_id=identifier(metadata.get("graph_id")),
        leaves=tuple(seen.leaves),
        unapplied=tuple(sorted(seen.unapplied)),
        shape=reading.nested(state.get("values"), seen.inner_values) if checkpoint_id is not None else None,
        heads=seen.heads,
        finished=frozenset(seen.finished),
        run_id=uuid_of(metadata.get("run_id")),
        steps=seen.steps,
    )


def reduce_history(raw: object) -> tuple[CheckpointFacts, ...]:
    """A page of ``POST /threads/{id}/history``, newest first. It may carry whole values; none is looked at."""
    return tuple(_checkpoint(mapped(item, "checkpoint")) for item in listed(raw, "history"))


def _checkpoint(state: Mapping[str, Any]) -> CheckpointFacts:
    metadata = state.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    tasks = [mapped(task, "task") for task in maybe_listed(state.get("tasks"), "tasks")]
    finished = [task for task in tasks if task.get("result") is not None]
    return CheckpointFacts(
        id=text_of(checkpoint_of(state), "checkpoint id"),
        parent_id=parent_of(state),
        source=known_source(metadata.get("source")),
        step=step_of(metadata),
        graph_id=identifier(metadata.get("graph_id")),
        run_id=uuid_of(metadata.get("run_id")),
        created_at=maybe_time(state.get("created_at")),
        results=frozenset(str(task.get("id")) for task in finished),
        tasks=frozenset(_names(tasks)),
        finished=frozenset(_names(finished)),
    )


def _names(tasks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from (node_name(task["name"]) for task in tasks if isinstance(task.get("name"), str))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a walk down the subgraphs of a state has collected so far."""

    leaves: list[Leaf]
    unapplied: list[str]
    heads: dict[str, str]
    finished: set[str]
    inner_values: list[Mapping[str, Any]]
    steps: dict[str, int]


def _walk(state: Mapping[str, Any], *, prefix: str, ns: str, source: str | None, seen: _Seen) -> None:
    """Collect the unfinished leaf tasks, and the finished tasks that stand beside them, of a state and below."""
    if (head := checkpoint_of(state)) is not None:
        seen.heads[ns] = head
        metadata = state.get("metadata")
        if isinstance(metadata, Mapping) and (step := step_of(metadata)) is not None:
            seen.steps[ns] = step
    named = set()
    for item in maybe_listed(state.get("tasks"), "tasks"):
        task = mapped(item, "task")
        name = text_of(task.get("name"), "task name")
        named.add(name)
        path = f"{prefix}{node_name(name)}"
        if task.get("result") is not None:
            seen.unapplied.append(path)
            seen.finished.add(str(task.get("id")))
        elif not _walk_inside(task, name, path, ns, seen):
            seen.leaves.append(_leaf(task, path, ns, state, source))
    for item in maybe_listed(state.get("next"), "next"):
        if (name := text_of(item, "next node")) not in named:
            path = f"{prefix}{node_name(name)}"
            seen.leaves.append(Leaf(node=path, ns=ns, task_id=None, checkpoint_id=head))


def _walk_inside(task: Mapping[str, Any], name: str, path: str, ns: str, seen: _Seen) -> bool:
    """Walk the task's subgraph; whether anything in there is pending."""
    inner = maybe_mapped(task.get("state"), "state of a task")
    if inner is None or checkpoint_of(inner) is None:
        return False
    before = len(seen.leaves)
    if isinstance(inner.get("values"), Mapping):
        seen.inner_values.append(inner["values"])
    inner_ns = f"{ns}|{name}:{task.get('id')}" if ns else f"{name}:{task.get('id')}"
    _walk(inner, prefix=f"{path}/", ns=inner_ns, source=_source(inner), seen=seen)
    return len(seen.leaves) > before


def _leaf(task: Mapping[str, Any], path: str, ns: str, state: Mapping[str, Any], source: str | None) -> Leaf:
    """A pending task. Its subgraph's place is unseen if it has one that has begun, or that only its checkpoint names."""
    inner = task.get("state")
    begun = isinstance(inner, Mapping) and checkpoint_of(inner) is not None
    interrupts = task.get("interrupts")
    count = len(interrupts) if isinstance(interrupts, list) else 0
    error = task.get("error")
    failed = None if error is None else error_class(error)
    return Leaf(
        node=path,
        ns=ns,
        task_id=identifier(task.get("id")),
        checkpoint_id=checkpoint_of(state),
        interrupts=count,
        error_class=None if failed == _CANCELLED else failed,
        cause=_cause(count, failed, source),
        sent=_may_be_sent(task),
        inside_unseen=begun or (isinstance(task.get("checkpoint"), Mapping) and not isinstance(inner, Mapping)),
    )


def _may_be_sent(task: Mapping[str, Any]) -> bool:
    """Whether a task was made by ``Send``. A server whose tasks have no path does not say, so any may be."""
    path = task.get("path")
    return not isinstance(path, list) or path[:1] == ["__pregel_push"]


def _cause(interrupts: int, failed: str | None, source: str | None) -> Cause:
    if interrupts:
        return Cause.DYNAMIC
    if failed == _CANCELLED:
        return Cause.CANCELLED
    return Cause.UPDATE if source == "update" else Cause.UNKNOWN


def _source(state: Mapping[str, Any]) -> str | None:
    metadata = state.get("metadata")
    return known_source(metadata.get("source")) if isinstance(metadata, Mapping) else None
