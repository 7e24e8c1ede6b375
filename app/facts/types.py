"""What may be known of a thread: frozen dataclasses that have no place to put a state value.

Whatever is not a field here cannot be stored, logged or shown. Times are UTC-aware. Node names are paths
(``await_approval``, ``nested/sub_wait``); a ``/`` inside a node's own name is percent-encoded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Presence(StrEnum):
    """How a field is there. Taken from keys, never from truthiness."""

    ABSENT = "absent"
    NULL = "null"
    EMPTY = "empty"
    PRESENT = "present"


class Kind(StrEnum):
    """The kind of a value, as JSON has it."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    LIST = "list"
    OBJECT = "object"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class FieldFact:
    """One state field of one thread: present or not, and of what kind. ``kind`` is None only when absent."""

    presence: Presence
    kind: Kind | None = None


ABSENT = FieldFact(Presence.ABSENT)


class Reading(StrEnum):
    """What a version field says."""

    INTEGER = "integer"
    MISSING = "missing"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class VersionReading:
    """A version field: an integer 0..9999, missing, malformed (with its kind), or unknown (nobody could see it)."""

    reading: Reading
    value: int | None = None
    kind: Kind | None = None


class Agreement(StrEnum):
    """Both sides of a rename are present: do they hold the same? Compared in memory, only the answer is kept."""

    AGREE = "agree"
    DISAGREE = "disagree"


@dataclass(frozen=True, slots=True)
class Shape:
    """The state fields of a thread, their versions and rename comparisons. No values.

    ``fields`` maps a name in clear, or ``#`` and a keyed hash for a name nobody declared, to its fact; names that are
    not in it are absent. ``versions`` has one reading for each version key of the deployment. ``conflicts`` maps
    ``old->new`` to the comparison, for renames that were known when the payload was read and had both sides present.
    """

    fields: Mapping[str, FieldFact]
    versions: Mapping[str, VersionReading] = field(default_factory=dict)
    conflicts: Mapping[str, Agreement] = field(default_factory=dict)


class Status(StrEnum):
    """Thread status as the Agent Server's row has it."""

    IDLE = "idle"
    BUSY = "busy"
    INTERRUPTED = "interrupted"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One interrupt of a task: ids only. ``task_id`` is the task that the row files it under."""

    task_id: str
    interrupt_id: str


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What ``threads.search`` says of a thread. ``shape`` is None when the row has no values.

    ``config`` is a keyed hash of the configuration that the thread keeps, with which the server makes the graph that draws
    its state; None when the row does not say.
    """

    thread_id: str
    status: Status
    created_at: datetime
    updated_at: datetime
    state_updated_at: datetime | None
    graph_id: str | None
    assistant_id: str | None
    metadata: Mapping[str, str]
    shape: Shape | None
    interrupts: tuple[Interrupt, ...]
    error_class: str | None = None
    config: str | None = None


class Cause(StrEnum):
    """Why a leaf waits."""

    DYNAMIC = "dynamic"
    STATIC = "static"
    UPDATE = "update"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class LeafSource(StrEnum):
    """Which evidence says that a leaf is pending."""

    STATE = "state"
    INTERRUPT_ID = "interrupt_id"
    LAST_SEEN = "last_seen"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One pending task at the bottom of the tree of subgraphs.

    ``ns`` is the checkpoint namespace that holds the task, ``checkpoint_id`` the checkpoint of that namespace.
    ``inside_unseen``: the task has a subgraph whose own place could not be seen, so any node below may be pending.
    ``error_class`` is set when the task carries an error ("error" when its class is not an identifier). ``lost``: it left
    without being done. ``acknowledged``: a person has dealt with its loss or stranding. ``sent``: made by ``Send``, whose
    payload does not show.
    """

    node: str
    ns: str
    task_id: str | None
    checkpoint_id: str | None
    interrupts: int = 0
    error_class: str | None = None
    cause: Cause = Cause.UNKNOWN
    inside_unseen: bool = False
    source: LeafSource = LeafSource.STATE
    lost: bool = False
    sent: bool = False
    acknowledged: bool = False


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What ``get_state(subgraphs=True)`` makes of the head checkpoint. ``checkpoint_id`` None: it never ran.

    ``unapplied`` are the nodes of finished tasks whose results are not applied yet, ``finished`` the ids of these tasks.
    ``heads`` maps each checkpoint namespace that
    could be seen to its head checkpoint (the root's is ``""``), ``steps`` to that checkpoint's step; steps are known only
    while the answer is fresh. ``run_id`` is the run that wrote the head. ``may_hide``: the row moved without the head being
    written, as a run leaves it that was told where to go and was rolled back: one more node may be pending, in no view.
    """

    checkpoint_id: str | None
    parent_id: str | None
    created_at: datetime | None
    source: str | None
    step: int | None
    graph_id: str | None
    leaves: tuple[Leaf, ...]
    unapplied: tuple[str, ...]
    shape: Shape | None
    heads: Mapping[str, str] = field(default_factory=dict)
    finished: frozenset[str] = frozenset()
    run_id: str | None = None
    steps: Mapping[str, int] = field(default_factory=dict)
    may_hide: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """One checkpoint of a history. ``results`` are the ids of its tasks that have a result; ``tasks`` the names of all of
    them, ``finished`` of those that have one.

    Its ``next`` and tasks are recomputed by today's graph: after a deploy they are no evidence.
    """

    id: str
    parent_id: str | None
    source: str | None
    step: int | None
    graph_id: str | None
    run_id: str | None
    created_at: datetime | None
    results: frozenset[str]
    tasks: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()


