"""How long the verdict of a drain takes, over 10,000 to 1,000,000 threads.

    .venv/bin/python -m benchmarks.verdict [THREADS ...]

The threads are those of ``filling``, in SQLite. Prints milliseconds of processor time and of the clock, the best of five.
"""

import asyncio
import sys
import time

from app.clock import utc_now
from app.drains.service import Drains
from app.inventory.db import Database
from app.inventory.store import Store
from benchmarks.filling import filled

ROUNDS = 5


async def measure(drains: Drains, name: str) -> tuple[str, float, float]:
    """Verdict, milliseconds of processor time, milliseconds of the clock."""
    best = (float("inf"), float("inf"))
    verdict = ""
    for _ in range(ROUNDS):
        cpu, clock = time.process_time(), time.perf_counter()
        verdict = (await drains.answer(name, now=utc_now())).verdict.value
        best = min(best, ((time.process_time() - cpu) * 1000, (time.perf_counter() - clock) * 1000))
    return verdict, *best


async def run(count: int) -> None:
    """Fill and measure one size."""
    async with filled(count, postgresql=False) as found:
        database = Database(found.settings.resolved_database_url)
        drains = Drains(found.settings, Store(database, found.settings.hash_key()))
        for drain in found.settings.drains:
            verdict, cpu, clock = await measure(drains, drain.name)
            print(f"{count:>9,} threads  {drain.name:<12} {verdict:<8} {cpu:8.0f} ms processor {clock:8.0f} ms clock")  # noqa: T201
        await database.close()


if __name__ == "__main__":
    for wanted in [int(one.replace(",", "")) for one in sys.argv[1:]] or [10_000, 100_000]:
        asyncio.run(run(wanted))
