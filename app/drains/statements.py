"""What people say about threads and drains: waivers, acknowledgements, attestations. Every one has an owner, and an entry in
the audit. One call is written as a whole or not at all.
"""

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.criteria import as_asked
from app.drains.register import By
from app.drains.service import Drains
from app.drains.spec import from_json
from app.errors import BadRequest, Conflict, NotFound
from app.facts.types import Condition, LeafSource
from app.inventory import reads, register
from app.inventory.encode import Json
from app.inventory.register import KnownThread, Words
from app.inventory.store import Store
from app.inventory.views import Said
from app.settings import Settings

IDS_NAMED = 10
MAX_THREADS = 1000
BASELINE = "baseline"
ALARM_CODES = ("mass_disappearance", "canary_missing")
DEPLOYMENT_CODES = (*ALARM_CODES, BASELINE)
DRAIN_CODES = ("fell_at_deploy",)
_TO_ACKNOWLEDGE = (Condition.STRANDED.value, Condition.LOST.value)
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Owned:
    """Who stands for it, why, and until when (None: until it is taken back)."""

    owner: str
    reason: str | None
    until: datetime | None


PageOfSaid = tuple[tuple[Said, ...], str | None]


class Statements:
    """All that people say. Every method opens one short transaction.

    Raises ``NotFound``, ``BadRequest`` (``unknown_threads``, ``not_acknowledgeable``, ``invalid``) and ``Conflict``
    (``drain_closed``, ``nothing_to_acknowledge``).
    """

    def __init__(self, settings: Settings, store: Store, drains: Drains) -> None:
        self._settings = settings
        self._store = store
        self._drains = drains

    # -- waivers -------------------------------------------------------------------------------------------------

    async def waive(self, drain: str, thread_ids: Sequence[str], owned: Owned, by: By) -> Said:
        """Threads that a person takes over: they count no more for this drain."""
        words = _words(owned, by)
        async with self._store.database.write() as connection:
            row = await self._open_drain(connection, drain)
            threads = await _known_threads(connection, row.deployment_id, thread_ids)
            created = {thread.thread_id: thread.created_at for thread in threads}
            await register.add_waivers(connection, row, created, words=words)
            await _note(
                connection, row.deployment_id, by, action="threads.waived", subject=drain, detail=_noted(words, created)
            )
            return _one(await register.active_waivers(connection, row.id, by.now), words.batch)

    async def waivers(self, drain: str, *, cursor: str | None, limit: int) -> PageOfSaid:
        """A page of the waivers that a drain ever had, newest first, and the cursor of the next."""
        async with self._store.database.read() as connection:
            row = await self._drain(connection, drain)
            return await register.list_waivers(connection, row.id, cursor=cursor, limit=limit)

    async def end_waiver(self, drain: str, batch: str, by: By) -> int:
        """Take a waiver back; of how many threads."""
        async with self._store.database.write() as connection:
            row = await self._drain(connection, drain)
            ended = await register.end_waivers(connection, row.id, batch, by.now)
            _must_exist(ended, "waiver", drain)
            await _note(
                connection,
                row.deployment_id,
                by,
                action="waiver.ended",
                subject=drain,
                detail={"id": batch, "threads": ended},
            )
            return ended

    # -- acknowledgements ----------------------------------------------------------------------------------------

    async def acknowledge(
        self, drain: str, thread_ids: Sequence[str], codes: Sequence[str], owned: Owned, by: By
    ) -> Said:
        """A loss that a person has dealt with: threads that are stranded or lost, or a fall at a deploy."""
        words = _words(owned, by)
        _check_codes(codes, DRAIN_CODES, thread_ids)
        async with self._store.database.write() as connection:
            row = await self._open_drain(connection, drain)
            if codes and row.fell_at is None:
                raise _nothing(f"The drain {drain} did not fall at a deploy")
            tasks = await self._tasks(connection, row.deployment_id, thread_ids)
            await self._acknowledge(
                connection, row.deployment_id, drain_id=row.id, tasks=tasks, codes=codes, words=words
            )
            await _note(
                connection,
                row.deployment_id,
                by,
                action="acknowledged",
                subject=drain,
                detail=_noted(words, tasks, codes),
            )
            said = await register.active_acknowledgements(connection, row.deployment_id, drain_id=row.id, now=by.now)
            return _one(said, words.batch)

    async def acknowledge_deployment(
        self, deployment: str, thread_ids: Sequence[str], codes: Sequence[str], owned: Owned, by: By
    ) -> Said:
        """The same for every drain of a deployment; also alarms, and what the first sweep found (``baseline``)."""
        words = _words(owned, by)
        _check_codes(codes, DEPLOYMENT_CODES, thread_ids)
        async with self._store.database.write() as connection:
            deployment_id = await self._locked_deployment_id(connection, deployment)
            tasks = await self._tasks(connection, deployment_id, thread_ids)
            if BASELINE in codes:
                tasks |= await self._baseline(connection, deployment_id, deployment, by.now)
            for code in codes:
                if code in ALARM_CODES and not await register.acknowledge_alarms(
                    connection, deployment_id, code, at=by.now
                ):
                    raise _nothing(f"No alarm {code} stands at {deployment}")
            await self._acknowledge(connection, deployment_id, drain_id=None, tasks=tasks, codes=codes, words=words)
            await _note(
                connection,
                deployment_id,
                by,
                action="acknowledged",
                subject=deployment,
                detail=_noted(words, tasks, codes),
            )
            said = await register.active_acknowledgements(connection, deployment_id, drain_id=None, now=by.now)
            return _one(said, words.batch)

    async def acknowledgements(self, drain: str, *, cursor: str | None, limit: int) -> PageOfSaid:
        """A page of the acknowledgements of a drain, newest first, and the cursor of the next."""
        async with self._store.database.read() as connection:
            row = await self._drain(connection, drain)
            return await register.list_acknowledgements(
                connection, row.deployment_id, drain_id=row.id, cursor=cursor, limit=limit
            )

    async def deployment_acknowledgements(self, deployment: str, *, cursor: str | None, limit: int) -> PageOfSaid:
        """A page of the acknowledgements of a deployment that are not of one drain, newest first."""
        async with self._store.database.read() as connection:
            deployment_id = await self._deployment_id(connection, deployment)
            return await register.list_acknowledgements(
                connection, deployment_id, drain_id=None, cursor=cursor, limit=limit
            )

    async def end_acknowledgement(self, drain: str, batch: str, by: By) -> int:
        """Take an acknowledgement back; of how many threads and codes."""
        async with self._store.database.write() as connection:
            row = await self._drain(connection, drain, lock=True)
            return await self._end(connection, row.deployment_id, drain_id=row.id, batch=batch, subject=drain, by=by)

    async def end_deployment_acknowledgement(self, deployment: str, batch: str, by: By) -> int:
        """Take an acknowledgement of a deployment back."""
        async with self._store.database.write() as connection:
            deployment_id = await self._locked_deployment_id(connection, deployment)
            return await self._end(connection, deployment_id, drain_id=None, batch=batch, subject=deployment, by=by)

    async def _acknowledge(
        self,
        connection: AsyncConnection,
        deployment_id: int,
        *,
        drain_id: int | None,
        tasks: dict[str, list[str]],
        codes: Sequence[str],
        words: Words,
    ) -> None:
        await register.add_acknowledgements(
            connection, deployment_id, drain_id=drain_id, threads=tasks, codes=codes, words=words
        )
        await self._drains.settle_acknowledgements(connection, deployment_id, list(tasks), now=words.created_at)

    async def _end(
        self,
        connection: AsyncConnection,
        deployment_id: int,
        *,
        drain_id: int | None,
        batch: str,
        subject: str,
        by: By,
    ) -> int:
        ended, threads, codes = await register.end_acknowledgements(
            connection, deployment_id, drain_id=drain_id, batch=batch, now=by.now
        )
        _must_exist(ended, "acknowledgement", subject)
        for code in codes:
            await register.acknowledge_alarms(connection, deployment_id, code, at=None)
        await self._drains.settle_acknowledgements(connection, deployment_id, threads, now=by.now)
        detail = {"id": batch, "threads": len(threads), "codes": list(codes)}
        await _note(connection, deployment_id, by, action="acknowledgement.ended", subject=subject, detail=detail)
        return ended

    async def _tasks(
        self, connection: AsyncConnection, deployment_id: int, thread_ids: Sequence[str]
    ) -> dict[str, list[str]]:
        """The tasks that are stranded or lost, by thread. Other threads have nothing to acknowledge."""
        threads = await _known_threads(connection, deployment_id, thread_ids)
        others = [thread for thread in threads if thread.condition not in _TO_ACKNOWLEDGE]
        if others:
            named = ", ".join(f"{each.thread_id} is {each.condition.replace('_', ' ')}" for each in others[:IDS_NAMED])
            raise BadRequest(
                f"Only threads that are stranded or lost can be acknowledged: {named}{_more(len(others))}. "
                "Nothing was acknowledged.",
                code="not_acknowledgeable",
            )
        return {thread.thread_id: _lost_tasks(thread.leaves) for thread in threads}

    async def _baseline(
        self, connection: AsyncConnection, deployment_id: int, deployment: str, now: datetime
    ) -> dict[str, list[str]]:
        """What was stranded or lost already when the first complete sweep came, and has not moved since."""
        ended = await register.find_first_sweep_end(connection, deployment_id)
        if ended is None:
            raise _nothing(f"{deployment} was never swept completely")
        threads = await register.list_unmoved(connection, deployment_id, conditions=_TO_ACKNOWLEDGE, since=ended)
        ids = [thread.thread_id for thread in threads]
        seen = await register.observed_tasks(connection, deployment_id, ids)
        done = await register.acknowledged_tasks(connection, deployment_id, ids, now)
        found = {}
        for thread in threads:
            tasks, name = _lost_tasks(thread.leaves), thread.thread_id
            was_seen_waiting = set(tasks) & seen.get(name, frozenset())
            if not was_seen_waiting and set(tasks) - done.get(name, frozenset()):
                found[name] = tasks
        if not found:
            raise _nothing(f"The first complete sweep of {deployment} found no thread that is still stranded or lost")
        return found

    # -- attestations --------------------------------------------------------------------------------------------

    async def attest(self, drain: str, names: Sequence[str], owned: Owned, by: By) -> tuple[Said, ...]:
        """Tick attestations that the drain's policy asks for."""
        words = _words(owned, by)
        async with self._store.database.write() as connection:
            row = await self._open_drain(connection, drain)
            asked = self._asked(row)
            if unknown := [name for name in names if name not in asked]:
                known = ", ".join(asked) or "none"
                raise BadRequest(
                    f"The drain {drain} does not ask for the attestation {unknown[0][:100]!r}. It asks for: {known}.",
                    code="invalid",
                )
            ids = await register.add_attestations(connection, row, dict.fromkeys(names), words=words)
            detail = {"attestations": list(dict.fromkeys(names)), "owner": owned.owner}
            await _note(connection, row.deployment_id, by, action="attested", subject=drain, detail=detail)
            said, _ = await register.list_attestations(connection, row.id, limit=len(ids))
            return tuple(each for each in said if each.id in ids)

    def _asked(self, row: Any) -> tuple[str, ...]:
        """The attestations that a drain asks for today."""
        spec = from_json(row.spec)
        deployment = self._settings.deployment(spec.deployment)
        return (as_asked(spec, deployment) if deployment is not None else spec).policy.attestations

    async def attestations(self, drain: str, *, cursor: str | None, limit: int) -> PageOfSaid:
        """A page of the attestations that a drain ever had, newest first, and the cursor of the next."""
        async with self._store.database.read() as connection:
            row = await self._drain(connection, drain)
            return await register.list_attestations(connection, row.id, cursor=cursor, limit=limit)

    async def end_attestation(self, drain: str, attestation_id: str, by: By) -> int:
        """Take an attestation back."""
        async with self._store.database.write() as connection:
            row = await self._drain(connection, drain)
            number = int(attestation_id) if attestation_id.isdecimal() and len(attestation_id) < 18 else 0
            ended = await register.end_attestation(connection, row.id, number, by.now)
            _must_exist(ended, "attestation", drain)
            await _note(
                connection,
                row.deployment_id,
                by,
                action="attestation.ended",
                subject=drain,
                detail={"id": attestation_id},
            )
            return ended

    # -- by name -------------------------------------------------------------------------------------------------

    async def _drain(self, connection: AsyncConnection, name: str, *, lock: bool = False) -> Any:
        row = await (register.lock_drain if lock else reads.find_drain)(connection, name)
        if row is None or self._settings.deployment(row.spec["deployment"]) is None:
            raise NotFound(f"There is no drain with the name {name[:100]!r}. `drainboard drains list` shows all.")
        return row

    async def _open_drain(self, connection: AsyncConnection, name: str) -> Any:
        row = await self._drain(connection, name, lock=True)
        if row.closed_at is not None:
            raise Conflict(f"The drain {name} is closed, so nothing counts for it. Open it first.", code="drain_closed")
        return row

    async def _locked_deployment_id(self, connection: AsyncConnection, name: str) -> int:
        await register.lock_places(connection, deployments=[name])
        return await self._deployment_id(connection, name)

    async def _deployment_id(self, connection: AsyncConnection, name: str) -> int:
        row = await reads.find_deployment(connection, name) if self._settings.deployment(name) is not None else None
        if row is None:
            raise NotFound(f"There is no deployment with the name {name[:100]!r}.")
        return int(row.id)


