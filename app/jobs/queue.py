"""The queue of the workers, in PostgreSQL: what can be asked for, and what became of it. ``worker`` does what is asked.

Jobs of one deployment have one lock, so that one runs at a time. That keeps workers from waiting for each other; that a
deployment is never polled twice at once is the poll's own lock's doing.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Status
from sqlalchemy import make_url

from app.errors import StoreError
from app.settings import Settings

QUEUE = "drainboard"
SCHEDULE, ASKED, POLL, BESIDE, VERIFY, FORGET = "schedule", "asked", "poll", "beside", "verify", "forget"
PRIORITY = {SCHEDULE: 20, ASKED: 10, POLL: 0, BESIDE: 0, VERIFY: -10, FORGET: -20}
OPEN = (Status.TODO.value, Status.DOING.value)
CONNECTIONS = 5  # of one process, at most


def lock_of(deployment: str) -> str:
    """What the jobs of a deployment have in common."""
    return f"deployment:{deployment}"


class Queue:
    """Asks for work. Raises ``StoreError`` when the database cannot be used."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def ask(self, deployment: str, *, full: bool) -> int | None:
        """A poll that somebody waits for; its id, or None when the same is asked for already."""
        return await self._defer(ASKED, deployment, twin=f"{ASKED}:{deployment}:{full}", full=full)

    async def offer_poll(self, deployment: str) -> None:
        """A poll that is due, unless one waits or runs. It has no twin to be refused for: it may go back into the queue."""
        if not await self._has_poll(deployment):
            await self._defer(POLL, deployment, twin=None)

    async def offer(self, task: str, deployment: str) -> None:
        """Something else for a deployment, unless it waits already."""
        await self._defer(task, deployment, twin=f"{task}:{deployment}")

    async def is_open(self, job: int | None) -> bool:
        """Whether a job waits or runs. Those that are done are not kept; None is one of somebody else."""
        if job is None:
            return True
        with telling():
            return any(found.status in OPEN for found in await self.app.job_manager.list_jobs_async(id=job))

    async def _has_poll(self, deployment: str) -> bool:
        with telling():
            found = await self.app.job_manager.list_jobs_async(lock=lock_of(deployment))
        return any(job.task_name in (POLL, ASKED) and job.status in OPEN for job in found)

    async def _defer(self, task: str, deployment: str, *, twin: str | None, **more: bool) -> int | None:
        job = self.app.configure_task(
            task, queue=QUEUE, lock=lock_of(deployment), queueing_lock=twin, priority=PRIORITY[task]
        )
        with telling():
            try:
                return await job.defer_async(deployment=deployment, **more)
            except AlreadyEnqueued:
                return None

    # -- what was left behind ------------------------------------------------------------------------------------

    async def list_left(self, *, silent_for: float) -> list[Job]:
        """Jobs of workers that are gone, or silent for so many seconds."""
        with telling():
            return list(await self.app.job_manager.get_stalled_jobs(seconds_since_heartbeat=silent_for))

    async def list_of(self, worker_id: int) -> list[Job]:
        """Jobs that a worker is said to run."""
        with telling():
            found = await self.app.job_manager.list_jobs_async(worker_id=worker_id, status=Status.DOING.value)
        return list(found)

    async def give_back(self, job: Job) -> bool:
        """Let another worker take a job up; False when the same waits already. Raises ``StoreError`` when
        somebody else was first."""
        manager = self.app.job_manager
        with telling():
            if job.task_name != SCHEDULE:  # the next one comes by itself
                with suppress(UniqueViolation):
                    await manager.retry_job(job)
                    return True
            await manager.finish_job(job, Status.FAILED, delete_job=True)
        return False


@contextmanager
def telling() -> Iterator[None]:
    """An error of the queue as one of ours."""
    try:
        yield
    except (ConnectorException, psycopg.Error) as error:
        raise StoreError(f"The queue in the database cannot be used ({type(error).__name__}). Is it running?") from None


@asynccontextmanager
async def open_queue(settings: Settings) -> AsyncIterator[Queue]:
    """The queue in the database of the settings, which must be PostgreSQL, with nothing that is done here."""
    url = make_url(settings.database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=CONNECTIONS))
    with telling():
        await app.open_async()
    try:
        yield Queue(app)
    finally:
        await app.close_async()
