"""What the pages ask for: one question, one method. Methods raise ``app.errors.NotFound`` and ``BadRequest``."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from app.drains.answers import Actor, Answer, BlockingThread
from app.drains.burndown import BurnDown
from app.drains.trends import Trend
from app.inventory.evaluations import HeldAnswer, StoredAnswer
from app.inventory.finding import Found
from app.inventory.views import (
    Alarm,
    DeploymentStatus,
    DeployPage,
    DeployReport,
    Evidence,
    Inventory,
    NodeEntry,
    NodeTraces,
    PollSummary,
    ThreadPage,
)
from app.inventory.waiting_at import WaitingAt
from app.jobs.who_works import Work
from app.rights import Caller

Filters = Mapping[str, tuple[str, ...]]


class Dashboard(Protocol):
    """Answers what the pages show. ``filters`` maps a facet (design §8) to values: same key OR, different keys AND."""

    def seen_by(self, caller: Caller) -> "Dashboard":
        """The same, with no more in its lists than a caller may see."""
        ...

    async def work(self) -> Work:
        """Who polls, and whether anybody is there to do so."""
        ...

    async def deployments(self) -> tuple[DeploymentStatus, ...]:
        """All deployments that the caller may see."""
        ...

    async def deployment(self, name: str) -> DeploymentStatus:
        """One deployment, with its alarms, polls and graph revisions."""
        ...

    async def deploys(self, name: str, cursor: str | None, limit: int) -> DeployPage:
        """A page of the deploys that were noticed, newest first."""
        ...

    async def deploy_threads(
        self, name: str, deploy_id: int, fate: str | None, cursor: str | None, limit: int
    ) -> DeployReport:
        """One deploy, and a page of the threads that waited at a node which it removed."""
        ...

    async def inventory(self, name: str, filters: Filters) -> Inventory:
        """Counts by facet of the threads that the filters let through."""
        ...

    async def waiting(self, name: str, filters: Filters) -> tuple[WaitingAt, ...]:
        """Those threads by the nodes where they are pending."""
        ...

    async def threads(self, name: str, filters: Filters, cursor: str | None, limit: int, sort: str) -> ThreadPage:
        """A page of those threads. ``sort``: ``-updated_at``, ``created_at`` or ``thread_id``."""
        ...

    async def evidence(self, name: str, thread_id: str, live: bool) -> Evidence:
        """The evidence report of one thread; ``live`` reads the server now. An unknown thread is ``found=False``."""
        ...

    async def assistant_name(self, name: str, assistant_id: str) -> str | None:
        """What the server calls an assistant of a deployment; None: it did not tell."""
        ...

    async def entries(self, name: str, nodes: Collection[str], limit: int) -> tuple[NodeEntry, ...]:
        """The newest traced runs of these nodes, newest first."""
        ...

    async def nodes(self, name: str, nodes: Collection[str]) -> tuple[NodeTraces, ...]:
        """What the traces say of these nodes; empty where no traces were ever read."""
        ...

    async def drains(self) -> tuple[Answer, ...]:
        """The answers of all drains that the caller may see."""
        ...

    async def drain(self, name: str) -> Answer:
        """The answer of one drain, decided now."""
        ...

    async def drain_threads(
        self,
        name: str,
        disposition: str | None,
        cursor: str | None,
        limit: int,
        *,
        reason: str | None = None,
        target: str | None = None,
        actor: Actor | None = None,
    ) -> tuple[tuple[BlockingThread, ...], str | None, int]:
        """A page of a drain's threads, oldest first: items, next cursor, total.

        Those with the disposition (for one target, by its key), or those that the reason counts; with neither, all that block.
        ``actor``: of these, those that this one must act on.
        """
        ...

    async def trends(self) -> tuple[Trend, ...]:
        """How each drain went since it began to observe, of the last two weeks."""
        ...

    async def past_answers(
        self, name: str, before: int | None, limit: int
    ) -> tuple[tuple[StoredAnswer, ...], int | None]:
        """A page of the stored answers of a drain, newest first, and where the next one begins."""
        ...

    async def past_answer(self, name: str, *, at: datetime | None = None, number: int | None = None) -> HeldAnswer:
        """What a drain said at a time, or one stored answer by its number."""
        ...

    async def evaluations(self, name: str) -> Sequence[Mapping[str, object]]:
        """The stored answers of a drain as the API has them, newest first."""
        ...

    async def history(self, name: str) -> BurnDown:
        """How a drain went in the last days."""
        ...

    async def alarms(self) -> tuple[Alarm, ...]:
        """The open alarms of all deployments."""
        ...

    async def find(self, text: str) -> Found:
        """What the text names, or begins like, in all deployments and drains."""
        ...

    async def running_poll(self, name: str) -> PollSummary | None:
        """The poll of a deployment that runs now."""
        ...

    async def start_poll(self, name: str, full: bool) -> PollSummary:
        """Starts a scan, or a sweep when ``full``; a poll that runs already is returned."""
        ...
