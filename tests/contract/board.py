"""Drainboard over a stand-in server with a few threads, open or with a token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from app import logs
from app.auth.tokens import Tokens
from app.clock import utc_now
from app.drains.register import By
from app.main import create_app
from app.settings import Settings
from tests.faults.fake_server import Clock, FakeAgentServer

NAME, REPORTED, DRAIN, WEBHOOK = "prod", "told", "drop-it", "ops"


@dataclass(frozen=True)
class Board:
    """How it is asked, and what is there to ask for."""

    http: httpx.AsyncClient
    schema: dict[str, Any]
    names: dict[str, tuple[str | int, ...]]


@asynccontextmanager
async def opened(home: Path, database_url: str, *, signs_in: bool) -> AsyncIterator[Board]:
    """It, polled once."""
    server = FakeAgentServer(Clock(datetime.now(UTC)))
    server.settled(3)
    server.parked()
    logs.configure("error")
    application = create_app(
        _settings(home, database_url, signs_in), schedule=False, transport=lambda _: server.transport
    )
    async with application.router.lifespan_context(application):
        await application.state.runtime.poll(NAME, full=True)
        headers = await _signed_in(application) if signs_in else {}
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test", headers=headers) as http:
            names: dict[str, tuple[str | int, ...]] = {
                "deployment": (NAME, REPORTED),
                "drain": (DRAIN,),
                "thread_id": tuple(server.threads),
                "poll": (1,),
                "webhook": (WEBHOOK,),
            }
            schema = (await http.get("/api/v1/openapi.json")).json()
            yield Board(http, schema, names)


async def _signed_in(application: Any) -> dict[str, str]:
    tokens: Tokens = application.state.tokens
    rights = ("read", "operate", "admin", "index", "facts")
    secret, _ = await tokens.create("everything", rights, deployments=None, expires_in=None, by=By("a test", utc_now()))
    return {"Authorization": f"Bearer {secret}"}


def _settings(home: Path, database_url: str, signs_in: bool) -> Settings:
    return Settings(
        database_url=database_url,
        key_file=home / "board.key",
        home=home,
        log_level="error",
        sign_in={"mode": "token"} if signs_in else {"mode": "open"},
        deployments=[
            {"name": NAME, "url": "http://agent.test", "requests_per_minute": 600_000, "thread_index": {}},
            {"name": REPORTED, "reported": True},
        ],
        drains=[{"name": DRAIN, "deployment": NAME, "graph": "support", "remove_nodes": ["await_approval"]}],
    )
