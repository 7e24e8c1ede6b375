"""One Drainboard for all documents: on a real Agent Server with the demo's threads, known as ``demo`` and as ``support-prod``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.demo.run import DEMO_DRAINS, PROJECT, demo_servers
from app.demo.seed import seed
from tests.delivery.commands import parse
from tests.docs.blocks import Command
from tests.flows.product import ROOT, Product, wait_until

DEPLOYMENTS = ("demo", "support-prod")
LONGEST = 60
_ID = re.compile(r"(?!00000000)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ONLY_READ = ("docker", "kubectl", "helm", "pip", "npm", "python", ".venv/bin/pip", "./scripts/run", "./scripts/test")
_NO_END = (("serve",), ("worker",), ("db", "restore"))


@dataclass
class World:
    """A folder to work in, a server that answers, and one thread that waits at ``await_approval``."""

    product: Product
    http: httpx.Client
    thread: str

    def begin(self) -> None:
        """What every document finds: the drains of the demo, open, the thread (one erased it), and an empty place for backups."""
        if not self._is_there():
            self.http.post("/api/v1/deployments/support-prod/poll", json={"full": True})
            wait_until(self._is_there)
        answer = self.http.put("/api/v1/drains", json={"drains": _drains()})
        assert answer.status_code == 200, answer.text
        shutil.rmtree(self.product.folder / "backup", ignore_errors=True)
        (self.product.folder / "backup").mkdir()

    def _is_there(self) -> bool:
        found: bool = self.http.get(f"/api/v1/deployments/support-prod/threads/{self.thread}").json()["found"]
        return found

    def run(self, command: Command) -> None:
        """Run it, or read it where it cannot be run here, and compare with what the document says."""
        text = self._filled(command.text)
        words = command.words
        program = words[0].removeprefix(".venv/bin/")
        if words[0] == "export" or re.match(r"^[A-Z_]+=", words[0]):
            return
        if program in _ONLY_READ or words[0] in _ONLY_READ:
            self._read(words)
        elif program == "drainboard" and not command.needs_a_shell:
            self._ask(Command(text, command.outcomes))
        elif program == "curl":
            self._request(Command(text, command.outcomes))
        else:
            self._shell(text, command.outcomes or frozenset({0}))

    def _filled(self, text: str) -> str:
        """The example's ids and places, as they are here."""
        text = _ID.sub(self.thread, text).replace("THREAD", self.thread).replace("…", "x")
        return text.replace("/backup/", f"{self.product.folder}/backup/")

    def _read(self, words: list[str]) -> None:
        """A program that is not here: its file is, and what it hands to ours is a command of ours."""
        if words[0].startswith("./scripts/"):
            assert (ROOT / words[0]).is_file()
        for mark in ("--", "drainboard"):
            if words[0] in ("kubectl", "docker") and mark in words[1:] and ("exec" in words or "run" in words):
                at = len(words) - 1 - words[::-1].index("drainboard")
                if words[at + 1 :]:
                    parse(words[at + 1 :])
        for name in words:
            if name.startswith("deploy/"):
                assert (ROOT / name).is_file()

    def _ask(self, command: Command) -> None:
        _, *arguments = command.words
        if "--wait" in arguments or any(tuple(arguments[: len(each)]) == each for each in _NO_END):
            parse(arguments)
            return
        file = None
        if ">" in arguments:
            *arguments, _, file = arguments
        ran = self.product.ask(*arguments, DRAINBOARD_SERVER=str(self.http.base_url))
        if file is not None:
            (self.product.folder / file).write_text(ran.out, encoding="utf-8")
        usual = frozenset({0, 1, 2}) if arguments[0] == "gate" else frozenset({0})
        assert ran.code in (command.outcomes or usual), f"{command.text}: {ran.code}\n{ran.said}"

    def _request(self, command: Command) -> None:
        """A request of curl, as httpx makes it; quick, and there without curl."""
        method, url, headers, body, refuses = "GET", "", {}, None, False
        words = iter(command.words[1:])
        for word in words:
            if word in ("-X", "--request"):
                method = next(words)
            elif word in ("-H", "--header"):
                name, _, value = next(words).partition(": ")
                headers[name] = value
            elif word in ("-d", "--data"):
                body = next(words)
            elif word in ("-o", "-w"):
                next(words)
            elif word.startswith("-"):
                refuses = refuses or "f" in word
            else:
                url = word.replace("$DRAINBOARD_SERVER", str(self.http.base_url).rstrip("/"))
        found = self.http.request("POST" if body and method == "GET" else method, url, headers=headers, content=body)
        fine = found.status_code in command.outcomes if command.outcomes else found.status_code < 400
        assert fine, f"{command.text}: {found.status_code}\n{found.text}"

    def _shell(self, text: str, outcomes: frozenset[int]) -> None:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DRAINBOARD_SERVER": str(self.http.base_url),
        }
        ran = subprocess.run(
            ["sh", "-c", text],
            cwd=self.product.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        assert ran.returncode in outcomes, f"{text}: {ran.returncode}\n{ran.stdout}{ran.stderr}"


@contextlib.contextmanager
def world(folder: Path) -> Iterator[World]:
    """Start it, and wait until a thread is seen that waits."""
    product = Product(folder)
    with demo_servers(folder / ".drainboard" / "demo" / "agent") as servers:
        asyncio.run(seed(servers.url))
        product.configure(_settings(servers.url, servers.langsmith))
        for name in ("langgraph.json", "graph.py"):
            shutil.copy(ROOT / "app" / "demo" / "agent" / name, folder / name)
        with product.serve() as http:
            http.put("/api/v1/drains", json={"drains": _drains()})
            http.post("/api/v1/deployments/support-prod/poll", json={"full": True})
            wait_until(lambda: http.get("/api/v1/drains/drop-await-approval/gate").json()["verdict"] == "blocked")
            items = http.get("/api/v1/deployments/demo/threads", params={"pending": "await_approval"}).json()["items"]
            yield World(product, http, items[0]["thread_id"])


def _drains() -> list[dict[str, Any]]:
    """Those of the demo, on the deployment that most documents talk of."""
    return [{**drain, "deployment": "support-prod"} for drain in DEMO_DRAINS]


def _settings(url: str, langsmith: str) -> dict[str, Any]:
    shared = {
        "url": url,
        "environment": "production",
        "poll_interval": "5s",
        "requests_per_minute": 60_000,
        "metadata_keys": ["region"],
        "langsmith": {"project": PROJECT, "endpoint": langsmith, "web_url": langsmith},
    }
    return {"deployments": [{"name": name, **shared} for name in DEPLOYMENTS]}
