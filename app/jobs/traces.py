"""Reads a deployment's traces beside its poll: one question for each target, one for all other nodes, then only what is new.

A failure here is an outcome that is remembered, never an exception: the poll of threads goes on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import utc_now
from app.errors import DrainboardError, SourceError, Throttled
from app.facts.traces import run_name
from app.inventory import reads, traces
from app.inventory.store import Store
from app.inventory.views import Coverage, UnderWay
from app.logs import get_logger
from app.settings import LangSmithSettings
from app.sources.langsmith import client
from app.sources.langsmith.client import After, LangSmith, Project

LEAST_WINDOW = timedelta(hours=72)
OVERLAP = timedelta(minutes=10)  # a run may arrive late
PROJECT_HOLDS = timedelta(hours=1)
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=15)
TIE = timedelta(seconds=1)  # runs that began at the same moment may be on both sides of where a reading goes on
INCOMPLETE = "LangSmith's answer stopped before its end, so runs may be missing. The next polls ask again."
MAX_NAMES = 200  # in one question
_NOT_NODES = frozenset({"__start__", "__end__"})

log = get_logger("traces")


@dataclass(frozen=True, slots=True)
class Span:
    """A time of which runs are read, newest first. ``reached``: what began after it was read by earlier polls."""

    since: datetime
    until: datetime
    reached: datetime | None = None

    @property
    def ends_at(self) -> datetime:
        """Up to when runs are still to be asked for."""
        return self.until if self.reached is None else min(self.until, self.reached + TIE)


@dataclass(frozen=True, slots=True)
class Question:
    """Runs of these nodes that began in this time."""

    names: tuple[str, ...]
    exact: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far a reading came. ``reached``: the oldest moment to which a reading that ran into its limit has come."""

    whole: bool = True
    reached: datetime | None = None

    def __or__(self, other: "Outcome") -> "Outcome":
        """Both: what is missing from either is missing."""
        reached = [found for found in (self.reached, other.reached) if found is not None]
        return Outcome(self.whole and other.whole, max(reached, default=None))


