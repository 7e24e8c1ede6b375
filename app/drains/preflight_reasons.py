"""Why nothing can be said of any thread: the look that it would stand on is missing or old. Pure."""

from collections.abc import Iterator
from datetime import datetime

from app.clock import is_too_old
from app.drains.preflight_answers import PreflightReason
from app.drains.spec import Policy
from app.inventory.freshness import Polls

_POLICY = Policy()
_SENTENCES = {
    "source_failed": "The server could not be asked lately, so what is known may be over.",
    "never_swept": "No complete sweep was made yet. `drainboard poll --full` makes one.",
    "sweep_incomplete": "The last sweep is not complete, so threads may be missing.",
    "sweep_stale": "The last complete sweep is older than a day. `drainboard poll --full` makes one.",
    "scan_stale": "The last complete poll is older than 15 minutes. `drainboard poll` looks again.",
}


def freshness(
    polls: Polls, *, is_failing: bool, erased_poll: int, other_server_at: datetime | None, now: datetime
) -> Iterator[PreflightReason]:
    """The reasons, as a drain with the default policy has them. ``erased_poll``, ``other_server_at``: what was swept until then
    proves nothing."""
    for code in _codes(polls, erased_poll, other_server_at, is_failing=is_failing, now=now):
        yield PreflightReason(code, _SENTENCES[code])


def _codes(
    polls: Polls, erased_poll: int, other_server_at: datetime | None, *, is_failing: bool, now: datetime
) -> Iterator[str]:
    if is_failing:
        yield "source_failed"
    if polls.complete_sweep is None:
        yield "never_swept" if polls.last_sweep is None else "sweep_incomplete"
        return
    is_whole = polls.last_sweep is None or polls.last_sweep.id == polls.complete_sweep.id
    is_of_it = other_server_at is None or polls.complete_sweep.started_at >= other_server_at
    if not is_whole or not is_of_it or polls.complete_sweep.id <= erased_poll:
        yield "sweep_incomplete"
    if is_too_old(polls.complete_sweep.started_at, _POLICY.sweep_max_age, now):
        yield "sweep_stale"
    if polls.complete_scan is None or is_too_old(polls.complete_scan.started_at, _POLICY.max_age, now):
        yield "scan_stale"
