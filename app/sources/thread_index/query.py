"""Asks the application's database: one read transaction, streamed, with a time limit. Reads only."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from app.errors import SourceError
from app.facts.index import IndexEntry
from app.sources.thread_index.reduce import COLUMNS, Malformed, reduce_entry

BATCH = 2000
_BLOCKING_DRIVERS = {"sqlite+aiosqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg",
                     "postgresql+asyncpg": "postgresql+psycopg"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """Some rows. ``malformed``: rows without a usable id."""

    entries: tuple[IndexEntry, ...]
    malformed: int


async def read_index(
    *, deployment: str, url: str, query: str, longest: timedelta, as_is: bool = False
) -> AsyncIterator[IndexBatch]:
    """Every row of the query, in batches. ``as_is``: ids stay as they are written.

    Raises ``SourceError`` with a sentence that quotes no row and no address.
    """
    with ThreadPoolExecutor(1, "thread-index") as worker:  # one thread: some drivers tie a connection to it
        loop = asyncio.get_running_loop()
        rows = _batches(deployment, url, query, longest, as_is=as_is)
        try:
            while (batch := await loop.run_in_executor(worker, _following, rows)) is not None:
                yield batch
        finally:
            await loop.run_in_executor(worker, rows.close)


def _following(rows: Iterator[IndexBatch]) -> IndexBatch | None:
    return next(rows, None)


def _batches(deployment: str, url: str, query: str, timeout: timedelta, *, as_is: bool) -> Any:
    try:
        address = _address(url)
        engine = create_engine(address, poolclass=NullPool, hide_parameters=True)
    except (SQLAlchemyError, ImportError, ValueError):
        raise SourceError(
            f"The address of {deployment}'s thread index is none that can be used. Write it like "
            "postgresql+psycopg://reader@host/database; a driver beyond SQLite and PostgreSQL has to be installed."
        ) from None
    try:
        clock = _Clock(timeout.total_seconds())
        with _reading(engine.connect(), clock) as connection:
            _try_postgresql(connection, query)
            with connection.execution_options(stream_results=True, yield_per=BATCH).execute(text(query)) as result:
                known = [column for column in COLUMNS if column in set(result.keys())]
                if "thread_id" not in known:
                    raise SourceError(
                        f"The query of {deployment}'s thread index gives no column thread_id. Name it with `as thread_id`."
                    )
                for part in result.mappings().partitions(BATCH):
                    with clock.stopped():
                        yield _reduced(part, known, as_is=as_is)
    except (SQLAlchemyError, OSError) as error:
        raise _failure(deployment, error) from None
    finally:
        engine.dispose()


class _Clock:
    """How long the application's database may still take. What is done with the rows meanwhile does not count."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends_at = monotonic() + seconds

    def is_over(self) -> bool:
        """Whether the time is up."""
        return monotonic() > self._ends_at

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """While somebody else is at work."""
        since = monotonic()
        try:
            yield
        finally:
            self._ends_at += monotonic() - since


def _address(url: str) -> URL:
    address = make_url(url)
    return address.set(drivername=_BLOCKING_DRIVERS.get(address.drivername, address.drivername))


@contextmanager
def _reading(connection: Connection, clock: _Clock) -> Iterator[Connection]:
    """One transaction that cannot write and does not last for ever; it is rolled back."""
    seconds = clock.seconds
    with connection:
        match connection.dialect.name:
            case "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                connection.execute(text(f"set local statement_timeout = {int(seconds * 1000)}"))
            case "sqlite":
                connection.exec_driver_sql("pragma query_only = on")
                raw = connection.connection.driver_connection
                if raw is not None:
                    raw.set_progress_handler(lambda: int(clock.is_over()), 10_000)
            case "mysql" | "mariadb":
                with suppress(SQLAlchemyError):
                    connection.exec_driver_sql(f"set session max_execution_time = {int(seconds * 1000)}")
                connection.exec_driver_sql("set session transaction read only")
                connection.commit()
        yield connection
        connection.rollback()


def _try_postgresql(connection: Connection, query: str) -> None:
    """Let a wrong query fail before it is streamed: a failed server-side cursor is not closed by its driver."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"select * from ({query.rstrip().rstrip(';')}\n) as listed limit 0")).close()  # noqa: S608 - the settings wrote it


def _reduced(part: Any, known: list[str], *, as_is: bool) -> IndexBatch:
    entries, malformed = [], 0
    for row in part:
        try:
            entries.append(reduce_entry({column: row[column] for column in known}, as_is=as_is)[0])
        except Malformed:
            malformed += 1
    return IndexBatch(tuple(entries), malformed)


def _failure(deployment: str, error: Exception) -> SourceError:
    cause = getattr(error, "orig", None) or error
    kind = type(cause).__name__
    if kind in ("QueryCanceled", "OperationalError") and ("timeout" in str(cause) or "interrupted" in str(cause)):
        return SourceError(
            f"The query of {deployment}'s thread index took too long. Give it an index, or a longer thread_index.timeout."
        )
    return SourceError(
        f"The query of {deployment}'s thread index failed ({kind}). Run it by hand: are its tables and columns there, "
        "and may its user read them?"
    )
