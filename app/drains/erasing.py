"""Erases one thread from everything that is kept, and takes care that nothing is drained because of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.dispositions import Disposition
from app.drains.register import By
from app.drains.service import Drains
from app.errors import Conflict, NotFound
from app.facts.privacy import pseudonym
from app.facts.types import Condition, LeafSource, ThreadFacts
from app.inventory import erasing, reads, register
from app.inventory.erasing import Subject
from app.inventory.store import Store
from app.settings import DeploymentSettings

_ONLY_HERE = (Condition.STRANDED, Condition.LOST)
_READ_EARLIER = (
    Condition.UNREAD,
    Condition.UNREADABLE,
    Condition.GRAPH_MISSING,
    Condition.RUNNING,
    Condition.SCHEDULED,
)  # what is pending is what an earlier reading saw
_NEEDS_NOTHING = frozenset(
    found.value for found in Disposition if found.group == "clear" or found in (Disposition.GONE, Disposition.RETENTION)
)


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased. ``pseudonym``: what the audit calls the thread; ``rows``: deleted or changed, by table."""

    deployment: str
    pseudonym: str
    rows: Mapping[str, int]


class Erasure:
    """Raises ``NotFound`` and ``Conflict`` (``only_here``, ``still_listed``, ``vanished``)."""

    def __init__(self, store: Store, drains: Drains) -> None:
        self._store = store
        self._drains = drains

    async def erase(self, settings: DeploymentSettings, thread_id: str, by: By) -> Erased:
        """Forget a thread. One that the server still has comes back with the next sweep, and no drain of the deployment is
        drained before."""
        called = pseudonym(self._store.hash_key, settings.name, thread_id)
        async with self._store.database.write() as connection:
            await register.lock_places(connection, deployments=[settings.name])
            row = await reads.find_deployment(connection, settings.name)
            if row is None:
                raise _nothing()
            await self._check(connection, row.id, settings, thread_id)
            void = await self._may_hide_behind(connection, row.id, thread_id, by)
            was_listed = await erasing.is_listed(connection, row.id, thread_id)
            rows = await erasing.erase(connection, Subject(row.id, thread_id, called, self._store.hash_key))
            if not rows:
                raise _nothing()
            await erasing.want_everything_again(connection, row.id, {"sweep_wanted_at": by.now})
            await erasing.void_removals(connection, sorted(void))
            if was_listed:
                await erasing.distrust_index(connection, row.id)
            await register.add_activity(
                connection,
                row.id,
                now=by.now,
                actor=by.actor,
                action="thread.erased",
                subject=called,
                detail={"rows": dict(rows)},
            )
        await self._store.database.settle_file()
        return Erased(settings.name, called, rows)

    async def _check(
        self, connection: AsyncConnection, deployment_id: int, settings: DeploymentSettings, thread_id: str
    ) -> None:
        known = await reads.find_thread(connection, self._store.dictionaries(deployment_id), thread_id)
        if known is not None and _is_only_here(known[0]):
            raise Conflict(
                f"This thread is {known[0].condition.value}, and the server does not show what waits there or was lost: nobody would "
                "know any more. Delete it on the server, or put its node back, and erase it after the next poll.",
                code="only_here",
            )
        if settings.reported and await erasing.is_listed(connection, deployment_id, thread_id):
            raise Conflict(
                "The application's index lists this thread, and a reporter tells of those that are listed. Take it off the index "
                "first.",
                code="still_listed",
            )
        alarms = await reads.list_alarms(connection, deployment_id, settings.name)
        if any(alarm.code == "mass_disappearance" and alarm.acknowledged_at is None for alarm in alarms):
            raise Conflict(
                "Many threads vanished at once, and what is kept of them is the evidence. Acknowledge mass_disappearance first.",
                code="vanished",
            )

    async def _may_hide_behind(
        self, connection: AsyncConnection, deployment_id: int, thread_id: str, by: By
    ) -> Collection[int]:
        """Drains whose target was removed, for which the thread is not known to need nothing: without the node the server would
        not show that it does. Of a closed drain nobody knows."""
        mentions = await self._drains.mentions(connection, deployment_id, thread_id, now=by.now)
        means = {each.name: each.disposition for each in mentions}
        rows: list[Any] = await reads.lock_drains(connection, deployment_id)
        removed = [row for row in rows if row.removed]
        return {
            row.id
            for row in removed
            if row.closed_at is not None or (row.name in means and means[row.name] not in _NEEDS_NOTHING)
        }


def _is_only_here(facts: ThreadFacts) -> bool:
    """Whether something is known of a thread that the server would not show again."""
    if facts.condition is Condition.GONE:
        return False
    return facts.condition in _ONLY_HERE or any(
        leaf.lost or leaf.source is not LeafSource.STATE or facts.condition in _READ_EARLIER
        for leaf in facts.leaves
        if not leaf.acknowledged
    )


def _nothing() -> NotFound:
    return NotFound("Nothing is kept of a thread with this id in this deployment.")
