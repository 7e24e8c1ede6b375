"""Servers that lack something: nothing false is said, and a drain is drained where that can still be shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.faults.conftest import DRAIN, Board, Open
from tests.faults.fake_server import CANARY, FakeAgentServer, Thread
from tests.faults.other_servers import AEGRA, LACKS_NOTHING_FOR_GREEN, OLD, Kind, OtherServer

KINDS = (AEGRA, *OLD)


@pytest.fixture
def address(address_of_either: str) -> str:
    """Each case on one kind of database."""
    return address_of_either


def named(kind: Kind) -> str:
    return kind.name


VERSION_DRAIN: dict[str, Any] = {key: value for key, value in DRAIN.items() if key != "remove_nodes"} | {
    "minimum_state_version": 2
}


@pytest.fixture
def as_kind(server: FakeAgentServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``as_kind(kind)``: the server is of that kind from now on."""

    def become(kind: Kind) -> OtherServer:
        other = OtherServer(kind, httpx.MockTransport(server._handle))
        monkeypatch.setattr(FakeAgentServer, "transport", other)
        return other

    return become


def update_state(server: FakeAgentServer, thread: Thread, node: str = "await_approval", **values: Any) -> None:
    """As ``update_state`` on Aegra: work is pending, and the row does not move."""
    at = thread.updated_at, thread.status
    server.park(thread, node)
    thread.static, thread.values = True, (thread.values or {}) | values
    thread.updated_at, thread.status = at


async def swept(it: Board, times: int = 2) -> None:
    for _ in range(times):
        assert (await it.poll(full=True)).state in ("complete", "incomplete")


@pytest.mark.parametrize("kind", KINDS, ids=named)
async def test_a_parked_thread_is_found_parked_and_its_node_is_never_drained(
    board: Open, server: FakeAgentServer, as_kind: Any, kind: Kind
) -> None:
    server.settled(5)
    server.parked()
    as_kind(kind)
    async with board() as it:
        await swept(it)
        assert await it.verdict() == "blocked"
        assert (await it.conditions())["parked"] == 1
        await it.poll()
        assert await it.verdict() == "blocked"
        assert CANARY not in await it.everything()


@pytest.mark.parametrize("kind", KINDS, ids=named)
async def test_a_thread_at_a_static_breakpoint_is_found_parked(
    board: Open, server: FakeAgentServer, as_kind: Any, kind: Kind
) -> None:
    server.settled(5)
    server.parked(static=True)
    as_kind(kind)
    async with board() as it:
        await swept(it)
        assert await it.verdict() == "blocked"
        assert (await it.conditions())["parked"] == 1


@pytest.mark.parametrize("kind", KINDS, ids=named)
async def test_a_thread_that_waits_at_a_removed_node_is_never_drained(
    board: Open, server: FakeAgentServer, as_kind: Any, kind: Kind
) -> None:
    server.settled(5)
    server.parked(static=True)
    server.parked()
    as_kind(kind)
    async with board() as it:
        await it.poll(full=True)
        server.deploy("support", "intake", "finish")
        await swept(it)
        assert await it.verdict() == "blocked"
        assert (await it.conditions())["stranded"] == 2


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name in (*LACKS_NOTHING_FOR_GREEN, AEGRA.name)], ids=named
)
async def test_what_is_provable_there_is_drained(
    board: Open, server: FakeAgentServer, as_kind: Any, kind: Kind
) -> None:
    server.settled(9)
    server.parked("finish")
    as_kind(kind)
    async with board() as it:
        await swept(it)
        assert (await it.verdict(), await it.codes()) == ("drained", set())
        assert (await it.poll()).state == "complete"
        assert await it.verdict() == "drained"


