"""The tables. The deployment comes first in every key of a thread-sized table; shapes, pending work and routes are
dictionary-encoded, since a million threads have a few hundred distinct ones. The schema is made by Alembic only.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Computed,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""When a thread changed that is listed and of which a reporter never told anything."""


class UtcDateTime(TypeDecorator[datetime]):
    """A UTC-aware datetime on every database. SQLite has no zones: there it is stored as UTC without one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a naive time: it would be read back as another one."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """What comes back is UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


BigId = BigInteger().with_variant(Integer, "sqlite")


def _deployment_id() -> Column[Any]:
    return Column("deployment_id", Integer, ForeignKey("deployment.id", ondelete="CASCADE"), nullable=False)


def _primary_deployment_id() -> Column[Any]:
    return Column("deployment_id", Integer, ForeignKey("deployment.id", ondelete="CASCADE"), primary_key=True)


deployment = Table(
    "deployment",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("watermark", UtcDateTime),  # the newest updated_at that a complete poll started from
    Column("failing_since", UtcDateTime),
    Column("failing_sentence", String(500)),
    Column("sweep_wanted_at", UtcDateTime),  # since when only a sweep will do: a new drain, a deploy half-way
    Column("capabilities", JSON, nullable=False, default=dict),
    Column("assistants", JSON, nullable=False, default=dict),  # id -> name
    Column("lock_holder", String(64)),
    Column("lock_until", UtcDateTime),
    Column("source", JSON(none_as_null=True)),  # which server was asked, and since when
    Column("sweep_mark", JSON(none_as_null=True)),  # how far a sweep got that is not at its end
    Column("verification", JSON(none_as_null=True)),  # how far the idle heads are verified, in the background
    Column(
        "erased_poll_id", BigId
    ),  # the newest poll when a thread was last erased: what was swept until then proves nothing
    Column("pace", JSON(none_as_null=True)),  # how fast the server may be asked now, where that is less than its budget
    Column("rules", Integer),  # of the version that proved what is remembered: see ``proofs.py``
    Column(
        "forgotten_since", UtcDateTime
    ),  # when the oldest thread was created that was gone for so long that it was forgotten
)

graph_revision = Table(
    "graph_revision",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    Column("graph_id", String(255), nullable=False),
    Column("assistant_id", String(255), nullable=False),
    Column("hash", String(16), nullable=False),
    Column("xray_hash", String(16), nullable=False),  # of the drawing with inner nodes alone: what a scan compares
    Column("topology", JSON, nullable=False),
    Column("first_seen_at", UtcDateTime, nullable=False),
    Column("last_seen_at", UtcDateTime, nullable=False),
    Column("vanished_at", UtcDateTime),
    Column("variant", String(32)),  # None: as the graph's own assistant draws it; else the config that draws it so
    Index("ix_graph_revision_deployment_id_graph_id", "deployment_id", "graph_id"),
)

drawing = Table(
    "drawing",
    metadata,
    _primary_deployment_id(),
    Column("graph_id", String(255), primary_key=True),
    Column("config", String(32), primary_key=True),  # a keyed hash of what the graph is configured with
    Column("assistant_id", String(255), nullable=False),
    Column("edited_at", String(40)),  # the assistant's own updated_at, which moves at every restart too
    Column("revision_id", BigId),  # None: not drawn yet
    Column("drawn_at", UtcDateTime),
)

topology = Table(
    "topology",
    metadata,
    _primary_deployment_id(),
    Column("graph_id", String(255), primary_key=True),
    Column("drawn", String(16), primary_key=True),  # a hash of the nodes and edges that a server would draw
    Column("content", JSON, nullable=False),
    Column("pushed_at", UtcDateTime, nullable=False),
    Column("actor", String(200), nullable=False),
)

deploy = Table(
    "deploy",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    Column("poll_id", BigId, nullable=False),
    Column("noticed_at", UtcDateTime, nullable=False),
    Column("changes", JSON, nullable=False),  # one for each graph: nodes and fields added and removed
    Column("comparison", JSON),  # what a preflight would have said a moment before; null: nobody compared
    Index("ix_deploy_deployment_id_id", "deployment_id", "id"),
)

deploy_thread = Table(
    "deploy_thread",
    metadata,
    _primary_deployment_id(),
    Column("deploy_id", BigId, ForeignKey("deploy.id", ondelete="CASCADE"), primary_key=True),
    Column("thread_id", String(255), primary_key=True),
    Column("node", String(500), primary_key=True),
    Column("graph_id", String(255), nullable=False),
)

