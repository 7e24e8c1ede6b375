"""Drainboard as it is, behind the proxy: its application, its schedule, and what its polls came to."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import stamina
import structlog

from app.errors import DrainboardError
from app.jobs import turns
from app.jobs.poll import Poller
from app.jobs.polling import lock
from app.main import create_app
from app.settings import Settings
from tests.storm.clocks import Clock
from tests.storm.world import TARGETS

NAME = "stormy"
BASE = f"/api/v1/deployments/{NAME}"
MAX_AGE = timedelta(minutes=15)
POLICY = {"soak_sweeps": 1, "soak_hold": "0s", "max_age": "15m"}
PATIENCE = httpx.Timeout(0.4)


@dataclass(frozen=True)
class Polled:
    """A poll that ended. ``began``: on a clock that never jumps; ``at``: by Drainboard's clock, before and after."""

    began: float
    at: tuple[datetime, datetime]
    state: str


@dataclass
class Product:
    """``polls``: those that ended, oldest first; ``at_work``: how many have not; ``crashed``: what the log says that it must not."""

    app: Any
    http: httpx.AsyncClient
    polls: list[Polled] = field(default_factory=list)
    at_work: int = 0
    crashed: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    async def poll(self, *, full: bool) -> None:
        """Ask for a poll and wait for its end, whatever comes of it."""
        await self.http.post(f"{BASE}/poll", json={"full": full})
        await self.app.state.runtime.polled(NAME)

    async def verdict(self, drain: str) -> str:
        """What the gate says; the code of an error where it cannot say."""
        answer = (await self.http.get(f"/api/v1/drains/{drain}/gate")).json()
        found = answer.get("verdict") or answer["error"]["code"]
        self.outcomes[f"gate {found}"] += 1
        if found == "internal":
            self.crashed.append(f"the gate of {drain} crashed")
        return str(found)

    async def codes(self, drain: str) -> list[str]:
        answer = (await self.http.get(f"/api/v1/drains/{drain}/gate")).json()
        return [reason["code"] for reason in answer.get("reasons", [])]

    async def counts(self) -> dict[str, dict[str, int]]:
        facets = (await self.http.get(f"{BASE}/inventory")).json()["facets"]
        found = {"status": facets["status"], "pending": facets["pending"]}
        found["old"] = facets["fields"].get("customer_name", {})
        return {name: {key: count for key, count in each.items() if count} for name, each in found.items()}

    async def ids(self) -> set[str]:
        """The threads that it takes to be there."""
        found, cursor = set(), ""
        while True:
            page = (await self.http.get(f"{BASE}/threads?limit=500&sort=thread_id{cursor}")).json()
            found |= {item["thread_id"] for item in page["items"]}
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"

    @property
    def newest(self) -> Polled | None:
        """The newest poll that says that it is complete."""
        return next((poll for poll in reversed(self.polls) if poll.state == "complete"), None)


@asynccontextmanager
async def running(url: str, database_url: str, home: Path, clock: Clock) -> AsyncIterator[Product]:
    """It, with a schedule that polls every second."""
    settings = Settings(
        database_url=database_url,
        key_file=home / "board.key",
        home=home,
        log_level="error",
        deployments=[
            {
                "name": NAME,
                "url": url,
                "poll_interval": "10s",
                "requests_per_minute": 1_000_000,
                "concurrency": 8,
                "page_size": 10,
            }
        ],
        drains=[target.settings(NAME, POLICY) for target in TARGETS],
    )
    application = create_app(settings, schedule=True)
    product = Product(application, httpx.AsyncClient())
    with _quick(), _told(product, clock), _logged(product):
        async with application.router.lifespan_context(application):
            transport = httpx.ASGITransport(application, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test", timeout=60) as http:
                product.http = http
                yield product


@contextmanager
def _quick() -> Iterator[None]:
    """It retries once and at once, waits for no answer for long, and its lock's heart beats quickly: otherwise as it is."""
    timeout = httpx.Timeout

    def impatient(*given: Any, **more: Any) -> httpx.Timeout:
        return PATIENCE if "connect" in more else timeout(*given, **more)

    stamina.set_testing(True, attempts=2, cap=True)
    try:
        with (
            patch.object(httpx, "Timeout", impatient),
            patch.object(turns, "MAX_BACK_OFF", timedelta(seconds=1)),
            patch.object(lock, "HEARTBEAT", 0.2),
        ):
            yield
    finally:
        stamina.set_testing(False)


@contextmanager
def _told(product: Product, clock: Clock) -> Iterator[None]:
    """Every poll, whoever asked for it, is noted with the time when it really began."""
    poll = Poller.poll

    async def noted(self: Poller, *, full: bool) -> Any:
        began, at = time.monotonic(), clock.now(UTC)
        state = "crashed"
        product.at_work += 1
        try:
            found = await poll(self, full=full)
            state = found.state
            return found
        except asyncio.CancelledError:
            state = "cancelled"
            raise
        except DrainboardError as error:
            state = f"cut short: {error.code}"
            raise
        finally:
            product.at_work -= 1
            product.polls.append(Polled(began, (at, clock.now(UTC)), state))
            product.outcomes[f"poll {state}"] += 1

    with patch.object(Poller, "poll", noted):
        yield


@contextmanager
def _logged(product: Product) -> Iterator[None]:
    """What it logs as an error."""

    def keep(_logger: Any, level: str, event: dict[str, Any]) -> dict[str, Any]:
        if level in ("error", "critical"):
            product.crashed.append(f"{event.get('event')} {event.get('kind', '')} {event.get('route', '')}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[keep], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
