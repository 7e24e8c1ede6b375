"""What people say about drains: criteria versions, waivers, acknowledgements, attestations, and the audit. Short writes and
questions, in their own module since nothing of it comes from a server.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, Table, and_, exists, func, insert, not_, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.types import Condition
from app.inventory import tables
from app.inventory.cursors import close_cursor, open_cursor
from app.inventory.encode import Json
from app.inventory.views import Activity, CriteriaVersion, Explained, Said

IDS_SHOWN = 20
CHUNK = 500

_waiver = tables.waiver
_ack = tables.acknowledgement
_attestation = tables.attestation


@dataclass(frozen=True, slots=True)
class Words:
    """Who says it, why, until when, and the call in which it was said. ``actor``: through which door."""

    batch: str
    owner: str
    reason: str | None
    until: datetime | None
    created_at: datetime
    actor: str

    @property
    def columns(self) -> Json:
        """As the columns that every table of this module has."""
        return {
            "owner": self.owner,
            "reason": self.reason,
            "until": self.until,
            "created_at": self.created_at,
            "actor": self.actor,
        }


def _is_active(table: Table, now: datetime) -> ColumnElement[bool]:
    return and_(table.c.ended_at.is_(None), or_(table.c.until.is_(None), table.c.until > now))


# -- waivers -------------------------------------------------------------------------------------------------------


async def add_waivers(
    connection: AsyncConnection, drain: Any, threads: Mapping[str, datetime], *, words: Words
) -> None:
    """Waive threads of a drain: ``{thread_id: when the thread was created}``."""
    common = {"deployment_id": drain.deployment_id, "drain_id": drain.id, "batch": words.batch, **words.columns}
    rows = [{**common, "thread_id": thread, "thread_created_at": when} for thread, when in threads.items()]
    await connection.execute(insert(_waiver), rows)


async def active_waivers(connection: AsyncConnection, drain_id: int, now: datetime) -> tuple[Said, ...]:
    """The waivers of a drain that count now, newest first."""
    where = and_(_waiver.c.drain_id == drain_id, _is_active(_waiver, now))
    return await _list_said(connection, _waiver, where, kind="waiver")


async def has_waivers(connection: AsyncConnection, drain_id: int, now: datetime) -> bool:
    """Whether any waiver of a drain counts now."""
    query = select(_waiver.c.id).where(_waiver.c.drain_id == drain_id, _is_active(_waiver, now)).limit(1)
    return (await connection.execute(query)).first() is not None


async def list_waivers(
    connection: AsyncConnection, drain_id: int, *, cursor: str | None = None, limit: int
) -> tuple[tuple[Said, ...], str | None]:
    """A page of the waivers that a drain ever had, newest first, and the cursor of the next."""
    return await _page_of_said(connection, _waiver, _waiver.c.drain_id == drain_id, "waiver", (cursor, limit))


async def end_waivers(connection: AsyncConnection, drain_id: int, batch: str, now: datetime) -> int:
    """Take back what one call waived; of how many threads."""
    return await _end(connection, _waiver, _waiver.c.drain_id == drain_id, batch, now)


def is_waived(drain_id: int, now: datetime) -> ColumnElement[bool]:
    """Threads that a waiver of the drain names. A thread that was made anew under the same id is another one."""
    thread = tables.thread
    query = exists().where(
        _waiver.c.deployment_id == thread.c.deployment_id,
        _waiver.c.drain_id == drain_id,
        _waiver.c.thread_id == thread.c.thread_id,
        _waiver.c.thread_created_at == thread.c.created_at,
        _is_active(_waiver, now),
    )
    return query.correlate(thread)


async def has_outlived_waiver(
    connection: AsyncConnection, drain_id: int, *, since: datetime, until: datetime, now: datetime
) -> bool:
    """Whether a waiver of the drain held between two moments and has ended since, while its thread still lives and nobody has
    waived it again: what that thread needed then was not asked, and may not be visible any more."""
    thread, ended = tables.thread, func.coalesce(_waiver.c.ended_at, _waiver.c.until, type_=tables.UtcDateTime())
    query = (
        select(_waiver.c.id)
        .join(
            thread,
            and_(
                thread.c.deployment_id == _waiver.c.deployment_id,
                thread.c.thread_id == _waiver.c.thread_id,
                thread.c.created_at == _waiver.c.thread_created_at,
            ),
        )
        .where(_waiver.c.drain_id == drain_id, _waiver.c.created_at <= until, ended > since, ended <= now)
        .where(thread.c.condition != Condition.GONE.value, not_(is_waived(drain_id, now)))
    )
    return (await connection.execute(query.limit(1))).first() is not None


# -- acknowledgements ----------------------------------------------------------------------------------------------


async def add_acknowledgements(
    connection: AsyncConnection,
    deployment_id: int,
    *,
    drain_id: int | None,
    threads: Mapping[str, Iterable[str]],
    codes: Iterable[str],
    words: Words,
) -> None:
    """Acknowledge threads (``{thread_id: ids of the tasks that are lost or stranded}``) and codes."""
    poll = tables.poll
    ended = select(func.max(poll.c.id)).where(poll.c.deployment_id == deployment_id, poll.c.finished_at.is_not(None))
    common = {
        "deployment_id": deployment_id,
        "drain_id": drain_id,
        "batch": words.batch,
        "poll_id": await connection.scalar(ended),
        **words.columns,
    }
    rows = [{**common, "thread_id": thread, "tasks": sorted(tasks), "code": None} for thread, tasks in threads.items()]
    rows += [{**common, "thread_id": None, "tasks": [], "code": code} for code in codes]
    for start in range(0, len(rows), CHUNK):
        await connection.execute(insert(_ack), rows[start : start + CHUNK])


async def acknowledged_tasks(
    connection: AsyncConnection, deployment_id: int, thread_ids: Sequence[str] | None, now: datetime
) -> dict[str, frozenset[str]]:
    """The tasks that were acknowledged, by thread; of all threads when ``thread_ids`` is None."""
    where = and_(_ack.c.deployment_id == deployment_id, _ack.c.thread_id.is_not(None), _is_active(_ack, now))
    query = select(_ack.c.thread_id, _ack.c.tasks).where(where)
    chunks = [query] if thread_ids is None else [query.where(_ack.c.thread_id.in_(ids)) for ids in _chunks(thread_ids)]
    found: dict[str, frozenset[str]] = {}
    for chunk in chunks:
        for row in await connection.execute(chunk):
            found[row.thread_id] = found.get(row.thread_id, frozenset()) | frozenset(row.tasks)
    return found


async def acknowledged_codes(
    connection: AsyncConnection, deployment_id: int, *, drain_id: int | None, now: datetime
) -> dict[str, datetime]:
    """The codes that were acknowledged for a drain, or for the deployment when None, and when that was last."""
    where = and_(_ack.c.deployment_id == deployment_id, _of_drain(drain_id), _is_active(_ack, now))
    query = select(_ack.c.code, func.max(_ack.c.created_at).label("at")).where(where, _ack.c.code.is_not(None))
    return {row.code: row.at for row in await connection.execute(query.group_by(_ack.c.code))}


async def explained_disappearance(connection: AsyncConnection, deployment_id: int, now: datetime) -> Explained | None:
    """Up to when somebody has explained that threads vanished; None: nobody has."""
    where = and_(_ack.c.deployment_id == deployment_id, _of_drain(None), _is_active(_ack, now))
    query = select(_ack.c.poll_id, _ack.c.created_at).where(where, _ack.c.code == "mass_disappearance")
    row = (await connection.execute(query.order_by(_ack.c.id.desc()).limit(1))).one_or_none()
    return None if row is None else Explained(row.poll_id, row.created_at)


async def active_acknowledgements(
    connection: AsyncConnection, deployment_id: int, *, drain_id: int | None, now: datetime
) -> tuple[Said, ...]:
    """The acknowledgements that count now, newest first: those of a drain, or of the deployment when None."""
    where = and_(_ack.c.deployment_id == deployment_id, _of_drain(drain_id), _is_active(_ack, now))
    return await _list_said(connection, _ack, where, kind="acknowledgement")


async def other_acknowledgements(
    connection: AsyncConnection, deployment_id: int, *, drain_id: int, now: datetime
) -> tuple[Said, ...]:
    """The acknowledgements of threads that were said about other drains and count now. A loss that somebody has dealt with is
    dealt with for every drain of the deployment."""
    others = and_(_ack.c.drain_id.is_not(None), _ack.c.drain_id != drain_id, _ack.c.thread_id.is_not(None))
    where = and_(_ack.c.deployment_id == deployment_id, others, _is_active(_ack, now))
    batches = select(_ack.c.batch, tables.drain.c.name).join(tables.drain).where(where).distinct()
    drains = {row.batch: row.name for row in await connection.execute(batches)}
    found = await _list_said(connection, _ack, where, kind="acknowledgement") if drains else ()
    return tuple(replace(said, drain=drains[said.id]) for said in found)


async def list_expired(connection: AsyncConnection, deployment_id: int, now: datetime) -> list[str]:
    """Threads with an acknowledgement whose time is over and whose leaves may still say that it counts."""
    over = and_(_ack.c.ended_at.is_(None), _ack.c.until <= now, _ack.c.thread_id.is_not(None))
    query = select(_ack.c.thread_id).where(_ack.c.deployment_id == deployment_id, over).distinct()
    return list((await connection.execute(query)).scalars())


async def list_ended_since(connection: AsyncConnection, deployment_id: int, when: datetime) -> list[str]:
    """Threads with an acknowledgement that has ended since a moment, by itself or because somebody took it back."""
    where = and_(_ack.c.deployment_id == deployment_id, _ack.c.ended_at >= when, _ack.c.thread_id.is_not(None))
    return list((await connection.execute(select(_ack.c.thread_id).where(where).distinct())).scalars())


async def end_expired(connection: AsyncConnection, deployment_id: int, now: datetime) -> None:
    """Acknowledgements whose time is over have ended."""
    over = and_(_ack.c.deployment_id == deployment_id, _ack.c.ended_at.is_(None), _ack.c.until <= now)
    await connection.execute(update(_ack).where(over).values(ended_at=now))


async def list_acknowledgements(
    connection: AsyncConnection, deployment_id: int, *, drain_id: int | None, cursor: str | None = None, limit: int
) -> tuple[tuple[Said, ...], str | None]:
    """A page of the acknowledgements of a drain, or of the deployment when None, newest first, and the cursor of the next."""
    where = and_(_ack.c.deployment_id == deployment_id, _of_drain(drain_id))
    return await _page_of_said(connection, _ack, where, "acknowledgement", (cursor, limit))


async def end_acknowledgements(
    connection: AsyncConnection, deployment_id: int, *, drain_id: int | None, batch: str, now: datetime
) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Take back what one call acknowledged: how many rows ended, the threads they named, and the codes."""
    where = and_(_ack.c.deployment_id == deployment_id, _of_drain(drain_id))
    of_batch = select(_ack.c.thread_id, _ack.c.code).where(where, _ack.c.batch == batch, _ack.c.ended_at.is_(None))
    rows = list(await connection.execute(of_batch))
    threads = tuple(row.thread_id for row in rows if row.thread_id is not None)
    codes = tuple(row.code for row in rows if row.code is not None)
    return await _end(connection, _ack, where, batch, now), threads, codes


