"""What is kept of a traced run: that a node was entered, when, by which thread, and how it ended. Nothing of its content."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import unquote


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
