"""What a drain answers: a verdict with its reasons. Page, JSON, command line and metric show this same value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from app.inventory.views import Said, SourceStatus


class Verdict(StrEnum):
    """May the old thing go?"""

    DRAINED = "drained"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """The exit code of ``drainboard gate``."""
        return {"drained": 0, "blocked": 1, "unknown": 2}[self.value]

    @property
    def http_status(self) -> int:
        """The status of ``GET …/gate?http_status=1``."""
        return {"drained": 200, "blocked": 409, "unknown": 503}[self.value]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the verdict is what it is. ``threads``: the API path of the threads that ``count`` counts."""

    code: str
    verdict: Verdict
    count: int | None
    source: str
    as_of: datetime | None
    sentence: str
    threads: str | None = None


@dataclass(frozen=True, slots=True)
class Population:
    """Which threads the drain is about: ``size`` with the excluded ones, ``live`` without those that are gone."""

    definition: Mapping[str, object]
    size: int
    live: int
    as_of: datetime | None
    poll: int | None


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    """One thing to remove. ``deployed`` None: not known, or an erasure. ``blocking``: threads that block for it, and
    ``dispositions`` the same by why; a thread can block for two."""

    kind: Literal["node", "rename", "kind", "remove", "erase", "version"]
    name: str
    deployed: bool | None
    blocking: int
    dispositions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """One proof of the checklist, in the order in which a person would ask. ``as_of``: how old its evidence is."""

    name: str
    status: Literal["pass", "fail", "unknown", "not_needed"]
    sentence: str
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Soak:
    """How long nothing has blocked. ``holds_since`` None: something blocks, or nobody has looked yet."""

    sweeps: int
    required_sweeps: int
    holds_since: datetime | None
    required_hold_seconds: int


@dataclass(frozen=True, slots=True)
class OldestBlocker:
    """The thread that has blocked longest, by the time of its last state change."""

    thread_id: str
    disposition: str
    since: datetime


@dataclass(frozen=True, slots=True)
class MustAct:
    """Threads that block, grouped by the assistant that ran them, with its name where the server told it."""

    assistant: str | None
    name: str | None
    count: int


@dataclass(frozen=True, slots=True)
class MustActFor:
    """Threads that block and have one value of an allow-listed metadata key; None: they lack the key, or hold no plain value."""

    value: str | None
    count: int


NOBODY = "none"  # in place of an assistant's id, in a query


@dataclass(frozen=True, slots=True)
class Actor:
    """Who must act on a thread: the assistant that ran it or, with ``key``, a value of that metadata key. ``name`` None: the
    threads that have none."""

    name: str | None
    key: str | None = None

    @classmethod
    def asked(cls, assistant: str | None, by: str | None, value: str | None) -> "Actor | None":
        """As a query says it: ``assistant`` an id or ``none``; or ``by`` a metadata key, and its ``value`` or no value."""
        if assistant is not None:
            return cls(None if assistant == NOBODY else assistant)
        return None if by is None else cls(value, by)


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict of one drain now, with everything it stands on. ``headline`` and ``next_step`` are for a person."""

    drain: str
    deployment: str
    graph: str
    owner: str | None
    phase: str
    verdict: Verdict
    exit_code: int
    headline: str
    next_step: str | None
    accepting: tuple[str, ...]
    reasons: tuple[Reason, ...]
    checks: tuple[Check, ...]
    population: Population
    dispositions: Mapping[str, int]
    targets: tuple[TargetAnswer, ...]
    sources: tuple[SourceStatus, ...]
    soak: Soak
    retry_after_seconds: int | None
    valid_until: datetime | None
    oldest: OldestBlocker | None
    must_act: tuple[MustAct, ...]
    waivers: tuple[Said, ...]
    criteria_version: int
    evaluated_at: datetime


@dataclass(frozen=True, slots=True)
class BlockingThread:
    """One thread of a drain, with what it means. ``target``: which target it stands in the way of."""

    thread_id: str
    disposition: str
    targets: tuple[str, ...]
    pending: tuple[str, ...]
    status: str
    condition: str
    assistant_id: str | None
    since: datetime
