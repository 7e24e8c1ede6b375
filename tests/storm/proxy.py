"""A proxy over TCP between Drainboard and the server: it passes on what was asked, and answers what the weather wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.storm.world import World

SEARCH = "/threads/search"
JSON = "application/json"
HTML = "text/html"
LONGEST_SILENCE = 1.0  # seconds: longer than Drainboard waits in a storm


@dataclass
class Weather:
    """How often something goes wrong, what, and where (a regular expression, of method and path)."""

    share: float = 0.0
    kinds: tuple[str, ...] = ()
    where: str = "."

    def strikes(self, chance: random.Random, request: httpx.Request) -> bool:
        return (
            chance.random() < self.share and re.search(self.where, f"{request.method} {request.url.path}") is not None
        )


@dataclass
class Exchange:
    """One request on its way, and what the server really said."""

    request: httpx.Request
    answer: httpx.Response
    writer: asyncio.StreamWriter
    chance: random.Random
    proxy: Proxy

    def send(self, body: bytes, status: int = 200, kind: str = JSON, **headers: str) -> None:
        """A whole answer."""
        self.start(len(body), status, kind, **headers)
        self.writer.write(body)

    def start(self, length: int, status: int = 200, kind: str = JSON, **headers: str) -> None:
        given = {"content-type": kind, "content-length": str(length)} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        self.writer.write(f"HTTP/1.1 {status} Any\r\n{lines}\r\n".encode())

    @property
    def is_page(self) -> bool:
        return self.request.url.path.endswith(SEARCH)


@dataclass
class Proxy:
    """``met``: how often each kind of fault was the answer to somebody. ``asked``: requests."""

    world: World
    chance: random.Random
    weather: Weather = field(default_factory=Weather)
    met: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    last_page: dict[str, bytes] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection to its end."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (request := await _read(reader)) is not None:
                self.asked += 1
                answer = await self.world.server._handle(request)
                going = await self._answer(Exchange(request, answer, writer, self.chance, self))
                await writer.drain()
                if not going:
                    break
        writer.close()

    async def _answer(self, one: Exchange) -> bool:
        """Whether the connection may go on."""
        weather = self.weather
        if weather.strikes(self.chance, one.request):
            kind = self.chance.choice(weather.kinds)
            found = await KINDS[kind](one)
            if found is not None:
                self.met[kind] += 1
                return found
        if one.is_page:
            self.last_page[_order(one.request)] = one.answer.content
        one.send(one.answer.content, one.answer.status_code)
        return True


def _order(request: httpx.Request) -> str:
    return str(json.loads(request.content or b"{}").get("sort_by"))


async def _read(reader: asyncio.StreamReader) -> httpx.Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = dict(line.split(": ", 1) for line in lines if ": " in line)
    length = next((int(value) for name, value in headers.items() if name.lower() == "content-length"), 0)
    body = await reader.readexactly(length) if length else b""
    return httpx.Request(method, f"http://agent.test{target}", content=body)


# -- what goes wrong: each answers whether the connection may go on, or None when it does not apply ------------------

Kind = Callable[[Exchange], Awaitable[bool | None]]


async def reset(one: Exchange) -> bool:
    """The connection is torn down."""
    found = one.writer.get_extra_info("socket")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.writer.transport.abort()
    return False


async def silence(one: Exchange) -> bool:
    await asyncio.sleep(LONGEST_SILENCE)
    return False


async def slow_head(one: Exchange) -> bool:
    await asyncio.sleep(one.chance.uniform(0.01, 0.1))
    one.send(one.answer.content, one.answer.status_code)
    return True


async def slow_body(one: Exchange) -> bool:
    """It comes in pieces; the last one may never come in time."""
    body, pause = one.answer.content, one.chance.choice((0.005, 0.02, LONGEST_SILENCE / 2))
    one.start(len(body), one.answer.status_code)
    for at in range(0, len(body), max(1, len(body) // 4)):
        one.writer.write(body[at : at + max(1, len(body) // 4)])
        await one.writer.drain()
        await asyncio.sleep(pause)
    return True


async def cut_body(one: Exchange) -> bool | None:
    body = one.answer.content
    if len(body) < 4:
        return None
    one.start(len(body), one.answer.status_code)
    one.writer.write(body[: one.chance.randrange(1, len(body) - 1)])
    return False


async def half_a_json(one: Exchange) -> bool | None:
    body = one.answer.content
    if len(body) < 4:
        return None
    one.send(body[: one.chance.randrange(1, len(body) - 1)], one.answer.status_code)
    return True


async def wrong_json(one: Exchange) -> bool:
    one.send(one.chance.choice((b"", b"{", b'["\xff\xfe"]', b"NaN", b'{"a": 1}{"b": 2}', b"[" * 5000)))
    return True


async def wrong_whole(one: Exchange) -> bool:
    """JSON of another type than was asked for."""
    right = json.loads(one.answer.content)
    others = [
        value for value in (None, 7, "text", True, {"detail": "x"}, [None], ["x"], [7]) if not _is_alike(value, right)
    ]
    one.send(json.dumps(one.chance.choice(others)).encode())
    return True


def _is_alike(value: Any, right: Any) -> bool:
    return type(value) is type(right)


async def wrong_part(one: Exchange) -> bool | None:
    """One value somewhere in the answer has another type."""
    if one.answer.status_code != 200:
        return None
    raw = json.loads(one.answer.content)
    places = list(_places(raw))
    if not places:
        return None
    top = [place for place in places if place[0] is raw] if one.chance.random() < 0.5 else places
    holder, key = one.chance.choice(top)
    old = holder[key]
    wrong = [value for value in (7, "text", [], {}, ["x"], {"x": 1}, True, 1.5) if type(value) is not type(old)]
    holder[key] = one.chance.choice(wrong)
    one.send(json.dumps(raw).encode())
    return True


def _places(raw: Any) -> Any:
    if isinstance(raw, dict | list):
        for key in raw if isinstance(raw, dict) else range(len(raw)):
            yield raw, key
            yield from _places(raw[key])


async def broken_row(one: Exchange) -> bool | None:
    rows = json.loads(one.answer.content) if one.is_page else []
    if not rows:
        return None
    rows[one.chance.randrange(len(rows))] = one.chance.choice((None, 7, "row", [], {"thread_id": 1}))
    one.send(json.dumps(rows).encode())
    return True


async def broken_waiting(one: Exchange) -> bool | None:
    """Nobody can read of the rows of threads that wait that they do."""
    rows = json.loads(one.answer.content) if one.is_page else []
    waiting = [row for row in rows if row.get("status", "idle") != "idle"]
    for row in waiting:
        row["status"] = 7
    if not waiting:
        return None
    one.send(json.dumps(rows).encode())
    return True


async def wrong_checkpoint(one: Exchange) -> bool | None:
    """A state whose checkpoint is none."""
    raw = json.loads(one.answer.content)
    if one.answer.status_code != 200 or not isinstance(raw, dict) or not isinstance(raw.get("checkpoint"), dict):
        return None
    raw["checkpoint"] = one.chance.choice((7, "text", [], True))
    one.send(json.dumps(raw).encode())
    return True


async def throttled(one: Exchange) -> bool:
    waits = one.chance.choice(({}, {"retry_after": "0"}, {"retry_after": "0.05"}, {"retry_after": "soon"}))
    one.send(b'{"detail": "slow down"}', 429, **waits)
    return True


async def server_error(one: Exchange) -> bool:
    status = one.chance.choice((500, 502, 503, 504))
    body, kind = one.chance.choice(((b'{"detail": "internal"}', JSON), (b"<html>gateway</html>", HTML), (b"", HTML)))
    one.send(body, status, kind)
    return True


async def refused(one: Exchange) -> bool:
    one.send(b'{"detail": "no"}', one.chance.choice((400, 401, 403, 405, 408, 422, 451)))
    return True


async def not_here(one: Exchange) -> bool:
    """What an ingress answers when it does not know the way."""
    body, kind = one.chance.choice(
        (
            (b"<html>404 Not Found</html>", HTML),
            (b"default backend - 404", "text/plain"),
            (b'{"detail":"Not Found"}', JSON),
        )
    )
    one.send(body, 404, kind)
    return True


async def redirected(one: Exchange) -> bool:
    one.send(b"", one.chance.choice((301, 302, 307)), HTML, location="http://elsewhere.test/")
    return True


async def html(one: Exchange) -> bool:
    one.send(b"<html><body>Please sign in</body></html>", 200, HTML)
    return True


async def repeated_page(one: Exchange) -> bool | None:
    """The page before once more."""
    before = one.proxy.last_page.get(_order(one.request)) if one.is_page else None
    if before is None or before == one.answer.content:
        return None
    one.send(before)
    return True


async def missing_page(one: Exchange) -> bool | None:
    """The page after the one that was asked for."""
    if not one.is_page:
        return None
    body = json.loads(one.request.content)
    body["offset"] = body.get("offset", 0) + one.chance.randrange(1, body.get("limit", 10) + 1)
    asked = httpx.Request("POST", one.request.url, content=json.dumps(body).encode())
    one.send((await one.proxy.world.server._handle(asked)).content)
    return True


async def empty_page(one: Exchange) -> bool | None:
    if not one.is_page or one.answer.content == b"[]":
        return None
    one.send(b"[]")
    return True


async def short_page(one: Exchange) -> bool | None:
    rows = json.loads(one.answer.content) if one.is_page else []
    if len(rows) < 2:
        return None
    one.send(json.dumps(rows[: len(rows) // 2]).encode())
    return True


KINDS: dict[str, Kind] = {
    found.__name__: found
    for found in (
        *(reset, silence, slow_head, slow_body, cut_body, half_a_json, wrong_json, wrong_whole, wrong_part),
        *(throttled, server_error, refused, not_here, redirected, html),
        *(repeated_page, missing_page, empty_page, short_page, broken_row, broken_waiting, wrong_checkpoint),
    )
}
PAGES = ("repeated_page", "missing_page", "empty_page", "short_page", "broken_row", "broken_waiting")


@asynccontextmanager
async def served(proxy: Proxy) -> AsyncIterator[str]:
    """The proxy's address."""
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