@dataclass
class TraceReader:
    """One deployment's traces. ``read`` is called beside each poll."""

    deployment: str
    settings: LangSmithSettings
    store: Store
    _source: LangSmith | None = None
    _project: Project | None = None
    _opened_at: datetime | None = None
    _not_before: datetime | None = None
    _throttled: int = 0
    _window: timedelta | None = None  # of the widest drain; not known before the drains were looked at

    async def read(self, deployment_id: int) -> None:
        """Read what is new, and remember how it went."""
        now = utc_now()
        if self._not_before is not None and now < self._not_before:
            return
        failure: DrainboardError | None = None
        outcome = Outcome(whole=False)
        try:
            outcome = await self._read(deployment_id, now)
            self._throttled, self._not_before = 0, None
        except Throttled as error:
            failure = error
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._throttled, 8))
            self._throttled, self._not_before = self._throttled + 1, now + pause
        except DrainboardError as error:
            failure, self._project = error, None
        await self._remember(deployment_id, now, failure, outcome)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._source is not None:
            await self._source.aclose()

    async def _read(self, deployment_id: int, now: datetime) -> Outcome:
        """How far everything that was asked for came. What an earlier poll began is ended first, then what is new is asked."""
        async with self.store.database.write() as connection:
            known = await traces.find_source(connection, deployment_id)
            if known is not None and known.project != self.settings.project:
                await traces.forget_runs(connection, deployment_id)
        source, project = await self._open(now)
        if known is not None and known.project_url not in (None, project.url):
            await self._read_anew(deployment_id)
        questions = await self._questions(deployment_id, now)
        outcome = await self._ask(deployment_id, source, project, questions)
        if outcome.whole and any(question.span.reached is not None for question in questions):
            outcome = await self._ask(deployment_id, source, project, await self._questions(deployment_id, now))
        return outcome

    async def _read_anew(self, deployment_id: int) -> None:
        """Another project of the same name: where the traces were sent between the last reading and the new address nobody knows.
        What was found in the one before stays found."""
        async with self.store.database.write() as connection:
            covered = await traces.list_coverage(connection, deployment_id)
            nothing = {name: replace(found, covered_from=found.covered_until) for name, found in covered.items()}
            for name, found in (await traces.list_under_way(connection, deployment_id)).items():
                nothing.setdefault(name, Coverage(name, found.exact, found.until, found.until))
            await traces.set_coverage(connection, deployment_id, nothing.values())

    async def _ask(
        self, deployment_id: int, source: LangSmith, project: Project, questions: Iterable[Question]
    ) -> Outcome:
        outcome = Outcome()
        for question in questions:
            outcome |= await self._answer(deployment_id, source, project, question)
        return outcome

    async def _open(self, now: datetime) -> tuple[LangSmith, Project]:
        if self._source is None:
            self._source = LangSmith(
                deployment=self.deployment,
                project=self.settings.project,
                endpoint=self.settings.endpoint,
                api_key=self.settings.api_key(),
                web_url=self.settings.web_url,
            )
        if self._project is None or self._opened_at is None or now - self._opened_at > PROJECT_HOLDS:
            self._project, self._opened_at = await self._source.open(), now
        return self._source, self._project

    # -- what to ask ---------------------------------------------------------------------------------------------

    async def _questions(self, deployment_id: int, now: datetime) -> list[Question]:
        async with self.store.database.read() as connection:
            drains = [row for row in await reads.list_drains(connection) if row.deployment_id == deployment_id]
            revisions = await reads.list_revisions(connection, deployment_id)
            covered = await traces.list_coverage(connection, deployment_id)
            under_way = await traces.list_under_way(connection, deployment_id)
        open_drains = [row.spec for row in drains if row.closed_at is None]
        targets = {
            run_name(target["name"]) for spec in open_drains for target in spec["targets"] if target["kind"] == "node"
        }
        windows = [timedelta(seconds=spec["policy"]["trace_window"]) for spec in open_drains]
        self._window = window = max([LEAST_WINDOW, *windows])
        reach = window if self.settings.retention is None else min(window, self.settings.retention)
        start = now - reach  # what has expired cannot be asked for
        others = {run_name(node) for found in revisions for node in found.nodes} - _NOT_NODES - targets
        anew = {
            name for name in targets if not any(name in found and found[name].exact for found in (covered, under_way))
        }
        if anew:  # what a question about many nodes found under this name need not be the node's own run
            async with self.store.database.write() as connection:
                await traces.forget_runs(connection, deployment_id, anew)
        known = {name: found for name, found in covered.items() if name not in anew}

        def span(name: str) -> Span:
            going_on = under_way.get(name)
            if going_on is not None and going_on.exact == (name in targets):
                return Span(going_on.since, going_on.until, going_on.reached)
            return Span(self._since(known.get(name), start), now)

        questions = [Question((name,), True, span(name)) for name in sorted(targets)]
        return [*questions, *_about_others({name: span(name) for name in sorted(others)})]

    def _since(self, covered: Coverage | None, start: datetime) -> datetime:
        """Where to go on; from the beginning when there was nothing yet, or the window grew."""
        if covered is None or covered.covered_from > start + OVERLAP:
            return start
        return covered.covered_until - OVERLAP

    # -- asking --------------------------------------------------------------------------------------------------

    async def _answer(self, deployment_id: int, source: LangSmith, project: Project, question: Question) -> Outcome:
        """Keep what comes, page by page; the time counts as covered only when all of it came. Otherwise the next poll goes on
        where the pages that came without a gap end."""
        span, failure = question.span, None
        whole, after, reached, oldest = True, After.LOST, span.ends_at, span.until
        pages = source.pages(project, question.names, exact=question.exact, since=span.since, until=span.ends_at)
        try:
            async for page in pages:
                times = [run.started_at for run in page.runs]
                whole = whole and page.is_whole and _is_older(times, reached)
                reached = min([reached, *times]) if whole else reached
                oldest, after = min([oldest, *times]), page.after
                async with self.store.database.write() as connection:
                    await traces.keep_runs(connection, deployment_id, page.runs)
        except DrainboardError as error:
            failure = error
        is_done = whole and after is After.NOTHING and failure is None
        async with self.store.database.write() as connection:
            await traces.roll_up(connection, deployment_id, since=oldest, until=span.ends_at)
            if is_done:
                await self._cover(connection, deployment_id, question)
            elif reached < span.ends_at:
                readings = [UnderWay(name, question.exact, span.since, reached, span.until) for name in question.names]
                await traces.set_under_way(connection, deployment_id, readings)
        if failure is not None:
            raise failure
        return Outcome(is_done, reached if whole and after is After.MORE else None)

    async def _cover(self, connection: AsyncConnection, deployment_id: int, question: Question) -> None:
        covered = await traces.list_coverage(connection, deployment_id)
        now_covered = []
        for name in question.names:
            began = self._began(covered.get(name), question.span)
            now_covered.append(Coverage(name, question.exact, began, question.span.until))
        await traces.set_coverage(connection, deployment_id, now_covered)

    def _began(self, before: Coverage | None, span: Span) -> datetime:
        """Since when nothing is missing. What expired before it was read is a gap."""
        retention, began = self.settings.retention, span.since
        if before is not None and span.since <= before.covered_until:
            if retention is not None and span.until - before.covered_until > retention:
                return span.until - retention
            began = min(before.covered_from, span.since)
        if retention is not None and span.reached is not None:
            return max(began, utc_now() - retention)
        return began

    # -- remembering ---------------------------------------------------------------------------------------------

    async def _remember(
        self, deployment_id: int, now: datetime, failure: DrainboardError | None, outcome: Outcome
    ) -> None:
        status, code, sentence = _status(failure, outcome)
        async with self.store.database.write() as connection:
            before = await traces.find_source(connection, deployment_id)
            project = self._project
            failing = failure is not None and not isinstance(failure, Throttled)
            kept = before if before is not None and before.project == self.settings.project else None
            await traces.set_source(
                connection,
                deployment_id,
                tried_at=now,
                status=status,
                code=code,
                sentence=sentence,
                failing_since=((kept.failing_since if kept else None) or now) if failing else None,
                project=self.settings.project,
                project_url=project.url if project else kept.project_url if kept else None,
                project_began_at=project.began_at if project else kept.project_began_at if kept else None,
            )
            if self._window is not None:  # a process that could not ask yet forgets nothing
                await traces.prune_runs(connection, deployment_id, before=now - self._window)
        log.info("traces.read", deployment=self.deployment, status=status, code=code)


