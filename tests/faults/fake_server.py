"""A small Agent Server in memory, for faults and speed only: its answers are shaped like the real server's.

As on the real one, a state is made anew by the graph that is deployed now: work at a node that is not deployed does not
show, and a thread of a graph that is not deployed has no state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx
from xxhash import xxh3_128_hexdigest

CANARY = "canary-7f3a-must-not-leak"
_UUID = re.compile(r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")


class Clock:
    """A clock that only the test moves."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def tick(self, **parts: float) -> datetime:
        self.now += timedelta(**parts)
        return self.now


@dataclass
class Thread:
    """One thread. ``pending`` are (node, task id); ``runs`` and ``channels`` as the routes tell them."""

    id: str
    created_at: datetime
    updated_at: datetime
    graph: str | None = "support"
    head_graph: str = "support"
    status: str = "idle"
    values: dict[str, Any] | None = field(default_factory=lambda: {"note": CANARY, "state_version": 2})
    pending: list[tuple[str, str]] = field(default_factory=list)
    static: bool = False
    checkpoint: int = 1
    head_at: datetime | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    channels: set[str] = field(default_factory=lambda: {"note", "branch:to:intake", "branch:to:finish"})
    ran: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        return {
            "thread_id": self.id,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "state_updated_at": self.updated_at.isoformat(),
            "metadata": {
                "graph_id": self.graph,
                "assistant_id": "a-" + self.graph if self.graph else None,
                "customer": CANARY,
                **self.metadata,
            },
            "status": self.status,
            "values": self.values,
            "interrupts": self.interrupts() if self.status != "idle" or self.pending else {},
            "config": {"configurable": {"secret": CANARY}},
            "error": {"error": "ValueError", "message": CANARY} if self.status == "error" else None,
        }

    def interrupts(self) -> dict[str, Any]:
        if self.static or self.status == "idle":
            return {}
        return {
            task: [{"id": xxh3_128_hexdigest(f"{node}:{task}".encode()), "value": {"question": CANARY}}]
            for node, task in self.pending
        }

    def state(self, deployed: set[str]) -> dict[str, Any]:
        if not self.ran:
            return {"values": {}, "next": [], "tasks": [], "metadata": None, "created_at": None, "checkpoint": None}
        shown = [(node, task) for node, task in self.pending if node in deployed]
        place = {"checkpoint_id": f"1f1ecba7-{self.checkpoint:04}", "thread_id": self.id, "checkpoint_ns": ""}
        return {
            "values": self.values or {},
            "next": [node for node, _ in shown],
            "tasks": [
                {
                    "id": task,
                    "name": node,
                    "path": ["__pregel_pull", node],
                    "error": f"ValueError('{CANARY}')" if self.status == "error" else None,
                    "interrupts": self.interrupts().get(task, []),
                    "checkpoint": None,
                    "state": None,
                    "result": None,
                }
                for node, task in shown
            ],
            "metadata": {"graph_id": self.head_graph, "source": "loop", "step": 1, "customer": CANARY},
            "created_at": (self.head_at or self.updated_at).isoformat(),
            "checkpoint": place,
            "parent_checkpoint": place | {"checkpoint_id": f"1f1ecba7-{self.checkpoint - 1:04}"},
            "interrupts": [],
        }


Answer = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]


