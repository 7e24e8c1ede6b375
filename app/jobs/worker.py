"""The schedule of ``drainboard worker``: any number of processes do what is queued.

Each worker offers what is due (Procrastinate sees to it that one of them does so at a time), does what it finds in the queue,
says that it is there, and gives back what a worker that died has left. ``inprocess`` is the other schedule; what is done is in
``runtime`` for both.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from procrastinate import App, BaseRetryStrategy, RetryDecision
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.job_context import JobContext
from procrastinate.jobs import Job
from procrastinate.worker import Worker as Hand

from app.clock import utc_now
from app.errors import StoreError
from app.inventory.workers import begin_worker, forget_workers, keep_worker
from app.jobs import queue as queued
from app.jobs.failures import Guarded
from app.jobs.queue import Queue
from app.jobs.runtime import Runtime
from app.jobs.turns import pause_after, poll_is_due, sweep_is_due
from app.logs import get_logger
from app.settings import DeploymentSettings, Settings

FORGET_AFTER = timedelta(days=7)
FORGET_EVERY = 3600  # seconds

log = get_logger("worker")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: between two signs of life, until a silent worker is taken for dead, between two looks into the queue and at
    what is due, for work to end in when stopped, and until a database that went away is tried again."""

    beat: float = 10.0
    dead_after: float = 30.0
    look: float = 2.0
    tick: int = 5
    grace: float = 5.0
    again: float = 5.0


class NotComplete(Exception):
    """A poll that has to be made again."""


class Jobs:
    """What can be done for a deployment: one method for each kind of job. One that fails says why in the log, and raises
    ``NotComplete``."""

    def __init__(self, runtime: Runtime, queue: Queue, timing: Timing) -> None:
        self._runtime = runtime
        self._queue = queue
        self._tick = timing.tick

    async def schedule(self, timestamp: int) -> None:
        """Offer what is due now."""
        now = utc_now()
        for deployment in self._runtime.settings.deployments:
            if deployment.reported:
                if timestamp % max(self._tick, int(deployment.poll_interval.total_seconds())) < self._tick:
                    await self._queue.offer(queued.BESIDE, deployment.name)
            elif await poll_is_due(self._runtime.store, deployment, now):
                await self._queue.offer_poll(deployment.name)
            if timestamp % FORGET_EVERY < self._tick:
                await self._queue.offer(queued.FORGET, deployment.name)

    async def poll(self, deployment: str) -> None:
        """The poll that is due, unless it was made meanwhile; idle heads follow it."""
        found = self._known(deployment)
        if found is None or not await poll_is_due(self._runtime.store, found, utc_now()):
            return
        full = await sweep_is_due(self._runtime.store, found, utc_now())
        await self._poll(deployment, full=full)
        await self._queue.offer(queued.VERIFY, deployment)

    async def asked(self, deployment: str, full: bool) -> None:
        """A poll that somebody waits for. How it ends stands with the poll."""
        if self._known(deployment) is not None:
            with contextlib.suppress(NotComplete):
                await self._poll(deployment, full=full)

    async def verify(self, deployment: str) -> None:
        """A handful of idle heads, and the next one if there is more and no poll is due."""
        found = self._known(deployment)
        if found is None:
            return
        with _told("verify", deployment):
            done = await self._runtime.verify_to_end(deployment)
        if done and not await poll_is_due(self._runtime.store, found, utc_now()):
            await self._queue.offer(queued.VERIFY, deployment)

    async def beside(self, deployment: str) -> None:
        """The other sources of a deployment whose threads are reported."""
        if self._known(deployment) is not None:
            with _told("beside", deployment):
                await self._runtime.read_beside(deployment)

    async def forget(self, deployment: str) -> None:
        """What is over in a deployment."""
        if self._known(deployment) is not None:
            with _told("forget", deployment):
                await self._runtime.forget(deployment)

    async def _poll(self, deployment: str, *, full: bool) -> None:
        with _told("poll", deployment):
            summary = await self._runtime.poll_to_end(deployment, full=full)
        if summary.state != "complete":
            raise NotComplete

    def _known(self, deployment: str) -> DeploymentSettings | None:
        found = self._runtime.settings.deployment(deployment)
        if found is None:
            log.warning("worker.unknown_deployment", deployment=deployment)
        return found


@contextlib.contextmanager
def _told(what: str, deployment: str) -> Iterator[None]:
    """A failure in the log, and as ``NotComplete``: the queue's own words are not heard."""
    is_done = False
    with Guarded(log, what, deployment):
        yield
        is_done = True
    if not is_done:
        raise NotComplete


