"""How long a first reading of many traced runs takes: polls, seconds, requests, the highest memory, and the verdict beside it.

    .venv/bin/python -m benchmarks.traces [RUNS] [--store postgresql]

A project of so many runs in 72 hours, three quarters of them of the target, is answered by a stand-in that makes each page when it is
asked for it. One poll asks a question for 100,000 runs at most, so that several polls are needed; then one that finds little new.
"""

import argparse
import asyncio
import contextlib
import resource
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request

from app.clock import utc_now
from app.demo.langsmith.standin import serve_standin
from app.drains.register import Register
from app.drains.service import Drains
from app.inventory import reads, traces
from app.inventory.db import Database
from app.inventory.store import Store
from app.jobs.traces import TraceReader
from app.settings import DeploymentSettings, DrainSettings, LangSmithSettings, Settings
from benchmarks.filling import fill, postgresql_server

TARGET = "await_approval"
SPAN = timedelta(hours=71)
MOST_POLLS = 100


def project(count: int, now: datetime) -> FastAPI:
    """A project of so many runs. Cursors are numbers of runs."""
    app, began = FastAPI(), now - timedelta(days=9)
    app.state.asked = 0

    @app.get("/info")
    async def info() -> dict[str, Any]:
        return {"version": "0.16.20"}

    @app.get("/sessions")
    async def sessions() -> list[dict[str, Any]]:
        found = {"id": str(uuid.UUID(int=1)), "tenant_id": str(uuid.UUID(int=2)), "name": "bench"}
        return [found | {"start_time": began.isoformat(), "reference_dataset_id": None}]

    @app.post("/api/v2/runs/query")
    async def query(request: Request) -> dict[str, Any]:
        app.state.asked += 1
        body = orjson.loads(await request.body())
        is_target = f'eq(name, "{TARGET}")' in body["filter"]
        since, until = (datetime.fromisoformat(body[key]) for key in ("min_start_time", "max_start_time"))
        total = count * 3 // 4 if is_target else count // 4
        step = SPAN / total
        first = int(body.get("cursor") or max(0, -(-(now - until) // step)))
        last = min(total, int((now - since) / step), first + body["page_size"])
        items = [_run(number, now - step * number, is_target=is_target) for number in range(first, last)]
        return {"items": items, "next_cursor": str(last) if len(items) == body["page_size"] else None}

    return app


def _run(number: int, start: datetime, *, is_target: bool) -> dict[str, Any]:
    found = uuid.UUID(int=2 * number + is_target)
    return {
        "id": str(found),
        "name": TARGET if is_target else "intake",
        "status": "success",
        "start_time": start.isoformat(),
        "end_time": start.isoformat(),
        "trace_id": str(found),
        "thread_id": f"00000000-0000-7000-8000-{number % 1000:012x}" if is_target else None,
    }


async def run(count: int, folder: Path, url: str) -> None:
    """Read until it is whole."""
    now = datetime.now(UTC)
    answers = project(count, now)
    with serve_standin(answers) as endpoint:
        langsmith = LangSmithSettings(project="bench", endpoint=endpoint)
        settings = Settings(
            database_url=url,
            key_file=folder / "key",
            deployments=(DeploymentSettings(name="prod", url="http://127.0.0.1:1", langsmith=langsmith),),
            drains=(DrainSettings(name="drop", deployment="prod", graph="support", remove_nodes=(TARGET,)),),
        )
        await fill(settings, 1000)
        database = Database(settings.resolved_database_url)
        store = Store(database, settings.hash_key())
        drains = Drains(settings, store)
        await Register(settings, store, drains).take_up(utc_now())
        async with database.read() as connection:
            row = await reads.find_deployment(connection, "prod")
        reader = TraceReader("prod", langsmith, store)
        for number in range(1, MOST_POLLS):
            began, cpu, asked = time.perf_counter(), time.process_time(), answers.state.asked
            await reader.read(row.id)
            async with database.read() as connection:
                source = await traces.find_source(connection, row.id)
            spent = f"{time.perf_counter() - began:7.1f} s  {time.process_time() - cpu:6.1f} s processor"
            how = f"{answers.state.asked - asked:4} requests  {source.status} {source.code or ''}"
            print(f"  poll {number:<3} {spent}  {how}")  # noqa: T201
            if source.status == "complete":
                break
        await reader.read(row.id)
        for _ in range(2):
            began = time.perf_counter()
            answer = await drains.answer("drop", now=utc_now())
            codes = {reason.code: reason.count for reason in answer.reasons if reason.source == "traces"}
            print(f"  verdict  {time.perf_counter() - began:7.2f} s  {codes}")  # noqa: T201
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  the stand-in and the reader in one process: {peak:.0f} MB at most", flush=True)  # noqa: T201
        await reader.aclose()
        await database.close()


@contextlib.contextmanager
def _store(folder: Path, kind: str) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite+aiosqlite:///{folder}/board.db"
        return
    with postgresql_server(folder, keep=False) as url:
        yield url


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("runs", nargs="?", default=200_000, type=lambda raw: int(raw.replace(",", "")))
    given.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as name, _store(Path(name), options.store) as address:
        print(f"{options.runs:,} runs, three quarters of them of the target, into {options.store}", flush=True)  # noqa: T201
        asyncio.run(run(options.runs, Path(name), address))
