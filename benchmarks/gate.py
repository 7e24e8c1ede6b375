"""How long the gate takes when many ask at once, over so many made-up threads, on SQLite or PostgreSQL.

    .venv/bin/python -m benchmarks.gate 1000000 [--postgresql] [--callers 50]

All callers ask in the same moment, and again when all have their answer. Prints p50 and p95 in milliseconds of the clock as a caller sees
them, in this process, without a network.
"""

import argparse
import asyncio
import time
from pathlib import Path
from statistics import quantiles

import httpx

from app import logs
from app.main import create_app
from benchmarks.filling import filled

ROUNDS = 20
DRAINS = ("blocked", "clear", "old-version", "retained")


async def measure(http: httpx.AsyncClient, drain: str, callers: int) -> tuple[float, float, float]:
    """p50, p95, and milliseconds of processor time for each call."""

    async def ask() -> float:
        began = time.perf_counter()
        answer = await http.get(f"/api/v1/drains/{drain}/gate")
        answer.raise_for_status()
        return (time.perf_counter() - began) * 1000

    await ask()
    spent, taken = time.process_time(), []
    for _ in range(ROUNDS):
        taken += await asyncio.gather(*(ask() for _ in range(callers)))
    found = quantiles(taken, n=20)
    return found[9], found[18], (time.process_time() - spent) * 1000 / len(taken)


async def run(count: int, *, postgresql: bool, callers: int, keep: Path | None) -> None:
    """Fill, measure, print."""
    async with filled(count, postgresql=postgresql, keep=keep) as found:
        print(f"{count:,} threads, {'PostgreSQL' if postgresql else 'SQLite'}, {callers} callers at once")  # noqa: T201
        application = create_app(found.settings, schedule=False)
        async with application.router.lifespan_context(application):
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test", timeout=120) as http:
                for drain in DRAINS:
                    p50, p95, cpu = await measure(http, drain, callers)
                    print(f"{p50:8.1f} {p95:8.1f} ms {cpu:8.2f} ms processor a call  {drain}", flush=True)  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("threads", type=int)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--callers", type=int, default=50)
    parser.add_argument("--keep", type=Path, help="a folder in which the database stays, to be measured again")
    asked = parser.parse_args()
    logs.configure("error")
    asyncio.run(run(asked.threads, postgresql=asked.postgresql, callers=asked.callers, keep=asked.keep))
