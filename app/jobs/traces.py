"""Reads a deployment's traces beside its poll: one question for each target, one for all other nodes, then only what is new.

A failure here is an outcome that is remembered, never an exception: the poll of threads goes on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import utc_now
from app.errors import DrainboardError, SourceError, Throttled
from app.facts.traces import run_name
from app.inventory import reads, traces
from app.inventory.store import Store
from app.inventory.views import Coverage
from app.logs import get_logger
from app.settings import LangSmithSettings
from app.sources.langsmith.client import LangSmith, Project

LEAST_WINDOW = timedelta(hours=72)
OVERLAP = timedelta(minutes=10)  # a run may arrive late
PROJECT_HOLDS = timedelta(hours=1)
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=15)
INCOMPLETE = "LangSmith's answer stopped before its end, so runs may be missing. The next polls ask again."
MAX_NAMES = 200  # in one question
_NOT_NODES = frozenset({"__start__", "__end__"})

log = get_logger("traces")


@dataclass(frozen=True, slots=True)
class Question:
    """Runs of these nodes that began in this time."""

    names: tuple[str, ...]
    exact: bool
    since: datetime
    until: datetime


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
    _window: timedelta = LEAST_WINDOW

    async def read(self, deployment_id: int) -> None:
        """Read what is new, and remember how it went."""
        now = utc_now()
        if self._not_before is not None and now < self._not_before:
            return
        failure: DrainboardError | None = None
        whole = False
        try:
            whole = await self._read(deployment_id, now)
            self._throttled, self._not_before = 0, None
        except Throttled as error:
            failure = error
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._throttled, 8))
            self._throttled, self._not_before = self._throttled + 1, now + pause
        except DrainboardError as error:
            failure, self._project = error, None
        await self._remember(deployment_id, now, failure, whole=whole)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._source is not None:
            await self._source.aclose()

    async def _read(self, deployment_id: int, now: datetime) -> bool:
        """Whether everything that was asked for came to its end."""
        async with self.store.database.write() as connection:
            known = await traces.find_source(connection, deployment_id)
            if known is not None and known.project != self.settings.project:
                await traces.forget_runs(connection, deployment_id)
        source, project = await self._open(now)
        whole = True
        for question in await self._questions(deployment_id, now):
            whole = await self._answer(deployment_id, source, project, question) and whole
        return whole

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
        open_drains = [row.spec for row in drains if row.closed_at is None]
        targets = {
            run_name(target["name"]) for spec in open_drains for target in spec["targets"] if target["kind"] == "node"
        }
        windows = [timedelta(seconds=spec["policy"]["trace_window"]) for spec in open_drains]
        self._window = max([LEAST_WINDOW, *windows])
        reach = self._window if self.settings.retention is None else min(self._window, self.settings.retention)
        start = now - reach  # what has expired cannot be asked for
        others = {run_name(node) for found in revisions for node in found.nodes} - _NOT_NODES - targets
        anew = {name for name in targets if name in covered and not covered[name].exact}
        if anew:
            async with self.store.database.write() as connection:
                await traces.forget_runs(connection, deployment_id, anew)
        known = {name: found for name, found in covered.items() if name not in anew}
        questions = [Question((name,), True, self._since(known.get(name), start), now) for name in sorted(targets)]
        return [*questions, *self._about_others(others, known, start, now)]

    def _about_others(
        self, names: set[str], known: dict[str, Coverage], start: datetime, now: datetime
    ) -> Iterable[Question]:
        by_start: dict[datetime, list[str]] = {}
        for name in sorted(names):
            by_start.setdefault(self._since(known.get(name), start), []).append(name)
        for since, together in by_start.items():
            for first in range(0, len(together), MAX_NAMES):
                yield Question(tuple(together[first : first + MAX_NAMES]), False, since, now)

    def _since(self, covered: Coverage | None, start: datetime) -> datetime:
        """Where to go on; from the beginning when there was nothing yet, or the window grew."""
        if covered is None or covered.covered_from > start + OVERLAP:
            return start
        return covered.covered_until - OVERLAP

    # -- asking --------------------------------------------------------------------------------------------------

    async def _answer(self, deployment_id: int, source: LangSmith, project: Project, question: Question) -> bool:
        """Keep what comes, page by page; the time counts as covered only when all of it came."""
        whole, oldest = True, question.until
        pages = source.pages(project, question.names, exact=question.exact, since=question.since, until=question.until)
        async for page in pages:
            whole = whole and page.is_whole
            oldest = min([oldest, *(run.started_at for run in page.runs)])
            async with self.store.database.write() as connection:
                await traces.keep_runs(connection, deployment_id, page.runs)
        async with self.store.database.write() as connection:
            await traces.roll_up(connection, deployment_id, since=oldest, until=question.until)
            if whole:
                await self._cover(connection, deployment_id, question)
        return whole

    async def _cover(self, connection: AsyncConnection, deployment_id: int, question: Question) -> None:
        covered = await traces.list_coverage(connection, deployment_id)
        now_covered = []
        for name in question.names:
            began = self._began(covered.get(name), question)
            now_covered.append(Coverage(name, question.exact, began, question.until))
        await traces.set_coverage(connection, deployment_id, now_covered)

    def _began(self, before: Coverage | None, question: Question) -> datetime:
        """Since when nothing is missing. What expired before it was read is a gap."""
        retention = self.settings.retention
        if before is None or question.since > before.covered_until:
            return question.since
        if retention is not None and question.until - before.covered_until > retention:
            return question.until - retention
        return min(before.covered_from, question.since)

    # -- remembering ---------------------------------------------------------------------------------------------

    async def _remember(
        self, deployment_id: int, now: datetime, failure: DrainboardError | None, *, whole: bool
    ) -> None:
        status, code, sentence = _outcome(failure, whole=whole)
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
            await traces.prune_runs(connection, deployment_id, before=now - self._window)
        log.info("traces.read", deployment=self.deployment, status=status, code=code)


def _outcome(failure: DrainboardError | None, *, whole: bool) -> tuple[str, str | None, str | None]:
    if isinstance(failure, Throttled):
        return "incomplete", failure.code, failure.message
    if failure is not None:
        code = failure.code if isinstance(failure, SourceError) else "settings"
        return "failed", code, failure.message[:500]
    return ("complete", None, None) if whole else ("incomplete", "cut_short", INCOMPLETE)