def _of_drain(drain_id: int | None) -> ColumnElement[bool]:
    return _ack.c.drain_id.is_(None) if drain_id is None else _ack.c.drain_id == drain_id


# -- threads that one can speak of ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownThread:
    """A thread as far as it matters for what is said of it. ``leaves``: as they are stored."""

    thread_id: str
    created_at: datetime
    condition: str
    leaves: list[Json]


async def find_threads(connection: AsyncConnection, deployment_id: int, thread_ids: Sequence[str]) -> list[KnownThread]:
    """Those of these threads that were ever seen."""
    table = tables.thread
    found = []
    for ids in _chunks(thread_ids):
        found += await _known(connection, and_(table.c.deployment_id == deployment_id, table.c.thread_id.in_(ids)))
    return found


async def find_first_sweep_end(connection: AsyncConnection, deployment_id: int) -> datetime | None:
    """When the first complete sweep of a deployment ended; None before that."""
    table = tables.poll
    query = select(table.c.finished_at).where(
        table.c.deployment_id == deployment_id, table.c.kind == "sweep", table.c.state == "complete"
    )
    found: datetime | None = await connection.scalar(query.order_by(table.c.id).limit(1))
    return found


async def list_unmoved(
    connection: AsyncConnection, deployment_id: int, *, conditions: Sequence[str], since: datetime
) -> list[KnownThread]:
    """Threads with one of these conditions whose state has not changed since a moment."""
    table = tables.thread
    changed = func.coalesce(table.c.state_updated_at, table.c.updated_at, type_=tables.UtcDateTime())
    of_deployment = and_(table.c.deployment_id == deployment_id, table.c.condition.in_(conditions))
    return await _known(connection, and_(of_deployment, changed < since))


