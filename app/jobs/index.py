"""Takes the application's list of threads: by its query beside a poll, or in batches that are pushed; and asks the server
for ids that nobody has seen.

A failure beside a poll is an outcome that is remembered, never an exception.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import utc_now
from app.errors import BadRequest, DrainboardError, SourceError
from app.facts.index import IndexEntry
from app.facts.types import RowFacts
from app.inventory import index
from app.inventory.store import Store
from app.inventory.views import IndexProblem, IndexTaken
from app.logs import get_logger
from app.settings import ThreadIndexSettings
from app.sources.thread_index.query import read_index
from app.sources.thread_index.reduce import Malformed, reduce_entry

CHECKS = 200  # ids that one poll asks the server for
OF_NO_USE = frozenset({"throttled", "unreachable", "unauthorized", "stopped"})  # to ask for another id then
TRY_AGAIN = timedelta(minutes=5)  # a list that failed or has bad rows: each attempt reads the application's whole table
CHECK_AGAIN = timedelta(hours=1)
MAX_ROWS = 5000  # of one push
MAX_PROBLEMS = 100
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)

log = get_logger("index")


class Asks(Protocol):
    """What can be asked for one thread: the Agent Server."""

    async def thread(self, thread_id: str) -> RowFacts | None:
        """The thread, or None when there is none."""
        ...


@dataclass
class IndexReader:
    """One deployment's list. ``read`` is called beside each poll."""

    deployment: str
    settings: ThreadIndexSettings | None
    interval: timedelta
    store: Store
    server: Asks | None
    _tried_at: datetime | None = None

    async def read(self, deployment_id: int) -> None:
        """Ask the query when it is time, then the server for ids that nobody has seen."""
        now = utc_now()
        if self.settings is not None and self.settings.query is not None and await self._is_due(deployment_id, now):
            await self._read(deployment_id, self.settings, now)
        if self.server is not None:
            await self._check(self.server, deployment_id, now)

    async def _is_due(self, deployment_id: int, now: datetime) -> bool:
        async with self.store.database.read() as connection:
            known = await index.find_source(connection, deployment_id)
        if self._tried_at is not None and now - self._tried_at < min(TRY_AGAIN, self.interval):
            return False
        return known is None or known.as_of is None or known.status != "complete" or now - known.as_of >= self.interval

    async def _read(self, deployment_id: int, settings: ThreadIndexSettings, now: datetime) -> None:
        failure: DrainboardError | None = None
        self._tried_at, malformed, duplicates = now, 0, 0
        async with self.store.database.write() as connection:
            known = await index.find_source(connection, deployment_id)
        reading = (known.reading if known else 0) + 1
        try:
            batches = read_index(
                deployment=self.deployment,
                url=settings.url(),
                query=settings.query or "",
                longest=settings.timeout,
                as_is=self.server is None,
            )
            async for batch in batches:
                malformed += batch.malformed
                async with self.store.database.write() as connection:
                    duplicates += await index.keep_entries(
                        connection, deployment_id, batch.entries, reading=reading, is_list=True
                    )
        except DrainboardError as error:
            failure = error
        status, sentence = _outcome(failure, malformed)
        async with self.store.database.write() as connection:
            if failure is None:
                await index.forget_older(connection, deployment_id, reading=reading)
            await index.set_source(
                connection,
                deployment_id,
                kind="query",
                reading=reading,
                as_of=now if failure is None else known.as_of if known else None,
                tried_at=now,
                status=status,
                sentence=sentence,
                failing_since=((known.failing_since if known else None) or now) if failure else None,
                malformed=malformed,
                duplicates=duplicates,
            )
        log.info("index.read", deployment=self.deployment, status=status, malformed=malformed, duplicates=duplicates)

    async def _check(self, server: Asks, deployment_id: int, now: datetime) -> None:
        """Ask for some ids that are listed and that nobody has seen: is there no such thread, or is it hidden?"""
        async with self.store.database.read() as connection:
            expired_before = now - (self.settings or ThreadIndexSettings()).expires_after
            comparison = await self.store.comparisons(deployment_id).of(
                connection, None, expired_before=expired_before, now=now
            )
            if not comparison.unresolved and not comparison.by_word.get("expired"):
                return
            ids = await index.list_unresolved(connection, deployment_id, checked_before=now - CHECK_AGAIN, limit=CHECKS)
            inside = {found: match.group().lower() for found in ids if (match := _UUID.search(found))}
            known = await index.list_known(connection, deployment_id, set(inside.values()) - set(ids))
        found: dict[str, str] = {}
        for thread_id in ids:
            if inside.get(thread_id) in known:
                found[thread_id] = index.OTHER_FORM
            elif not _is_uuid(thread_id):
                found[thread_id] = index.NO_ID
            else:
                try:
                    found[thread_id] = index.MISSING if await server.thread(thread_id) is None else index.HIDDEN
                except SourceError as error:
                    if error.code in OF_NO_USE:
                        break
        if not found:
            return
        async with self.store.database.write() as connection:
            await index.set_found(connection, deployment_id, found, now=now)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _outcome(failure: DrainboardError | None, malformed: int) -> tuple[str, str | None]:
    if failure is not None:
        return "failed", failure.message[:500]
    if malformed:
        what = "1 row has" if malformed == 1 else f"{malformed:,} rows have"
        return "incomplete", f"{what} no usable thread id, so a thread may be missing. Correct the list."
    return "complete", None


