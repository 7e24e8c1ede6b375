"""A join and a deferred node that ran are drained; where an arm may wait, they are not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from langgraph_sdk import get_client

from app.clock import utc_now
from app.drains.answers import Answer
from app.jobs.runtime import Runtime, open_runtime
from app.settings import load_settings
from tests.agent.fixtures import FreshServer
from tests.agent.situations import Bench, revision
from tests.flows.product import to_toml

DRAINS = ("join", "deferred")
SOAK = {"soak_sweeps": 1, "soak_hold": "0s"}


@pytest.fixture(scope="module")
def told(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Answer]]:
    """The answers after everything ran, and after an arm of the join was left waiting by hand."""
    server = module_agent_server(revision("before"))
    return asyncio.run(_play(server.url, server.folder, tmp_path_factory.mktemp("joins")))


async def _play(url: str, server_folder: Path, folder: Path) -> dict[str, dict[str, Answer]]:
    config = folder / "drainboard.toml"
    drains = [
        {"name": name, "deployment": "real", "graph": name, "remove_nodes": ["t"], "policy": SOAK} for name in DRAINS
    ]
    deployments = [{"name": "real", "url": url, "requests_per_minute": 60_000}]
    config.write_text(to_toml({"deployments": deployments, "drains": drains}))
    async with get_client(url=url) as client, open_runtime(load_settings(config), schedule=False) as runtime:
        bench = Bench(client, server_folder)
        threads = {graph: await bench.ran(graph) for graph in DRAINS}
        found = {"waiting": await _look(runtime)}
        for graph, thread in threads.items():
            await bench.answer(thread, graph)
        found["ran"] = await _look(runtime)
        await _leave_an_arm(bench, threads["join"])
        found["left"] = await _look(runtime)
    return found


async def _leave_an_arm(bench: Bench, thread: str) -> None:
    """A second turn: a runs and waits at the join, b asks; then a hand writes past b, and nothing is pending."""
    await bench.run(thread, "join", input={})
    await bench.client.threads.update_state(thread, {"ran": ["by hand"]}, as_node="t")
    state = await bench.client.threads.get_state(thread)
    assert state["next"] == []


async def _look(runtime: Runtime) -> dict[str, Answer]:
    for _ in range(2):
        assert (await runtime.poll("real", full=True)).state == "complete"
    return {name: await runtime.drains.answer(name, now=utc_now()) for name in DRAINS}


@pytest.mark.parametrize("name", DRAINS)
def test_what_waits_is_not_drained(told: dict[str, dict[str, Answer]], name: str) -> None:
    assert told["waiting"][name].verdict.value == "unknown"
    assert "deferred_unseen" in {reason.code for reason in told["waiting"][name].reasons}


@pytest.mark.parametrize("name", DRAINS)
def test_what_ran_is_drained(told: dict[str, dict[str, Answer]], name: str) -> None:
    assert told["ran"][name].reasons == ()
    assert told["ran"][name].verdict.value == "drained"


def test_an_arm_that_was_left_waiting_by_hand_is_not_drained(told: dict[str, dict[str, Answer]]) -> None:
    assert told["left"]["join"].verdict.value == "unknown"
    assert {reason.code for reason in told["left"]["join"].reasons} == {"deferred_unseen"}
