"""Questions of pages, API and command line to a running Drainboard, each answered with one value."""

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import utc_now
from app.drains.answers import Actor, Answer, BlockingThread
from app.drains.burndown import BurnDown
from app.drains.evidence import Background, not_found, report
from app.drains.outside import PSEUDONYM, Outside
from app.drains.trends import Trend
from app.errors import BadRequest, NotFound
from app.facts.capabilities import notes
from app.facts.types import CheckpointFacts, Condition, ThreadFacts
from app.inventory import deploys, reads, reporters
from app.inventory.current import current_of
from app.inventory.cursors import page_of
from app.inventory.db import head_revision
from app.inventory.evaluations import HeldAnswer, StoredAnswer
from app.inventory.finding import Found, find_pseudonym
from app.inventory.freshness import read_polls, threads_source
from app.inventory.reads import Filters
from app.inventory.revisions import list_drawings
from app.inventory.views import (
    Alarm,
    DeploymentStatus,
    DeployPage,
    DeployReport,
    DrainMention,
    Evidence,
    Inventory,
    NodeEntry,
    NodeReport,
    NodeTraces,
    Pace,
    PollSummary,
    ReporterStatus,
    SourceStatus,
    ThreadPage,
)
from app.inventory.waiting_at import WaitingAt, count_waiting
from app.jobs.finding import find
from app.jobs.polling.verifying import verification_of
from app.jobs.readings import Readings
from app.jobs.runtime import Runtime
from app.jobs.traced import list_entries, list_nodes, other_sources, with_traces
from app.jobs.who_works import Work, find_work
from app.rights import Caller, Right
from app.settings import DeploymentSettings
from app.sources.agent_server.client import without_secrets
from app.version import VERSION

_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")

LONGEST_ID = 255
REPORTED = "reported by its application"
LAST_DEPLOYS = 100
LAST_CHECKPOINTS = 50