reporter = Table(  # what tells of a deployment without a server, and the pass that is under way or was the last
    "reporter",
    metadata,
    _primary_deployment_id(),
    Column("pass_id", String(64), nullable=False),
    Column("poll_id", BigId, nullable=False),
    Column("graph_id", String(255), nullable=False),
    Column("topology_hash", String(16), nullable=False),
    Column("revision_id", BigId, nullable=False),
    Column("saver", String(100), nullable=False),
    Column("langgraph_version", String(40), nullable=False),
    Column("lists", String(8), nullable=False),  # file or index: who named the ids
    Column("began_at", UtcDateTime, nullable=False),
    Column("told_at", UtcDateTime, nullable=False),  # its last message
    Column("ended_at", UtcDateTime),
    Column("watermark", UtcDateTime),  # the newest change that was known when the pass began
)

poll = Table(
    "poll",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    Column("kind", String(10), nullable=False),
    Column("state", String(12), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("threads_seen", Integer, nullable=False, default=0),
    Column("threads_expected", Integer),
    Column("states_read", Integer, nullable=False, default=0),
    Column("states_wanted", Integer, nullable=False, default=0),
    Column("requests", Integer, nullable=False, default=0),
    Column("reasons", JSON, nullable=False, default=list),
    Index("ix_poll_deployment_id_id", "deployment_id", "id"),
    Index("ix_poll_deployment_id_kind_state", "deployment_id", "kind", "state", "id"),
)


def _dictionary(name: str) -> Table:
    return Table(
        name,
        metadata,
        _primary_deployment_id(),
        Column("id", Integer, primary_key=True),
        Column("digest", String(32), nullable=False),
        Column("content", JSON, nullable=False),
        UniqueConstraint("deployment_id", "digest"),
    )


shape = _dictionary("shape")
work = _dictionary("work")
routes = _dictionary("routes")

_IS_GONE = text("gone_at IS NOT NULL")

thread = Table(
    "thread",
    metadata,
    _primary_deployment_id(),
    Column("thread_id", String(255), primary_key=True),
    Column("status", String(12), nullable=False),
    Column("condition", String(20), nullable=False),
    Column("stuck", Boolean, nullable=False, default=False),
    Column("graph_id", String(255)),
    Column("head_graph_id", String(255)),
    Column("assistant_id", String(255)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("state_updated_at", UtcDateTime),
    Column("row_shape_id", Integer),
    Column("state_shape_id", Integer),
    Column("work_id", Integer, nullable=False),
    Column("routes_id", Integer),
    Column("revision_id", BigId),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("seen_poll_id", BigId, nullable=False),
    Column("state_read_at", UtcDateTime),
    Column("reading_is_current", Boolean, nullable=False, default=False),
    Column("gone_at", UtcDateTime),
    Column("gone_poll_id", BigId),  # the poll that found it gone; None: found before this was kept
    Column("was_waiting", Boolean, nullable=False, default=False),  # of a tombstone: not settled when last seen
    Column("config", String(32)),  # a keyed hash of what the server draws its state with; None: the row does not say
    Column("metadata", JSON, nullable=False, default=dict),
    Column("detail", JSON, nullable=False, default=dict),  # leaves, interrupts, checkpoint, runs: ids, never values
    Column("changed_at", UtcDateTime, Computed("coalesce(state_updated_at, updated_at)")),  # the state
    Index("ix_thread_deployment_id_updated_at", "deployment_id", "updated_at", "thread_id"),
    Index("ix_thread_deployment_id_created_at", "deployment_id", "created_at", "thread_id"),
    Index("ix_thread_deployment_id_changed_at", "deployment_id", "changed_at", "thread_id"),
    Index("ix_thread_deployment_id_condition", "deployment_id", "condition", "work_id", "changed_at", "thread_id"),
    Index("ix_thread_deployment_id_seen_poll_id", "deployment_id", "seen_poll_id"),
    Index("ix_thread_gone", "deployment_id", "gone_at", sqlite_where=_IS_GONE, postgresql_where=_IS_GONE),
    Index(  # all that a drain counts by, so that it never reads a row
        "ix_thread_classes",
        "deployment_id",
        "graph_id",
        "head_graph_id",
        "condition",
        "work_id",
        "row_shape_id",
        "state_shape_id",
        "revision_id",
        "routes_id",
        "status",
        "reading_is_current",
        "state_read_at",
        "state_updated_at",
        "updated_at",
        "created_at",
        "assistant_id",
        "thread_id",
    ),
)

# Kept by triggers on ``thread``, in whatever transaction writes it: see ``cube.py``. Nothing is written as -1 or "".
thread_cell = Table(
    "thread_cell",
    metadata,
    _primary_deployment_id(),
    Column("graph_id", String(255), primary_key=True),
    Column("head_graph_id", String(255), primary_key=True),
    Column("assistant_id", String(255), primary_key=True),
    Column("status", String(12), primary_key=True),
    Column("condition", String(20), primary_key=True),
    Column("work_id", Integer, primary_key=True),
    Column("row_shape_id", Integer, primary_key=True),
    Column("state_shape_id", Integer, primary_key=True),
    Column("revision_id", BigId, primary_key=True),
    Column("routes_id", Integer, primary_key=True),
    Column("reading_is_current", Boolean, primary_key=True),
    Column("is_read", Boolean, primary_key=True),
    Column("age", SmallInteger, primary_key=True),  # how many edges of ``thread_age`` its threads are behind
    Column("n", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The ages of the cells are those of one moment, and these are the edges between them then.
thread_age = Table(
    "thread_age",
    metadata,
    _primary_deployment_id(),
    Column("hour", UtcDateTime, nullable=False),
    Column("day", UtcDateTime, nullable=False),
    Column("week", UtcDateTime, nullable=False),
    Column("month", UtcDateTime, nullable=False),
    Column("quarter", UtcDateTime, nullable=False),
)

observation = Table(
    "observation",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    Column("thread_id", String(255), nullable=False),
    Column("node", String(500), nullable=False),
    Column("ns", String(1000), nullable=False),
    Column("task_id", String(255), nullable=False),
    Column("checkpoint_id", String(255)),
    Column("arrived_at", UtcDateTime, nullable=False),
    Column("arrived_poll_id", BigId, nullable=False),
    Column("left_at", UtcDateTime),
    Column("left_poll_id", BigId),
    Column("departure", String(12)),
    Column(
        "ended_at", UtcDateTime
    ),  # when the next checkpoint was written, of a leaf that was done; left_at is when that was seen
    UniqueConstraint("deployment_id", "thread_id", "task_id", "checkpoint_id"),
    Index("ix_observation_deployment_id_node", "deployment_id", "node", "arrived_at"),
    Index("ix_observation_deployment_id_left_at", "deployment_id", "left_at"),
    Index("ix_observation_deployment_id_node_left_at", "deployment_id", "node", "left_at"),
    Index("ix_observation_deployment_id_arrived_poll_id", "deployment_id", "arrived_poll_id"),
)

drain = Table(
    "drain",
    metadata,
    Column("id", Integer, primary_key=True),
    _deployment_id(),
    Column("name", String(100), nullable=False, unique=True),
    Column("spec", JSON, nullable=False),
    Column("criteria_digest", String(24), nullable=False),
    Column("criteria_version", Integer, nullable=False),
    Column("managed_by_file", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("observing_since", UtcDateTime),
    Column("closed_at", UtcDateTime),
    Column("holds_since", UtcDateTime),
    Column("sweeps", Integer, nullable=False, default=0),
    Column("regressed_since", UtcDateTime),
    Column("drained_at", UtcDateTime),
    Column("removed", JSON, nullable=False, default=dict),  # node -> since when it may be gone: the drain was drained
    Column("fell_at", UtcDateTime),
    Column("leaking_since", UtcDateTime),
    Index("ix_drain_deployment_id", "deployment_id"),
)

arrival = Table(
    "arrival",
    metadata,
    _primary_deployment_id(),
    Column("drain_id", Integer, ForeignKey("drain.id", ondelete="CASCADE"), primary_key=True),
    Column("thread_id", String(255), primary_key=True),
    Column("target", String(500), primary_key=True),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),  # of the thread
)

evaluation = Table(
    "evaluation",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    Column("drain_id", Integer, ForeignKey("drain.id", ondelete="CASCADE"), nullable=False),
    Column("poll_id", BigId),
    Column("evaluated_at", UtcDateTime, nullable=False),
    Column("criteria_version", Integer, nullable=False),
    Column("verdict", String(10), nullable=False),
    Column("answer", JSON, nullable=False),
    Index("ix_evaluation_drain_id_id", "drain_id", "id"),
)

alarm = Table(
    "alarm",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    Column("code", String(40), nullable=False),
    Column("sentence", String(500), nullable=False),
    Column("count", Integer),
    Column("first_seen_at", UtcDateTime, nullable=False),
    Column("last_seen_at", UtcDateTime, nullable=False),
    Column("cleared_at", UtcDateTime),
    Column("acknowledged_at", UtcDateTime),
    Index("ix_alarm_deployment_id_code", "deployment_id", "code"),
)


# -- what people say about drains ----------------------------------------------------------------------------------


def _drain_id(*, nullable: bool = False) -> Column[Any]:
    return Column("drain_id", Integer, ForeignKey("drain.id", ondelete="CASCADE"), nullable=nullable)


def _said() -> list[Column[Any]]:
    """Who stands for it and why, until when, when and through which door it was said, and when it was taken back."""
    return [
        Column("owner", String(100), nullable=False),
        Column("reason", String(500), nullable=False),
        Column("until", UtcDateTime),
        Column("created_at", UtcDateTime, nullable=False),
        Column("actor", String(200), nullable=False),
        Column("ended_at", UtcDateTime),
    ]


drain_version = Table(
    "drain_version",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    _drain_id(),
    Column("version", Integer, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("criteria_digest", String(24), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("actor", String(200), nullable=False),
    UniqueConstraint("drain_id", "version"),
)

waiver = Table(
    "waiver",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    _drain_id(),
    Column("batch", String(32), nullable=False),  # what was said in one call
    Column("thread_id", String(255), nullable=False),
    Column("thread_created_at", UtcDateTime, nullable=False),  # the same id with another time is another thread
    *_said(),
    Index("ix_waiver_deployment_id_drain_id", "deployment_id", "drain_id", "thread_id"),
)

acknowledgement = Table(
    "acknowledgement",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    _drain_id(nullable=True),
    Column("batch", String(32), nullable=False),
    Column("thread_id", String(255)),
    Column("tasks", JSON, nullable=False, default=list),  # ids of the leaves that were acknowledged
    Column("code", String(40)),
    Column("poll_id", BigId),  # the newest poll that had ended then; None: said before this was kept, or before any
    *_said(),
    Index("ix_acknowledgement_deployment_id_thread_id", "deployment_id", "thread_id"),
)

attestation = Table(
    "attestation",
    metadata,
    Column("id", BigId, primary_key=True),
    _deployment_id(),
    _drain_id(),
    Column("name", String(200), nullable=False),
    Column("owner", String(100), nullable=False),
    Column("reason", String(500)),
    Column("until", UtcDateTime),
    Column("criteria_version", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("ended_at", UtcDateTime),
    Index("ix_attestation_drain_id", "drain_id"),
)

activity = Table(
    "activity",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("deployment_id", Integer, ForeignKey("deployment.id", ondelete="SET NULL")),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("action", String(60), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("detail", JSON, nullable=False, default=dict),  # names, ids and counts
    Index("ix_activity_at", "at"),
    Index("ix_activity_deployment_id_at", "deployment_id", "at"),
)

waiter = Table(
    "waiter",
    metadata,
    Column("id", String(32), primary_key=True),
    _deployment_id(),
    _drain_id(),
    Column("caller", String(200), nullable=False),  # in its own words: a pipeline, a job
    Column("since", UtcDateTime, nullable=False),
    Column("until", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("asked", Integer, nullable=False, default=1),
    Column("verdict", String(10), nullable=False),
    Column("outcome", String(12)),  # drained, ran_out, cancelled; null while it waits
    Column("ended_at", UtcDateTime),
    Column("ended_by", String(200)),
    Index("ix_waiter_drain_id", "drain_id", "since"),
)

# -- traces ----------------------------------------------------------------------------------------------------------

trace_run = Table(
    "trace_run",
    metadata,
    _primary_deployment_id(),
    Column("run_id", String(64), primary_key=True),
    Column("node", String(255), nullable=False),  # the run's name: the last part of a node's path
    Column("thread_id", String(36)),  # null: the trace does not say
    Column("trace_id", String(64)),
    Column("started_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("end", String(8), nullable=False),
    Index("ix_trace_run_deployment_id_node", "deployment_id", "node", "started_at"),
    Index("ix_trace_run_deployment_id_started_at", "deployment_id", "started_at"),
    Index("ix_trace_run_deployment_id_thread_id", "deployment_id", "thread_id", "started_at"),
)

trace_coverage = Table(
    "trace_coverage",
    metadata,
    _primary_deployment_id(),
    Column("node", String(255), primary_key=True),
    Column("exact", Boolean, nullable=False),  # asked for alone, as a drain's target is
    Column("covered_from", UtcDateTime, nullable=False),
    Column("covered_until", UtcDateTime, nullable=False),
)

trace_reading = Table(  # of a time that one poll did not read to its end: the next goes on
    "trace_reading",
    metadata,
    _primary_deployment_id(),
    Column("node", String(255), primary_key=True),
    Column("exact", Boolean, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("reached", UtcDateTime, nullable=False),  # newest first: what began after it was read
    Column("until", UtcDateTime, nullable=False),
)

trace_source = Table(
    "trace_source",
    metadata,
    _primary_deployment_id(),
    Column("tried_at", UtcDateTime, nullable=False),
    Column("status", String(12), nullable=False),
    Column("code", String(40)),
    Column("sentence", String(500)),
    Column("failing_since", UtcDateTime),
    Column("project", String(200), nullable=False),
    Column("project_url", String(500)),
    Column("project_began_at", UtcDateTime),
)

node_activity = Table(
    "node_activity",
    metadata,
    _primary_deployment_id(),
    Column("node", String(255), primary_key=True),
    Column("day", UtcDateTime, primary_key=True),  # its midnight
    Column("entered", Integer, nullable=False),
    Column("finished", Integer, nullable=False),
    Column("errored", Integer, nullable=False),
    Column("joined", Integer, nullable=False),  # runs that say which thread it was
)

# -- the application's own list of threads -----------------------------------------------------------------------------

index_thread = Table(
    "index_thread",
    metadata,
    _primary_deployment_id(),
    Column("thread_id", String(255), primary_key=True),
    Column("graph_id", String(255)),
    Column("created_at", UtcDateTime),
    Column("closed_at", UtcDateTime),
    Column("state_version", Integer),
    Column("state", String(100)),  # the application's own word: counted, never interpreted
    Column("reading", Integer, nullable=False),  # the reading that saw it last
    Column("checked_at", UtcDateTime),
    Column("found", String(12)),  # what the server said when it was asked for the id
    Index("ix_index_thread_deployment_id_reading", "deployment_id", "reading"),
    Index("ix_index_thread_deployment_id_checked_at", "deployment_id", "checked_at"),
)

index_source = Table(
    "index_source",
    metadata,
    _primary_deployment_id(),
    Column("kind", String(8), nullable=False),  # query, file or push
    Column("reading", Integer, nullable=False),
    Column("snapshot", String(64)),  # of a push that is under way
    Column("as_of", UtcDateTime),
    Column("tried_at", UtcDateTime, nullable=False),
    Column("status", String(12), nullable=False),
    Column("sentence", String(500)),
    Column("failing_since", UtcDateTime),
    Column("malformed", Integer, nullable=False),
    Column("duplicates", Integer, nullable=False),
)

# -- who may ---------------------------------------------------------------------------------------------------------

api_token = Table(
    "api_token",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # SHA-256 of a random 256-bit token
    Column("name", String(100), nullable=False),
    Column("rights", JSON, nullable=False),
    Column("deployments", JSON(none_as_null=True)),  # names; null: all
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Index("ix_api_token_name", "name"),
)

# -- who works -------------------------------------------------------------------------------------------------------

worker = Table(
    "worker",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("name", String(100), nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),  # null also where it was killed: then seen_at stands still
    Index("ix_worker_seen_at", "seen_at"),
)

# -- who is told -----------------------------------------------------------------------------------------------------

drain_told = Table(  # what receivers of webhooks were last told of a drain
    "drain_told",
    metadata,
    Column("drain_id", Integer, ForeignKey("drain.id", ondelete="CASCADE"), primary_key=True),
    Column("is_drained", Boolean, nullable=False),
    Column("is_regressed", Boolean, nullable=False),
    Column("is_stale", Boolean, nullable=False),
    Column("told_at", UtcDateTime, nullable=False),
)

delivery = Table(  # the outbox: written by the transaction that makes a transition
    "delivery",
    metadata,
    Column("id", String(40), primary_key=True),  # the receiver's ``webhook-id``, the same at every attempt
    Column("deployment_id", Integer, ForeignKey("deployment.id", ondelete="CASCADE")),  # null: a test
    Column("webhook", String(100), nullable=False),
    Column("event", String(20), nullable=False),
    Column("subject", String(100), nullable=False),  # the drain, or the deployment
    Column("body", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("state", String(10), nullable=False),  # waiting, delivered, dead
    Column("attempts", Integer, nullable=False, default=0),
    Column("next_at", UtcDateTime, nullable=False),  # of one that is being sent: when another may try
    Column("status", Integer),  # what the receiver answered last
    Column("problem", String(20)),  # why the last attempt failed
    Column("ended_at", UtcDateTime),
    Index("ix_delivery_webhook_state", "webhook", "state", "next_at"),
    Index("ix_delivery_created_at", "created_at", "id"),
)
