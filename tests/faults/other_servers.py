"""Servers that are not the official one of today: a transport in front of any other, which answers as they do.

``AEGRA`` is made from the answers of aegra-api 0.11.0 on Python 3.12 and PostgreSQL (docs/decisions/0013). The others lack
one thing each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

Refusals = Mapping[str, tuple[int, Mapping[str, Any]]]
_THREAD = re.compile(r"^GET /threads/[^/]+$")


@dataclass(frozen=True)
class Kind:
    """One kind of server. ``refuses``: routes (regular expressions of method and path) with status and body;
    ``row_drops``, ``task_drops`` and ``state_metadata_drops``: keys that its answers lack; ``refuses_body``: keys of a body
    that must be null; ``most``: the largest limit by path; ``ignores_body``: keys that it does not look at."""

    name: str
    refuses: Refusals = field(default_factory=dict)
    row_drops: frozenset[str] = frozenset()
    task_drops: frozenset[str] = frozenset()
    state_metadata_drops: frozenset[str] = frozenset()
    run_drops: frozenset[str] = frozenset()
    refuses_body: frozenset[str] = frozenset()
    ignores_body: frozenset[str] = frozenset()
    refuses_sorts: frozenset[str] = frozenset()
    most: Mapping[str, int] = field(default_factory=dict)
    idle_at_breakpoints: bool = False
    info_drops: frozenset[str] = frozenset()
    graph_missing_is_an_error: bool = False


NOT_FOUND = (404, {"detail": "Not Found"})
AEGRA = Kind(
    "aegra",
    refuses={"^POST /threads/count$": (405, {"detail": "Method Not Allowed"}), "/storage$": NOT_FOUND},
    row_drops=frozenset({"values", "interrupts", "state_updated_at", "config", "error"}),
    task_drops=frozenset({"path"}),
    state_metadata_drops=frozenset({"graph_id", "assistant_id"}),
    run_drops=frozenset({"kwargs"}),
    refuses_body=frozenset({"select"}),
    ignores_body=frozenset({"ids", "extract"}),
    refuses_sorts=frozenset({"state_updated_at"}),
    most={"/assistants/search": 100, "/threads/search": 1000},
    idle_at_breakpoints=True,
    info_drops=frozenset({"langgraph_py_version"}),
    graph_missing_is_an_error=True,
)
OLD = (
    Kind("no storage", refuses={"/storage$": NOT_FOUND}),
    Kind("another checkpointer", refuses={"/storage$": (501, {"detail": "Not Implemented"})}),
    Kind("no count", refuses={"^POST /threads/count$": NOT_FOUND}),
    Kind("no select", refuses_body=frozenset({"select"})),
    Kind("select ignored", ignores_body=frozenset({"select"})),
    Kind("no extract", refuses_body=frozenset({"extract"})),
    Kind("no state time", row_drops=frozenset({"state_updated_at"}), idle_at_breakpoints=True),
    Kind("no info", refuses={"^GET /info$": NOT_FOUND}),
    Kind("no interrupts in rows", row_drops=frozenset({"interrupts"})),
    Kind("no interrupts in tasks", task_drops=frozenset({"interrupts"})),
    Kind("no runs", refuses={"/runs$": NOT_FOUND}),
    Kind("no history", refuses={"/history$": NOT_FOUND}),
    Kind("no order of ids", refuses_sorts=frozenset({"thread_id"})),
    Kind("no order of change", refuses_sorts=frozenset({"updated_at"})),
    Kind("order ignored", ignores_body=frozenset({"sort_by", "sort_order"})),
)
LACKS_NOTHING_FOR_GREEN = (
    "no count",
    "no select",
    "select ignored",
    "no extract",
    "no info",
    "no interrupts in rows",
    "no interrupts in tasks",
    "no history",
    "no order of ids",
    "no order of change",
)


class OtherServer(httpx.AsyncBaseTransport):
    """A server of some kind, made of another one. ``requests`` are those that reached it."""

    def __init__(self, kind: Kind, inner: httpx.AsyncBaseTransport) -> None:
        self.kind = kind
        self._inner = inner
        self.requests: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Refuse, or ask the inner server and take away what this kind does not answer."""
        asked = f"{request.method} {request.url.path}"
        self.requests.append(asked)
        for pattern, (status, body) in self.kind.refuses.items():
            if re.search(pattern, asked):
                return httpx.Response(status, json=body, request=request)
        content = await request.aread()
        body = json.loads(content) if content else None
        if isinstance(body, dict):
            if why := self._refused(request.url.path, body):
                detail = [{"type": "value_error", "loc": ["body", why], "msg": "not supported"}]
                return httpx.Response(422, json={"detail": detail}, request=request)
            body = {key: value for key, value in body.items() if key not in self.kind.ignores_body}
            headers = {key: value for key, value in request.headers.items() if key != "content-length"}
            request = httpx.Request(request.method, request.url, headers=headers, json=body)
        response = await self._inner.handle_async_request(request)
        raw = await response.aread()
        if not response.headers.get("content-type", "").startswith("application/json"):
            return httpx.Response(response.status_code, content=raw, request=request)
        found = json.loads(raw) if raw else None
        return self._changed(asked, response.status_code, found, request)

    async def aclose(self) -> None:
        """Close the inner server's connections."""
        await self._inner.aclose()

    def _refused(self, path: str, body: Mapping[str, Any]) -> str | None:
        for key in self.kind.refuses_body:
            if body.get(key) is not None:
                return key
        if path == "/threads/search" and body.get("sort_by") in self.kind.refuses_sorts:
            return "sort_by"
        return "limit" if body.get("limit", 0) > self.kind.most.get(path, 10**9) else None

    def _changed(self, asked: str, status: int, found: Any, request: httpx.Request) -> httpx.Response:
        kind = self.kind
        if status == 404 and kind.graph_missing_is_an_error and "Graph" in json.dumps(found):
            message = "Failed to retrieve thread state: Graph not found: support"
            return httpx.Response(500, json={"error": "internal_error", "message": message}, request=request)
        if status == 404 and kind.graph_missing_is_an_error:
            message = "Thread 'x' not found"
            return httpx.Response(404, json={"error": "not_found", "message": message}, request=request)
        if status == 200:
            found = self._answer(asked, found)
        return httpx.Response(status, json=found, request=request)

    def _answer(self, asked: str, found: Any) -> Any:
        if asked == "POST /threads/search":
            return [self._row(row) for row in found]
        if _THREAD.match(asked):
            return self._row(found)
        if asked.endswith("/state"):
            return self._state(found)
        if asked.endswith("/history"):
            return [self._state(one) for one in found]
        if asked.endswith("/runs") or re.search(r"/runs/[^/]+$", asked):
            return [_without(one, self.kind.run_drops) for one in found] if isinstance(found, list) else found
        return _without(found, self.kind.info_drops) if asked == "GET /info" else found

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.kind.idle_at_breakpoints and row.get("status") == "interrupted" and not row.get("interrupts"):
            row = row | {"status": "idle"}
        return _without(row, self.kind.row_drops)

    def _state(self, state: dict[str, Any]) -> dict[str, Any]:
        kind = self.kind
        changed = state | {"metadata": _without(state.get("metadata") or {}, kind.state_metadata_drops)}
        changed["tasks"] = [
            _without(task, kind.task_drops)
            | ({"state": self._state(task["state"])} if isinstance(task.get("state"), dict) else {})
            for task in state.get("tasks") or []
        ]
        return changed


def _without(found: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in keys}
