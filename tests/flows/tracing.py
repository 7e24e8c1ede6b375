"""A real Agent Server that traces into the stand-in for LangSmith, and faults between the stand-in and the product."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from langgraph_sdk import get_client
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.demo.agent_server import LocalAgentServer
from app.demo.langsmith.runs import Runs
from app.demo.langsmith.standin import make_standin, serve_standin
from tests.flows.product import wait_until

AGENT = Path(__file__).parents[2] / "app" / "demo" / "agent"
PROJECT = "traced"
CANARY = "canary-4f1c-do-not-keep"


@dataclass
class Between:
    """Passes questions on to an application, unless a test says what to answer to a path. ``asked`` keeps the paths."""

    app: ASGIApp
    answers: dict[str, list[Response | None]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.asked.append(scope["path"])
            for path, answers in self.answers.items():
                if scope["path"].endswith(path) and answers:
                    answer = answers.pop(0) if len(answers) > 1 else answers[0]
                    if answer is not None:
                        await answer(scope, receive, send)
                        return
        await self.app(scope, receive, send)

    def fail(self, path: str, *answers: Response | None) -> None:
        """Answer so from now on, the last of them for ever. None passes one on."""
        self.answers[path] = list(answers)

    def mend(self) -> None:
        """Pass everything on again."""
        self.answers.clear()


def html() -> Response:
    """A sign-in page, which answers everything."""
    return HTMLResponse("<html><body>Sign in to continue</body></html>")


def slow_down(**headers: str) -> Response:
    """429, from a proxy that adds no body."""
    return Response(status_code=429, headers=headers)


def failed(status: int, **body: Any) -> Response:
    return JSONResponse(body, status)


@dataclass
class Traced:
    """A running server, its traces, and the way in."""

    server: LocalAgentServer
    runs: Runs
    between: Between
    langsmith: str

    @property
    def url(self) -> str:
        return self.server.url

    def settings(self, **more: Any) -> dict[str, Any]:
        """``[deployments.langsmith]``."""
        return {"project": PROJECT, "endpoint": self.langsmith, **more}

    def run(self, *inputs: dict[str, Any]) -> list[str]:
        """Start a thread for each input and wait until its run stops and its trace is here."""
        return asyncio.run(self._run(inputs))

    def answer(self, thread_id: str, answer: Any) -> None:
        """Resume a thread."""
        asyncio.run(self._resume(thread_id, answer))

    def wait_for_trace(self, thread_id: str, node: str, *, count: int = 1) -> None:
        """The tracer posts in the background."""
        wait_until(lambda: self.count(thread_id, node) >= count)

    def age_all(self, *, by: timedelta) -> None:
        """Make every trace that is there older, so that a window does not reach it."""
        for thread_id in {run.thread_id for run in self.runs.all()}:
            self.runs.age(thread_id, by=by)

    def count(self, thread_id: str, node: str) -> int:
        """Runs of a node on a thread that have ended."""
        found = [run for run in self.runs.all() if run.name == node and run.thread_id == thread_id]
        return sum(run.end_time is not None for run in found)

    async def _run(self, inputs: tuple[dict[str, Any], ...]) -> list[str]:
        async with get_client(url=self.url, api_key=None) as client:
            ids = []
            for values in inputs:
                thread = await client.threads.create(graph_id="support")
                start = {"ticket_id": "T-1", "note": CANARY, **values}
                await client.runs.wait(thread["thread_id"], "support", input=start, raise_error=False)
                ids.append(thread["thread_id"])
            return ids

    async def _resume(self, thread_id: str, answer: Any) -> None:
        async with get_client(url=self.url, api_key=None) as client:
            await client.runs.wait(thread_id, "support", command={"resume": answer}, raise_error=False)


@contextlib.contextmanager
def traced_server(folder: Path, **standin: Any) -> Iterator[Traced]:
    """The demo's graphs on a server that traces."""
    for source in AGENT.iterdir():
        if source.is_file():
            shutil.copyfile(source, folder / source.name)
    runs = Runs(keep_raw=True)
    between = Between(make_standin(runs, **standin))
    with serve_standin(between) as langsmith, serve_standin(make_standin(runs)) as sink:
        env = {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": sink,
            "LANGSMITH_API_KEY": "any",
            "LANGSMITH_PROJECT": PROJECT,
        }
        server = LocalAgentServer(folder, env=env)
        try:
            server.start()
            yield Traced(server, runs, between, langsmith)
        finally:
            server.stop(kill=True)
