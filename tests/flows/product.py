"""The product as its users meet it: a settings file, the command line as a process of its own, and HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.counts import check_kept_now
from tests.flows.in_process import Ran, command

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-W", "error::DeprecationWarning:app", "-c", "from app.command import run; run()")
CLEAR = frozenset({"unaffected", "migrated", "passed", "neither_field"})
DEPLOYMENT = "real"
LONGEST = 90.0


@dataclass
class Product:
    """One installation: a folder with a settings file, a database and a key."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.folder / "drainboard.toml"

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.folder / "drainboard.db"

    def configure(self, settings: Mapping[str, Any] | str) -> None:
        """Write the settings file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = settings if isinstance(settings, str) else to_toml(settings)
        self.config.write_text(text, encoding="utf-8")

    def ask(self, *arguments: str, **environment: str) -> Ran:
        """Run one command in this process: the same, a second quicker."""
        environment = {"DRAINBOARD_CONFIG": str(self.config), **self.environment, **environment}
        return command(*arguments, folder=self.folder, **environment)

    def run(self, *arguments: str, **environment: str) -> Ran:
        """Run one command to its end, as a process."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self._environment(environment),
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        self._check_counts()
        return Ran(done.returncode, done.stdout, done.stderr)

    def poll(self, *, full: bool = True) -> dict[str, Any]:
        """One complete poll through the command line; its summary."""
        ran = self.run("poll", *(["--full"] if full else []), "--json")
        assert ran.code == 0, ran.said
        [summary] = ran.json["polls"]
        return dict(summary)

    def gate(self, drain: str, *arguments: str) -> Ran:
        """Ask the gate with ``--json``."""
        return self.ask("gate", drain, "--json", *arguments)

    @contextlib.contextmanager
    def serve(self, *arguments: str, token: str = "", **environment: str) -> Iterator[httpx.Client]:
        """Run the server, and a client to it with the token, once it answers and its first poll is over."""
        port = free_port()
        log = self.folder / "serve.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*COMMAND, "serve", "--port", str(port), *arguments],
                cwd=self.folder,
                env=self._environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False
            ) as client:
                wait_until(lambda: _answers(client, process, log))
                wait_until(lambda: _has_polled(client))
                yield client
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._check_counts()

    def _check_counts(self) -> None:
        if self.database.exists():
            check_kept_now(f"sqlite+aiosqlite:///{self.database}")

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DRAINBOARD_")}
        return {
            **inherited,
            "DRAINBOARD_CONFIG": str(self.config),
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "400",
            "NO_COLOR": "1",
            **self.environment,
            **more,
        }


def one_deployment(url: str, *drains: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Settings with one deployment that is polled by hand only, as quickly as it answers."""
    deployment = {
        "name": DEPLOYMENT,
        "url": url,
        "poll_interval": "1h",
        "requests_per_minute": 60_000,
        "metadata_keys": ["situation"],
        **more,
    }
    return {"log_level": "debug", "deployments": [deployment], "drains": list(drains)}


def node_drain(name: str, graph: str, *nodes: str, **population: str) -> dict[str, Any]:
    """A drain that turns green with the first complete sweep that finds nothing."""
    drain: dict[str, Any] = {
        "name": name,
        "deployment": DEPLOYMENT,
        "graph": graph,
        "remove_nodes": list(nodes),
        "policy": {"soak_sweeps": 1, "soak_hold": "0s"},
    }
    if population:
        drain["population"] = {"metadata": population}
    return drain


def to_toml(settings: Mapping[str, Any]) -> str:
    """Settings as TOML: scalars, lists of tables, and inline tables below."""
    scalars = [f"{key} = {_inline(value)}" for key, value in settings.items() if not _is_tables(value)]
    tables = [
        f"[[{key}]]\n" + "\n".join(f"{name} = {_inline(item)}" for name, item in table.items())
        for key, value in settings.items()
        if _is_tables(value)
        for table in value
    ]
    return "\n\n".join(["\n".join(scalars), *tables]) + "\n"


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return json.dumps(value)


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_until(is_so: Any, *, seconds: float = 60) -> None:
    """Return when it is so; fail when it takes too long."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def poll_over_http(client: httpx.Client, *, full: bool = True) -> dict[str, Any]:
    """Start a poll by HTTP and wait for its end."""
    started = client.post(f"/api/v1/deployments/{DEPLOYMENT}/poll", json={"full": full})
    assert started.status_code == 202, started.text
    path = f"/api/v1/deployments/{DEPLOYMENT}/polls/{started.json()['poll']}"
    wait_until(lambda: client.get(path).json()["state"] not in ("running", "waiting"))
    return dict(client.get(path).json())


def all_threads(client: httpx.Client, **filters: Any) -> dict[str, dict[str, Any]]:
    """Every thread that the filters let through, by id, page after page."""
    found: dict[str, dict[str, Any]] = {}
    cursor = None
    while True:
        query = {**filters, "limit": 30, "sort": "thread_id", **({"cursor": cursor} if cursor else {})}
        page = ok(client.get(f"/api/v1/deployments/{DEPLOYMENT}/threads", params=query))
        found |= {item["thread_id"]: item for item in page["items"]}
        cursor = page["next_cursor"]
        if cursor is None:
            assert len(found) == page["total"]
            return found


def dispositions(client: httpx.Client, answer: Mapping[str, Any]) -> dict[str, str]:
    """What each thread of a drain means for it, by thread: every disposition that the answer counts, listed."""
    found: dict[str, str] = {}
    for disposition, count in answer["dispositions"].items():
        if count:
            query = {"disposition": disposition, "limit": 500}
            page = ok(client.get(f"/api/v1/drains/{answer['drain']}/threads", params=query))
            assert page["total"] == count == len(page["items"])
            found |= {item["thread_id"]: disposition for item in page["items"]}
    return found


def ok(response: httpx.Response) -> Any:
    """The JSON of an answer that must be fine."""
    assert response.status_code == 200, response.text
    return response.json()


def _answers(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _has_polled(client: httpx.Client) -> bool:
    items = ok(client.get("/api/v1/deployments"))["items"]
    return all(item["is_reported"] or (item["polls"] and item["current_poll"] is None) for item in items)
