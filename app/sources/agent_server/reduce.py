"""What the Agent Server answers -> facts. Pure; nothing of a value, an interrupt's payload or an error's text is kept.

Raises ``Malformed`` with a constant sentence when an answer has not the shape that the server's API promises.
"""

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from app.facts.privacy import Names, compare, error_class, identifier, kind_of, look_of, node_name, shape_of
from app.facts.schemas import field_type
from app.facts.topology import drawing_hash, reduce_topology
from app.facts.types import (
    Agreement,
    Cause,
    CheckpointFacts,
    FieldFact,
    FieldType,
    Interrupt,
    Leaf,
    Presence,
    RowFacts,
    RunFacts,
    Shape,
    StateFacts,
    Status,
    StorageFacts,
    Topology,
)

_CANCELLED = "CancelledError"
_SENDS = "__pregel_tasks"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PLUMBING = re.compile(r"^(__|branch:|join:)")
_RUN_STATUSES = frozenset({"pending", "running", "error", "success", "timeout", "interrupted"})
MAX_METADATA = 200
MOST_LOOKS = 5000  # that are kept in memory; free-form states may each look different

T = TypeVar("T")


class Malformed(ValueError):
    """An answer that is not shaped as the API promises. The message names the place, never what stood there."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read of a payload: how names are kept, which keys are versions, renames, allow-listed metadata."""

    names: Names
    version_keys: tuple[str, ...]
    renames: tuple[tuple[str, str], ...]
    metadata_keys: tuple[str, ...]
    _seen: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def shape(self, values: object) -> Shape | None:
        """The shape of a thread's values; None when there are none to look at. Values that look alike get the same object."""
        if not isinstance(values, Mapping):
            return None
        look = look_of(values, version_keys=self.version_keys, renames=self.renames)
        if (found := self._seen.get(look)) is None:
            made = shape_of(values, names=self.names, version_keys=self.version_keys, renames=self.renames)
            found = self._remember(look, made)
        return found if isinstance(found, Shape) else None

    def config(self, config: object) -> str | None:
        """The keyed hash of what a graph is configured with."""
        plain = isinstance(config, Mapping) and not config.get("configurable")
        if not plain:
            return self.names.hashed_config(config)
        return self._seen.get("") or self._remember("", self.names.hashed_config({}))

    def _remember(self, key: Hashable, found: T) -> T:
        if len(self._seen) >= MOST_LOOKS:
            self._seen.clear()
        self._seen[key] = found
        return found

    def nested(self, values: object, inner: Sequence[Mapping[str, Any]]) -> Shape | None:
        """The shape of a state with running subgraphs: fields of either, and a rename that is not done in one of them
        counts as not done (``disagree``), whatever the others hold."""
        root = self.shape(values)
        if root is None or not inner:
            return root
        below = [found for one in inner if (found := self.shape(one)) is not None]
        fields = {name: fact for shape in (*below, root) for name, fact in shape.fields.items()}
        conflicts = dict(root.conflicts)
        for one in inner:
            for old, new in self.renames:
                if old in one and (compare(one, old, new) is not Agreement.AGREE):
                    present = FieldFact(Presence.PRESENT, kind_of(one[old]))
                    fields |= {self.names.kept(old): present, self.names.kept(new): present}
                    conflicts[f"{old}->{new}"] = Agreement.DISAGREE
        return replace(root, fields=dict(sorted(fields.items())), conflicts=dict(sorted(conflicts.items())))


def reduce_row(raw: object, reading: Reading) -> RowFacts:
    """One row of ``threads.search``, or of ``GET /threads/{id}``."""
    row = _mapping(raw, "thread row")
    metadata = row.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    error = row.get("error")
    return RowFacts(
        thread_id=_text(row.get("thread_id"), "thread_id"),
        status=_status(row.get("status")),
        created_at=_time(row.get("created_at"), "created_at"),
        updated_at=_time(row.get("updated_at"), "updated_at"),
        state_updated_at=_maybe_time(row.get("state_updated_at")),
        graph_id=identifier(metadata.get("graph_id")),
        assistant_id=identifier(metadata.get("assistant_id")),
        metadata={key: _scalar(metadata[key]) for key in reading.metadata_keys if key in metadata},
        shape=reading.shape(row.get("values")),
        interrupts=tuple(_row_interrupts(row.get("interrupts"))),
        error_class=None if error is None else error_class(error),
        config=reading.config(row.get("config")),
    )


