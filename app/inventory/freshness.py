"""How fresh and how whole what we know of a deployment is. Decided anew with the present time whenever somebody asks."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import is_too_old
from app.inventory import reads
from app.inventory.views import PollSummary, SourceStatus

STALE_AFTER_INTERVALS = 3
LEAST_STALE = timedelta(minutes=2)
STOPPED = {
    False: "No poll has finished lately. Is the poller running?",
    True: "No pass of the reporter was finished lately. Is it running beside the application?",
}


@dataclass(frozen=True, slots=True)
class Polls:
    """The polls that say what is known: newest finished sweep, newest complete sweep, newest complete poll."""

    last_sweep: PollSummary | None
    complete_sweep: PollSummary | None
    complete_scan: PollSummary | None
    last: PollSummary | None
    running: PollSummary | None


async def read_polls(connection: AsyncConnection, deployment_id: int) -> Polls:
    """Look them up."""
    newest = await reads.find_newest_polls(connection, deployment_id)
    sweep, both = ("sweep",), ("sweep", "scan")
    finished = ("complete", "incomplete", "failed")

    def find(kinds: tuple[str, ...], states: tuple[str, ...]) -> PollSummary | None:
        found = [newest[kind, state] for kind in kinds for state in states if (kind, state) in newest]
        return max(found, key=lambda poll: poll.id, default=None)

    return Polls(
        last_sweep=find(sweep, finished),
        complete_sweep=find(sweep, ("complete",)),
        complete_scan=find(both, ("complete",)),
        last=find(both, finished),
        running=find(both, ("running",)),
    )


def _partial(sweep: PollSummary | None) -> str:
    """What there is before the first complete sweep."""
    if sweep is None or not sweep.threads_seen:
        return "No complete sweep yet."
    of = f" of {sweep.threads_expected:,}" if sweep.threads_expected is not None else ""
    return f"No complete sweep yet: {sweep.threads_seen:,}{of} threads so far, so every number is partial."


def threads_source(
    deployment: Any | None, polls: Polls, *, poll_interval: timedelta, now: datetime, is_reported: bool = False
) -> SourceStatus:
    """The state of the source that lists threads: a server that is polled, or a reporter."""
    seen, sweep = polls.complete_scan, polls.complete_sweep
    as_of = seen.started_at if seen else None
    age = int((now - as_of).total_seconds()) if as_of else None
    status, sentence = "complete", None
    if deployment is not None and deployment.failing_since is not None:
        status, sentence = "failed", deployment.failing_sentence
    elif sweep is None or as_of is None:
        status = "not_evaluated" if polls.last is None else "incomplete"
        partial = _partial(polls.running or polls.last_sweep)
        sentence = "No complete pass of the reporter yet." if is_reported else partial
    elif polls.last is not None and polls.last.state == "incomplete":
        status, sentence = "incomplete", " ".join(reason.sentence for reason in polls.last.reasons)
    elif is_too_old(as_of, max(LEAST_STALE, STALE_AFTER_INTERVALS * poll_interval), now):
        status, sentence = "stale", STOPPED[is_reported]
    return SourceStatus(
        name="threads",
        status=status,  # type: ignore[arg-type]
        as_of=as_of,
        age_seconds=age,
        expected=sweep.threads_expected if sweep else None,
        seen=sweep.threads_seen if sweep else None,
        since=deployment.failing_since if deployment is not None else None,
        sentence=sentence,
    )


def index_source(known: Any | None, *, is_configured: bool, now: datetime) -> SourceStatus:
    """The state of the application's thread index. One that was pushed is there without settings."""
    if known is None:
        return SourceStatus("index", "not_evaluated" if is_configured else "not_configured")
    return SourceStatus(
        "index",
        known.status,
        as_of=known.as_of,
        age_seconds=int((now - known.as_of).total_seconds()) if known.as_of else None,
        since=known.failing_since,
        sentence=known.sentence,
    )


def traces_source(
    known: Any | None, covered_until: datetime | None, *, is_configured: bool, now: datetime
) -> SourceStatus:
    """The state of the traces. ``covered_until``: up to when all that was asked for was read."""
    if known is None:
        return SourceStatus("traces", "not_evaluated" if is_configured else "not_configured")
    return SourceStatus(
        "traces",
        known.status,
        as_of=covered_until,
        age_seconds=int((now - covered_until).total_seconds()) if covered_until else None,
        since=known.failing_since,
        sentence=known.sentence,
    )
