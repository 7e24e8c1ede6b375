"""Drains and the inventory together: take up drains, gather evidence, answer, remember."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, and_, or_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.answers import Answer, BlockingThread, MustAct, OldestBlocker, Verdict
from app.drains.dispositions import Disposition, Routes, Rules, Standing, Subject, Work, WorkLeaf, judge
from app.drains.jsonable import to_jsonable
from app.drains.spec import DrainSpec, Policy, Target, from_json, to_json
from app.drains.verdicts import Evidence, SoakState, advance, after_a_hit, decide
from app.errors import BadRequest, NotFound
from app.facts.topology import UNREADABLE, at_or_below
from app.facts.types import Condition
from app.inventory import reads, tables, writes
from app.inventory.encode import Json, pending_nodes
from app.inventory.freshness import read_polls, threads_source
from app.inventory.reads import SubjectCount, SubjectKey
from app.inventory.store import Store
from app.inventory.views import DrainMention, RevisionSummary
from app.settings import DeploymentSettings, DrainSettings, Settings

STORE_AT_LEAST_EVERY = timedelta(hours=1)
ALARMS_THAT_WITHHOLD = ("mass_disappearance", "canary_missing")
MAX_CLASSES = 300


@dataclass
class _Look:
    """One drain, looked at: its row, its spec, its classes of threads and what each means."""

    row: Any
    spec: DrainSpec
    population: ColumnElement[bool]
    rules: Rules
    cutoff: datetime
    standings: dict[SubjectKey, Standing] = field(default_factory=dict)
    counts: list[SubjectCount] = field(default_factory=list)

    def keys(self, wanted: Collection[Disposition] | None = None, *, reason: str | None = None) -> list[SubjectKey]:
        """Classes with one of these dispositions, or that count under a reason."""
        return [
            key
            for key, standing in self.standings.items()
            if (wanted is None or standing.overall.disposition in wanted)
            and (reason is None or reason in standing.reasons)
        ]


class Drains:
    """All drains. Every method opens its own short transactions."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store

    # -- taking up -----------------------------------------------------------------------------------------------

    async def take_up(self, now: datetime) -> None:
        """Write the settings' deployments and drains. A file's drain that is no longer in the file is closed."""
        async with self._store.database.write() as connection:
            ids = {}
            for deployment in self._settings.deployments:
                ids[deployment.name] = await writes.ensure_deployment(connection, deployment.name, now)
            known = {row.name: row for row in await reads.list_drains(connection)}
            for drain in self._settings.drains:
                await self._take_up(connection, known.pop(drain.name, None), drain, ids[drain.deployment], now)
            for row in known.values():
                if row.managed_by_file and row.closed_at is None:
                    await writes.update_drain(connection, row.id, closed_at=now)

    async def _take_up(
        self, connection: AsyncConnection, known: Any | None, drain: DrainSettings, deployment_id: int, now: datetime
    ) -> None:
        spec = spec_of(drain, self._deployment(drain.deployment))
        digest = spec.criteria_digest()
        same = known is not None and known.criteria_digest == digest and known.deployment_id == deployment_id
        observes = spec.phase not in ("additive", "closed")
        starts = observes and (known is None or known.closed_at is not None or known.observing_since is None)
        values: dict[str, Any] = {
            "name": spec.name,
            "deployment_id": deployment_id,
            "spec": to_json(spec),
            "criteria_digest": digest,
            "managed_by_file": True,
            "created_at": now,
            "criteria_version": 1 if known is None else known.criteria_version + (not same),
            "observing_since": now if starts else known.observing_since if known is not None and observes else None,
            "closed_at": now if spec.phase == "closed" else None,
        }
        if not same or starts:  # what was proved was about something else, or nobody looked meanwhile
            values |= {
                "holds_since": None,
                "fell_at": None,
                "leaking_since": None,
                "sweeps": 0,
                "regressed_since": None,
                "drained_at": None,
                "removed": {},
            }
            await writes.update_deployment(connection, deployment_id, sweep_wanted_at=now)
            if known is not None:
                await writes.forget_arrivals(connection, known.id)
        await writes.upsert_drain(connection, values)

    # -- answering -----------------------------------------------------------------------------------------------

    async def answer(self, name: str, *, now: datetime, max_age: timedelta | None = None) -> Answer:
        """The verdict of one drain now. ``max_age`` can only tighten the policy. Raises ``NotFound``."""
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            look = await self._look(connection, row, now, max_age)
            return decide(await self._evidence(connection, look, max_age, now), now)

    async def answers(self, *, now: datetime) -> tuple[Answer, ...]:
        """The verdicts of all drains now, what blocks first."""
        async with self._store.database.read() as connection:
            names = [row.name for row in await reads.list_drains(connection) if self._is_known(row)]
        found = [await self.answer(name, now=now) for name in names]
        order = {Verdict.BLOCKED: 0, Verdict.UNKNOWN: 1, Verdict.DRAINED: 2}
        return tuple(sorted(found, key=lambda answer: (order[answer.verdict], answer.drain)))

    async def threads(
        self,
        name: str,
        *,
        disposition: str | None,
        reason: str | None,
        cursor: str | None,
        limit: int,
        now: datetime,
    ) -> tuple[tuple[BlockingThread, ...], str | None, int]:
        """Threads of a drain by disposition or reason (default: all that block), oldest first; cursor and total."""
        wanted = _wanted(disposition, reason)
        if not 1 <= limit <= reads.MAX_LIMIT:
            raise BadRequest(f"limit goes from 1 to {reads.MAX_LIMIT}.")
        async with self._store.database.read() as connection:
            look = await self._look(connection, await self._row(connection, name), now, None)
            keys = look.keys(wanted, reason=reason)
            where = and_(look.population, reads.looks_like(keys[:MAX_CLASSES], cutoff=look.cutoff))
            rows, following = await reads.list_subject_threads(
                connection, look.row.deployment_id, where, cutoff=look.cutoff, cursor=cursor, limit=limit
            )
            works = self._store.dictionaries(look.row.deployment_id).works
            wanted_keys = set(keys)
            total = sum(found.count for found in look.counts if found.key in wanted_keys)
            items = tuple(_blocking(row, look.standings[row.key], works) for row in rows if row.key in look.standings)
            return items, following, total

    async def mentions(
        self, connection: AsyncConnection, deployment_id: int, thread_id: str, key: SubjectKey, *, now: datetime
    ) -> tuple[DrainMention, ...]:
        """What one thread means for each open drain that counts it."""
        found = []
        for row in await reads.list_drains(connection):
            if row.deployment_id != deployment_id or row.closed_at is not None or not self._is_known(row):
                continue
            look = await self._look(connection, row, now, None, count=False)
            is_this = and_(look.population, tables.thread.c.thread_id == thread_id)
            if not await reads.count_threads(connection, deployment_id, is_this):
                continue
            standing = judge(self._subject(deployment_id, key), look.spec.targets, look.rules)
            found.append(DrainMention(row.name, standing.overall.disposition.value))
        return tuple(found)

    async def evaluations(self, name: str, *, limit: int) -> list[Json]:
        """The stored answers of a drain, newest first."""
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            return [found.answer for found in await reads.list_evaluations(connection, row.id, limit=limit)]

    # -- after a poll --------------------------------------------------------------------------------------------

    async def after_poll(self, connection: AsyncConnection, deployment_id: int, round_: "Round", now: datetime) -> None:
        """Move the soak of every open drain on, and store its answer: in the transaction that ends the poll, so that no
        complete poll is ever seen without what it means."""
        for row in await reads.list_drains(connection):
            if row.deployment_id == deployment_id and row.closed_at is None and self._is_known(row):
                await self._after_poll(connection, row, round_, now)

    async def _after_poll(self, connection: AsyncConnection, row: Any, round_: "Round", now: datetime) -> None:
        look = await self._look(connection, row, now, None)
        arrivals = await self._keep_arrivals(connection, look, now)
        revisions = await reads.list_revisions(connection, row.deployment_id)
        before = _soak_of(row)
        blocked = any(found.overall.disposition.group == "blocking" for found in look.standings.values())
        after = before
        if round_.is_complete:
            after = advance(
                before,
                blocked=blocked,
                arrivals=arrivals > 0,
                touched_at=_touched_at(look.spec, revisions, since=before.holds_since),
                is_sweep=round_.is_sweep,
                as_of=round_.as_of,
                policy_soak=(look.spec.policy.soak_sweeps, look.spec.policy.soak_hold),
            )
        elif blocked or arrivals:
            after = after_a_hit(before, arrivals=arrivals > 0, as_of=round_.as_of)
        if await self._fell_at_deploy(connection, look, revisions):
            after = replace(after, fell_at=now, holds_since=None, sweeps=0)
        was_drained = await self._was_drained(connection, look, round_, now)
        after = replace(after, removed_at=_removed_at(look.spec, revisions, after, was_drained=was_drained, now=now))
        evidence = replace(await self._evidence(connection, look, None, now), soak=after)
        answer = decide(evidence, now)
        if answer.verdict is Verdict.DRAINED and after.drained_at is None:
            after = replace(after, drained_at=now)
        await writes.update_drain(
            connection,
            row.id,
            holds_since=after.holds_since,
            sweeps=after.sweeps,
            regressed_since=after.regressed_since,
            drained_at=after.drained_at,
            removed=dict.fromkeys(look.spec.nodes, after.removed_at.isoformat()) if after.removed_at else {},
            fell_at=after.fell_at,
            leaking_since=after.leaking_since,
        )
        await self._store_answer(connection, row, answer, round_.poll_id)

    async def _fell_at_deploy(
        self, connection: AsyncConnection, look: _Look, revisions: Sequence[RevisionSummary]
    ) -> bool:
        """Whether fewer threads need a node target than when it was last looked at, while a deploy touched the target or
        it was not deployed: they may have been lost, not finished."""
        last = await reads.list_evaluations(connection, look.row.id, limit=1)
        if not look.spec.nodes or not last or last[0].criteria_version != look.row.criteria_version:
            return False
        need: Counter[str] = Counter()
        for found in look.counts:
            need[look.standings[found.key].overall.disposition.value] += found.count
        if _node_needs(need) >= _node_needs(last[0].answer["dispositions"]):
            return False
        touched = _touched_at(look.spec, revisions, since=last[0].evaluated_at) is not None
        return touched or not all(_deployed(look.spec, revisions).values())

    async def _was_drained(self, connection: AsyncConnection, look: _Look, round_: "Round", now: datetime) -> bool:
        """Whether the drain was drained until the target went: by its last answer, on evidence still fresh, and with no
        thread that moved since, which may have entered before it went."""
        last = await reads.list_evaluations(connection, look.row.id, limit=1)
        seen = await reads.find_complete_before(connection, look.row.deployment_id, round_.poll_id)
        drained = bool(last) and last[0].verdict == Verdict.DRAINED.value
        if not drained or last[0].criteria_version != look.row.criteria_version or round_.watermark is None:
            return False
        if seen is None or now - seen.started_at > look.spec.policy.max_age:
            return False
        moved = and_(look.population, reads.is_alive(), tables.thread.c.updated_at > round_.watermark)
        return await reads.count_threads(connection, look.row.deployment_id, moved) == 0

    async def _store_answer(self, connection: AsyncConnection, row: Any, answer: Answer, poll_id: int) -> None:
        last = await reads.list_evaluations(connection, row.id, limit=1)
        content = to_jsonable(answer)
        fresh = bool(last) and answer.evaluated_at - last[0].evaluated_at < STORE_AT_LEAST_EVERY
        if fresh and _essence(last[0].answer) == _essence(content):
            return
        await writes.add_evaluation(
            connection,
            {
                "deployment_id": row.deployment_id,
                "drain_id": row.id,
                "poll_id": poll_id,
                "evaluated_at": answer.evaluated_at,
                "criteria_version": row.criteria_version,
                "verdict": answer.verdict.value,
                "answer": content,
            },
        )

    async def _keep_arrivals(self, connection: AsyncConnection, look: _Look, now: datetime) -> int:
        """Store threads created after intake closed that are at a target, or that their storage shows to have been."""
        closed_at = _closed_at(look.spec, look.row)
        if closed_at is None or not look.spec.nodes:
            return 0
        since_then = and_(look.population, tables.thread.c.created_at > closed_at)
        found = []
        for subjects in await reads.count_subjects(connection, look.row.deployment_id, since_then, cutoff=look.cutoff):
            subject = self._subject(look.row.deployment_id, subjects.key)
            targets = [node for node in look.spec.nodes if _entered(subject, node)]
            if not targets:
                continue
            where = and_(since_then, reads.looks_like([subjects.key], cutoff=look.cutoff))
            cursor = None
            while True:
                rows, cursor = await reads.list_subject_threads(
                    connection, look.row.deployment_id, where, cutoff=look.cutoff, cursor=cursor, limit=reads.MAX_LIMIT
                )
                found += [_arrival(look.row, row, node, now) for row in rows for node in targets]
                if cursor is None:
                    break
        return await writes.keep_arrivals(connection, found)

    # -- what a green verdict needs ------------------------------------------------------------------------------

    async def unblocked(self, deployment_id: int, now: datetime) -> list["GreenNeed"]:
        """What is still to be read for the drains that no thread blocks: conditions on threads, by kind of reading."""
        needs = []
        async with self._store.database.read() as connection:
            for row in await reads.list_drains(connection):
                if row.deployment_id != deployment_id or row.closed_at is not None or not self._is_known(row):
                    continue
                look = await self._look(connection, row, now, None)
                if any(found.overall.disposition.group == "blocking" for found in look.standings.values()):
                    continue
                needs.append(_need(look, await reads.list_revisions(connection, deployment_id)))
        return needs

    # -- gathering -----------------------------------------------------------------------------------------------

    async def _look(
        self, connection: AsyncConnection, row: Any, now: datetime, max_age: timedelta | None, *, count: bool = True
    ) -> _Look:
        spec = from_json(row.spec)
        deployment = self._deployment(spec.deployment)
        allowed = spec.policy.max_age if max_age is None else min(spec.policy.max_age, max_age)
        revisions = await reads.list_revisions(connection, row.deployment_id)
        names = await self._store.names(connection, row.deployment_id, deployment)
        look = _Look(
            row=row,
            spec=spec,
            population=reads.in_population(spec.graph, metadata=spec.metadata, created_before=spec.created_before),
            rules=Rules(
                revision_nodes=_revision_nodes(revisions, spec, _when_removed(row)),
                revision_fields={found.id: frozenset(found.fields) for found in revisions},
                joins=frozenset(node for found in revisions if found.graph == spec.graph for node in found.joins),
                deferred=frozenset(node for found in revisions if found.graph == spec.graph for node in found.deferred),
                find=names.find,
                policy=spec.policy,
                newest_versions=spec.newest_versions,
            ),
            cutoff=now - allowed,
        )
        await self._store.dictionaries(row.deployment_id).load(connection)
        if count:
            look.counts = await reads.count_subjects(connection, row.deployment_id, look.population, cutoff=look.cutoff)
            for found in look.counts:
                subject = self._subject(row.deployment_id, found.key)
                look.standings[found.key] = judge(subject, spec.targets, look.rules)
        return look

    def _subject(self, deployment_id: int, key: SubjectKey) -> Subject:
        dictionaries = self._store.dictionaries(deployment_id)
        work = dictionaries.works[key.work_id]
        routes = dictionaries.routes.get(key.routes_id) if key.routes_id is not None else None
        return Subject(
            condition=Condition(key.condition),
            work=Work(tuple(WorkLeaf(*leaf) for leaf in work["leaves"]), work["half_step"]),
            shape=dictionaries.shapes.get(key.shape_id) if key.shape_id is not None else None,
            state_shape=dictionaries.shapes.get(key.state_shape_id) if key.state_shape_id is not None else None,
            revision_id=key.revision_id,
            reading_is_current=key.is_current,
            routes=None
            if routes is None
            else Routes(frozenset(routes["branches"]), frozenset(routes["joins"]), routes["sends"]),
        )

    async def _evidence(
        self, connection: AsyncConnection, look: _Look, max_age: timedelta | None, now: datetime
    ) -> Evidence:
        row, spec = look.row, look.spec
        deployment = self._deployment(spec.deployment)
        polls = await read_polls(connection, row.deployment_id)
        stored = await reads.find_deployment(connection, spec.deployment)
        revisions = await reads.list_revisions(connection, row.deployment_id)
        alarms = await reads.list_alarms(connection, row.deployment_id, spec.deployment)
        closed_at = _closed_at(spec, row)
        leaks = fresh_leaks = unseen = 0
        if closed_at is not None and spec.nodes:
            fresh_leaks, unseen = await self._count_intake(connection, look, closed_at)
            if row.leaking_since is not None:
                leaks = await reads.count_leaks(connection, row.id, closed_at=closed_at, since=row.leaking_since)
        dispositions: Counter[Disposition] = Counter()
        by_target: dict[str, Counter[Disposition]] = {target.label: Counter() for target in spec.targets}
        unknowns: Counter[str] = Counter()
        for found in look.counts:
            standing = look.standings[found.key]
            dispositions[standing.overall.disposition] += found.count
            for reason in standing.reasons - {"not_evaluated"}:
                unknowns[reason] += found.count
            for label, finding in standing.by_target.items():
                if finding.disposition.group == "blocking":
                    by_target[label][finding.disposition] += found.count
        return Evidence(
            spec=replace(spec, phase="closed") if row.closed_at is not None else spec,
            criteria_version=row.criteria_version,
            soak=_soak_of(row),
            source=threads_source(stored, polls, poll_interval=deployment.poll_interval, now=now),
            last_sweep=polls.last_sweep,
            complete_sweep=polls.complete_sweep,
            complete_scan=polls.complete_scan,
            dispositions=dispositions,
            by_target=by_target,
            unknowns=unknowns,
            deployed=_deployed(spec, revisions),
            leaks=leaks,
            fresh_leaks=fresh_leaks,
            intake_is_open=closed_at is not None and closed_at > now,
            hidden_fields=_hidden_fields(spec, revisions),
            graph_was_seen=any(found.graph == spec.graph for found in revisions),
            of_graph=await self._count_of_graph(connection, look),
            intake_unseen=unseen,
            unread_elsewhere=await self._count_unread_elsewhere(connection, look),
            alarms={alarm.code: alarm.count for alarm in alarms if alarm.code in ALARMS_THAT_WITHHOLD},
            oldest=await self._oldest(connection, look),
            must_act=await self._must_act(connection, look),
            configured=_configured(deployment),
            poll_interval=deployment.poll_interval,
            sweep_interval=deployment.sweep_interval,
            requests_per_minute=deployment.requests_per_minute,
            max_age=max_age,
        )

    async def _count_of_graph(self, connection: AsyncConnection, look: _Look) -> int:
        """Live threads that really ran under the graph: those without a graph do not show that it is the right one."""
        where = and_(look.population, reads.is_alive(), reads.has_graph())
        return await reads.count_threads(connection, look.row.deployment_id, where)

    async def _count_unread_elsewhere(self, connection: AsyncConnection, look: _Look) -> int:
        if not look.spec.nodes:
            return 0
        deployment_id, where = look.row.deployment_id, _elsewhere(look.spec)
        count = 0
        for found in await reads.count_subjects(connection, deployment_id, where, cutoff=look.cutoff):
            subject = self._subject(deployment_id, found.key)
            routes_tell = subject.condition is Condition.GRAPH_MISSING and _shown_not_entered(subject)
            if not routes_tell or any(_entered(subject, node) for node in look.spec.nodes):
                count += found.count
        return count

    async def _count_intake(self, connection: AsyncConnection, look: _Look, closed_at: datetime) -> tuple[int, int]:
        """Of the threads created after intake closed: those that entered and are not recorded yet (a poll is running),
        and those of which nothing shows whether they did."""
        deployment_id = look.row.deployment_id
        since_then = and_(look.population, tables.thread.c.created_at > closed_at)
        entered, unseen = [], 0
        for found in await reads.count_subjects(connection, deployment_id, since_then, cutoff=look.cutoff):
            subject = self._subject(deployment_id, found.key)
            if any(_entered(subject, node) for node in look.spec.nodes):
                entered.append(found.key)
            elif not _shown_not_entered(subject):
                unseen += found.count
        fresh = 0
        for key in entered:
            where = and_(since_then, reads.looks_like([key], cutoff=look.cutoff), reads.has_not_arrived(look.row.id))
            fresh += await reads.count_threads(connection, deployment_id, where)
        return fresh, unseen

    async def _oldest(self, connection: AsyncConnection, look: _Look) -> OldestBlocker | None:
        blocking = [found for found in look.counts if _blocks(look.standings[found.key])]
        if not blocking:
            return None
        oldest = min(blocking, key=lambda found: found.oldest)
        where = and_(look.population, reads.looks_like([oldest.key], cutoff=look.cutoff))
        rows, _ = await reads.list_subject_threads(
            connection, look.row.deployment_id, where, cutoff=look.cutoff, cursor=None, limit=1
        )
        if not rows:
            return None
        return OldestBlocker(rows[0].thread_id, look.standings[oldest.key].overall.disposition.value, rows[0].since)

    async def _must_act(self, connection: AsyncConnection, look: _Look) -> tuple[MustAct, ...]:
        keys = [key for key, standing in look.standings.items() if _blocks(standing)]
        if not keys:
            return ()
        where = and_(look.population, reads.looks_like(keys[:MAX_CLASSES], cutoff=look.cutoff))
        found = await reads.count_by_assistant(connection, look.row.deployment_id, where, limit=20)
        stored = await reads.find_deployment(connection, look.spec.deployment)
        names = stored.assistants if stored is not None else {}
        return tuple(MustAct(assistant, names.get(assistant), count) for assistant, count in found)

    async def _row(self, connection: AsyncConnection, name: str) -> Any:
        row = await reads.find_drain(connection, name)
        if row is None or not self._is_known(row):
            raise NotFound(f"There is no drain with the name {name[:100]!r}. `drainboard drains list` shows all.")
        return row

    def _is_known(self, row: Any) -> bool:
        """Whether the drain's deployment is in the settings; without it nothing can be said of the drain."""
        return self._settings.deployment(row.spec["deployment"]) is not None

    def _deployment(self, name: str) -> DeploymentSettings:
        found = self._settings.deployment(name)
        if found is None:
            raise NotFound(f"There is no deployment with the name {name[:100]!r} in the settings.")
        return found


