"""A backup is made while others write, with its key, and gives back the same answers; nothing is drained by it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from app.clock import utc_now
from app.inventory import writes
from app.inventory.db import Database
from app.inventory.writes import Dictionaries
from tests.commands.test_command_line import Installed, installed
from tests.flows.product import DEPLOYMENT, node_drain, one_deployment
from tests.unit.builders import facts, row, uuid_of
from tests.unit.test_register import upgrade_to

SETTINGS = one_deployment("http://127.0.0.1:9", node_drain("drop-it", "support", "hold"))
THREADS = 7


@pytest.fixture
def run(tmp_path: Path) -> Installed:
    """An installation that knows threads, and whose drain has soaked."""
    run = installed(tmp_path / "first", SETTINGS)
    assert run("drains", "list").code == 0
    asyncio.run(_fill(run.product.database))
    return run


async def _fill(file: Path) -> None:
    database = Database(f"sqlite+aiosqlite:///{file}")
    now = utc_now()
    async with database.write() as connection:
        deployment_id = await writes.ensure_deployment(connection, DEPLOYMENT, now)
        found = [facts(row(uuid_of(number), created_at=now - timedelta(hours=1))) for number in range(THREADS)]
        await writes.upsert_threads(connection, Dictionaries(deployment_id), found, poll_id=1)
    await database.close()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "UPDATE drain SET holds_since = '2026-11-30 12:00:00', sweeps = 5, removed = '{\"node:hold\": \"2026-11-30T12:00:00+00:00\"}'"
        )
        connection.execute("UPDATE deployment SET watermark = '2026-11-30 12:00:00'")


def proved(run: Installed) -> list[object]:
    with closing(sqlite3.connect(run.product.database)) as connection:
        (drain,) = connection.execute("SELECT holds_since, sweeps, removed FROM drain")
        (deployment,) = connection.execute("SELECT watermark, sweep_mark, verification FROM deployment")
    return [*drain, *deployment]


NOTHING = [None, 0, "{}", None, None, None]


def answers(run: Installed) -> object:
    listed = run("threads", "list", DEPLOYMENT, "--json").json
    assert listed["total"] == THREADS
    return listed["items"], run("gate", "drop-it", "--json").json["dispositions"]


def test_a_backup_gives_the_same_answers_elsewhere_and_every_soak_starts_anew(run: Installed, tmp_path: Path) -> None:
    kept, before = tmp_path / "kept.db", answers(run)
    with closing(sqlite3.connect(run.product.database)) as other:  # somebody has it open, as the server has
        other.execute("BEGIN IMMEDIATE")
        assert run("db", "backup", str(kept)).code == 0
    assert {one.name for one in tmp_path.iterdir() if one.is_file()} == {"kept.db", "kept.db.key"}
    assert all(one.stat().st_mode & 0o077 == 0 for one in tmp_path.iterdir() if one.is_file())

    second = installed(tmp_path / "second", SETTINGS)
    assert second("db", "restore", str(kept), "--json").json["database"] == str(second.product.database)
    assert answers(second) == before
    assert second("db", "check").code == 0
    first_key, second_key = (one.product.folder / "drainboard.key" for one in (run, second))
    assert first_key.read_bytes() == second_key.read_bytes()
    assert run("gate", "drop-it", "--json").json["soak"]["sweeps"] > 0
    assert proved(run)[2] != "{}"
    assert proved(second) == NOTHING


def test_a_database_that_other_tools_restored_is_distrusted(run: Installed) -> None:
    assert proved(run) != NOTHING
    assert run("db", "distrust", "--json").json == {"distrusted": True}
    assert proved(run) == NOTHING


def test_a_backup_of_the_first_schema_is_restored(run: Installed, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    upgrade_to(f"sqlite+aiosqlite:///{old}", "0001")
    (tmp_path / "old.db.key").write_bytes((run.product.folder / "drainboard.key").read_bytes())
    second = installed(tmp_path / "second", SETTINGS)
    assert second("db", "restore", str(old), "--json").json["revision"] == "0001"
    assert second("drains", "list").code == 0


def test_nothing_is_overwritten_and_nothing_else_is_taken(run: Installed, tmp_path: Path) -> None:
    kept, nothing = tmp_path / "kept.db", tmp_path / "nothing.db"
    assert run("db", "backup", str(kept)).code == 0
    assert "is there already" in _refused(run, "backup", kept)
    assert "Stop Drainboard and move it away" in _refused(run, "restore", kept)
    assert "There is no file" in _refused(run, "restore", nothing)
    nothing.write_bytes(b"x" * 4096)
    assert "is no backup" in _refused(run, "restore", nothing)

    second = installed(tmp_path / "second", SETTINGS)
    (second.product.folder / "drainboard.key").write_text("another key, which is long enough\n")
    assert "is another key" in _refused(second, "restore", kept)
    (second.product.folder / "drainboard.key").unlink()
    (tmp_path / "kept.db.key").unlink()
    assert "is missing" in _refused(second, "restore", kept)
    with closing(sqlite3.connect(kept)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert "newer Drainboard" in _refused(second, "restore", kept)
    assert not second.product.database.exists()


def test_postgresql_is_left_to_its_own_tools(run: Installed, tmp_path: Path) -> None:
    on_postgresql = {"DRAINBOARD_DATABASE_URL": "postgresql+psycopg://nobody@127.0.0.1/none"}
    for deed in ("backup", "restore"):
        refused = run("db", deed, str(tmp_path / "kept.db"), **on_postgresql)
        assert (refused.code, "pg_dump" in refused.said) == (3, True)


def _refused(run: Installed, deed: str, file: Path) -> str:
    ran = run("db", deed, str(file))
    assert ran.code == 3
    return ran.said
