"""One poll of one deployment: collect, then write, page by page; at its end the drains move on.

Killing the process at any point loses nothing that was committed, and never leaves a half-sweep that counts: a poll is
complete only when its last write says so. No request is made while a transaction is open. The steps are in ``polling``.
"""

from collections.abc import Awaitable, Callable
from typing import Literal

from app.clock import utc_now
from app.drains.service import Drains
from app.errors import SourceError, StoreError, Throttled
from app.inventory import reads, writes
from app.inventory.current import current_of
from app.inventory.revisions import list_drawings
from app.inventory.store import Store
from app.inventory.views import PollSummary
from app.jobs.polling.again import read_again
from app.jobs.polling.ending import finish
from app.jobs.polling.graphs import check_no_deploy, notice_deploys
from app.jobs.polling.green import read_for_green
from app.jobs.polling.lock import PollLock
from app.jobs.polling.walking import scan, sweep
from app.jobs.polling.work import Poll, Work, log
from app.jobs.readings import Readings
from app.settings import DeploymentSettings
from app.sources.agent_server.client import AgentServer
from app.sources.agent_server.reduce import Reading


class Poller:
    """Polls one deployment. One at a time, by a lock in the database that a dead holder loses."""

    def __init__(
        self,
        settings: DeploymentSettings,
        store: Store,
        drains: Drains,
        server: AgentServer,
        *,
        beside: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self.settings = settings
        self._beside = beside
        self._store = store
        self._drains = drains
        self._server = server
        self._lock = PollLock(settings.name, store)

    async def poll(self, *, full: bool) -> PollSummary:
        """One round. The first one, and one after a deploy or a new drain, is a sweep whatever was asked for."""
        async with self._lock.held() as deployment_id:
            work = await self._begin(deployment_id, full=full)
            log.info("poll.started", deployment=self.settings.name, poll=work.poll.id, kind=work.poll.kind)
            before = self._server.requests
            failure = await _guarded(work)
            if self._beside is not None:
                await self._beside(deployment_id)
            return await finish(work, failure, requests=self._server.requests - before)

    async def _begin(self, deployment_id: int, *, full: bool) -> Work:
        now = utc_now()
        async with self._lock.writing() as connection:
            row = await reads.find_deployment(connection, self.settings.name)
            swept = await reads.find_latest_poll(connection, deployment_id, kinds=("sweep",), states=("complete",))
            must = full or swept is None or row is None or row.sweep_wanted_at is not None or row.watermark is None
            kind: Literal["sweep", "scan"] = "sweep" if must else "scan"
            poll_id = await writes.begin_poll(connection, deployment_id, kind=kind, now=now)
        watermark = row.watermark if row is not None else None
        sorts = row is not None and row.capabilities.get("sort_by_thread_id") is True
        poll = Poll(poll_id, deployment_id, kind, now, watermark=watermark, began_from=watermark, sorts=sorts)
        return Work(self.settings, self._store, self._drains, self._server, self._lock, poll)


async def _guarded(work: Work) -> SourceError | StoreError | None:
    """Run the poll; a failure of the source is an outcome, and what was seen until then is kept."""
    try:
        await _run(work)
    except Throttled as error:
        work.poll.miss("throttled")
        return error
    except SourceError as error:
        work.poll.miss("source_failed")
        return error
    except StoreError as error:
        work.poll.miss("database")
        return error
    except BaseException:
        work.dictionaries.forget()
        raise
    return None


async def _run(work: Work) -> None:
    poll, server = work.poll, work.server
    deployed = await server.deployed()
    poll.asked = True
    poll.assistants = dict(deployed.names)
    if poll.kind == "sweep":
        server.look_anew()
        info = await server.info()
        poll.capabilities = {"version": info.version, "langgraph_version": info.langgraph_version}
    await notice_deploys(work, deployed)
    await _prepare_reading(work)
    readings = await _readings(work)
    if poll.kind == "sweep":
        await sweep(work, readings)
    else:
        await scan(work, readings, down_to=poll.watermark)
    await read_again(work, readings)  # after a sweep's reconciling: what is read by id was not thereby listed
    for need in await work.drains.needs(poll.deployment_id, utc_now()):
        await read_for_green(work, readings, need)
    if readings.done:
        await check_no_deploy(work, deployed)
    poll.revision_held = True
    async with work.writing() as connection:
        await work.keep_progress(connection, readings)


async def _prepare_reading(work: Work) -> None:
    """Names that are kept in clear and renames to compare may have changed since the last poll."""
    settings = work.settings
    async with work.reading() as connection:
        names = await work.store.names(connection, work.deployment_id, settings)
        renames = {
            (target["name"], target["new"])
            for row in await reads.list_drains(connection)
            if row.deployment_id == work.deployment_id and row.closed_at is None
            for target in row.spec["targets"]
            if target["kind"] == "rename"
        }
    work.server.reading = Reading(
        names=names,
        version_keys=settings.all_version_keys,
        renames=tuple(sorted(renames)),
        metadata_keys=settings.metadata_keys,
    )


async def _readings(work: Work) -> Readings:
    async with work.reading() as connection:
        revisions = await reads.list_revisions(connection, work.deployment_id)
        drawings = await list_drawings(connection, work.deployment_id)
        drains = await reads.list_drains(connection)
    candidates = {node for revision in revisions for node in revision.nodes}
    for row in drains:
        if row.deployment_id == work.deployment_id:
            candidates |= {target["name"] for target in row.spec["targets"] if target["kind"] == "node"}
    return Readings(
        server=work.server,
        revisions={revision.id: revision for revision in revisions},
        current=current_of(revisions, drawings),
        candidates=candidates,
        stuck_after=work.settings.stuck_after,
    )