class _Again(BaseRetryStrategy):
    """A job that a stopping worker cut goes back at once; with ``settings`` one that failed does so too, later each time."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """When to run it again; None: never."""
        if isinstance(exception, asyncio.CancelledError | JobAborted):
            return RetryDecision(retry_at=utc_now())
        found = self._settings.deployment(str(job.task_kwargs.get("deployment"))) if self._settings else None
        return None if found is None else RetryDecision(retry_at=utc_now() + pause_after(found, job.attempts + 1))


class Worker:
    """One process that works. ``run`` ends some seconds after ``stop``."""

    def __init__(
        self, runtime: Runtime, queue: Queue, *, name: str, concurrency: int, timing: Timing | None = None
    ) -> None:
        self._runtime = runtime
        self._queue = queue
        self._name = name
        self._concurrency = concurrency
        self._timing = timing or Timing()
        self._stopping = asyncio.Event()
        self._hand: Hand | None = None
        self._in_hand: set[int] = set()
        self._lost: set[int] = set()
        self._add_tasks(queue.app, Jobs(runtime, queue, self._timing))

    def stop(self) -> None:
        """Take up nothing more."""
        self._stopping.set()
        if self._hand is not None:
            self._hand.stop()  # type: ignore[no-untyped-call]

    async def run(self) -> None:
        """Work until stopped. A database that is away is waited for."""
        async with self._runtime.store.database.write() as connection:
            now = utc_now()
            await forget_workers(connection, before=now - FORGET_AFTER)
            row = await begin_worker(connection, self._name, concurrency=self._concurrency, now=now)
        log.info("worker.started", worker=self._name, concurrency=self._concurrency)
        keeper = asyncio.create_task(self._keep(row), name="keeper")
        try:
            while not self._stopping.is_set():
                await self._work()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), self._timing.again)
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            with contextlib.suppress(StoreError):
                await self._say(row, is_over=True)
        log.info("worker.stopped", worker=self._name)

    async def _work(self) -> None:
        self._hand = Hand(
            app=self._queue.app,
            queues=[queued.QUEUE],
            name=self._name,
            concurrency=self._concurrency,
            fetch_job_polling_interval=self._timing.look,
            shutdown_graceful_timeout=self._timing.grace,
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=self._timing.beat,
            stalled_worker_timeout=self._timing.dead_after,
        )
        try:
            await self._hand.run()  # type: ignore[no-untyped-call]
        except ConnectorException as error:
            log.warning("worker.database_away", worker=self._name, kind=type(error).__name__)

    # -- beside the work -----------------------------------------------------------------------------------------

    async def _keep(self, row: int) -> None:
        while True:
            try:
                await self._say(row)
                await self._take_back()
            except StoreError as error:
                log.warning("worker.not_kept", worker=self._name, message=error.message)
            except Exception as error:  # noqa: BLE001 - without this nothing would ever be taken back
                log.error("worker.crashed", worker=self._name, kind=type(error).__name__)
            await asyncio.sleep(self._timing.beat)

    async def _say(self, row: int, *, is_over: bool = False) -> None:
        now = utc_now()
        async with self._runtime.store.database.write() as connection:
            await keep_worker(connection, row, now=now, ended_at=now if is_over else None)

    async def _take_back(self) -> None:
        """Give jobs back that nobody runs: those of a dead worker, and those whose end this one could not write down."""
        left = await self._queue.list_left(silent_for=self._timing.dead_after)
        for job in [*left, *await self._own_left()]:
            with contextlib.suppress(StoreError):  # another worker was first
                waits = await self._queue.give_back(job)
                log.info("job.given_back", job=job.task_name, deployment=job.task_kwargs.get("deployment"), again=waits)

    async def _own_left(self) -> list[Job]:
        """Jobs that are said to run here and did not at the last look either."""
        me = self._hand.worker_id if self._hand is not None else None
        idle = [] if me is None else [job for job in await self._queue.list_of(me) if job.id not in self._in_hand]
        found = [job for job in idle if job.id in self._lost]
        self._lost = {job.id for job in idle if job.id is not None}
        return found

    # -- what can be done ----------------------------------------------------------------------------------------

    def _add_tasks(self, app: App, jobs: Jobs) -> None:
        again = _Again(self._runtime.settings)

        async def poll(context: JobContext, deployment: str) -> None:
            with self._holding(context):
                await jobs.poll(deployment)

        async def asked(context: JobContext, deployment: str, full: bool) -> None:
            with self._holding(context):
                await jobs.asked(deployment, full)

        async def verify(context: JobContext, deployment: str) -> None:
            with self._holding(context):
                await jobs.verify(deployment)

        async def beside(context: JobContext, deployment: str) -> None:
            with self._holding(context):
                await jobs.beside(deployment)

        async def forget(context: JobContext, deployment: str) -> None:
            with self._holding(context):
                await jobs.forget(deployment)

        app.task(name=queued.POLL, pass_context=True, retry=again)(poll)
        app.task(name=queued.ASKED, pass_context=True, retry=_Again())(asked)
        app.task(name=queued.VERIFY, pass_context=True)(verify)
        app.task(name=queued.BESIDE, pass_context=True)(beside)
        app.task(name=queued.FORGET, pass_context=True)(forget)
        schedule = app.task(
            name=queued.SCHEDULE,
            queue=queued.QUEUE,
            queueing_lock=queued.SCHEDULE,
            priority=queued.PRIORITY[queued.SCHEDULE],
        )(jobs.schedule)
        app.periodic(cron=f"* * * * * */{self._timing.tick}")(schedule)

    @contextlib.contextmanager
    def _holding(self, context: JobContext) -> Iterator[None]:
        job = context.job.id or 0
        self._in_hand.add(job)
        try:
            yield
        finally:
            self._in_hand.discard(job)
