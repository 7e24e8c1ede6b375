"""What a poll makes of a server that is down, wrong, slow, or half right. Never a verdict of drained."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.faults.conftest import NAME, Open
from tests.faults.fake_server import (
    CANARY,
    Answer,
    FakeAgentServer,
    body,
    cut_off,
    half_a_json,
    refuse,
    status,
    text,
    time_out,
)

SOME = ("refused", "time_out", "html", "404", "422", "500", "503", "half_a_json", "null", "list_of_text", "redirect")
HTML = f"<html><body>{CANARY}</body></html>"
ANY = "."
SEARCH = "POST /threads/search"
STATE = "GET /threads/.*/state"
GONE_WRONG: dict[str, Answer] = {
    "refused": refuse,
    "time_out": time_out,
    "cut_off": cut_off,
    "html": text(HTML),
    "empty": text("", kind="application/json"),
    "401": status(401),
    "403": status(403),
    "404": status(404),
    "422": status(422),
    "429": status(429),
    "429_retry_after": status(429, **{"retry-after": "1"}),
    "429_retry_after_date": status(429, **{"retry-after": "Mon, 30 Nov 2026 12:00:00 GMT"}),
    "500": status(500),
    "502": status(502),
    "502_html": text(HTML, 502),
    "503": status(503),
    "half_a_json": half_a_json,
    "not_utf8": lambda _: httpx.Response(200, content=b'["\xff\xfe"]', headers={"content-type": "application/json"}),
    "null": body(None),
    "number": body(7),
    "text": body(CANARY),
    "object": body({"detail": CANARY}),
    "list_of_text": body([CANARY, CANARY]),
    "redirect": lambda _: httpx.Response(302, headers={"location": f"https://elsewhere.test/{CANARY}"}),
    "redirect_html": lambda _: httpx.Response(307, text=HTML, headers={"location": "https://elsewhere.test/"}),
}


@pytest.fixture
def address(address_of_either: str) -> str:
    """Each case on one kind of database."""
    return address_of_either


async def test_a_server_that_cannot_be_asked_fails_the_poll_and_is_never_drained(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    async with board() as it:
        for what, answer in GONE_WRONG.items():
            server.fail(ANY, answer)
            poll = await it.poll(full=True)
            assert poll.state in ("failed", "incomplete"), what
            assert poll.reasons, what
            assert await it.verdict() == "unknown", what
        assert CANARY not in await it.everything()
        server.faults.clear()
        assert (await it.poll()).state == "complete"
        assert await it.verdict() == "drained"


@pytest.mark.parametrize("path", [SEARCH, "POST /assistants/search"])
async def test_a_failure_after_a_good_sweep_keeps_what_was_known_and_is_not_drained(
    board: Open, server: FakeAgentServer, path: str
) -> None:
    server.settled(5)
    async with board() as it:
        for what in (*SOME, "401", "429", "object"):
            answer = GONE_WRONG[what]
            if what == "list_of_text" and path != SEARCH:
                continue
            assert (await it.poll(full=True)).state == "complete", what
            assert await it.verdict() == "drained", what
            server.fail(path, answer)
            poll = await it.poll(full=True)
            assert poll.state in ("failed", "incomplete"), what
            assert await it.verdict() == "unknown", what
            server.faults.clear()
        assert (await it.inventory())["total"] == 5
        assert CANARY not in await it.everything()


@pytest.mark.parametrize(
    "nonsense", [[CANARY, CANARY], [None], [{"graph_id": "support"}], [{"assistant_id": 7, "graph_id": []}]]
)
async def test_assistants_that_cannot_be_understood_are_not_a_deploy(
    board: Open, server: FakeAgentServer, nonsense: Any
) -> None:
    """Else every graph seems to have vanished, and a drained target to have been removed in good order."""
    server.settled(5)
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "drained"
        server.fail("POST /assistants/search", body(nonsense))
        poll = await it.poll(full=True)
        assert poll.state in ("failed", "incomplete")
        assert await it.verdict() == "unknown"


async def test_a_server_that_is_down_says_since_when(board: Open, server: FakeAgentServer) -> None:
    server.settled(1)
    async with board() as it:
        await it.poll()
        server.fail(ANY, refuse)
        await it.poll()
        since = (await it.deployment())["sources"][0]["since"]
        await it.poll()
        source = (await it.deployment())["sources"][0]
        assert source["status"] == "failed"
        assert source["since"] == since
        assert "cannot be reached" in source["sentence"]
        assert "source_failed" in await it.codes()


@pytest.mark.parametrize(
    ("what", "says"),
    [("401", "API key"), ("403", "API key"), ("html", "address"), ("404", "address"), ("429", "requests_per_minute")],
)
async def test_the_reason_says_what_to_do(board: Open, server: FakeAgentServer, what: str, says: str) -> None:
    server.fail(ANY, GONE_WRONG[what])
    async with board() as it:
        poll = await it.poll()
        assert says in " ".join(reason.sentence for reason in poll.reasons)


async def test_being_throttled_is_counted_as_such_and_passes(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    server.fail(SEARCH, status(429), times=1)
    async with board() as it:
        assert (await it.poll()).state == "complete"
        server.fail(SEARCH, status(429))
        poll = await it.poll(full=True)
        assert (poll.state, [one.code for one in poll.reasons]) == ("incomplete", ["throttled"])


@pytest.mark.parametrize("skip", range(1, 6))
async def test_a_page_that_fails_in_the_middle_keeps_what_was_seen_and_proves_nothing(
    board: Open, server: FakeAgentServer, skip: int
) -> None:
    server.settled(10)
    async with board() as it:
        for what in ("refused", "429", "html"):
            server.fail(SEARCH, GONE_WRONG[what], skip=skip)
            poll = await it.poll(full=True)
            assert poll.state == "incomplete", what
            assert await it.verdict() == "unknown", what
            assert await it.codes() & {"sweep_incomplete", "source_failed"}, what
            server.faults.clear()
        assert (await it.poll()).kind == "sweep"
        assert (await it.inventory())["total"] == 10
        assert await it.verdict() == "drained"


async def test_one_thread_whose_state_cannot_be_read_stops_nothing_and_withholds_the_verdict(
    board: Open, server: FakeAgentServer, clock: Any
) -> None:
    threads = server.settled(5)

    async with board() as it:
        for what in SOME:
            server.fail(f"GET /threads/{threads[2].id}/state", GONE_WRONG[what])
            threads[2].updated_at = clock.now
            for _ in range(2):
                assert (await it.poll(full=True)).threads_seen == 5, what
                assert await it.verdict() in ("unknown", "blocked"), what
            server.faults.clear()
            await it.poll()
            await it.poll(full=True)  # one that is unreadable is read again by sweeps, or when it moves
            assert await it.verdict() == "drained", what
        assert CANARY not in await it.everything()


@pytest.mark.parametrize(
    "nonsense", [{"detail": CANARY}, {}, {"values": {}}, {"checkpoint": None}, {"tasks": [], "next": []}]
)
async def test_a_state_without_the_parts_of_a_state_is_not_a_thread_that_never_ran(
    board: Open, server: FakeAgentServer, nonsense: Any
) -> None:
    server.settled(3)
    thread = server.parked()
    server.fail(f"GET /threads/{thread.id}/state", body(nonsense))
    async with board() as it:
        await it.poll()
        assert await it.verdict() != "drained"
        assert "never_ran" not in await it.conditions()


async def test_a_thread_that_waits_by_its_row_and_has_no_checkpoint_is_not_clear(
    board: Open, server: FakeAgentServer
) -> None:
    """The rows are there and the checkpoints are not: another store, or one that was wiped."""
    server.settled(3)
    thread = server.parked()
    thread.ran = False
    async with board() as it:
        await it.poll()
        assert await it.verdict() != "drained"


async def test_a_sweep_reads_again_what_the_last_one_could_not_read(board: Open, server: FakeAgentServer) -> None:
    threads = server.settled(5)
    server.fail(f"GET /threads/{threads[2].id}/state", refuse)
    async with board() as it:
        await it.poll(full=True)
        assert await it.codes() == {"threads_unread"}
        server.faults.clear()
        await it.poll(full=True)
        assert await it.verdict() == "drained"


async def test_a_state_that_fails_in_the_same_lasting_way_twice_is_unreadable_and_heals(
    board: Open, server: FakeAgentServer
) -> None:
    thread = server.settled(3)[0]
    server.fail(f"GET /threads/{thread.id}/state", status(500))
    async with board() as it:
        await it.poll()
        assert await it.codes() == {"threads_unread"}
        await it.poll()
        assert (await it.conditions()).get("unreadable") == 1
        assert "unreadable" in await it.codes()
        server.faults.clear()
        await it.poll(full=True)
        assert await it.verdict() == "drained"


async def test_a_thread_whose_graph_is_not_deployed_is_graph_missing_and_not_gone(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    thread = server.parked(graph="other")
    async with board(drains=None) as it:
        await it.poll()
        assert (await it.conditions()).get("graph_missing") == 1
        del server.threads[thread.id]
        await it.poll(full=True)
        assert (await it.conditions()).get("gone") == 1


# -- rows -----------------------------------------------------------------------------------------------------------

MALFORMED: dict[str, dict[str, Any]] = {
    "no_id": {"thread_id": None},
    "number_id": {"thread_id": 7},
    "new_status": {"status": "paused"},
    "list_status": {"status": ["idle"]},
    "no_time": {"created_at": None},
    "bad_time": {"updated_at": CANARY},
    "first_day": {"created_at": "0001-01-01T00:00:00+14:00"},
    "last_day": {"updated_at": "9999-12-31T23:59:59-14:00"},
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_a_malformed_row_makes_the_poll_incomplete_and_the_others_are_kept(
    board: Open, server: FakeAgentServer, what: str
) -> None:
    threads = server.settled(6)
    broken = threads[3]
    plain = broken.row
    broken.row = lambda: plain() | MALFORMED[what]  # type: ignore[method-assign]
    async with board() as it:
        poll = await it.poll()
        assert poll.state == "incomplete"
        assert [reason.code for reason in poll.reasons] == ["row_malformed"]
        assert (await it.inventory())["total"] == 5
        assert await it.verdict() == "unknown"
        broken.row = plain  # type: ignore[method-assign]
        assert (await it.poll()).state == "complete"
        assert await it.verdict() == "drained"


async def test_a_server_whose_rows_are_all_malformed_is_left_in_peace(board: Open, server: FakeAgentServer) -> None:
    """Ten rows of a status that is new to us, over pages of four: the poll must end."""
    for thread in server.settled(10):
        thread.status = "paused"

    def enough(request: httpx.Request) -> None:
        if len(server.requests) > 500:
            raise RuntimeError("500 requests for ten rows")

    server.after = enough
    async with board() as it:
        poll = await it.poll()
        assert poll.state == "incomplete"
        assert len(server.requests) < 500


async def test_a_server_that_ignores_the_offset_is_left_in_peace(board: Open, server: FakeAgentServer) -> None:
    server.settled(10)
    server.ignores.add("offset")

    def enough(request: httpx.Request) -> None:
        if len(server.requests) > 500:
            raise RuntimeError("500 requests for ten rows")

    server.after = enough
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "unknown"


async def test_a_server_that_ignores_select_is_read_all_the_same(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    server.parked()
    server.ignores.add("select")
    async with board() as it:
        await it.poll()
        assert await it.conditions() == {"presumed_settled": 3, "parked": 1}
        assert CANARY not in await it.everything()


async def test_rows_without_values_and_interrupts_are_read_by_their_state(board: Open, server: FakeAgentServer) -> None:
    """As Aegra's: a thread at a static breakpoint is idle there."""
    server.settled(2)
    hidden = server.parked(static=True)
    hidden.status = "idle"
    for thread in server.threads.values():
        plain = thread.row

        def bare(plain: Any = plain) -> dict[str, Any]:
            return {
                key: value for key, value in plain().items() if key not in ("values", "interrupts", "state_updated_at")
            }

        thread.row = bare  # type: ignore[method-assign]
    async with board() as it:
        await it.poll()
        assert await it.conditions() == {"settled": 2, "parked": 1}
        assert await it.codes() >= {"parked_at_target"}


