"""The servers that are looked at: in this process, so that what they hold and who asked them is known exactly."""

import asyncio
import itertools
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.faults.fake_server import FakeAgentServer, Thread

NODES = ("intake", "old_step", "await_approval", "finish")
LATENCY = 0.02  # seconds


class Now:
    """The real clock, as the stand-in reads it."""

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass
class Turn:
    """One holding of a deployment's lock, as the server saw it."""

    name: str
    first: float
    last: float
    requests: int = 1


@dataclass
class Place:
    """One deployment's server. At ``old_step`` threads only ever finish; somebody always waits at ``await_approval``."""

    name: str
    server: FakeAgentServer = field(default_factory=lambda: FakeAgentServer(Now()))  # type: ignore[arg-type]
    turns: dict[str, Turn] = field(default_factory=dict)

    def fill(self, threads: int) -> None:
        self.server.graphs = {"support": list(NODES)}
        for number in range(threads):
            if number % 5 < 3:
                self.server.thread()
            else:
                self.server.parked("old_step" if number % 5 == 3 else "await_approval")

    def waiting(self, node: str) -> list[Thread]:
        return [thread for thread in self.server.threads.values() if any(at == node for at, _ in thread.pending)]

    def move(self, chance: random.Random, left: float) -> None:
        """One thread answers or parks, and now and then one is born. ``left``: what part of ``old_step`` may still wait."""
        waiting = self.waiting("old_step")
        if waiting and len(waiting) > left:
            self.server.finish(chance.choice(waiting))
        approved = self.waiting("await_approval")
        if len(approved) > 3 and chance.random() < 0.5:
            self.server.finish(chance.choice(approved))
        elif idle := [thread for thread in self.server.threads.values() if thread.status == "idle"]:
            self.server.park(chance.choice(idle), "await_approval")
        if chance.random() < 0.03:
            now = datetime.now(UTC)
            self.server.thread(created_at=now, updated_at=now)

    def live_at(self, when: datetime) -> int:
        return sum(thread.created_at < when for thread in self.server.threads.values())

    def truth(self) -> dict[str, dict[str, int]]:
        """What an inventory must say."""
        threads = self.server.threads.values()
        status = {word: sum(thread.status == word for thread in threads) for word in ("idle", "interrupted")}
        pending = {node: len(self.waiting(node)) for node in ("old_step", "await_approval")}
        return {"status": {k: v for k, v in status.items() if v}, "pending": {k: v for k, v in pending.items() if v}}

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        self._note(request.headers.get("x-turn", "none"))
        await asyncio.sleep(LATENCY)
        path = "/" + str(request.path_params["path"])
        url = httpx.URL("http://agent.test", raw_path=f"{path}?{request.url.query}".encode())
        found = await self.server._handle(httpx.Request(request.method, url, content=body))
        return Response(found.content, found.status_code, {"content-type": "application/json"})

    def _note(self, turn: str) -> None:
        now = asyncio.get_running_loop().time()
        known = self.turns.setdefault(turn, Turn(turn, now, now, 0))
        known.last, known.requests = now, known.requests + 1

    def at_once(self) -> list[tuple[Turn, Turn]]:
        """Two holders that asked in turns with each other."""
        turns = sorted(self.turns.values(), key=lambda turn: turn.first)
        return [(one, other) for one, other in itertools.pairwise(turns) if other.first <= one.last]


@asynccontextmanager
async def served(places: list[Place]) -> AsyncIterator[str]:
    """The servers behind one address: each below its own name."""
    by_name = {place.name: place for place in places}

    async def answer(request: Request) -> Response:
        return await by_name[request.path_params["place"]].answer(request)

    app = Starlette(routes=[Route("/{place}/{path:path}", answer, methods=["GET", "POST"])])
    config: dict[str, Any] = {"log_level": "error", "access_log": False, "lifespan": "off"}
    server = uvicorn.Server(uvicorn.Config(app, **config))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            await task