async def observed_tasks(
    connection: AsyncConnection, deployment_id: int, thread_ids: Sequence[str]
) -> dict[str, frozenset[str]]:
    """The tasks of these threads that were ever seen pending, by thread."""
    table = tables.observation
    found: dict[str, frozenset[str]] = {}
    for ids in _chunks(thread_ids):
        query = select(table.c.thread_id, table.c.task_id).where(
            table.c.deployment_id == deployment_id, table.c.thread_id.in_(ids)
        )
        for row in await connection.execute(query):
            found[row.thread_id] = found.get(row.thread_id, frozenset()) | {row.task_id}
    return found


async def acknowledge_alarms(connection: AsyncConnection, deployment_id: int, code: str, *, at: datetime | None) -> int:
    """Mark the alarms of a code that stand as acknowledged, or (None) as not; how many there are."""
    table = tables.alarm
    standing = and_(table.c.deployment_id == deployment_id, table.c.code == code, table.c.cleared_at.is_(None))
    return (await connection.execute(update(table).where(standing).values(acknowledged_at=at))).rowcount


async def _known(connection: AsyncConnection, where: ColumnElement[bool]) -> list[KnownThread]:
    table = tables.thread
    query = select(table.c.thread_id, table.c.created_at, table.c.condition, table.c.detail).where(where)
    return [
        KnownThread(row.thread_id, row.created_at, row.condition, row.detail["leaves"])
        for row in await connection.execute(query.order_by(table.c.thread_id))
    ]


