"""How fast a server is asked: its budget, and less while it says that this is too much or shows it by answering slowly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from aiolimiter import AsyncLimiter

from app.clock import monotonic, utc_now

LONGEST_PAUSE = 30.0
ONE_CUT = 1.0  # seconds: answers of requests that were under way together are one complaint
REGAIN_EVERY = 5.0  # seconds without a complaint, for each step back
STEP = 0.1  # of the budget
LEAST_SHARE = 0.02
SLOW = 1.0  # seconds: an answer that comes sooner is never slow
SLOWER = 4  # times the quickest average seen
SMOOTH = 0.1


class Pace:
    """The budget of one server. ``requests_per_minute`` and ``concurrency`` are what holds now.

    A 429 halves both at once and lets everybody wait as long as it asks; slow answers take away one request at a time. Both
    come back in steps.
    """

    def __init__(self, requests_per_minute: int, concurrency: int) -> None:
        self._budget, self._most = requests_per_minute, concurrency
        self.requests_per_minute, self.concurrency = requests_per_minute, concurrency
        self.slowed_at: datetime | None = None
        self.because: str | None = None
        self._gate = asyncio.Semaphore(concurrency)
        self._limiter = _limiter(requests_per_minute)
        self._pause_until = self._changed_at = 0.0
        self._owed = 0  # places that are taken away as soon as they are free
        self._average: float | None = None
        self._quickest = float("inf")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One request: waits until it may be made."""
        await self._gate.acquire()
        try:
            while (wait := self._pause_until - monotonic()) > 0:  # noqa: ASYNC110 - a time, not an event
                await asyncio.sleep(wait)
            await self._limiter.acquire()
            yield
        finally:
            if self._owed > 0:
                self._owed -= 1
            else:
                self._gate.release()

    def complained(self, wait: float | None) -> None:
        """The server answered 429, and perhaps said how long to wait."""
        now = monotonic()
        self._pause_until = max(self._pause_until, now + min(wait or 0.0, LONGEST_PAUSE))
        if now - self._changed_at < ONE_CUT and self.is_slowed:
            return
        least = max(1, int(self._budget * LEAST_SHARE))
        self._slow(max(least, self.requests_per_minute // 2), max(1, self.concurrency // 2), "it answers 429")

    def answered(self, seconds: float) -> None:
        """How long the server took."""
        before = self._average
        self._average = seconds if before is None else before + SMOOTH * (seconds - before)
        self._quickest = min(self._quickest, self._average)
        if monotonic() - self._changed_at < (ONE_CUT if self._is_slow else REGAIN_EVERY):
            return
        if self._is_slow and self.concurrency > 1:
            self._slow(self.requests_per_minute, self.concurrency - 1, "it answers slowly")
        elif self.is_slowed and not self._is_slow:
            self._regain()

    @property
    def is_slowed(self) -> bool:
        """Whether the server is asked less than its budget allows."""
        return (self.requests_per_minute, self.concurrency) != (self._budget, self._most)

    @property
    def _is_slow(self) -> bool:
        return self._average is not None and self._average > max(SLOW, SLOWER * self._quickest)

    def _slow(self, requests_per_minute: int, concurrency: int, because: str) -> None:
        self.slowed_at = self.slowed_at or utc_now()
        self.because = because
        self._set(requests_per_minute, concurrency)

    def _regain(self) -> None:
        rate = self.requests_per_minute + max(1, int(self._budget * STEP))
        self._set(min(self._budget, rate), min(self._most, self.concurrency + 1))
        if not self.is_slowed:
            self.slowed_at = self.because = None

    def _set(self, requests_per_minute: int, concurrency: int) -> None:
        self._changed_at = monotonic()
        if requests_per_minute != self.requests_per_minute:
            self.requests_per_minute, self._limiter = requests_per_minute, _limiter(requests_per_minute)
        self._owed += self.concurrency - concurrency
        self.concurrency = concurrency
        while self._owed < 0:
            self._owed += 1
            self._gate.release()


def _limiter(requests_per_minute: int) -> AsyncLimiter:
    """A steady rate in small bursts: per second where that is one request or more."""
    per_second = requests_per_minute / 60
    return AsyncLimiter(per_second, 1) if per_second >= 1 else AsyncLimiter(1, 1 / per_second)
