"""What an operator sees of a running Drainboard: probes that tell the truth, and logs that can be followed."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app import logs
from app.jobs import health
from app.main import create_app
from app.settings import Settings
from tests.faults.conftest import DRAIN, NAME
from tests.faults.fake_server import Clock, FakeAgentServer

Lines = list[dict[str, Any]]


@asynccontextmanager
async def running(
    folder: Path, migrated: Path, server: FakeAgentServer, *, schedule: bool = False
) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    shutil.copy(migrated, folder / "board.db")
    settings = Settings(
        database_url=f"sqlite+aiosqlite:///{folder}/board.db",
        home=folder,
        deployments=[{"name": NAME, "url": "http://agent.test", "requests_per_minute": 600_000}],
        drains=[DRAIN],
    )
    logs.configure("debug", as_json=True)
    app = create_app(settings, schedule=schedule, transport=lambda _: server.transport)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test") as http:
            yield app, http


def checks(answer: httpx.Response) -> dict[str, str]:
    return {check["name"]: check["status"] for check in answer.json()["checks"]}


async def test_the_probes_tell_the_truth(
    tmp_path: Path, migrated_sqlite: Path, server: FakeAgentServer, clock: Clock, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, migrated_sqlite, server, schedule=True) as (app, http):
        runtime, database = app.state.runtime, app.state.runtime.store.database
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert checks(ready) == {"database": "ok", "schema": "ok", "schedule": "ok"}
        async with database.engine.begin() as connection:
            await connection.exec_driver_sql("update alembic_version set version_num = '0001'")
        old = await http.get("/readyz")
        assert (old.status_code, checks(old)["schema"]) == (503, "failed")
        assert "drainboard db upgrade" in old.text
        async with database.engine.begin() as connection:
            await connection.exec_driver_sql("drop table alembic_version")
        assert (await http.get("/readyz")).status_code == 503
        monkeypatch.setattr(health, "PATIENCE", 0.05)
        monkeypatch.setattr(database, "revision", asyncio.Event().wait)
        away = await http.get("/readyz")
        assert (away.status_code, checks(away)["database"], checks(away)["schema"]) == (503, "failed", "unknown")
        for told in (old, away):
            assert str(tmp_path) not in told.text
            assert NAME not in told.text
        assert (await http.get("/healthz")).status_code == 200, "a restart does not mend a database"
        runtime.schedule.add("ends", asyncio.sleep(0))
        await asyncio.sleep(0.01)
        live = await http.get("/healthz")
        assert (live.status_code, checks(live)) == (503, {"schedule": "failed"})
        assert "1 of 3" in live.text


async def test_a_process_that_does_not_poll_is_ready_and_says_so(
    tmp_path: Path, migrated_sqlite: Path, server: FakeAgentServer, clock: Clock
) -> None:
    async with running(tmp_path, migrated_sqlite, server) as (_, http):
        ready = await http.get("/readyz")
        assert (ready.status_code, checks(ready)["schedule"]) == (200, "elsewhere")


async def test_a_request_and_a_poll_can_be_followed_through_the_log(
    tmp_path: Path,
    migrated_sqlite: Path,
    server: FakeAgentServer,
    *,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(tmp_path, migrated_sqlite, server) as (app, http):

        async def ask(method: str, path: str, **headers: str) -> tuple[httpx.Response, Lines]:
            capsys.readouterr()
            answer = await http.request(method, path, headers=headers)
            for running_poll in app.state.runtime._running.values():
                await running_poll.task
            return answer, [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]

        poll = f"/api/v1/deployments/{NAME}/poll"
        answer, lines = await ask("POST", poll, **{"X-Request-ID": "proxy-0.7_a"})
        assert answer.headers["x-request-id"] == "proxy-0.7_a"
        events = {line["event"]: line for line in lines}
        assert {"poll.started", "poll.finished", "request.answered"} <= set(events)
        assert {line["request"] for line in lines} == {"proxy-0.7_a"}
        assert {events[name]["job"] for name in ("poll.started", "poll.finished")} == {"poll-1"}
        assert "job" not in events["request.answered"]
        assert events["request.answered"]["route"] == "/api/v1/deployments/{deployment}/poll"
        given = ("x" * 65, "two words", "semi;colon", "-begins", "line\\nbreak", "")
        made = [(await ask("GET", "/api/v1/drains", **{"X-Request-ID": each}))[0] for each in given]
        ids = {answer.headers["x-request-id"] for answer in made}
        assert len(ids) == len(given)
        assert not ids & set(given)

        async def crashes(*_: Any) -> None:
            raise RuntimeError("a value that must not be told")

        monkeypatch.setattr(app.state.dashboard.__class__, "deployments_page", crashes)
        answer, lines = await ask("GET", "/api/v1/deployments?q=secret", **{"X-Request-ID": "crash-1"})
        assert (answer.status_code, answer.headers["x-request-id"]) == (500, "crash-1")
        (crash,) = [line for line in lines if line["event"] == "request.crashed"]
        assert (crash["request"], crash["route"], crash["kind"]) == ("crash-1", "/api/v1/deployments", "RuntimeError")
        assert "must not be told" not in json.dumps(lines)
        assert "secret" not in json.dumps(lines)
