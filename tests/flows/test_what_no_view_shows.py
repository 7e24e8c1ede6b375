"""Work and data that no view of a thread shows: each was once called drained on the real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from app.clock import utc_now
from app.jobs.runtime import Runtime, open_runtime
from app.settings import load_settings
from tests.agent.fixtures import FreshServer
from tests.agent.situations import A_DAY, Bench, revision
from tests.flows.product import to_toml

SOAK = {"soak_sweeps": 1, "soak_hold": "0s"}
RENAME = [{"old": "customer_name", "new": "display_name"}]
DRAINS: dict[str, dict[str, Any]] = {
    "deferred_join": {"graph": "deferred_join", "remove_nodes": ["t"]},
    "solo_join": {"graph": "solo_join", "remove_nodes": ["t"]},
    "deferred_behind_a_join": {"graph": "behind_a_join", "remove_nodes": ["t"]},
    "field_behind_a_join": {"graph": "behind_a_join", "remove_fields": ["legacy_notes"]},
    "two_ways_in": {"graph": "two_ways_in", "remove_nodes": ["t"]},
    "approval": {"graph": "approval", "remove_nodes": ["q"]},
    "migrates": {"graph": "migrates", "rename_fields": RENAME},
    "inside": {"graph": "inside", "remove_nodes": ["outer/w"]},
    "sends": {"graph": "sends", "erase_fields": ["passport_number"]},
    "anything": {"graph": "anything", "erase_fields": ["passport_number"]},
    "saves": {"graph": "saves", "erase_fields": ["passport_number"]},
}
Said = tuple[str, frozenset[str]]
"""A verdict and its reason codes."""


@pytest.fixture(scope="module")
def said(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """What each drain says after its story; ``approval`` after each of several."""
    server = module_agent_server(revision("hidden"))
    return asyncio.run(_play(server.url, server.folder, tmp_path_factory.mktemp("hidden")))


async def _play(url: str, server_folder: Path, folder: Path) -> dict[str, Said]:
    config = folder / "drainboard.toml"
    drains = [{"name": name, "deployment": "real", "policy": SOAK, **drain} for name, drain in DRAINS.items()]
    deployments = [{"name": "real", "url": url, "requests_per_minute": 60_000}]
    config.write_text(to_toml({"deployments": deployments, "drains": drains}))
    async with get_client(url=url) as client, open_runtime(load_settings(config), schedule=False) as runtime:
        bench = Bench(client, server_folder)
        for story in (_waits, _holds, _leaves_two_ways_in_half_open):
            await story(bench)
        newest = await _migrated(bench)
        found = await _look(runtime, *DRAINS)
        await client.runs.delete(*newest)
        found["unmigrated"] = (await _look(runtime, "migrates"))["migrates"]
        for act in (_without_a_graph, _told_where_to_go, _goes_back, _answered_by_another_graph):
            found |= await _approval(bench, runtime, act)
    return found


async def _look(runtime: Runtime, *names: str) -> dict[str, Said]:
    for _ in range(2):
        assert (await runtime.poll("real", full=True)).state == "complete"
    answers = [await runtime.drains.answer(name, now=utc_now()) for name in names]
    return {one.drain: (one.verdict.value, frozenset(reason.code for reason in one.reasons)) for one in answers}


async def _copied(bench: Bench, graph: str) -> None:
    """A copy is idle, whatever waits in it."""
    thread = await bench.ran(graph, {"legacy_notes": "x"})
    await bench.client.threads.copy(thread)
    await bench.client.threads.delete(thread)


async def _waits(bench: Bench) -> None:
    await bench.ran("deferred_join")
    await _copied(bench, "solo_join")
    await _copied(bench, "behind_a_join")


async def _holds(bench: Bench) -> None:
    await bench.ran("inside", durability="exit")
    await bench.ran("sends")
    await bench.ran("saves")
    anything = await bench.ran("anything", {"passport_number": "x"})
    await bench.run(anything, "anything", input={"note": "the whole state anew"})


async def _leaves_two_ways_in_half_open(bench: Bench) -> None:
    """The join of a and b runs, then a runs again and waits at it; then t is reached through e."""
    thread = await bench.ran("two_ways_in", {"go": "ab"})
    for go in "ae":
        await bench.run(thread, "two_ways_in", input={"go": go})


async def _migrated(bench: Bench) -> tuple[str, str]:
    """A thread whose second run wrote the new field; thread and run."""
    thread = await bench.ran("migrates")
    run = await bench.start(thread, "migrates", input={"go": "x"})
    await bench.client.runs.join(thread, run)
    return thread, run


Act = Callable[[Bench, str], Awaitable[str]]


async def _approval(bench: Bench, runtime: Runtime, act: Act) -> dict[str, Said]:
    """The drain is drained, then something happens to one thread; ``foreign`` is another graph's, and known."""
    settled, foreign = await bench.ran("approval", {"go": "x"}), await bench.ran("other")
    before = (await _look(runtime, "approval"))["approval"]
    assert before == ("drained", frozenset())
    thread = await act(bench, foreign)
    after = (await _look(runtime, "approval"))["approval"]
    for each in {thread, settled, foreign}:
        await bench.client.threads.delete(each)
    return {act.__name__: after}


async def _without_a_graph(bench: Bench, _: str) -> str:
    """A copy of a parked thread whose metadata names no graph any more: the server shows nothing of it."""
    parked = await bench.ran("approval")
    thread = str((await bench.client.threads.copy(parked))["thread_id"])  # type: ignore[func-returns-value]
    await bench.client.threads.update(thread, metadata={"graph_id": None})
    await bench.client.threads.delete(parked)
    return thread


async def _told_where_to_go(bench: Bench, _: str) -> str:
    thread = await bench.ran("approval", {"go": "x"})
    await bench.start(thread, "approval", command={"goto": "q"}, after_seconds=A_DAY)
    return thread


async def _goes_back(bench: Bench, _: str) -> str:
    """A delayed run begins where the thread once waited."""
    thread = await bench.ran("approval")
    waited_at = await bench.head(thread)
    await bench.answer(thread, "approval")
    await bench.start(thread, "approval", checkpoint_id=waited_at, after_seconds=A_DAY)
    return thread


async def _answered_by_another_graph(bench: Bench, foreign: str) -> str:
    """It waits here, and is answered under the other graph, all between two polls."""
    await bench.run(foreign, "approval", input={})
    await bench.answer(foreign, "other")
    return foreign


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("deferred_join", "deferred_unseen"),
        ("solo_join", "deferred_unseen"),
        ("deferred_behind_a_join", "deferred_unseen"),
        ("field_behind_a_join", "deferred_unseen"),
        ("two_ways_in", "deferred_unseen"),
        ("inside", "intake_unseen"),
        ("sends", "history_unseen"),
        ("saves", "history_unseen"),
        ("anything", "history_unseen"),
        ("_without_a_graph", "threads_unread"),
        ("_told_where_to_go", "threads_unread"),
        ("_goes_back", "threads_unread"),
        ("_answered_by_another_graph", "threads_unread"),
    ],
)
def test_what_no_view_shows_is_not_known(said: dict[str, Said], name: str, code: str) -> None:
    undeclared = {"target_not_deployed"} if name == "saves" else set()  # an entrypoint declares no such field
    assert said[name] == ("unknown", {code} | undeclared)


def test_a_state_that_a_deleted_run_took_back_is_seen_by_the_next_sweep(said: dict[str, Said]) -> None:
    assert said["migrates"] == ("drained", frozenset())
    assert said["unmigrated"] == ("blocked", {"holds_old_field", "regressed"})
