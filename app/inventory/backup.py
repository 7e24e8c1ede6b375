"""A copy of a SQLite database that is whole, made while others write, and the way back. PostgreSQL has tools of its own."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from app.errors import StoreError
from app.inventory.db import is_known_revision

PAGES = 1000  # in one step; between steps others may write


def database_file(url: str) -> Path:
    """The file of a SQLite database. Raises ``StoreError`` for another."""
    found = make_url(url)
    if found.get_backend_name() != "sqlite" or not found.database or found.database == ":memory:":
        raise StoreError(
            "Only a SQLite file is backed up and restored by Drainboard. For PostgreSQL use pg_dump and pg_restore, and keep a "
            "copy of the key file with it.",
            code="not_sqlite",
        )
    return Path(found.database)


def restore_database(source: Path, target: Path) -> None:
    """The way back. Nobody looked since the copy was made, so nothing that was proved counts."""
    copy_database(source, target, then=_distrust_file)


def distrust(connection: Connection) -> None:
    """Nothing that was proved counts any more: each soak starts anew, everything is swept, and what was removed while a drain was
    drained is not known to be so, for it may have come back and gone again. Works on the schema of an older version too."""
    for table, changes in _DISTRUSTED.items():
        there = {column["name"] for column in inspect(connection).get_columns(table)}
        changed = ", ".join(f"{name} = {value}" for name, value in changes.items() if name in there)
        connection.execute(text(f"UPDATE {table} SET {changed}"))  # noqa: S608 - words of ours


_DISTRUSTED = {
    "drain": {"holds_since": "NULL", "sweeps": "0", "removed": "'{}'"},
    "deployment": {"watermark": "NULL", "sweep_mark": "NULL", "verification": "NULL"},
}


def _distrust_file(file: Path) -> None:
    engine = create_engine(f"sqlite:///{file.absolute()}")
    try:
        with engine.begin() as connection:
            distrust(connection)
    finally:
        engine.dispose()


def copy_database(source: Path, target: Path, *, then: Callable[[Path], None] = lambda _: None) -> None:
    """Copy one database as of one moment. ``target`` appears whole or not at all. Raises ``StoreError``."""
    if not source.is_file():
        raise StoreError(f"There is no database at {source}. Check database_url.")
    part = target.with_name(target.name + ".part")
    with _one_sentence(target), _private(part):
        with (
            contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as read,
            contextlib.closing(sqlite3.connect(part)) as written,
        ):
            read.backup(written, pages=PAGES)
            written.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        then(part)
        part.replace(target)


def check_backup(file: Path) -> str:
    """The schema's revision of a backup that is whole and not newer than this version. Raises ``StoreError``."""
    if not file.is_file():
        raise StoreError(f"There is no file {file}.")
    try:
        with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (fine,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except (sqlite3.Error, TypeError):
        fine, revision = "", ""
    if fine != "ok":
        raise StoreError(f"{file} is no backup of a Drainboard, or it is damaged.")
    if not is_known_revision(revision):
        raise StoreError(f"{file} was made by a newer Drainboard. Use that version.")
    return str(revision)


@contextlib.contextmanager
def _private(part: Path) -> Iterator[None]:
    """A file that only its owner may read, and that is gone when it was not finished."""
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _one_sentence(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise StoreError(f"{target} could not be written ({why}). Nothing was changed.") from None
