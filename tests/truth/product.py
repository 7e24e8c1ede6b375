"""The product as the machine meets it: its settings, its HTTP interface, polls, and ends of its process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import stamina

from app import logs
from app.main import create_app
from app.settings import Settings

NAME = "real"
BASE = f"/api/v1/deployments/{NAME}"


@dataclass
class Product:
    """One installation in this process. `open` starts it on the same database, as a restart does. `stuck_after`: what has been busy
    for longer is asked for its runs, whatever waits beside it."""

    folder: Path
    url: str
    drains: Sequence[dict[str, Any]] = ()
    stuck_after: str = "15m"
    polls: int = 0
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _http: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Start it."""
        logs.configure("error")
        stamina.set_testing(True, attempts=2, cap=True)
        settings = Settings(
            database_url=f"sqlite+aiosqlite:///{self.folder}/board.db",
            key_file=self.folder / "board.key",
            home=self.folder,
            log_level="error",
            deployments=[
                {
                    "name": NAME,
                    "url": self.url,
                    "requests_per_minute": 600_000,
                    "metadata_keys": ["history"],
                    "page_size": 50,
                    "stuck_after": self.stuck_after,
                }
            ],
            drains=list(self.drains),
        )
        application = create_app(settings, schedule=False)
        await self._stack.enter_async_context(application.router.lifespan_context(application))
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        self._http = await self._stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://drainboard.test", timeout=60)
        )

    async def close(self) -> None:
        """End it."""
        await self._stack.aclose()
        self._http = None
        stamina.set_testing(False)

    @property
    def is_open(self) -> bool:
        """Whether it runs."""
        return self._http is not None

    async def poll(self, *, full: bool) -> dict[str, Any]:
        """One round to its end; its summary."""
        self.polls += 1
        started = await self._send("POST", f"{BASE}/poll", json={"full": full})
        while (found := await self.get(f"{BASE}/polls/{started['poll']}"))["state"] == "running":
            await asyncio.sleep(0.05)
        return dict(found)

    async def gate(self, drain: str, *, max_age: str) -> dict[str, Any]:
        """What it says to somebody who wants fresh evidence."""
        return dict(await self.get(f"/api/v1/drains/{drain}/gate?max_age={max_age}"))

    async def answers(self) -> dict[str, dict[str, Any]]:
        """What it says of every drain."""
        return {item["drain"]: item for item in (await self.get("/api/v1/drains?limit=500"))["items"]}

    async def of_disposition(self, drain: str, disposition: str) -> set[str]:
        """The threads of a drain with a disposition."""
        query = f"disposition={disposition}&limit=500"
        return {item["thread_id"] for item in (await self.get(f"/api/v1/drains/{drain}/threads?{query}"))["items"]}

    async def conditions(self) -> dict[str, str]:
        """The condition of every thread."""
        found: dict[str, str] = {}
        async for item in self._threads():
            found[item["thread_id"]] = item["condition"]
        return found

    async def evidence(self, thread_id: str) -> dict[str, Any]:
        """The stored evidence report of a thread."""
        return dict(await self.get(f"{BASE}/threads/{thread_id}"))

    async def counts(self) -> tuple[dict[str, int], set[str]]:
        """How many threads are in each condition, tombstones included; the codes of the deployment's alarms."""
        found = await self.get(BASE)
        gone = await self.get(f"{BASE}/inventory?condition=gone")
        return found["conditions"] | {"gone": gone["total"]}, {alarm["code"] for alarm in found["alarms"]}

    async def get(self, path: str) -> Any:
        """The JSON at a path."""
        return await self._send("GET", path)

    async def put(self, path: str, body: Any) -> Any:
        """Make or replace what is at a path."""
        return await self._send("PUT", path, json=body)

    async def post(self, path: str, body: Any) -> Any:
        """Send something there."""
        return await self._send("POST", path, json=body)

    async def patch(self, path: str, body: Any) -> Any:
        """Change what is there."""
        return await self._send("PATCH", path, json=body)

    async def delete(self, path: str) -> Any:
        """Take back what is there."""
        return await self._send("DELETE", path)

    async def _threads(self) -> AsyncIterator[dict[str, Any]]:
        cursor = None
        while True:
            more = f"&cursor={cursor}" if cursor else ""
            page = await self.get(f"{BASE}/threads?limit=500&sort=thread_id{more}")
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def _send(self, method: str, path: str, **more: Any) -> Any:
        assert self._http is not None, "the product is not open"
        answer = await self._http.request(method, path, **more)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()
