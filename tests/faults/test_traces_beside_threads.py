"""Threads that only their traces show at a target: a server that tells nothing of routes, and the stand-in for LangSmith."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import app.jobs.traces
from app.demo.langsmith import standin
from app.demo.langsmith.runs import Runs
from app.demo.langsmith.standin import make_standin, serve_standin
from app.drains import beside
from tests.faults.conftest import NAME, Open
from tests.faults.fake_server import CANARY, Clock, FakeAgentServer, Thread, status

NODE = "await_approval"


@pytest.fixture
def runs(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Runs:
    for module in (app.jobs.traces, standin):
        monkeypatch.setattr(module, "utc_now", clock)
    return Runs(keep_raw=True)


@pytest.fixture
def langsmith(runs: Runs) -> Iterator[dict[str, Any]]:
    with serve_standin(make_standin(runs)) as url:
        yield {"project": "demo", "endpoint": url, "web_url": url}


def _run(runs: Runs, clock: Clock, thread: Thread | None, node: str) -> None:
    began = clock.now - timedelta(seconds=1)
    metadata = {"langgraph_node": node, "secret": CANARY} | ({"thread_id": thread.id} if thread else {})
    runs.take(
        {
            "id": str(uuid.uuid4()),
            "trace_id": str(uuid.uuid4()),
            "name": node,
            "session_name": "demo",
            "start_time": began.isoformat(),
            "end_time": clock.now.isoformat(),
            "inputs": {"customer": CANARY},
            "extra": {"metadata": metadata},
        }
    )


async def test_a_new_thread_that_passed_through_between_two_polls_makes_the_drain_leaking(
    board: Open, server: FakeAgentServer, clock: Clock, runs: Runs, langsmith: dict[str, Any]
) -> None:
    """No poll saw it there, and the server does not show its storage."""
    server.fail("/storage", status(404))
    before = server.settled(2)
    _run(runs, clock, before[0], "finish")
    async with board(langsmith=langsmith) as it:
        await it.poll(full=True)
        assert "leaking" not in await it.codes()

        clock.tick(seconds=60)
        [new] = server.settled(1, created_at=clock.now, updated_at=clock.now)
        _run(runs, clock, new, NODE)
        _run(runs, clock, new, "finish")
        await it.poll(full=True)
        answer = await it.gate()
        leak = {reason["code"]: reason for reason in answer["reasons"]}
        entries = (await it.get(f"/api/v1/deployments/{NAME}/nodes/entries?node={NODE}"))["items"]

    assert answer["verdict"] == "blocked"
    assert leak["leaking"]["count"] == 1
    assert leak["node_still_entered"]["count"] == 1
    assert [entry["thread_id"] for entry in entries] == [new.id]
    assert entries[0]["trace"].startswith(langsmith["endpoint"])


async def test_an_old_thread_that_passed_through_blocks_and_is_no_leak(
    board: Open, server: FakeAgentServer, clock: Clock, runs: Runs, langsmith: dict[str, Any]
) -> None:
    [old] = server.settled(1)
    async with board(langsmith=langsmith) as it:
        await it.poll(full=True)
        clock.tick(seconds=60)
        _run(runs, clock, old, NODE)
        _run(runs, clock, old, "finish")
        await it.poll(full=True)
        codes = await it.codes()

    assert "node_still_entered" in codes
    assert "leaking" not in codes


async def test_a_process_without_the_traces_in_its_settings_does_not_do_without_them_at_once(
    board: Open, server: FakeAgentServer, clock: Clock, runs: Runs, langsmith: dict[str, Any]
) -> None:
    """Several processes work on one database, and the settings of one may be older."""
    [old] = server.settled(1)
    _run(runs, clock, old, NODE)
    async with board(langsmith=langsmith) as it:
        await it.poll(full=True)
        assert "node_still_entered" in await it.codes()
    async with board() as it:
        await it.poll(full=True)
        assert (await it.verdict(), await it.codes()) == ("unknown", {"not_evaluated"})
        clock.tick(hours=25)
        await it.poll(full=True)
        assert await it.verdict() == "drained"


async def test_a_run_after_the_last_look_at_the_threads_is_not_judged_before_the_next_look(
    board: Open, server: FakeAgentServer, clock: Clock, runs: Runs, langsmith: dict[str, Any]
) -> None:
    """It may belong to a thread that waits there by now."""
    [old] = server.settled(1)
    _run(runs, clock, old, "finish")
    runs.age(old.id, by=timedelta(hours=2))
    _run(runs, clock, old, "finish")
    async with board(langsmith=langsmith) as it:
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.fail("POST /threads/search", status(500))
        clock.tick(seconds=60)
        _run(runs, clock, old, NODE)
        await it.poll()
        answer = await it.gate()
        [waits] = [reason for reason in answer["reasons"] if reason["source"] == "traces"]
        server.faults.clear()
        await it.poll(full=True)
        codes = await it.codes()

    assert (answer["verdict"], waits["code"], waits["count"]) == ("unknown", "traces_incomplete", 1)
    assert "since the threads were last looked at" in waits["sentence"]
    assert "node_still_entered" in codes


async def test_node_activity_is_told_by_day_and_names_what_nobody_has_entered(
    board: Open, server: FakeAgentServer, clock: Clock, runs: Runs, langsmith: dict[str, Any]
) -> None:
    [thread] = server.settled(1)
    _run(runs, clock, thread, "finish")
    for run in runs.all():
        run.start_time -= timedelta(days=40)
    policy = {"trace_window": "960h"}
    async with board(langsmith=langsmith, policy=policy) as it:
        _run(runs, clock, thread, NODE)
        _run(runs, clock, None, NODE)
        await it.poll(full=True)
        report = await it.get(f"/api/v1/deployments/{NAME}/nodes")
        nodes = {item["node"]: item for item in report["items"]}
        page = (await it.http.get(f"/deployments/{NAME}")).text
        schema = it.app.openapi()["paths"]["/api/v1/deployments/{deployment}/nodes"]["get"]["responses"]["200"]

    assert (report["deployment"], report["source"]["status"]) == (NAME, "complete")
    found = nodes[NODE]
    assert (found["entered"], found["left"], found["errored"], found["joined"]) == (2, 2, 0, 1)
    assert len(found["days"]) == 30
    assert found["days"][-1]["entered"] == 2
    assert found["last_entered"].startswith("2026-11-30T11:59:59")
    assert "finish" in report["quiet"]
    assert NODE not in report["quiet"]
    assert "candidates for removal" in page
    assert schema["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/NodeReport"}


async def test_a_project_that_is_younger_than_the_threads_tells_too_little_until_the_window_is_past(
    board: Open, server: FakeAgentServer, clock: Clock, runs: Runs, langsmith: dict[str, Any]
) -> None:
    """Tracing was switched on today; who entered yesterday left no trace."""
    created = clock.now - timedelta(days=2)
    [old] = server.settled(1, created_at=created)
    _run(runs, clock, old, "finish")
    async with board(langsmith=langsmith) as it:
        await it.poll(full=True)
        [short] = [reason for reason in (await it.gate())["reasons"] if reason["source"] == "traces"]
        clock.tick(hours=73)
        _run(runs, clock, old, "finish")
        await it.poll(full=True)
        later = await it.verdict()

    assert short["code"] == "traces_window_short"
    assert short["sentence"] == "The tracing project began 31 s ago; the drain asks for the last 3 d."
    assert later == "drained"


async def test_more_entries_than_are_looked_at_are_not_known_until_the_window_has_fewer(
    *, board: Open, server: FakeAgentServer, clock: Clock, runs: Runs, langsmith: dict[str, Any], monkeypatch: Any
) -> None:
    monkeypatch.setattr(beside, "MAX_ENTRIES", 2)
    [old] = server.settled(1)
    for node in (NODE, NODE, NODE, "finish"):
        _run(runs, clock, old, node)
    async with board(langsmith=langsmith) as it:
        await it.poll(full=True)
        found = {reason["code"]: reason["sentence"] for reason in (await it.gate())["reasons"]}
        clock.tick(hours=73)
        _run(runs, clock, old, "finish")
        await it.poll(full=True)
        later = await it.verdict()

    assert "node_still_entered" in found
    assert "`await_approval` left 2 runs or more in the last 3 d, and no older ones are" in found["traces_incomplete"]
    assert "ask for a shorter `trace_window`" in found["traces_incomplete"]
    assert later == "drained"
