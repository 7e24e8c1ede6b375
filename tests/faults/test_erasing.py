"""One thread is erased: nothing of it is left, and nothing is drained because of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import JSON, Text, cast, insert, select

from app.facts.privacy import pseudonym
from app.inventory import erasing, reads, tables, writes
from app.inventory.db import Database
from app.inventory.erasing import Subject
from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer, Thread
from tests.faults.test_a_sweep_that_is_stopped import _kill_at_page, _remembers_at_every_page  # noqa: F401
from tests.faults.test_drains_are_written import ask

HERE = f"/api/v1/deployments/{NAME}/threads"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


async def erase(it: Board, thread: Thread) -> tuple[int, Any]:
    return await ask(it, "DELETE", f"{HERE}/{thread.id}")


async def everywhere(it: Board, text: str) -> set[str]:
    """Every column of every table in which a text stands."""
    found = set()
    async with it.app.state.runtime.store.database.read() as connection:
        for table in tables.metadata.sorted_tables:
            for column in table.columns:
                where = cast(column, Text).contains(text, autoescape=True)
                if (await connection.execute(select(column).where(where).limit(1))).first() is not None:
                    found.add(f"{table.name}.{column.name}")
    return found


async def test_nothing_is_left_of_an_erased_thread_but_a_pseudonym_in_the_audit(
    board: Open, server: FakeAgentServer, tmp_path: Path
) -> None:
    thread, other = server.parked(), server.parked()
    words = {"owner": "payments", "reason": "by hand", "thread_ids": [thread.id, other.id]}
    async with board() as it:
        await it.poll(full=True)
        assert (await ask(it, "POST", "/api/v1/drains/drop-it/waivers", words))[0] == 201
        await it.get(f"{HERE}/{thread.id}")
        await it.poll(full=True)
        server.deploy("support", "intake", "finish")
        server.deploy("support", "intake", "finish", "await_approval")
        task = thread.pending[0][1]
        assert len(await everywhere(it, thread.id)) >= 6
        assert "observation.task_id" in await everywhere(it, task)
        del server.threads[thread.id]
        status, found = await erase(it, thread)
        assert status == 200
        assert found["rows"]["thread"] == found["rows"]["waiver"] == 1
        assert await everywhere(it, thread.id) == set()
        assert await everywhere(it, task) == set()
        called = pseudonym(it.app.state.runtime.store.hash_key, NAME, thread.id)
        assert found["pseudonym"] == called
        assert await everywhere(it, called) <= {"activity.subject", "activity.detail", "evaluation.answer"}
        if (tmp_path / "board.db").exists():
            files = b"".join(file.read_bytes() for file in tmp_path.glob("board.db*"))  # noqa: ASYNC240
            assert thread.id.encode() not in files
            assert other.id.encode() in files
        newest = (await it.get("/api/v1/activity"))["items"][0]
        assert (newest["action"], newest["subject"]) == ("thread.erased", called)
        assert await it.verdict() == "unknown"
        await it.poll()
        assert (await it.inventory())["total"] == 1
        assert await everywhere(it, thread.id) == set()
        assert await ask(it, "DELETE", f"{HERE}/{thread.id}") == (
            404,
            (await ask(it, "DELETE", f"{HERE}/{thread.id}"))[1],
        )


async def test_an_erased_thread_that_is_still_there_comes_back_and_nothing_is_drained_before(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(5)
    thread = server.parked()
    async with board(verify_idle_per_sweep=100) as it:
        for _ in range(2):
            await it.poll(full=True)
        assert await it.verdict() == "blocked"
        assert (await erase(it, thread))[0] == 200
        assert await it.verdict() == "unknown"
        assert "sweep_incomplete" in await it.codes()
        server.fail("POST /threads/search", lambda _: httpx.Response(500), times=50)
        await it.poll()
        assert await it.verdict() == "unknown"
        server.faults.clear()
        assert (await it.poll()).kind == "sweep", "a scan would not see it: it has not moved"
        assert await it.verdict() == "blocked"
        server.finish(thread)
        for _ in range(3):
            await it.poll(full=True)
        assert await it.verdict() == "drained", "nor is it never drained again"


async def test_a_sweep_under_way_proves_nothing_of_a_thread_that_is_erased_meanwhile(
    board: Open, server: FakeAgentServer
) -> None:
    """It has passed the thread already. It ends complete, without it."""
    thread = server.parked(id="00000000-0000-0000-0000-000000000001")
    server.settled(12)
    async with board(verify_idle_per_sweep=100) as it:
        await it.poll(full=True)

        async def erases(request: httpx.Request) -> httpx.Response:
            assert (await erase(it, thread))[0] == 200
            return server._route(request)

        server.fail("POST /threads/search", erases, times=1, skip=3)
        poll = await it.poll(full=True)
        assert (poll.kind, server.faults[0].times) == ("sweep", 0)
        assert "sweep_incomplete" in await it.codes()
        assert (await it.poll()).kind == "sweep"
        assert await it.verdict() == "blocked"


@pytest.mark.usefixtures("_remembers_at_every_page")
async def test_a_stopped_sweep_does_not_go_on_behind_a_thread_that_was_erased(
    board: Open, server: FakeAgentServer
) -> None:
    thread = server.parked(id="00000000-0000-0000-0000-000000000001")
    server.settled(40)
    async with board(verify_idle_per_sweep=100) as it:
        await _kill_at_page(it, server, 10)
        async with it.app.state.runtime.store.database.read() as connection:
            mark = (await reads.find_deployment(connection, NAME)).sweep_mark  # type: ignore[union-attr]
        assert mark is not None
        assert (await erase(it, thread))[0] == 200
        async with it.app.state.runtime.store.database.write() as connection:
            # A process that was stopped for a while, with a clock that is ahead, writes its mark after all.
            mark |= {"began_at": "2027-01-01T00:00:00+00:00"}
            await writes.update_deployment(connection, 1, sweep_mark=mark)
        poll = await it.poll()
        assert (poll.state, poll.threads_seen) == ("complete", 41)
        assert await it.verdict() == "blocked"


@pytest.mark.parametrize("when", ["before the node is removed", "after the node was removed"])
async def test_a_waived_thread_is_not_forgotten_into_a_drained_removal(
    board: Open, server: FakeAgentServer, when: str
) -> None:
    """It waits at the node, and counted not because somebody took it over. Without the node nobody can see that it waits."""
    thread = server.parked(static=True)
    server.settled(3)
    words = {"owner": "payments", "reason": "by hand", "thread_ids": [thread.id]}
    async with board(verify_idle_per_sweep=100) as it:
        await it.poll(full=True)
        assert (await ask(it, "POST", "/api/v1/drains/drop-it/waivers", words))[0] == 201
        for _ in range(3):
            await it.poll(full=True)
        assert await it.verdict() == "drained"
        if when.startswith("before"):
            assert (await erase(it, thread))[0] == 200
        server.deploy("support", "intake", "finish")
        thread.status = "idle"  # as the server has it of a copy, or of a rolled-back run
        if when.startswith("after"):
            await it.poll(full=True)
            status, said = await erase(it, thread)
            if status == 409:
                assert said["error"]["code"] == "only_here"
                return
        for _ in range(4):
            await it.poll(full=True)
            assert await it.verdict() != "drained"


async def test_what_only_drainboard_knows_of_is_not_erased(board: Open, server: FakeAgentServer) -> None:
    thread = server.parked()
    async with board() as it:
        await it.poll(full=True)
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        status, said = await erase(it, thread)
        assert (status, said["error"]["code"]) == (409, "only_here")
        assert (await it.inventory())["total"] == 1
        server.finish(thread)
        await it.poll(full=True)
        assert (await it.conditions()) == {"lost": 1}
        assert (await erase(it, thread))[1]["error"]["code"] == "only_here"
        del server.threads[thread.id]
        await it.poll(full=True)
        assert (await erase(it, thread))[0] == 200


async def test_a_loss_behind_a_reading_that_failed_is_not_erased(board: Open, server: FakeAgentServer) -> None:
    """The node is back, so nothing but what is remembered says that an answer was thrown away."""
    server.settled(3)
    thread = server.parked()
    async with board(verify_idle_per_sweep=100) as it:
        await it.poll(full=True)
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        server.finish(thread)
        await it.poll(full=True)
        assert (await it.conditions())["lost"] == 1
        server.deploy("support", "intake", "finish", "await_approval")
        server.fail(f"/threads/{thread.id}/state", lambda _: httpx.Response(503), times=50)
        thread.updated_at = it.clock.tick(minutes=1)
        await it.poll(full=True)
        assert (await it.conditions())["unread"] == 1
        status, said = await erase(it, thread)
        assert (status, said["error"]["code"]) == (409, "only_here")
        server.faults.clear()
        for _ in range(3):
            await it.poll(full=True)
            assert await it.verdict() != "drained"


async def test_a_listed_id_that_is_erased_makes_the_index_old_and_a_wiped_store_stays_one(
    board: Open, server: FakeAgentServer
) -> None:
    threads = [server.parked() for _ in range(30)]
    unseen = "77777777-0000-7000-8000-000000000001"
    async with board() as it:
        await it.poll(full=True)
        index = f"/api/v1/deployments/{NAME}/index"
        rows = [{"thread_id": each} for each in (unseen, threads[0].id)]
        assert (await ask(it, "PUT", index, {"threads": rows}))[0] == 200
        assert "index_stale" not in await it.codes()
        assert (await ask(it, "DELETE", f"{HERE}/{unseen}"))[0] == 200
        assert "index_stale" in await it.codes()
        await it.poll(full=True)
        server.threads.clear()
        await it.poll(full=True)
        assert "mass_disappearance" in await it.codes()
        assert (await erase(it, threads[3]))[1]["error"]["code"] == "vanished"


async def test_what_proofs_count_on_stays_without_the_thread(address: str) -> None:
    """An arrival that leaks and a traced run of the node: who it was is forgotten, that it was is not."""
    database = Database(address)
    thread_id = 'an "own" id, 100% of_it/ü' + "x" * 220
    subject = Subject(1, thread_id, "th_pseudonym", b"k" * 32)
    async with database.write() as connection:
        await writes.ensure_deployment(connection, NAME, NOW)
        await connection.execute(
            insert(tables.drain).values(
                id=1, deployment_id=1, name="d", spec={}, criteria_digest="x", criteria_version=1, managed_by_file=False,
                created_at=NOW, removed={}, sweeps=3, holds_since=NOW,
            )
        )  # fmt: skip
        one = {"deployment_id": 1, "thread_id": thread_id}
        await connection.execute(
            insert(tables.arrival).values(**one, drain_id=1, target="node", seen_at=NOW, created_at=NOW)
        )
        run = {"node": "n", "trace_id": "t", "started_at": NOW, "end": "success"}
        await connection.execute(
            insert(tables.trace_run).values(deployment_id=1, thread_id=None, run_id="other", **run)
        )
        short = thread_id[:36]  # as many characters as a traced thread may have
        await connection.execute(
            insert(tables.trace_run).values(deployment_id=1, thread_id=short, run_id="mine", **run)
        )
        detail = {"first": [thread_id, "another"], "threads": 2}
        audit = {"deployment_id": 1, "at": NOW, "actor": "a", "action": "evidence.opened"}
        await connection.execute(insert(tables.activity).values(**audit, subject=thread_id[:200], detail=detail))
        rows = await erasing.erase(connection, subject)
        assert rows == {"arrival": 1, "activity": 1}
        assert await erasing.erase(connection, Subject(1, short, "th_short", b"k" * 32)) == {"trace_run": 1}
        await erasing.want_everything_again(connection, 1, {})
        drain = await reads.find_drain(connection, "d")
        assert drain is not None
        assert (drain.sweeps, drain.holds_since) == (0, None)
        (arrival,) = await connection.execute(select(tables.arrival))
        assert arrival.thread_id.startswith("erased-")
        runs = {row.run_id: row for row in await connection.execute(select(tables.trace_run))}
        assert len(runs) == 2
        assert {(row.thread_id, row.node) for row in runs.values()} == {(None, "n")}
        assert "mine" not in runs
        (line,) = await connection.execute(select(tables.activity))
        assert (line.subject, line.detail) == ("th_pseudonym", {"first": ["th_pseudonym", "another"], "threads": 2})
    await database.close()


def test_a_new_table_or_column_cannot_be_forgotten() -> None:
    """Whatever holds a thread's id by its name is erased; whatever holds any text of a deployment was thought about."""
    named = {table.name for table in tables.metadata.sorted_tables if "thread_id" in table.columns}
    assert named == {table.name for table in erasing._ITS_ROWS} | {"arrival", "trace_run"}
    scrubbed = {(table.name, column.name) for table, columns in erasing._TEXTS for column in columns}
    loose = {
        (table.name, column.name)
        for table in tables.metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, JSON | Text) and table.name not in named
    }
    thought_about = {
        *(("deployment", name) for name in ("capabilities", "assistants", "source", "pace")),  # of the server
        *(("deployment", name) for name in ("sweep_mark", "verification")),  # are forgotten as a whole
        *((name, "content") for name in ("topology", "shape", "work", "routes")),  # names of nodes and fields
        ("graph_revision", "topology"),
        *(("drain", name) for name in ("spec", "removed")),  # criteria: nodes, fields, versions
        ("drain_version", "spec"),
        *(("api_token", name) for name in ("rights", "deployments")),
        ("delivery", "body"),  # holds pseudonyms, which are taken out
    }
    assert loose - scrubbed == thought_about
