"""Takes what a reporter tells of a deployment without a server: a pass begins, threads come in batches, the pass ends.

A pass over all threads is what a sweep is elsewhere. It counts only when nothing is left: every thread that was ever told of,
and every one that the thread index lists, was told of in this pass. Its readings are those of the code of its reporter: one that
has other code begins a pass of its own, which ends this one. Every message may be sent twice.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

from app.clock import monotonic, utc_now
from app.drains.service import Drains
from app.errors import BadRequest, Conflict, StoreError
from app.facts.types import ThreadFacts
from app.inventory import reads, register, reporters, writes
from app.inventory.reporters import ReportedPass
from app.inventory.store import Store
from app.inventory.tables import NEVER
from app.jobs.report_begin import Work, add_listed, begin_pass
from app.jobs.report_end import end_pass
from app.jobs.report_threads import take_threads
from app.jobs.told import AskLeft, End, FactsTaken, Left, Message
from app.settings import DeploymentSettings

LEASE = timedelta(seconds=60)
LONGEST_WAIT = 20.0  # seconds for another batch of the same deployment
MAX_LINES = 1000
MAX_LEFT = 1000


class Reporting:
    """Takes the messages of reporters. Raises ``NotFound``, ``BadRequest`` and ``Conflict`` (``pass_ended``, ``other_graph``)."""

    def __init__(self, store: Store, drains: Drains) -> None:
        self._store = store
        self._drains = drains

    async def take(self, settings: DeploymentSettings, message: Message) -> FactsTaken:
        """One message."""
        if not settings.reported:
            raise BadRequest(
                f"The deployment {settings.name} has a server, which Drainboard asks itself. Set reported = true for a deployment "
                "that a reporter tells of.",
                code="not_reported",
            )
        if len(message.threads) > MAX_LINES:
            raise BadRequest(f"One message may have {MAX_LINES:,} threads; send several.")
        async with self._alone(settings.name) as deployment_id:
            work = Work(self._store, settings, deployment_id, utc_now())
            found = await self._pass(work, message)
            if message.threads:
                await take_threads(work, found, message.threads)
            if message.left is not None:
                await self._tell_left(work, found, message.left)
            if message.end is not None:
                await self._end(work, found, message.end)
            return replace(work.answer, pass_id=found.pass_id)

    async def add_listed(self, settings: DeploymentSettings) -> None:
        """Threads for what the index lists by now: unread, until a reporter tells of them."""
        async with self._alone(settings.name) as deployment_id:
            work = Work(self._store, settings, deployment_id, utc_now())
            async with self._store.database.write() as connection:
                await register.lock_places(connection, deployments=[settings.name])
                found = await reporters.find_pass(connection, deployment_id)
                await add_listed(connection, work, found.graph_id if found else None)

    async def _pass(self, work: Work, message: Message) -> ReportedPass:
        """The pass that a message belongs to, begun if it asks for that."""
        async with self._store.database.read() as connection:
            known = await reporters.find_pass(connection, work.deployment_id)
        if message.begin is not None:
            return await begin_pass(work, known, message.pass_id, message.begin)
        if known is None or known.pass_id != message.pass_id or known.ended_at is not None:
            raise Conflict(
                "This pass is over, or another reporter has begun one with other code. Begin a new one.",
                code="pass_ended",
            )
        async with self._store.database.write() as connection:
            await reporters.keep_pass(connection, work.deployment_id, replace(known, told_at=work.now))
        return known

    # -- what is left, and the end -------------------------------------------------------------------------------

    async def _tell_left(self, work: Work, found: ReportedPass, ask: AskLeft) -> None:
        limit = min(max(1, ask.limit), MAX_LEFT)
        dictionaries = self._store.dictionaries(work.deployment_id)
        async with self._store.database.read() as connection:
            if ask.ids is None:
                ids = await reporters.list_left(connection, work.deployment_id, found, after=ask.after, limit=limit)
            else:
                asked = list(dict.fromkeys(ask.ids))[:MAX_LEFT]
                told = await reporters.list_told(connection, work.deployment_id, found, asked)
                ids = [one for one in asked if one not in told]
            known = await reads.known_threads(connection, dictionaries, ids)
        work.answer = replace(
            work.answer, left=tuple(Left(one, _waits(known.get(one)), _head(known.get(one))) for one in ids)
        )

    async def _end(self, work: Work, found: ReportedPass, end: End) -> None:
        async with self._store.database.write() as connection:
            await register.lock_places(connection, deployments=[work.settings.name])
            await add_listed(connection, work, found.graph_id)
            left = await reporters.list_left(connection, work.deployment_id, found, after="", limit=1)
            seen = await reads.count_threads(connection, work.deployment_id, reporters.is_told_in(found))
            if left and not end.problems:
                return
            reasons = _reasons(end, is_left=bool(left), seen=seen)
            await end_pass(
                self._store,
                self._drains,
                connection,
                work.settings.name,
                found,
                reasons=reasons,
                seen=seen,
                now=work.now,
            )
        sentences = tuple(sentence for _, sentence in reasons)
        work.answer = replace(work.answer, ended=True, complete=not reasons, reasons=sentences, reported=seen)

    # -- one at a time -------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[int]:
        """The right to write this deployment, for one message."""
        holder, until = f"facts-{secrets.token_hex(8)}", monotonic() + LONGEST_WAIT
        database = self._store.database
        async with database.write() as connection:
            deployment_id = await writes.ensure_deployment(connection, name, utc_now())
        while True:
            async with database.write() as connection:
                if await writes.take_lock(connection, deployment_id, holder=holder, now=utc_now(), lease=LEASE):
                    break
            if monotonic() > until:
                raise StoreError("Another message of this deployment is being taken. Send this one again.", code="busy")
            await asyncio.sleep(0.05)
        try:
            yield deployment_id
        finally:
            async with database.write() as connection:
                await writes.release_lock(connection, deployment_id, holder=holder)


def _waits(known: ThreadFacts | None) -> tuple[tuple[str, str, str], ...]:
    leaves = known.leaves if known is not None else ()
    return tuple(
        (leaf.task_id, leaf.ns, leaf.checkpoint_id)
        for leaf in leaves
        if leaf.task_id and leaf.checkpoint_id and not leaf.lost
    )


def _head(known: ThreadFacts | None) -> str | None:
    if known is None or known.state is None or known.gone_at is not None or known.row.created_at == NEVER:
        return None
    return known.state.checkpoint_id


def _reasons(end: End, *, is_left: bool, seen: int) -> list[tuple[str, str]]:
    """Why a pass that its reporter ended does not count."""
    reasons = []
    if end.problems:
        reasons.append(("not_taken", "The reporter could not tell of some threads; its own output names them."))
    if is_left:
        reasons.append(("threads_left", "Threads were left that the pass did not tell of."))
    if end.ids > seen:
        reasons.append(("ids_missing", "Fewer threads were told of than the reporter was given."))
    return reasons
