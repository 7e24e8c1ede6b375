"""One poll of one deployment: collect, then write, page by page; at its end the drains move on.

Killing the process at any point loses nothing that was committed, and never leaves a half-sweep that counts: a poll is
complete only when its last write says so. No request is made while a transaction is open.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import ColumnElement, and_, or_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import monotonic, utc_now
from app.drains.needs import GreenNeed
from app.drains.rounds import Round
from app.drains.service import Drains
from app.errors import SourceError, StoreError, Throttled
from app.facts.capabilities import SHOWN
from app.facts.topology import UNREADABLE
from app.facts.types import Condition, RowFacts, ThreadFacts
from app.inventory import deploys, reads, register, tables, writes
from app.inventory.current import current_of
from app.inventory.encode import is_dealt_with
from app.inventory.revisions import keep_drawings, keep_revisions, list_drawings
from app.inventory.store import Store
from app.inventory.views import Drawing, PollSummary, RevisionSummary
from app.jobs.comparing import broken_by_deploy, compare_deploy
from app.jobs.deployed import MAX_NEW_DRAWINGS, draw_all, drawings_of, looks_the_same, restarted, unchanged
from app.jobs.listing import Walk, changed, everything
from app.jobs.readings import Readings, gather, moved, reads_the_same
from app.logs import get_logger
from app.settings import DeploymentSettings
from app.sources.agent_server.client import STOPPED, AgentServer, Assistant, Deployed, SortRefused
from app.sources.agent_server.probe import probe
from app.sources.agent_server.reduce import Reading

LEASE = timedelta(seconds=60)
HEARTBEAT = 15.0
TELL_EVERY = 5.0  # seconds between two lines about a long poll
OVERLAP = timedelta(seconds=5)
AHEAD = timedelta(minutes=10)  # how far two clocks may differ
BATCH = 200
LEAST_MASS = 20
MASS_SHARE = 0.05
LEAST_ALL = 8  # of so many, nearly all at once are a wiped store as well
ALL_SHARE = 0.9
LEAST_DIFFERENCE = 5
COUNT_SHARE = 0.01
ALARM_CONDITIONS = {
    Condition.STRANDED: "{n} stranded: the deployed graph does not schedule the node where work waits. An answer given now is "
    "lost.",
    Condition.LOST: "{n} lost: a run went past the node where work waited without doing it.",
    Condition.UNREADABLE: "{n} cannot be read under the deployed graph's own schema.",
    Condition.GRAPH_MISSING: "{n} of a graph that is not deployed.",
    Condition.UNPLACED: "{n} not finished, and no node can be named.",
}

log = get_logger("poll")


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
    sample: str | None = None  # a thread to try the server's routes with

    def miss(self, code: str) -> None:
        """Something was not seen: the poll is incomplete."""
        self.reasons.setdefault(code, _REASONS[code])


_REASONS = {
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


class Poller:
    """Polls one deployment. One at a time, by a lock in the database that a dead holder loses."""

    def __init__(
        self,
        settings: DeploymentSettings,
        store: Store,
        drains: Drains,
        server: AgentServer,
        *,
        beside: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self.settings = settings
        self._beside = beside
        self._store = store
        self._drains = drains
        self._server = server
        self._holder = secrets.token_hex(8)

    async def poll(self, *, full: bool) -> PollSummary:
        """One round. The first one, and one after a deploy or a new drain, is a sweep whatever was asked for."""
        async with self._lock() as deployment_id:
            poll = await self._begin(deployment_id, full=full)
            log.info("poll.started", deployment=self.settings.name, poll=poll.id, kind=poll.kind)
            before = self._server.requests
            failure = await self._guarded(poll)
            if self._beside is not None:
                await self._beside(deployment_id)
            return await self._finish(poll, failure, requests=self._server.requests - before)

    # -- beginning and ending ------------------------------------------------------------------------------------

    async def _begin(self, deployment_id: int, *, full: bool) -> Poll:
        now = utc_now()
        async with self._writing() as connection:
            row = await reads.find_deployment(connection, self.settings.name)
            swept = await reads.find_latest_poll(connection, deployment_id, kinds=("sweep",), states=("complete",))
            sweep = full or swept is None or row is None or row.sweep_wanted_at is not None or row.watermark is None
            kind: Literal["sweep", "scan"] = "sweep" if sweep else "scan"
            poll_id = await writes.begin_poll(connection, deployment_id, kind=kind, now=now)
        watermark = row.watermark if row is not None else None
        sorts = row is not None and row.capabilities.get("sort_by_thread_id") is True
        return Poll(poll_id, deployment_id, kind, now, watermark=watermark, began_from=watermark, sorts=sorts)

    async def _guarded(self, poll: Poll) -> SourceError | StoreError | None:
        """Run the poll; a failure of the source is an outcome, and what was seen until then is kept."""
        try:
            await self._run(poll)
        except Throttled as error:
            poll.miss("throttled")
            return error
        except SourceError as error:
            poll.miss("source_failed")
            return error
        except StoreError as error:
            poll.miss("database")
            return error
        except BaseException:
            self._store.dictionaries(poll.deployment_id).forget()
            raise
        return None

    async def _finish(self, poll: Poll, failure: SourceError | StoreError | None, *, requests: int) -> PollSummary:
        now = utc_now()
        complete = not poll.reasons
        state = "complete" if complete else "incomplete" if poll.asked else "failed"
        self._store.dictionaries(poll.deployment_id).forget() if failure else None
        async with self._writing() as connection:
            if not poll.revision_held:
                await writes.distrust_readings(connection, poll.deployment_id, since=poll.started_at)
            await self._raise_alarms(connection, poll, complete, now)
            changes: dict[str, object] = {}
            if isinstance(failure, SourceError) and failure.code != STOPPED:
                row = await reads.find_deployment(connection, self.settings.name)
                changes |= {
                    "failing_since": (row.failing_since if row else None) or now,
                    "failing_sentence": failure.message[:500],
                }
            elif failure is None:
                changes |= {"failing_since": None, "failing_sentence": None}
            if poll.asked:
                changes |= {"assistants": poll.assistants}
            if complete:
                changes |= {"watermark": poll.watermark}
            if complete and poll.kind == "sweep":
                changes |= {"capabilities": self._capabilities(poll)}
                await writes.sweep_done(connection, poll.deployment_id, started_at=poll.started_at)
            if "deployed_meanwhile" in poll.reasons:
                changes |= {"sweep_wanted_at": now}
            await writes.update_deployment(connection, poll.deployment_id, **changes)
            reasons = [
                [code, failure.message if failure and code in ("throttled", "source_failed", "database") else sentence]
                for code, sentence in poll.reasons.items()
            ]
            await writes.update_poll(
                connection,
                poll.id,
                state=state,
                finished_at=now,
                requests=requests,
                threads_seen=poll.seen,
                threads_expected=poll.expected,
                reasons=reasons,
            )
            round_ = Round(
                poll.id,
                is_sweep=poll.kind == "sweep",
                is_complete=complete,
                as_of=poll.started_at,
                watermark=poll.began_from,
            )
            await self._drains.after_poll(connection, poll.deployment_id, round_, now)
        log.info(
            "poll.finished",
            deployment=self.settings.name,
            poll=poll.id,
            kind=poll.kind,
            state=state,
            seen=poll.seen,
            requests=requests,
            reasons=sorted(poll.reasons),
        )
        async with self._store.database.read() as connection:
            found = await reads.find_poll(connection, poll.deployment_id, poll.id)
        if found is None:
            raise StoreError("The poll that just ran is not in the database. Was it replaced meanwhile?")
        return found

    def _capabilities(self, poll: Poll) -> dict[str, bool | str | None]:
        asked = {"storage": self._server.has_storage, "count": self._server.has_count}
        return poll.capabilities | dict.fromkeys(SHOWN) | self._server.observed.found | asked

    # -- the round -----------------------------------------------------------------------------------------------

    async def _run(self, poll: Poll) -> None:
        deployed = await self._server.deployed()
        poll.asked = True
        poll.assistants = dict(deployed.names)
        if poll.kind == "sweep":
            self._server.look_anew()
            info = await self._server.info()
            poll.capabilities = {"version": info.version, "langgraph_version": info.langgraph_version}
        await self._notice_deploys(poll, deployed)
        await self._prepare_reading(poll)
        readings = await self._readings(poll)
        if poll.kind == "sweep":
            await self._sweep(poll, readings)
        else:
            await self._scan(poll, readings, down_to=poll.watermark)
        await self._read_again(poll, readings)  # after a sweep's reconciling: what is read by id was not thereby listed
        for need in await self._drains.needs(poll.deployment_id, utc_now()):
            await self._read_for_green(poll, readings, need)
            await self._read_what_no_row_tells(poll, readings, need)
        if readings.done:
            await self._check_no_deploy(poll, deployed)
        poll.revision_held = True
        await self._progress(poll, readings)

    async def _prepare_reading(self, poll: Poll) -> None:
        """Names that are kept in clear and renames to compare may have changed since the last poll."""
        async with self._store.database.read() as connection:
            names = await self._store.names(connection, poll.deployment_id, self.settings)
            renames = {
                (target["name"], target["new"])
                for row in await reads.list_drains(connection)
                if row.deployment_id == poll.deployment_id and row.closed_at is None
                for target in row.spec["targets"]
                if target["kind"] == "rename"
            }
        self._server.reading = Reading(
            names=names,
            version_keys=self.settings.all_version_keys,
            renames=tuple(sorted(renames)),
            metadata_keys=self.settings.metadata_keys,
        )

    async def _readings(self, poll: Poll) -> Readings:
        async with self._store.database.read() as connection:
            revisions = await reads.list_revisions(connection, poll.deployment_id)
            drawings = await list_drawings(connection, poll.deployment_id)
            drains = await reads.list_drains(connection)
        candidates = {node for revision in revisions for node in revision.nodes}
        for row in drains:
            if row.deployment_id == poll.deployment_id:
                candidates |= {target["name"] for target in row.spec["targets"] if target["kind"] == "node"}
        return Readings(
            server=self._server,
            revisions={revision.id: revision for revision in revisions},
            current=current_of(revisions, drawings),
            candidates=candidates,
            stuck_after=self.settings.stuck_after,
        )

    # -- graphs --------------------------------------------------------------------------------------------------

    async def _notice_deploys(self, poll: Poll, deployed: Deployed) -> None:
        """Compare what is deployed with the last revisions; a deploy turns a scan into a sweep."""
        revisions, drawings = await self._stored_graphs(poll)
        if poll.kind == "scan" and await self._nothing_new(poll, deployed, revisions, drawings):
            return
        drawn, hashes = await draw_all(self._server, deployed, drawings, revisions)
        broken = sorted({each.topology.graph_id for each in drawn if each.topology.xray_hash == UNREADABLE})
        if broken:
            sentence = f"The drawing of {', '.join(broken)} cannot be read, so its nodes are not known."
            poll.alarms["graph_unreadable"] = (sentence[:500], len(broken))
        now = utc_now()
        async with self._store.database.read() as connection:
            comparison = await compare_deploy(
                connection, self._store, poll.deployment_id, self.settings, drawn, now=now
            )
        async with self._writing() as connection:
            changes = await keep_revisions(connection, poll.deployment_id, drawn, now=now)
            if changes:
                await deploys.keep_deploy(
                    connection, poll.deployment_id, changes, poll_id=poll.id, now=now, comparison=comparison
                )
                poll.kind = "sweep"
                await writes.update_poll(connection, poll.id, kind="sweep")
            await self._keep_drawings(connection, poll, deployed, hashes, forget={change.graph for change in changes})
        if changes:
            log.info("deploy.noticed", deployment=self.settings.name, poll=poll.id)

    async def _nothing_new(
        self,
        poll: Poll,
        deployed: Deployed,
        revisions: Sequence[RevisionSummary],
        drawings: Sequence[Drawing],
    ) -> bool:
        """Whether a scan sees what was there before. A configuration that is new is drawn once."""
        graphs = await self._watched_graphs(poll)
        if not unchanged(deployed, revisions) or restarted(deployed, drawings):
            return False
        if not await looks_the_same(self._server, deployed, revisions, drawings, graphs=graphs):
            return False
        known = {(found.graph, found.config) for found in drawings if found.revision_id is not None}
        new = [found for found in deployed.others if (found.graph_id, found.config) not in known][:MAX_NEW_DRAWINGS]
        hashes = dict(zip(new, await gather(self._server.drawing_hash(each) for each in new), strict=True))
        alive = {(found.graph, found.xray_hash) for found in revisions if found.vanished_at is None}
        if any((each.graph_id, found) not in alive for each, found in hashes.items()):
            return False
        async with self._writing() as connection:
            await self._keep_drawings(connection, poll, deployed, hashes, forget=())
        return True

    async def _keep_drawings(
        self,
        connection: AsyncConnection,
        poll: Poll,
        deployed: Deployed,
        hashes: Mapping[Assistant, str],
        *,
        forget: Collection[str],
    ) -> None:
        known = await list_drawings(connection, poll.deployment_id)
        found = drawings_of(
            deployed,
            hashes,
            await reads.list_revisions(connection, poll.deployment_id),
            known,
            forget=forget,
            now=utc_now(),
        )
        graphs = {assistant.graph_id for assistant in deployed.graphs}
        await keep_drawings(connection, poll.deployment_id, found, graphs=graphs)

    async def _check_no_deploy(self, poll: Poll, deployed: Deployed) -> None:
        """Readings are tied to the revision they were made under: if it changed meanwhile, they are not trusted."""
        again = await self._server.deployed()
        revisions, drawings = await self._stored_graphs(poll)
        same = set(again.graphs) == set(deployed.graphs) and unchanged(again, revisions)
        graphs = {found.graph_id for found in again.graphs}
        if not same or not await looks_the_same(self._server, again, revisions, drawings, graphs=graphs):
            poll.miss("deployed_meanwhile")
            async with self._writing() as connection:
                await writes.distrust_readings(connection, poll.deployment_id, since=poll.started_at)

    async def _stored_graphs(self, poll: Poll) -> tuple[tuple[RevisionSummary, ...], tuple[Drawing, ...]]:
        async with self._store.database.read() as connection:
            return (
                await reads.list_revisions(connection, poll.deployment_id),
                await list_drawings(connection, poll.deployment_id),
            )

    async def _watched_graphs(self, poll: Poll) -> set[str]:
        """The graphs with an open drain: a scan compares only these."""
        async with self._store.database.read() as connection:
            return {
                row.spec["graph"]
                for row in await reads.list_drains(connection)
                if row.deployment_id == poll.deployment_id and row.closed_at is None
            }

    # -- going through the threads -------------------------------------------------------------------------------

    async def _sweep(self, poll: Poll, readings: Readings) -> None:
        start = await self._newest_change()
        poll.expected = await self._server.count()
        walk = Walk()
        async for rows in everything(self._server, walk, page_size=self.settings.page_size):
            poll.sample = poll.sample or rows[0].thread_id
            await self._take_in(poll, readings, rows, thorough=True)
        poll.seen = walk.seen
        poll.sorts = self._server.observed.found.get("sort_by_thread_id") is True
        await self._scan(poll, readings, down_to=start)
        await self._reconcile(poll, readings)
        await self._compare_counts(poll)
        await self._name_the_stranded(poll)
        await self._name_the_broken(poll)
        first_assistant = next((found.assistant_id for found in readings.current.primary.values()), None)
        await probe(self._server, thread_id=poll.sample, assistant_id=first_assistant)
        for reason in walk.reasons:
            poll.miss(reason)

    async def _newest_change(self) -> datetime | None:
        """When a thread changed last; None when there is none, or the server does not say."""
        try:
            first = await self._server.page(sort_by="updated_at", descending=True, offset=0, limit=1)
        except SortRefused:
            return None
        return first.rows[0].updated_at if first.rows else None

    async def _scan(self, poll: Poll, readings: Readings, *, down_to: datetime | None) -> None:
        walk = Walk()
        floor = down_to - OVERLAP if down_to is not None else None
        pages = changed(self._server, walk, page_size=self.settings.page_size, down_to=floor, sorts=poll.sorts)
        async for rows in pages:
            await self._take_in(poll, readings, rows, thorough=False)
        if poll.kind == "scan":
            poll.seen = walk.seen
        poll.watermark = walk.newest or down_to
        if poll.watermark is not None and poll.watermark > utc_now() + AHEAD:
            # A time that is not yet would hide every change until it comes: go on from a time that is surely past.
            poll.watermark = poll.started_at - AHEAD
        for reason in walk.reasons:
            poll.miss(reason)

    async def _read_again(self, poll: Poll, readings: Readings) -> None:
        """Threads whose state could not be read last time, or not be trusted, although their row did not move: also those
        that were read in a poll which did not see to its end under which revision."""
        table = tables.thread
        distrusted = and_(
            table.c.state_read_at.is_not(None),
            table.c.revision_id.is_(None),
            table.c.graph_id.in_(list(readings.current.primary)),
            table.c.condition.not_in([Condition.GONE.value, Condition.NEVER_RAN.value, Condition.SETTLED.value]),
        )
        where = or_(table.c.condition == Condition.UNREAD.value, distrusted)
        async for known in self._by_condition(poll, where, limit=None):
            left = [facts for facts in known if facts.row.thread_id not in readings.touched]
            await self._write(poll, readings, await gather(readings.read(f.row, f) for f in left))

    async def _take_in(self, poll: Poll, readings: Readings, rows: Sequence[RowFacts], *, thorough: bool) -> None:
        """One page of rows: read the states that it needs, then write it in one transaction."""
        async with self._store.database.read() as connection:
            dictionaries = self._store.dictionaries(poll.deployment_id)
            known = await reads.known_threads(connection, dictionaries, [row.thread_id for row in rows])
        calls, unmoved = [], []
        for row in rows:
            before = known.get(row.thread_id)
            if before is not None and before.row.created_at != row.created_at:
                before = None
            if row.thread_id in readings.touched and before is not None and not moved(row, before):
                unmoved.append(row.thread_id)
            elif readings.needs_state(row, before, thorough=thorough):
                calls.append(readings.read(row, before))
            elif before is not None and not moved(row, before) and reads_the_same(row, before):
                unmoved.append(row.thread_id)
            else:
                calls.append(readings.row_only(row, before, utc_now()))
            if poll.kind == "scan" and (before is None or moved(row, before)):
                poll.moved_ids.add(row.thread_id)
        threads = await gather(calls)
        async with self._writing() as connection:
            await writes.upsert_threads(connection, dictionaries, threads, poll_id=poll.id)
            await writes.mark_seen(connection, poll.deployment_id, unmoved, poll_id=poll.id, now=utc_now())
        poll.seen += len(rows) if poll.kind == "sweep" and thorough else 0
        await self._progress(poll, readings)

    async def _reconcile(self, poll: Poll, readings: Readings) -> None:
        """Ask by id for every thread that is remembered and was not listed: gone, or hidden from the listing."""
        hidden = 0
        after = ""
        while True:
            async with self._store.database.read() as connection:
                ids = await reads.list_unseen(
                    connection, poll.deployment_id, before_poll=poll.id, after=after, limit=BATCH
                )
            if not ids:
                break
            after = ids[-1]
            rows = dict(zip(ids, await gather(self._server.thread(one) for one in ids), strict=True))
            missing = [one for one, row in rows.items() if row is None]
            there = [row for row in rows.values() if row is not None]
            hidden += len(there)
            await self._take_in(poll, readings, there, thorough=False)
            async with self._writing() as connection:
                await writes.mark_gone(connection, poll.deployment_id, missing, poll_id=poll.id, now=utc_now())
        hidden += await self._missing_canaries(poll)
        if hidden:
            poll.alarms["canary_missing"] = (
                f"{_threads(hidden)} can be read by id but not listed. Does the key see every thread?",
                hidden,
            )
        await self._notice_disappearance(poll)

    async def _notice_disappearance(self, poll: Poll) -> None:
        """Count the tombstones of threads that were not settled, made since the last complete sweep by whatever poll: a
        repointed address, another key or a wiped store take many, or all, at once."""
        async with self._store.database.read() as connection:
            swept = await reads.find_latest_poll(connection, poll.deployment_id, kinds=("sweep",), states=("complete",))
            if swept is None:
                return
            codes = await register.acknowledged_codes(connection, poll.deployment_id, drain_id=None, now=utc_now())
            since = max(swept.started_at, codes.get("mass_disappearance", swept.started_at))
            gone = await reads.count_threads(connection, poll.deployment_id, reads.vanished_since(since))
            left = await reads.count_threads(connection, poll.deployment_id, reads.was_not_settled())
        many = gone > max(LEAST_MASS, MASS_SHARE * (gone + left))
        nearly_all = gone >= LEAST_ALL and gone >= ALL_SHARE * (gone + left)
        if many or nearly_all:
            poll.alarms["mass_disappearance"] = (
                f"{gone} of {gone + left} threads that were not settled vanished between two sweeps. "
                "Is it still the same server, key and store?",
                gone,
            )

    async def _name_the_stranded(self, poll: Poll) -> None:
        """Threads that waited at a node a moment before a deploy removed it, and that nobody has brought to an end since."""
        async with self._store.database.read() as connection:
            found = await deploys.find_unfinished(connection, poll.deployment_id)
        if found is not None:
            nodes = ", ".join(f"`{node}`" for node in found.nodes[:5])
            sentence = (
                f"The deploy of {found.noticed_at:%-d %b, %H:%M} UTC removed {nodes} from {found.graph}, where "
                f"{_threads(found.threads)} waited. Put back what it removed, or take over by hand what waited."
            )
            poll.alarms["removed_while_waiting"] = (sentence[:500], found.threads)

    async def _name_the_broken(self, poll: Poll) -> None:
        """What the last deploy is known to have broken beside strandings, as a preflight would have said before it."""
        async with self._store.database.read() as connection:
            found = await broken_by_deploy(connection, poll.deployment_id, now=utc_now())
        if found is not None:
            poll.alarms["deploy_broke"] = found

    async def _compare_counts(self, poll: Poll) -> None:
        """The server's count is an alarm, never a proof: it counts stateless runs too, and threads come and go."""
        async with self._store.database.read() as connection:
            listed = await reads.count_threads(connection, poll.deployment_id, reads.is_alive())
        if poll.expected is not None and poll.expected - listed > max(LEAST_DIFFERENCE, COUNT_SHARE * listed):
            sentence = (
                f"The server counts {poll.expected:,} threads and lists {listed:,}. Does the key see every thread?"
            )
            poll.alarms["count_differs"] = (sentence, poll.expected - listed)

    async def _missing_canaries(self, poll: Poll) -> int:
        """Canaries of the settings that this sweep did not list."""
        wanted = list(self.settings.canary_threads)
        async with self._store.database.read() as connection:
            listed = await reads.list_ids(
                connection,
                poll.deployment_id,
                where=and_(
                    tables.thread.c.thread_id.in_(wanted), tables.thread.c.seen_poll_id == poll.id, reads.is_alive()
                ),
                after="",
                limit=len(wanted) + 1,
            )
        return len(set(wanted) - set(listed))

    # -- what only a green verdict needs -------------------------------------------------------------------------

    async def _read_for_green(self, poll: Poll, readings: Readings, need: GreenNeed) -> None:
        """For a drain that nothing blocks, mostly: idle heads, busy threads, storage. Bounded; the rest stays unknown."""
        if need.idle_heads is not None and poll.kind == "sweep":
            budget = self.settings.verify_idle_per_sweep
            async for known in self._by_condition(poll, need.idle_heads, limit=budget):
                budget -= len(known)
                await self._write(poll, readings, await gather(readings.read(f.row, f) for f in known))
            if need.recheck is not None:
                await self._recheck_settled(poll, readings, need.recheck, budget)
        elif need.idle_heads is not None:
            moved_ids = sorted(poll.moved_ids)
            for start in range(0, len(moved_ids), BATCH):
                those = and_(need.idle_heads, tables.thread.c.thread_id.in_(moved_ids[start : start + BATCH]))
                async for known in self._by_condition(poll, those, limit=None):
                    await self._write(poll, readings, await gather(readings.read(f.row, f) for f in known))
        if need.busy is not None:
            async for known in self._by_condition(poll, need.busy, limit=None):
                await self._write(poll, readings, await gather(readings.read(f.row, f, with_runs=True) for f in known))
        await self._read_stored(poll, readings, need)

    async def _read_stored(self, poll: Poll, readings: Readings, need: GreenNeed) -> None:
        again = need.stored_again if poll.kind == "sweep" else None
        for where in (need.storage, again):
            if where is not None and self._server.has_storage is not False:
                await self._read_storage(poll, readings, where)

    async def _read_storage(self, poll: Poll, readings: Readings, where: ColumnElement[bool]) -> None:
        """Stored channels of threads, as many as the budget of one poll has room for."""
        limit = self.settings.verify_idle_per_sweep
        if self.settings.erase_requests_per_minute is not None:
            minutes = self.settings.poll_interval.total_seconds() / 60
            limit = max(1, int(self.settings.erase_requests_per_minute * minutes))
        async for known in self._by_condition(poll, where, limit=limit):
            await self._write(poll, readings, await gather(readings.read_storage(facts) for facts in known))

    async def _read_what_no_row_tells(self, poll: Poll, readings: Readings, need: GreenNeed) -> None:
        """Where rows do not say when a state changed, one that did not move proves nothing: read all again, the longest not
        read first. What is beyond the budget is not known any more."""
        if need.counted is None:
            return
        stale = and_(need.counted, reads.has_mute_row(), reads.is_read_before(poll.started_at))
        async with self._store.database.read() as connection:
            ids = await reads.list_oldest_readings(
                connection, poll.deployment_id, where=stale, limit=self.settings.verify_idle_per_sweep
            )
        await self._read_ids(poll, readings, ids)
        async with self._writing() as connection:
            await writes.distrust_older_readings(connection, poll.deployment_id, stale)

    async def _recheck_settled(self, poll: Poll, readings: Readings, where: ColumnElement[bool], budget: int) -> None:
        """Read settled heads again, the longest not read first: deleting a run changes a head and moves no row."""
        stale = and_(where, reads.is_settled_before(poll.started_at))
        async with self._store.database.read() as connection:
            ids = await reads.list_oldest_readings(connection, poll.deployment_id, where=stale, limit=max(0, budget))
        await self._read_ids(poll, readings, ids)

    async def _read_ids(self, poll: Poll, readings: Readings, ids: Sequence[str]) -> None:
        """Read the states of remembered threads, a batch at a time."""
        for start in range(0, len(ids), BATCH):
            async with self._store.database.read() as connection:
                dictionaries = self._store.dictionaries(poll.deployment_id)
                known = await reads.known_threads(connection, dictionaries, ids[start : start + BATCH])
            await self._write(poll, readings, await gather(readings.read(f.row, f) for f in known.values()))

    async def _by_condition(
        self, poll: Poll, where: ColumnElement[bool], *, limit: int | None
    ) -> AsyncIterator[list[ThreadFacts]]:
        """Remembered threads by a condition, a batch at a time."""
        after, left = "", limit
        while left is None or left > 0:
            async with self._store.database.read() as connection:
                size = BATCH if left is None else min(BATCH, left)
                ids = await reads.list_ids(connection, poll.deployment_id, where=where, after=after, limit=size)
                known = await reads.known_threads(connection, self._store.dictionaries(poll.deployment_id), ids)
            if not ids:
                return
            after = ids[-1]
            left = None if left is None else left - len(ids)
            yield list(known.values())

    async def _write(self, poll: Poll, readings: Readings, threads: Sequence[ThreadFacts]) -> None:
        async with self._writing() as connection:
            dictionaries = self._store.dictionaries(poll.deployment_id)
            await writes.upsert_threads(connection, dictionaries, threads, poll_id=poll.id)
        await self._progress(poll, readings)

    # -- bookkeeping ---------------------------------------------------------------------------------------------

    async def _progress(self, poll: Poll, readings: Readings) -> None:
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
        async with self._writing() as connection:
            await writes.update_poll(
                connection,
                poll.id,
                threads_seen=poll.seen,
                threads_expected=poll.expected,
                states_read=readings.done,
                states_wanted=readings.wanted,
            )

    async def _raise_alarms(self, connection: AsyncConnection, poll: Poll, complete: bool, now: datetime) -> None:
        counts = await reads.count_by(connection, poll.deployment_id, "condition")
        dealt_with = await self._count_dealt_with(connection, poll)
        found = dict(poll.alarms)
        for condition, sentence in ALARM_CONDITIONS.items():
            if count := counts.get(condition.value, 0) - dealt_with.get(condition.value, 0):
                n = f"{count:,} thread is" if count == 1 and "{n} stranded" in sentence else _threads(count)
                found[condition.value] = (sentence.format(n=n), count)
        clear: Iterable[str] = ()
        if complete:
            clear = [condition.value for condition in ALARM_CONDITIONS]
            clear += (
                ["canary_missing", "graph_unreadable", "count_differs", "removed_while_waiting", "deploy_broke"]
                if poll.kind == "sweep"
                else []
            )
        await writes.keep_alarms(connection, poll.deployment_id, found, clear=list(clear), now=now)

    async def _count_dealt_with(self, connection: AsyncConnection, poll: Poll) -> dict[str, int]:
        """Stranded threads of which somebody has acknowledged everything that the deployed graph does not schedule."""
        dictionaries = self._store.dictionaries(poll.deployment_id)
        await dictionaries.load(connection)
        works = [one for one, work in dictionaries.works.items() if is_dealt_with(work)]
        stranded = tables.thread.c.condition == Condition.STRANDED.value
        where = and_(stranded, tables.thread.c.work_id.in_(works))
        return {
            Condition.STRANDED.value: await reads.count_threads(connection, poll.deployment_id, where) if works else 0
        }

    @contextlib.asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction of this poll: only while the lock is ours, so that a poller that hung writes nothing stale."""
        async with self._store.database.write() as connection:
            row = await reads.find_deployment(connection, self.settings.name)
            held = row is not None and await writes.take_lock(
                connection, row.id, holder=self._holder, now=utc_now(), lease=LEASE
            )
            if not held:
                raise StoreError(_REASONS["lease_lost"], code="lease_lost")
            yield connection

    @contextlib.asynccontextmanager
    async def _lock(self) -> AsyncIterator[int]:
        """The right to poll this deployment; waits while another has it, and renews itself."""
        async with self._store.database.write() as connection:
            deployment_id = await writes.ensure_deployment(connection, self.settings.name, utc_now())
        while not await self._take(deployment_id):  # noqa: ASYNC110 - the other holder may be another process
            await asyncio.sleep(0.5)
        beat = asyncio.create_task(self._beat(deployment_id, asyncio.current_task()))
        try:
            yield deployment_id
        finally:
            beat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beat
            with contextlib.suppress(StoreError):
                async with self._store.database.write() as connection:
                    await writes.release_lock(connection, deployment_id, holder=self._holder)

    async def _take(self, deployment_id: int) -> bool:
        async with self._store.database.write() as connection:
            until = await writes.take_lock(connection, deployment_id, holder=self._holder, now=utc_now(), lease=LEASE)
        return until is not None

    async def _beat(self, deployment_id: int, owner: "asyncio.Task[object] | None") -> None:
        """Renew the lock while the poll runs; if another has it, this poll must stop."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            if not await self._take(deployment_id):
                log.warning("poll.lease_lost", deployment=self.settings.name)
                if owner is not None:
                    owner.cancel()
                return


def _threads(count: int) -> str:
    return f"{count:,} thread" if count == 1 else f"{count:,} threads"
