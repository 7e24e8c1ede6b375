"""Forgets one thread: the rows that are about it, and its id wherever else it stands. What proofs count on stays without it."""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Column, Table, Text, and_, cast, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.inventory import tables
from app.inventory.scrubbing import scrubbed

ERASED = "erased-"
SUBJECT = 200  # characters of an id that the audit keeps as its subject

# Of the thread alone. What it holds is read again from the server, or said again by a person.
_ITS_ROWS = (
    tables.thread,
    tables.observation,
    tables.deploy_thread,
    tables.waiver,
    tables.acknowledgement,
    tables.index_thread,
)
# Texts and JSON about many things, in which an id may stand.
_TEXTS: Sequence[tuple[Table, Sequence[Column[Any]]]] = (
    (tables.evaluation, (tables.evaluation.c.answer,)),
    (tables.activity, (tables.activity.c.subject, tables.activity.c.detail)),
    (tables.deploy, (tables.deploy.c.comparison, tables.deploy.c.changes)),
    (tables.alarm, (tables.alarm.c.sentence,)),
    (tables.poll, (tables.poll.c.reasons,)),
    (tables.index_source, (tables.index_source.c.sentence,)),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The thread that is erased. ``pseudonym``: what the audit calls it from now on; ``key``: of the hashes."""

    deployment_id: int
    thread_id: str
    pseudonym: str
    key: bytes


async def find_erased_poll(connection: AsyncConnection, deployment_id: int) -> int:
    """The newest poll of a deployment when one of its threads was last erased; 0: none was."""
    table = tables.deployment
    return await connection.scalar(select(table.c.erased_poll_id).where(table.c.id == deployment_id)) or 0


async def erase(connection: AsyncConnection, subject: Subject) -> Mapping[str, int]:
    """Forget a thread of a deployment that is locked: how many rows of each table were deleted or changed."""
    counts: dict[str, int] = {}
    for table in _ITS_ROWS:
        counts[str(table.name)] = (await connection.execute(delete(table).where(_is_of(table, subject)))).rowcount
    counts["arrival"] = await _unname_arrivals(connection, subject)
    counts["trace_run"] = await _unname_runs(connection, subject)
    for table, columns in _TEXTS:
        counts[str(table.name)] = await _scrub(connection, table, columns, subject, _in_texts(subject))
    body = (tables.delivery.c.body,)
    counts["delivery"] = await _scrub(connection, tables.delivery, body, subject, {subject.pseudonym: "th_erased"})
    return {name: count for name, count in counts.items() if count}


async def want_everything_again(connection: AsyncConnection, deployment_id: int, values: dict[str, Any]) -> None:
    """Nothing that was seen until now proves anything: a whole sweep must follow, and every soak begins anew."""
    newest = await connection.scalar(
        select(func.max(tables.poll.c.id)).where(tables.poll.c.deployment_id == deployment_id)
    )
    changes = {"erased_poll_id": newest or 0, "sweep_mark": None, "verification": None} | values
    await connection.execute(update(tables.deployment).where(tables.deployment.c.id == deployment_id).values(**changes))
    drain = tables.drain
    await connection.execute(
        update(drain).where(drain.c.deployment_id == deployment_id).values(holds_since=None, sweeps=0)
    )


async def void_removals(connection: AsyncConnection, drain_ids: Sequence[int]) -> None:
    """What these drains were told to remove may still be needed, and the server would not show it without the node."""
    await connection.execute(update(tables.drain).where(tables.drain.c.id.in_(drain_ids)).values(removed={}))


async def distrust_index(connection: AsyncConnection, deployment_id: int) -> None:
    """The application's list is not whole any more, until it is read or pushed again."""
    table = tables.index_source
    changes = {
        "as_of": None,
        "status": "incomplete",
        "sentence": "A listed thread was erased here. Read or push the list again.",
    }
    await connection.execute(update(table).where(table.c.deployment_id == deployment_id).values(**changes))


async def is_listed(connection: AsyncConnection, deployment_id: int, thread_id: str) -> bool:
    """Whether the application's list has a thread."""
    table = tables.index_thread
    query = select(table.c.thread_id).where(table.c.deployment_id == deployment_id, table.c.thread_id == thread_id)
    return (await connection.execute(query)).first() is not None


async def _unname_arrivals(connection: AsyncConnection, subject: Subject) -> int:
    """That a thread entered a target stays: a leak is one, whoever it was."""
    table = tables.arrival
    name = f"{ERASED}{secrets.token_hex(8)}"
    return (await connection.execute(update(table).where(_is_of(table, subject)).values(thread_id=name))).rowcount


async def _unname_runs(connection: AsyncConnection, subject: Subject) -> int:
    """That a node was entered stays, as a run that says of no thread."""
    table = tables.trace_run
    runs = list((await connection.execute(select(table.c.run_id).where(_is_of(table, subject)))).scalars())
    for run_id in runs:
        name = ERASED + hmac.digest(subject.key, run_id.encode(), "sha256").hex()[:32]
        where = and_(table.c.deployment_id == subject.deployment_id, table.c.run_id == run_id)
        await connection.execute(update(table).where(where).values(run_id=name, thread_id=None, trace_id=None))
    return len(runs)


async def _scrub(
    connection: AsyncConnection,
    table: Table,
    columns: Sequence[Column[Any]],
    subject: Subject,
    changes: Mapping[str, str],
) -> int:
    """Replace texts in columns; in how many rows."""
    holds = or_(*(cast(column, Text).contains(old, autoescape=True) for column in columns for old in changes))
    mine = table.c.deployment_id == subject.deployment_id
    keys = list(table.primary_key)
    rows = (await connection.execute(select(*keys, *columns).where(mine, holds))).all()
    for row in rows:
        same = and_(*(key == row._mapping[key] for key in keys))
        values = {column.name: scrubbed(row._mapping[column], changes) for column in columns}
        await connection.execute(update(table).where(same).values(**values))
    return len(rows)


def _in_texts(subject: Subject) -> Mapping[str, str]:
    """What is replaced: the id as it is, as JSON writes it, and as the audit cuts it off."""
    as_json = orjson.dumps(subject.thread_id).decode()[1:-1]
    return dict.fromkeys((subject.thread_id, as_json, subject.thread_id[:SUBJECT]), subject.pseudonym)


def _is_of(table: Table, subject: Subject) -> Any:
    return and_(table.c.deployment_id == subject.deployment_id, table.c.thread_id == subject.thread_id)
