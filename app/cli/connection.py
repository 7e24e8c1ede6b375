"""Where a command asks: a server named by ``--server`` or ``DRAINBOARD_SERVER``, or the configured database directly."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import httpx

from app.errors import DrainboardError, SourceError
from app.version import COMMAND_LINE, VERSION

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.settings import Settings

MARK = "x-drainboard"  # a header of every answer of the API: a command trusts nobody else's JSON
AGENT = {"User-Agent": f"{COMMAND_LINE}/{VERSION}"}
TIMEOUT = httpx.Timeout(connect=5, read=120, write=30, pool=30)


class MakeApp(Protocol):
    """``app.main.create_app``."""

    def __call__(
        self, settings: Settings, *, schedule: bool = True, open_notice: bool = False, is_local: bool = False
    ) -> FastAPI:
        """Make the web application."""
        ...


class Refused(DrainboardError):
    """The API answered with an error; ``body`` is what it said."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        error = body.get("error")
        error = error if isinstance(error, Mapping) else {}
        super().__init__(
            str(error.get("message", "The server answered with an error.")), code=str(error.get("code", "error"))
        )
        self.status = status
        self.body = body


WHOLE_PAGE = 500
MOST_PAGES = 200  # however a server goes on


class Api:
    """Asks ``/api/v1``. Raises ``Refused`` for an error, ``SourceError`` when nobody answers."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def get(self, *path: str, **query: Any) -> Any:
        """A route by the parts of its path. A query of None is left out; a list repeats its key."""
        return await self._ask("GET", path, params={key: value for key, value in query.items() if value is not None})

    async def all_of(self, *path: str) -> dict[str, Any]:
        """A list with all of its pages."""
        items, cursor = [], None
        for _ in range(MOST_PAGES):
            found = await self.get(*path, limit=WHOLE_PAGE, cursor=cursor)
            items += found["items"]
            cursor = found.get("next_cursor")
            if cursor is None:
                break
        return {"items": items, "next_cursor": cursor}

    async def get_text(self, *path: str, **query: Any) -> httpx.Response:
        """A route that answers with text."""
        return await self._send("GET", path, params=query)

    async def post(self, *path: str, body: Mapping[str, Any]) -> Any:
        """Ask for a change."""
        return await self._ask("POST", path, json=body)

    async def put(self, *path: str, body: Mapping[str, Any]) -> Any:
        """Make or replace."""
        return await self._ask("PUT", path, json=body)

    async def delete(self, *path: str) -> Any:
        """Close or take back."""
        return await self._ask("DELETE", path)

    async def _ask(self, method: str, path: tuple[str, ...], **more: Any) -> Any:
        response = await self._send(method, path, **more)
        try:
            found = response.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise _not_drainboard(self._http)
        return found

    async def _send(self, method: str, path: tuple[str, ...], **more: Any) -> httpx.Response:
        address = "/api/v1/" + "/".join(quote(part, safe="") for part in path)
        try:
            response = await self._http.request(method, address, **more)
        except (httpx.RequestError, httpx.InvalidURL, OverflowError, BaseExceptionGroup):
            where = shown(str(self._http.base_url))
            raise SourceError(f"No Drainboard answers at {where}. Is it running, and is --server right?") from None
        if MARK not in response.headers:
            raise _not_drainboard(self._http)
        if response.is_success:
            return response
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict) or "error" not in body:
            raise _not_drainboard(self._http)
        raise Refused(response.status_code, body)


def _not_drainboard(http: httpx.AsyncClient) -> SourceError:
    return SourceError(f"What answers at {shown(str(http.base_url))} is not Drainboard. Check --server.")


def shown(address: str) -> str:
    """An address without a password."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else address.rpartition("@")[2]


@asynccontextmanager
async def connect(make_app: MakeApp, server: str | None) -> AsyncIterator[Api]:
    """An ``Api`` of a server, or of the configured database when there is none."""
    server = server or os.environ.get("DRAINBOARD_SERVER") or None
    if server is not None:
        token = os.environ.get("DRAINBOARD_TOKEN")
        headers = AGENT | ({"Authorization": f"Bearer {token}"} if token else {})
        try:
            client = httpx.AsyncClient(base_url=server, headers=headers, timeout=TIMEOUT)
        except (httpx.InvalidURL, ValueError):
            raise SourceError(f"{shown(server)!r} is no address. Write --server like http://127.0.0.1:8400.") from None
        async with client:
            yield Api(client)
        return
    from app.settings import load_settings

    app = make_app(load_settings(), schedule=False, is_local=True)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://drainboard", headers=AGENT, timeout=None)  # noqa: S113
        async with client:
            yield Api(client)