@dataclass(frozen=True, slots=True)
class Push:
    """A batch as it was sent. ``snapshot``: the list it is part of; ``begin`` and ``done``: its first and last batch."""

    rows: Sequence[Mapping[str, Any]]
    snapshot: str | None
    begin: bool
    done: bool
    kind: str


async def take(store: Store, deployment_id: int, push: Push, *, now: datetime, as_is: bool = False) -> IndexTaken:
    """Keep a batch; ``as_is``: ids stay as they are written. The same batch twice is the same as once; a bad line does not keep the
    others out.

    Raises ``BadRequest`` when it belongs to a list that is not the one under way: a list that is not whole would hide ids.
    """
    if len(push.rows) > MAX_ROWS:
        raise BadRequest(f"One batch may have {MAX_ROWS:,} threads; send several.")
    entries, problems, malformed = _parsed(push.rows, as_is=as_is)
    async with store.database.write() as connection:
        known = await index.find_source(connection, deployment_id)
        snapshot = known.snapshot if known else None
        begins = push.snapshot is not None and push.begin and push.snapshot != snapshot
        if push.snapshot is not None and not begins and push.snapshot != snapshot:
            if push.done and known is not None and await _ended(connection, known, entries):
                listed = await index.count_entries(connection, deployment_id)
                return IndexTaken(
                    len(entries), known.malformed, known.duplicates, listed, True, tuple(problems[:MAX_PROBLEMS])
                )
            raise BadRequest(
                "This batch is part of a list that is not the one under way. Send the list anew from its first batch, "
                "with begin: true."
            )
        reading = (known.reading if known else 0) + begins
        twice = await index.keep_entries(
            connection, deployment_id, entries, reading=reading, is_list=push.snapshot is not None
        )
        is_whole = push.snapshot is not None and push.done
        if is_whole:
            await index.forget_older(connection, deployment_id, reading=reading)
        stands = _stands(known, push, begins=begins, malformed=malformed, duplicates=twice, now=now)
        await index.set_source(connection, deployment_id, reading=reading, tried_at=now, **stands)
        listed = await index.count_entries(connection, deployment_id)
    under_way = push.snapshot is not None and not push.done
    told = stands if push.snapshot is not None else {"malformed": malformed, "duplicates": twice}
    return IndexTaken(
        len(entries), told["malformed"], told["duplicates"], listed, not under_way, tuple(problems[:MAX_PROBLEMS])
    )


async def _ended(connection: AsyncConnection, known: Any, entries: Sequence[IndexEntry]) -> bool:
    """Whether a list's last batch comes a second time, after its answer was lost: all that it lists is in the list that ended."""
    ids = {entry.thread_id for entry in entries}
    listed = await index.count_listed(connection, known.deployment_id, ids, reading=known.reading)
    return known.snapshot is None and bool(ids) and listed == len(ids)


def _stands(
    known: Any | None, push: Push, *, begins: bool, malformed: int, duplicates: int, now: datetime
) -> dict[str, Any]:
    """How the list stands after a batch: while one is under way, the one before it counts."""
    if push.snapshot is None:
        return _added(known, push, malformed=malformed, duplicates=duplicates, now=now)
    counts = {"malformed": malformed, "duplicates": duplicates}
    if known is not None and not begins:
        counts = {"malformed": malformed + known.malformed, "duplicates": duplicates + known.duplicates}
    if push.done:
        status, sentence = _outcome(None, counts["malformed"])
        return {"kind": push.kind, "status": status, "sentence": sentence, "as_of": now, **counts}
    return {
        "kind": push.kind,
        "snapshot": push.snapshot,
        "status": known.status if known else "incomplete",
        "sentence": known.sentence if known else None,
        "as_of": known.as_of if known else None,
        **counts,
    }


def _added(known: Any | None, push: Push, *, malformed: int, duplicates: int, now: datetime) -> dict[str, Any]:
    """What is added to a list makes it younger, unless a query gives it; it never makes a list whole that is not."""
    if known is None:
        counts = {"malformed": malformed, "duplicates": duplicates}
        return {"kind": push.kind, "status": "complete", "sentence": None, "as_of": now, **counts}
    stays = known.as_of is None or known.kind == "query"
    kept = ("kind", "snapshot", "status", "sentence", "failing_since", "malformed", "duplicates")
    return {**{name: getattr(known, name) for name in kept}, "as_of": known.as_of if stays else now}


def _parsed(rows: Sequence[Mapping[str, Any]], *, as_is: bool) -> tuple[list[IndexEntry], list[IndexProblem], int]:
    entries: list[IndexEntry] = []
    problems: list[IndexProblem] = []
    malformed = 0
    for line, row in enumerate(rows, 1):
        try:
            entry, bad = reduce_entry(row, as_is=as_is)
            entries.append(entry)
            if bad:
                problems.append(IndexProblem(line, f"{', '.join(bad)} could not be used and was left out"))
        except Malformed as error:
            malformed += 1
            problems.append(IndexProblem(line, str(error)))
    return entries, problems, malformed
