"""What a third hunt for a false `drained` found."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import app.jobs.inprocess
from app.inventory import writes
from app.inventory.reporters import never_told
from app.inventory.store import Store
from app.inventory.views import PollSummary
from app.jobs.inprocess import keep_polling
from app.jobs.poll import Poller
from app.jobs.polling import taking_in
from tests.faults.conftest import DRAIN, NAME, Open
from tests.faults.fake_server import FakeAgentServer, status
from tests.faults.test_preflight import push, topology

SEARCH = "POST /threads/search"
COUNT = 40


@pytest.fixture(autouse=True)
def _remembers_at_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking_in, "REMEMBER_EVERY", 0.0)


def _spoil(server: FakeAgentServer, thread_id: str) -> None:
    """One row of the list has no status, so that nobody can read it."""
    search = server._search

    def spoilt(body: dict[str, object]) -> list[dict[str, object]]:
        rows = search(body)
        return [row | {"status": None} if row["thread_id"] == thread_id else row for row in rows]

    server._search = spoilt  # type: ignore[method-assign]


async def test_a_sweep_that_goes_on_meets_a_row_again_that_its_first_part_left_out(
    board: Open, server: FakeAgentServer
) -> None:
    old = server.clock.now - timedelta(days=2)
    waits = server.parked(id="00000000-0000-7000-8000-000000000000", updated_at=old)
    server.settled(COUNT)
    server.thread(updated_at=server.clock.now)
    _spoil(server, waits.id)
    async with board() as it:
        server.fail(SEARCH, status(500), skip=10)
        assert (await it.poll(full=True)).state == "incomplete"
        server.faults.clear()
        poll = await it.poll(full=True)
        assert (poll.state, [reason.code for reason in poll.reasons]) == ("incomplete", ["row_malformed"])
        assert await it.verdict() == "unknown"


async def test_threads_that_the_list_hides_are_still_hidden_when_a_stopped_sweep_goes_on(
    board: Open, server: FakeAgentServer
) -> None:
    threads = server.settled(COUNT)
    async with board() as it:
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        hidden = {threads[0].id, threads[-1].id}
        server.listing = lambda rows: [row for row in rows if row.id not in hidden]
        it.clock.tick(hours=2)
        server.after = lambda request: (
            server.fail("/assistants/", status(500)) if request.url.path.endswith("/state") else None
        )
        assert (await it.poll(full=True)).state == "incomplete"
        server.after = lambda _: None
        server.faults.clear()
        assert (await it.poll(full=True)).state == "complete"
        assert "canary_missing" in await it.codes()


async def test_a_node_that_was_a_join_stays_one_when_a_topology_without_it_draws_the_same(
    board: Open, server: FakeAgentServer
) -> None:
    """Pushed before it is deployed, it would else hide what comes to the join that is still there."""
    server.edges = [("intake", "finish"), ("await_approval", "finish")]
    edges = [["intake", "finish", False], ["await_approval", "finish", False]]
    join = [{"sources": ["await_approval", "intake"], "target": "finish"}]
    thread = server.thread(channels={"note", "branch:to:intake"})
    async with board(drains=[DRAIN | {"remove_nodes": ["finish"]}]) as it:
        await it.poll(full=True)
        await push(it, topology(edges=edges, joins=join))
        await push(it, topology(edges=edges))
        thread.updated_at = thread.head_at = it.clock.tick(minutes=1)
        thread.checkpoint += 1
        thread.channels |= {"join:intake+await_approval:finish"}
        await it.poll(full=True)
        assert await it.codes() == {"deferred_unseen"}


@pytest.mark.parametrize("change", [{"url": "http://other.test"}, {"metadata_keys": ["region"]}])
async def test_a_sweep_that_was_stopped_does_not_go_on_with_another_server_or_other_keys(
    board: Open, server: FakeAgentServer, change: dict[str, Any]
) -> None:
    """Somebody saw that the address was wrong, and stopped it."""
    server.settled(COUNT)
    server.thread(updated_at=server.clock.now)
    async with board() as it:
        server.fail(SEARCH, status(500), skip=10)
        assert (await it.poll(full=True)).state == "incomplete"
        server.faults.clear()
    old = server.clock.now - timedelta(days=2)
    server.parked(id="00000000-0000-7000-8000-000000000000", updated_at=old)
    async with board(**change) as it:
        assert (await it.poll(full=True)).state == "complete"
        assert await it.verdict() == "blocked"


async def test_a_process_that_has_just_started_knows_all_that_threads_refer_to(
    board: Open, server: FakeAgentServer
) -> None:
    """What it looks up by content first is not all that there is."""
    server.parked()
    server.settled(3)
    async with board() as it:
        await it.poll(full=True)
        store = it.app.state.runtime.store
        anew = Store(store.database, store.hash_key).dictionaries(1)
        async with store.database.write() as connection:
            await anew.work_id(connection, never_told("nobody", None, None, it.clock.now))
            await anew.load(connection)
        assert (len(anew.works), anew.works) == (2, store.dictionaries(1).works)


async def test_what_was_swept_of_one_server_proves_nothing_of_another(board: Open, server: FakeAgentServer) -> None:
    """A scan sees only what changed of late; the thread that waits there did not."""
    server.settled(COUNT)
    async with board() as it:
        await it.poll(full=True)
        assert await it.verdict() == "drained"
    old = server.clock.now - timedelta(days=2)
    server.parked(id="00000000-0000-7000-8000-000000000000", updated_at=old)
    async with board(url="http://other.test") as it:
        assert await it.codes() >= {"sweep_incomplete"}
        server.fail(SEARCH, status(500), skip=2)
        await it.poll()
        assert await it.codes() >= {"sweep_incomplete"}
        server.faults.clear()
        summary = await it.poll()
        assert (summary.kind, summary.state, await it.verdict()) == ("sweep", "complete", "blocked")
    async with board(url="http://other.test") as it:
        assert (await it.poll()).kind == "scan"


async def test_what_an_earlier_version_swept_is_of_nobody_knows_which_server(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(COUNT)
    async with board() as it:
        await it.poll(full=True)
        async with it.app.state.runtime.store.database.write() as connection:
            await writes.update_deployment(connection, 1, source=None)
    old = server.clock.now - timedelta(days=2)
    server.parked(id="00000000-0000-7000-8000-000000000000", updated_at=old)
    async with board(url="http://other.test") as it:
        summary = await it.poll()
        assert (summary.kind, summary.state, await it.verdict()) == ("sweep", "complete", "blocked")


async def test_what_a_server_told_proves_nothing_of_a_deployment_that_is_reported_now(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(COUNT)
    async with board() as it:
        await it.poll(full=True)
        assert await it.verdict() == "drained"
    async with board(url=None, reported=True) as it:
        assert await it.codes() >= {"sweep_incomplete"}


async def test_a_fault_of_ours_in_one_poll_does_not_end_the_polls_that_follow(
    board: Open, server: FakeAgentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.settled(2)
    faults: list[BaseException] = [KeyError("a fault"), asyncio.CancelledError("its lock was lost")]
    poll = Poller.poll

    async def fails_twice(self: Poller, *, full: bool) -> PollSummary:
        if faults:
            raise faults.pop()
        return await poll(self, full=full)

    monkeypatch.setattr(Poller, "poll", fails_twice)
    monkeypatch.setattr(app.jobs.inprocess, "pause_after", lambda *_: timedelta(seconds=0.1))
    async with board(poll_interval="1s") as it:
        schedule = asyncio.create_task(keep_polling(it.app.state.runtime, NAME))
        try:
            async with asyncio.timeout(30):
                while (await it.deployment())["last_sweep"] is None:
                    await asyncio.sleep(0.1)
            assert not schedule.done()
        finally:
            schedule.cancel()
            await asyncio.gather(schedule, return_exceptions=True)
        assert faults == []
