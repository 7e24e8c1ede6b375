"""Drains and the inventory together: take up drains, answer, list threads, move on after a poll."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, false
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.answers import Answer, BlockingThread, Verdict
from app.drains.dispositions import Disposition, Standing
from app.drains.gathering import gather_evidence
from app.drains.looking import Look, take_look
from app.drains.needs import GreenNeed, green_need
from app.drains.rounds import Round, end_round
from app.drains.spec import DrainSpec, Policy, Target, to_json
from app.drains.verdicts import decide
from app.errors import BadRequest, NotFound
from app.facts.conditions import after_acknowledgement
from app.inventory import reads, register, subjects, tables, writes
from app.inventory.encode import Json, pending_nodes
from app.inventory.store import Store
from app.inventory.views import DrainMention
from app.settings import DeploymentSettings, DrainSettings, Settings


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
            look = await self._look(connection, await self._row(connection, name), now, max_age=max_age)
            return decide(await gather_evidence(connection, look, max_age=max_age), now)

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
            look = await self._look(connection, await self._row(connection, name), now)
            keys, where, total = _selection(look, wanted, reason)
            rows, following = await subjects.list_subject_threads(
                connection, look.deployment_id, where, lens=look.lens, cursor=cursor, limit=limit
            )
            known = set(keys)
            shown = Disposition.PASSED if wanted == [Disposition.PASSED] else None
            return tuple(_thread(look, row, shown) for row in rows if row.key in known), following, total

    async def mentions(
        self, connection: AsyncConnection, deployment_id: int, thread_id: str, *, now: datetime
    ) -> tuple[DrainMention, ...]:
        """What one thread means for each open drain that counts it."""
        found = []
        for row in await self._open_drains(connection, deployment_id):
            look = await self._look(connection, row, now, count=False)
            is_this = and_(look.population, tables.thread.c.thread_id == thread_id)
            key = await subjects.find_subject(connection, deployment_id, is_this, lens=look.lens)
            if key is not None:
                found.append(DrainMention(row.name, look.judge(key).overall.disposition.value))
        return tuple(found)

    async def evaluations(self, name: str, *, limit: int) -> list[Json]:
        """The stored answers of a drain, newest first."""
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            return [found.answer for found in await reads.list_evaluations(connection, row.id, limit=limit)]

    # -- polls ---------------------------------------------------------------------------------------------------

    async def after_poll(self, connection: AsyncConnection, deployment_id: int, round_: Round, now: datetime) -> None:
        """Move every open drain on, and store its answer: in the transaction that ends the poll, so that no complete poll
        is ever seen without what it means."""
        over = set(await register.list_expired(connection, deployment_id, now))
        if over:
            await register.end_expired(connection, deployment_id, now)
        if round_.is_sweep:  # a reading that began before somebody acknowledged may have written over it
            over |= set(await register.acknowledged_tasks(connection, deployment_id, None, now))
        await self.settle_acknowledgements(connection, deployment_id, over, now=now)
        for row in await self._open_drains(connection, deployment_id):
            await end_round(connection, await self._look(connection, row, now), round_)

    async def needs(self, deployment_id: int, now: datetime) -> list[GreenNeed]:
        """What is still to be read, for every open drain."""
        async with self._store.database.read() as connection:
            drains = await self._open_drains(connection, deployment_id)
            return [green_need(await self._look(connection, row, now)) for row in drains]

    async def settle_acknowledgements(
        self, connection: AsyncConnection, deployment_id: int, thread_ids: Collection[str], *, now: datetime
    ) -> None:
        """Judge threads anew after a person has dealt with their losses, or has taken that back."""
        dictionaries = self._store.dictionaries(deployment_id)
        known = await reads.known_threads(connection, dictionaries, sorted(thread_ids))
        tasks = await register.acknowledged_tasks(connection, deployment_id, sorted(thread_ids), now)
        for thread_id, facts in known.items():
            settled = after_acknowledgement(facts, tasks.get(thread_id, frozenset()))
            if settled != facts:
                await writes.rejudge_thread(connection, dictionaries, settled)

    # -- looking up ----------------------------------------------------------------------------------------------

    async def _look(
        self,
        connection: AsyncConnection,
        row: Any,
        now: datetime,
        *,
        max_age: timedelta | None = None,
        count: bool = True,
    ) -> Look:
        deployment = self._deployment(row.spec["deployment"])
        return await take_look(connection, self._store, row, deployment, now=now, max_age=max_age, count=count)

    async def _open_drains(self, connection: AsyncConnection, deployment_id: int) -> list[Any]:
        return [
            row
            for row in await reads.list_drains(connection)
            if row.deployment_id == deployment_id and row.closed_at is None and self._is_known(row)
        ]

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


def _wanted(disposition: str | None, reason: str | None) -> list[Disposition] | None:
    if disposition is not None:
        if disposition not in [found.value for found in Disposition]:
            known = ", ".join(found.value for found in Disposition)
            raise BadRequest(f"There is no disposition {disposition[:40]!r}. Dispositions are: {known}.")
        return [Disposition(disposition)]
    return None if reason is not None else [found for found in Disposition if found.group == "blocking"]


def _selection(
    look: Look, wanted: list[Disposition] | None, reason: str | None
) -> tuple[Collection[subjects.SubjectKey], ColumnElement[bool], int]:
    """The classes that are asked for, their threads, and how many these are."""
    passed = sum(look.passed.values())
    if wanted == [Disposition.PASSED]:
        done = subjects.has_completed(look.spec.nodes) if look.spec.nodes else false()
        return look.passed.keys(), and_(look.of(list(look.passed)), done), passed
    keys = look.keys(wanted, reason=reason)
    total = sum(found.count for found in look.counts if found.key in set(keys))
    if wanted == [Disposition.UNAFFECTED] and passed:
        return keys, and_(look.of(keys), ~subjects.has_completed(look.spec.nodes)), total - passed
    return keys, look.of(keys), total


def _thread(look: Look, row: subjects.SubjectThread, shown: Disposition | None) -> BlockingThread:
    standing: Standing = look.standings[row.key]
    targets = tuple(
        target.label
        for target in look.spec.targets
        if standing.by_target[target.key].disposition is standing.overall.disposition
    )
    return BlockingThread(
        thread_id=row.thread_id,
        disposition=(shown or standing.overall.disposition).value,
        targets=targets,
        pending=pending_nodes(look.dictionaries.works[row.key.work_id]),
        status=row.status,
        condition=row.key.condition,
        assistant_id=row.assistant_id,
        since=row.since,
    )


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
