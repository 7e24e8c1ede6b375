"""``drainboard worker``: polls for every ``serve`` on the same PostgreSQL, beside any number of others."""

import asyncio
import os
import signal
import socket
from typing import Any

from app import logs
from app.cli import output
from app.errors import SettingsError
from app.logs import get_logger
from app.settings import WANTS_POSTGRESQL, Settings, load_settings

log = get_logger("worker")


def work_until_stopped(*, name: str | None, concurrency: int, json: bool) -> int:
    """Work until a signal; the exit code."""
    settings = load_settings()
    if not settings.is_on_postgresql:
        raise SettingsError(f"`drainboard worker` {WANTS_POSTGRESQL}. On SQLite `drainboard serve` polls by itself.")
    logs.configure(settings.log_level)
    name = (name or f"{socket.gethostname()}-{os.getpid()}")[:100]
    asyncio.run(_work(settings, name, concurrency=concurrency, json=json))
    return 0


async def _work(settings: Settings, name: str, *, concurrency: int, json: bool) -> None:
    from app.jobs.queue import open_queue
    from app.jobs.runtime import open_runtime
    from app.jobs.worker import Worker

    async with open_runtime(settings, schedule=False) as runtime, open_queue(settings) as queue:
        worker = Worker(runtime, queue, name=name, concurrency=concurrency)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_kind)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        _announce(settings, name, concurrency=concurrency, json=json)
        if settings.work == "workers":  # else `serve` tells them
            runtime.begin_telling()
        try:
            await worker.run()
        finally:
            await runtime.schedule.stop()


def _log_kind(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody waited for, without its text: the queue's own tasks end so when the database goes away."""
    log.warning("worker.unheard", kind=type(context.get("exception")).__name__)


def _announce(settings: Settings, name: str, *, concurrency: int, json: bool) -> None:
    named = [deployment.name for deployment in settings.deployments]
    if json:
        output.as_json({"worker": name, "concurrency": concurrency, "deployments": named})
        return
    looked_at = ", ".join(named) or "nothing: add [[deployments]] to drainboard.toml"
    output.out.print(output.plain(f"Worker {name} looks at {looked_at}  (Ctrl-C stops it)"))
    if settings.work == "here":
        sentence = '`serve` polls too, since work is "here". Set work = "workers" in the settings of both.'
        output.err.print(output.plain(sentence))