async def test_a_server_that_counts_many_more_than_it_lists_is_an_alarm(board: Open, server: FakeAgentServer) -> None:
    server.settled(5)
    server.count_lies = 99
    async with board() as it:
        poll = await it.poll()
        assert (poll.threads_seen, poll.threads_expected) == (5, 99)
        assert (await it.deployment())["alarms"] or poll.reasons


@pytest.mark.parametrize("answer", [status(404), status(405), status(500), body(None), body("5"), body({"count": 5})])
async def test_a_server_that_cannot_count_is_swept_all_the_same(
    board: Open, server: FakeAgentServer, answer: Answer
) -> None:
    server.settled(3)
    server.fail("POST /threads/count", answer)
    async with board() as it:
        poll = await it.poll()
        assert (poll.state, poll.threads_seen, poll.threads_expected) == ("complete", 3, None)


async def test_threads_that_are_not_listed_in_order_are_no_proof(board: Open, server: FakeAgentServer) -> None:
    for minutes in range(9):
        at = server.clock.now - timedelta(minutes=60 - minutes)
        server.thread(created_at=at, updated_at=at)
    server.ignores.add("sort")
    server.listing = lambda rows: rows[::2] + rows[1::2]
    async with board() as it:
        poll = await it.poll()
        assert poll.state == "incomplete"
        assert await it.verdict() == "unknown"


