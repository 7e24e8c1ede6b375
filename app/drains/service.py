"""Drains and the inventory together: answer, list threads, move on after a poll. ``register.py`` makes and changes drains."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, false
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.announcing import Announcer
from app.drains.answers import Actor, Answer, BlockingThread, MustActFor, Verdict
from app.drains.burndown import BurnDown
from app.drains.dispositions import THREAD_REASONS, Disposition, Standing
from app.drains.gathering import gather_evidence, must_act_by
from app.drains.going import read_burndown
from app.drains.looking import Look, take_look
from app.drains.needs import GreenNeed, green_need
from app.drains.preview import as_if_written
from app.drains.rounds import Round, end_round
from app.drains.sharing import Shared
from app.drains.spec import DrainSpec
from app.drains.trends import Trend, trend, trend_times
from app.drains.verdicts import decide
from app.errors import BadRequest, NotFound
from app.facts.conditions import after_acknowledgement
from app.inventory import evaluations, reads, register, subjects, tables, writes
from app.inventory.encode import Json, pending_nodes
from app.inventory.evaluations import HeldAnswer, StoredAnswer
from app.inventory.store import Store
from app.inventory.views import DrainMention
from app.settings import DeploymentSettings, Settings

DEFAULT_HISTORY = timedelta(days=7)
LONGEST_HISTORY = timedelta(days=31)


class Drains:
    """All drains. Every method opens its own short transactions."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self.announcer = Announcer(settings, store.hash_key)
        self._shared: Shared[Answer] = Shared()

    # -- answering -----------------------------------------------------------------------------------------------

    async def answer(self, name: str, *, now: datetime, max_age: timedelta | None = None) -> Answer:
        """The verdict of one drain now. ``max_age`` can only tighten the policy. Raises ``NotFound``. Who asks the same at
        once is answered by one evaluation, that begins when all of them have asked."""

        async def work(latest: datetime) -> Answer:
            return await self._answer(name, now=latest, max_age=max_age)

        return await self._shared.ask((name, max_age), now, work)

    async def _answer(self, name: str, *, now: datetime, max_age: timedelta | None) -> Answer:
        async with self._store.database.read() as connection:
            look = await self._look(connection, await self._row(connection, name), now, max_age=max_age)
            return decide(await gather_evidence(connection, look, max_age=max_age), now)

    async def answer_with_actors(
        self, name: str, *, now: datetime
    ) -> tuple[Answer, Mapping[str, tuple[MustActFor, ...]]]:
        """The verdict, and threads that block by the value of each metadata key that tells them apart (of each key the 20 most),
        of the same moment. Raises ``NotFound``."""
        async with self._store.database.read() as connection:
            look = await self._look(connection, await self._row(connection, name), now)
            return decide(await gather_evidence(connection, look), now), await must_act_by(connection, look)

    async def names(self) -> tuple[tuple[str, str], ...]:
        """Every drain with its deployment, by name."""
        async with self._store.database.read() as connection:
            rows = await reads.list_drains(connection)
        return tuple((row.name, row.spec["deployment"]) for row in rows if self._is_known(row))

    async def answers(self, names: Iterable[str], *, now: datetime) -> tuple[Answer, ...]:
        """The verdicts of these drains now, what blocks first."""
        found = [await self.answer(name, now=now) for name in names]
        order = {Verdict.BLOCKED: 0, Verdict.UNKNOWN: 1, Verdict.DRAINED: 2}
        return tuple(sorted(found, key=lambda answer: (order[answer.verdict], answer.drain)))

    async def preview(self, spec: DrainSpec, *, now: datetime) -> Answer:
        """What a drain would say now if it asked for this. Nothing is stored; other criteria begin without a soak."""
        async with self._store.database.read() as connection:
            known = await reads.find_drain(connection, spec.name)
            deployment = await reads.find_deployment(connection, spec.deployment)
            row = as_if_written(known, spec, deployment.id if deployment is not None else 0, now)
            look = await take_look(connection, self._store, row, self._deployment(spec.deployment), now=now)
            return decide(await gather_evidence(connection, look), now)

    async def threads(
        self,
        name: str,
        *,
        disposition: str | None,
        reason: str | None,
        cursor: str | None,
        limit: int,
        now: datetime,
        target: str | None = None,
        actor: Actor | None = None,
    ) -> tuple[tuple[BlockingThread, ...], str | None, int]:
        """Threads of a drain by disposition (maybe for one target, by its key) or reason (default: all that block), oldest
        first; cursor and total. ``actor``: only those that this one must act on."""
        if disposition is None and reason in _BLOCKING:
            disposition, reason = reason, None  # what blocks counts under the name of its disposition
        wanted = _wanted(disposition, reason)
        if not 1 <= limit <= reads.MAX_LIMIT:
            raise BadRequest(f"limit goes from 1 to {reads.MAX_LIMIT}.")
        async with self._store.database.read() as connection:
            look = await self._look(connection, await self._row(connection, name), now)
            _check_target(look, target)
            keys, where, total = _selection(look, wanted, reason, target)
            if actor is not None:
                where = and_(where, _is_of(look, actor))
                alike = await subjects.count_subjects(connection, look.deployment_id, where, lens=look.lens)
                total = sum(found.count for found in alike if found.key in set(keys))
            rows, following = await subjects.list_subject_threads(
                connection,
                look.deployment_id,
                where,
                lens=look.lens,
                cursor=cursor,
                limit=limit,
                many=look.are_many(keys) and actor is None,
            )
            known = set(keys)
            shown = Disposition.PASSED if wanted == [Disposition.PASSED] else None
            found = tuple(_thread(look, row, shown, target) for row in rows if row.key in known)
            return found, following, total

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

    async def trends(self, *, now: datetime) -> tuple[Trend, ...]:
        """How each drain went since it began to observe, of the last two weeks."""
        async with self._store.database.read() as connection:
            found = []
            for row in await reads.list_drains(connection):
                if self._is_known(row):
                    since = row.observing_since or row.created_at
                    samples = await evaluations.list_samples(connection, [row.id], trend_times(since, now))
                    found.append(trend(row.name, row.spec["deployment"], since, samples, now))
            return tuple(found)

    async def past_answers(
        self, name: str, *, before: int | None, limit: int
    ) -> tuple[tuple[StoredAnswer, ...], int | None]:
        """The stored answers of a drain, newest first, and where the next page begins. Raises ``NotFound``."""
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            return await evaluations.list_answers(connection, row.id, before=before, limit=limit)

    async def past_answer(self, name: str, *, at: datetime | None = None, number: int | None = None) -> HeldAnswer:
        """What a drain said at a time, or one stored answer by its number. Raises ``NotFound``."""
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            found = await evaluations.find_answer(connection, row.id, at=at, number=number)
        if found is None:
            raise NotFound(f"The drain {name} had not answered yet then. Its first answers are at the end of its list.")
        return found

    async def history(self, name: str, *, since: datetime | None, until: datetime | None, now: datetime) -> BurnDown:
        """How a drain went between two times; without them the last seven days, of at most a month. Raises ``NotFound`` and
        ``BadRequest``."""
        until = min(until or now, now)
        since = until - DEFAULT_HISTORY if since is None else since
        if not timedelta(0) < until - since <= LONGEST_HISTORY:
            raise BadRequest(f"Ask for a time of at most {LONGEST_HISTORY.days} days that begins before it ends.")
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            return await read_burndown(
                connection, row, self._deployment(row.spec["deployment"]), since=since, until=until
            )

    # -- polls ---------------------------------------------------------------------------------------------------

    async def after_poll(self, connection: AsyncConnection, deployment_id: int, round_: Round, now: datetime) -> None:
        """Move every open drain on, and store its answer: in the transaction that ends the poll, so that no complete poll
        is ever seen without what it means."""
        over = set(await register.list_expired(connection, deployment_id, now))
        if over:
            await register.end_expired(connection, deployment_id, now)
        # A reading that began before somebody acknowledged, or took that back, may have written over it.
        over |= set(await register.list_ended_since(connection, deployment_id, round_.as_of))
        if round_.is_sweep:
            over |= set(await register.acknowledged_tasks(connection, deployment_id, None, now))
        await self.settle_acknowledgements(connection, deployment_id, over, now=now)
        # Locked, else what a poll remembers of criteria that somebody changes meanwhile would count for the new ones.
        for row in await self._open_drains(connection, deployment_id, lock=True):
            answer = await end_round(connection, await self._look(connection, row, now), round_)
            await self.announcer.drain(connection, row, answer, now)

    async def announce(self, now: datetime) -> None:
        """Tell receivers of webhooks what time alone has changed: a poller that is dead ends no poll."""
        async with self._store.database.read() as connection:
            rows = [row for row in await reads.list_drains(connection) if row.closed_at is None and self._is_known(row)]
        for row in rows:
            if self.announcer.listens(row.spec["deployment"]):
                await self._announce(row.name, now)

    async def _announce(self, name: str, now: datetime) -> None:
        answer = await self.answer(name, now=now)
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            if not await self.announcer.is_news(connection, row, answer):
                return
        async with self._store.database.write() as connection:
            row = await register.lock_drain(connection, name)
            if row is not None and row.closed_at is None:
                look = await self._look(connection, row, now)
                answer = decide(await gather_evidence(connection, look), now)
                await self.announcer.drain(connection, row, answer, now)

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

    async def _open_drains(self, connection: AsyncConnection, deployment_id: int, *, lock: bool = False) -> list[Any]:
        return [
            row
            for row in (
                await reads.lock_drains(connection, deployment_id) if lock else await reads.list_drains(connection)
            )
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


_BLOCKING = frozenset(found.value for found in Disposition if found.group == "blocking")


def _wanted(disposition: str | None, reason: str | None) -> list[Disposition] | None:
    if disposition is not None:
        if disposition not in [found.value for found in Disposition]:
            known = ", ".join(found.value for found in Disposition)
            raise BadRequest(f"There is no disposition {disposition[:40]!r}. Dispositions are: {known}.")
        return [Disposition(disposition)]
    if reason is not None and reason not in THREAD_REASONS:
        known = ", ".join(sorted(THREAD_REASONS))
        raise BadRequest(f"No thread counts under the reason {reason[:40]!r}. Reasons of threads are: {known}.")
    return None if reason is not None else [found for found in Disposition if found.group == "blocking"]


def _check_target(look: Look, target: str | None) -> None:
    known = [found.key for found in look.spec.targets]
    if target is not None and target not in known:
        raise BadRequest(f"The drain has no target {target[:100]!r}. Its targets are: {', '.join(known)}.")


def _is_of(look: Look, actor: Actor) -> ColumnElement[bool]:
    if actor.key is None:
        return subjects.of_assistant(actor.name)
    known = look.deployment.metadata_keys
    if actor.key not in known:
        raise BadRequest(f"The metadata key {actor.key[:100]!r} is not kept. Kept are: {', '.join(known) or 'none'}.")
    return subjects.of_metadata(actor.key, actor.name)


def _selection(
    look: Look, wanted: list[Disposition] | None, reason: str | None, target: str | None
) -> tuple[Collection[subjects.SubjectKey], ColumnElement[bool], int]:
    """The classes that are asked for, their threads, and how many these are."""
    passed = sum(look.passed.values())
    if wanted == [Disposition.PASSED] and target is None:
        done = look.has_completed() if look.spec.nodes else false()
        return look.passed.keys(), and_(look.of(list(look.passed)), done), passed
    keys = look.keys(wanted, reason=reason, target=target)
    total = sum(found.count for found in look.counts if found.key in set(keys))
    if wanted == [Disposition.UNAFFECTED] and passed and target is None:
        return keys, and_(look.of(keys), ~look.has_completed()), total - passed
    return keys, look.of(keys), total


def _thread(look: Look, row: subjects.SubjectThread, shown: Disposition | None, target: str | None) -> BlockingThread:
    """One line. For one target its own disposition is shown, which need not be the worst of the thread."""
    standing: Standing = look.standings[row.key]
    means = (standing.overall if target is None else standing.by_target[target]).disposition
    targets = tuple(
        found.label
        for found in look.spec.targets
        if target in (None, found.key) and standing.by_target[found.key].disposition is means
    )
    return BlockingThread(
        thread_id=row.thread_id,
        disposition=(shown or means).value,
        targets=targets,
        pending=pending_nodes(look.dictionaries.works[row.key.work_id]),
        status=row.status,
        condition=row.key.condition,
        assistant_id=row.assistant_id,
        since=row.since,
    )
