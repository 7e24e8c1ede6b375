"""``drainboard worker`` as it is, but that every request says to which holding of the poll's lock it belongs, and that a dead
worker is missed after so many seconds: ``KILLS_LEASE``.

This process has everything imported, and forks a worker for each line on stdin, which is a log file: to begin anew takes
seconds. It answers with the worker's process id.
"""

import functools
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path

import httpx

import app.jobs.queue
from app.command import run
from app.jobs import worker
from app.jobs.polling import lock

TURN: ContextVar[str] = ContextVar("turn", default="none")

_held = lock.PollLock.held
_send = httpx.AsyncHTTPTransport.handle_async_request


@asynccontextmanager
async def _told(self: lock.PollLock) -> AsyncIterator[int]:
    async with _held(self) as found:
        TURN.set(f"{os.getpid()}.{secrets.token_hex(4)}")
        yield found


async def _marked(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
    request.headers["x-turn"] = TURN.get()
    return await _send(self, request)


def _end_with(parent: int) -> None:
    """Not to work on when the run was cut short."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _change(lease: float) -> None:
    lock.PollLock.held = _told  # type: ignore[method-assign]
    httpx.AsyncHTTPTransport.handle_async_request = _marked  # type: ignore[method-assign]
    if lease:
        lock.LEASE, lock.HEARTBEAT = timedelta(seconds=lease), lease / 5
        worker.Timing = functools.partial(  # type: ignore[misc, assignment]
            worker.Timing, beat=lease / 5, dead_after=lease / 2, look=0.3, tick=1, again=1.0
        )


def _work(log: Path, parent: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with log.open("wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.argv = ["drainboard", "worker", "--concurrency", "2", "--name", log.stem]
    run()


if __name__ == "__main__":
    assert app.jobs.queue
    _change(float(os.environ["KILLS_LEASE"]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that end
    me = os.getpid()
    while line := sys.stdin.readline().strip():
        if (child := os.fork()) == 0:
            _work(Path(line), me)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
