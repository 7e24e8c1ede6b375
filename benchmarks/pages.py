"""How long the server takes for each page and route, over so many made-up threads, on SQLite or PostgreSQL.

    .venv/bin/python -m benchmarks.pages 1000000 [--postgresql]

Prints p50 and p95 in milliseconds of the clock, and the mean of processor time, one caller, the application called in this process:
routing, queries, verdicts and templates, without a network.
"""

import argparse
import asyncio
import time
from pathlib import Path
from statistics import quantiles

import httpx

from app import logs
from app.main import create_app
from benchmarks.filling import NAME, filled

ROUNDS = 30
DEPLOYMENT = f"/deployments/{NAME}"
PATHS = (
    "/",
    DEPLOYMENT,
    f"{DEPLOYMENT}?status=interrupted",
    f"{DEPLOYMENT}?condition=parked",
    f"{DEPLOYMENT}?pending=await_approval",
    f"{DEPLOYMENT}?state_version=1",
    f"{DEPLOYMENT}?fields=extra_1:absent",
    f"{DEPLOYMENT}?graph=billing",
    f"{DEPLOYMENT}?age=1h",
    f"{DEPLOYMENT}?age=older",
    f"{DEPLOYMENT}?age=30d&graph=support&state_version=1&condition=settled",
    f"{DEPLOYMENT}?pending=nowhere",
    f"{DEPLOYMENT}/threads",
    f"{DEPLOYMENT}/threads?state_version=1&sort=created_at",
    "/search?q=await_approval",
    "/search?q=0000",
    "/search?q=approval",
    "/search?q=nothing",
    "/drains",
    "/drains/blocked",
    "/drains/clear",
    "/drains/old-version",
    "/drains/retained",
    f"/api/v1{DEPLOYMENT}/inventory",
    "/api/v1/drains/blocked/gate",
    "/api/v1/drains/clear/gate",
    "/api/v1/drains/old-version/gate",
    "/api/v1/drains/retained/gate",
    "/metrics",
)


async def measure(http: httpx.AsyncClient, path: str, rounds: int) -> tuple[float, float, float]:
    """p50 and p95 in milliseconds, after one round that counts for nothing, and the processor's mean of this process."""
    taken, spent = [], 0.0
    for number in range(rounds + 1):
        spent = time.process_time() if number == 1 else spent
        began = time.perf_counter()
        answer = await http.get(path)
        taken.append((time.perf_counter() - began) * 1000)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answered {answer.status_code}")
        if number == 1 and taken[-1] > 1000:
            rounds = 5
        if number >= rounds:
            break
    found = quantiles(taken[1:], n=20)
    return found[9], found[18], (time.process_time() - spent) * 1000 / (len(taken) - 1)


async def run(count: int, *, postgresql: bool, rounds: int, keep: Path | None) -> None:
    """Fill, measure, print."""
    async with filled(count, postgresql=postgresql, keep=keep) as found:
        print(f"{count:,} threads, {'PostgreSQL' if postgresql else 'SQLite'}, written in {found.seconds:.0f} s")  # noqa: T201
        application = create_app(found.settings, schedule=False)
        async with application.router.lifespan_context(application):
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test", timeout=120) as http:
                for path in PATHS:
                    p50, p95, cpu = await measure(http, path, rounds)
                    print(f"{p50:8.1f} {p95:8.1f} ms {cpu:8.1f} ms processor  {path}", flush=True)  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("threads", type=int)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--keep", type=Path, help="a folder in which the database stays, to be measured again")
    asked = parser.parse_args()
    logs.configure("error")
    asyncio.run(run(asked.threads, postgresql=asked.postgresql, rounds=asked.rounds, keep=asked.keep))
