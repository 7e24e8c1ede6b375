"""What a reporter sends, checked strictly: names, ids, kinds, counts and times, and no place for a value."""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from app.errors import BadRequest
from app.facts.privacy import Names
from app.facts.raw import MAX_METADATA, in_utc
from app.facts.topology import topology_hash
from app.facts.types import (
    Agreement,
    Cause,
    CheckpointFacts,
    FieldFact,
    Interrupt,
    Kind,
    Leaf,
    Presence,
    Reading,
    Shape,
    StateFacts,
    StateFailure,
    StorageFacts,
    Topology,
    VersionReading,
)
from app.jobs.pushed import Told

_NUL = rb"\u0000"  # as JSON writes it; no database takes it
_HASHED = re.compile(r"#[0-9a-f]{24}")
Id = Annotated[str, Field(min_length=1, max_length=255)]
Node = Annotated[str, Field(min_length=1, max_length=500)]
Namespace = Annotated[str, Field(max_length=1000)]
ErrorClass = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,79}$")]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Step = Annotated[int, Field(ge=-1, le=1_000_000_000)]


def _with_room(found: datetime) -> datetime:
    """A time to which something can be added. Raises ``ValueError`` with a sentence."""
    if in_utc(found) is None:
        raise ValueError("write a time that is not at an end of the calendar")
    return found


Time = Annotated[AwareDatetime, AfterValidator(_with_room)]
Nodes = Annotated[list[Node], Field(max_length=5000)]
Names_ = Annotated[str, Field(min_length=1, max_length=255)]
Ran = Literal["input", "loop", "update", "fork"]


class Strict(BaseModel):
    """Nothing that is not named, and nothing of another kind."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class ShapeLine(Strict):
    """Presence and kind of each field; version readings; comparisons of renames."""

    fields: dict[Names_, tuple[Presence, Kind | None]] = Field(max_length=5000)
    versions: dict[Names_, tuple[Reading, Annotated[int, Field(ge=0, le=9999)] | None, Kind | None]] = Field(
        max_length=50
    )
    conflicts: dict[Annotated[str, Field(max_length=1100)], Agreement] = Field(max_length=500)

    def facts(self, names: Names, version_keys: Collection[str]) -> Shape:
        """As facts. A name that was never declared may come as a keyed hash only. Raises ``ValueError`` with a sentence."""
        if any(name not in names and not _HASHED.fullmatch(name) for name in self.fields):
            raise ValueError("fields: a name that was never declared must be hashed")
        if not set(self.versions) <= set(version_keys):
            raise ValueError("versions: a key that the settings do not name")
        if any(not _is_pair(label, names) for label in self.conflicts):
            raise ValueError("conflicts: a name that was never declared")
        return Shape(
            fields={name: FieldFact(*found) for name, found in sorted(self.fields.items())},
            versions={key: VersionReading(*found) for key, found in sorted(self.versions.items())},
            conflicts=dict(sorted(self.conflicts.items())),
        )


def _is_pair(label: str, names: Names) -> bool:
    """Whether it is ``old->new`` of two declared names, which may hold an arrow themselves."""
    parts = label.split("->")
    return any("->".join(parts[:at]) in names and "->".join(parts[at:]) in names for at in range(1, len(parts)))


class LeafLine(Strict):
    """A pending task."""

    node: Node
    ns: Namespace
    task_id: Id | None
    checkpoint_id: Id | None
    interrupts: Count
    error_class: ErrorClass | None
    cause: Cause
    inside_unseen: bool
    sent: bool

    def facts(self) -> Leaf:
        """As facts."""
        return Leaf(**{name: getattr(self, name) for name in type(self).model_fields})


class StateLine(Strict):
    """What the state of the head shows."""

    checkpoint_id: Id
    parent_id: Id | None
    created_at: Time | None
    source: Ran | None
    step: Step | None
    leaves: list[LeafLine] = Field(max_length=2000)
    unapplied: list[Node] = Field(max_length=2000)
    finished: list[Id] = Field(max_length=2000)
    heads: dict[Namespace, Id] = Field(max_length=2000)
    steps: dict[Namespace, Step] = Field(max_length=2000)
    run_id: Id | None
    shape: ShapeLine | None


class RoutesLine(Strict):
    """Channels that were ever written on the way to the head."""

    branches: Nodes
    joins: Nodes
    sends: bool
    fields: list[Names_] = Field(max_length=5000)
    empty: Nodes


class StoredLine(Strict):
    """What the checkpointer holds beside."""

    shape: ShapeLine | None
    interrupts: list[tuple[Id, Id]] = Field(max_length=2000)
    answered: bool
    may_hide: bool
    routes: RoutesLine


class CheckpointLine(Strict):
    """One checkpoint of a history."""

    id: Id
    parent_id: Id | None
    source: Ran | None
    step: Step | None
    run_id: Id | None
    created_at: Time | None
    results: list[Id] = Field(max_length=2000)

    def facts(self, graph_id: str) -> CheckpointFacts:
        """As facts."""
        return CheckpointFacts(
            id=self.id,
            parent_id=self.parent_id,
            source=self.source,
            step=self.step,
            graph_id=graph_id,
            run_id=self.run_id,
            created_at=self.created_at,
            results=frozenset(self.results),
        )


class HistoryLine(Strict):
    """A namespace's checkpoints, newest first."""

    ns: Namespace
    checkpoints: list[CheckpointLine] | None = Field(max_length=400)