@dataclass(frozen=True, slots=True)
class Round:
    """The poll that just ended, as a drain sees it. ``as_of``: when it began. ``watermark``: the newest change, in the
    server's time, that the complete poll before it had seen."""

    poll_id: int
    is_sweep: bool
    is_complete: bool
    as_of: datetime
    watermark: datetime | None


@dataclass(frozen=True, slots=True)
class GreenNeed:
    """What one drain that nothing blocks still needs: conditions on threads. None: not needed.

    ``recheck``: threads whose settled heads a sweep may read again with what is left of its budget, since deleting a run
    changes a head without moving its row.
    """

    idle_heads: ColumnElement[bool] | None
    recheck: ColumnElement[bool] | None
    busy: ColumnElement[bool]
    storage: ColumnElement[bool] | None


def spec_of(drain: DrainSettings, deployment: DeploymentSettings) -> DrainSpec:
    """A drain of the settings as the rules see it."""
    policy = drain.policy
    minimums = dict(drain.minimum_versions)
    if drain.minimum_state_version is not None:
        minimums[deployment.state_version_key] = drain.minimum_state_version
    return DrainSpec(
        name=drain.name,
        deployment=drain.deployment,
        graph=drain.graph,
        targets=tuple(_targets(drain, minimums)),
        owner=drain.owner,
        phase=drain.phase,
        metadata=drain.population.metadata,
        created_before=drain.population.created_before,
        intake_closed_at=drain.intake_closed_at,
        newest_versions=drain.newest_versions,
        policy=Policy(
            max_age=policy.max_age,
            sweep_max_age=policy.sweep_max_age,
            trace_window=policy.trace_window,
            soak_sweeps=policy.soak_sweeps,
            soak_hold=policy.soak_hold,
            require=policy.require,
            retention_idle_for=policy.retention.idle_for if policy.retention else None,
            retention_reason=policy.retention.reason if policy.retention else None,
            missing_version=policy.missing_version,
            neither=policy.neither,
            accept=policy.accept,
            attestations=policy.attestations,
        ),
    )


