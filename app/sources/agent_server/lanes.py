"""The way to one server, for many small requests.

httpx looks at every connection of a pool before and after each request, and asks the system whether it is still open: with
16 connections that is a third of the time of a sweep. Here each connection is a pool of its own; a request takes one that is
free and looks at no other. And the SDK hands each body to another thread to be parsed, which costs more than parsing it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.request import getproxies

import httpx
import orjson
from langgraph_sdk.client import AssistantsClient, HttpClient, LangGraphClient, RunsClient, ThreadsClient

KEPT = 3.0  # seconds that a connection may idle: servers close theirs after five


def transport_of(concurrency: int) -> httpx.AsyncBaseTransport | None:
    """Lanes; None where the environment names a proxy, which httpx finds only where it makes the transport itself."""
    return None if getproxies() else Lanes(concurrency)


class Lanes(httpx.AsyncBaseTransport):
    """So many connections, each used by one request at a time. The caller never asks for more at once than there are."""

    def __init__(self, count: int) -> None:
        one = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEPT)
        self._make = partial(httpx.AsyncHTTPTransport, verify=httpx.create_ssl_context(), limits=one)
        self._all = [self._make() for _ in range(count)]
        self._free = list(self._all)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask on the lane that was used last, whose connection is the warmest."""
        lane = self._free.pop() if self._free else self._all[0]
        try:
            answer = await lane.handle_async_request(request)
        except BaseException:
            await self._renew(lane)
            raise
        answer.stream = _Body(answer.stream, partial(self._done, lane))
        return answer

    def _give_back(self, lane: httpx.AsyncHTTPTransport) -> None:
        if lane not in self._free:
            self._free.append(lane)

    async def _done(self, lane: httpx.AsyncHTTPTransport, was_read: bool) -> None:
        if was_read:
            self._give_back(lane)
        else:
            await self._renew(lane)

    async def _renew(self, lane: httpx.AsyncHTTPTransport) -> None:
        """Another lane instead: where a request was cancelled before it had connected, its place in the pool is never free again,
        and this pool has no other."""
        if lane in self._all:
            fresh = self._all[self._all.index(lane)] = self._make()
            self._give_back(fresh)
        await lane.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        for lane in self._all:
            await lane.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer; its lane is free when it is closed."""

    def __init__(self, stream: Any, done: Callable[[bool], Awaitable[None]]) -> None:
        self._stream = stream
        self._done = done
        self._was_read = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part
        self._was_read = True

    async def aclose(self) -> None:
        is_whole = False
        try:
            await self._stream.aclose()
            is_whole = self._was_read
        finally:
            await self._done(is_whole)


class InlineHttp(HttpClient):
    """The SDK's own way to ask, without its threads. httpx parses an address three times to put it together from a base, a
    path and parameters; here it is put together as text and parsed once."""

    async def get(self, path: str, *, params: Any = None, headers: Mapping[str, str] | None = None, **_: Any) -> Any:
        """GET, parsed."""
        query = f"?{httpx.QueryParams(params)}" if params else ""
        return await self._send("GET", f"{path}{query}", None, headers)

    async def post(
        self, path: str, *, json: Any, params: Any = None, headers: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        """POST, parsed."""
        kind = {"Content-Type": "application/json"} | dict(headers or {})
        query = f"?{httpx.QueryParams(params)}" if params else ""
        return await self._send("POST", f"{path}{query}", b"" if json is None else orjson.dumps(json), kind)

    async def _send(self, method: str, target: str, content: bytes | None, headers: Mapping[str, str] | None) -> Any:
        client = self.client
        given = client.headers if not headers else [*client.headers.multi_items(), *headers.items()]
        request = httpx.Request(
            method,
            str(client.base_url).rstrip("/") + target,
            headers=given,
            content=content,
            extensions={"timeout": client.timeout.as_dict()},
        )
        return _parsed(await client.send(request))


def _parsed(answer: httpx.Response) -> Any:
    if answer.status_code >= httpx.codes.BAD_REQUEST:
        raise httpx.HTTPStatusError("refused", request=answer.request, response=answer)
    return orjson.loads(answer.content) if answer.content else None


def client_of(http: httpx.AsyncClient) -> LangGraphClient:
    """The SDK's client over it."""
    client, inline = LangGraphClient(http), InlineHttp(http)
    client.http = inline
    client.assistants, client.threads, client.runs = (
        AssistantsClient(inline),
        ThreadsClient(inline),
        RunsClient(inline),
    )
    return client