def reduce_state(raw: object, reading: Reading) -> StateFacts:
    """The answer of ``GET /threads/{id}/state?subgraphs=true``, down through its subgraphs."""
    state = _mapping(raw, "thread state")
    if not {"values", "next", "tasks"} <= state.keys() or not {"checkpoint", "checkpoint_id"} & state.keys():
        raise Malformed("the thread state lacks its parts")  # else it would look like a thread that never ran
    checkpoint_id = _checkpoint_id(state)
    metadata = state.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    source = _known_source(metadata.get("source"))
    seen = _Seen([], [], {}, set(), [], {})
    _walk(state, prefix="", ns="", source=source, seen=seen)
    return StateFacts(
        checkpoint_id=checkpoint_id,
        parent_id=_parent_id(state),
        created_at=_maybe_time(state.get("created_at")),
        source=source,
        step=_step(metadata),
        graph_id=identifier(metadata.get("graph_id")),
        leaves=tuple(seen.leaves),
        unapplied=tuple(sorted(seen.unapplied)),
        shape=reading.nested(state.get("values"), seen.inner_values) if checkpoint_id is not None else None,
        heads=seen.heads,
        finished=frozenset(seen.finished),
        run_id=_uuid(metadata.get("run_id")),
        steps=seen.steps,
    )


def reduce_runs(raw: object) -> tuple[RunFacts, ...]:
    """The active runs of ``runs.list``: pending or running ones. ``kwargs`` is looked at for durability and a command's goto.

    A run that was told where to go begins with a node that no view shows, whatever its durability: None then.
    """
    runs = [_mapping(item, "run") for item in _list(raw, "runs")]
    return tuple(_run(run, run["status"]) for run in runs if run.get("status") in ("pending", "running"))


def reduce_last_run(raw: object) -> RunFacts | None:
    """The first of ``runs.list``, which lists the newest first; its status in the server's own words only."""
    runs = [_mapping(item, "run") for item in _list(raw, "runs")]
    if not runs:
        return None
    status = runs[0].get("status")
    return _run(runs[0], status if isinstance(status, str) and status in _RUN_STATUSES else "unknown")


def _run(run: Mapping[str, Any], status: str) -> RunFacts:
    kwargs = run.get("kwargs")
    kwargs = kwargs if isinstance(kwargs, Mapping) else {}
    durability = None if _goes(kwargs) else kwargs.get("durability")
    return RunFacts(
        run_id=_text(run.get("run_id"), "run_id"),
        status=status,
        created_at=_time(run.get("created_at"), "run created_at"),
        durability=durability if durability in ("sync", "async", "exit") else None,
        leaps=_goes(kwargs) or _goes_back(kwargs),
    )


def reduce_expiry(raw: object) -> datetime | None:
    """When a thread expires, from ``GET /threads/{id}?include=ttl``."""
    ttl = _mapping(raw, "thread row").get("ttl")
    return _maybe_time(ttl.get("expires_at")) if isinstance(ttl, Mapping) else None


def _goes(kwargs: Mapping[str, Any]) -> bool:
    command = kwargs.get("command")
    return isinstance(command, Mapping) and bool(command.get("goto"))


def _goes_back(kwargs: Mapping[str, Any]) -> bool:
    """Whether a run begins at a checkpoint that it names."""
    config = kwargs.get("config")
    config = config if isinstance(config, Mapping) else {}
    places = (kwargs, config, config.get("configurable"))
    return any(place.get("checkpoint_id") or place.get("checkpoint") for place in places if isinstance(place, Mapping))


def reduce_ended(raw: object) -> tuple[datetime, ...]:
    """When the runs of ``runs.list`` ended that succeeded."""
    runs = [_mapping(item, "run") for item in _list(raw, "runs")]
    return tuple(_time(run.get("updated_at"), "run updated_at") for run in runs if run.get("status") == "success")


def reduce_history(raw: object) -> tuple[CheckpointFacts, ...]:
    """A page of ``POST /threads/{id}/history``, newest first. It may carry whole values; none is looked at."""
    return tuple(_checkpoint(_mapping(item, "checkpoint")) for item in _list(raw, "history"))


def _checkpoint(state: Mapping[str, Any]) -> CheckpointFacts:
    metadata = state.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    tasks = [task for task in state.get("tasks") or [] if isinstance(task, Mapping)]
    finished = [task for task in tasks if task.get("result") is not None]
    return CheckpointFacts(
        id=_text(_checkpoint_id(state), "checkpoint id"),
        parent_id=_parent_id(state),
        source=_known_source(metadata.get("source")),
        step=_step(metadata),
        graph_id=identifier(metadata.get("graph_id")),
        run_id=_uuid(metadata.get("run_id")),
        created_at=_maybe_time(state.get("created_at")),
        results=frozenset(str(task.get("id")) for task in finished),
        tasks=frozenset(_names(tasks)),
        finished=frozenset(_names(finished)),
    )


