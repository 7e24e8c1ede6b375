"""What the Agent Server answers -> facts. Pure; nothing of a value, an interrupt's payload or an error's text is kept.

Raises ``Malformed`` with a constant sentence when an answer has not the shape that the server's API promises.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from app.facts.privacy import error_class, identifier, node_name
from app.facts.raw import Malformed, listed, mapped, maybe_listed, maybe_mapped, maybe_time, scalar_of, text_of, time_of
from app.facts.reading import Reading
from app.facts.schemas import field_type
from app.facts.states import reduce_history, reduce_state
from app.facts.storage import storage_of
from app.facts.topology import drawing_hash, reduce_topology
from app.facts.types import FieldType, Interrupt, RowFacts, RunFacts, Status, StorageFacts, Topology

__all__ = [  # states and history are shared with the reporter
    "Malformed",
    "Reading",
    "reduce_drawing",
    "reduce_history",
    "reduce_state",
]

_ACTIVE = frozenset({"pending", "running"})
_RUN_STATUSES = frozenset({"pending", "running", "error", "success", "timeout", "interrupted"})


def reduce_row(raw: object, reading: Reading) -> RowFacts:
    """One row of ``threads.search``, or of ``GET /threads/{id}``."""
    row = mapped(raw, "thread row")
    metadata = row.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    error = row.get("error")
    return RowFacts(
        thread_id=text_of(row.get("thread_id"), "thread_id"),
        status=_status(row.get("status")),
        created_at=time_of(row.get("created_at"), "created_at"),
        updated_at=time_of(row.get("updated_at"), "updated_at"),
        state_updated_at=maybe_time(row.get("state_updated_at")),
        graph_id=identifier(metadata.get("graph_id")),
        assistant_id=identifier(metadata.get("assistant_id")),
        metadata={key: scalar_of(metadata[key]) for key in reading.metadata_keys if key in metadata},
        shape=reading.shape(row.get("values")),
        interrupts=tuple(_row_interrupts(row.get("interrupts"))),
        error_class=None if error is None else error_class(error),
        config=reading.config(row.get("config")),
    )


def reduce_runs(raw: object) -> tuple[RunFacts, ...]:
    """The active runs of ``runs.list``: pending or running ones. ``kwargs`` is looked at for durability and a command's goto.

    A run that was told where to go begins with a node that no view shows, whatever its durability: None then.
    """
    runs = [mapped(item, "run") for item in listed(raw, "runs")]
    statuses = [text_of(run.get("status"), "status of a run") for run in runs]
    return tuple(_run(run, status) for run, status in zip(runs, statuses, strict=True) if status in _ACTIVE)


def reduce_last_run(raw: object) -> RunFacts | None:
    """The first of ``runs.list``, which lists the newest first; its status in the server's own words only."""
    runs = [mapped(item, "run") for item in listed(raw, "runs")]
    if not runs:
        return None
    status = runs[0].get("status")
    return _run(runs[0], status if isinstance(status, str) and status in _RUN_STATUSES else "unknown")


def _run(run: Mapping[str, Any], status: str) -> RunFacts:
    kwargs = run.get("kwargs")
    kwargs = kwargs if isinstance(kwargs, Mapping) else {}
    durability = None if _goes(kwargs) else kwargs.get("durability")
    return RunFacts(
        run_id=text_of(run.get("run_id"), "run_id"),
        status=status,
        created_at=time_of(run.get("created_at"), "run created_at"),
        durability=durability if durability in ("sync", "async", "exit") else None,
        leaps=_goes(kwargs) or _goes_back(kwargs),
    )


def reduce_expiry(raw: object) -> datetime | None:
    """When a thread expires, from ``GET /threads/{id}?include=ttl``."""
    ttl = mapped(raw, "thread row").get("ttl")
    return maybe_time(ttl.get("expires_at")) if isinstance(ttl, Mapping) else None


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
    runs = [mapped(item, "run") for item in listed(raw, "runs")]
    return tuple(time_of(run.get("updated_at"), "run updated_at") for run in runs if run.get("status") == "success")


def reduce_durability(raw: object) -> str | None:
    """How a run writes its checkpoints: sync, async or exit; None when it does not say."""
    kwargs = mapped(raw, "run").get("kwargs")
    found = kwargs.get("durability") if isinstance(kwargs, Mapping) else None
    return found if found in ("sync", "async", "exit") else None


def reduce_assistant_id(raw: object) -> str:
    """The assistant that a run was started with."""
    return text_of(mapped(raw, "run").get("assistant_id"), "assistant_id")


def reduce_graph_id(raw: object) -> str:
    """The graph of an assistant."""
    return text_of(mapped(raw, "assistant").get("graph_id"), "graph_id")


def reduce_storage(raw: object, reading: Reading) -> StorageFacts:
    """The answer of ``GET /threads/{id}/storage``: names of channels that were ever written, no values."""
    storage = mapped(raw, "storage")
    channels = mapped(mapped(storage.get("channel_values"), "channel_values").get("by_channel"), "by_channel")
    checkpoints = storage.get("checkpoints")
    count = checkpoints.get("count") if isinstance(checkpoints, Mapping) else None
    versions = {str(name): _versions(channel) for name, channel in channels.items()}
    return storage_of(versions, reading, checkpoints=count if isinstance(count, int) else None)


def _versions(channel: object) -> int:
    found = channel.get("versions") if isinstance(channel, Mapping) else None
    return found if isinstance(found, int) else 0


def reduce_graph(
    graph_id: str, assistant_id: str, *, plain: object, xray: object, schemas: object, subgraphs: object = None
) -> Topology:
    """The drawings of a graph, its schemas and those of its subgraphs (None: not told) -> topology."""
    schema = maybe_mapped(mapped(schemas, "schemas").get("state_schema"), "state schema")
    properties = maybe_mapped(schema.get("properties"), "properties") if schema is not None else None
    return reduce_topology(
        graph_id,
        assistant_id,
        plain=_drawing(plain),
        xray=_drawing(xray),
        fields=[str(name) for name in properties] if isinstance(properties, Mapping) else [],
        types=_types(schema, properties),
        required=_required(mapped(schemas, "schemas").get("input_schema")),
        inner_types=_inner_types(subgraphs),
    )


def _inner_types(raw: object) -> dict[str, dict[str, FieldType]] | None:
    """What the fields of each subgraph take, by its path: the server names it ``outer|inner``. None where it does not tell of
    every one."""
    if not isinstance(raw, Mapping):
        return None
    found = {}
    for place, schemas in raw.items():
        schema = schemas.get("state_schema") if isinstance(schemas, Mapping) else None
        if not isinstance(schema, Mapping):
            return None
        found["/".join(node_name(part) for part in str(place).split("|"))] = _types(schema, schema.get("properties"))
    return found


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
    """A drawing of which every part can be read: without one that cannot, another graph would seem to be deployed."""
    drawing = mapped(raw, "graph")
    for item in listed(drawing.get("nodes"), "nodes"):
        node = mapped(item, "node")
        maybe_mapped(node.get("metadata"), "metadata of a node")
        if not isinstance(node.get("id"), str):
            raise Malformed("a node has no id")
    for item in maybe_listed(drawing.get("edges"), "edges"):
        edge = mapped(item, "edge")
        if not isinstance(edge.get("source"), str) or not isinstance(edge.get("target"), str):
            raise Malformed("an edge has no ends")
    return drawing


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