class Dashboard:
    """Answers what pages and API show. Raises ``NotFound`` and ``BadRequest``."""

    def __init__(self, runtime: Runtime, caller: Caller | None = None) -> None:
        self._runtime = runtime
        self._caller = caller or Caller.anybody()

    def seen_by(self, caller: Caller) -> "Dashboard":
        """The same, with no more in its lists than a caller may see. Objects by name are checked before any route."""
        return Dashboard(self._runtime, caller)

    def _sees(self, name: str) -> bool:
        found = self._runtime.settings.deployment(name)
        return found is not None and self._caller.may(Right.READ, found.name, found.environment)

    # -- deployments ---------------------------------------------------------------------------------------------

    async def deployments(self) -> tuple[DeploymentStatus, ...]:
        """All deployments of the settings that the caller may see."""
        return tuple([await self.deployment(name) for name in self._deployment_names()])

    async def deployments_page(self, cursor: str | None, limit: int) -> tuple[tuple[DeploymentStatus, ...], str | None]:
        """A page of those, by name, and the cursor of the next one."""
        names, following = page_of(self._deployment_names(), "deployment", cursor, limit)
        return tuple([await self.deployment(name) for name in names]), following

    def _deployment_names(self) -> list[str]:
        return [found.name for found in self._runtime.settings.deployments if self._sees(found.name)]

    async def deployment(self, name: str) -> DeploymentStatus:
        """One deployment, with its alarms, polls and graph revisions."""
        settings, now = self._runtime.deployment(name), utc_now()
        async with self._runtime.store.database.read() as connection:
            row = await reads.find_deployment(connection, name)
            if row is None:
                raise NotFound(f"The deployment {name} was not taken up yet. Is the database the right one?")
            polls = await read_polls(connection, row.id)
            revisions = await reads.list_revisions(connection, row.id)
            statuses = await reads.count_by(connection, row.id, "status")
            conditions = await reads.count_by(connection, row.id, "condition")
            others = await other_sources(connection, row.id, settings, now=now)
            source = threads_source(
                row, polls, poll_interval=settings.poll_interval, now=now, is_reported=settings.reported
            )
            return DeploymentStatus(
                name=name,
                environment=settings.environment,
                url=without_secrets(settings.url) if settings.url else REPORTED,
                reporter=await self._reporter(connection, row.id) if settings.reported else None,
                is_reported=settings.reported,
                as_of=source.as_of,
                total=sum(statuses.values()),
                statuses=statuses,
                conditions=conditions,
                sources=(source, _sweep_source(polls.complete_sweep, settings, now), *others),
                current_poll=polls.running,
                last_sweep=polls.complete_sweep,
                last_scan=polls.complete_scan,
                polls=await reads.list_polls(connection, row.id, limit=20),
                revisions=revisions,
                capabilities=row.capabilities,
                alarms=await reads.list_alarms(connection, row.id, name),
                unverified_idle=conditions.get(Condition.PRESUMED_SETTLED.value, 0),
                requests_per_minute=settings.requests_per_minute,
                capability_notes=notes(row.capabilities),
                concurrency=settings.concurrency,
                verification=verification_of(row.verification, requests_per_minute=settings.requests_per_minute),
                pace=_pace(row.pace),
            )

    async def _reporter(self, connection: AsyncConnection, deployment_id: int) -> ReporterStatus | None:
        """What tells of a deployment without a server; None before its first pass."""
        found = await reporters.find_pass(connection, deployment_id)
        if found is None:
            return None
        return ReporterStatus(
            graph=found.graph_id,
            saver=found.saver,
            langgraph_version=found.langgraph_version,
            lists=found.lists,
            pass_began_at=found.began_at,
            pass_ended_at=found.ended_at,
            last_message_at=found.told_at,
        )

    async def work(self) -> Work:
        """Who polls, and whether anybody is there to do so."""
        return await find_work(self._runtime.store, self._runtime.settings, utc_now())

    async def alarms(self) -> tuple[Alarm, ...]:
        """The alarms of all deployments, newest first."""
        found = [alarm for status in await self.deployments() for alarm in status.alarms]
        return tuple(sorted(found, key=lambda alarm: alarm.first_seen_at, reverse=True))

    async def start_poll(self, name: str, full: bool) -> PollSummary:
        """Start a scan, or a sweep when ``full``; a poll that runs already is answered with."""
        return await self._runtime.start_poll(name, full=full)

    async def running_poll(self, name: str) -> PollSummary | None:
        """The poll of a deployment that runs now."""
        async with self._runtime.store.database.read() as connection:
            row = await reads.find_deployment(connection, name)
            if row is None:
                return None
            return await reads.find_latest_poll(connection, row.id, kinds=("sweep", "scan"), states=("running",))

    async def poll(self, name: str, poll_id: int) -> PollSummary:
        """One poll of a deployment."""
        self._runtime.deployment(name)
        async with self._runtime.store.database.read() as connection:
            row = await reads.find_deployment(connection, name)
            found = await reads.find_poll(connection, row.id, poll_id) if row is not None else None
        if found is None:
            raise NotFound(f"The deployment {name} has no poll {poll_id}.")
        return found

    # -- deploys -------------------------------------------------------------------------------------------------

    async def deploys(self, name: str, cursor: str | None, limit: int) -> DeployPage:
        """A page of the deploys that were noticed, newest first."""
        self._runtime.deployment(name)
        async with self._runtime.store.database.read() as connection:
            row = await self._deployment_row(connection, name)
            return DeployPage(*await deploys.list_deploys(connection, row.id, name, cursor=cursor, limit=limit))

    async def deploy_threads(
        self, name: str, deploy_id: int, fate: str | None, cursor: str | None, limit: int
    ) -> DeployReport:
        """One deploy, and a page of the threads that waited at a node which it removed."""
        self._runtime.deployment(name)
        async with self._runtime.store.database.read() as connection:
            row = await self._deployment_row(connection, name)
            found = await deploys.find_deploy(connection, row.id, name, deploy_id)
            if found is None:
                raise NotFound(f"The deployment {name} has no deploy {deploy_id}.")
            page = await deploys.list_deploy_threads(
                connection, row.id, deploy_id, fate=fate, cursor=cursor, limit=limit
            )
            return DeployReport(found, *page)

    async def _deployment_row(self, connection: AsyncConnection, name: str) -> Any:
        row = await reads.find_deployment(connection, name)
        if row is None:
            raise NotFound(f"The deployment {name} was not taken up yet. Is the database the right one?")
        return row

    # -- threads -------------------------------------------------------------------------------------------------

    async def inventory(self, name: str, filters: Filters) -> Inventory:
        """Counts by facet of the threads that the filters let through."""
        settings = self._runtime.deployment(name)
        async with self._runtime.store.database.read() as connection:
            scope = await self._runtime.store.scope(connection, settings)
            return await reads.get_inventory(connection, scope, filters, now=utc_now())

    async def waiting(self, name: str, filters: Filters) -> tuple[WaitingAt, ...]:
        """Those threads by the nodes where they are pending."""
        settings = self._runtime.deployment(name)
        async with self._runtime.store.database.read() as connection:
            scope = await self._runtime.store.scope(connection, settings)
            return await count_waiting(connection, scope, filters, now=utc_now())

    async def threads(self, name: str, filters: Filters, cursor: str | None, limit: int, sort: str) -> ThreadPage:
        """A page of those threads."""
        settings = self._runtime.deployment(name)
        async with self._runtime.store.database.read() as connection:
            scope = await self._runtime.store.scope(connection, settings)
            return await reads.list_threads(
                connection, scope, filters, cursor=cursor, limit=limit, sort=sort, now=utc_now()
            )

    def thread_id(self, name: str, raw: str) -> tuple[DeploymentSettings, str]:
        """A deployment's settings, and a thread's id as it is kept there. Raises ``NotFound`` and ``BadRequest``."""
        settings = self._runtime.deployment(name)
        return settings, _checked_id(settings, raw)

    @property
    def outside(self) -> Outside:
        """How threads are called in what people carry away."""
        hides_ids = self._runtime.settings.exported_ids == "pseudonyms"
        return Outside(self._runtime.store.hash_key, hides_ids)

    async def evidence(self, name: str, thread_id: str, live: bool) -> Evidence:
        """The evidence report of one thread, by its id or its pseudonym; ``live`` reads the server now. An unknown thread is
        ``found=False``."""
        settings, now = self._runtime.deployment(name), utc_now()
        thread_id = _checked_id(settings, await self._named(settings, thread_id))
        if live:
            await self._runtime.server(name)  # refuses where there is none
        store = self._runtime.store
        async with store.database.read() as connection:
            row = await reads.find_deployment(connection, name)
            if row is None:
                raise NotFound(f"The deployment {name} was not taken up yet. Is the database the right one?")
            revisions = await reads.list_revisions(connection, row.id)
            declared = await reads.list_declared_fields(connection, row.id)
            dictionaries = store.dictionaries(row.id)
            found = await reads.find_thread(connection, dictionaries, thread_id)
            reporter = await reporters.find_pass(connection, row.id) if settings.reported else None
            mentions: tuple[DrainMention, ...] = ()
            if found is not None:
                mentions = await self._runtime.drains.mentions(connection, row.id, thread_id, now=now)
            background = Background(
                deployment=name,
                environment=settings.environment,
                names=await store.names(connection, row.id, settings),
                version_key=settings.state_version_key,
                declared_fields=tuple(sorted(declared)),
                revisions={revision.id: revision for revision in revisions},
                schema_revision=head_revision(),
                server_version=_text(row.capabilities.get("version")),
                saver=reporter.saver if reporter is not None else None,
                is_reported=settings.reported,
                drainboard_version=VERSION,
                live=live,
                observations=await reads.list_observations(connection, row.id, thread_id, limit=50),
                current=current_of(revisions, await list_drawings(connection, row.id)),
                deploys=(await deploys.list_deploys(connection, row.id, name, cursor=None, limit=LAST_DEPLOYS))[0],
            )
        facts = found[0] if found else None
        if live:
            facts, lineage = await self._read_now(settings, thread_id, facts, background)
            background = replace(background, lineage=lineage)
        found_report = not_found(thread_id, background) if facts is None else report(facts, mentions, background)
        async with store.database.read() as connection:
            return await with_traces(connection, row.id, settings, found_report)

    async def _named(self, settings: DeploymentSettings, raw: str) -> str:
        """The id of a thread that is named by its pseudonym; any other text as it is. Raises ``NotFound``."""
        if not PSEUDONYM.fullmatch(raw):
            return raw
        store = self._runtime.store
        async with store.database.read() as connection:
            row = await reads.find_deployment(connection, settings.name)
            mine = 0 if row is None else row.id
            found = await find_pseudonym(connection, mine, settings.name, raw, key=store.hash_key)
        if found is None and not settings.reported:
            raise NotFound(
                f"No thread that is kept of {settings.name} has the pseudonym {raw}. Is it of another deployment, was it erased or "
                "forgotten, or made with another key file?"
            )
        return raw if found is None else str(found.thread_id)

    async def nodes(self, name: str, nodes: Collection[str]) -> tuple[NodeTraces, ...]:
        """What the traces say of these nodes; empty where no traces were ever read."""
        langsmith = self._runtime.deployment(name).langsmith
        is_sampled = langsmith is not None and langsmith.sampling_rate < 1
        async with self._runtime.store.database.read() as connection:
            row = await reads.find_deployment(connection, name)
            if row is None:
                return ()
            return await list_nodes(connection, row.id, nodes, is_sampled=is_sampled, now=utc_now())

    async def assistant_name(self, name: str, assistant_id: str) -> str | None:
        """What the server calls an assistant of a deployment; None: it did not tell."""
        async with self._runtime.store.database.read() as connection:
            row = await self._deployment_row(connection, name)
        return _text(row.assistants.get(assistant_id))

    async def entries(self, name: str, nodes: Collection[str], limit: int) -> tuple[NodeEntry, ...]:
        """The newest traced runs of these nodes, newest first."""
        self._runtime.deployment(name)
        async with self._runtime.store.database.read() as connection:
            row = await reads.find_deployment(connection, name)
            return () if row is None else await list_entries(connection, row.id, nodes, limit=limit)

    async def node_report(self, name: str) -> NodeReport:
        """The deployed nodes in the traces, and those that nobody has entered for 30 days."""
        status = await self.deployment(name)
        deployed = [found for found in status.revisions if found.vanished_at is None]
        paths = sorted({node for found in deployed for node in found.nodes if not node.startswith("__")})
        items = await self.nodes(name, paths)
        [source] = [found for found in status.sources if found.name == "traces"]
        return NodeReport(name, source, items, tuple(each.node for each in items if each.is_quiet))

    async def _read_now(
        self, settings: DeploymentSettings, thread_id: str, known: ThreadFacts | None, background: Background
    ) -> tuple[ThreadFacts | None, tuple[CheckpointFacts, ...] | None]:
        """The thread as the server has it this moment, and its last checkpoints. Nothing is stored: the next poll does that."""
        server = await self._runtime.server(settings.name)
        row = await server.thread(thread_id)
        if row is None:
            now = utc_now()
            return (replace(known, condition=Condition.GONE, stuck=False, seen_at=now) if known else None), None
        readings = Readings(
            server=server,
            revisions=background.revisions,
            current=background.current or current_of((), ()),
            candidates={node for found in background.revisions.values() for node in found.nodes},
            stuck_after=settings.stuck_after,
        )
        return await readings.read_closely(row, known), await server.lineage(thread_id, limit=LAST_CHECKPOINTS)

    async def find(self, text: str) -> Found:
        """What the text names, or begins like, in the deployments and drains that the caller may see."""
        return await find(self._runtime, text, self._sees)

    # -- drains --------------------------------------------------------------------------------------------------

    async def drains(self) -> tuple[Answer, ...]:
        """The answers of all drains that the caller may see."""
        return await self._runtime.drains.answers(await self._drain_names(), now=utc_now())

    async def drains_page(self, cursor: str | None, limit: int) -> tuple[tuple[Answer, ...], str | None]:
        """A page of those, by name, and the cursor of the next one; on the page what blocks comes first."""
        names, following = page_of(await self._drain_names(), "drain", cursor, limit)
        return await self._runtime.drains.answers(names, now=utc_now()), following

    async def _drain_names(self) -> list[str]:
        return [name for name, deployment in await self._runtime.drains.names() if self._sees(deployment)]

    async def drain(self, name: str, max_age: timedelta | None = None) -> Answer:
        """The answer of one drain, decided now. ``max_age`` can only tighten the drain's policy."""
        return await self._runtime.drains.answer(name, now=utc_now(), max_age=max_age)

    async def drain_threads(
        self,
        name: str,
        disposition: str | None,
        cursor: str | None,
        limit: int,
        *,
        reason: str | None = None,
        target: str | None = None,
        actor: Actor | None = None,
    ) -> tuple[tuple[BlockingThread, ...], str | None, int]:
        """A page of a drain's threads, oldest first: items, next cursor, total. ``target``: its key. ``actor``: who must act."""
        return await self._runtime.drains.threads(
            name,
            disposition=disposition,
            reason=reason,
            target=target,
            actor=actor,
            cursor=cursor,
            limit=limit,
            now=utc_now(),
        )

    async def trends(self) -> tuple[Trend, ...]:
        """How the drains went that the caller may see."""
        return tuple(each for each in await self._runtime.drains.trends(now=utc_now()) if self._sees(each.deployment))

    async def past_answers(
        self, name: str, before: int | None, limit: int
    ) -> tuple[tuple[StoredAnswer, ...], int | None]:
        """A page of the stored answers of a drain, newest first, and where the next one begins."""
        return await self._runtime.drains.past_answers(name, before=before, limit=limit)

    async def past_answer(self, name: str, *, at: datetime | None = None, number: int | None = None) -> HeldAnswer:
        """What a drain said at a time, or one stored answer by its number."""
        return await self._runtime.drains.past_answer(name, at=at, number=number)

    async def history(self, name: str, since: datetime | None = None, until: datetime | None = None) -> BurnDown:
        """How a drain went between two times; by default the last seven days."""
        return await self._runtime.drains.history(name, since=since, until=until, now=utc_now())

    async def evaluations(self, name: str) -> list[Mapping[str, object]]:
        """The stored answers of a drain, newest first."""
        return list(await self._runtime.drains.evaluations(name, limit=100))


