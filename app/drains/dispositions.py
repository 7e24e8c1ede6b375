"""The words for what one thread means for one drain: exactly one disposition at a time (design §4.2). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Disposition(StrEnum):
    """In the order of precedence within each group."""

    GONE = "gone"
    WAIVED = "waived"
    ACKNOWLEDGED = "acknowledged"
    RETENTION = "retention"
    GRAPH_MISSING = "graph_missing"
    UNREADABLE = "unreadable"
    STRANDED = "stranded"
    LOST = "lost"
    PARKED_AT_TARGET = "parked_at_target"
    FAILED_AT_TARGET = "failed_at_target"
    RUNNING_AT_TARGET = "running_at_target"
    SCHEDULED_AT_TARGET = "scheduled_at_target"
    CONFLICT = "conflict"
    HOLDS_OLD_FIELD = "holds_old_field"
    WRONG_KIND = "wrong_kind"
    BAD_VERSION = "bad_version"
    OLD_VERSION = "old_version"
    FUTURE_VERSION = "future_version"
    UNREAD = "unread"
    UNPLACED = "unplaced"
    MAY_HOLD_TARGET = "may_hold_target"
    RUNNING_UNSEEN = "running_unseen"
    PRESUMED = "presumed"
    MIGRATED = "migrated"
    PASSED = "passed"
    NEITHER_FIELD = "neither_field"
    UNAFFECTED = "unaffected"

    @property
    def group(self) -> str:
        """``excluded``, ``blocking``, ``unknown`` or ``clear``."""
        return _GROUPS[self]

    @property
    def rank(self) -> int:
        """Precedence: lower comes first."""
        return _RANKS[self]


_ORDER = tuple(Disposition)
_RANKS = {disposition: rank for rank, disposition in enumerate(_ORDER)}
_FIRST = {"blocking": Disposition.GRAPH_MISSING, "unknown": Disposition.UNREAD, "clear": Disposition.MIGRATED}


def _group(disposition: Disposition) -> str:
    found = "excluded"
    for group, first in _FIRST.items():
        if _RANKS[disposition] >= _RANKS[first]:
            found = group
    return found


_GROUPS = {disposition: _group(disposition) for disposition in _ORDER}


@dataclass(frozen=True, slots=True)
class Finding:
    """A disposition, with the reason code that an unknown one counts under."""

    disposition: Disposition
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a subject means for a drain, and for each of its targets, by their keys."""

    overall: Finding
    by_target: Mapping[str, Finding]

    @property
    def reasons(self) -> frozenset[str]:
        """Every reason why it is not known, over all targets: accepting one of them must not hide another. Empty for what
        blocks or is excluded."""
        if self.overall.disposition.group in ("blocking", "excluded"):
            return frozenset()
        return frozenset(found.reason for found in self.by_target.values() if found.reason is not None)


_REASONS = {
    Disposition.UNREAD: "threads_unread",
    Disposition.UNPLACED: "threads_unplaced",
    Disposition.RUNNING_UNSEEN: "running_unseen",
    Disposition.PRESUMED: "idle_unverified",
}

THREAD_REASONS = frozenset({*_REASONS.values(), "half_step_unseen", "deferred_unseen", "history_unseen"})
"""Reason codes under which single threads count."""


def not_known(disposition: Disposition) -> Finding:
    """An unknown disposition under its own reason code."""
    return Finding(disposition, _REASONS[disposition])
