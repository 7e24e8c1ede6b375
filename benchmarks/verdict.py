"""How long the verdict of a drain takes, over 10,000 to 1,000,000 threads in SQLite.

    .venv/bin/python -m benchmarks.verdict [THREADS ...]

The threads are made up, straight into a database in a temporary folder: three graphs, 300 classes of look-alikes, one in a
hundred parked. Prints milliseconds of processor time and of the clock, the best of five, for a blocked and a clear drain.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.drains.register import Register
from app.drains.service import Drains
from app.facts.privacy import Names, shape_of
from app.facts.types import Cause, Condition, Leaf, RowFacts, StateFacts, Status, ThreadFacts, Topology
from app.inventory import reads, writes
from app.inventory.db import Database
from app.inventory.revisions import Drawn, keep_revisions
from app.inventory.store import Store
from app.settings import DeploymentSettings, DrainSettings, Settings

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
GRAPHS = ("support", "billing", "research")
NODES = ("intake", "await_approval", "refund", "finish")
BATCH = 2000
ROUNDS = 5


def settings(folder: Path) -> Settings:
    """Two drains, of which one is blocked."""
    return Settings(
        database_url=f"sqlite+aiosqlite:///{folder / 'bench.db'}",
        key_file=folder / "key",
        deployments=(DeploymentSettings(name="prod", url="http://127.0.0.1:1"),),
        drains=(
            DrainSettings(name="blocked", deployment="prod", graph="support", remove_nodes=("await_approval",)),
            DrainSettings(name="clear", deployment="prod", graph="support", remove_nodes=("refund",)),
        ),
    )


def threads(count: int, revisions: dict[str, int]) -> Iterator[ThreadFacts]:
    """Made-up threads, each as a poll would have reduced it."""
    names = Names(("customer_name", "display_name", "note", "state_version"), key=b"0" * 64)
    for number in range(count):
        graph = GRAPHS[number % 3]
        values = {"note": "x", "state_version": number % 4} | {
            f"extra_{bit}": 1 for bit in range(5) if number >> bit & 1
        }
        shape = shape_of(values, names=names, version_keys=("state_version",), renames=())
        moved = NOW - timedelta(seconds=number)
        leaf = Leaf("await_approval", "", f"task-{number}", f"c-{number}", 1, cause=Cause.DYNAMIC)
        leaves = (leaf,) if number % 100 == 0 else ()
        row = RowFacts(
            thread_id=f"00000000-0000-7000-8000-{number:012x}",
            status=Status.INTERRUPTED if leaves else Status.IDLE,
            created_at=NOW - timedelta(days=3, seconds=number),
            updated_at=moved,
            state_updated_at=moved,
            graph_id=graph,
            assistant_id=f"assistant-{graph}",
            metadata={},
            shape=shape,
            interrupts=(),
        )
        state = StateFacts(f"c-{number}", "p", moved, "loop", 3, graph, leaves, (), shape, heads={"": f"c-{number}"})
        yield ThreadFacts(
            row=row,
            seen_at=NOW,
            condition=Condition.PARKED if leaves else Condition.SETTLED,
            leaves=leaves,
            state=state,
            state_read_at=NOW,
            revision_id=revisions[graph],
        )


async def fill(store: Store, register: Register, count: int) -> None:
    """A deployment that was swept a moment ago."""
    await register.take_up(NOW - timedelta(days=2))
    topologies = [
        Topology(graph, f"assistant-{graph}", frozenset(NODES), frozenset(), frozenset(), (), frozenset(), "x")
        for graph in GRAPHS
    ]
    async with store.database.write() as connection:
        deployment_id = await writes.ensure_deployment(connection, "prod", NOW)
        drawn = [Drawn(topology) for topology in topologies]
        await keep_revisions(connection, deployment_id, drawn, now=NOW - timedelta(days=9))
        revisions = {found.graph: found.id for found in await reads.list_revisions(connection, deployment_id)}
        poll = await writes.begin_poll(connection, deployment_id, kind="sweep", now=NOW)
    batch: list[ThreadFacts] = []
    for one in threads(count, revisions):
        batch.append(replace(one))
        if len(batch) == BATCH:
            await _write(store, deployment_id, batch, poll)
            batch = []
    await _write(store, deployment_id, batch, poll)
    async with store.database.write() as connection:
        await writes.update_poll(connection, poll, state="complete", finished_at=NOW)


async def _write(store: Store, deployment_id: int, batch: list[ThreadFacts], poll: int) -> None:
    async with store.database.write() as connection:
        await writes.upsert_threads(connection, store.dictionaries(deployment_id), batch, poll_id=poll)


async def measure(drains: Drains, name: str) -> tuple[str, float, float]:
    """Verdict, milliseconds of processor time, milliseconds of the clock."""
    best = (float("inf"), float("inf"))
    verdict = ""
    for _ in range(ROUNDS):
        cpu, clock = time.process_time(), time.perf_counter()
        verdict = (await drains.answer(name, now=NOW + timedelta(minutes=1))).verdict.value
        best = min(best, ((time.process_time() - cpu) * 1000, (time.perf_counter() - clock) * 1000))
    return verdict, *best


async def run(count: int) -> None:
    """Fill and measure one size."""
    with tempfile.TemporaryDirectory() as folder:
        found = settings(Path(folder))
        database = Database(found.resolved_database_url)
        await database.upgrade()
        store = Store(database, found.hash_key())
        drains = Drains(found, store)
        await fill(store, Register(found, store, drains), count)
        for name in ("blocked", "clear"):
            verdict, cpu, clock = await measure(drains, name)
            print(f"{count:>9,} threads  {name:<8} {verdict:<8} {cpu:8.0f} ms processor {clock:8.0f} ms clock")  # noqa: T201
        await database.close()


if __name__ == "__main__":
    for wanted in [int(one.replace(",", "")) for one in sys.argv[1:]] or [10_000, 100_000]:
        asyncio.run(run(wanted))