def _checked_id(settings: DeploymentSettings, thread_id: str) -> str:
    """A thread id as it is kept: any text that is short enough where an application makes them, a UUID elsewhere."""
    if settings.reported:
        if not 0 < len(thread_id) <= LONGEST_ID:
            raise BadRequest(f"A thread id has 1 to {LONGEST_ID} characters.")
        return thread_id
    if not _UUID.fullmatch(thread_id):
        raise BadRequest("A thread id on an Agent Server is a UUID, like 0190a3c2-7d11-7c33-a0f0-2b8f6c1d9e55.")
    return str(uuid.UUID(thread_id))


def _sweep_source(sweep: PollSummary | None, settings: DeploymentSettings, now: datetime) -> SourceStatus:
    """The complete sweep as a source of its own: how old it is."""
    if sweep is None:
        return SourceStatus("sweep", "not_evaluated", sentence="No complete sweep yet.")
    age = now - sweep.started_at
    late = age > 2 * settings.sweep_interval + settings.poll_interval
    return SourceStatus(
        "sweep",
        "stale" if late else "complete",
        as_of=sweep.started_at,
        age_seconds=int(age.total_seconds()),
        expected=sweep.threads_expected,
        seen=sweep.threads_seen,
    )


def _pace(raw: Mapping[str, Any] | None) -> Pace | None:
    """What was kept of a server that is asked less than its budget allows."""
    since = raw and raw["slowed_at"]
    return Pace(**{**raw, "slowed_at": datetime.fromisoformat(since) if since else None}) if raw else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