@dataclass
class Fault:
    """What goes wrong: for requests to ``path`` (a regular expression, of method and path), ``times`` times."""

    path: str
    answer: Answer
    times: int = 10**9
    skip: int = 0

    def takes(self, request: httpx.Request) -> bool:
        if not re.search(self.path, f"{request.method} {request.url.path}") or self.times <= 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class FakeAgentServer:
    """The server. Change ``threads``, ``graphs``, ``faults`` and the switches as a test needs."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.threads: dict[str, Thread] = {}
        self.graphs: dict[str, list[str]] = {"support": ["intake", "await_approval", "finish"]}
        self.edges: list[tuple[str, str]] = []
        self.fields = ["note", "state_version", "customer_name", "display_name"]
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.ignores: set[str] = set()
        self.cap = 1000
        self.listing: Callable[[list[Thread]], list[Thread]] = lambda rows: rows
        self.count_lies: int | None = None
        self.stored: dict[str, int] = {}
        self.after: Callable[[httpx.Request], None] = lambda _: None
        self._made = 0

    # -- what a test does to it -------------------------------------------------------------------------------------

    def thread(self, **changes: Any) -> Thread:
        """A finished thread, made and last moved an hour ago unless said otherwise."""
        self._made += 1
        made = Thread(
            id=changes.pop("id", f"00000000-0000-7000-8000-{self._made:012x}"),
            created_at=changes.pop("created_at", self.clock.now - timedelta(hours=1)),
            updated_at=changes.pop("updated_at", self.clock.now - timedelta(hours=1)),
            **changes,
        )
        self.threads[made.id] = made
        return made

    def settled(self, count: int, **changes: Any) -> list[Thread]:
        return [self.thread(**changes) for _ in range(count)]

    def parked(self, node: str = "await_approval", **changes: Any) -> Thread:
        self._made += 1
        task = f"10000000-0000-0000-0000-{self._made:012x}"
        channels = {"note", "branch:to:intake", f"branch:to:{node}"}
        return self.thread(status="interrupted", pending=[(node, task)], **({"channels": channels} | changes))

    def park(self, thread: Thread, node: str = "await_approval") -> None:
        """A thread moves on, and waits at a node now."""
        thread.pending = [(node, f"20000000-0000-0000-0000-{thread.checkpoint:012x}")]
        thread.status = "interrupted"
        thread.channels |= {f"branch:to:{node}"}
        thread.checkpoint += 1
        thread.updated_at = thread.head_at = self.clock.now

    def finish(self, thread: Thread) -> None:
        """Its question is answered, and it ends: the pending node runs, if it is deployed. Else the answer is lost."""
        deployed = set(self.graphs.get(thread.head_graph, []))
        if all(node in deployed for node, _ in thread.pending):
            thread.pending = []
            thread.checkpoint += 1
            thread.head_at = self.clock.now
        thread.status = "idle"
        thread.updated_at = self.clock.now

    def deploy(self, graph: str = "support", *nodes: str) -> None:
        self.graphs[graph] = list(nodes)

    def fail(self, path: str, answer: Answer, *, times: int = 10**9, skip: int = 0) -> None:
        self.faults.append(Fault(path, answer, times, skip))

    def asked(self, path: str) -> int:
        return sum(1 for request in self.requests if re.search(path, request))

    # -- answering --------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._handle)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(f"{request.method} {request.url.path}")
        for fault in self.faults:
            if fault.takes(request):
                found = fault.answer(request)
                return found if isinstance(found, httpx.Response) else await found
        response = self._route(request)
        self.after(request)
        return response

    def _route(self, request: httpx.Request) -> httpx.Response:
        path, method = request.url.path, request.method
        body = json.loads(request.content) if request.content else {}
        parts = path.strip("/").split("/")
        match (method, *parts):
            case ("GET", "info"):
                return ok({"version": "0.16.7", "langgraph_py_version": "1.2.24", "flags": {}})
            case ("POST", "assistants", "search"):
                return ok([self._assistant(graph) for graph in self.graphs][body.get("offset", 0) :])
            case ("GET", "assistants", assistant, "graph"):
                return ok(self._drawing(assistant))
            case ("GET", "assistants", _, "schemas"):
                return ok({"state_schema": {"properties": {name: {"type": "string"} for name in self.fields}}})
            case ("POST", "threads", "search"):
                return ok(self._search(body))
            case ("POST", "threads", "count"):
                return ok(len(self.threads) if self.count_lies is None else self.count_lies)
            case ("GET", "threads", thread_id, *rest):
                return self._thread(request, thread_id, rest)
        return httpx.Response(404, json={"detail": f"Not Found {CANARY}"})

    def _assistant(self, graph: str) -> dict[str, Any]:
        return {"assistant_id": "a-" + graph, "graph_id": graph, "metadata": {"created_by": "system"}, "version": 1}

    def _drawing(self, assistant: str) -> dict[str, Any]:
        nodes = self.graphs.get(assistant.removeprefix("a-"), [])
        return {
            "nodes": [{"id": name, "type": "runnable"} for name in ("__start__", *nodes, "__end__")],
            "edges": [{"source": source, "target": target} for source, target in self.edges],
        }

    def _search(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        key, descending = body.get("sort_by", "updated_at"), body.get("sort_order", "desc") == "desc"
        rows = sorted(self.threads.values(), key=lambda one: one.id)
        if "sort" not in self.ignores:
            rows.sort(key=lambda one: one.id if key == "thread_id" else one.updated_at, reverse=descending)
        rows = self.listing(rows)
        offset = 0 if "offset" in self.ignores else body.get("offset", 0)
        shown = [one.row() for one in rows[offset : offset + min(body.get("limit", 10), self.cap)]]
        if body.get("select") and "select" not in self.ignores:
            shown = [{name: row[name] for name in body["select"] if name in row} for row in shown]
        return shown

    def _thread(self, request: httpx.Request, thread_id: str, rest: list[str]) -> httpx.Response:
        if not _UUID.match(thread_id):
            return httpx.Response(422, json={"detail": "Invalid thread ID: must be a UUID"})
        if (thread := self.threads.get(thread_id)) is None:
            return httpx.Response(404, json={"detail": f"Thread with ID {thread_id} not found"})
        match rest:
            case []:
                return ok(thread.row())
            case ["state"]:
                if thread.graph is not None and thread.graph not in self.graphs:
                    return httpx.Response(404, json={"detail": f"Graph '{thread.graph}' not found"})
                return ok(thread.state(set(self.graphs.get(thread.graph or "", []))))
            case ["runs"]:
                status = request.url.params.get("status")
                return ok([one for one in thread.runs if status in (None, one["status"])])
            case ["storage"]:
                channels = {name: {"versions": 1, "bytes": 1} for name in sorted(thread.channels)}
                count = self.stored.get(thread.id, 3 if thread.ran else 0)
                return ok({"checkpoints": {"count": count}, "channel_values": {"by_channel": channels}})
        return httpx.Response(404, json={"detail": "Not Found"})


def ok(body: Any) -> httpx.Response:
    return httpx.Response(200, json=body)


# -- answers that are faults --------------------------------------------------------------------------------------


def status(code: int, **headers: str) -> Answer:
    """An error whose body has something that must not leak."""
    return lambda _: httpx.Response(code, json={"detail": f"internal: {CANARY}"}, headers=headers)


def text(body: str, code: int = 200, kind: str = "text/html") -> Answer:
    return lambda _: httpx.Response(code, text=body, headers={"content-type": kind})


def body(value: Any) -> Answer:
    return lambda _: ok(value)


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(f"All connection attempts failed {CANARY}", request=request)


def time_out(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout(f"timed out {CANARY}", request=request)


def cut_off(request: httpx.Request) -> httpx.Response:
    raise httpx.RemoteProtocolError(f"peer closed connection {CANARY}", request=request)


def half_a_json(_: httpx.Request) -> httpx.Response:
    return httpx.Response(
        200, content=f'[{{"thread_id": "{CANARY}", "st'.encode(), headers={"content-type": "application/json"}
    )
