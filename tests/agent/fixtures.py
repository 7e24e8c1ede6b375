"""Real Agent Servers for tests; loaded by `pytest_plugins` in `tests/conftest.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.demo.agent_server import LocalAgentServer, write_files
from tests.agent.situations import Situation, make_situations, revision

FreshServer = Callable[[Mapping[str, str]], LocalAgentServer]


@dataclass(frozen=True)
class SituationsServer:
    """A server that holds every situation that needs no deploy. It is shared: look, do not touch."""

    server: LocalAgentServer
    situations: tuple[Situation, ...]

    @property
    def url(self) -> str:
        """Where it answers."""
        return self.server.url

    def __getitem__(self, name: str) -> Situation:
        return next(one for one in self.situations if one.name == name)


@pytest.fixture(scope="session")
def situations_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SituationsServer]:
    """One server for the session, with all situations made once (about 7 seconds)."""
    folder = tmp_path_factory.mktemp("situations")
    write_files(folder, revision("before"))
    server = LocalAgentServer(folder)
    try:
        server.start()
        yield SituationsServer(server, tuple(asyncio.run(make_situations(server.url, folder))))
    finally:
        server.stop(kill=True)


@pytest.fixture
def fresh_agent_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshServer]:
    """Start servers with these files, each in a folder of its own; they end with the test."""
    yield from _fresh_servers(tmp_path_factory)


@pytest.fixture(scope="module")
def module_agent_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshServer]:
    """The same; they end with the module."""
    yield from _fresh_servers(tmp_path_factory)


def _fresh_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshServer]:
    with ExitStack() as ended_afterwards:

        def fresh(files: Mapping[str, str]) -> LocalAgentServer:
            folder: Path = tmp_path_factory.mktemp("agent_server")
            write_files(folder, files)
            server = LocalAgentServer(folder)
            ended_afterwards.callback(server.stop, kill=True)
            server.start()
            return server

        yield fresh