# -- attestations --------------------------------------------------------------------------------------------------


async def add_attestations(
    connection: AsyncConnection, drain: Any, names: Iterable[str], *, words: Words
) -> tuple[str, ...]:
    """Tick attestations of a drain for its criteria of today; the ids they got."""
    ids = []
    for name in names:
        common = {"deployment_id": drain.deployment_id, "drain_id": drain.id, **words.columns}
        values = {**common, "name": name, "criteria_version": drain.criteria_version}
        done = await connection.execute(insert(_attestation).values(**values))
        ids.append(str((done.inserted_primary_key or (0,))[0]))
    return tuple(ids)


async def active_attestations(
    connection: AsyncConnection, drain_id: int, *, criteria_version: int, now: datetime
) -> tuple[Said, ...]:
    """The attestations that count now, newest first."""
    of_version = and_(_attestation.c.drain_id == drain_id, _attestation.c.criteria_version == criteria_version)
    return await _list_attestations(connection, and_(of_version, _is_active(_attestation, now)))


async def list_attestations(
    connection: AsyncConnection, drain_id: int, *, cursor: str | None = None, limit: int
) -> tuple[tuple[Said, ...], str | None]:
    """A page of the attestations that a drain ever had, newest first, and the cursor of the next."""
    where = _attestation.c.drain_id == drain_id
    if cursor is not None:
        where = and_(where, _attestation.c.id < before_id(cursor, "attestation"))
    found = await _list_attestations(connection, where, limit=limit + 1)
    return found[:limit], id_cursor("attestation", int(found[limit - 1].id)) if len(found) > limit else None


async def end_attestation(connection: AsyncConnection, drain_id: int, attestation_id: int, now: datetime) -> int:
    """Take an attestation back; 0 when there is none that still stands."""
    table = _attestation
    of_drain = and_(table.c.drain_id == drain_id, table.c.id == attestation_id, table.c.ended_at.is_(None))
    return (await connection.execute(update(table).where(of_drain).values(ended_at=now))).rowcount


async def _list_attestations(
    connection: AsyncConnection, where: ColumnElement[bool], *, limit: int | None = None
) -> tuple[Said, ...]:
    query = select(_attestation).where(where).order_by(_attestation.c.id.desc()).limit(limit)
    return tuple(_attestation_said(row) for row in await connection.execute(query))


