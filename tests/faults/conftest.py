"""Drainboard over the fake server, on SQLite and on PostgreSQL, with a clock that the test moves."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina
from fastapi import FastAPI

import app.api.routes
import app.jobs
import app.main
from app import logs
from app.inventory.views import PollSummary
from app.main import create_app
from app.settings import Settings
from tests.counts import check_kept
from tests.faults.fake_server import CANARY, Clock, FakeAgentServer

NAME = "prod"
JOBS = [importlib.import_module(found.name) for found in pkgutil.walk_packages(app.jobs.__path__, "app.jobs.")]
READS_A_CLOCK = [module for module in (*JOBS, app.api.routes, app.main) if hasattr(module, "utc_now")]


@pytest.fixture(autouse=True)
def _quick_retries() -> Iterator[None]:
    stamina.set_testing(True, attempts=2, cap=True)
    yield
    stamina.set_testing(False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(datetime(2026, 11, 30, 12, 0, tzinfo=UTC))
    for module in READS_A_CLOCK:
        monkeypatch.setattr(module, "utc_now", made)
    return made


@pytest.fixture
def server(clock: Clock) -> FakeAgentServer:
    return FakeAgentServer(clock)


@dataclass
class Board:
    """A running Drainboard. ``poll`` runs one round to its end."""

    app: FastAPI
    http: httpx.AsyncClient
    clock: Clock

    async def poll(self, *, full: bool = False) -> PollSummary:
        self.clock.tick(seconds=30)
        return await self.app.state.runtime.poll(NAME, full=full)

    async def get(self, path: str) -> Any:
        answer = await self.http.get(path)
        assert CANARY not in answer.text
        return answer.json()

    async def gate(self, drain: str = "drop-it") -> dict[str, Any]:
        return await self.get(f"/api/v1/drains/{drain}/gate")

    async def verdict(self, drain: str = "drop-it") -> str:
        return str((await self.gate(drain))["verdict"])

    async def codes(self, drain: str = "drop-it") -> set[str]:
        return {reason["code"] for reason in (await self.gate(drain))["reasons"]}

    async def inventory(self) -> dict[str, Any]:
        return await self.get(f"/api/v1/deployments/{NAME}/inventory")

    async def conditions(self) -> dict[str, int]:
        return {name: count for name, count in (await self.inventory())["facets"]["condition"].items() if count}

    async def deployment(self) -> dict[str, Any]:
        return await self.get(f"/api/v1/deployments/{NAME}")

    async def everything(self) -> str:
        """All that can be asked, as text."""
        paths = [
            f"/api/v1/deployments/{NAME}",
            f"/api/v1/deployments/{NAME}/inventory",
            f"/api/v1/deployments/{NAME}/threads",
            "/api/v1/drains",
            "/metrics",
            "/",
            f"/deployments/{NAME}",
            "/drains",
        ]
        answers = [await self.http.get(path) for path in paths]
        return "\n".join(answer.text for answer in answers)


Open = Callable[..., AbstractAsyncContextManager[Board]]
DRAIN: dict[str, Any] = {
    "name": "drop-it",
    "deployment": NAME,
    "graph": "support",
    "remove_nodes": ["await_approval"],
    "policy": {"soak_sweeps": 1, "soak_hold": "0s"},
}


@pytest.fixture
def board(tmp_path: Path, address: str, server: FakeAgentServer, clock: Clock) -> Open:
    """``async with board() as it``: Drainboard with one drain of a node, soaked at once unless ``policy`` says else."""

    @asynccontextmanager
    async def opened(
        *, drains: list[dict[str, Any]] | None = None, policy: dict[str, Any] | None = None, **deployment: Any
    ) -> AsyncIterator[Board]:
        settings = Settings(
            database_url=address,
            key_file=tmp_path / "board.key",
            home=tmp_path,
            deployments=[
                {"name": NAME, "url": "http://agent.test", "requests_per_minute": 600_000, "page_size": 4} | deployment
            ],
            drains=drains or [DRAIN | {"policy": DRAIN["policy"] | (policy or {})}],
        )
        logs.configure("debug", as_json=True)
        application = create_app(settings, schedule=False, transport=lambda _: server.transport)
        async with application.router.lifespan_context(application):
            transport = httpx.ASGITransport(application, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test") as http:
                yield Board(application, http, clock)
        await check_kept(settings.resolved_database_url)

    return opened


@pytest.fixture(autouse=True)
def _nothing_leaks_into_logs(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, logger="aiosqlite")  # a line for each statement, and no words of ours
    yield
    said = capsys.readouterr()
    assert CANARY not in said.err
    assert CANARY not in said.out
    assert CANARY not in caplog.text
