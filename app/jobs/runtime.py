"""Drainboard in this process: the database, the deployments' servers, and polls that run in the background."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx

from app.clock import monotonic, utc_now
from app.drains.register import Register
from app.drains.service import Drains
from app.drains.statements import Statements
from app.errors import BadRequest, DrainboardError, NotFound
from app.inventory import reads, writes
from app.inventory.db import Database
from app.inventory.freshness import read_polls
from app.inventory.store import Store
from app.inventory.views import PollSummary
from app.jobs.beside import OtherSources
from app.jobs.delivering import Courier
from app.jobs.poll import Poller
from app.jobs.reporting import Reporting
from app.jobs.schedule import Schedule
from app.logs import get_logger
from app.settings import DeploymentSettings, Settings
from app.sources.agent_server.client import AgentServer
from app.sources.agent_server.reduce import Reading

MAX_BACK_OFF = timedelta(minutes=5)
START_WAIT = 5.0
ANNOUNCE_EVERY = 30.0
STOP_WAIT = timedelta(seconds=2)  # a poll that is cut in the middle of a write may hold the database's lock

log = get_logger("runtime")


@dataclass
class _Running:
    """A poll that runs in the background."""

    task: "asyncio.Task[PollSummary]"
    full: bool


@dataclass
class Runtime:
    """Everything that is open while Drainboard runs. Make it with ``open_runtime``."""

    settings: Settings
    store: Store
    drains: Drains
    register: Register
    statements: Statements
    reporting: Reporting
    transport: Callable[[str], httpx.AsyncBaseTransport] | None = None
    schedule: Schedule = field(default_factory=lambda: Schedule(is_here=False))
    _servers: dict[str, AgentServer] = field(default_factory=dict)
    _others: dict[str, OtherSources] = field(default_factory=dict)
    _running: dict[str, _Running] = field(default_factory=dict)
    _couriers: list[Courier] = field(default_factory=list)
    _verifying: "dict[str, asyncio.Task[int]]" = field(default_factory=dict)

    def deployment(self, name: str) -> DeploymentSettings:
        """The settings of a deployment. Raises ``NotFound``."""
        found = self.settings.deployment(name)
        if found is None:
            known = ", ".join(deployment.name for deployment in self.settings.deployments) or "none"
            raise NotFound(f"There is no deployment with the name {name[:100]!r}. Known: {known}.")
        return found

    async def server(self, name: str) -> AgentServer:
        """The client of a deployment's Agent Server; the key is looked up on first use."""
        if name not in self._servers:
            deployment = self.deployment(name)
            if deployment.url is None:
                raise BadRequest(
                    f"The deployment {name} is reported by its application: there is no server to ask. A pass of "
                    "`python -m drainboard_reporter` brings what is known up to date.",
                    code="reported",
                )
            async with self.store.database.write() as connection:
                deployment_id = await writes.ensure_deployment(connection, name, utc_now())
                names = await self.store.names(connection, deployment_id, deployment)
            self._servers[name] = AgentServer(
                name=name,
                url=deployment.url,
                api_key=deployment.api_key(),
                reading=Reading(names, deployment.all_version_keys, (), deployment.metadata_keys),
                requests_per_minute=deployment.requests_per_minute,
                concurrency=deployment.concurrency,
                transport=self.transport(name) if self.transport else None,
            )
        return self._servers[name]

    def asked(self) -> list[tuple[str, int, int]]:
        """What this process asked of each deployment's server: its name, requests, and answers that told it to slow down."""
        names = [deployment.name for deployment in self.settings.deployments if not deployment.reported]
        servers = [(name, self._servers.get(name)) for name in names]
        return [(name, server.requests, server.throttled) if server else (name, 0, 0) for name, server in servers]

    async def poll(self, name: str, *, full: bool) -> PollSummary:
        """One round on a deployment, to its end."""
        deployment, server = self.deployment(name), await self.server(name)
        others = self._others.setdefault(name, OtherSources(deployment, self.store, server))
        poller = Poller(deployment, self.store, self.drains, server, beside=others.read)
        return await poller.poll(full=full)

    async def start_poll(self, name: str, *, full: bool) -> PollSummary:
        """Start a round in the background, and answer with it as soon as it has begun. One that runs already is answered
        with, unless a sweep is asked for and it is a scan: then the sweep follows it."""
        if self.deployment(name).reported:
            await self.server(name)  # refuses
        running = self._running.get(name)
        if running is not None and not running.task.done():
            if running.full or not full:
                return await self._begun(name, running.task)
            await asyncio.wait([running.task])
        task = asyncio.create_task(self.poll(name, full=full), name=f"poll {name}")
        task.add_done_callback(_log_failure)
        self._running[name] = _Running(task, full)
        return await self._begun(name, task)

    async def _begun(self, name: str, task: "asyncio.Task[PollSummary]") -> PollSummary:
        """The poll as soon as it is in the database."""
        waited = 0.0
        while not task.done():
            async with self.store.database.read() as connection:
                row = await reads.find_deployment(connection, name)
                polls = await read_polls(connection, row.id) if row is not None else None
            if polls is not None and polls.running is not None:
                return polls.running
            if waited >= START_WAIT and polls is not None and polls.last is not None:
                return polls.last
            await asyncio.sleep(0.05)
            waited += 0.05
        return task.result()

    def begin_schedule(self) -> None:
        """Poll every deployment, and tell the receivers of webhooks, until ``close``."""
        for deployment in self.settings.deployments:
            self.schedule.add(deployment.name, self.keep_polling(deployment.name))
        for webhook in self.settings.webhooks:
            courier = Courier(webhook, self.store)
            self._couriers.append(courier)
            self.schedule.add(f"webhook {webhook.name}", courier.keep_delivering())
        if self.settings.webhooks:
            self.schedule.add("announcements", self._keep_announcing())

    async def _keep_announcing(self) -> None:
        """Tell what time alone has changed, until cancelled."""
        while True:
            await asyncio.sleep(ANNOUNCE_EVERY)
            try:
                await self.drains.announce(utc_now())
            except DrainboardError as error:
                log.warning("announcing.failed", code=error.code, message=error.message)
            except Exception as error:  # noqa: BLE001 - as below
                log.error("announcing.crashed", kind=type(error).__name__)

    async def keep_polling(self, name: str) -> None:
        """Poll a deployment on its interval until cancelled; failures wait longer, up to five minutes."""
        deployment, failures = self.deployment(name), 0
        if deployment.reported:
            await self._keep_reading_beside(deployment)
        while True:
            try:
                running = self._running.get(name)
                if running is not None and not running.task.done():
                    await asyncio.wait([running.task])
                summary = await self._await_poll(name, full=await self._sweep_is_due(deployment))
                failures = 0 if summary.state == "complete" else failures + 1
            except DrainboardError as error:
                failures += 1
                log.warning("poll.failed", deployment=name, code=error.code, message=error.message)
            except Exception as error:  # noqa: BLE001 - a fault of ours in one poll must not end all that would follow
                failures += 1
                log.error("poll.crashed", deployment=name, kind=type(error).__name__)
            pause = deployment.poll_interval * (2 ** min(failures, 6) if failures else 1)
            until = monotonic() + min(pause, max(MAX_BACK_OFF, deployment.poll_interval)).total_seconds()
            if not failures:
                await self._verify_until(name, until)
            await asyncio.sleep(max(0.0, until - monotonic()))

    async def _verify_until(self, name: str, until: float) -> None:
        """Read idle heads while no poll is due and some are left; a failure waits for the next poll."""
        try:
            while monotonic() < until and not self._is_polled(name):
                task = asyncio.create_task(self.verify(name), name=f"verify {name}")  # a lock that is lost cancels it
                self._verifying[name] = task
                await asyncio.wait([task])
                if task.cancelled() or not task.result():
                    return
        except DrainboardError as error:
            log.warning("verify.failed", deployment=name, code=error.code, message=error.message)
        except Exception as error:  # noqa: BLE001 - the next poll comes all the same
            log.error("verify.crashed", deployment=name, kind=type(error).__name__)

    def _is_polled(self, name: str) -> bool:
        running = self._running.get(name)
        return running is not None and not running.task.done()

    async def verify(self, name: str) -> int:
        """Read a handful of idle heads that drains need; how many."""
        poller = Poller(self.deployment(name), self.store, self.drains, await self.server(name))
        return await poller.verify()

    async def _keep_reading_beside(self, deployment: DeploymentSettings) -> None:
        """The other sources of a deployment whose threads are reported, on its interval until cancelled."""
        others = self._others.setdefault(deployment.name, OtherSources(deployment, self.store, None))
        while True:
            try:
                async with self.store.database.write() as connection:
                    deployment_id = await writes.ensure_deployment(connection, deployment.name, utc_now())
                await others.read(deployment_id)
                await self.reporting.add_listed(deployment)
            except DrainboardError as error:
                log.warning("beside.failed", deployment=deployment.name, code=error.code, message=error.message)
            except Exception as error:  # noqa: BLE001 - as above
                log.error("beside.crashed", deployment=deployment.name, kind=type(error).__name__)
            await asyncio.sleep(deployment.poll_interval.total_seconds())

    async def _await_poll(self, name: str, *, full: bool) -> PollSummary:
        """A poll that this schedule's own end does not cut: ``close`` ends it."""
        task = asyncio.create_task(self.poll(name, full=full), name=f"poll {name}")
        self._running[name] = _Running(task, full)
        return await asyncio.shield(task)

    async def _sweep_is_due(self, deployment: DeploymentSettings) -> bool:
        async with self.store.database.read() as connection:
            row = await reads.find_deployment(connection, deployment.name)
            if row is None:
                return True
            swept = (await read_polls(connection, row.id)).complete_sweep
        return swept is None or utc_now() - swept.started_at >= deployment.sweep_interval

    async def close(self) -> None:
        """End background polls, connections and the database."""
        polls = [running.task for running in self._running.values()]
        tasks: list[asyncio.Task[Any]] = [task for task in (*polls, *self._verifying.values()) if not task.done()]
        for server in self._servers.values():
            server.stop()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_WAIT.total_seconds())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self._servers.values():
            await server.aclose()
        for others in self._others.values():
            await others.aclose()
        for courier in self._couriers:
            await courier.aclose()
        await self.store.database.close()


def _log_failure(task: "asyncio.Task[PollSummary]") -> None:
    if task.cancelled():
        return
    error = task.exception()
    if isinstance(error, DrainboardError):
        log.warning("poll.failed", code=error.code, message=error.message)
    elif error is not None:
        log.error("poll.crashed", kind=type(error).__name__)


@contextlib.asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    schedule: bool,
    transport: Callable[[str], httpx.AsyncBaseTransport] | None = None,
) -> AsyncIterator[Runtime]:
    """Migrate the database, take up the settings' drains, and poll on schedule if asked to."""
    database = Database(settings.resolved_database_url)
    store = Store(database, settings.hash_key())
    drains = Drains(settings, store)
    register = Register(settings, store, drains)
    statements = Statements(settings, store, drains)
    runtime = Runtime(
        settings, store, drains, register, statements, Reporting(store, drains), transport, schedule=Schedule(schedule)
    )
    try:
        await database.upgrade()
        await register.take_up(utc_now())
        if schedule:
            runtime.begin_schedule()
        try:
            yield runtime
        finally:
            await runtime.schedule.stop()
    finally:
        await runtime.close()