def _attestation_said(row: Any) -> Said:
    return Said(
        id=str(row.id),
        kind="attestation",
        owner=row.owner,
        reason=row.reason,
        until=row.until,
        created_at=row.created_at,
        actor=row.actor,
        ended_at=row.ended_at,
        count=0,
        names=(row.name,),
        criteria_version=row.criteria_version,
    )


# -- drains and their criteria ---------------------------------------------------------------------------------------------


async def lock_places(
    connection: AsyncConnection, *, drains: Iterable[str] = (), deployments: Iterable[str] = ()
) -> None:
    """Lock these deployments, and those that these drains are of, in the order of their ids. Whoever changes drains or threads
    does that before anything else: a poll has its deployment's lock in every transaction, and takes the drains' after it."""
    table = tables.deployment
    of_drains = select(tables.drain.c.deployment_id).where(tables.drain.c.name.in_(list(drains)))
    wanted = or_(table.c.name.in_(list(deployments)), table.c.id.in_(of_drains))
    await connection.execute(select(table.c.id).where(wanted).order_by(table.c.id).with_for_update(key_share=True))


async def lock_drain(connection: AsyncConnection, name: str) -> Any | None:
    """The row of a drain, which nobody else changes until the transaction ends; or None. Its deployment is locked before it."""
    await lock_places(connection, drains=[name])
    query = select(tables.drain).where(tables.drain.c.name == name).with_for_update()
    return (await connection.execute(query)).one_or_none()


async def insert_drain(connection: AsyncConnection, values: Mapping[str, Any]) -> bool:
    """Write a new drain; False when there is one of that name already."""
    statement = _insert(connection, tables.drain).values(**values).on_conflict_do_nothing(index_elements=["name"])
    return await connection.scalar(statement.returning(tables.drain.c.id)) is not None


def _insert(connection: AsyncConnection, table: Table) -> Any:
    return (sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert)(table)


async def add_version(connection: AsyncConnection, drain: Any, *, now: datetime, actor: str) -> None:
    """Keep the criteria that a drain has now as one of its versions. Harmless when they are kept already."""
    statement = _insert(connection, tables.drain_version).values(
        deployment_id=drain.deployment_id,
        drain_id=drain.id,
        version=drain.criteria_version,
        spec=drain.spec,
        criteria_digest=drain.criteria_digest,
        created_at=now,
        actor=actor,
    )
    await connection.execute(statement.on_conflict_do_nothing(index_elements=["drain_id", "version"]))


async def list_versions(
    connection: AsyncConnection, drain_id: int, *, cursor: str | None = None, limit: int
) -> tuple[tuple[CriteriaVersion, ...], str | None]:
    """A page of the versions of a drain's criteria, newest first, and the cursor of the next."""
    table = tables.drain_version
    query = select(table).where(table.c.drain_id == drain_id)
    if cursor is not None:
        query = query.where(table.c.version < before_id(cursor, "versions"))
    rows = await connection.execute(query.order_by(table.c.version.desc()).limit(limit + 1))
    found = tuple(CriteriaVersion(row.version, row.spec, row.created_at, row.actor) for row in rows)
    return found[:limit], id_cursor("versions", found[limit - 1].version) if len(found) > limit else None


async def count_versions(connection: AsyncConnection, drain_id: int) -> int:
    """How many versions a drain's criteria had."""
    table = tables.drain_version
    return int(await connection.scalar(select(func.count()).where(table.c.drain_id == drain_id)) or 0)


# -- activity ------------------------------------------------------------------------------------------------------


async def add_activity(
    connection: AsyncConnection,
    deployment_id: int | None,
    *,
    now: datetime,
    actor: str,
    action: str,
    subject: str,
    detail: Json | None = None,
) -> None:
    """Write a line of the audit. ``detail`` may hold names, ids and counts, nothing of a state."""
    values = {"at": now, "actor": actor[:200], "action": action, "subject": subject[:200], "detail": detail or {}}
    await connection.execute(insert(tables.activity).values(deployment_id=deployment_id, **values))


