"""``drainboard worker`` as it is, but that every request says to which holding of the poll's lock it belongs, and that a dead
worker is missed after so many seconds: ``KILLS_LEASE``."""

import functools
import os
import secrets
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import timedelta

import httpx

from app.jobs import worker
from app.jobs.polling import lock
from app.main import run

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


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    lock.PollLock.held = _told  # type: ignore[method-assign]
    httpx.AsyncHTTPTransport.handle_async_request = _marked  # type: ignore[method-assign]
    if lease := float(os.environ.get("KILLS_LEASE", "0")):
        lock.LEASE, lock.HEARTBEAT = timedelta(seconds=lease), lease / 5
        worker.Timing = functools.partial(  # type: ignore[misc, assignment]
            worker.Timing, beat=lease / 5, dead_after=lease / 2, look=0.3, tick=1, again=1.0
        )
    sys.stdin.readline()  # everything is imported: a spare one waits here until another was killed
    run()
