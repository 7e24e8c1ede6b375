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
from app.inventory.origin import is_asked, keep_origin
from app.inventory.store import Store
from app.inventory.views import PollSummary
from app.jobs.polling.again import read_again
from app.jobs.polling.ending import finish
from app.jobs.polling.graphs import check_no_deploy, notice_deploys
from app.jobs.polling.green import read_for_green
from app.jobs.polling.lock import PollLock
from app.jobs.polling.preparing import prepare_reading, readings_of
from app.jobs.polling.resuming import mark_of
from app.jobs.polling.routes import read_routes
from app.jobs.polling.verifying import verify_some
from app.jobs.polling.walking import scan, sweep
from app.jobs.polling.work import Poll, Work, log
from app.logs import job
from app.settings import DeploymentSettings
from app.sources.agent_server.client import AgentServer


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
            with job(f"poll-{work.poll.id}"):
                log.info("poll.started", deployment=self.settings.name, poll=work.poll.id, kind=work.poll.kind)
                before = self._server.requests
                failure = await _guarded(work)
                if self._beside is not None:
                    await self._beside(deployment_id)
                return await finish(work, failure, requests=self._server.requests - before)

    async def verify(self) -> int:
        """Read a handful of idle heads between two polls; how many. None before the first complete sweep, and none with another
        server or key than the last poll had: what that one does not see is not gone."""
        async with self._lock.held() as deployment_id:
            async with self._store.database.read() as connection:
                kinds, states = ("sweep", "scan"), ("complete",)
                last = await reads.find_latest_poll(connection, deployment_id, kinds=kinds, states=states)
                row = await reads.find_deployment(connection, self.settings.name)
            if last is None or row is None or not is_asked(row.source, self.settings, self._store.hash_key):
                return 0
            poll = Poll(last.id, deployment_id, "scan", utc_now())
            work = Work(self.settings, self._store, self._drains, self._server, self._lock, poll)
            return await verify_some(work)

    async def _begin(self, deployment_id: int, *, full: bool) -> Work:
        now = utc_now()
        async with self._lock.writing() as connection:
            swept = await reads.find_latest_poll(connection, deployment_id, kinds=("sweep",), states=("complete",))
            is_other = await keep_origin(
                connection, self.settings, self._store.hash_key, was_swept=swept is not None, now=now
            )
            row = await reads.find_deployment(connection, self.settings.name)
            wanted = row is None or row.sweep_wanted_at is not None or row.watermark is None
            if row is not None and swept is not None and swept.id <= (row.erased_poll_id or 0):
                wanted = True  # since then a thread was erased, which a scan would not see
            must = full or is_other or swept is None or wanted
            kind: Literal["sweep", "scan"] = "sweep" if must else "scan"
            mark = mark_of(row.sweep_mark) if row is not None else None
            poll_id = await writes.begin_poll(
                connection, deployment_id, kind=kind, now=now, trusted_until=mark.trusted_at if mark else None
            )
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
    await prepare_reading(work)
    readings = await readings_of(work)
    if poll.kind == "sweep":
        await sweep(work, readings, deployed)
    else:
        await scan(work, readings, down_to=poll.watermark)
    await read_again(work, readings)  # after a sweep's reconciling: what is read by id was not thereby listed
    for need in await work.drains.needs(poll.deployment_id, utc_now()):
        await read_for_green(work, readings, need)
    await read_routes(work, readings)
    if readings.done:
        await check_no_deploy(work, deployed)
    poll.revision_held = True
    async with work.writing() as connection:
        await work.keep_progress(connection, readings)