def _about_others(spans: Mapping[str, Span]) -> Iterator[Question]:
    """One question for all nodes that are read over the same time."""
    by_span: dict[Span, list[str]] = {}
    for name, span in spans.items():
        by_span.setdefault(span, []).append(name)
    for span, together in by_span.items():
        for first in range(0, len(together), MAX_NAMES):
            yield Question(tuple(together[first : first + MAX_NAMES]), False, span)


def _is_older(times: Sequence[datetime], reached: datetime) -> bool:
    """Whether a page goes on newest first: only then nothing is missing above its last run."""
    return all(later >= earlier for later, earlier in pairwise([reached, *times]))


def _status(failure: DrainboardError | None, outcome: Outcome) -> tuple[str, str | None, str | None]:
    if isinstance(failure, Throttled):
        return "incomplete", failure.code, failure.message
    if failure is not None:
        code = failure.code if isinstance(failure, SourceError) else "settings"
        return "failed", code, failure.message[:500]
    if outcome.whole:
        return "complete", None, None
    if outcome.reached is None:
        return "incomplete", "cut_short", INCOMPLETE
    return "incomplete", "under_way", _going_on(outcome.reached)


def _going_on(reached: datetime) -> str:
    return (
        f"There are more than the {client.MAX_RUNS:,} runs that one poll asks for; they were read back to "
        f"{reached:%Y-%m-%d %H:%M} UTC. The next polls go on from there."
    )