async def _known_threads(
    connection: AsyncConnection, deployment_id: int, thread_ids: Sequence[str]
) -> list[KnownThread]:
    """These threads, in order and each once. Raises ``BadRequest`` when one of them was never seen."""
    if len(thread_ids) > MAX_THREADS:
        raise BadRequest(f"Name at most {MAX_THREADS:,} threads in one call.", code="invalid")
    # An application without a server writes ids its own way, so what is known as it is written comes first.
    as_written = {found.thread_id for found in await register.find_threads(connection, deployment_id, thread_ids)}
    wanted = list(dict.fromkeys(one if one in as_written else _canonical(one) for one in thread_ids))
    known = {thread.thread_id: thread for thread in await register.find_threads(connection, deployment_id, wanted)}
    if unknown := [thread_id for thread_id in wanted if thread_id not in known]:
        named = ", ".join(_printable(thread_id) for thread_id in unknown[:IDS_NAMED])
        raise BadRequest(
            f"These threads were never seen in this deployment: {named}{_more(len(unknown))}. Nothing was changed.",
            code="unknown_threads",
        )
    return [known[thread_id] for thread_id in wanted]


def _lost_tasks(leaves: Iterable[Json]) -> list[str]:
    """Ids of the tasks that the deployed graph does not schedule, or that are lost."""
    return [
        leaf["task_id"]
        for leaf in leaves
        if leaf["task_id"] is not None and (leaf["lost"] or leaf["source"] != LeafSource.STATE.value)
    ]


