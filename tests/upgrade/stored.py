"""What an early version really stored, in a database of either kind.

``0004.sql.gz`` was written by that version (commit 829426d) itself: its demo with a real Agent Server ran until ``drop-legacy-triage``
was drained; three threads were answered, one was deleted, one was waived; then ``legacy_triage`` was taken out of the graph, and
the drain stayed drained. Only the address of its traces was replaced.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Boolean, DateTime, MetaData, Table, create_engine, text

from alembic import command
from app.inventory.db import _config

HERE = Path(__file__).parent
REVISION = "0004"
STOPPED_AT = datetime(2026, 12, 1, 3, 48, 28, tzinfo=UTC)
"""A second after its last poll began."""

Rows = dict[str, list[dict[str, Any]]]


def on_sqlite(file: Path) -> None:
    """The database as it was."""
    with sqlite3.connect(file) as connection:
        connection.executescript(gzip.decompress((HERE / f"{REVISION}.sql.gz").read_bytes()).decode())
    connection.close()


def on_postgresql(address: str, file: Path) -> None:
    """The same rows in an empty database, as that version's migrations make it."""
    command.upgrade(_config(address), REVISION)
    engine = create_engine(address)
    there = MetaData()
    there.reflect(engine)
    with engine.begin() as connection:
        for table in there.sorted_tables:
            if table.name != "alembic_version":
                rows = [_typed(table, row) for row in rows_of(f"sqlite:///{file}", [table.name])[table.name]]
                if rows:
                    connection.execute(table.insert(), rows)
                _move_sequence(connection, table)
    engine.dispose()


def rows_of(url: str, names: Iterable[str] | None = None) -> Rows:
    """Every row of a database, or of some tables, as it is stored."""
    engine = create_engine(url)
    there = MetaData()
    there.reflect(engine)
    with engine.connect() as connection:
        found = {}
        for name in names or sorted(there.tables):
            kept = [column for column in there.tables[name].columns if column.computed is None]
            asked = ", ".join(f'"{column.name}"' for column in kept)
            order = ", ".join(f'"{column.name}"' for column in there.tables[name].primary_key)
            query = text(f'SELECT {asked} FROM "{name}" ORDER BY {order}')
            found[name] = [dict(row) for row in connection.execute(query).mappings()]
    engine.dispose()
    return found


def _typed(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(table.c[name].type, value) for name, value in row.items()}


def _value(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, JSON):
        return json.loads(value)
    if isinstance(kind, Boolean):
        return bool(value)
    return datetime.fromisoformat(value).replace(tzinfo=UTC) if isinstance(kind, DateTime) else value


def _move_sequence(connection: Any, table: Table) -> None:
    """Where ids are given by the database, behind those that are there."""
    if connection.scalar(
        text(f"SELECT pg_get_serial_sequence('{table.name}', 'id')") if "id" in table.c else text("SELECT NULL")
    ):
        connection.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), greatest(1, (SELECT max(id) FROM {table.name})))"
            )
        )
