"""What the inventory answers: frozen dataclasses, the same for page, JSON and command line."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from app.facts.types import VersionReading

SourceState = Literal["complete", "incomplete", "stale", "failed", "not_configured", "not_evaluated"]


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How fresh and how whole one source is. ``since``: when it began to fail. ``sentence``: what to do about it."""

    name: str
    status: SourceState
    as_of: datetime | None = None
    age_seconds: int | None = None
    expected: int | None = None
    seen: int | None = None
    since: datetime | None = None
    sentence: str | None = None


@dataclass(frozen=True, slots=True)
class PollReason:
    """Why a poll is not complete: a constant code and a sentence without anything that the server said."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Explained:
    """Up to when somebody has explained something. ``poll_id``: the newest poll that had ended then; None: not known."""

    poll_id: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class PollSummary:
    """One poll. ``state``: running, complete, incomplete (kept what it saw, proves nothing), failed (could not ask)."""

    id: int
    kind: Literal["sweep", "scan"]
    state: Literal["waiting", "running", "complete", "incomplete", "failed"]
    started_at: datetime
    finished_at: datetime | None
    threads_seen: int
    threads_expected: int | None
    states_read: int
    states_wanted: int
    requests: int
    reasons: tuple[PollReason, ...] = ()


@dataclass(frozen=True, slots=True)
class RevisionSummary:
    """A graph as deployed at some time. ``vanished_at``: when the graph was first seen to be gone, or replaced.

    ``variant``: None for the graph as its own assistant draws it; else one of the configurations that draw it like this.
    ``topology_pushed_at``: when the application pushed a topology that looks like this, with which joins are known exactly.
    """

    id: int
    graph: str
    assistant_id: str
    hash: str
    xray_hash: str
    first_seen_at: datetime
    last_seen_at: datetime
    vanished_at: datetime | None
    nodes: tuple[str, ...]
    joins: tuple[str, ...]
    deferred: tuple[str, ...]
    fields: tuple[str, ...]
    edges: tuple[tuple[str, str, bool], ...]  # source, target, conditional; they never prove "cannot reach"
    variant: str | None = None
    topology_pushed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Drawing:
    """Under which revision a graph is drawn with one configuration. ``revision_id`` None: not drawn yet."""

    graph: str
    config: str
    assistant_id: str
    edited_at: str | None
    revision_id: int | None
    drawn_at: datetime | None


@dataclass(frozen=True, slots=True)
class GraphChange:
    """What a deploy did to one graph, as one configuration draws it (``variant`` None: the graph's own assistant).

    ``kind``: changed, appeared or vanished. ``before`` and ``after`` are the hashes of the revisions.
    """

    graph: str
    kind: Literal["changed", "appeared", "vanished"]
    variant: str | None
    before: str | None
    after: str | None
    nodes_added: tuple[str, ...]
    nodes_removed: tuple[str, ...]
    nodes_kept: int
    fields_added: tuple[str, ...]
    fields_removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deploy:
    """One deploy as a poll noticed it. ``threads`` waited at a node that it removed, a moment before; ``fates`` counts what
    became of them since. ``latest``: no later deploy is known. ``comparison``: what a preflight would have said of it a moment
    before, the worst first; None: nobody compared."""

    id: int
    deployment: str
    noticed_at: datetime
    poll: int
    changes: tuple[GraphChange, ...]
    threads: int
    fates: Mapping[str, int]
    latest: bool
    comparison: tuple[Mapping[str, object], ...] | None = None


@dataclass(frozen=True, slots=True)
class DeployThread:
    """A thread that waited at a node when a deploy removed it. ``fate``: what became of that wait."""

    thread_id: str
    node: str
    graph: str
    fate: str
    condition: str | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class DeployPage:
    """Deploys, newest first. ``next_cursor`` None: the end."""

    items: tuple[Deploy, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class DeployReport:
    """One deploy with the threads that waited at a node which it removed, in order of id."""

    deploy: Deploy
    items: tuple[DeployThread, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that a person should look at now. ``threads``: the API path of the threads behind it.
    ``acknowledged_at``: when somebody said that it was dealt with."""

    id: int
    deployment: str
    code: str
    sentence: str
    count: int | None
    first_seen_at: datetime
    last_seen_at: datetime
    threads: str | None = None
    acknowledged_at: datetime | None = None

    def is_explained(self, codes: Container[str]) -> bool:
        """Whether somebody has explained it since it was last found, and that counts still (``codes``). Which of them came first
        is not told by times: clocks go back."""
        return self.code in codes and self.acknowledged_at is not None


@dataclass(frozen=True, slots=True)
class Verification:
    """How far the idle heads are verified that a drain which nothing blocks needs. ``total`` counts those that are needed,
    ``left`` those of them that are not read yet; rates are per minute. ``budget``: the requests a minute that would do, where
    threads move faster than they can be read."""

    as_of: datetime
    total: int
    left: int
    read_per_minute: float
    moved_per_minute: float
    done_in_seconds: int | None
    budget: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the server may be asked now, and since when that is less than its budget."""

    requests_per_minute: int
    concurrency: int
    slowed_at: datetime | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class ReporterStatus:
    """What tells of a deployment without a server: its graph, the class of its checkpointer, who lists the ids (a ``file`` or
    the ``index``), and its pass."""

    graph: str
    saver: str
    langgraph_version: str
    lists: str
    pass_began_at: datetime
    pass_ended_at: datetime | None
    last_message_at: datetime


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    """One deployment at a glance. ``capabilities`` maps an ability of the server to whether it was seen to have it (None: not
    seen yet), ``capability_notes`` those that are missing to what that means for verdicts."""

    name: str
    environment: str | None
    url: str
    as_of: datetime | None
    total: int
    statuses: Mapping[str, int]
    conditions: Mapping[str, int]
    sources: tuple[SourceStatus, ...]
    current_poll: PollSummary | None
    last_sweep: PollSummary | None
    last_scan: PollSummary | None
    polls: tuple[PollSummary, ...]
    revisions: tuple[RevisionSummary, ...]
    capabilities: Mapping[str, bool | str | None]
    alarms: tuple[Alarm, ...]
    unverified_idle: int
    requests_per_minute: int
    capability_notes: Mapping[str, str] = field(default_factory=dict)
    concurrency: int = 0
    verification: Verification | None = None
    pace: Pace | None = None
    reporter: ReporterStatus | None = None
    is_reported: bool = False


@dataclass(frozen=True, slots=True)
class Inventory:
    """Counts of the threads that a filter lets through. A facet maps a value to its number of threads.

    ``facets`` holds status, condition, pending, state_version, graph and age; ``fields`` is by field name, then by
    presence. The buckets of ``state_version`` and of every field add up to ``total``. ``complete``: the last poll saw
    everything.
    """

    deployment: str
    as_of: datetime | None
    poll: int | None
    complete: bool
    total: int
    filters: Mapping[str, tuple[str, ...]]
    facets: Mapping[str, Mapping[str, int] | Mapping[str, Mapping[str, int]]]


@dataclass(frozen=True, slots=True)
class ThreadItem:
    """One line of the list of threads."""

    thread_id: str
    graph_id: str | None
    status: str
    condition: str
    pending: tuple[str, ...]
    state_version: VersionReading
    created_at: datetime
    updated_at: datetime
    seen_at: datetime
    stuck: bool = False
    assistant_id: str | None = None


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """A page of threads, by key. ``next_cursor`` None: the end. ``total``: all that the filter lets through."""

    items: tuple[ThreadItem, ...]
    next_cursor: str | None
    total: int


@dataclass(frozen=True, slots=True)
class Observation:
    """One leaf of one thread: when it was first seen pending, and when and how it left. ``left_at`` None: it has not."""

    thread_id: str
    node: str
    ns: str
    checkpoint_id: str
    arrived_at: datetime
    left_at: datetime | None
    departure: str | None


@dataclass(frozen=True, slots=True)
class PendingEvidence:
    """One pending node in the evidence report. ``deployed`` None: not known."""

    node: str
    """The node's path; `/` stands between a subgraph's node and what is in it."""
    ns: str
    """The checkpoint namespace that holds the task; empty for the thread's own."""
    tasks: int
    """How many tasks of this node wait there."""
    interrupts: int
    """How many interrupts they raised."""
    cause: str
    """Why most of them wait."""
    error_class: str | None
    """The class of the exception, when one failed."""
    deployed: bool | None
    """Whether the thread's graph has the node now; `null`: not known."""
    source: str
    """How it is known."""


@dataclass(frozen=True, slots=True)
class CheckpointEvidence:
    """A checkpoint: ids, time, how it came about. ``ns`` is empty for the thread's own, which the head is."""

    id: str
    """The checkpoint's id."""
    parent_id: str | None
    """The one before; `null` for the first."""
    ns: str
    """Its namespace; empty for the thread's own."""
    created_at: datetime | None
    """When it was written."""
    source: str | None
    """How it came about, in LangGraph's words: `input`, `loop`, `update`, `fork`."""
    step: int | None
    """LangGraph's number of the step."""


@dataclass(frozen=True, slots=True)
class LineageStep(CheckpointEvidence):
    """A checkpoint of a lineage. ``next``: the nodes that ran from it; None: cannot tell."""

    next: tuple[str, ...] | None = None
    """The nodes that ran from it; `null`: cannot tell."""


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """A field in row and state. None: that source cannot tell."""

    row: str | None
    """Whether the thread's row has it."""
    state: str | None
    """Whether the head's state has it."""
    kind: str | None
    """The kind of its value."""
    history_versions: int | None = None
    """How many versions of it are stored, history included; `null`: not read."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something to do. ``command`` can be copied; ``safe_to_repeat``: doing it twice harms nothing."""

    text: str
    """What to do."""
    command: str | None
    """A command to copy, or `null`."""
    safe_to_repeat: bool
    """Whether doing it twice harms nothing."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is the matter, in one sentence, and what to do next."""

    code: str
    """A [condition](conditions.md), or what else is the matter."""
    sentence: str
    """The same for a person."""
    next_steps: tuple[NextStep, ...] = ()
    """What to do, in this order."""


@dataclass(frozen=True, slots=True)
class DrainMention:
    """A drain that counts this thread, and what the thread means for it."""

    name: str
    """The drain's name."""
    disposition: str
    """What the thread means for it."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the report comes from."""

    source: str
    """`live`, `stored` or `reported`."""
    read_at: datetime | None
    """When the state was read, else the row."""
    graph_revision: str | None
    """The hash of the graph under which the state was read."""
    revision_assumed: bool | None
    """Whether the head is older than the first graph that was ever seen, which stands in for its own."""
    schema_revision: str
    """The revision of Drainboard's database."""
    saver: str | None
    """The class of the checkpointer, where a reporter told it."""
    server_version: str | None
    """The Agent Server's version."""
    drainboard_version: str
    """Drainboard's."""
    ttl_expires_at: datetime | None = None
    """When the server deletes the thread by itself."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one thread, without a single state value (``drainboard.evidence/1``). None: cannot tell."""

    found: bool
    """Whether anybody ever saw the thread; `false` leaves all that follows `null`."""
    deployment: str
    """The deployment's name."""
    environment: str | None
    """Its label."""
    thread_id: str
    """The id that was asked for."""
    diagnosis: Diagnosis
    """What is the matter, and what to do."""
    provenance: Provenance
    """Where the report comes from."""
    graph_id: str | None = None
    """The graph of the thread's last run."""
    head_graph_id: str | None = None
    """The graph that wrote the head checkpoint: pending work belongs to it."""
    assistant_id: str | None = None
    """The assistant of the last run."""
    status: str | None = None
    """The server's word: `idle`, `busy`, `interrupted`, `error`."""
    condition: str | None = None
    """What can be said of it: [conditions](conditions.md)."""
    stuck: bool | None = None
    """Whether a run is active and has written nothing for `stuck_after`."""
    created_at: datetime | None = None
    """When the thread was created."""
    updated_at: datetime | None = None
    """When its row last moved."""
    checkpoint: CheckpointEvidence | None = None
    """The head checkpoint."""
    history: Mapping[str, int | bool] | None = None
    """`depth`: how many checkpoints are stored; `truncated`: whether there are more that were not read."""
    pending: tuple[PendingEvidence, ...] | None = None
    """What waits, by node; `[]`: nothing."""
    unapplied: tuple[str, ...] | None = None
    """Nodes of a half step: they finished, and what they wrote is not applied yet."""
    fields: Mapping[str, FieldEvidence] | None = None
    """Each field with a name in clear: declared by a graph, a drain or the settings."""
    undeclared_fields: int | None = None
    """How many other fields there are. Their names may be personal, and are not shown."""
    conflicts: Mapping[str, str] | None = None
    """For each rename of a drain, `agree` or `disagree`, where both fields are there."""
    state_version: VersionReading | None = None
    """The reading of the deployment's `state_version_key`: `integer` with its value, `missing`, `malformed` with its kind, `unknown`."""
    departures: tuple[Mapping[str, str | None], ...] | None = None
    """How what waited here left, newest first: `at`, `node`, `ns`, `checkpoint_id`, `departure`, `arrived_at`."""
    last_run: Mapping[str, str | None] | None = None
    """The newest run: `id`, `status`, `at`."""
    deploys: tuple[Mapping[str, str | None], ...] | None = None
    """Deploys of the thread's graphs since its head was written, newest first: `at`, `graph`, `revision`, `kind`, `id`."""
    lineage: tuple[LineageStep, ...] | None = None
    """Its checkpoints, newest first, where they were read for this report (`live`)."""
    traces: Mapping[str, str | None] | None = None
    """Where traces are configured: `window`, since when they were read; `last_entered`, `node`, `trace`: its newest visit to a target."""
    index: Mapping[str, bool] | None = None
    """Where there is a thread index: whether it is `listed`, and `closed`."""
    drains: tuple[DrainMention, ...] = ()
    """Drains that count it, and what it means for each."""
    schema: str = field(default="drainboard.evidence/1")
    """The version of this form. Keys may be added to it; none changes its meaning."""


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said in one call: a waiver, an acknowledgement or an attestation.

    ``id`` ends it again. ``count``: threads it names, of which ``thread_ids`` has the first 20. ``names``: the codes that
    were acknowledged, or the attestations that were ticked. ``of_deployment``: said for all drains of the deployment. ``drain``: the
    drain that it was said about, where that is another one than the one that is asked.
    """

    id: str
    kind: Literal["waiver", "acknowledgement", "attestation"]
    owner: str
    reason: str | None
    until: datetime | None
    created_at: datetime
    actor: str
    ended_at: datetime | None
    count: int
    thread_ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    criteria_version: int | None = None
    of_deployment: bool = False
    drain: str | None = None


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody who waits on a drain's gate. ``caller``: in its own words. ``seen_at``: when it last asked; ``asked``: how often.
    ``outcome`` None: it waits; drained, ran_out (of time) or cancelled."""

    id: str
    drain: str
    caller: str
    since: datetime
    until: datetime
    seen_at: datetime
    asked: int
    verdict: str
    outcome: str | None
    ended_at: datetime | None
    ended_by: str | None
    is_silent: bool


@dataclass(frozen=True, slots=True)
class CriteriaVersion:
    """What a drain asked for from ``created_at`` on. ``spec``: the criteria as stored."""

    version: int
    spec: Mapping[str, object]
    created_at: datetime
    actor: str


@dataclass(frozen=True, slots=True)
class Activity:
    """One line of the audit: who did what to what, and when. ``detail``: names, ids and counts."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    deployment: str | None
    detail: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NodeActivity:
    """What the traces of one day say of one node. ``joined``: runs that say which thread it was."""

    node: str
    day: datetime
    entered: int
    finished: int
    errored: int
    joined: int


@dataclass(frozen=True, slots=True)
class Visit:
    """One entry of a node by a thread, as its trace has it. ``end``: success, error (an interrupt too) or pending."""

    node: str
    at: datetime
    end: str
    trace_id: str | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Between which moments every run of a node was read. ``exact``: by a question about this node alone."""

    node: str
    exact: bool
    covered_from: datetime
    covered_until: datetime


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A reading of a node's runs between two moments, newest first, that has come to ``reached``."""

    node: str
    exact: bool
    since: datetime
    reached: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class TracedEntry:
    """A run of a target: when it began, and which thread it was."""

    node: str
    thread_id: str | None
    trace_id: str | None
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Liveness:
    """Whether a project's silence says something: runs of other nodes in the window (a thousand are counted at most), and
    the newest run of the graph's."""

    others: int
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class Stay:
    """A leaf of a thread at or below a target, as the thread list saw it. ``left_at`` None: still there; else a
    look at the latest after it ended. ``came_after``: it cannot have begun before, and ``ended_at``: it was done then; None: nobody
    knows."""

    thread_id: str
    node: str
    left_at: datetime | None
    departure: str | None
    came_after: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Listed ids by what became of them: seen, closed, expired, unknown, hidden, other_form, no_id or unchecked."""

    by_word: Mapping[str, int]
    closed: int

    @property
    def listed(self) -> int:
        """All of them."""
        return sum(self.by_word.values())

    @property
    def unresolved(self) -> Mapping[str, int]:
        """Those that nobody has seen and that are not settled, by why."""
        return {word: count for word, count in self.by_word.items() if word not in ("seen", "closed", "expired")}


@dataclass(frozen=True, slots=True)
class IndexLine:
    """One listed id that nobody has seen. ``why``: unknown (the server does not have it), hidden (it has, and does not list
    it), other_form (a thread with this id in a longer form is there), no_id (no id of a thread), unchecked."""

    thread_id: str
    why: str
    graph_id: str | None
    created_at: datetime | None
    state: str | None


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """What is wrong with one line of a batch, without anything of it. Lines count from 1."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class IndexTaken:
    """What became of a batch. ``rejected``, ``duplicates``: of the whole list so far; ``is_whole``: the list is complete."""

    accepted: int
    rejected: int
    duplicates: int
    listed: int
    is_whole: bool
    problems: tuple[IndexProblem, ...]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The application's list beside the threads that were seen. ``only_in_index``: unsettled ids, some of them, by id."""

    deployment: str
    kind: str | None
    source: SourceStatus
    listed: int
    closed: int
    by_word: Mapping[str, int]
    only_on_server: int
    malformed: int
    duplicates: int
    states: Mapping[str, int]
    only_in_index: tuple[IndexLine, ...]


@dataclass(frozen=True, slots=True)
class NodeDay:
    """What the traces of one day (from midnight, UTC) say of one node. ``left``: runs that ended without an error; an
    interrupt ends one as ``errored`` in some versions."""

    day: datetime
    entered: int = 0
    left: int = 0
    errored: int = 0


@dataclass(frozen=True, slots=True)
class NodeTraces:
    """One node in the traces. ``days``: each of the last days, oldest first; the numbers beside it are their sums.
    ``joined``: entries of which the thread is known. ``watched_since``: from when on every run of it was read; None: not read
    yet. ``is_quiet``: watched for as long as the days go back, and nobody entered: a candidate for removal."""

    node: str
    last_entered: datetime | None
    entered: int
    left: int
    errored: int
    joined: int
    days: tuple[NodeDay, ...]
    watched_since: datetime | None
    is_quiet: bool


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """One run of a node. ``end``: success, error (an interrupt too) or pending. ``trace``: its page in LangSmith."""

    node: str
    at: datetime
    end: str
    thread_id: str | None
    trace: str | None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The deployed nodes in the traces, by name. Runs have no graph: nodes of one name in two graphs are one here.
    ``quiet``: nobody has entered them for 30 days."""

    deployment: str
    source: SourceStatus
    items: tuple[NodeTraces, ...]
    quiet: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeEntries:
    """The newest runs of one node, newest first."""

    items: tuple[NodeEntry, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """An API token without its secret. ``deployments``: None is all; ``expires_at``: None is never."""

    name: str
    rights: tuple[str, ...]
    deployments: tuple[str, ...] | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """A process that polls. ``seen_at``: when it last said that it is there."""

    name: str
    concurrency: int
    started_at: datetime
    seen_at: datetime
    ended_at: datetime | None
