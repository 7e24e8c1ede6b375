"""What is kept of a traced run: that a node was entered, when, by which thread, and how it ended. Nothing of its content."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from urllib.parse import unquote

_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


class RunEnd(StrEnum):
    """How a node's run ended. An interrupt ends it as ``error`` in some versions: that is not a failure."""

    SUCCESS = "success"
    ERROR = "error"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class TracedRun:
    """One entry of a node. ``thread_id``: None where the trace does not say which thread it was."""

    run_id: str
    node: str
    thread_id: str | None
    trace_id: str | None
    started_at: datetime
    ended_at: datetime | None
    end: RunEnd


def run_name(path: str) -> str:
    """The name that a node's own run has: the last part of its path, as the graph's author wrote it."""
    return unquote(path.rpartition("/")[2])


def written_at(checkpoint_id: str | None) -> datetime | None:
    """When a checkpoint was written, by the clock of the process that ran the graph: its id is a UUID of version 6."""
    try:
        found = uuid.UUID(checkpoint_id or "")
    except ValueError:
        return None
    if found.version != 6:
        return None
    ticks = (found.int >> 80) << 12 | (found.int >> 64) & 0xFFF  # of 100 ns
    return _GREGORIAN + timedelta(microseconds=ticks // 10)
