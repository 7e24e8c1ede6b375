"""`LocalAgentServer` keeps threads over deploys and says in a sentence why it failed."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
from langgraph_sdk import get_client

from app.demo import agent_server
from app.demo.agent_server import AgentServerFailed, LocalAgentServer, write_files
from tests.agent.fixtures import FreshServer
from tests.agent.situations import revision


async def make_thread(url: str) -> str:
    async with get_client(url=url) as client:
        return str((await client.threads.create())["thread_id"])


async def count_threads(url: str) -> int:
    async with get_client(url=url) as client:
        return await client.threads.count()


async def graphs(url: str) -> set[str]:
    async with get_client(url=url) as client:
        return {one["graph_id"] for one in await client.assistants.search(limit=100)}


def test_a_deploy_keeps_threads_and_address_and_changes_the_graphs(fresh_agent_server: FreshServer) -> None:
    server = fresh_agent_server(revision("before"))
    url = server.url
    asyncio.run(make_thread(url))
    assert "dropped" in asyncio.run(graphs(url))
    server.deploy(revision("before", "after"))
    assert server.url == url
    assert asyncio.run(count_threads(url)) == 1
    assert "dropped" not in asyncio.run(graphs(url))


def test_stop_ends_the_process_and_is_harmless_twice(fresh_agent_server: FreshServer) -> None:
    server = fresh_agent_server(revision("before"))
    pid = server.pid
    assert pid is not None
    server.stop()
    server.stop()
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_taken_port_is_not_answered_by_somebody_else(tmp_path: Path) -> None:
    write_files(tmp_path, revision("before"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AgentServerFailed, match=f"Port {port} is taken"):
            LocalAgentServer(tmp_path, port=port).start()


def test_a_graph_that_cannot_be_imported_is_told_with_the_log(tmp_path: Path) -> None:
    write_files(tmp_path, {**revision("before"), "support.py": "import nothing_of_that_name"})
    with pytest.raises(AgentServerFailed, match=r"ended with exit code .*agent_server\.log"):
        LocalAgentServer(tmp_path).start()


def test_a_folder_without_graphs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AgentServerFailed, match=r"no langgraph\.json"):
        LocalAgentServer(tmp_path).start()


def test_a_missing_package_is_told_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_server, "_PACKAGES", ("langgraph_cli_that_is_not_there",))
    with pytest.raises(AgentServerFailed, match=r"pip install 'langgraph-cli\[inmem\]'"):
        LocalAgentServer(tmp_path).start()


def test_a_server_that_is_too_slow_is_ended(tmp_path: Path) -> None:
    write_files(tmp_path, revision("before"))
    server = LocalAgentServer(tmp_path)
    with pytest.raises(AgentServerFailed, match="did not answer"):
        server.start(timeout=0.1)
    assert server.pid is None