def _words(owned: Owned, by: By) -> Words:
    if owned.until is not None and owned.until <= by.now:
        raise BadRequest("until is in the past: give a time in the future, or none.", code="invalid")
    return Words(uuid.uuid4().hex, owned.owner, owned.reason, owned.until, by.now, by.actor)


def _check_codes(codes: Sequence[str], known: Sequence[str], thread_ids: Sequence[str]) -> None:
    if unknown := [code for code in codes if code not in known]:
        raise BadRequest(
            f"{unknown[0][:40]!r} cannot be acknowledged here. Codes are: {', '.join(known)}.", code="invalid"
        )
    if not codes and not thread_ids:
        raise BadRequest("Name the threads in thread_ids, or what to acknowledge in codes.", code="invalid")


def _one(said: Iterable[Said], batch: str) -> Said:
    return next(each for each in said if each.id == batch)


def _must_exist(ended: int, what: str, where: str) -> None:
    if not ended:
        raise NotFound(f"{where} has no {what} with this id that still stands.")


def _nothing(why: str) -> Conflict:
    return Conflict(f"{why}, so there is nothing to acknowledge.", code="nothing_to_acknowledge")


def _canonical(thread_id: str) -> str:
    """A UUID as Agent Servers write it; other ids as they are."""
    found = thread_id.strip()
    return str(uuid.UUID(found)) if _UUID.fullmatch(found) else found


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:64])


def _more(count: int) -> str:
    return f" and {count - IDS_NAMED} more" if count > IDS_NAMED else ""


def _noted(words: Words, threads: Iterable[str], codes: Sequence[str] = ()) -> Json:
    ids = list(threads)
    found: Json = {"id": words.batch, "owner": words.owner, "threads": len(ids), "first": ids[:IDS_NAMED]}
    return found | ({"codes": list(codes)} if codes else {})


async def _note(
    connection: AsyncConnection, deployment_id: int, by: By, *, action: str, subject: str, detail: Json
) -> None:
    await register.add_activity(
        connection, deployment_id, now=by.now, actor=by.actor, action=action, subject=subject, detail=detail
    )
