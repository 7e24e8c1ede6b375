"""Passes of a reporter: what counts, what is left, what is gone, and what must never look drained."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest
from drainboard_reporter import ReporterError
from drainboard_reporter.passes import Options
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from app.clock import utc_now
from tests.reporter.board import DRAIN, NAME, SECRET, Board, Killed, Recording, answer, board, confirm, graph_of, run


@pytest.fixture
async def orders(tmp_path: Path) -> AsyncIterator[Board]:
    async with board(tmp_path) as found:
        yield found


# --- What it says --------------------------------------------------------------------------------------------------------------------


async def test_a_drain_whose_threads_are_done_is_drained(tmp_path: Path) -> None:
    saver = InMemorySaver()
    graph = graph_of(saver)
    await run(graph, "one")
    await run(graph, "two", asks=True)
    await answer(graph, "two")
    async with board(tmp_path) as orders:  # so both began before intake closed
        await orders.report(["one", "two"], graph)
        said = await orders.drain()
    assert (said.verdict, said.reasons) == ("drained", ())


async def test_what_writes_at_its_end_only_is_somebodys_to_rule_out(tmp_path: Path) -> None:
    async with board(tmp_path, attested=False) as orders:
        await run(graph_of(orders.saver), "one")
        await orders.report(["one"])
        assert await orders.codes() == {"attestation_missing"}
        await confirm(orders.client, "drop-wait")
        assert (await orders.drain()).verdict == "drained"


async def test_a_thread_that_waits_blocks(orders: Board) -> None:
    await run(graph_of(orders.saver), "one", asks=True)
    await orders.report(["one"])
    assert "parked_at_target" in await orders.codes()


async def test_a_new_thread_that_entered_and_went_on_leaks(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "old")
    await orders.report(["old"])
    assert (await orders.drain()).verdict == "drained"
    await run(graph, "new", asks=True)
    await answer(graph, "new")
    await orders.report(["old", "new"])
    assert "leaking" in await orders.codes()


async def test_how_a_thread_left_is_told(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "answered", asks=True)
    await run(graph, "dropped", asks=True)
    await orders.report(["answered", "dropped"])
    await answer(graph, "answered")
    await run(graph, "dropped")
    await orders.report(["answered", "dropped"])
    left = {
        one: [found["departure"] for found in (await orders.get(f"deployments/{NAME}/threads/{one}"))["departures"]]
        for one in ("answered", "dropped")
    }
    assert left == {"answered": ["completed"], "dropped": ["abandoned"]}


async def test_a_saver_that_blocks_is_read_too(orders: Board, tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
        graph = graph_of(saver)
        graph.invoke({"asks": True, "note": SECRET}, {"configurable": {"thread_id": "one"}})
        summary = await orders.report(["one"], graph)
    assert summary.complete
    assert await orders.conditions() == {"one": "parked"}


async def test_an_id_is_any_text(orders: Board) -> None:
    ids = ["a/b c?d#e%2F", "ä" * 255, "0190A3C27D117C33A0F02B8F6C1D9E55", " spaced "]
    graph = graph_of(orders.saver)
    for one in ids:
        await run(graph, one, asks=True)
    assert (await orders.report(ids)).complete
    assert await orders.conditions() == dict.fromkeys(ids, "parked")
    for one in ids:
        path = f"/api/v1/deployments/{NAME}/threads/{quote(one, safe='')}"
        for address in (path, f"{path}/evidence"):
            found = await orders.client.get(address)
            assert (found.status_code, found.json()["thread_id"]) == (200, one)
    waived = {"thread_ids": ids[2:3], "owner": "me", "reason": "mine"}
    assert (await orders.client.post("/api/v1/drains/drop-wait/waivers", json=waived)).status_code == 201


async def test_an_id_that_is_too_long_is_a_problem_and_the_pass_does_not_count(orders: Board) -> None:
    await run(graph_of(orders.saver), "one")
    summary = await orders.report(["one", "x" * 256])
    assert (summary.reported, len(summary.problems), summary.complete) == (1, 1, False)
    assert (await orders.drain()).verdict == "unknown"


# --- What is not there ---------------------------------------------------------------------------------------------------------------


async def test_another_store_never_looks_drained(orders: Board) -> None:
    """Every listed id without a checkpoint: it may be another store, or another form of the ids."""
    await run(graph_of(orders.saver), "one", asks=True)
    elsewhere = graph_of(InMemorySaver())
    await run(elsewhere, "another")
    summary = await orders.report(["one", "another"], elsewhere)
    assert (summary.nothing, summary.complete) == (1, True)
    assert await orders.conditions() == {"one": "unread", "another": "settled"}
    said = await orders.get(f"deployments/{NAME}/threads/one")
    assert (said["found"], said["diagnosis"]["code"]) == (False, "not_found") or said["diagnosis"][
        "code"
    ] == "not_found"
    assert "threads_unread" in await orders.codes()


async def test_what_was_never_told_of_counts_whatever_the_population_selects(tmp_path: Path) -> None:
    narrow = DRAIN | {"population": {"metadata": {"region": "eu"}, "created_before": utc_now()}}
    async with board(tmp_path, narrow, metadata_keys=["region"]) as orders:
        await orders.push({"thread_id": "one"}, {"thread_id": "two"})
        await orders.report(None)
        assert await orders.conditions() == {"one": "unread", "two": "unread"}
        assert (await orders.drain()).dispositions["unread"] == 2


async def test_a_thread_that_was_deleted_is_gone(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "one", asks=True)
    await run(graph, "two")
    await orders.report(["one", "two"])
    await orders.saver.adelete_thread("one")
    await orders.report(["one", "two"])
    assert await orders.conditions() == {"one": "gone", "two": "settled"} or (await orders.conditions()) == {
        "two": "settled"
    }
    await run(graph, "one", asks=True)
    await orders.report(["one", "two"])
    assert (await orders.conditions())["one"] == "parked"


async def test_many_that_vanish_at_once_withhold_the_verdict(orders: Board) -> None:
    graph = graph_of(orders.saver)
    ids = [f"thread-{number}" for number in range(12)]
    for one in ids[:10]:
        await run(graph, one, asks=True)
    for one in ids[10:]:
        await run(graph, one)
    await orders.report(ids)
    elsewhere = graph_of(InMemorySaver())
    for one in ids[10:]:
        await run(elsewhere, one)
    await orders.report(ids, elsewhere)
    assert "mass_disappearance" in await orders.codes()


async def test_a_thread_that_the_file_no_longer_lists_is_read_all_the_same(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "one", asks=True)
    await run(graph, "two")
    await orders.report(["one", "two"])
    summary = await orders.report(["two"])
    assert (summary.reported, summary.complete) == (2, True)
    assert "parked_at_target" in await orders.codes()


async def test_what_is_not_there_and_no_longer_listed_is_forgotten(orders: Board) -> None:
    await run(graph_of(orders.saver), "one")
    await orders.report(["one", "typo"])
    assert (await orders.conditions())["typo"] == "unread"
    await orders.report(["one"])
    assert await orders.conditions() == {"one": "settled"}
    assert (await orders.drain()).verdict == "drained"


# --- The index -----------------------------------------------------------------------------------------------------------------------


async def test_the_ids_of_the_index_are_read_as_they_are_written(orders: Board) -> None:
    written = uuid.uuid4().hex
    await run(graph_of(orders.saver), written, asks=True)
    assert (await orders.push({"thread_id": written})).status_code == 200
    summary = await orders.report(None)
    assert (summary.reported, summary.nothing) == (1, 0)
    assert await orders.conditions() == {written: "parked"}


async def test_postgresql_keeps_passes_too(tmp_path: Path, checkpoints_postgres: str) -> None:
    with psycopg.connect(checkpoints_postgres, autocommit=True) as connection:
        connection.execute("create database board")
    url = checkpoints_postgres.replace("postgresql://", "postgresql+psycopg://").replace("/postgres?", "/board?")
    async with board(tmp_path, database_url=url) as orders:
        graph = graph_of(orders.saver)
        for one in ("one", "two"):
            await run(graph, one, asks=True)
        await orders.push({"thread_id": "one"}, {"thread_id": "two", "graph_id": "order"}, {"thread_id": "three"})
        await orders.runtime.reporting.add_listed(orders.runtime.deployment(NAME))
        assert await orders.conditions() == {"one": "unread", "two": "unread", "three": "unread"}
        await answer(graph, "two")
        assert (await orders.report(None)).complete
        assert await orders.conditions() == {"one": "parked", "two": "settled", "three": "unread"}
        await orders.push({"thread_id": "one"}, snapshot="next")
        await orders.report(None)
        assert await orders.conditions() == {"one": "parked", "two": "settled"}


async def test_an_id_of_the_index_that_was_never_reported_is_unread(orders: Board) -> None:
    await run(graph_of(orders.saver), "one")
    await orders.push({"thread_id": "one"}, {"thread_id": "two"})
    await orders.runtime.reporting.add_listed(orders.runtime.deployment(NAME))
    assert await orders.conditions() == {"one": "unread", "two": "unread"}
    await orders.report(None)
    assert await orders.conditions() == {"one": "settled", "two": "unread"}
    await orders.push({"thread_id": "one"}, {"thread_id": "two", "closed_at": "2026-01-01T00:00:00Z"}, snapshot="next")
    await orders.report(None)
    assert await orders.conditions() == {"one": "settled"}


async def test_an_id_that_expired_long_ago_is_settled(orders: Board) -> None:
    await run(graph_of(orders.saver), "one")
    await orders.push({"thread_id": "one"}, {"thread_id": "old", "created_at": "2020-01-01T00:00:00Z"})
    summary = await orders.report(None)
    assert summary.complete
    assert await orders.conditions() == {"one": "settled"}
    assert (await orders.get(f"deployments/{NAME}/index"))["by_word"]["expired"] == 1
    assert (await orders.report(None)).complete


async def test_a_thread_that_the_index_lists_while_a_pass_runs_is_read_in_it(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "one")
    await run(graph, "two", asks=True)
    await orders.push({"thread_id": "one"})

    class Meanwhile(Recording):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if len(self.bodies) == 2:
                await orders.push({"thread_id": "one"}, {"thread_id": "two"}, snapshot="next")
            return await super().handle_async_request(request)

    assert (await orders.report(None, transport=Meanwhile(orders.app))).reported == 2
    assert "parked_at_target" in await orders.codes()


# --- Stopping and going on -----------------------------------------------------------------------------------------------------------


async def test_a_pass_that_was_killed_does_not_count_and_is_gone_on_with(orders: Board, monkeypatch: Any) -> None:
    monkeypatch.setattr("drainboard_reporter.passes.BATCH", 3)
    graph = graph_of(orders.saver)
    ids = [f"thread-{number}" for number in range(10)]
    for one in ids:
        await run(graph, one, asks=one == "thread-9")
    with pytest.raises(Killed):
        await orders.report(ids, transport=Recording(orders.app, lambda number: number > 6))
    assert "never_swept" in await orders.codes()
    assert len(await orders.conditions()) == 6
    again = Recording(orders.app)
    summary = await orders.report(ids, transport=again)
    assert (summary.earlier, summary.reported, summary.complete) == (6, 4, True)
    assert sum(b'"found": "state"' in body or b'"found":"state"' in body for body in again.bodies) == 2
    [only] = (await orders.get(f"deployments/{NAME}"))["polls"]
    assert (only["kind"], only["state"], only["threads_seen"]) == ("sweep", "complete", 10)


async def test_the_same_batch_twice_is_the_same_as_once(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "one", asks=True)
    await orders.report(["one"])
    await answer(graph, "one")
    kept = Recording(orders.app)
    await orders.report(["one"], transport=kept)
    first = await orders.get(f"deployments/{NAME}/threads/one")
    for body in kept.bodies:
        await orders.client.post(f"/api/v1/deployments/{NAME}/facts", content=body)
    again = await orders.get(f"deployments/{NAME}/threads/one")
    assert [found["departure"] for found in again["departures"]] == ["completed"]
    assert again["condition"] == first["condition"] == "settled"


async def test_a_reporter_with_other_code_ends_the_pass_of_the_one_before(orders: Board, monkeypatch: Any) -> None:
    monkeypatch.setattr("drainboard_reporter.passes.BATCH", 1)
    graph = graph_of(orders.saver)
    for one in ("one", "two", "three"):
        await run(graph, one, asks=True)

    class Meanwhile(Recording):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if len(self.bodies) == 4:
                await orders.report(["one"], graph_of(orders.saver, waits_at=None))
            return await super().handle_async_request(request)

    with pytest.raises(ReporterError, match="other code") as refused:
        await orders.report(["one", "two", "three"], transport=Meanwhile(orders.app))
    assert refused.value.code == "pass_ended"
    assert (await orders.drain()).verdict != "drained"


async def test_a_reporter_that_stopped_makes_the_verdict_unknown_by_itself(orders: Board) -> None:
    await run(graph_of(orders.saver), "one")
    await orders.report(["one"])
    assert (await orders.drain()).verdict == "drained"
    later = await orders.runtime.drains.answer("drop-wait", now=utc_now() + timedelta(hours=1))
    assert later.verdict == "unknown"
    assert {reason.code for reason in later.reasons} == {"scan_stale"}
    [threads] = [source for source in later.sources if source.name == "threads"]
    assert threads.status == "stale"
    assert "reporter" in str(threads.sentence)


# --- A change of the code ------------------------------------------------------------------------------------------------------------


async def test_a_thread_first_seen_by_code_without_its_node_is_named_by_its_interrupt(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "one")
    await orders.report(["one"])
    assert (await orders.drain()).verdict == "drained"
    await run(graph, "two", asks=True)
    await orders.report(["one", "two"], graph_of(orders.saver, waits_at=None))
    found = await orders.get(f"deployments/{NAME}/threads/two")
    assert (found["condition"], [one["node"] for one in found["pending"]]) == ("stranded", ["wait"])
    assert found["pending"][0]["source"] == "interrupt_id"
    assert (await orders.drain()).verdict == "blocked"


async def test_code_without_the_node_alone_never_makes_it_drained(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await graph.ainvoke({"asks": True}, {"configurable": {"thread_id": "one"}}, interrupt_before=["wait"])
    await orders.report(["one"], graph_of(orders.saver, waits_at=None))
    assert await orders.conditions() == {"one": "unplaced"}
    assert {"target_not_deployed", "threads_unplaced"} <= await orders.codes()


async def test_a_reporter_that_is_ahead_of_the_application_does_not_hide_what_comes_after_it(orders: Board) -> None:
    """Its code lacks the node already, while the application still sends threads there."""
    graph, ahead = graph_of(orders.saver), graph_of(orders.saver, waits_at=None)
    await run(graph, "one")
    await orders.report(["one"])
    await orders.report(["one"])
    await orders.report(["one"], ahead)
    assert (await orders.drain()).verdict == "drained"
    config = {"configurable": {"thread_id": "one"}}
    await graph.ainvoke({"asks": True}, config, interrupt_before=["wait"])
    await orders.report(["one"], ahead)
    assert "threads_unplaced" in await orders.codes(), [(r.code, r.sentence) for r in (await orders.drain()).reasons]
    await graph.ainvoke({"asks": True}, config)
    await orders.report(["one"], ahead)
    assert (await orders.drain()).verdict == "blocked"
    await ahead.ainvoke({"asks": True}, config)  # a new input, under code that goes on without the node
    await orders.report(["one"], ahead)
    assert await orders.conditions() == {"one": "settled"}


async def test_a_removal_after_a_drained_pass_stays_drained(orders: Board) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "one")
    await orders.report(["one"])
    await orders.report(["one"])
    assert (await orders.drain()).verdict == "drained"
    await orders.report(["one"], graph_of(orders.saver, waits_at=None))
    assert (await orders.drain()).verdict == "drained"


async def test_a_graph_of_another_name_needs_another_deployment(orders: Board) -> None:
    await run(graph_of(orders.saver), "one")
    await orders.report(["one"])
    with pytest.raises(ReporterError, match="deployment of its own"):
        await orders.report(["one"], graph_id="invoice")


# --- What cannot be read -------------------------------------------------------------------------------------------------------------


class _Broken:
    """A graph that cannot read one of its threads."""

    def __init__(self, graph: Any, error: Exception, *ids: str) -> None:
        self._graph, self._error, self._ids = graph, error, ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def aget_state(self, config: Any, **options: Any) -> Any:
        if not self._ids or config["configurable"]["thread_id"] in self._ids:
            raise self._error
        return await self._graph.aget_state(config, **options)


async def test_a_thread_that_cannot_be_read_does_not_stop_the_rest(orders: Board) -> None:
    graph = graph_of(orders.saver)
    for one in ("bad", "good"):
        await run(graph, one)
    broken = _Broken(graph, ValueError(SECRET), "bad")
    kept = Recording(orders.app)
    for condition in ("unread", "unreadable"):
        summary = await orders.report(["bad", "good"], broken, transport=kept)
        assert (summary.complete, summary.unreadable) == (True, 1)
        assert await orders.conditions() == {"bad": condition, "good": "settled"}
    assert "unreadable" in await orders.codes()
    assert (await orders.drain()).oldest is None
    for page in ("/drains/drop-wait", f"/deployments/{NAME}/threads", f"/deployments/{NAME}/threads/bad"):
        assert "1970" not in (await orders.client.get(page)).text, page
    assert not [body for body in kept.bodies if SECRET.encode() in body]


class _Moving:
    """A graph whose thread goes on, each time after its state was read."""

    def __init__(self, graph: Any, times: int) -> None:
        self._graph, self._times = graph, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def aget_state(self, config: Any, **options: Any) -> Any:
        found = await self._graph.aget_state(config, **options)
        if self._times:
            self._times -= 1
            await run(self._graph, config["configurable"]["thread_id"])
        return found


@pytest.mark.parametrize(("times", "condition"), [(1, "settled"), (2, "settled"), (9, "unread")])
async def test_a_thread_that_moves_while_it_is_read_is_read_again(orders: Board, times: int, condition: str) -> None:
    graph = graph_of(orders.saver)
    await run(graph, "one")
    for _ in range(2):  # and is never called unreadable
        await orders.report(["one"], _Moving(graph, times))
        assert await orders.conditions() == {"one": condition}


async def test_a_store_that_is_down_is_no_thread_that_is_bad(orders: Board) -> None:
    graph = graph_of(orders.saver)
    ids = [f"thread-{number}" for number in range(30)]
    for one in ids:
        await run(graph, one)
    with pytest.raises(ReporterError, match="Is its database there"):
        await orders.report(ids, _Broken(graph, ConnectionError(SECRET)))
    assert "never_swept" in await orders.codes()


async def test_a_rate_is_kept(orders: Board) -> None:
    graph = graph_of(orders.saver)
    ids = [f"thread-{number}" for number in range(12)]
    for one in ids:
        await run(graph, one)
    began = utc_now()
    await orders.report(ids, options=Options(rate=20))
    assert utc_now() - began >= timedelta(seconds=0.5)
