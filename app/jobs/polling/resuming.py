"""A sweep that was stopped goes on where it was, and is still exact.

Now and then a long sweep makes sure that nothing was deployed, and remembers how far it is. The next sweep goes on from there
and counts from the *first* beginning: what moved since, or came behind the place, is found by the scan from that moment, and
its age is that of the first beginning. A deploy in between makes it begin anew.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import utc_now
from app.inventory import reads, writes
from app.inventory.origin import asked_of
from app.jobs.listing import Place, Walk
from app.jobs.polling.graphs import check_no_deploy
from app.jobs.polling.work import Work, log
from app.sources.agent_server.client import Deployed

WITHIN = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a sweep got. ``poll_id`` and ``began_at`` are of its first beginning, ``changed_at`` the newest change then;
    readings until ``trusted_at`` were made under the revisions that are stored. ``cursor``: the last id, ``seen`` rows in.
    ``asked``: a keyed hash of which server was asked, with which key, and for what of a row."""

    poll_id: int
    began_at: datetime
    trusted_at: datetime
    changed_at: datetime
    cursor: str
    seen: int
    asked: str | None = None

    @property
    def place(self) -> Place:
        """Where the list goes on."""
        return Place(self.cursor, self.seen)

    def is_usable(self, asked: str | None, row: Any, now: datetime) -> bool:
        """Whether a sweep may go on from here: not when it is old, was made of another server or with other settings, or
        something has asked for a whole one since, or a thread was erased, which may stand before this place. ``row``: of the
        deployment."""
        if asked is None or asked != self.asked or self.poll_id <= (row.erased_poll_id or 0):
            return False
        sweep_wanted_at = row.sweep_wanted_at
        return now - self.began_at < WITHIN and (sweep_wanted_at is None or sweep_wanted_at <= self.began_at)


def mark_of(raw: Mapping[str, Any] | None) -> Mark | None:
    """A mark as it is kept."""
    if raw is None:
        return None
    times = {name: datetime.fromisoformat(raw[name]) for name in ("began_at", "trusted_at", "changed_at")}
    return Mark(**{**raw, **times})


async def resume(work: Work) -> Mark | None:
    """The mark to go on from, after the graphs were looked at; None: the sweep begins at the beginning."""
    poll = work.poll
    async with work.writing() as connection:
        row = await reads.find_deployment(connection, work.settings.name)
        mark = mark_of(row.sweep_mark) if row is not None else None
        if (
            row is None
            or mark is None
            or not mark.is_usable(asked_of(work.settings, work.store.hash_key), row, utc_now())
        ):
            await _forget(connection, work)
            return None
        await writes.update_poll(connection, poll.id, started_at=mark.began_at)
    poll.first_id, poll.started_at, poll.trusted_at = mark.poll_id, mark.began_at, mark.trusted_at
    log.info("sweep.resumed", deployment=work.settings.name, poll=poll.id, seen=mark.seen)
    return mark


async def remember(work: Work, walk: Walk, deployed: Deployed, *, changed_at: datetime, cursor: str) -> None:
    """Remember how far the sweep is. No state is being read at this moment. Behind a row that was left out it stays where it
    was: the sweep that goes on must meet that row again."""
    poll, now = work.poll, utc_now()
    if not walk.by_id:
        async with work.writing() as connection:
            await _forget(connection, work)
        return
    if walk.reasons or not await check_no_deploy(work, deployed):
        return
    poll.trusted_at = now
    mark = Mark(
        poll.first_id, poll.started_at, now, changed_at, cursor, poll.seen, asked_of(work.settings, work.store.hash_key)
    )
    times = {name: getattr(mark, name).isoformat() for name in ("began_at", "trusted_at", "changed_at")}
    async with work.writing() as connection:
        await writes.update_deployment(connection, work.deployment_id, sweep_mark=asdict(mark) | times)


async def _forget(connection: AsyncConnection, work: Work) -> None:
    await writes.update_deployment(connection, work.deployment_id, sweep_mark=None)
