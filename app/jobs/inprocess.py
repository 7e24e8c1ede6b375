"""The schedule in this process: one endless task for each deployment. ``worker`` is the other schedule."""

import asyncio

from app.clock import monotonic, utc_now
from app.jobs.failures import Guarded
from app.jobs.runtime import Runtime
from app.jobs.turns import pause_after, sweep_is_due
from app.logs import get_logger
from app.settings import DeploymentSettings

FORGET_AFTER, FORGET_EVERY = 60.0, 3600.0  # seconds

log = get_logger("runtime")


async def keep_polling(runtime: Runtime, name: str) -> None:
    """Poll a deployment on its interval until cancelled; failures wait longer, up to five minutes."""
    deployment, failures = runtime.deployment(name), 0
    if deployment.reported:
        await _keep_reading_beside(runtime, deployment)
    while True:
        failures = 0 if await _poll(runtime, deployment) else failures + 1
        until = monotonic() + pause_after(deployment, failures).total_seconds()
        if not failures:
            await _verify_until(runtime, name, until)
        await asyncio.sleep(max(0.0, until - monotonic()))


async def _poll(runtime: Runtime, deployment: DeploymentSettings) -> bool:
    """One poll, after one that runs already; whether it was complete."""
    name = deployment.name
    with Guarded(log, "poll", name):
        await runtime.polled(name)
        full = await sweep_is_due(runtime.store, deployment, utc_now())
        return (await runtime.poll_to_end(name, full=full)).state == "complete"
    return False


async def _verify_until(runtime: Runtime, name: str, until: float) -> None:
    """Read idle heads while no poll is due and some are left; a failure waits for the next poll."""
    with Guarded(log, "verify", name):
        while monotonic() < until and not runtime.is_polled(name):
            if not await runtime.verify_to_end(name):
                return


async def _keep_reading_beside(runtime: Runtime, deployment: DeploymentSettings) -> None:
    """The other sources of a deployment whose threads are reported, on its interval until cancelled."""
    while True:
        with Guarded(log, "beside", deployment.name):
            await runtime.read_beside(deployment.name)
        await asyncio.sleep(deployment.poll_interval.total_seconds())


async def keep_forgetting(runtime: Runtime) -> None:
    """What is over in every deployment, once an hour until cancelled."""
    await asyncio.sleep(FORGET_AFTER)
    while True:
        for deployment in runtime.settings.deployments:
            with Guarded(log, "forget", deployment.name):
                await runtime.forget(deployment.name)
        await asyncio.sleep(FORGET_EVERY)
