"""What is kept of a row of the application's own list of threads. Anything else that a row has is dropped."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One thread as the application knows it. ``state`` is its own word: counted, never interpreted."""

    thread_id: str
    graph_id: str | None = None
    created_at: datetime | None = None
    closed_at: datetime | None = None
    state_version: int | None = None
    state: str | None = None