@pytest.mark.parametrize("what", ["500", "404", "422", "html", "object", "503", "refused"])
@pytest.mark.parametrize("kind", ["sweep", "scan"])
async def test_a_graph_that_cannot_be_drawn_is_never_drained(
    board: Open, server: FakeAgentServer, kind: str, what: str
) -> None:
    server.settled(3)
    async with board() as it:
        if kind == "scan":
            await it.poll()
            assert await it.verdict() == "drained"
        server.fail("GET /assistants/.*/graph", GONE_WRONG[what])
        for _ in range(2):
            await it.poll()
            assert await it.verdict() == "unknown"
        server.faults.clear()
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "drained"


@pytest.mark.parametrize("what", ["404", "501", "500", "503", "html", "object", "refused"])
async def test_without_storage_a_thread_that_came_after_intake_closed_may_have_entered(
    board: Open, server: FakeAgentServer, clock: Any, what: str
) -> None:
    server.settled(3)
    server.fail("GET /threads/.*/storage", GONE_WRONG.get(what) or status(int(what)))
    async with board() as it:
        await it.poll()
        assert await it.verdict() == "drained"
        clock.tick(minutes=1)
        server.thread(created_at=clock.now, updated_at=clock.now)
        poll = await it.poll()
        assert poll.state == "complete"
        assert await it.codes() == {"intake_unseen"}
        server.faults.clear()


async def test_a_server_without_storage_is_not_asked_for_it_in_every_scan(
    board: Open, server: FakeAgentServer, clock: Any
) -> None:
    """Nothing moved, so a scan has nothing to ask of single threads."""
    server.fail("GET /threads/.*/storage", status(404))
    async with board() as it:
        for _ in range(5):
            server.thread(created_at=clock.now, updated_at=clock.now)
        clock.tick(minutes=1)
        for _ in range(5):
            server.thread(created_at=clock.now, updated_at=clock.now)
        await it.poll()
        server.requests.clear()
        await it.poll()
        assert server.asked("/storage") + server.asked("/state") == 0


async def test_names_with_a_nul_do_not_stop_the_poll(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)
    server.thread(values={"a\x00b": 1, "state_version": 2})
    async with board() as it:
        assert (await it.poll()).state == "complete"
        assert await it.verdict() == "drained"


async def test_what_is_said_of_a_failure_names_the_deployment(board: Open, server: FakeAgentServer) -> None:
    server.fail(ANY, refuse)
    async with board() as it:
        assert NAME in (await it.poll()).reasons[0].sentence