class Departure(StrEnum):
    """How a pending leaf stopped being pending; the first that applies (design §3.4)."""

    DELETED = "deleted"
    FORKED = "forked"
    ABANDONED = "abandoned"
    OVERRIDDEN = "overridden"
    COMPLETED = "completed"
    LOST = "lost"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Departed:
    """A leaf that is no longer pending, and how it left. ``ended_at``: when its checkpoint's child was written; None: not looked at."""

    leaf: Leaf
    departure: Departure
    ended_at: datetime | None = None


class StateFailure(StrEnum):
    """Why there is no state: the graph is not deployed, the thread is gone, the call fails for good, or for now."""

    GRAPH_MISSING = "graph_missing"
    THREAD_MISSING = "thread_missing"
    LASTING = "lasting"
    PASSING = "passing"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run of a thread (``runs.list``): its status, pending or running while it is active, and how it writes checkpoints.

    ``durability`` None: nobody knows, or it was told where to go, so that the node it begins with shows nowhere. ``leaps``: it
    begins elsewhere than at the head, at a node that it was told or at another checkpoint.
    """

    run_id: str
    status: str
    created_at: datetime
    durability: str | None
    leaps: bool = False


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """Which routes a thread's storage ever held: node names of ``branch:to:N`` and targets of ``join:…:N``.

    ``sends`` is True when the channel of ``Send`` was written: then a node may have been entered without a trace here.
    ``fields`` are the stored channels, names kept as everywhere. ``nameless``: some state is stored whole, under no field's name
    (of a graph whose state is any dict, and of a part of one). ``empty``: joins and deferred nodes of the root at which
    nothing waits, as the thread's history shows, where that was looked for (``is_counted``). ``waits_for``: each join's target
    and the nodes that it waits for; None: an earlier version did not keep them. ``versions``: how many stored versions each
    field has, over the whole history; known only while the answer is fresh, it is not remembered.
    """

    branches: frozenset[str]
    joins: frozenset[str]
    sends: bool
    fields: frozenset[str]
    checkpoints: int | None
    empty: frozenset[str] = frozenset()
    nameless: bool = False
    versions: Mapping[str, int] = field(default_factory=dict)
    waits_for: frozenset[tuple[str, frozenset[str]]] | None = frozenset()
    is_counted: bool = True


class Condition(StrEnum):
    """What can be said of a thread alone; the first that applies (design §3.3)."""

    GONE = "gone"
    GRAPH_MISSING = "graph_missing"
    UNREADABLE = "unreadable"
    UNREAD = "unread"
    RUNNING = "running"
    SCHEDULED = "scheduled"
    NEVER_RAN = "never_ran"
    LOST = "lost"
    STRANDED = "stranded"
    UNPLACED = "unplaced"
    FAILED = "failed"
    PARKED = "parked"
    HALF_STEP = "half_step"
    PRESUMED_SETTLED = "presumed_settled"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class FieldType:
    """What a field takes. ``kinds`` None: anything. ``is_loose``: any value of these kinds will do, whatever is in it."""

    digest: str
    kinds: frozenset[Kind] | None = None
    is_loose: bool = True


@dataclass(frozen=True, slots=True)
class Topology:
    """A graph as deployed: node paths, joins, deferred nodes, edges and state fields. Hashed to notice a deploy.

    ``edges`` are (source, target, conditional) as the server draws them; they never prove that a node is unreachable.
    ``xray_hash`` is of the drawing with inner nodes alone, which is all that a scan asks for. ``types`` has what each field
    takes, ``required`` what an input must have, ``inner_types`` what the fields of each subgraph take, by its path, where the
    server tells (None: it does not); they make no other revision.
    """

    graph_id: str
    assistant_id: str
    nodes: frozenset[str]
    joins: frozenset[str]
    deferred: frozenset[str]
    edges: tuple[tuple[str, str, bool], ...]
    fields: frozenset[str]
    xray_hash: str
    types: Mapping[str, FieldType] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    inner_types: Mapping[str, Mapping[str, FieldType]] | None = None


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """Everything that is known of one thread: its row, what was read of it and when, and what that means.

    ``leaves`` are the state's, and those that only the row's proof or an earlier reading names. ``state`` and
    ``state_read_at`` belong to the row as it is now; they are dropped when the row moves. ``revision_id`` is the graph
    revision that the state was read under (None: the graph changed meanwhile, or nobody knows). ``failures`` counts
    polls in a row in which the state call failed in the same lasting way. ``departed`` are the leaves that this reading
    found to have left. ``runs`` are the active ones and ``last_run`` the newest of all, where somebody asked; the latter, and
    ``expires_at`` (when the server deletes the thread), are not remembered.
    """

    row: RowFacts
    seen_at: datetime
    condition: Condition
    leaves: tuple[Leaf, ...] = ()
    state: StateFacts | None = None
    state_read_at: datetime | None = None
    revision_id: int | None = None
    failure: StateFailure | None = None
    failures: int = 0
    runs: tuple[RunFacts, ...] | None = None
    storage: StorageFacts | None = None
    stuck: bool = False
    gone_at: datetime | None = None
    departed: tuple[Departed, ...] = ()
    head_graph: str | None = None
    last_run: RunFacts | None = None
    expires_at: datetime | None = None

    @property
    def is_ghost(self) -> bool:
        """Whether the row says busy and no run is active."""
        return self.row.status is Status.BUSY and self.runs == ()
