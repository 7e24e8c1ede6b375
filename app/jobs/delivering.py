"""Sends what waits in the outbox: each receiver in a lane of its own, so that a slow or dead one holds up nobody else."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

import httpx
from standardwebhooks.webhooks import Webhook

from app.clock import utc_now
from app.errors import DrainboardError, SettingsError
from app.inventory import outbox
from app.inventory.outbox import Claimed
from app.inventory.store import Store
from app.logs import get_logger
from app.settings import WebhookSettings
from app.version import VERSION

PAUSE = 2.0  # seconds between two looks into the outbox
AFTER_A_FAULT = 30.0
LEASE = timedelta(minutes=2)  # longer than any attempt may take
STEPS = tuple(
    timedelta(seconds=seconds) for seconds in (5, 60, 300, 1800, 7200, 18000, 36000)
)  # until the next attempt, after the first, the second and so on; then it is given up
LONGEST_WAIT = timedelta(days=1)  # that a receiver may ask for
JITTER = 0.1
KEPT = timedelta(days=30)  # after a message arrived or was given up

Transport = Callable[[str], httpx.AsyncBaseTransport]
log = get_logger("webhooks")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt came to. ``problem`` None: the receiver has it. ``wait``: how long it asks us to stay away."""

    problem: str | None = None
    status: int | None = None
    wait: timedelta = timedelta()


async def forget_old(store: Store, now: datetime) -> None:
    """Delete the messages that arrived, or were given up, long ago."""
    async with store.database.read() as connection:
        if not await outbox.has_ended(connection, before=now - KEPT):
            return
    async with store.database.write() as connection:
        await outbox.forget_ended(connection, before=now - KEPT)


class Courier:
    """Sends the messages to one receiver."""

    def __init__(self, webhook: WebhookSettings, store: Store, transport: Transport | None = None) -> None:
        self.webhook = webhook
        self._store = store
        self._client = httpx.AsyncClient(
            follow_redirects=False,
            timeout=webhook.timeout.total_seconds(),
            transport=transport(webhook.name) if transport else None,
            headers={"User-Agent": f"drainboard/{VERSION}"},
        )

    async def keep_delivering(self) -> NoReturn:
        """Send what is due until cancelled."""
        while True:
            pause = PAUSE
            try:
                while await self.deliver_one(utc_now()):
                    pass
            except DrainboardError as error:
                log.warning("webhook.waits", webhook=self.webhook.name, code=error.code, message=error.message)
                pause = AFTER_A_FAULT
            except Exception as error:  # noqa: BLE001 - a fault of ours in one message must not end all that would follow
                log.error("webhook.crashed", webhook=self.webhook.name, kind=type(error).__name__)
                pause = AFTER_A_FAULT
            await asyncio.sleep(pause)

    async def deliver_one(self, now: datetime) -> bool:
        """Send the message that has been due longest; whether there was one. No transaction is open meanwhile."""
        async with self._store.database.read() as connection:
            if not await outbox.is_due(connection, self.webhook.name, now):
                return False
        async with self._store.database.write() as connection:
            claimed = await outbox.claim(connection, self.webhook.name, now=now, lease=LEASE)
            overtaken = claimed is not None and await outbox.is_overtaken(connection, claimed.id)
        if claimed is None:
            return False
        outcome = Outcome("overtaken") if overtaken else await self._attempt(claimed, now)
        changes = after_attempt(outcome, claimed.attempts, now)
        async with self._store.database.write() as connection:
            await outbox.settle(connection, claimed, changes)
        log.info(
            f"webhook.{changes['state']}",
            webhook=self.webhook.name,
            job=claimed.id,
            kind=claimed.event,
            attempt=claimed.attempts,
            status=outcome.status,
            problem=outcome.problem,
        )
        return True

    async def _attempt(self, claimed: Claimed, now: datetime) -> Outcome:
        try:
            headers = signed(self.webhook.secret(), claimed, now)
        except SettingsError:
            return Outcome("no_secret")
        try:
            async with asyncio.timeout(self.webhook.timeout.total_seconds()):
                return await self._post(claimed.body.encode(), headers)
        except (TimeoutError, httpx.TimeoutException):
            return Outcome("timeout")
        except (httpx.HTTPError, httpx.InvalidURL, OSError):
            return Outcome("unreachable")

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> Outcome:
        """Send, and look at the status alone: what a receiver writes is never read."""
        self._client.cookies.clear()
        async with self._client.stream("POST", self.webhook.url, content=body, headers=headers) as answer:
            return judged(answer.status_code, answer.headers.get("retry-after"), utc_now())

    async def aclose(self) -> None:
        """Give the connections back."""
        await self._client.aclose()


def signed(secret: str, claimed: Claimed, now: datetime) -> dict[str, str]:
    """The headers of a message, as Standard Webhooks say."""
    return {
        "content-type": "application/json",
        "webhook-id": claimed.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(claimed.id, now, claimed.body),
    }


def judged(status: int, retry_after: str | None, now: datetime) -> Outcome:
    """What an answer means."""
    if 200 <= status < 300:
        return Outcome(None, status)
    if 300 <= status < 400:
        return Outcome("redirected", status)
    if status == 410:
        return Outcome("gone", status)
    return Outcome("refused", status, _wait(retry_after, now))


def after_attempt(outcome: Outcome, attempts: int, now: datetime) -> dict[str, Any]:
    """What is written of an attempt, the ``attempts``-th."""
    told = {"status": outcome.status, "problem": outcome.problem}
    if outcome.problem is None:
        return told | {"state": "delivered", "ended_at": now}
    if outcome.problem in ("gone", "overtaken") or attempts > len(STEPS):
        return told | {"state": "dead", "ended_at": now}
    step = STEPS[attempts - 1] * (1 + JITTER * random.random())  # noqa: S311 - so that many do not come at once
    return told | {"state": "waiting", "next_at": now + max(step, outcome.wait)}


def _wait(raw: str | None, now: datetime) -> timedelta:
    """How long ``Retry-After`` asks us to stay away, of at most a day."""
    if raw is None:
        return timedelta()
    try:
        found = timedelta(seconds=int(raw)) if raw.isdecimal() else parsedate_to_datetime(raw) - now
    except (ValueError, TypeError, OverflowError):
        return timedelta()
    return min(max(found, timedelta()), LONGEST_WAIT)
