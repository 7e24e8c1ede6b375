"""Races, deploys and vanishing threads: what happens between two requests of a poll, and between two polls."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from app.errors import DrainboardError
from tests.faults.conftest import DRAIN, NAME, Board, Open
from tests.faults.fake_server import Answer, Clock, FakeAgentServer, Thread, refuse, status

SEARCH = "POST /threads/search"


# -- deploys --------------------------------------------------------------------------------------------------------


async def test_a_deploy_between_the_first_and_the_last_request_makes_the_poll_incomplete(
    board: Open, server: FakeAgentServer
) -> None:
    """States were read without the node, so what they do not show proves nothing."""
    server.settled(3)
    hidden = server.parked(static=True)
    hidden.status = "idle"

    def deploy(request: httpx.Request) -> None:
        if request.url.path == "/threads/count":
            server.deploy("support", "intake", "finish")

    server.after = deploy
    async with board() as it:
        poll = await it.poll()
        assert (poll.state, [reason.code for reason in poll.reasons]) == ("incomplete", ["deployed_meanwhile"])
        assert await it.verdict() == "unknown"
        server.after = lambda _: None
        await it.poll()
        assert await it.verdict() == "unknown"
        server.deploy("support", "intake", "await_approval", "finish")
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "blocked"


GRAPHS = "POST /assistants/search|GET /assistants/"
WHOLE = ("intake", "await_approval", "finish")


def deploy_in_the_middle(server: FakeAgentServer, *, ends: Answer) -> None:
    """The node goes after graphs were looked at and before states are read; after the states, ``ends`` is all that comes."""
    done: list[int] = []

    def deploy(request: httpx.Request) -> None:
        if request.url.path == "/threads/count":
            server.deploy("support", "intake", "finish")
        if server.asked("/state") >= 4 and not done:
            done.append(1)
            server.fail(GRAPHS, ends)

    server.after = deploy


async def never_drained_after_the_node_is_back(it: Board, server: FakeAgentServer) -> None:
    """A thread waits at the node, idle by its row; without the node it was read as settled."""
    assert await it.verdict() == "unknown"
    server.after = lambda _: None
    server.faults.clear()
    server.deploy("support", *WHOLE)
    for _ in range(4):
        await it.poll(full=True)
        assert await it.verdict() != "drained"


@pytest.mark.parametrize("ends", [status(429), refuse], ids=["throttled", "refused"])
async def test_readings_of_a_poll_that_failed_are_not_trusted_after_a_deploy_in_it(
    board: Open, server: FakeAgentServer, ends: Answer
) -> None:
    """A deploy restarts the server, so a poll meets both: another graph, and then no answer."""
    server.parked(static=True).status = "idle"
    server.settled(11)
    deploy_in_the_middle(server, ends=ends)
    async with board(verify_idle_per_sweep=4) as it:
        assert (await it.poll()).state == "incomplete"
        await never_drained_after_the_node_is_back(it, server)


async def test_readings_of_a_poll_that_was_killed_are_not_trusted_after_a_deploy_in_it(
    board: Open, server: FakeAgentServer
) -> None:
    server.parked(static=True).status = "idle"
    server.settled(11)
    reached = asyncio.Event()

    async def hangs(_: httpx.Request) -> httpx.Response:
        reached.set()
        await asyncio.sleep(60)
        raise AssertionError

    deploy_in_the_middle(server, ends=hangs)
    async with board(verify_idle_per_sweep=4) as it:
        task = asyncio.ensure_future(it.poll())
        await asyncio.wait_for(reached.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await never_drained_after_the_node_is_back(it, server)


async def test_a_node_that_is_removed_while_the_drain_is_not_drained_is_not_deployed(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    parked = server.parked()
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "blocked"
        server.deploy("support", "intake", "finish")
        for _ in range(2):
            poll = await it.poll()
        assert poll.state == "complete"
        assert await it.conditions() == {"presumed_settled": 3, "stranded": 1}
        assert await it.codes() >= {"stranded", "target_not_deployed"}
        server.finish(parked)
        await it.poll()
        assert (await it.conditions()).get("lost") == 1
        assert await it.verdict() == "blocked"


async def test_removal_while_drained_is_drained_again_after_it_has_soaked(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board(policy={"soak_sweeps": 2, "soak_hold": "10m"}) as it:
        await it.poll()
        it.clock.tick(minutes=10)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.deploy("support", "intake", "finish")
        poll = await it.poll()
        assert poll.kind == "sweep"
        assert await it.codes() == {"soaking"}
        it.clock.tick(minutes=10)
        await it.poll(full=True)
        it.clock.tick(minutes=1)
        await it.poll(full=True)
        assert await it.verdict() == "drained"


async def test_the_sweep_that_notices_a_deploy_counts_for_the_soak(board: Open, server: FakeAgentServer) -> None:
    """`N complete sweeps (the one that first finds nothing counts)`, and a deploy restarts the soak once, not twice."""
    server.settled(2)
    async with board(policy={"soak_sweeps": 2, "soak_hold": "1m"}) as it:
        await it.poll()
        server.deploy("support", "intake", "await_approval", "await_approval:inner", "finish")
        await it.poll()
        assert (await it.gate())["soak"]["sweeps"] == 1
        await it.poll()
        assert (await it.gate())["soak"]["sweeps"] == 1


async def test_a_thread_that_was_answered_under_another_graph_is_not_left_out(
    board: Open, server: FakeAgentServer
) -> None:
    """Its row names the other graph; what waits belongs to the graph of its head, which nobody has read."""
    server.graphs["other"] = ["intake", "finish"]
    server.settled(3)
    moved = server.parked(static=True)
    moved.status, moved.graph = "idle", "other"
    async with board() as it:
        await it.poll()
        await it.poll(full=True)
        assert await it.verdict() != "drained"


# -- threads that move during a poll --------------------------------------------------------------------------------


async def test_an_answer_that_is_lost_between_listing_and_state_is_lost(board: Open, server: FakeAgentServer) -> None:
    """It is listed while it runs, and over when its state is read: how its leaf left shows only to the next poll."""
    thread = server.parked()
    unneeded = DRAIN | {"name": "drop-intake", "remove_nodes": ["intake"]}  # nothing blocks it, so runs are asked for
    async with board(drains=[DRAIN, unneeded]) as it:
        await it.poll()
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        assert await it.conditions() == {"stranded": 1}
        thread.status, thread.updated_at = "busy", it.clock.now

        def end(request: httpx.Request) -> None:
            if request.url.path == "/threads/search" and thread.status == "busy":
                it.clock.tick(seconds=1)
                server.finish(thread)

        server.after = end
        await it.poll()
        assert set(await it.conditions()) <= {"running", "unread", "stranded"}
        await it.poll()
        assert await it.conditions() == {"lost": 1}


async def test_a_thread_that_goes_on_between_listing_and_state_is_neither_stranded_nor_lost(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    moving = server.parked()
    async with board() as it:

        def answer(request: httpx.Request) -> None:
            if "/threads/search" in request.url.path and moving.pending and server.asked(SEARCH) > 1:
                server.finish(moving)

        server.after = answer
        await it.poll()
        found = await it.conditions()
        assert not {"stranded", "lost", "unplaced"} & set(found)
        await it.poll()
        assert await it.verdict() == "drained"


async def test_a_thread_that_is_parked_anew_between_two_scans_blocks_after_the_next(
    board: Open, server: FakeAgentServer
) -> None:
    threads = server.settled(3)
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "drained"
        server.park(threads[1])
        poll = await it.poll()
        assert (poll.kind, poll.state) == ("scan", "complete")
        assert await it.codes() >= {"parked_at_target", "regressed"}


async def test_a_row_that_moves_to_the_top_while_a_scan_turns_the_page_is_not_overlooked(
    board: Open, server: FakeAgentServer
) -> None:
    """It waits at the target since before the scan began; only its metadata is patched while the scan goes."""
    threads = server.settled(9)
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "drained"
        it.clock.tick(seconds=1)
        server.park(threads[0])
        for one in threads[1:]:
            it.clock.tick(seconds=1)
            one.updated_at = it.clock.now
        patched: list[int] = []

        def patch(request: httpx.Request) -> None:
            if "/threads/search" in request.url.path and not patched:
                patched.append(1)
                threads[0].updated_at = it.clock.tick(seconds=1)

        server.after = patch
        await it.poll()
        assert await it.verdict() != "drained"


async def test_a_run_that_starts_between_the_two_questions_for_runs_is_seen(
    board: Open, server: FakeAgentServer
) -> None:
    """First nothing is running, then nothing is pending: the run went from one list to the other between them."""
    server.settled(2)
    thread = server.thread(status="busy")
    starts = {
        "run_id": "r1",
        "status": "pending",
        "created_at": server.clock.now.isoformat(),
        "kwargs": {"durability": "exit"},
    }
    thread.runs = [starts]

    def start(request: httpx.Request) -> None:
        if request.url.path.endswith("/runs"):
            starts["status"] = "running"

    server.after = start
    async with board() as it:
        await it.poll()
        assert await it.verdict() != "drained"


@pytest.mark.parametrize(
    ("durability", "verdict"), [("sync", "drained"), ("async", "drained"), ("exit", "unknown"), (None, "unknown")]
)
async def test_a_running_thread_is_clear_only_when_its_run_writes_as_it_goes(
    board: Open, server: FakeAgentServer, durability: str | None, verdict: str
) -> None:
    server.settled(2)
    run = {
        "run_id": "r1",
        "status": "running",
        "created_at": server.clock.now.isoformat(),
        "kwargs": {"durability": durability},
    }
    server.thread(status="busy", runs=[run])
    async with board() as it:
        await it.poll()
        assert await it.verdict() == verdict


async def test_ids_in_no_order_on_the_server_are_all_found(board: Open, server: FakeAgentServer) -> None:
    for number in (900, 5, 700, 3, 1, 800, 2, 4, 600):
        server.thread(id=f"00000000-0000-4000-8000-{number:012x}")
    async with board() as it:
        poll = await it.poll()
        assert (poll.state, poll.threads_seen) == ("complete", 9)
        assert await it.verdict() == "drained"


async def test_a_server_with_shorter_pages_than_asked_is_seen_to_the_end(board: Open, server: FakeAgentServer) -> None:
    server.settled(23)
    server.cap = 3
    async with board(page_size=20) as it:
        poll = await it.poll()
        assert (poll.state, poll.threads_seen) == ("complete", 23)


async def test_a_clean_up_on_a_server_with_short_pages_hides_no_parked_thread(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(40)
    server.cap = 4
    server.settled(10)
    waiting = server.parked(static=True)
    waiting.status = "idle"
    waiting.values = None
    done: list[int] = []

    def clean_up(request: httpx.Request) -> None:
        if "/threads/search" in request.url.path and server.asked(SEARCH) > 11 and not done:
            done.append(1)
            for gone in sorted(server.threads)[:25]:
                del server.threads[gone]

    server.after = clean_up
    async with board(page_size=20) as it:
        await it.poll()
        assert done
        assert await it.verdict() != "drained"


# -- vanishing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 3])
async def test_threads_that_vanish_together_withhold_the_verdict(
    board: Open, server: FakeAgentServer, left: int
) -> None:
    server.settled(3)
    for _ in range(30):
        server.parked("finish")
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "drained"
        for one in sorted(server.threads)[left:]:
            del server.threads[one]
        await it.poll(full=True)
        assert "mass_disappearance" in await it.codes()
        assert await it.verdict() == "unknown"
        assert {alarm["code"] for alarm in (await it.deployment())["alarms"]} >= {"mass_disappearance"}
        it.clock.tick(hours=2)
        await it.poll(full=True)
        assert "mass_disappearance" in await it.codes()


async def test_threads_that_vanish_together_are_missed_also_after_a_clock_was_ahead(
    board: Open, server: FakeAgentServer
) -> None:
    """Times of the future tell nothing of what is newer. The polls do."""
    server.settled(3)
    for _ in range(30):
        server.parked("finish")
    async with board() as it:
        await it.poll(full=True)
        it.clock.tick(days=20)
        await it.poll(full=True)
        it.clock.tick(days=-20)
        server.threads.clear()
        await it.poll(full=True)
        assert "mass_disappearance" in await it.codes()
        assert await it.verdict() != "drained"


async def test_what_vanished_while_a_clock_was_ahead_counts_once_and_can_be_explained(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    first, second = [server.parked("finish") for _ in range(30)], [server.parked("finish") for _ in range(15)]
    third, *_ = [server.parked("finish") for _ in range(15)], [server.parked("finish") for _ in range(30)]
    path = f"/api/v1/deployments/{NAME}/acknowledgements"
    async with board() as it:
        await it.poll(full=True)
        it.clock.tick(days=20)
        _delete(server, first)
        await it.poll(full=True)
        assert "mass_disappearance" in await it.codes()
        it.clock.tick(days=-20)
        answer = await it.http.post(path, json={"codes": ["mass_disappearance"], "owner": "us", "reason": "cleaned up"})
        assert answer.status_code == 201, answer.text
        await it.poll(full=True)
        await it.poll(full=True)
        assert "mass_disappearance" not in await it.codes()
        for some in (second, third):  # too few at once, each time
            it.clock.tick(days=20)
            _delete(server, some)
            await it.poll(full=True)
            it.clock.tick(days=-20)
            await it.poll(full=True)
            await it.poll(full=True)
            assert "mass_disappearance" not in await it.codes()


async def test_a_soak_that_began_while_a_clock_was_ahead_begins_anew(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board(policy={"soak_sweeps": 1, "soak_hold": "30m"}) as it:
        it.clock.tick(days=20)
        await it.poll(full=True)
        assert await it.codes() == {"soaking"}
        it.clock.tick(days=-20)
        await it.poll(full=True)
        assert await it.codes() == {"soaking"}
        it.clock.tick(minutes=31)
        await it.poll(full=True)
        assert await it.verdict() == "drained"


def _delete(server: FakeAgentServer, threads: list[Thread]) -> None:
    for thread in threads:
        del server.threads[thread.id]


async def test_a_few_threads_that_vanish_are_tombstones(board: Open, server: FakeAgentServer) -> None:
    threads = server.settled(5)
    parked = server.parked()
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "blocked"
        del server.threads[parked.id], server.threads[threads[0].id]
        await it.poll(full=True)
        assert await it.conditions() == {"settled": 4, "gone": 2} or (await it.conditions())["gone"] == 2
        assert (await it.inventory())["total"] == 4
        server.threads[parked.id] = parked
        await it.poll(full=True)
        assert await it.verdict() == "blocked"


async def test_an_empty_population_proves_nothing(board: Open, server: FakeAgentServer) -> None:
    async with board() as it:
        for _ in range(2):
            assert (await it.poll(full=True)).state == "complete"
            assert "empty_population" in await it.codes()
        threads = server.settled(2)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        for one in threads:
            del server.threads[one.id]
        await it.poll(full=True)
        assert "empty_population" in await it.codes()


async def test_a_thread_that_can_be_read_but_is_not_listed_is_a_missing_canary(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(5)
    async with board() as it:
        await it.poll()
        server.listing = lambda rows: [one for one in rows if not one.id.endswith("3")]
        await it.poll(full=True)
        assert "canary_missing" in await it.codes()
        assert (await it.inventory())["total"] == 5
        server.listing = lambda rows: rows
        await it.poll(full=True)
        assert await it.verdict() == "drained"


@pytest.mark.parametrize("there", [True, False])
async def test_a_canary_of_the_settings_that_is_not_listed_withholds_the_verdict(
    board: Open, server: FakeAgentServer, there: bool
) -> None:
    threads = server.settled(3)
    canary = threads[0].id if there else "00000000-0000-7000-8000-0000000000ff"
    async with board(canary_threads=[canary]) as it:
        await it.poll()
        assert await it.verdict() == ("drained" if there else "unknown")


async def test_the_same_id_with_another_beginning_is_another_thread(
    board: Open, server: FakeAgentServer, clock: Clock
) -> None:
    server.settled(2)
    old = server.parked()
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "blocked"
        del server.threads[old.id]
        server.thread(id=old.id, created_at=clock.now, updated_at=clock.now, channels={"note"})
        await it.poll(full=True)
        assert "lost" not in await it.conditions()
        assert "stranded" not in await it.conditions()


# -- two polls, and none --------------------------------------------------------------------------------------------


async def test_two_polls_at_once_run_one_after_the_other(board: Open, server: FakeAgentServer) -> None:
    server.settled(6)
    busy = most = 0

    async def slow(request: httpx.Request) -> httpx.Response:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.02)
        busy -= 1
        return server._route(request)

    server.fail("POST /assistants/search", slow)
    async with board() as it:
        runtime = it.app.state.runtime
        polls = await asyncio.gather(*(runtime.poll(NAME, full=True) for _ in range(2)))
        assert [poll.state for poll in polls] == ["complete", "complete"]
        assert most == 1
        first, second = sorted(polls, key=lambda poll: poll.id)
        assert first.finished_at is not None
        assert second.started_at >= first.started_at


async def test_a_poll_that_runs_is_answered_with_and_not_started_twice(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)
    go_on = asyncio.Event()

    async def waits(request: httpx.Request) -> httpx.Response:
        await go_on.wait()
        return server._route(request)

    server.fail("POST /assistants/search", waits)
    async with board() as it:
        path = f"/api/v1/deployments/{NAME}/poll"
        first = (await it.http.post(path, json={"full": True})).json()["poll"]
        second = (await it.http.post(path, json={"full": False})).json()["poll"]
        go_on.set()
        assert first == second
        for _ in range(100):
            if (await it.get(f"/api/v1/deployments/{NAME}/polls/{first}"))["state"] == "complete":
                break
            await asyncio.sleep(0.02)
        assert await it.verdict() == "drained"


@pytest.mark.parametrize("skip", [0, 1, 2, 4, 7, 9, 12])
async def test_a_poll_that_is_killed_leaves_no_complete_one_and_the_next_recovers(
    board: Open, server: FakeAgentServer, skip: int
) -> None:
    server.settled(6)
    server.parked("finish")

    async def hangs(request: httpx.Request) -> httpx.Response:
        reached.set()
        await asyncio.sleep(60)
        raise AssertionError

    reached = asyncio.Event()
    server.fail(".", hangs, skip=skip)
    async with board() as it:
        task = asyncio.ensure_future(it.poll())
        await asyncio.wait_for(reached.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await it.verdict() == "unknown"
        assert not [poll for poll in (await it.deployment())["polls"] if poll["state"] == "complete"]
        server.faults.clear()
        poll = await it.poll()
        assert (poll.kind, poll.state, poll.threads_seen) == ("sweep", "complete", 7)
        assert await it.verdict() == "drained"
        assert (await it.deployment())["current_poll"] is None


async def test_a_crash_of_one_round_does_not_hold_the_lock(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)

    def crash(request: httpx.Request) -> httpx.Response:
        raise ZeroDivisionError

    server.fail(SEARCH, crash, times=1)
    async with board() as it:
        with pytest.raises((ZeroDivisionError, DrainboardError)):
            await it.poll()
        assert await it.verdict() == "unknown"
        poll = await asyncio.wait_for(it.poll(), 5)
        assert poll.state == "complete"


async def test_a_poller_that_died_makes_a_verdict_unknown_by_itself(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board() as it:
        await it.poll()
        answer = await it.gate()
        assert answer["verdict"] == "drained"
        it.clock.tick(minutes=15)
        assert await it.verdict() == "drained"
        it.clock.tick(seconds=1)
        assert await it.codes() == {"scan_stale"}
        it.clock.tick(hours=24)
        assert await it.codes() == {"scan_stale", "sweep_stale"}


async def test_max_age_can_only_tighten(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board() as it:
        await it.poll()
        it.clock.tick(minutes=5)
        for age, verdict in (("10m", "drained"), ("4m", "unknown"), ("90d", "drained"), ("0s", "unknown")):
            assert (await it.get(f"/api/v1/drains/drop-it/gate?max_age={age}"))["verdict"] == verdict
        it.clock.tick(minutes=20)
        assert (await it.get("/api/v1/drains/drop-it/gate?max_age=90d"))["verdict"] == "unknown"


# -- soak -----------------------------------------------------------------------------------------------------------

SOAK = {"soak_sweeps": 2, "soak_hold": "10m"}


async def test_a_drain_soaks_is_drained_regresses_and_soaks_again(board: Open, server: FakeAgentServer) -> None:
    threads = server.settled(3)
    async with board(policy=SOAK) as it:
        await it.poll()
        answer = await it.gate()
        assert (answer["verdict"], [reason["code"] for reason in answer["reasons"]]) == ("unknown", ["soaking"])
        assert answer["retry_after_seconds"] > 0
        it.clock.tick(minutes=11)
        await it.poll()
        assert await it.codes() == {"soaking"}, "one sweep is not two"
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.park(threads[0])
        await it.poll()
        assert await it.codes() == {"parked_at_target", "regressed"}
        server.finish(threads[0])
        await it.poll()
        assert await it.codes() >= {"regressed", "soaking"}
        assert await it.verdict() == "blocked"
        await it.poll(full=True)
        it.clock.tick(minutes=11)
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "drained"


async def test_a_hit_that_only_an_incomplete_poll_saw_is_a_regression_too(board: Open, server: FakeAgentServer) -> None:
    threads = server.settled(3)
    async with board(policy=SOAK) as it:
        await it.poll()
        it.clock.tick(minutes=11)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.park(threads[0])
        broken = threads[2].row
        threads[2].row = lambda: broken() | {"status": "new"}  # type: ignore[method-assign]
        threads[2].updated_at = it.clock.now
        assert (await it.poll()).state == "incomplete"
        assert await it.codes() >= {"parked_at_target"}
        threads[2].row = broken  # type: ignore[method-assign]
        server.finish(threads[0])
        await it.poll(full=True)
        assert "regressed" in await it.codes()


async def test_the_first_sight_of_a_graph_does_not_start_the_soak_anew(board: Open, server: FakeAgentServer) -> None:
    """The first poll notices it a moment after it began, which the second one must not take for a deploy in between."""
    server.settled(3)
    draw = server._drawing

    def slowly(assistant: str) -> object:
        server.clock.tick(milliseconds=200)
        return draw(assistant)

    server._drawing = slowly  # type: ignore[method-assign,assignment]
    async with board(policy={"soak_sweeps": 1, "soak_hold": "5s"}) as it:
        assert (await it.poll()).kind == "sweep"
        assert await it.codes() == {"soaking"}
        assert (await it.poll()).kind == "scan"
        assert await it.verdict() == "drained"


async def test_the_hold_is_measured_by_evidence_and_not_by_waiting(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board(policy={"soak_sweeps": 1, "soak_hold": "10m", "max_age": "1h"}) as it:
        await it.poll()
        for _ in range(5):
            it.clock.tick(minutes=5)
            assert await it.verdict() == "unknown"
        await it.poll()
        assert await it.verdict() == "drained"


async def test_a_new_thread_that_enters_leaks_until_the_soak_has_passed_without_another(
    board: Open, server: FakeAgentServer, clock: Clock
) -> None:
    server.settled(3)
    async with board(policy=SOAK) as it:
        await it.poll()
        clock.tick(minutes=11)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        leak = server.parked(created_at=clock.now, updated_at=clock.now)
        await it.poll()
        assert await it.codes() >= {"parked_at_target", "leaking"}
        server.finish(leak)
        await it.poll()
        assert "leaking" in await it.codes()
        clock.tick(minutes=11)
        await it.poll(full=True)
        await it.poll(full=True)
        assert "leaking" not in await it.codes()


async def test_a_new_thread_that_passed_through_between_two_polls_leaks(
    board: Open, server: FakeAgentServer, clock: Clock
) -> None:
    """Only its storage shows that it was there."""
    server.settled(3)
    async with board(policy=SOAK) as it:
        await it.poll()
        clock.tick(minutes=11)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.thread(created_at=clock.now, updated_at=clock.now, channels={"note", "branch:to:await_approval"})
        await it.poll()
        assert await it.codes() >= {"leaking"}
        assert await it.verdict() == "blocked"


async def test_a_deploy_that_touches_the_target_restarts_the_soak_and_another_does_not(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    async with board(policy=SOAK) as it:
        await it.poll()
        it.clock.tick(minutes=11)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.deploy("support", "intake", "await_approval", "finish", "added")
        await it.poll()
        await it.poll()
        assert await it.verdict() == "drained"
        server.deploy("support", "intake", "await_approval", "await_approval:inner", "finish", "added")
        await it.poll()
        assert "soaking" in await it.codes()


async def test_an_unknown_drain_and_a_malformed_age_are_errors_and_no_verdict(board: Open) -> None:
    async with board() as it:
        for path, code in (("nope/gate", 404), ("drop-it/gate?max_age=soon", 422), ("drop-it/gate?max_age=-5m", 422)):
            answer = await it.http.get(f"/api/v1/drains/{path}")
            assert answer.status_code == code
            assert set(answer.json()) == {"error"}
            assert "verdict" not in answer.text


async def test_a_drain_that_is_taken_from_the_file_is_closed_and_never_drained(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "drained"
    async with board(drains=[DRAIN | {"name": "another"}]) as it:
        assert "drain_closed" in await it.codes()
        assert await it.verdict() == "unknown"


async def test_a_changed_criterion_starts_the_soak_anew(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "drained"
    async with board(drains=[DRAIN | {"remove_nodes": ["await_approval", "intake"]}]) as it:
        answer = await it.gate()
        assert (answer["verdict"], answer["criteria_version"]) == ("unknown", 2)


async def test_the_additive_phase_is_never_drained(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board(drains=[DRAIN | {"phase": "additive"}]) as it:
        await it.poll()
        assert "phase_not_observing" in await it.codes()
        assert await it.verdict() == "unknown"
