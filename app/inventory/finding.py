"""What somebody looks for by name: a thread by the beginning of its id, a node, a field, a drain, a deployment."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.privacy import pseudonym
from app.inventory import tables

TRIED_AT_ONCE = 20_000

_thread = tables.thread


class HitKind(StrEnum):
    """What was found, in the order in which it is shown."""

    THREAD = "thread"
    DRAIN = "drain"
    NODE = "node"
    FIELD = "field"
    DEPLOYMENT = "deployment"


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that was found. ``is_exact``: its whole name was typed. ``about``: a thread's condition, a drain's targets, the
    graphs of a node or field; ``deployed``: of a node or field, whether a graph has it now."""

    kind: HitKind
    name: str
    deployment: str
    is_exact: bool
    about: tuple[str, ...] = ()
    deployed: bool | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """A deployment that was looked through. ``as_of``: how old its newest complete sweep is; None: nobody has looked yet."""

    deployment: str
    as_of: datetime | None
    threads: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for ``query``, the best of each kind first. ``thread_id``: the id, or its beginning, that the query was
    read as. ``cut``: the kinds of which there are more."""

    query: str
    thread_id: str | None
    is_whole_id: bool
    hits: tuple[Hit, ...]
    cut: tuple[HitKind, ...]
    looked: tuple[Looked, ...]

    @property
    def only(self) -> Hit | None:
        """What must have been meant: the only hit, or the only thread, drain or deployment of exactly this name. A node or field
        is not, beside the drains that name it."""
        named = [hit for hit in self.hits if hit.is_exact and hit.kind not in (HitKind.NODE, HitKind.FIELD)]
        among = named or [*self.hits]
        return among[0] if len(among) == 1 and not self.cut else None


async def list_beginning(connection: AsyncConnection, deployment_id: int, beginning: str, *, limit: int) -> list[Any]:
    """Threads whose id begins like this, in order of id, tombstones included: one range of the key, whatever is stored."""
    query = (
        select(_thread.c.thread_id, _thread.c.condition)
        .where(_thread.c.deployment_id == deployment_id, _begins(beginning))
        .order_by(_thread.c.thread_id)
        .limit(limit)
    )
    return list(await connection.execute(query))


async def find_pseudonym(
    connection: AsyncConnection, deployment_id: int, deployment: str, called: str, *, key: bytes
) -> Any | None:
    """The thread that this pseudonym is of, tombstones included; None when nothing here is called so. Pseudonyms are not stored, so
    each id is tried: some seconds for a million, beside the event loop."""
    after = ""
    while True:
        query = (
            select(_thread.c.thread_id, _thread.c.condition)
            .where(_thread.c.deployment_id == deployment_id, _thread.c.thread_id > after)
            .order_by(_thread.c.thread_id)
            .limit(TRIED_AT_ONCE)
        )
        rows = list(await connection.execute(query))
        if not rows:
            return None
        found = await asyncio.to_thread(_called, rows, deployment, called, key)
        if found is not None:
            return found
        after = rows[-1].thread_id


def _called(rows: Iterable[Any], deployment: str, called: str, key: bytes) -> Any | None:
    return next((row for row in rows if pseudonym(key, deployment, row.thread_id) == called), None)


def _begins(beginning: str) -> ColumnElement[bool]:
    if not beginning.isascii():  # what follows its last character need not be one
        return _thread.c.thread_id == beginning
    after = beginning[:-1] + chr(ord(beginning[-1]) + 1)
    return and_(_thread.c.thread_id >= beginning, _thread.c.thread_id < after)
