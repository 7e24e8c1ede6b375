"""One play in three acts: threads are made by a process of the application, its code changes, and changes back. A reporter tells
of them after each; Drainboard is asked over HTTP."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.agent.situations import GRAPHS, revision
from tests.flows.product import ROOT, Product, ok

TARGETS = {
    "support": "await_approval",
    "nested": "desk/sub_wait",
    "remembering": "desk/sub_wait",
    "deep": "office/desk/sub_wait",
    "beside": "c",
    "fan_out": "review",
    "half_step": "t",
    "goto": "t",
    "join": "t",
    "deferred": "t",
    "strict": "await_amount",
    "functional": "functional",
}


@dataclass(frozen=True)
class Act:
    """What Drainboard says after one report, by the name of the situation or story."""

    threads: Mapping[str, Mapping[str, Any]]
    evidence: Mapping[str, Mapping[str, Any]]
    answers: Mapping[str, Mapping[str, Any]]


@dataclass
class Stage:
    """The store, the folder and the code of the application, and the Drainboard beside."""

    folder: Path
    saver: str
    client: httpx.Client

    @property
    def made(self) -> dict[str, list[dict[str, str]]]:
        """Which thread is which."""
        return dict(json.loads((self.folder / "made.json").read_text()))

    def deploy(self, *names: str) -> None:
        """The code as it is from now on."""
        for name, text in revision(*names).items():
            (self.code / name).parent.mkdir(parents=True, exist_ok=True)
            (self.code / name).write_text(text)

    @property
    def code(self) -> Path:
        """Where the graphs are."""
        return self.folder / "code"

    def run(self, what: str, *more: str) -> None:
        """A process of the application."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.reporter.library", what, str(self.folder), str(self.code), self.saver, *more],
            cwd=ROOT,
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'reporter'}", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    def report(self, *, with_evidence: bool = False) -> Act:
        """Tell Drainboard of everything, and ask it. One report of evidence is one request for each thread."""
        self.run("report", str(self.client.base_url))
        threads, evidence = {}, {}
        for one in (*self.made["situations"], *self.made["stories"]) if with_evidence else ():
            path = f"/api/v1/deployments/{one['graph']}/threads"
            evidence[one["name"]] = ok(self.client.get(f"{path}/{one['thread_id']}"))
        for graph in {one["graph"] for one in (*self.made["situations"], *self.made["stories"])}:
            page = ok(self.client.get(f"/api/v1/deployments/{graph}/threads", params={"limit": 500}))
            by_id = {item["thread_id"]: item for item in page["items"]}
            for one in (*self.made["situations"], *self.made["stories"]):
                if one["graph"] == graph:
                    threads[one["name"]] = by_id[one["thread_id"]]
        answers = {item["drain"]: item for item in ok(self.client.get("/api/v1/drains?limit=500"))["items"]}
        return Act(threads, evidence, answers)


@contextlib.contextmanager
def stage(folder: Path, saver: str) -> Iterator[Stage]:
    """An application that begins, and a Drainboard that knows of its graphs."""
    graphs = json.loads((GRAPHS / "before" / "langgraph.json").read_text())["graphs"]
    product = Product(folder / "drainboard")
    (folder / "code").mkdir(parents=True)
    product.configure(
        {
            "deployments": [{"name": name, "reported": True, "poll_interval": "1h"} for name in graphs],
            "drains": [
                {
                    "name": f"drop-{graph}",
                    "deployment": graph,
                    "graph": graph,
                    "remove_nodes": [node],
                    "policy": {"soak_sweeps": 1, "soak_hold": "0s"},
                }
                for graph, node in TARGETS.items()
            ],
        }
    )
    with product.serve() as client:
        yield Stage(folder, saver, client)