async def list_activity(
    connection: AsyncConnection, *, deployments: Sequence[str] | None = None, cursor: str | None, limit: int
) -> tuple[tuple[Activity, ...], str | None]:
    """The audit, newest first: of these deployments; None: of all, and of none. And the cursor of the next page."""
    table, deployment = tables.activity, tables.deployment
    query = select(table, deployment.c.name.label("deployment")).outerjoin(
        deployment, table.c.deployment_id == deployment.c.id
    )
    if deployments is not None:
        query = query.where(deployment.c.name.in_(deployments))
    if cursor is not None:
        query = query.where(table.c.id < before_id(cursor, "activity"))
    rows = list(await connection.execute(query.order_by(table.c.id.desc()).limit(limit + 1)))
    following = id_cursor("activity", rows[limit - 1].id) if len(rows) > limit else None
    return tuple(_activity(row) for row in rows[:limit]), following


def _activity(row: Any) -> Activity:
    return Activity(row.id, row.at, row.actor, row.action, row.subject, row.deployment, row.detail)


def id_cursor(list_name: str, last_id: int) -> str:
    """The cursor after a row of a list that is ordered by falling id."""
    return close_cursor(list_name, str(last_id), "")


def before_id(cursor: str, list_name: str) -> int:
    """The reverse. Raises ``BadRequest``."""
    value, _ = open_cursor(cursor, list_name)
    return int(value) if value.isdecimal() and len(value) < 19 else 0


# -- calls ---------------------------------------------------------------------------------------------------------


async def _end(connection: AsyncConnection, table: Table, where: ColumnElement[bool], batch: str, now: datetime) -> int:
    of_batch = and_(where, table.c.batch == batch, table.c.ended_at.is_(None))
    return (await connection.execute(update(table).where(of_batch).values(ended_at=now))).rowcount


async def _list_said(
    connection: AsyncConnection,
    table: Table,
    where: ColumnElement[bool],
    *,
    kind: Literal["waiver", "acknowledgement"],
) -> tuple[Said, ...]:
    """What was said, one value for each call, newest first."""
    calls: dict[str, list[Any]] = {}
    for row in await connection.execute(_first_of_each_call(table, where)):
        calls.setdefault(row.batch, []).append(row)
    return tuple(_said(rows, kind) for rows in calls.values())


async def _page_of_said(
    connection: AsyncConnection,
    table: Table,
    where: ColumnElement[bool],
    kind: Literal["waiver", "acknowledgement"],
    page: tuple[str | None, int],
) -> tuple[tuple[Said, ...], str | None]:
    """Calls, newest first, after a cursor: by the last of each call's rows."""
    (cursor, limit), last = page, func.max(table.c.id)
    calls = select(table.c.batch, last.label("last")).where(where).group_by(table.c.batch)
    if cursor is not None:
        calls = calls.having(last < before_id(cursor, kind))
    found = list(await connection.execute(calls.order_by(last.desc()).limit(limit + 1)))
    these = and_(where, table.c.batch.in_([call.batch for call in found[:limit]]))
    said = await _list_said(connection, table, these, kind=kind)
    return said, id_cursor(kind, found[limit - 1].last) if len(found) > limit else None


def _first_of_each_call(table: Table, where: ColumnElement[bool]) -> Select[Any]:
    """The first rows of each call, with how many threads it names: a call names up to a thousand."""
    batch = table.c.batch
    numbered: Select[Any] = select(
        *table.c,
        func.row_number().over(partition_by=batch, order_by=[table.c.thread_id, table.c.id]).label("rank"),
        func.count(table.c.thread_id).over(partition_by=batch).label("threads"),
        func.max(table.c.id).over(partition_by=batch).label("last"),
    ).where(where)
    rows = numbered.subquery()
    shown = rows.c.rank <= IDS_SHOWN
    if "code" in table.c:
        shown = or_(shown, rows.c.code.is_not(None))
    return select(rows).where(shown).order_by(rows.c.last.desc(), rows.c.rank)


def _said(rows: Sequence[Any], kind: Literal["waiver", "acknowledgement"]) -> Said:
    first = rows[0]
    threads = [row.thread_id for row in rows if row.thread_id is not None]
    return Said(
        id=first.batch,
        kind=kind,
        owner=first.owner,
        reason=first.reason,
        until=first.until,
        created_at=first.created_at,
        actor=first.actor,
        ended_at=first.ended_at,
        count=first.threads,
        thread_ids=tuple(threads[:IDS_SHOWN]),
        names=tuple(row.code for row in rows if kind == "acknowledgement" and row.code is not None),
        of_deployment=first.drain_id is None,
    )


def _chunks(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))
