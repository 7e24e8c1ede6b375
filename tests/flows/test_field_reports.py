"""What went wrong for others, made on a real server: each test has the name of a public report.

What a real server cannot be made to do is in `tests/faults/test_field_reports.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from app.demo.agent_server import LocalAgentServer
from app.drains.jsonable import to_jsonable
from app.jobs.dashboard import Dashboard
from app.jobs.runtime import Runtime, open_runtime
from app.settings import load_settings
from tests.agent import deploys
from tests.agent.fixtures import FreshServer
from tests.agent.situations import RECIPES, Bench, Situation, make_situations, revision
from tests.flows.populations import Asked, ask, give_populations, graphs_of
from tests.flows.product import DEPLOYMENT, one_deployment, to_toml

TARGETS = {
    "finished": "await_approval",
    "parked_at_second_question": "await_approval",
    "fan_out_partly_answered": "review",
    "cancelled_run": "hold",
    "cancelled_with_nothing_pending": "await_approval",
    "delayed_over_parked": "await_approval",
    "delayed_run_rolled_back": "await_approval",
    "answered_under_another_graph": "await_approval",
    "parked_by_interrupt": "await_approval",
    "stricter_schema": "await_amount",
}


@dataclass(frozen=True)
class Seen:
    """Verdict and evidence of each thread, and those of a thread that was deleted and came back."""

    verdicts: Mapping[str, str]
    evidence: Mapping[str, Mapping[str, Any]]
    deleted: Mapping[str, Any]
    back: Mapping[str, Any]
    strict: Mapping[str, Any]
    strict_verdict: str


@pytest.fixture(scope="module")
def seen(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return asyncio.run(_play(module_agent_server(revision("before")), tmp_path_factory.mktemp("field_reports")))


async def _play(server: LocalAgentServer, folder: Path) -> Seen:
    recipes = [one for one in RECIPES if one.build.__name__ in TARGETS]
    stories = [one.recipe for one in deploys.STORIES if one.name in TARGETS]
    made = {one.name: one for one in await make_situations(server.url, server.folder, [*recipes, *stories])}
    await give_populations(server.url, {name: (one, graphs_of(one)) for name, one in made.items()})
    asked = {name: ask(one, one.more.get("graph_of_the_head", one.graph), TARGETS[name]) for name, one in made.items()}
    config = folder / "drainboard.toml"
    settings = one_deployment(server.url, *(one.settings for one in asked.values()))
    config.write_text(to_toml(settings), encoding="utf-8")
    async with open_runtime(load_settings(config), schedule=False) as runtime:
        await _poll(runtime)
        verdicts = {name: await _verdict(runtime, one) for name, one in asked.items()}
        evidence = {name: await _evidence(runtime, one) for name, one in made.items()}
        deleted, back = await _delete_and_bring_back(runtime, server, made["parked_by_interrupt"])
        await asyncio.to_thread(server.deploy, revision("before", "after"))
        await _poll(runtime)
        await _poll(runtime)
        strict = await _evidence(runtime, made["stricter_schema"])
        strict_verdict = await _verdict(runtime, asked["stricter_schema"])
    return Seen(verdicts, evidence, deleted, back, strict, strict_verdict)


async def _delete_and_bring_back(runtime: Runtime, server: LocalAgentServer, one: Situation) -> tuple[Any, Any]:
    """As a write does that comes too late: the thread is made anew under its id, and asks again."""
    async with get_client(url=server.url) as client:
        await client.threads.delete(one.thread_id)
        await _poll(runtime)
        deleted = await _evidence(runtime, one)
        await client.threads.create(thread_id=one.thread_id)
        await Bench(client, server.folder).run(one.thread_id, "support", input={"case": "ask"})
        await _poll(runtime)
        return deleted, await _evidence(runtime, one)


async def _poll(runtime: Runtime) -> None:
    assert (await runtime.poll(DEPLOYMENT, full=True)).state == "complete"


async def _verdict(runtime: Runtime, one: Asked) -> str:
    answer: Any = to_jsonable(await Dashboard(runtime).drain(one.drain))
    return str(answer["verdict"])


async def _evidence(runtime: Runtime, one: Situation) -> Any:
    return to_jsonable(await Dashboard(runtime).evidence(DEPLOYMENT, one.thread_id, False))


def _pending(evidence: Mapping[str, Any]) -> dict[str, int]:
    return {one["node"]: one["tasks"] for one in evidence["pending"]}


def test_restate_operator_176_scheduled_work_counts(seen: Seen) -> None:
    assert seen.evidence["delayed_over_parked"]["condition"] in ("scheduled", "running")
    assert seen.verdicts["delayed_over_parked"] == "blocked"


def test_restate_4123_finished_work_that_is_kept_is_not_live(seen: Seen) -> None:
    assert seen.evidence["finished"]["condition"] == "settled"
    assert seen.verdicts["finished"] == "drained"


def test_langgraph_6956_next_is_empty_while_paused_after_a_second_interrupt(seen: Seen) -> None:
    assert _pending(seen.evidence["parked_at_second_question"]) == {"await_approval": 1}
    assert seen.verdicts["parked_at_second_question"] == "blocked"


def test_langgraph_5952_interrupts_of_finished_parallel_tasks_are_not_counted(seen: Seen) -> None:
    assert _pending(seen.evidence["fan_out_partly_answered"]) == {"review": 2}


def test_langgraph_6491_and_6640_a_stricter_schema_blocks(seen: Seen) -> None:
    assert (seen.strict["condition"], seen.strict_verdict) == ("unreadable", "blocked")


def test_langgraph_4474_two_graphs_on_one_thread_are_judged_by_the_graph_of_the_head(seen: Seen) -> None:
    assert seen.evidence["answered_under_another_graph"]["condition"] == "unread"
    assert seen.verdicts["answered_under_another_graph"] == "unknown"


def test_langgraph_7206_a_deleted_thread_that_comes_back_counts_again(seen: Seen) -> None:
    assert seen.deleted["condition"] == "gone"
    assert seen.back["condition"] == "parked"
    assert _pending(seen.back) == {"await_approval": 1}


def test_langgraphjs_2751_a_cancelled_run_is_not_a_question(seen: Seen) -> None:
    [cancelled] = seen.evidence["cancelled_run"]["pending"]
    assert cancelled["cause"] in ("cancelled", "unknown")
    assert cancelled["interrupts"] == 0
    assert seen.evidence["cancelled_with_nothing_pending"]["condition"] == "settled"
    assert seen.verdicts["cancelled_with_nothing_pending"] == "drained"


def test_deer_flow_2227_busy_without_an_active_run_is_not_running(seen: Seen) -> None:
    assert seen.evidence["delayed_run_rolled_back"]["status"] == "busy"
    assert seen.verdicts["delayed_run_rolled_back"] == "blocked"
