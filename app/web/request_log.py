"""One id for each request: in every line of the log that it causes, and on its answer."""

import re
import secrets
from collections.abc import Mapping
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.clock import monotonic
from app.logs import get_logger
from app.metrics import HttpMetrics

HEADER = "X-Request-ID"
_WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PROBES = frozenset({"/healthz", "/readyz", "/metrics", "/static"})

log = get_logger("http")


class RequestLog:
    """Takes the id that a proxy has given, or makes one; tells how the request ended. Routes are named, never addresses: an address
    may hold what somebody looked for."""

    def __init__(self, app: ASGIApp, *, metrics: HttpMetrics, is_quiet: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._is_quiet = is_quiet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, began, status = _id(Headers(scope=scope).get(HEADER)), monotonic(), 500
        scope.setdefault("state", {})["request_id"] = request_id  # for what answers a crash, outside of here

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request=request_id):
            try:
                await self._app(scope, receive, marked)
            finally:
                self._tell(scope, status, monotonic() - began)

    def _tell(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        route = str(getattr(scope.get("route"), "path", None) or "none")
        self._metrics.answered(_method(scope), route, status, seconds)
        is_routine = self._is_quiet or (status < 400 and (route in _PROBES or _method(scope) == "GET"))
        tell = log.debug if is_routine else log.info
        tell("request.answered", method=_method(scope), route=route, status=status, ms=round(seconds * 1000))


def _id(given: str | None) -> str:
    return given if given is not None and _WELL_FORMED.fullmatch(given) else secrets.token_hex(8)


def _method(scope: Mapping[str, Any]) -> str:
    """As it is counted: what a stranger invents is one kind."""
    known = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"
