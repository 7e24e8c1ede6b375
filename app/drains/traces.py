"""What traces prove for a drain (design §4.3, proof 4). Pure.

A run of a target in the window blocks, unless it belongs to a stay that the thread list saw and that ended in order. No run
proves something only if the whole window was read, nothing was sampled away, and the project is alive; and never alone.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.clock import is_too_old
from app.drains.answers import Check, Reason, Verdict
from app.drains.sentences import names
from app.durations import span
from app.facts.topology import at_or_below
from app.facts.traces import run_name
from app.facts.types import Departure
from app.inventory.views import Liveness, SourceStatus, Stay, TracedEntry

SLACK = timedelta(minutes=5)  # between two clocks, and between a thread and its first trace
QUIET = timedelta(hours=1)  # how long threads may move without a trace
BLINK = timedelta(seconds=1)  # between the clocks of the process that ran a node first, and that which ended it
SKEW = timedelta(seconds=30)  # between the clocks of two processes that run the graph


@dataclass(frozen=True, slots=True)
class Entries:
    """Runs of a drain's targets in the window. ``later``: newer than the last look at the threads, so not judged yet.
    ``unexplained_at``: the newest of those that nothing explains."""

    total: int = 0
    explained: int = 0
    unexplained: int = 0
    later: int = 0
    unjoined: int = 0
    last_at: datetime | None = None
    unexplained_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How the traces were read. ``status``: complete, incomplete or failed; None before the first attempt.
    ``is_under_way``: more runs than one poll reads, so that the next ones go on."""

    status: str | None
    code: str | None
    sentence: str | None
    since: datetime | None
    covered_from: datetime | None
    covered_until: datetime | None
    sampling_rate: float
    retention: timedelta | None
    project_began_at: datetime | None
    is_under_way: bool = False


