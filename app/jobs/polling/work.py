"""The poll that runs, and what it works with."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import monotonic
from app.drains.service import Drains
from app.inventory import writes
from app.inventory.store import Store
from app.inventory.writes import Dictionaries
from app.jobs.polling.lock import PollLock
from app.jobs.readings import Readings
from app.logs import get_logger
from app.settings import DeploymentSettings
from app.sources.agent_server.client import AgentServer

TELL_EVERY = 5.0  # seconds between two lines about a long poll
BATCH = 200

log = get_logger("poll")

REASONS = {
    "row_malformed": "A thread's row could not be understood; it was left out.",
    "order_unknown": "The server lists threads in no order that holds from page to page (by id, creation or change), so rows "
    "may have been skipped.",
    "list_stuck": "The server's list of threads did not come to an end, so rows may be missing.",
    "page_too_small": "The server sends one thread a page, so nothing shows that none was skipped.",
    "deployed_meanwhile": "A graph was deployed while states were read; the next sweep reads them again.",
    "throttled": "The server asked to slow down, and the poll was cut short.",
    "source_failed": "The server could not be asked to the end.",
    "database": "The database could not be written.",
    "lease_lost": "Another process took over the poll.",
}


@dataclass
class Poll:
    """The poll that runs: what it is, how far it got, and why it is not complete."""

    id: int
    deployment_id: int
    kind: Literal["sweep", "scan"]
    started_at: datetime
    reasons: dict[str, str] = field(default_factory=dict)
    alarms: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    seen: int = 0
    expected: int | None = None
    watermark: datetime | None = None
    began_from: datetime | None = None
    moved_ids: set[str] = field(default_factory=set)  # of a scan
    asked: bool = False
    told_at: float = field(default_factory=monotonic)
    revision_held: bool = False  # the graphs were looked at again at the end, or nothing was read
    assistants: dict[str, str] = field(default_factory=dict)
    capabilities: dict[str, bool | str | None] = field(default_factory=dict)
    sorts: bool = False  # the server was seen to list threads in the order that was asked for
    first_id: int = 0  # of the poll that began this sweep: an earlier one, where that was stopped
    trusted_at: datetime | None = None  # readings until then were made under the stored revisions
    sample: str | None = None  # a thread to try the server's routes with

    def __post_init__(self) -> None:
        self.first_id = self.first_id or self.id

    @property
    def unsure_since(self) -> datetime:
        """Readings since then are not known yet to be made under the stored revisions."""
        return self.trusted_at or self.started_at

    def miss(self, code: str) -> None:
        """Something was not seen: the poll is incomplete."""
        self.reasons.setdefault(code, REASONS[code])


@dataclass
class Work:
    """What the steps of one poll work with. ``reading`` and ``writing`` are short transactions: no request is made in one."""

    settings: DeploymentSettings
    store: Store
    drains: Drains
    server: AgentServer
    lock: PollLock
    poll: Poll
    told_pace: dict[str, object] | None = field(default_factory=dict)  # what is kept now; at first nobody knows

    @property
    def deployment_id(self) -> int:
        """The deployment's id in the database."""
        return self.poll.deployment_id

    @property
    def dictionaries(self) -> Dictionaries:
        """The dictionary entries of the deployment."""
        return self.store.dictionaries(self.poll.deployment_id)

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A consistent look into the database."""
        return self.store.database.read()

    def writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction of this poll, while the lock is ours."""
        return self.lock.writing()

    async def keep_progress(self, connection: AsyncConnection, readings: Readings) -> None:
        """How far the poll got, in the transaction that writes what it got."""
        self._tell(readings)
        await self.keep_pace(connection)
        await writes.update_poll(
            connection,
            self.poll.id,
            threads_seen=self.poll.seen,
            threads_expected=self.poll.expected,
            states_read=readings.done,
            states_wanted=readings.wanted,
        )

    async def keep_pace(self, connection: AsyncConnection) -> None:
        """How fast the server may be asked, when that has changed."""
        pace = self.server.pace
        at = pace.slowed_at.isoformat() if pace.slowed_at else None
        told: dict[str, object] = {"requests_per_minute": pace.requests_per_minute, "concurrency": pace.concurrency}
        raw = told | {"slowed_at": at, "because": pace.because} if pace.is_slowed else None
        if raw != self.told_pace:
            self.told_pace = raw
            await writes.update_deployment(connection, self.deployment_id, pace=raw)

    def _tell(self, readings: Readings) -> None:
        poll = self.poll
        if monotonic() - poll.told_at >= TELL_EVERY:
            poll.told_at = monotonic()
            log.info(
                "poll.progress",
                deployment=self.settings.name,
                poll=poll.id,
                seen=poll.seen,
                expected=poll.expected,
                states_read=readings.done,
            )


def threads(count: int) -> str:
    """``1 thread``, ``2,000 threads``."""
    return f"{count:,} thread" if count == 1 else f"{count:,} threads"
