"""What receivers of webhooks are told: transitions of a drain, and alarms that begin or grow. Pure. No thread is named here,
and nothing that a state, an error or an interrupt holds has a place in it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.drains.answers import Answer, Verdict
from app.drains.jsonable import to_jsonable
from app.inventory.outbox import Told

STALE = frozenset({"sweep_stale", "scan_stale", "traces_stale", "index_stale"})
REGRESSED = "regressed"
THREADS_TOLD = 20


class Event(StrEnum):
    """One kind of message. ``withdrawn``: a drain that was told drained is not any more, whatever the reason."""

    DRAINED = "drained"
    WITHDRAWN = "withdrawn"
    REGRESSED = "regressed"
    STRANDED = "stranded"
    LOST = "lost"
    EVIDENCE_STALE = "evidence_stale"


ALARMS = {"stranded": Event.STRANDED, "lost": Event.LOST}
TEST = "test"


def told_by(answer: Answer) -> Told:
    """What an answer says."""
    codes = {reason.code for reason in answer.reasons}
    return Told(answer.verdict is Verdict.DRAINED, REGRESSED in codes, bool(codes & STALE))


def transitions(before: Told, after: Told) -> tuple[Event, ...]:
    """What has happened between two answers."""
    found = []
    if after.is_drained and not before.is_drained:
        found.append(Event.DRAINED)
    if after.is_regressed and not before.is_regressed:
        found.append(Event.REGRESSED)
    if after.is_stale and not before.is_stale:
        found.append(Event.EVIDENCE_STALE)
    if before.is_drained and not after.is_drained:
        found.append(Event.WITHDRAWN)
    return tuple(found)


def grown(before: Mapping[str, int], found: Mapping[str, tuple[str, int | None]]) -> dict[Event, int]:
    """Alarms that begin, or of which there are more now: how many threads. ``before``: those that stood, by code."""
    counts = {code: found[code][1] or 0 for code in ALARMS if code in found}
    return {ALARMS[code]: count for code, count in counts.items() if code not in before or count > before[code]}


def drain_body(event: Event, answer: Answer, environment: str | None, now: datetime) -> dict[str, Any]:
    """The message about a drain: its verdict, with the codes and counts of its reasons."""
    reasons = [
        {"code": reason.code, "verdict": reason.verdict, "count": reason.count, "source": reason.source}
        for reason in answer.reasons
    ]
    data = {
        "deployment": answer.deployment,
        "environment": environment,
        "drain": answer.drain,
        "graph": answer.graph,
        "verdict": answer.verdict,
        "reasons": reasons,
        "accepting": answer.accepting,
        "criteria_version": answer.criteria_version,
        "evaluated_at": answer.evaluated_at,
        "valid_until": answer.valid_until,
    }
    return _message(event, data, now)


def alarm_body(
    event: Event, deployment: str, environment: str | None, *, count: int, pseudonyms: Sequence[str], now: datetime
) -> dict[str, Any]:
    """The message about threads of a deployment: how many, and the pseudonyms of the first of them."""
    data = {"deployment": deployment, "environment": environment, "count": count, "threads": pseudonyms}
    return _message(event, data, now)


def test_body(webhook: str, now: datetime) -> dict[str, Any]:
    """The message of the test button."""
    return _message(TEST, {"webhook": webhook}, now)


def _message(kind: str, data: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    found: dict[str, Any] = to_jsonable({"type": str(kind), "timestamp": now, "data": data})
    return found