async def test_on_aegra_work_that_moves_no_row_is_seen_by_the_next_scan(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    first, *_ = server.settled(6)
    as_kind(AEGRA)
    async with board() as it:
        await swept(it)
        assert await it.verdict() == "drained"
        update_state(server, first)
        assert (await it.poll()).kind == "scan"
        assert await it.verdict() == "blocked"


async def test_on_aegra_a_field_that_changes_and_moves_no_row_is_seen_by_the_next_scan(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    first, *_ = server.settled(6)
    as_kind(AEGRA)
    async with board(drains=[VERSION_DRAIN]) as it:
        await swept(it)
        assert await it.verdict() == "drained"
        first.values = {"note": CANARY, "state_version": 1}
        await it.poll()
        assert await it.verdict() == "blocked"


@pytest.mark.parametrize("kind", [AEGRA, next(kind for kind in OLD if kind.name == "no state time")], ids=named)
@pytest.mark.parametrize("drain", [DRAIN, VERSION_DRAIN], ids=["node", "version"])
async def test_what_is_beyond_the_budget_of_a_scan_is_unknown_and_the_next_sweep_sees_it(
    board: Open, server: FakeAgentServer, as_kind: Any, kind: Kind, drain: dict[str, Any]
) -> None:
    server.settled(6)
    as_kind(kind)
    async with board(drains=[drain], verify_idle_per_sweep=4) as it:
        await swept(it)
        assert await it.verdict() == "drained"
        server.requests.clear()
        await it.poll()
        assert server.asked("/state") == 4
        assert await it.verdict() == "unknown"
        assert await it.codes() & {"idle_unverified", "threads_unread"}
        await it.poll(full=True)
        assert await it.verdict() == "drained"


async def test_on_aegra_every_state_is_read_once_in_a_sweep_and_again_only_where_nothing_blocks(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    server.settled(6)
    server.parked()
    as_kind(AEGRA)
    async with board() as it:
        await it.poll(full=True)
        assert server.asked("/state") == 7
        server.requests.clear()
        await it.poll()
        assert server.asked("/state") == 0


async def test_a_thread_that_lost_the_name_of_its_graph_has_not_never_run(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    """Aegra answers an empty state for it, whatever its head holds."""
    server.settled(3)
    hidden = server.parked()
    hidden.graph = None
    hidden.ran, hidden.status = False, "idle"
    hidden.runs = [{"run_id": "r", "status": "success", "created_at": server.clock.now.isoformat()}]
    as_kind(AEGRA)
    async with board() as it:
        await swept(it)
        assert (await it.conditions())["unread"] == 1
        assert await it.verdict() == "unknown"


async def test_a_thread_that_never_ran_is_clear_where_no_run_of_it_is_known(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    server.settled(3)
    server.thread(ran=False, graph=None, values=None)
    as_kind(AEGRA)
    async with board() as it:
        await swept(it)
        assert (await it.conditions())["never_ran"] == 1
        assert await it.verdict() == "drained"


async def test_without_a_graph_in_its_head_a_thread_of_several_graphs_is_unread_until_its_run_tells(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    server.settled(3)
    server.graphs["other"] = ["intake"]
    server.thread(graph="other", head_graph="support")
    as_kind(AEGRA)
    async with board() as it:
        await swept(it)
        assert (await it.conditions())["unread"] >= 1
        assert await it.verdict() == "unknown"


@pytest.mark.parametrize("kind", [AEGRA, *(kind for kind in OLD if "storage" in kind.name)], ids=named)
async def test_without_storage_a_join_may_wait(board: Open, server: FakeAgentServer, as_kind: Any, kind: Kind) -> None:
    server.settled(3)
    server.edges = [("intake", "await_approval"), ("finish", "await_approval")]
    as_kind(kind)
    async with board() as it:
        await swept(it)
        assert await it.verdict() == "unknown"
        assert "deferred_unseen" in await it.codes()


@pytest.mark.parametrize("kind", [AEGRA, *(kind for kind in OLD if kind.name == "no runs")], ids=named)
async def test_a_busy_thread_is_not_clear_where_runs_do_not_tell(
    board: Open, server: FakeAgentServer, as_kind: Any, kind: Kind
) -> None:
    server.settled(3)
    run = {
        "run_id": "r",
        "status": "running",
        "created_at": server.clock.now.isoformat(),
        "kwargs": {"durability": "sync"},
    }
    server.thread(status="busy", runs=[run])
    as_kind(kind)
    async with board() as it:
        await swept(it)
        assert await it.verdict() == "unknown"
        assert await it.codes() & {"running_unseen", "threads_unread"}


async def test_a_graph_that_is_not_deployed_on_aegra_is_graph_missing(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    server.settled(3)
    as_kind(AEGRA)
    async with board() as it:
        await it.poll(full=True)
        del server.graphs["support"]
        server.graphs["other"] = ["intake"]
        await swept(it)
        assert (await it.conditions())["graph_missing"] == 3
        assert await it.verdict() == "blocked"


async def test_an_id_that_no_route_can_name_is_unread_and_not_gone(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    server.settled(2)
    server.thread(id="customer/42")
    as_kind(AEGRA)
    async with board() as it:
        await swept(it)
        conditions = await it.conditions()
        assert (conditions.get("gone"), conditions["unread"]) == (None, 1)
        assert await it.verdict() == "unknown"


async def test_a_server_that_always_lists_the_newest_first_hides_no_change_of_an_old_thread(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    """As Aegra did before it could sort: the list looks sorted by change until an old thread changes."""
    made = []
    for minutes in range(12):
        at = server.clock.now - timedelta(minutes=60 - minutes)
        made.append(server.thread(created_at=at, updated_at=at))
    server.ignores.add("sort")
    server.listing = lambda rows: sorted(rows, key=lambda one: one.created_at, reverse=True)
    async with board() as it:
        await swept(it)
        assert await it.verdict() == "drained"
        server.park(made[0])
        assert (await it.poll()).kind == "scan"
        assert await it.verdict() == "blocked"


async def test_ids_in_the_order_of_a_locale_are_listed_by_creation(board: Open, server: FakeAgentServer) -> None:
    for number, name in enumerate(("a-thread", "B-thread", "c-thread", "D-thread", "e", "F", "g")):
        at = server.clock.now - timedelta(minutes=60 - number)
        server.thread(id=name, created_at=at, updated_at=at)
    plain = server._search

    def search(body: dict[str, Any]) -> list[dict[str, Any]]:
        locale = body.get("sort_by") == "thread_id"
        server.listing = (lambda rows: sorted(rows, key=lambda one: one.id.lower())) if locale else (lambda rows: rows)
        if body.get("sort_by") == "created_at":
            server.listing = lambda rows: sorted(rows, key=lambda one: one.created_at, reverse=True)
        return plain(body)

    server._search = search  # type: ignore[method-assign]
    async with board() as it:
        poll = await it.poll(full=True)
        assert (poll.state, poll.threads_seen) == ("complete", 7)


async def test_what_a_server_lacks_is_shown_with_what_it_means(
    board: Open, server: FakeAgentServer, as_kind: Any
) -> None:
    server.settled(3)
    server.parked()
    as_kind(AEGRA)
    async with board() as it:
        await it.poll(full=True)
        found = await it.deployment()
        lacks = {name for name, works in found["capabilities"].items() if works is False}
        assert {"select", "row_values", "row_state_time", "count", "storage", "head_graph", "task_paths"} <= lacks
        assert lacks <= found["capability_notes"].keys()
        assert "not an order" not in found["capability_notes"]
        page = await it.http.get("/deployments/prod")
        assert "It does not tell which channels a thread has stored" in page.text


async def test_a_scan_tries_nothing_anew(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    server.parked()
    async with board() as it:
        await it.poll(full=True)
        server.requests.clear()
        await it.poll()
        tried = [
            one for one in server.requests if any(part in one for part in ("storage", "history", "runs", "subgraphs"))
        ]
        assert tried == []


async def test_pages_are_made_smaller_where_rows_are_large(board: Open, server: FakeAgentServer) -> None:
    server.settled(60, values={"note": CANARY, "text": "x" * 400_000})
    limits: list[int] = []
    plain = server._search

    def search(body: dict[str, Any]) -> list[dict[str, Any]]:
        limits.append(body["limit"])
        return plain(body)

    server._search = search  # type: ignore[method-assign]
    async with board(page_size=200) as it:
        assert (await it.poll(full=True)).threads_seen == 60
        assert max(limits) <= 20
