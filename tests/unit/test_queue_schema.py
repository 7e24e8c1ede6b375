"""The tables of the workers' queue are Procrastinate's, and come by our migrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from app.inventory import queue_schema
from app.inventory.db import Database, _config


def _needed() -> str:
    """What the newest of our revisions that is about the queue asks for."""
    found = [
        getattr(each.module, "QUEUE_SCHEMA", None) for each in ScriptDirectory.from_config(_config()).walk_revisions()
    ]
    return next(name for name in found if name is not None)


def test_our_migrations_bring_the_newest_schema_of_the_installed_library() -> None:
    newest = queue_schema.migrations()[-1].stem
    assert _needed() == newest, f"Make a revision with QUEUE_SCHEMA = {newest!r} that calls queue_schema.bring_to."


async def test_a_queue_is_made_on_postgresql_only_and_goes_with_its_revision(address: str) -> None:
    database = Database(address)
    async with database.engine.begin() as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
        assert (queue_schema.JOBS in names) is not database.is_sqlite
        if not database.is_sqlite:
            assert await connection.run_sync(queue_schema.find) == _needed()
            await connection.run_sync(queue_schema.remove)
            left = "select count(*) from pg_class where relname like 'procrastinate%'"
            assert await connection.scalar(text(left)) == 0
            await connection.rollback()
    await database.close()


async def test_a_later_revision_applies_what_the_database_lacks(
    empty_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(empty_postgres)

    async def bring(name: str) -> Any:
        async with database.engine.begin() as connection:
            await connection.run_sync(queue_schema.bring_to, name)
            return await connection.run_sync(queue_schema.find)

    first = await bring(_needed())
    for name in (first, "99.00.00_01_more", "99.00.00_02_later"):
        (tmp_path / f"{name}.sql").write_text(f'CREATE TABLE "{name}" (id int); -- 100 % \nSELECT 1;')
    monkeypatch.setattr(queue_schema, "migrations", lambda: tuple(sorted(tmp_path.glob("*.sql"))))
    assert await bring("99.00.00_01_more") == "99.00.00_01_more"
    assert await bring("99.00.00_02_later") == "99.00.00_02_later"  # each once, or its table would be there already
    with pytest.raises(LookupError, match="Install the version"):
        await bring("99.00.00_03_not_installed")
    await database.close()