def _targets(drain: DrainSettings, minimums: Mapping[str, int]) -> Iterable[Target]:
    yield from (Target("node", node) for node in drain.remove_nodes)
    yield from (Target("rename", rename.old, new=rename.new) for rename in drain.rename_fields)
    yield from (Target("kind", name, required_kind=kind) for name, kind in drain.require_kinds.items())
    yield from (Target("remove", name) for name in drain.remove_fields)
    yield from (Target("erase", name) for name in drain.erase_fields)
    yield from (Target("version", key, minimum=minimum) for key, minimum in minimums.items())


def _arrival(drain: Any, thread: reads.SubjectThread, node: str, now: datetime) -> Json:
    return {
        "deployment_id": drain.deployment_id,
        "drain_id": drain.id,
        "thread_id": thread.thread_id,
        "target": node,
        "seen_at": now,
        "created_at": thread.created_at,
    }


def _wanted(disposition: str | None, reason: str | None) -> list[Disposition] | None:
    if disposition is not None:
        if disposition not in [found.value for found in Disposition]:
            known = ", ".join(found.value for found in Disposition)
            raise BadRequest(f"There is no disposition {disposition[:40]!r}. Dispositions are: {known}.")
        return [Disposition(disposition)]
    return None if reason is not None else [found for found in Disposition if found.group == "blocking"]


