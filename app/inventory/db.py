"""The database: engines for SQLite (WAL, one short write at a time) and PostgreSQL, and the way to the schema."""

import asyncio
import contextlib
import functools
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import orjson
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from alembic import command
from app.errors import StoreError
from app.places import MIGRATIONS

LOCK_TIMEOUT = timedelta(seconds=10)  # for a table that a migration changes


_UNDO = "undo"


def on_rollback(connection: AsyncConnection, undo: Callable[[], None]) -> None:
    """Have something that is remembered beside the database undone unless this transaction is committed."""
    connection.info.setdefault(_UNDO, []).append(undo)


class Database:
    """One database. ``read`` and ``write`` are short transactions; no request is made while one is open."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self.is_sqlite = make_url(url).get_backend_name() == "sqlite"
            self.engine = _engine(url, is_sqlite=self.is_sqlite)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, InvalidRequestError):
            raise StoreError(
                "database_url is not a database's address. Use sqlite+aiosqlite:///drainboard.db or postgresql+psycopg://…"
            ) from None
        self._reader = (
            self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="REPEATABLE READ")
        )
        self._writer = asyncio.Lock()
        self._was_tried = not self.is_sqlite

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A consistent look: every question in it is answered as of the same moment."""
        try:
            await self._try()
            async with self._reader.connect() as connection:
                yield connection
                await connection.rollback()
        except (DBAPIError, OSError, sqlite3.Error) as error:
            raise _store_error(error) from None

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that commits at its end. On SQLite one at a time in this process."""
        undo: list[Callable[[], None]] = []
        is_kept = False
        try:
            await self._try()
            async with self._begin() as connection:
                connection.info[_UNDO] = undo
                yield connection
            is_kept = True
        except (DBAPIError, OSError, sqlite3.Error) as error:
            raise _store_error(error) from None
        finally:
            for each in undo if not is_kept else ():
                each()

    @asynccontextmanager
    async def _begin(self) -> AsyncIterator[AsyncConnection]:
        if self.is_sqlite:
            async with self._writer, self.engine.execution_options(write=True).begin() as connection:
                yield connection
        else:
            async with self.engine.begin() as connection:
                yield connection

    async def _try(self) -> None:
        """Open a SQLite file once without aiosqlite, whose thread would outlive a failure to open."""
        if not self._was_tried:
            await asyncio.to_thread(_try_sqlite, make_url(self.url).database)
            self._was_tried = True

    async def close(self) -> None:
        """Give the connections back."""
        await self.engine.dispose()

    async def upgrade(self) -> None:
        """Bring the schema to the newest revision; nothing happens when it is there already."""
        try:
            await self._try()
            async with self.engine.connect() as connection:
                current = await connection.run_sync(_current_revision)
                await connection.rollback()
                if current == head_revision():
                    return
                if current is not None and current not in _known_revisions():
                    raise StoreError(
                        "The database was made by a newer Drainboard. Use that version, or another database_url."
                    )
            await asyncio.to_thread(_upgrade, self.url)
        except (DBAPIError, OSError, sqlite3.Error) as error:
            raise _store_error(error) from None

    async def settle_file(self) -> None:
        """Write what was committed into a SQLite file itself, so that its log holds nothing that was deleted. Somebody who reads
        at this moment delays that to a later time."""
        if self.is_sqlite:
            await asyncio.to_thread(_checkpoint, make_url(self.url).database)

    async def revision(self) -> str | None:
        """The schema's revision, None for an empty database."""
        async with self.read() as connection:
            return await connection.run_sync(_current_revision)


def _try_sqlite(path: str | None) -> None:
    """Open the file once without aiosqlite, whose thread would outlive a failure."""
    with contextlib.closing(sqlite3.connect(path or ":memory:", timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("SELECT count(*) FROM sqlite_master")
        connection.rollback()


def _checkpoint(path: str | None) -> None:
    with contextlib.closing(sqlite3.connect(path or ":memory:", timeout=5)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@functools.cache  # the migrations are read and run to find it
def head_revision() -> str:
    """The revision that this code expects."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise StoreError("The migrations are missing from this installation.")
    return head


def is_known_revision(revision: str) -> bool:
    """Whether this version made it, or can bring it to its own schema."""
    return revision in _known_revisions()


def _known_revisions() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def _engine(url: str, *, is_sqlite: bool) -> AsyncEngine:
    if not is_sqlite:
        return create_async_engine(
            url, pool_pre_ping=True, hide_parameters=True, json_serializer=_to_json, json_deserializer=orjson.loads
        )
    engine = create_async_engine(
        url,
        connect_args={"timeout": 30},
        hide_parameters=True,
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    )

    @event.listens_for(engine.sync_engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we begin transactions ourselves
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            "busy_timeout=30000",
            "secure_delete=ON",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Connection) -> None:
        """A writer takes its lock at once: one that read first could not wait for it."""
        writes = connection.get_execution_options().get("write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _config(url: str | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    if url is not None:
        config.attributes["url"] = url
        config.attributes["lock_timeout"] = LOCK_TIMEOUT
    return config


def _current_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _upgrade(url: str) -> None:
    command.upgrade(_config(url), "head")


def _store_error(error: BaseException) -> StoreError:
    """A sentence without anything of the statement or its parameters."""
    cause = getattr(error, "orig", None) or error
    text = str(cause).lower()
    if isinstance(cause, sqlite3.Error) or "sqlite" in type(cause).__module__:
        if "readonly" in text or "unable to open" in text:
            return StoreError(
                "The database file cannot be opened for writing. Check database_url and the folder's rights."
            )
        if "locked" in text:
            return StoreError("The database is locked by another program. Stop it, or wait and try again.")
        if "not a database" in text or "malformed" in text:
            return StoreError("The database file is damaged or not a database. Restore a backup, or name another file.")
        if "full" in text:
            return StoreError("The disk with the database is full. Make room; nothing that was committed is lost.")
    if type(cause).__name__ == "LockNotAvailable":
        return StoreError(
            "Another program holds a table that the new schema changes. Stop the other Drainboard processes, or wait until "
            "their work is done, and run `drainboard db upgrade` again. Nothing was changed.",
            code="database_locked",
        )
    return StoreError(
        f"The database cannot be used ({type(cause).__name__}). Is it running, and is database_url right?"
    )