@dataclass(frozen=True, slots=True)
class TraceEvidence:
    """What the traces say of one drain. ``starts_at``: the window's begin, or the first thread's if that is later."""

    nodes: tuple[str, ...]
    window: timedelta
    starts_at: datetime
    max_age: timedelta
    reading: Reading
    entries: Entries
    liveness: Liveness
    moved_at: datetime | None
    is_cut: bool  # more entries than are looked at
    looked_since: datetime | None = None  # when the threads of the graph were first looked at

    def reasons(self, now: datetime) -> Iterator[Reason]:
        """What blocks and what is not known."""
        if not self.nodes:
            return
        if self.entries.unexplained:
            yield self._reason("node_still_entered", now, Verdict.BLOCKED, self.entries.unexplained)
        if self.entries.later:
            yield self._reason("traces_incomplete:later", now, count=self.entries.later)
        for code in self._missing(now):
            yield self._reason(code, now)

    def is_trusted(self, now: datetime, since: datetime) -> bool:
        """Whether silence since then says that nobody entered."""
        covered = self.reading.covered_from
        return not any(self._missing(now)) and covered is not None and covered <= since

    def _missing(self, now: datetime) -> Iterator[str]:
        reading = self.reading
        if reading.covered_from is None or reading.covered_until is None:
            yield "source_failed" if reading.status == "failed" else "traces_incomplete"
            return
        if is_too_old(reading.covered_until, self.max_age, now):
            if reading.status in ("failed", "incomplete"):
                yield "source_failed" if reading.status == "failed" else "traces_incomplete"
            yield "traces_stale"
        elif self.is_cut:
            yield "traces_incomplete:many"
        if self._is_short(reading.covered_from, now):
            goes_on = reading.is_under_way and not (self._has_expired(now) or self._is_young())
            yield "traces_incomplete" if goes_on else "traces_window_short"
        if reading.sampling_rate < 1:
            yield "traces_sampled"
        if self._is_silent():
            yield "traces_silent"

    def _is_short(self, covered_from: datetime, now: datetime) -> bool:
        return covered_from > self.starts_at or self._has_expired(now) or self._is_young()

    def _has_expired(self, now: datetime) -> bool:
        return self.reading.retention is not None and now - self.reading.retention > self.starts_at

    def _is_young(self) -> bool:
        """Whether the project began after somebody could have entered. A first trace comes a while after its thread."""
        began = self.reading.project_began_at
        return began is not None and began > self.starts_at + SLACK

    def _is_silent(self) -> bool:
        newest = self.liveness.newest
        if not self.liveness.others or newest is None:
            return True
        return self.moved_at is not None and self.moved_at - newest > QUIET

    def _reason(self, code: str, now: datetime, verdict: Verdict = Verdict.UNKNOWN, count: int | None = None) -> Reason:
        return Reason(
            code.partition(":")[0], verdict, count, "traces", self.reading.covered_until, self._sentence(code, now)
        )

    def _sentence(self, code: str, now: datetime) -> str:
        window, reading = span(self.window), self.reading
        match code:
            case "node_still_entered":
                return self._entered(now)
            case "source_failed":
                return f"The traces could not be read. {reading.sentence or ''}".strip()
            case "traces_incomplete:later":
                return (
                    f"{names(self.nodes)} left a trace since the threads were last looked at. The next poll judges it."
                )
            case "traces_incomplete:many":
                return (
                    f"{names(self.nodes)} left {self.entries.total:,} runs or more in the last {window}, and no older ones are looked "
                    "at. Wait until there are fewer, or ask for a shorter `trace_window`."
                )
            case "traces_incomplete" if reading.status is None:
                return "The traces were not read yet. The next poll does it."
            case "traces_incomplete":
                said = reading.sentence if reading.status == "incomplete" else None
                return f"The traces of the last {window} were not read to their end. {said or 'The next poll goes on.'}"
            case "traces_stale":
                since = reading.covered_until
                age = span(now - since) if since else "long"
                return f"The traces were last read {age} ago, and may be {span(self.max_age)} old at most."
            case "traces_window_short":
                return self._short(now)
            case "traces_sampled":
                share = f"{self.reading.sampling_rate:.0%}"
                return f"Only {share} of the traces are kept (`sampling_rate`), so an entry may have left none."
            case _:
                return self._silent()

    def _entered(self, now: datetime) -> str:
        count, last = self.entries.unexplained, self.entries.unexplained_at or self.entries.last_at
        ago = f", the last one {span(now - last)} ago" if last else ""
        times = "once" if count == 1 else f"{count:,} times"
        were = "was" if len(self.nodes) == 1 else "were"
        entered = f"{names(self.nodes)} {were} entered {times} in the last {span(self.window)}{ago}"
        if last is not None and self.looked_since is not None and last < self.looked_since:
            return (
                f"{entered}, all before the threads were first looked at, so nobody saw how that ended. "
                f"Wait until it is {span(self.window)} past."
            )
        return f"{entered}, and no thread that waited there explains it. Something still sends work there."

    def _short(self, now: datetime) -> str:
        began, kept, window = self.reading.project_began_at, self.reading.retention, span(self.window)
        if kept is not None and self._has_expired(now):
            return f"Traces are kept for {span(kept)} only (`retention`); the drain asks for the last {window}."
        if began is not None and self._is_young():
            return f"The tracing project began {span(now - began)} ago; the drain asks for the last {window}."
        return f"The traces that were read do not reach back the {window} that the drain asks for."

    def _silent(self) -> str:
        if not self.liveness.others or self.liveness.newest is None:
            return (
                f"No other node of the graph left a trace in the last {span(self.window)}, so that the target left none "
                "says nothing. Is it the right project, and does the server trace into it?"
            )
        return (
            f"Threads moved after the last trace of {self.liveness.newest:%Y-%m-%d %H:%M} UTC, so tracing may have stopped. "
            "Does the server still trace into this project?"
        )

    @property
    def valid_until(self) -> datetime | None:
        """When this evidence gets too old by itself."""
        until = self.reading.covered_until
        return until + self.max_age if until is not None and self.nodes else None

    def status(self, now: datetime) -> SourceStatus:
        """The source as this drain sees it."""
        until = self.reading.covered_until
        status = self.reading.status or "not_evaluated"
        if until is not None and not is_too_old(until, self.max_age, now):
            status = "complete"
        elif status == "complete":
            status = "stale"
        return SourceStatus(
            "traces",
            status,  # type: ignore[arg-type]
            as_of=until,
            age_seconds=int((now - until).total_seconds()) if until else None,
            seen=self.liveness.others + self.entries.total,
            since=self.reading.since,
            sentence=self.reading.sentence,
        )

    def check(self, now: datetime) -> Check:
        """Its line in the checklist."""
        if not self.nodes:
            return Check("traces", "not_needed", "Only nodes leave traces; this drain has none.")
        found = list(self.reasons(now))
        if not found:
            quiet = f"Nobody entered in the last {span(self.window)}"
            if self.entries.total:
                quiet = f"{self.entries.explained:,} entries in the last {span(self.window)}, each by a thread that left in order"
            others = f"{self.liveness.others:,} runs" if self.liveness.others < 1000 else "a thousand runs or more"
            return Check("traces", "pass", f"{quiet}; {others} of other nodes.", self.reading.covered_until)
        blocks = any(reason.verdict is Verdict.BLOCKED for reason in found)
        sentence = " ".join(reason.sentence for reason in found)
        return Check("traces", "fail" if blocks else "unknown", sentence, self.reading.covered_until)