def _blocks(standing: Standing) -> bool:
    return standing.overall.disposition.group == "blocking"


def _blocking(row: reads.SubjectThread, standing: Standing, works: Mapping[int, Json]) -> BlockingThread:
    targets = tuple(
        label for label, finding in standing.by_target.items() if finding.disposition is standing.overall.disposition
    )
    return BlockingThread(
        thread_id=row.thread_id,
        disposition=standing.overall.disposition.value,
        targets=targets,
        pending=pending_nodes(works[row.key.work_id]),
        status=row.status,
        condition=row.key.condition,
        assistant_id=row.assistant_id,
        since=row.since,
    )


def _soak_of(row: Any) -> SoakState:
    return SoakState(
        row.holds_since,
        row.sweeps,
        row.regressed_since,
        row.drained_at,
        _when_removed(row),
        row.fell_at,
        row.leaking_since,
    )


def _when_removed(row: Any) -> datetime | None:
    return min((datetime.fromisoformat(when) for when in row.removed.values()), default=None)


def _closed_at(spec: DrainSpec, row: Any) -> datetime | None:
    closed: datetime | None = spec.intake_closed_at or row.observing_since
    return closed


def _entered(subject: Subject, node: str) -> bool:
    """Whether a thread is at a target, or its storage shows a route to it."""
    if any(at_or_below(leaf.node, node) for leaf in subject.work.leaves):
        return True
    name = node.rpartition("/")[2]
    return subject.routes is not None and (name in subject.routes.branches or name in subject.routes.joins)


