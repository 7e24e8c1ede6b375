"""What went wrong for others, where a real server cannot be made to do it: each test has the name of a public report.

The others are in `tests/flows/test_field_reports.py`, on a real server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import httpx

from tests.faults.conftest import NAME, Board
from tests.faults.fake_server import CANARY, FakeAgentServer, body, status

Open = Callable[..., AbstractAsyncContextManager[Board]]
SEARCH = "POST /threads/search"


# --- "Drained" that was not ----------------------------------------------------------------------------------------------------------


async def test_temporal_11539_work_that_comes_to_the_old_version_later_is_counted(
    board: Open, server: FakeAgentServer
) -> None:
    thread = server.settled(3)[0]
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "drained"
        server.park(thread)
        await it.poll()
        assert await it.verdict() == "blocked"


async def test_temporal_worker_controller_573_a_status_that_is_not_known_is_not_inactive(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    server.thread(status="unspecified")
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "unknown"


async def test_restate_5169_a_poll_that_saw_a_part_is_not_drained(board: Open, server: FakeAgentServer) -> None:
    server.settled(9)
    server.fail(SEARCH, status(500), skip=1)
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "unknown"


async def test_oban_web_189_a_list_of_nothing_beside_a_count_of_many_is_not_zero(
    board: Open, server: FakeAgentServer
) -> None:
    server.count_lies = 870_000
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "unknown"


async def test_unleash_safe_to_archive_an_empty_population_is_not_drained(board: Open, server: FakeAgentServer) -> None:
    async with board() as it:
        await it.poll()
        assert (await it.gate())["population"]["size"] == 0
        assert await it.verdict() == "unknown"


async def test_sidekiq_4146_rows_that_vanish_while_pages_are_turned_hide_no_other(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(12)
    server.parked()
    vanishing = iter(sorted(server.threads)[:6])

    def vanish(request: httpx.Request) -> None:
        if "/threads/search" in request.url.path and (gone := next(vanishing, None)):
            del server.threads[gone]

    server.after = vanish
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "blocked"


# --- Never drained, or wrong numbers -------------------------------------------------------------------------------------------------


async def test_temporal_worker_controller_552_the_answer_says_which_thread_blocks_and_since_when(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    parked = server.parked()
    async with board() as it:
        await it.poll()
        oldest = (await it.gate())["oldest"]
        assert (oldest["thread_id"], oldest["disposition"]) == (parked.id, "parked_at_target")
        assert oldest["since"] is not None


async def test_camunda_60439_the_last_one_that_leaves_turns_the_verdict(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    parked = server.parked()
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "blocked"
        server.finish(parked)
        await it.poll()
        assert await it.verdict() != "blocked"
        await it.poll(full=True)
        assert await it.verdict() == "drained"


async def test_gh_ost_767_progress_is_two_real_numbers(board: Open, server: FakeAgentServer) -> None:
    server.settled(7)
    server.count_lies = 9
    async with board() as it:
        await it.poll()
        [threads] = [one for one in (await it.gate())["sources"] if one["name"] == "threads"]
        assert (threads["expected"], threads["seen"]) == (9, 7)


async def test_restate_1958_one_json_call_has_verdict_and_exit_code(board: Open, server: FakeAgentServer) -> None:
    server.settled(1)
    async with board() as it:
        await it.poll()
        answer = await it.gate()
        assert (answer["verdict"], answer["exit_code"]) == ("drained", 0)


# --- LangGraph threads ---------------------------------------------------------------------------------------------------------------


async def test_langgraph_6362_an_interrupt_that_only_the_row_has_blocks(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)
    parked = server.parked()
    nothing = {**parked.state({"await_approval"}), "next": [], "tasks": []}
    server.fail(f"GET /threads/{parked.id}/state", body(nothing))
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "blocked"
        assert (await it.inventory())["facets"]["pending"] == {"await_approval": 1}


async def test_langgraph_6626_two_tasks_with_one_interrupt_id_are_two(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)
    both = server.parked()
    both.pending.append(("await_approval", "10000000-0000-0000-0000-00000000ffff"))
    shared = {task: [{"id": "a" * 32, "value": CANARY}] for _, task in both.pending}
    both.interrupts = lambda: shared  # type: ignore[method-assign]
    async with board() as it:
        await it.poll()
        evidence = await it.get(f"/api/v1/deployments/{NAME}/threads/{both.id}")
        assert [(one["node"], one["tasks"]) for one in evidence["pending"]] == [("await_approval", 2)]


async def test_langgraph_6686_a_listed_thread_that_is_deleted_already_is_gone(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    expired = server.parked()
    unknown = httpx.Response(404, json={"detail": f"Thread with ID {expired.id} not found"})
    server.fail(f"GET /threads/{expired.id}(/state)?$", lambda _: unknown)
    async with board() as it:
        await it.poll()
        assert (await it.conditions())["gone"] == 1
        assert (await it.gate())["dispositions"]["gone"] == 1


async def test_deer_flow_1087_a_run_that_makes_no_progress_for_hours_is_stuck(
    board: Open, server: FakeAgentServer
) -> None:
    hours = server.clock.now - timedelta(hours=39)
    run = {"run_id": "r", "status": "running", "created_at": hours.isoformat(), "kwargs": {"durability": "async"}}
    server.settled(2)
    ghost = server.thread(status="busy", pending=[("intake", "t")], created_at=hours, head_at=hours, runs=[run])
    async with board() as it:
        await it.poll()
        await it.poll(full=True)
        evidence = await it.get(f"/api/v1/deployments/{NAME}/threads/{ghost.id}")
        assert (evidence["condition"], evidence["stuck"]) == ("running", True)


async def test_deer_flow_3186_a_thread_that_can_be_read_and_is_not_listed_withholds_the_verdict(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    hidden = server.parked()
    server.listing = lambda rows: [one for one in rows if one.id != hidden.id]
    async with board(canary_threads=[hidden.id]) as it:
        await it.poll()
        assert "canary_missing" in await it.codes()
        assert await it.verdict() == "unknown"


async def test_deer_flow_1044_the_list_is_read_beyond_the_first_50(board: Open, server: FakeAgentServer) -> None:
    first = server.parked(id="00000000-0000-7000-8000-ffffffffffff")
    server.settled(119)
    server.cap = 50
    async with board(page_size=100) as it:
        assert (await it.poll()).threads_seen == 120
        assert (await it.gate())["oldest"]["thread_id"] == first.id


async def test_langsmith_sdk_2036_full_values_that_nobody_asked_for_are_dropped(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    server.parked()
    server.ignores.add("select")
    async with board() as it:
        await it.poll()
        assert CANARY not in await it.everything()


async def test_aegra_578_no_filter_is_left_to_the_server(board: Open, server: FakeAgentServer) -> None:
    asked = _bodies(server)
    server.settled(3)
    server.thread(graph="other", head_graph="other")
    server.deploy("other", "intake")
    async with board() as it:
        await it.poll()
        assert {key for one in asked for key in one} <= {"sort_by", "sort_order", "offset", "limit", "select"}
        assert (await it.gate())["population"]["size"] == 3


async def test_open_swe_2521_no_page_is_larger_than_the_settings_allow(board: Open, server: FakeAgentServer) -> None:
    asked = _bodies(server)
    for minutes in range(20):
        server.thread(updated_at=server.clock.now - timedelta(minutes=minutes))
    async with board(page_size=7) as it:
        await it.poll()
        assert max(one["limit"] for one in asked) == 7


async def test_langgraph_docs_469_what_history_no_longer_has_is_unexplained_and_our_own_is_kept(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    parked = server.parked()
    async with board() as it:
        await it.poll()
        server.finish(parked)  # this server has no history at all
        await it.poll(full=True)
        evidence = await it.get(f"/api/v1/deployments/{NAME}/threads/{parked.id}")
        assert [(one["node"], one["departure"]) for one in evidence["departures"]] == [
            ("await_approval", "unexplained")
        ]


async def test_opensre_561_no_thread_is_asked_for_that_was_not_listed(board: Open, server: FakeAgentServer) -> None:
    listed = server.settled(2)
    other = server.parked()
    server.listing = lambda rows: [one for one in rows if one.id != other.id]
    async with board() as it:
        await it.poll()
        await it.poll(full=True)
        assert server.asked(f"/threads/{other.id}") == 0
        assert (await it.inventory())["total"] == len(listed)


def _bodies(server: FakeAgentServer) -> list[dict[str, Any]]:
    """The bodies of all searches for threads that will be asked."""
    asked: list[dict[str, Any]] = []

    def keep(request: httpx.Request) -> None:
        if request.url.path == "/threads/search":
            asked.append(json.loads(request.content))

    server.after = keep
    return asked
