"""Drainboard in this process: the database, the deployments' servers, and polls that run in the background."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from app.clock import utc_now
from app.drains.register import Register
from app.drains.service import Drains
from app.drains.statements import Statements
from app.errors import BadRequest, DrainboardError, NotFound, StoreError
from app.inventory import reads, writes
from app.inventory.db import Database
from app.inventory.freshness import read_polls
from app.inventory.store import Store
from app.inventory.views import PollSummary
from app.jobs.asking import ask_workers
from app.jobs.beside import OtherSources
from app.jobs.delivering import Courier
from app.jobs.forgetting import forget_over
from app.jobs.poll import Poller
from app.jobs.reporting import Reporting
from app.jobs.schedule import Schedule
from app.logs import get_logger
from app.settings import DeploymentSettings, Settings
from app.sources.agent_server.client import AgentServer
from app.sources.agent_server.reduce import Reading

if TYPE_CHECKING:
    from app.jobs.queue import Queue

T = TypeVar("T")
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
    """Everything that is open while Drainboard runs. Make it with ``open_runtime``. ``queue``: where workers do the polling,
    which they are asked for through it."""

    settings: Settings
    store: Store
    drains: Drains
    register: Register
    statements: Statements
    reporting: Reporting
    transport: Callable[[str], httpx.AsyncBaseTransport] | None = None
    queue: "Queue | None" = None
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
                raise _is_reported(name)
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
            raise _is_reported(name)
        if self.queue is not None:
            return await ask_workers(self.store, self.queue, name, full=full)
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
        return _result(task)

    async def polled(self, name: str) -> None:
        """Wait for the end of a poll that runs here."""
        running = self._running.get(name)
        if running is not None and not running.task.done():
            await asyncio.wait([running.task])

    def begin_polling(self) -> None:
        """Poll every deployment, and forget what is over, until ``close``."""
        from app.jobs.inprocess import keep_forgetting, keep_polling

        for deployment in self.settings.deployments:
            self.schedule.add(deployment.name, keep_polling(self, deployment.name))
        if self.settings.deployments:
            self.schedule.add("forgetting", keep_forgetting(self))

    def begin_telling(self) -> None:
        """Tell the receivers of webhooks until ``close``. Several processes may do so: each message is one's at a time."""
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
            except Exception as error:  # noqa: BLE001 - the next time comes all the same
                log.error("announcing.crashed", kind=type(error).__name__)

    async def forget(self, name: str) -> None:
        """What is over in a deployment is forgotten, as the settings say."""
        await forget_over(self.store, self.settings.keep, self.deployment(name).name, utc_now())

    def is_polled(self, name: str) -> bool:
        """Whether a poll of the deployment runs here."""
        running = self._running.get(name)
        return running is not None and not running.task.done()

    async def poll_to_end(self, name: str, *, full: bool) -> PollSummary:
        """One round that the caller's own end does not cut: ``close`` ends it. Raises ``StoreError`` when another process
        has taken over."""
        task = asyncio.create_task(self.poll(name, full=full), name=f"poll {name}")
        self._running[name] = _Running(task, full)
        await asyncio.wait([task])
        return _result(task)

    async def verify_to_end(self, name: str) -> int:
        """Read a handful of idle heads that drains need; how many. As ``poll_to_end``."""
        task = asyncio.create_task(self.verify(name), name=f"verify {name}")
        self._verifying[name] = task
        await asyncio.wait([task])
        return _result(task)

    async def verify(self, name: str) -> int:
        """A handful of idle heads; how many."""
        poller = Poller(self.deployment(name), self.store, self.drains, await self.server(name))
        return await poller.verify()

    async def read_beside(self, name: str) -> None:
        """The other sources of a deployment whose threads are reported, once."""
        deployment = self.deployment(name)
        others = self._others.setdefault(name, OtherSources(deployment, self.store, None))
        async with self.store.database.write() as connection:
            deployment_id = await writes.ensure_deployment(connection, name, utc_now())
        await others.read(deployment_id)
        await self.reporting.add_listed(deployment)

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


def _is_reported(name: str) -> BadRequest:
    return BadRequest(
        f"The deployment {name} is reported by its application: there is no server to ask. A pass of "
        "`python -m drainboard_reporter` brings what is known up to date.",
        code="reported",
    )


def _result(task: "asyncio.Task[T]") -> T:
    """What a task came to. A lock that is lost cancels it, and not whoever waits for it."""
    if task.cancelled():
        raise StoreError("Another process took over the poll.", code="lease_lost")
    return task.result()


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
    """Migrate the database, take up the settings' drains, and see to it that deployments are polled if asked to: here, or
    by workers."""
    database = Database(settings.resolved_database_url)
    store = Store(database, settings.hash_key())
    drains = Drains(settings, store)
    register = Register(settings, store, drains)
    statements = Statements(settings, store, drains)
    here = Schedule(is_here=schedule and settings.work == "here")
    reporting = Reporting(store, drains)
    runtime = Runtime(settings, store, drains, register, statements, reporting, transport, schedule=here)
    try:
        await database.upgrade()
        await register.take_up(utc_now())
        async with _scheduled(runtime) if schedule else contextlib.nullcontext():
            yield runtime
    finally:
        await runtime.close()


@contextlib.asynccontextmanager
async def _scheduled(runtime: Runtime) -> AsyncIterator[None]:
    if runtime.settings.work == "workers":
        from app.jobs.queue import open_queue

        async with open_queue(runtime.settings) as runtime.queue:
            yield
        return
    runtime.begin_polling()
    runtime.begin_telling()
    try:
        yield
    finally:
        await runtime.schedule.stop()