def _shown_not_entered(subject: Subject) -> bool:
    """A thread that is gone or never ran does not count; of others storage must show no route, and ``Send`` leaves no
    name."""
    if subject.condition in (Condition.GONE, Condition.NEVER_RAN):
        return True
    return subject.routes is not None and not subject.routes.sends


def _deployed(spec: DrainSpec, revisions: Iterable[RevisionSummary]) -> dict[str, bool | None]:
    """Whether each node target is deployed now; None while the graph was never seen, or cannot be drawn."""
    of_graph = [found for found in revisions if found.graph == spec.graph]
    unreadable = any(found.vanished_at is None and found.xray_hash == UNREADABLE for found in of_graph)
    if not of_graph or unreadable:
        return dict.fromkeys(spec.nodes)
    current = {node for found in of_graph if found.vanished_at is None for node in found.nodes}
    return {node: node in current for node in spec.nodes}


def _hidden_fields(spec: DrainSpec, revisions: Iterable[RevisionSummary]) -> tuple[str, ...]:
    """Fields to be removed that the deployed graph's state does not have. A graph that declares none shows all."""
    current = [found for found in revisions if found.graph == spec.graph and found.vanished_at is None]
    declared = {field for found in current for field in found.fields}
    wanted = sorted({target.name for target in spec.targets if target.kind in ("rename", "version")})
    return tuple(name for name in wanted if declared and name not in declared)


