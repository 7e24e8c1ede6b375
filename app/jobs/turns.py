"""When a deployment is due, and how long to wait after failures. Both schedules ask here: the one in this process and workers."""

from datetime import datetime, timedelta

from app.clock import is_too_old
from app.inventory import reads
from app.inventory.freshness import Polls, read_polls
from app.inventory.store import Store
from app.settings import DeploymentSettings

MAX_BACK_OFF = timedelta(minutes=5)


def pause_after(deployment: DeploymentSettings, failures: int) -> timedelta:
    """How long to wait for the next poll, after so many failures in a row: longer each time, up to five minutes."""
    interval = deployment.poll_interval
    return min(interval * float(2 ** min(failures, 6)), max(MAX_BACK_OFF, interval))


async def poll_is_due(store: Store, deployment: DeploymentSettings, now: datetime) -> bool:
    """Whether the interval has passed since the last poll ended."""
    polls = await _polls(store, deployment)
    ended = polls.last.finished_at if polls is not None and polls.last is not None else None
    return ended is None or _has_passed(deployment.poll_interval, since=ended, now=now)


async def sweep_is_due(store: Store, deployment: DeploymentSettings, now: datetime) -> bool:
    """Whether the next poll is to be a sweep."""
    polls = await _polls(store, deployment)
    swept = polls.complete_sweep if polls is not None else None
    return swept is None or _has_passed(deployment.sweep_interval, since=swept.started_at, now=now)


def _has_passed(interval: timedelta, *, since: datetime, now: datetime) -> bool:
    """Also when it was later than now: a clock was put back, and nobody waits until it is then again."""
    return now - since >= interval or is_too_old(since, interval, now)


async def _polls(store: Store, deployment: DeploymentSettings) -> Polls | None:
    async with store.database.read() as connection:
        row = await reads.find_deployment(connection, deployment.name)
        return None if row is None else await read_polls(connection, row.id)
