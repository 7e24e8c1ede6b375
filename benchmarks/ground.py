"""What the benchmarks of polls share: the stand-in server in a process of its own, and a Drainboard that polls it.

The stand-in and the naive script lie outside of the repository. ``--bench FOLDER``, or the environment variable
``DRAINBOARD_BENCH``, says where: ``agent_server_standin.py`` and ``naive_inventory.py`` are in it.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

import httpx

from app.inventory.views import PollSummary
from app.jobs.runtime import Runtime, open_runtime
from app.logs import configure
from app.settings import Settings

NAME = "prod"
GRAPH = "support"
BLOCKED = {"name": "blocked", "deployment": NAME, "graph": GRAPH, "remove_nodes": ["await_approval"]}
CLEAR = {"name": "clear", "deployment": NAME, "graph": GRAPH, "remove_nodes": ["intake"]}
UP_WITHIN = 60.0


def options(about: str, *, threads: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--bench", type=Path, default=os.environ.get("DRAINBOARD_BENCH"), help="folder of the stand-in")
    parser.add_argument("--threads", type=lambda raw: int(raw.replace(",", "")), default=threads)
    parser.add_argument("--page-size", type=int, default=1000)
    parser.add_argument("--value-bytes", type=int, default=2000, help="size of one thread's state")
    parser.add_argument("--latency-ms", type=float, default=2.0, help="time the server takes before it answers")
    return parser


@dataclass(frozen=True)
class StandIn:
    """A stand-in server that runs, and its control routes."""

    url: str
    folder: Path

    async def do(self, action: str, count: int | None = None) -> dict[str, Any]:
        """One of its control routes: touch, park, delete, stats, reset_stats."""
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
            body = {} if count is None else {"count": count}
            answer = (await client.post(f"/_lab/{action}", json=body)).json()
            return dict(answer)


@contextmanager
def stand_in(given: argparse.Namespace, *, threads: int | None = None) -> Iterator[StandIn]:
    """The server with that many threads, until the block ends."""
    if given.bench is None:
        sys.exit("Where is the stand-in? Give --bench FOLDER, or set DRAINBOARD_BENCH.")
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(given.bench)
    command = [sys.executable, str(folder / "agent_server_standin.py"), "--port", str(port)]
    command += ["--threads", str(threads or given.threads), "--value-bytes", str(given.value_bytes)]
    process = subprocess.Popen([*command, "--latency-ms", str(given.latency_ms)])
    try:
        _wait_for(f"http://127.0.0.1:{port}/ok", process)
        yield StandIn(f"http://127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + UP_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            httpx.get(url, timeout=1)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    sys.exit("The stand-in did not start.")


def settings(home: Path, url: str, given: argparse.Namespace, *, both: bool = False, **changes: Any) -> Settings:
    """A raised budget and one blocked drain; with ``both`` a second one that nothing blocks."""
    configure("error", as_json=True)
    budget = {"requests_per_minute": 1_000_000, "concurrency": 16, "page_size": given.page_size}
    deployment = {"name": NAME, "url": url} | budget | changes
    return Settings(
        database_url=f"sqlite+aiosqlite:///{home / 'bench.db'}",
        key_file=home / "key",
        home=home,
        deployments=[deployment],
        drains=[BLOCKED, CLEAR] if both else [BLOCKED],
    )


@dataclass(frozen=True)
class Measured:
    """One poll: seconds of the clock, seconds of the processor, and what it says of itself."""

    seconds: float
    processor: float
    poll: PollSummary


async def measured(runtime: Runtime, *, full: bool) -> Measured:
    """Poll once."""
    clock, processor = time.perf_counter(), time.process_time()
    poll = await runtime.poll(NAME, full=full)
    return Measured(time.perf_counter() - clock, time.process_time() - processor, poll)


@asynccontextmanager
async def drainboard(found: Settings) -> AsyncIterator[Runtime]:
    """Drainboard without a schedule."""
    async with open_runtime(found, schedule=False) as runtime:
        yield runtime


def say(line: str = "") -> None:
    """One line of figures, at once."""
    print(line, flush=True)  # noqa: T201


def run(work: Any) -> None:
    """Run a benchmark to its end."""
    asyncio.run(work)
