"""`python -m drainboard_reporter` as a process beside an application."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.flows.product import ROOT, Product, free_port, ok, wait_until

AGENT = """
import contextlib
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from tests.reporter.board import graph_of

def without_a_saver():
    return graph_of(None)

@contextlib.asynccontextmanager
async def order():
    async with AsyncSqliteSaver.from_conn_string("checkpoints.db") as saver:
        yield graph_of(saver)

@contextlib.contextmanager
def blocking():
    with SqliteSaver.from_conn_string("checkpoints.db") as saver:
        yield graph_of(saver)

async def raises():
    raise RuntimeError("secret-of-the-application")

number = 7

if __name__ == "__main__":
    with blocking() as graph:
        for name, asks in (("one", True), ("two", False)):
            graph.invoke({"asks": asks}, {"configurable": {"thread_id": name}})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The application: two threads, of which one waits."""
    found = tmp_path_factory.mktemp("application")
    (found / "agent.py").write_text(AGENT)
    (found / "ids.txt").write_text("one\n\ntwo\r\n")
    assert _run(found, "agent.py").returncode == 0
    return found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    product = Product(tmp_path_factory.mktemp("drainboard"))
    deployments: list[dict[str, Any]] = [
        {"name": name, "reported": True, "poll_interval": "1s"} for name in ("orders", "others", "listed")
    ]
    query = "select id as thread_id, begun as created_at from conversation"
    deployments[2]["thread_index"] = {"url_env": "APPLICATION", "query": query}
    product.configure({"deployments": deployments})
    with contextlib.closing(sqlite3.connect(product.folder / "application.db")) as application:
        application.execute("create table conversation (id text, begun text)")
        rows = [(name, "2026-01-01T00:00:00Z") for name in ("one", "two")]
        application.executemany("insert into conversation values (?, ?)", rows)
        application.commit()
    with product.serve(APPLICATION=f"sqlite:///{product.folder}/application.db") as found:
        yield found


def _run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'reporter'}", **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def _report(folder: Path, server: object, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    options = {"--graph": "agent:order", "--deployment": "orders", "--server": str(server).rstrip("/")}
    given = {option: value for option, value in zip(more[::2], more[1::2], strict=True) if option != "--index"}
    arguments = [part for pair in {**options, **given}.items() for part in pair]
    ids = ["--index"] if "--index" in more else [] if "--ids" in given else ["--ids", "ids.txt"]
    return _run(folder, "-m", "drainboard_reporter", *arguments, *ids, "--once", **environment)


@pytest.mark.parametrize("graph", ["agent:order", "agent:blocking"])
def test_it_reports_a_file_of_ids_once(folder: Path, client: httpx.Client, graph: str) -> None:
    deployment = {"agent:order": "orders", "agent:blocking": "others"}[graph]
    done = _report(folder, client.base_url, "--graph", graph, "--deployment", deployment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "2 threads reported; 0 unreadable, 0 not found.\n"
    page = ok(client.get(f"/api/v1/deployments/{deployment}/threads"))
    assert {item["thread_id"]: item["condition"] for item in page["items"]} == {"one": "parked", "two": "settled"}
    assert page["items"][0]["graph_id"] == graph.partition(":")[2]


def test_it_reports_what_the_index_lists(folder: Path, client: httpx.Client) -> None:
    """The query is asked by the dashboard, on its interval, although there is no server to poll."""
    wait_until(lambda: ok(client.get("/api/v1/deployments/listed"))["conditions"] == {"unread": 2})
    done = _report(folder, client.base_url, "--deployment", "listed", "--index", "")
    assert (done.returncode, done.stderr) == (0, "")
    assert ok(client.get("/api/v1/deployments/listed"))["conditions"] == {"parked": 1, "settled": 1}


def test_there_is_nothing_to_poll(client: httpx.Client) -> None:
    server = str(client.base_url)
    for arguments, sentence in ((["poll"], "nothing to poll"), (["poll", "orders"], "no server to ask")):
        done = _run(ROOT, "-c", "from app.command import run; run()", *arguments, "--server", server)
        assert done.returncode == 3
        assert sentence in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--graph", "agent", "Give --graph as module:name"),
        ("--graph", "nowhere:graph", "There is no module nowhere here"),
        ("--graph", "agent:nothing", "The module agent has no nothing"),
        ("--graph", "agent:number", "agent:number is no compiled graph"),
        ("--graph", "agent:raises", "RuntimeError"),
        ("--graph", "agent:without_a_saver", "has no checkpointer"),
        ("--deployment", "elsewhere", "There is no deployment with the name 'elsewhere'"),
        ("--ids", "nothing.txt", "nothing.txt cannot be read"),
        ("--interval", "soon", "write an interval like 30s"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_3(
    folder: Path, client: httpx.Client, option: str, value: str, sentence: str
) -> None:
    done = _report(folder, client.base_url, option, value)
    assert (done.returncode, done.stdout) == (3, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "secret-of-the-application" not in done.stderr


def test_a_dashboard_that_cannot_be_reached_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = _report(folder, f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_token_that_no_header_takes_is_one_sentence(folder: Path, client: httpx.Client) -> None:
    done = _report(folder, client.base_url, DRAINBOARD_TOKEN="ünfit")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "DRAINBOARD_TOKEN" in done.stderr
