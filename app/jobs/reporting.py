"""Takes what a reporter tells of a deployment without a server: a pass begins, threads come in batches, the pass ends.

A pass over all threads is what a sweep is elsewhere. It counts only when nothing is left: every thread that was ever told of,
and every one that the thread index lists, was told of in this pass. Its readings are those of the code of its reporter: one that
has other code begins a pass of its own, which ends this one. Every message may be sent twice.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import monotonic, utc_now
from app.drains.service import Drains
from app.errors import BadRequest, Conflict, StoreError
from app.facts.types import StateFailure, ThreadFacts, Topology
from app.inventory import deploys, index, reads, reporters, writes
from app.inventory.current import current_of
from app.inventory.reporters import ReportedPass
from app.inventory.revisions import Drawn, keep_revisions, list_drawings
from app.inventory.store import Store
from app.inventory.tables import NEVER
from app.jobs.lines import read_topology, told_of
from app.jobs.pushed import HistoryWanted, Told, Under, judge_told
from app.jobs.reported_end import end_pass
from app.jobs.told import AskLeft, Begin, End, FactsTaken, HowToRead, Left, LineProblem, Message
from app.settings import DeploymentSettings, ThreadIndexSettings

LEASE = timedelta(seconds=60)
LONGEST_WAIT = 20.0  # seconds for another batch of the same deployment
RESUME_WITHIN = timedelta(minutes=15)  # since its last message
LONGEST_PASS = timedelta(hours=6)
MAX_LINES = 1000
MAX_LEFT = 1000


@dataclass
class _Work:
    """One message being taken."""

    settings: DeploymentSettings
    deployment_id: int
    now: datetime
    answer: FactsTaken = field(default_factory=lambda: FactsTaken(""))


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
            work = _Work(settings, deployment_id, utc_now())
            found = await self._pass(work, message)
            if message.threads:
                await self._take_threads(work, found, message.threads)
            if message.left is not None:
                await self._tell_left(work, found, message.left)
            if message.end is not None:
                await self._end(work, found, message.end)
            return replace(work.answer, pass_id=found.pass_id)

    async def add_listed(self, settings: DeploymentSettings) -> None:
        """Threads for what the index lists by now: unread, until a reporter tells of them."""
        async with self._alone(settings.name) as deployment_id:
            work = _Work(settings, deployment_id, utc_now())
            async with self._store.database.write() as connection:
                found = await reporters.find_pass(connection, deployment_id)
                await self._add_listed(connection, work, found.graph_id if found else None)

    # -- beginning -----------------------------------------------------------------------------------------------

    async def _pass(self, work: _Work, message: Message) -> ReportedPass:
        """The pass that a message belongs to, begun if it asks for that."""
        async with self._store.database.read() as connection:
            known = await reporters.find_pass(connection, work.deployment_id)
        if message.begin is not None:
            return await self._begin(work, known, message.pass_id, message.begin)
        if known is None or known.pass_id != message.pass_id or known.ended_at is not None:
            raise Conflict(
                "This pass is over, or another reporter has begun one with other code. Begin a new one.",
                code="pass_ended",
            )
        async with self._store.database.write() as connection:
            await reporters.keep_pass(connection, work.deployment_id, replace(known, told_at=work.now))
        return known

    async def _begin(self, work: _Work, known: ReportedPass | None, pass_id: str, begin: Begin) -> ReportedPass:
        topology, hashed = read_topology(orjson.dumps(begin.topology))
        if known is not None and known.graph_id != topology.graph_id:
            raise Conflict(
                f"The deployment {work.settings.name} is reported for the graph {known.graph_id}. A graph of another name needs "
                "a deployment of its own; the option --graph-id names it.",
                code="other_graph",
            )
        goes_on = known is not None and _goes_on(known, pass_id, hashed, begin, work.now)
        async with self._store.database.write() as connection:
            if known is not None and goes_on:
                found = replace(known, told_at=work.now)
            else:
                found = await self._begin_anew(connection, work, pass_id, begin=begin, topology=topology, hashed=hashed)
            await reporters.keep_pass(connection, work.deployment_id, found)
            told = await reads.count_threads(connection, work.deployment_id, reporters.is_told_in(found))
            reading = await self._how_to_read(connection, work)
        work.answer = replace(work.answer, reported=told, reading=reading)
        return found

    async def _begin_anew(
        self, connection: AsyncConnection, work: _Work, pass_id: str, *, begin: Begin, topology: Topology, hashed: str
    ) -> ReportedPass:
        """A new pass: a poll, the graph as the reporter has it, and threads for what is listed."""
        now = work.now
        poll_id = await writes.begin_poll(connection, work.deployment_id, kind="sweep", now=now)
        changes = await keep_revisions(connection, work.deployment_id, [Drawn(topology)], now=now)
        if changes:
            await deploys.keep_deploy(connection, work.deployment_id, changes, poll_id=poll_id, now=now)
        revisions = await reads.list_revisions(connection, work.deployment_id)
        deployed = next(one for one in revisions if one.vanished_at is None and one.graph == topology.graph_id)
        await self._add_listed(connection, work, topology.graph_id)
        return ReportedPass(
            pass_id=pass_id,
            poll_id=poll_id,
            graph_id=topology.graph_id,
            topology_hash=hashed,
            revision_id=deployed.id,
            saver=begin.saver,
            langgraph_version=begin.langgraph,
            lists=begin.ids,
            began_at=now,
            told_at=now,
            ended_at=None,
            watermark=await reporters.newest_change(connection, work.deployment_id),
        )

    async def _add_listed(self, connection: AsyncConnection, work: _Work, graph_id: str | None) -> None:
        await reporters.add_listed(
            connection,
            self._store.dictionaries(work.deployment_id),
            graph_id,
            expired_before=_expired_before(work.settings, work.now),
            now=work.now,
        )

    async def _how_to_read(self, connection: AsyncConnection, work: _Work) -> HowToRead:
        settings = work.settings
        declared = await reads.list_declared_fields(connection, work.deployment_id)
        renames = {
            (target["name"], target["new"])
            for row in await reads.list_drains(connection)
            if row.deployment_id == work.deployment_id and row.closed_at is None
            for target in row.spec["targets"]
            if target["kind"] == "rename"
        }
        return HowToRead(
            names=tuple(sorted(declared | set(settings.all_version_keys))),
            key=self._store.key_of(settings).hex(),
            version_keys=settings.all_version_keys,
            renames=tuple(sorted(renames)),
            metadata_keys=settings.metadata_keys,
        )

    # -- threads -------------------------------------------------------------------------------------------------

    async def _take_threads(self, work: _Work, found: ReportedPass, lines: Sequence[Mapping[str, Any]]) -> None:
        told, problems = await self._parsed(work, found, lines)
        dictionaries = self._store.dictionaries(work.deployment_id)
        async with self._store.database.read() as connection:
            known = await reads.known_threads(connection, dictionaries, list(told))
            entries = await reporters.find_entries(connection, work.deployment_id, list(told))
            under = await self._under(connection, work, found)
        expired_before = _expired_before(work.settings, work.now)
        threads, again, expired = [], [], []
        for thread_id, one in told.items():
            before = known.get(thread_id)
            if _has_expired(one, before, entries.get(thread_id), expired_before):
                expired.append(thread_id)
                continue
            try:
                threads.append(await judge_told(one, before, under, work.now))
            except HistoryWanted:
                again.append(thread_id)
        async with self._store.database.write() as connection:
            await writes.upsert_threads(connection, dictionaries, threads, poll_id=found.poll_id)
            await reporters.drop_expired(connection, work.deployment_id, expired)
            missing = [one for one in told if told[one].state is StateFailure.THREAD_MISSING and one in entries]
            await index.set_found(connection, work.deployment_id, dict.fromkeys(missing, index.MISSING), now=work.now)
            await self._progress(connection, work, found)
        taken = len(threads) + len(expired)
        work.answer = replace(work.answer, taken=taken, problems=tuple(problems), again=tuple(again))

    async def _parsed(
        self, work: _Work, found: ReportedPass, lines: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, Told], list[LineProblem]]:
        """What the lines say, by thread; a bad line does not keep the others out."""
        settings = work.settings
        async with self._store.database.read() as connection:
            names = await self._store.names(connection, work.deployment_id, settings)
        told: dict[str, Told] = {}
        problems = []
        for number, line in enumerate(lines, 1):
            try:
                one = told_of(
                    orjson.dumps(line), names, settings.all_version_keys, settings.metadata_keys, found.graph_id
                )
                told[one.thread_id] = one
            except (ValueError, TypeError) as error:
                sentence = str(error) if isinstance(error, ValueError) else "it is no thread"
                problems.append(LineProblem(number, sentence))
        return told, problems

    async def _under(self, connection: AsyncConnection, work: _Work, found: ReportedPass) -> Under:
        revisions = await reads.list_revisions(connection, work.deployment_id)
        drains = await reads.list_drains(connection)
        candidates = {node for revision in revisions for node in revision.nodes}
        for row in drains:
            if row.deployment_id == work.deployment_id:
                candidates |= {target["name"] for target in row.spec["targets"] if target["kind"] == "node"}
        return Under(
            graph_id=found.graph_id,
            revisions={revision.id: revision for revision in revisions},
            current=current_of(revisions, await list_drawings(connection, work.deployment_id)),
            candidates=candidates,
            stuck_after=work.settings.stuck_after,
        )

    async def _progress(self, connection: AsyncConnection, work: _Work, found: ReportedPass) -> None:
        seen = await reads.count_threads(connection, work.deployment_id, reporters.is_told_in(found))
        await writes.update_poll(connection, found.poll_id, threads_seen=seen, states_read=seen, states_wanted=seen)

    # -- what is left, and the end -------------------------------------------------------------------------------

    async def _tell_left(self, work: _Work, found: ReportedPass, ask: AskLeft) -> None:
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

    async def _end(self, work: _Work, found: ReportedPass, end: End) -> None:
        async with self._store.database.write() as connection:
            await self._add_listed(connection, work, found.graph_id)
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
        except BaseException:
            self._store.dictionaries(deployment_id).forget()
            raise
        finally:
            async with database.write() as connection:
                await writes.release_lock(connection, deployment_id, holder=holder)


def _goes_on(known: ReportedPass, pass_id: str, hashed: str, begin: Begin, now: datetime) -> bool:
    """Whether a reporter that begins goes on with the pass under way: the same message again, or another process with the same
    code, soon after the one before stopped."""
    if known.ended_at is not None or known.topology_hash != hashed:
        return False
    same_store = (known.saver, known.lists) == (begin.saver, begin.ids)
    is_recent = now - known.told_at <= RESUME_WITHIN and now - known.began_at <= LONGEST_PASS
    return known.pass_id == pass_id or (same_store and is_recent)


def _expired_before(settings: DeploymentSettings, now: datetime) -> datetime:
    return now - (settings.thread_index or ThreadIndexSettings()).expires_after


def _has_expired(told: Told, known: ThreadFacts | None, entry: Any | None, expired_before: datetime) -> bool:
    """Whether a listed id of which nothing is stored, and never was as far as anybody knows, is too old to look for."""
    if told.state is not StateFailure.THREAD_MISSING or entry is None or entry.created_at is None:
        return False
    return (known is None or known.row.updated_at == NEVER) and entry.created_at < expired_before


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