class ThreadLine(Strict):
    """One thread. ``found``: its state; nothing stored; a state that cannot be read; a store that could not be asked now."""

    thread_id: Id
    found: Literal["state", "nothing", "unreadable", "not_now"]
    begun_at: Time | None = None
    metadata: dict[str, Annotated[str, Field(max_length=MAX_METADATA)]] = Field(default_factory=dict, max_length=100)
    state: StateLine | None = None
    stored: StoredLine | None = None
    histories: list[HistoryLine] = Field(default_factory=list, max_length=200)


class TopologyLine(Strict):
    """What the graph looks like in the code of the reporter."""

    graph_id: Annotated[str, Field(min_length=1, max_length=255)]
    nodes: Nodes
    joins: Nodes
    deferred: Nodes
    edges: list[tuple[Node, Node, bool]] = Field(max_length=20_000)
    fields: list[Names_] = Field(max_length=5000)
    xray_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]

    def facts(self) -> Topology:
        """As facts."""
        return Topology(
            graph_id=self.graph_id,
            assistant_id="",
            nodes=frozenset(self.nodes),
            joins=frozenset(self.joins),
            deferred=frozenset(self.deferred),
            edges=tuple(sorted(self.edges)),
            fields=frozenset(self.fields),
            xray_hash=self.xray_hash,
        )


_FAILURES = {
    "nothing": StateFailure.THREAD_MISSING,
    "unreadable": StateFailure.LASTING,
    "not_now": StateFailure.PASSING,
}


def told_of(
    raw: bytes, names: Names, version_keys: Collection[str], metadata_keys: Collection[str], graph_id: str
) -> Told:
    """A line as facts. Raises ``ValueError`` with a sentence that quotes nothing of it."""
    if _NUL in raw:
        raise ValueError("a text may not hold the character NUL")
    try:
        line = ThreadLine.model_validate_json(raw)
    except ValidationError as error:
        raise ValueError(complaint(error)) from None
    if line.found != "state":
        return Told(line.thread_id, _FAILURES[line.found])
    if line.state is None:
        raise ValueError("state: it is missing")
    if not set(line.metadata) <= set(metadata_keys):
        raise ValueError("metadata: a key that metadata_keys does not allow")
    stored = line.stored
    return Told(
        thread_id=line.thread_id,
        state=_state(line.state, names, version_keys, may_hide=stored is not None and stored.may_hide),
        begun_at=_utc(line.begun_at),
        metadata=dict(line.metadata),
        shape=stored.shape.facts(names, version_keys) if stored and stored.shape else None,
        interrupts=tuple(Interrupt(*pair) for pair in stored.interrupts) if stored else (),
        answered=stored is not None and stored.answered,
        routes=_routes(stored.routes, names) if stored else None,
        histories={
            one.ns: None if one.checkpoints is None else tuple(each.facts(graph_id) for each in one.checkpoints)
            for one in line.histories
        },
    )


def _state(line: StateLine, names: Names, version_keys: Collection[str], *, may_hide: bool) -> StateFacts:
    return StateFacts(
        checkpoint_id=line.checkpoint_id,
        parent_id=line.parent_id,
        created_at=_utc(line.created_at),
        source=line.source,
        step=line.step,
        graph_id=None,
        leaves=tuple(leaf.facts() for leaf in line.leaves),
        unapplied=tuple(sorted(line.unapplied)),
        shape=line.shape.facts(names, version_keys) if line.shape else None,
        heads=dict(line.heads),
        finished=frozenset(line.finished),
        run_id=line.run_id,
        steps=dict(line.steps),
        may_hide=may_hide,
    )


def _routes(line: RoutesLine, names: Names) -> StorageFacts:
    if any(name not in names and not _HASHED.fullmatch(name) for name in line.fields):
        raise ValueError("routes.fields: a name that was never declared must be hashed")
    return StorageFacts(
        branches=frozenset(line.branches),
        joins=frozenset(line.joins),
        sends=line.sends,
        fields=frozenset(line.fields),
        checkpoints=None,
        empty=frozenset(line.empty),
        waits_for=None,
    )


def complaint(error: ValidationError) -> str:
    """The first complaint, without what was sent: places are named as far as they are ours."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or str(part) in _OURS)
    return f"{place}: {first['msg']}" if place else str(first["msg"])


_OURS = {
    name
    for model in (
        ThreadLine,
        StateLine,
        StoredLine,
        RoutesLine,
        ShapeLine,
        LeafLine,
        HistoryLine,
        CheckpointLine,
        TopologyLine,
    )
    for name in model.model_fields
}


def read_topology(raw: Mapping[str, Any]) -> tuple[Topology, str]:
    """A pushed topology and its hash. Raises ``BadRequest``."""
    try:
        sent = orjson.dumps(raw)
    except TypeError:
        raise BadRequest("topology: a number is too large.") from None
    if _NUL in sent:
        raise BadRequest("topology: a name may not hold the character NUL.")
    try:
        found = TopologyLine.model_validate_json(sent).facts()
    except ValidationError as error:
        raise BadRequest(f"topology: {complaint(error)}. Use the reporter of this version.") from None
    return found, topology_hash(found)


def _utc(when: datetime | None) -> datetime | None:
    return None if when is None else when.astimezone(UTC)