def sort_entries(
    runs: Iterable[TracedEntry], stays: Iterable[Stay], paths: Collection[str], *, judged_until: datetime | None
) -> Entries:
    """Which runs of the targets are explained, and which are not. ``judged_until``: when the threads were last looked at."""
    by_thread: dict[str, list[Stay]] = {}
    for stay in stays:
        by_thread.setdefault(stay.thread_id, []).append(stay)
    total = explained = unexplained = later = unjoined = 0
    last_at: datetime | None = None
    unexplained_at: datetime | None = None
    for run in runs:
        total += 1
        last_at = run.started_at if last_at is None else max(last_at, run.started_at)
        unjoined += run.thread_id is None
        mine = by_thread.get(run.thread_id or "", [])
        if any(_explains(mine, run, path) for path in paths if run_name(path) == run.node):
            explained += 1
        elif judged_until is not None and run.started_at > judged_until:
            later += 1
        else:
            unexplained += 1
            unexplained_at = run.started_at if unexplained_at is None else max(unexplained_at, run.started_at)
    return Entries(total, explained, unexplained, later, unjoined, last_at, unexplained_at)


def _explains(stays: Iterable[Stay], run: TracedEntry, path: str) -> bool:
    """A run belongs to the stay that ended next, if it had begun. One that has not ended counts among the threads."""
    after = [stay for stay in stays if at_or_below(stay.node, path) and _had_begun(stay, run, path)]
    after = [stay for stay in after if stay.left_at is None or _latest_end(stay, stay.left_at, path) >= run.started_at]
    if not after:
        return False
    ended = [stay for stay in after if stay.left_at is not None]
    if not ended:
        return True
    return min(ended, key=_left_at).departure == Departure.COMPLETED.value


def _had_begun(stay: Stay, run: TracedEntry, path: str) -> bool:
    """A stay begins with the checkpoint that schedules the node, and so before its run. What waits inside was entered long
    after the run around it began."""
    return stay.came_after is None or stay.node != path or run.started_at >= stay.came_after - SKEW


def _latest_end(stay: Stay, left_at: datetime, path: str) -> datetime:
    """Until when a run may be of a stay: until it was done, where that is known. A thread may come again before anybody looks; the
    process that wrote that it was done had started the run. What waited inside ends before the run around it."""
    if stay.ended_at is None or stay.node != path:
        return left_at
    return min(left_at, stay.ended_at + BLINK)


def _left_at(stay: Stay) -> datetime:
    if stay.left_at is None:
        raise ValueError("a stay that has not ended")
    return stay.left_at