def _revision_nodes(
    revisions: Iterable[RevisionSummary], spec: DrainSpec, removed_at: datetime | None
) -> dict[int, frozenset[str]]:
    """The paths of every revision. After a removal that was safe, nothing can be pending at what is no longer there."""
    found = {}
    for revision in revisions:
        nodes = frozenset(revision.nodes)
        if removed_at is not None and revision.graph == spec.graph and revision.first_seen_at >= removed_at:
            nodes |= set(spec.nodes)
        found[revision.id] = nodes
    return found


def _removed_at(
    spec: DrainSpec, revisions: Iterable[RevisionSummary], soak: SoakState, *, was_drained: bool, now: datetime
) -> datetime | None:
    """When the target was removed, if that was while the drain was drained. Deployed again, it counts no more."""
    deployed = _deployed(spec, revisions)
    if not deployed or any(found is not False for found in deployed.values()):
        return None
    if soak.removed_at is not None or not was_drained:
        return soak.removed_at
    newest = [found.first_seen_at for found in revisions if found.graph == spec.graph and found.vanished_at is None]
    gone = [found.vanished_at for found in revisions if found.graph == spec.graph and found.vanished_at is not None]
    return max([*newest, *gone], default=now)


def _touched_at(spec: DrainSpec, revisions: Iterable[RevisionSummary], *, since: datetime | None) -> datetime | None:
    """When the last deploy after ``since`` was noticed that changed what a target is: its node, the nodes below, its
    joins, or a field. None: there was none."""
    if since is None:
        return None
    of_graph = sorted((found for found in revisions if found.graph == spec.graph), key=lambda found: found.id)
    times = [
        after.first_seen_at
        for before, after in pairwise(of_graph)
        if after.first_seen_at > since and _is_other_target(spec, before, after)
    ]
    times += [
        found.vanished_at for found in of_graph[-1:] if found.vanished_at is not None and found.vanished_at > since
    ]
    return max(times, default=None)


