"""Databases that are locked, full, broken or away, as the driver would say it or in earnest."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.pool import Pool

SAYS = {
    "database_full": "database or disk is full",
    "database_locked": "database is locked",
    "database_io": "disk I/O error",
}


@dataclass
class Failing:
    """What the driver says of a share of the statements and commits that ``where`` (a regular expression) finds; ``met``: how often
    somebody got it."""

    chance: random.Random
    share: float = 0.0
    where: str = ""
    kinds: tuple[str, ...] = tuple(SAYS)
    met: Counter[str] = field(default_factory=Counter)

    def strike(self, statement: str, error: type[Exception]) -> None:
        if self.chance.random() < self.share and re.search(self.where, statement):
            kind = self.chance.choice(self.kinds)
            self.met[kind] += 1
            raise error(SAYS[kind])


@contextmanager
def failing(chance: random.Random) -> Iterator[Failing]:
    """Statements and commits fail as often as is said, at the driver: the library wraps it as it would in earnest."""
    found = Failing(chance)
    commit = DefaultDialect.do_commit

    def execute(_cursor: Any, statement: str, _parameters: Any, context: Any) -> None:
        found.strike(statement, context.dialect.loaded_dbapi.OperationalError)

    def do_commit(dialect: Any, connection: Any) -> None:
        found.strike("COMMIT", dialect.loaded_dbapi.OperationalError)
        commit(dialect, connection)

    for name in ("do_execute", "do_executemany"):
        event.listen(Engine, name, execute)
    try:
        with patch.object(DefaultDialect, "do_commit", do_commit):
            yield found
    finally:
        for name in ("do_execute", "do_executemany"):
            event.remove(Engine, name, execute)


@dataclass
class SqliteFile:
    """The file. In a storm nobody waits long for its lock, and a page more than it has is too much."""

    file: Path
    is_full: bool = False
    is_locked: bool = False
    met: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Another program writes, and does not end."""
        other = sqlite3.connect(self.file, isolation_level=None, timeout=1)
        self.is_locked = True
        try:
            with contextlib.suppress(sqlite3.OperationalError):
                other.execute("BEGIN IMMEDIATE")
            yield
        finally:
            self.is_locked = False
            other.close()

    @contextmanager
    def full(self) -> Iterator[None]:
        """There is no room for another page."""
        self.is_full = True
        try:
            yield
        finally:
            self.is_full = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """See to each connection when it is taken, and count what it says."""

        def taken(connection: Any, _record: Any, _proxy: Any) -> None:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout={60 if self.is_locked else 30_000}")
            cursor.execute("PRAGMA page_count")
            pages = cursor.fetchone()[0] if self.is_full else 1_000_000_000
            cursor.execute(f"PRAGMA max_page_count={pages}")
            cursor.close()

        def failed(context: Any) -> None:
            text = str(context.original_exception)
            if text in {"database is locked", "database or disk is full"}:
                self.met["file " + text.removeprefix("database ").removeprefix("is ")] += 1

        event.listen(Pool, "checkout", taken)
        event.listen(Engine, "handle_error", failed)
        try:
            yield
        finally:
            event.remove(Pool, "checkout", taken)
            event.remove(Engine, "handle_error", failed)


@dataclass
class Postgres:
    """A server of our own, which goes away or ends every connection; ``met``: how often somebody got that."""

    server: Any
    met: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def away_or_dropping(self, chance: random.Random) -> AsyncIterator[None]:
        """It is away for the while; or it is there, and drops everybody again and again."""
        event.listen(Engine, "handle_error", self._failed)
        try:
            async with self._away() if chance.random() < 0.5 else self._dropping():
                yield
        finally:
            event.remove(Engine, "handle_error", self._failed)

    def _failed(self, context: Any) -> None:
        self.met[f"postgres: {type(context.original_exception).__name__}"] += 1

    @asynccontextmanager
    async def _away(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.server.stop)
        try:
            yield
        finally:
            await asyncio.to_thread(self.server.ensure_postgres_running)

    @asynccontextmanager
    async def _dropping(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._drop())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _drop(self) -> None:
        query = "select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid()"
        async with await psycopg.AsyncConnection.connect(self.server.get_uri(), autocommit=True) as connection:
            while True:
                await asyncio.sleep(0.05)
                await connection.execute(f"{query} and backend_type = 'client backend'")
