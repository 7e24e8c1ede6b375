"""A Drainboard in this process, and small graphs whose threads are reported to it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import httpx
from drainboard_reporter import Summary, areport
from fastapi import FastAPI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from app.drains.answers import Answer
from app.drains.spec import NONE_WRITES_AT_ITS_END
from app.jobs.runtime import Runtime
from app.main import create_app
from app.settings import Settings

SECRET = "canary-7c1e-must-not-leak"
NAME = "orders"


class State(TypedDict, total=False):
    asks: bool
    note: Any
    customer_name: Any
    display_name: Any
    decision: str


def begin(state: State) -> State:
    return {}


def wait(state: State) -> State:
    return {"decision": str(interrupt({"note": state.get("note")}))}


def graph_of(saver: Any, *, waits_at: str | None = "wait", schema: type = State) -> Any:
    """Asks at a node where the input says so; without that node it goes on."""
    builder = StateGraph(schema)
    builder.add_node("begin", begin)
    builder.add_edge(START, "begin")
    builder.add_node("end", begin)
    builder.add_edge("end", END)
    if waits_at is None:
        builder.add_edge("begin", "end")
    else:
        builder.add_node(waits_at, wait)
        builder.add_conditional_edges(
            "begin", lambda state: waits_at if state.get("asks") else "end", [waits_at, "end"]
        )
        builder.add_edge(waits_at, "end")
    return builder.compile(checkpointer=saver)


async def run(graph: Any, thread_id: str, **state: Any) -> None:
    """One run."""
    await graph.ainvoke({"note": SECRET, **state}, {"configurable": {"thread_id": thread_id}})


async def answer(graph: Any, thread_id: str) -> None:
    """Answer what it asked."""
    await graph.ainvoke(Command(resume=SECRET), {"configurable": {"thread_id": thread_id}})


DRAIN: Mapping[str, Any] = {
    "name": "drop-wait",
    "deployment": NAME,
    "graph": "order",
    "remove_nodes": ["wait"],
    "policy": {"soak_sweeps": 1, "soak_hold": "0s"},
}


@dataclass
class Board:
    """The application, a client to it, and the store that the reporters read."""

    app: FastAPI
    client: httpx.AsyncClient
    saver: Any = field(default_factory=InMemorySaver)

    @property
    def runtime(self) -> Runtime:
        """What is behind it."""
        found: Runtime = self.app.state.runtime
        return found

    async def report(
        self,
        ids: Iterable[str] | None,
        graph: Any = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        deployment: str = NAME,
        **more: Any,
    ) -> Summary:
        """One pass."""
        return await areport(
            graph if graph is not None else graph_of(self.saver),
            ids,
            server="http://board",
            deployment=deployment,
            graph_id=more.pop("graph_id", "order"),
            transport=transport or httpx.ASGITransport(app=self.app),
            **more,
        )

    async def get(self, path: str, **query: Any) -> Any:
        """The JSON of an answer that must be fine."""
        found = await self.client.get(f"/api/v1/{path}", params=query)
        assert found.status_code == 200, found.text
        return found.json()

    async def drain(self, name: str = "drop-wait") -> Answer:
        """What a drain says now."""
        found: Answer = await self.app.state.dashboard.drain(name)
        return found

    async def codes(self, name: str = "drop-wait") -> set[str]:
        """Its reasons."""
        return {reason.code for reason in (await self.drain(name)).reasons}

    async def conditions(self) -> dict[str, str]:
        """By thread."""
        page = await self.get(f"deployments/{NAME}/threads", limit=500)
        return {item["thread_id"]: item["condition"] for item in page["items"]}

    async def push(self, *lines: Mapping[str, Any], **more: Any) -> httpx.Response:
        """The whole thread index of the application."""
        body = {"threads": list(lines), "snapshot": "all", "begin": True, "done": True, **more}
        return await self.client.put(f"/api/v1/deployments/{NAME}/index", json=body)


@contextlib.asynccontextmanager
async def board(
    folder: Path, *drains: Mapping[str, Any], database_url: str | None = None, attested: bool = True, **deployment: Any
) -> AsyncIterator[Board]:
    """A Drainboard with one deployment that is reported. ``attested``: somebody has confirmed what no reporter sees."""
    settings = Settings(
        home=folder,
        **({"database_url": database_url} if database_url else {}),
        deployments=({"name": NAME, "reported": True, **deployment}, {"name": "served", "url": "http://127.0.0.1:9"}),
        drains=drains or (DRAIN,),
    )
    app = create_app(settings, schedule=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://board") as client,
    ):
        for drain in (drains or (DRAIN,)) if attested else ():
            await confirm(client, str(drain["name"]))
        yield Board(app, client)


async def confirm(client: httpx.AsyncClient, drain: str) -> None:
    """Somebody confirms that no run is under way that writes at its end only."""
    body = {"names": [NONE_WRITES_AT_ITS_END], "owner": "me"}
    found = await client.post(f"/api/v1/drains/{drain}/attestations", json=body)
    assert found.status_code in (201, 400), found.text


class Recording(httpx.AsyncBaseTransport):
    """Passes requests on, keeps their bodies, and fails from the moment that `fails` says so."""

    def __init__(self, app: FastAPI, fails: Callable[[int], bool] = lambda _: False) -> None:
        self._inner = httpx.ASGITransport(app=app)
        self._fails = fails
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        self.bodies.append(request.content)
        if self._fails(len(self.bodies)):
            raise Killed
        return await self._inner.handle_async_request(request)


class Killed(BaseException):
    """The process is killed: nothing of it goes on."""