def _is_other_target(spec: DrainSpec, before: RevisionSummary, after: RevisionSummary) -> bool:
    fields = set(spec.fields)
    if fields & set(before.fields) != fields & set(after.fields):
        return True
    return any(_around(before, node) != _around(after, node) for node in spec.nodes)


def _around(revision: RevisionSummary, node: str) -> tuple[frozenset[str], ...]:
    return tuple(
        frozenset(found for found in group if at_or_below(found, node))
        for group in (revision.nodes, revision.joins, revision.deferred)
    )


def _configured(deployment: DeploymentSettings) -> frozenset[str]:
    found = {"threads"}
    if deployment.langsmith is not None:
        found.add("traces")
    if deployment.thread_index is not None:
        found.add("index")
    return frozenset(found)


def _need(look: _Look, revisions: Sequence[RevisionSummary]) -> GreenNeed:
    population = and_(look.population, reads.is_alive())
    table = tables.thread
    nodes = set(look.spec.nodes)
    seen = [found.id for found in revisions]
    idle: ColumnElement[bool] | None = and_(population, reads.is_unverified_idle(seen))
    storage = recheck = None
    if nodes:
        able = [revision for revision, has in look.rules.revision_nodes.items() if nodes <= set(has)]
        readable = table.c.condition != Condition.GRAPH_MISSING.value
        idle = or_(and_(population, reads.is_unverified_idle(able)), and_(_elsewhere(look.spec), readable))
        current = [found for found in revisions if found.vanished_at is None]
        if all(found is True for found in _deployed(look.spec, current).values()):
            recheck = and_(population, table.c.graph_id.in_([found.graph for found in current]))
        ran = and_(population, table.c.condition != Condition.NEVER_RAN.value, table.c.routes_id.is_(None))
        waiting = {node for node in look.rules.joins | look.rules.deferred if any(at_or_below(node, n) for n in nodes)}
        closed_at = _closed_at(look.spec, look.row)
        unreadable = and_(_elsewhere(look.spec), ~readable, table.c.routes_id.is_(None))
        if waiting:
            storage = or_(ran, unreadable)
        else:
            storage = (
                or_(and_(ran, table.c.created_at > closed_at), unreadable) if closed_at is not None else unreadable
            )
    return GreenNeed(idle_heads=idle, recheck=recheck, busy=and_(population, table.c.status == "busy"), storage=storage)


def _elsewhere(spec: DrainSpec) -> ColumnElement[bool]:
    return reads.may_belong(spec.graph, metadata=spec.metadata, created_before=spec.created_before)


_NODE_NEEDS = frozenset(
    {
        Disposition.STRANDED,
        Disposition.LOST,
        Disposition.PARKED_AT_TARGET,
        Disposition.FAILED_AT_TARGET,
        Disposition.RUNNING_AT_TARGET,
        Disposition.SCHEDULED_AT_TARGET,
        Disposition.MAY_HOLD_TARGET,
    }
)


def _node_needs(dispositions: Mapping[str, int]) -> int:
    """Threads that need, or may need, a node target."""
    return sum(dispositions.get(found.value, 0) for found in _NODE_NEEDS)


def _essence(answer: Mapping[str, Any]) -> str:
    """What of an answer makes it worth storing again."""
    reasons = [(reason["code"], reason["count"]) for reason in answer["reasons"]]
    return json.dumps([answer["verdict"], reasons, answer["dispositions"], answer["criteria_version"]], sort_keys=True)
