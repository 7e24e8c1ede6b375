"""How parked threads left, as the product saw it between two polls: each way done for real, then looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from app.drains.jsonable import to_jsonable
from app.jobs.dashboard import Dashboard
from app.jobs.runtime import Runtime, open_runtime
from app.settings import load_settings
from tests.agent.fixtures import FreshServer
from tests.agent.situations import Bench, revision
from tests.flows.product import to_toml

Act = Callable[[Bench, str], Awaitable[None]]


@dataclass(frozen=True)
class Way:
    """One way to leave: how the thread was parked, what was done, where it waited, what the product should call it."""

    departure: str | None
    graph: str = "support"
    case: str = "ask"
    node: str = "await_approval"
    condition: str = "settled"


async def _answer(bench: Bench, thread: str) -> None:
    await bench.answer(thread, "support")


async def _answer_and_write_at_the_end(bench: Bench, thread: str) -> None:
    await bench.answer(thread, "support", durability="exit")


async def _answer_inside(bench: Bench, thread: str) -> None:
    await bench.answer(thread, "nested")


async def _answer_inside_and_write_at_the_end(bench: Bench, thread: str) -> None:
    await bench.answer(thread, "nested", durability="exit")


async def _ask_something_else(bench: Bench, thread: str) -> None:
    await bench.run(thread, "support", input={"case": "finish"})


async def _update(bench: Bench, thread: str) -> None:
    await bench.client.threads.update_state(thread, {"outcome": "by hand"}, as_node="notify")


async def _travel(bench: Bench, thread: str) -> None:
    state = await bench.client.threads.get_state(thread)
    await bench.client.threads.update_state(
        thread, {"case": "finish"}, as_node="intake", checkpoint=state["parent_checkpoint"]
    )
    await bench.run(thread, "support", input=None)


async def _delete(bench: Bench, thread: str) -> None:
    await bench.client.threads.delete(thread)


async def _nothing(bench: Bench, thread: str) -> None:
    pass


WAYS: dict[str, tuple[Way, Act]] = {
    "answered": (Way("completed"), _answer),
    "answered, written at the end only": (Way("unexplained"), _answer_and_write_at_the_end),
    "answered inside a subgraph": (Way("completed", "nested", "wait", "desk/sub_wait"), _answer_inside),
    "answered inside, written at the end only": (
        Way("unexplained", "nested", "wait", "desk/sub_wait"),
        _answer_inside_and_write_at_the_end,
    ),
    "asked something else": (Way("abandoned"), _ask_something_else),
    "updated by hand": (Way("overridden"), _update),
    "travelled back": (Way("forked"), _travel),
    "deleted": (Way("deleted", condition="gone"), _delete),
    "still there": (Way(None, condition="parked"), _nothing),
}


@pytest.fixture(scope="module")
def reports(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every way at once: park all, poll, act, poll; the evidence of each thread."""
    server = module_agent_server(revision("before"))
    folder = tmp_path_factory.mktemp("departures")
    return asyncio.run(_play(server.url, server.folder, folder))


async def _play(url: str, server_folder: Path, folder: Path) -> dict[str, Any]:
    config = folder / "drainboard.toml"
    config.write_text(to_toml({"deployments": [{"name": "real", "url": url, "requests_per_minute": 60_000}]}))
    async with get_client(url=url) as client, open_runtime(load_settings(config), schedule=False) as runtime:
        bench = Bench(client, server_folder)
        threads = {name: await bench.ran(way.graph, {"case": way.case}) for name, (way, _) in WAYS.items()}
        await runtime.poll("real", full=True)
        for name, (_, act) in WAYS.items():
            await act(bench, threads[name])
        return {name: await _report(runtime, threads[name]) for name in WAYS} if await _looked(runtime) else {}


async def _looked(runtime: Runtime) -> bool:
    scan = await runtime.poll("real", full=False)
    sweep = await runtime.poll("real", full=True)
    return (scan.state, sweep.state) == ("complete", "complete")


async def _report(runtime: Runtime, thread: str) -> dict[str, Any]:
    evidence: dict[str, Any] = to_jsonable(await Dashboard(runtime).evidence("real", thread, False))
    return evidence


@pytest.mark.parametrize("name", WAYS)
def test_how_a_leaf_left_is_told_once(reports: dict[str, Any], name: str) -> None:
    way, _ = WAYS[name]
    left = [found for found in reports[name]["departures"] if found["node"] == way.node]
    assert [found["departure"] for found in left] == ([] if way.departure is None else [way.departure])


@pytest.mark.parametrize("name", WAYS)
def test_the_condition_afterwards(reports: dict[str, Any], name: str) -> None:
    assert reports[name]["condition"] == WAYS[name][0].condition
