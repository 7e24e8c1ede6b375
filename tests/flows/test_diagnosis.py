"""Each diagnosis of the evidence report, on a thread to which it really happened; and what a close look adds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from app.drains.evidence_markdown import to_markdown
from app.drains.jsonable import to_jsonable
from app.inventory.views import Evidence
from app.jobs.dashboard import Dashboard
from app.jobs.runtime import Runtime, open_runtime
from app.settings import load_settings
from tests.agent.fixtures import FreshServer
from tests.agent.situations import A_DAY, CANARY, Bench, revision
from tests.flows.product import DEPLOYMENT, one_deployment, to_toml

KEYS = {
    "schema", "found", "deployment", "environment", "thread_id", "graph_id", "head_graph_id", "assistant_id", "status",
    "condition", "stuck", "checkpoint", "history", "pending", "unapplied", "fields", "undeclared_fields", "conflicts",
    "state_version", "departures", "last_run", "deploys", "traces", "index", "drains", "diagnosis", "provenance",
}  # fmt: skip
PROVENANCE = {
    "source", "read_at", "graph_revision", "revision_assumed", "schema_revision", "saver", "server_version",
    "drainboard_version", "ttl_expires_at",
}  # fmt: skip
DRAIN = {
    "name": "rename-customer",
    "deployment": DEPLOYMENT,
    "graph": "support",
    "rename_fields": [{"old": "customer_name", "new": "display_name"}],
}

Make = Callable[[Bench], Awaitable[str]]
BEFORE: dict[str, Make] = {}
"""Threads by the diagnosis (and a word to tell two apart) that they must get."""
AFTER: dict[str, Make] = {}
"""The same, once ``after`` is deployed: what is made here is made before that."""


def becomes(code: str, makes: dict[str, Make]) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        makes[code] = make
        return make

    return register


def ran(graph: str, **state: Any) -> Make:
    async def make(bench: Bench) -> str:
        return await bench.ran(graph, state)

    return make


BEFORE["parked"] = ran("support", case="ask")
BEFORE["settled"] = ran("support", case="finish", display_name=CANARY)
BEFORE["failed"] = ran("support", case="fail")
BEFORE["unmigrated"] = ran("support", case="finish", customer_name=CANARY)
BEFORE["conflict"] = ran("support", case="finish", customer_name=CANARY, display_name="another")
BEFORE["bad_version"] = ran("support", case="finish", display_name=CANARY, state_version="2")
AFTER["stranded"] = ran("support", case="ask")
AFTER["parked_at_undeployed"] = ran("dropped", case="ask")
AFTER["graph_missing"] = ran("dropped", case="finish")
AFTER["unreadable"] = ran("strict", amount="seven")


@becomes("never_ran", BEFORE)
async def _created(bench: Bench) -> str:
    return await bench.thread()


@becomes("running", BEFORE)
async def _holds(bench: Bench) -> str:
    return (await bench.held("support", {"case": "hold"}))[0]


@becomes("scheduled", BEFORE)
async def _delayed(bench: Bench) -> str:
    thread = await bench.ran("support", {"case": "finish"})
    await bench.start(thread, "support", input={"case": "finish"}, after_seconds=A_DAY)
    return thread


@becomes("no_progress", BEFORE)
async def _ghost(bench: Bench) -> str:
    """A delayed run that was rolled back leaves its thread busy for ever."""
    thread = await bench.ran("support", {"case": "finish"})
    run = await bench.start(thread, "support", input={"case": "finish"}, after_seconds=A_DAY)
    await bench.client.runs.cancel(thread, run, wait=False, action="rollback")
    while await bench.client.runs.list(thread, status="pending"):
        await asyncio.sleep(0.02)
    return thread


@becomes("half_step", BEFORE)
async def _run_deleted(bench: Bench) -> str:
    thread = await bench.ran("support", {"case": "ask", "display_name": CANARY})
    await bench.answer(thread, "support")
    newest = (await bench.client.runs.list(thread, limit=1))[0]
    await bench.client.runs.delete(thread, newest["run_id"])
    return thread


@becomes("unplaced", BEFORE)
async def _refused(bench: Bench) -> str:
    thread = await bench.ran("support", {"case": "finish", "display_name": CANARY})
    await bench.run(thread, "support", input=None, config={"recursion_limit": 0})
    return thread


@becomes("all_fields_missing", BEFORE)
async def _empty(bench: Bench) -> str:
    updates = [{"values": {}, "as_node": "intake"}]
    return await bench.thread(graph_id="support", supersteps=[{"updates": updates}])


@becomes("gone", BEFORE)
async def _to_be_deleted(bench: Bench) -> str:
    return await bench.ran("support", {"case": "ask"})


@becomes("lost", AFTER)
async def _to_be_answered(bench: Bench) -> str:
    return await bench.ran("support", {"case": "ask"})


@dataclass(frozen=True)
class Reports:
    """What was said of each thread: as stored and live, before the deploy or after."""

    stored: dict[str, Evidence]
    live: dict[str, Evidence]
    threads: dict[str, str]
    deploy: int


@pytest.fixture(scope="module")
def reports(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    server = module_agent_server(revision("before"))
    (server.folder / "gates").mkdir()
    folder = tmp_path_factory.mktemp("diagnosis")

    async def play() -> Reports:
        config = folder / "drainboard.toml"
        config.write_text(to_toml(one_deployment(server.url, DRAIN)))
        async with get_client(url=server.url) as client, open_runtime(load_settings(config), schedule=False) as runtime:
            bench = Bench(client, server.folder)
            threads = {code: await make(bench) for code, make in (BEFORE | AFTER).items()}
            await _poll(runtime)
            await client.threads.delete(threads["gone"])
            await _poll(runtime)
            stored = {code: await _evidence(runtime, threads[code]) for code in BEFORE}
            live = {code: await _evidence(runtime, threads[code], live=True) for code in BEFORE}
            bench.open(threads["running"])
            await asyncio.to_thread(server.deploy, revision("before", "after"))
            await _poll(runtime)
            await bench.answer(threads["lost"], "support")
            await _poll(runtime)
            await _poll(runtime)
            stored |= {code: await _evidence(runtime, threads[code]) for code in AFTER}
            live |= {code: await _evidence(runtime, threads[code], live=True) for code in AFTER}
            deploys = await Dashboard(runtime).deploys(DEPLOYMENT, None, 10)
            return Reports(stored, live, threads, deploys.items[0].id)

    return asyncio.run(asyncio.wait_for(play(), 120))


async def _poll(runtime: Runtime) -> None:
    summary = await runtime.poll(DEPLOYMENT, full=True)
    assert summary.state == "complete", summary.reasons


async def _evidence(runtime: Runtime, thread: str, *, live: bool = False) -> Evidence:
    return await Dashboard(runtime).evidence(DEPLOYMENT, thread, live)


# Idle threads are read for drains that nothing blocks, and active runs are asked for where a thread was busy for long.
ONLY_LIVE = ("settled", "half_step", "graph_missing", "no_progress", "scheduled", "running")
STORED_CODES = [code for code in (*BEFORE, *AFTER) if code not in ONLY_LIVE]


@pytest.mark.parametrize("code", STORED_CODES)
def test_what_is_stored_is_enough_for_the_diagnosis(reports: Reports, code: str) -> None:
    assert reports.stored[code].diagnosis.code == code


@pytest.mark.parametrize("code", [*BEFORE, *AFTER])
def test_a_close_look_finds_the_same_and_more(reports: Reports, code: str) -> None:
    assert reports.live[code].diagnosis.code == code


@pytest.mark.parametrize("code", [*BEFORE, *AFTER])
def test_every_key_is_there_and_no_value_is(reports: Reports, code: str) -> None:
    for report in (reports.stored[code], reports.live[code]):
        raw = to_jsonable(report)
        assert raw.keys() >= KEYS
        assert raw["provenance"].keys() == PROVENANCE
        assert report.found
        assert CANARY not in json.dumps(raw)
        markdown = to_markdown(report, report.provenance.read_at or report.updated_at)  # type: ignore[arg-type]
        assert report.diagnosis.sentence in markdown
        assert CANARY not in markdown


@pytest.mark.parametrize("code", [*BEFORE, *AFTER])
def test_every_diagnosis_says_what_to_do_and_has_a_command_to_copy(reports: Reports, code: str) -> None:
    steps = reports.stored[code].diagnosis.next_steps
    assert steps
    commands = [step.command for step in steps if step.command]
    assert commands
    assert all(command.startswith("drainboard ") and "{" not in command for command in commands)


def test_a_close_look_tells_the_last_run_the_depth_and_the_lineage(reports: Reports) -> None:
    found = reports.live["parked"]
    assert found.last_run is not None
    assert found.last_run["status"] == "success"
    assert found.history == {"depth": len(found.lineage or ()), "truncated": False}
    assert found.lineage is not None
    assert found.checkpoint is not None
    assert found.lineage[0].id == found.checkpoint.id
    assert [one.source for one in found.lineage] == ["loop", "loop", "input"]
    assert found.lineage[0].parent_id == found.lineage[1].id
    assert found.fields is not None
    assert found.fields["note"].history_versions == 1


def test_the_deploy_since_the_head_is_named(reports: Reports) -> None:
    found = reports.stored["stranded"].deploys or ()
    assert [(each["graph"], each["kind"], each["id"]) for each in found] == [
        ("support", "changed", str(reports.deploy))
    ]
    vanished = reports.stored["parked_at_undeployed"].deploys or ()
    assert [(each["graph"], each["kind"]) for each in vanished] == [("dropped", "vanished")]


def test_a_thread_that_nobody_has_seen_is_not_found(situations_server: Any, tmp_path: Path) -> None:
    async def play() -> Evidence:
        config = tmp_path / "drainboard.toml"
        config.write_text(to_toml(one_deployment(situations_server.url)))
        async with open_runtime(load_settings(config), schedule=False) as runtime:
            return await _evidence(runtime, "00000000-0000-4000-8000-000000000000", live=True)

    found = asyncio.run(play())
    assert (found.found, found.diagnosis.code) == (False, "not_found")
    assert to_jsonable(found).keys() >= KEYS


@pytest.mark.parametrize(
    ("cause", "make"),
    [
        ("dynamic", "asked"),
        ("static", "breakpoint"),
        ("static", "breakpoint behind"),
        ("update", "updated"),
        ("cancelled", "cancelled"),
        ("dynamic", "copied"),
    ],
)
def test_why_a_leaf_waits(causes: dict[str, Evidence], cause: str, make: str) -> None:
    pending = causes[make].pending
    assert pending
    assert {each.cause for each in pending} == {cause}
    asks = causes[make].diagnosis.next_steps[0].text.startswith("Answer it")
    assert asks is (cause == "dynamic")  # an answer to a thread that asked nothing is an input of its own


@pytest.fixture(scope="module")
def causes(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    server = module_agent_server(revision("before"))
    (server.folder / "gates").mkdir()
    folder = tmp_path_factory.mktemp("causes")

    async def play() -> dict[str, Evidence]:
        config = folder / "drainboard.toml"
        config.write_text(to_toml(one_deployment(server.url, stuck_after="1s")))
        async with get_client(url=server.url) as client, open_runtime(load_settings(config), schedule=False) as runtime:
            bench = Bench(client, server.folder)
            held, run = await bench.held("support", {"case": "hold"})
            await client.runs.cancel(held, run, wait=True)
            asked = await bench.ran("support", {"case": "ask"})
            copied: Any = await client.http.post(f"/threads/{asked}/copy", json=None)
            updated = await bench.ran("support", {"case": "finish"})
            await client.threads.update_state(updated, {"case": "ask"}, as_node="intake")
            threads = {
                "asked": asked,
                "cancelled": held,
                "updated": updated,
                "copied": copied["thread_id"],
                "breakpoint": await bench.ran("support", {"case": "ask"}, interrupt_before=["await_approval"]),
                "breakpoint behind": await bench.ran("support", {"case": "ask"}, interrupt_after=["intake"]),
                "stuck": (await bench.held("support", {"case": "hold"}))[0],
            }
            await _poll(runtime)
            while (found := await _evidence(runtime, threads["stuck"])).stuck is not True:
                await _poll(runtime)
            bench.open(threads["stuck"])
            return {name: await _evidence(runtime, thread, live=True) for name, thread in threads.items()} | {
                "stuck": found
            }

    return asyncio.run(asyncio.wait_for(play(), 60))


def test_a_run_without_a_new_checkpoint_for_too_long_is_stuck(causes: dict[str, Evidence]) -> None:
    """By an ordinary sweep: a thread that has been busy for longer than the limit is worth the question for its runs."""
    found = causes["stuck"]
    assert (found.condition, found.stuck, found.diagnosis.code) == ("running", True, "no_progress")