def _names(tasks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from (node_name(task["name"]) for task in tasks if isinstance(task.get("name"), str))


def reduce_durability(raw: object) -> str | None:
    """How a run writes its checkpoints: sync, async or exit; None when it does not say."""
    kwargs = _mapping(raw, "run").get("kwargs")
    found = kwargs.get("durability") if isinstance(kwargs, Mapping) else None
    return found if found in ("sync", "async", "exit") else None


def reduce_assistant_id(raw: object) -> str:
    """The assistant that a run was started with."""
    return _text(_mapping(raw, "run").get("assistant_id"), "assistant_id")


def reduce_graph_id(raw: object) -> str:
    """The graph of an assistant."""
    return _text(_mapping(raw, "assistant").get("graph_id"), "graph_id")


def reduce_storage(raw: object, reading: Reading) -> StorageFacts:
    """The answer of ``GET /threads/{id}/storage``: names of channels that were ever written, no values."""
    storage = _mapping(raw, "storage")
    channels = _mapping(_mapping(storage.get("channel_values"), "channel_values").get("by_channel"), "by_channel")
    checkpoints = storage.get("checkpoints")
    count = checkpoints.get("count") if isinstance(checkpoints, Mapping) else None
    names = [str(name) for name in channels]
    return StorageFacts(
        branches=frozenset(
            node_name(name.removeprefix("branch:to:")) for name in names if name.startswith("branch:to:")
        ),
        joins=frozenset(node_name(name.rpartition(":")[2]) for name in names if name.startswith("join:")),
        sends=_SENDS in channels,
        fields=frozenset(reading.names.kept(name) for name in names if not _PLUMBING.match(name)),
        checkpoints=count if isinstance(count, int) else None,
        versions={reading.names.kept(name): _versions(channels[name]) for name in names if not _PLUMBING.match(name)},
        waits_for=frozenset(_waits_for(name) for name in names if name.startswith("join:")),
    )


def _waits_for(channel: str) -> tuple[str, frozenset[str]]:
    """``join:a+b:t``: its target, and what it waits for. A name with a plus in it makes names that no graph has."""
    sources, _, target = channel.removeprefix("join:").rpartition(":")
    return node_name(target), frozenset(node_name(source) for source in sources.split("+"))


def _versions(channel: object) -> int:
    found = channel.get("versions") if isinstance(channel, Mapping) else None
    return found if isinstance(found, int) else 0


def reduce_graph(graph_id: str, assistant_id: str, *, plain: object, xray: object, schemas: object) -> Topology:
    """The drawings of a graph and its schemas -> topology."""
    schema = _mapping(schemas, "schemas").get("state_schema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return reduce_topology(
        graph_id,
        assistant_id,
        plain=_drawing(plain),
        xray=_drawing(xray),
        fields=[str(name) for name in properties] if isinstance(properties, Mapping) else [],
        types=_types(schema, properties),
        required=_required(_mapping(schemas, "schemas").get("input_schema")),
    )


def _required(schema: object) -> list[str]:
    required = schema.get("required") if isinstance(schema, Mapping) else None
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _types(schema: object, properties: object) -> dict[str, FieldType]:
    if not isinstance(schema, Mapping) or not isinstance(properties, Mapping):
        return {}
    return {str(name): field_type(one, schema.get("$defs")) for name, one in properties.items()}


def reduce_drawing(raw: object) -> str:
    """One drawing of a graph -> its hash."""
    return drawing_hash(_drawing(raw))


def _drawing(raw: object) -> Mapping[str, Any]:
    drawing = _mapping(raw, "graph")
    if not isinstance(drawing.get("nodes"), list):
        raise Malformed("the graph has no list of nodes")
    return drawing


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
    if (head := _checkpoint_id(state)) is not None:
        seen.heads[ns] = head
        metadata = state.get("metadata")
        if isinstance(metadata, Mapping) and (step := _step(metadata)) is not None:
            seen.steps[ns] = step
    named = set()
    for item in _list(state.get("tasks") or [], "tasks"):
        task = _mapping(item, "task")
        name = _text(task.get("name"), "task name")
        named.add(name)
        path = f"{prefix}{node_name(name)}"
        if task.get("result") is not None:
            seen.unapplied.append(path)
            seen.finished.add(str(task.get("id")))
        elif not _walk_inside(task, name, path, ns, seen):
            seen.leaves.append(_leaf(task, path, ns, state, source))
    for name in _list(state.get("next") or [], "next"):
        if isinstance(name, str) and name not in named:
            path = f"{prefix}{node_name(name)}"
            seen.leaves.append(Leaf(node=path, ns=ns, task_id=None, checkpoint_id=head))


def _walk_inside(task: Mapping[str, Any], name: str, path: str, ns: str, seen: _Seen) -> bool:
    """Walk the task's subgraph; whether anything in there is pending."""
    inner = task.get("state")
    if not isinstance(inner, Mapping) or _checkpoint_id(inner) is None:
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
    begun = isinstance(inner, Mapping) and _checkpoint_id(inner) is not None
    interrupts = task.get("interrupts")
    count = len(interrupts) if isinstance(interrupts, list) else 0
    error = task.get("error")
    failed = None if error is None else error_class(error)
    return Leaf(
        node=path,
        ns=ns,
        task_id=identifier(task.get("id")),
        checkpoint_id=_checkpoint_id(state),
        interrupts=count,
        error_class=None if failed == _CANCELLED else failed,
        cause=_cause(count, failed, source),
        sent=_may_be_sent(task),
        inside_unseen=begun or (isinstance(task.get("checkpoint"), Mapping) and not isinstance(inner, Mapping)),
    )


def _may_be_sent(task: Mapping[str, Any]) -> bool:
    """Whether a task was made by ``Send``. A server whose tasks have no path does not say, so any may be."""
    path = task.get("path")
    return "path" not in task or (isinstance(path, list) and path[:1] == ["__pregel_push"])


def _cause(interrupts: int, failed: str | None, source: str | None) -> Cause:
    if interrupts:
        return Cause.DYNAMIC
    if failed == _CANCELLED:
        return Cause.CANCELLED
    return Cause.UPDATE if source == "update" else Cause.UNKNOWN


def _source(state: Mapping[str, Any]) -> str | None:
    metadata = state.get("metadata")
    return _known_source(metadata.get("source")) if isinstance(metadata, Mapping) else None


def _known_source(raw: object) -> str | None:
    """How a checkpoint came about, in LangGraph's own words; metadata is the caller's too, so no other word is kept."""
    return raw if isinstance(raw, str) and raw in ("input", "loop", "update", "fork") else None


def _step(metadata: Mapping[str, Any]) -> int | None:
    step = metadata.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def _uuid(raw: object) -> str | None:
    """An id that looks like one; metadata is the caller's too."""
    return raw if isinstance(raw, str) and _UUID.fullmatch(raw) else None


def _checkpoint_id(state: Mapping[str, Any]) -> str | None:
    """The checkpoint of a state; None when nothing was ever written. A never-run thread has null metadata too."""
    checkpoint = state.get("checkpoint")
    found = checkpoint.get("checkpoint_id") if isinstance(checkpoint, Mapping) else None
    return identifier(found or state.get("checkpoint_id"))


def _parent_id(state: Mapping[str, Any]) -> str | None:
    parent = state.get("parent_checkpoint")
    found = parent.get("checkpoint_id") if isinstance(parent, Mapping) else None
    return identifier(found or state.get("parent_checkpoint_id"))


def _row_interrupts(raw: object) -> Iterator[Interrupt]:
    if not isinstance(raw, Mapping):
        return
    for task_id, group in raw.items():
        for item in group if isinstance(group, list) else []:
            if isinstance(item, Mapping) and (found := identifier(item.get("id"))):
                yield Interrupt(task_id=str(task_id)[:255], interrupt_id=found)


def _status(raw: object) -> Status:
    try:
        return Status(raw)  # type: ignore[arg-type]
    except ValueError:
        raise Malformed("a thread has a status that is none of idle, busy, interrupted, error") from None


def _scalar(value: object) -> str:
    """An allow-listed metadata value as text. Lists and objects are not kept."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\0", "")[:MAX_METADATA] if isinstance(value, (str, int, float)) else ""


def _mapping(raw: object, what: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise Malformed(f"the {what} is not an object")
    return raw


def _list(raw: object, what: str) -> Collection[Any]:
    if not isinstance(raw, list):
        raise Malformed(f"the {what} is not a list")
    return raw


def _text(raw: object, what: str) -> str:
    if (found := identifier(raw)) is None:
        raise Malformed(f"a {what} is missing")
    return found


def _time(raw: object, what: str) -> datetime:
    if (found := _maybe_time(raw)) is None:
        raise Malformed(f"a {what} is missing or no time")
    return found


def _maybe_time(raw: object) -> datetime | None:
    if not isinstance(raw, str):
        return None
    try:
        found = datetime.fromisoformat(raw)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
