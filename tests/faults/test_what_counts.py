"""What people say, and what a rule excludes, in the verdict: counted, listed beside it, and over when its time is over."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx

from tests.faults.conftest import DRAIN, NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer
from tests.faults.test_drains_are_written import ask

MINE = "/api/v1/drains/drop-it"
OWNED: dict[str, Any] = {"owner": "payments", "reason": "dealt with by hand"}
FIELDS: dict[str, Any] = {key: value for key, value in DRAIN.items() if key != "remove_nodes"}


async def counts(it: Board) -> dict[str, int]:
    return {name: count for name, count in (await it.gate())["dispositions"].items() if count}


async def say(it: Board, what: str, **body: Any) -> None:
    status, answer = await ask(it, "POST", what if what.startswith("/") else f"{MINE}/{what}", OWNED | body)
    assert status == 201, answer


async def test_a_waived_thread_does_not_count_until_the_waiver_ends(board: Open, server: FakeAgentServer) -> None:
    waiting = server.parked()
    server.settled(2)
    async with board() as it:
        await it.poll(full=True)
        assert await it.verdict() == "blocked"
        until = it.clock() + timedelta(minutes=5)
        await say(it, "waivers", thread_ids=[waiting.id], until=until.isoformat())
        assert await counts(it) == {"waived": 1, "presumed": 2}
        await it.poll(full=True)
        assert await counts(it) == {"waived": 1, "unaffected": 2}
        answer = await it.gate()
        assert answer["verdict"] == "drained"
        assert datetime.fromisoformat(answer["valid_until"]) == until
        assert [said["thread_ids"] for said in answer["waivers"]] == [[waiting.id]]
        it.clock.tick(minutes=5)
        assert await it.verdict() == "blocked"


async def test_an_acknowledged_stranding_does_not_count_until_the_node_is_back(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    async with board() as it:
        waiting = server.parked()
        await it.poll(full=True)
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        assert await counts(it) == {"stranded": 1, "presumed": 2}
        await say(it, "acknowledgements", thread_ids=[waiting.id])
        assert (await it.gate())["dispositions"]["acknowledged"] == 1
        await it.poll(full=True)
        assert (await it.gate())["dispositions"]["acknowledged"] == 1
        assert await it.verdict() == "unknown"  # the node is not deployed, so nobody sees who else waits there
        assert await it.codes() >= {"target_not_deployed"}
        server.deploy("support", "intake", "await_approval", "finish")
        await it.poll(full=True)
        assert await it.verdict() == "blocked"
        assert (await it.gate())["dispositions"]["parked_at_target"] == 1


async def test_a_disappearance_that_was_acknowledged_no_longer_withholds_but_the_next_one_does(
    board: Open, server: FakeAgentServer
) -> None:
    first, second = [server.parked() for _ in range(30)], [server.parked() for _ in range(30)]
    async with board() as it:
        await it.poll(full=True)
        for threads in (first, second):
            for thread in threads:
                del server.threads[thread.id]
            server.settled(1)
            await it.poll(full=True)
            assert "mass_disappearance" in await it.codes()
            it.clock.tick(seconds=1)
            await say(it, f"/api/v1/deployments/{NAME}/acknowledgements", codes=["mass_disappearance"])
            assert "mass_disappearance" not in await it.codes()
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.codes() == set()


async def test_an_attestation_is_needed_until_it_is_ticked_and_again_when_it_ends(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(1)
    async with board(policy={"attestations": ["queues", "replicas"]}) as it:
        await it.poll(full=True)
        assert await it.codes() == {"attestation_missing"}
        await say(it, "attestations", names=["queues"])
        assert await it.codes() == {"attestation_missing"}
        await say(it, "attestations", names=["replicas"], until=(it.clock() + timedelta(minutes=2)).isoformat())
        answer = await it.gate()
        assert answer["verdict"] == "drained"
        assert datetime.fromisoformat(answer["valid_until"]) == it.clock() + timedelta(minutes=2)
        it.clock.tick(minutes=2)
        assert await it.codes() == {"attestation_missing"}


async def test_settled_threads_past_retention_do_not_count(board: Open, server: FakeAgentServer) -> None:
    old: dict[str, Any] = {"values": {"customer_name": "a"}}
    server.settled(1, **old)
    rename = FIELDS | {"rename_fields": [{"old": "customer_name", "new": "display_name"}]}
    policy = DRAIN["policy"] | {"retention": {"idle_for": "2h", "reason": "they expire"}, "max_age": "9h"}
    async with board(drains=[rename | {"policy": policy}]) as it:
        await it.poll(full=True)
        assert await counts(it) == {"holds_old_field": 1}
        it.clock.tick(hours=2)
        assert await counts(it) == {
            "holds_old_field": 1
        }  # idle for long enough, and nobody has looked whether it is done
        await it.poll(full=True)
        assert await counts(it) == {"retention": 1}
        server.settled(1, **old)
        await it.poll(full=True)
        assert await counts(it) == {"retention": 1, "holds_old_field": 1}


async def test_two_targets_may_be_removed_one_after_the_other(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board(drains=[DRAIN | {"remove_nodes": ["await_approval", "finish"]}]) as it:
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.deploy("support", "intake")
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "drained"  # deployed again, and still nobody there
        server.parked("finish")
        await it.poll()
        assert await it.verdict() == "blocked"


async def test_a_target_that_was_removed_while_something_waited_is_not_drained_by_removing_the_other(
    board: Open, server: FakeAgentServer
) -> None:
    server.parked("finish")
    server.settled(2)
    async with board(drains=[DRAIN | {"remove_nodes": ["await_approval", "finish"]}]) as it:
        await it.poll(full=True)
        server.deploy("support", "intake", "await_approval")
        await it.poll(full=True)
        server.deploy("support", "intake")
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() != "drained"


async def test_a_fall_at_a_deploy_ends_when_it_is_acknowledged(board: Open, server: FakeAgentServer) -> None:
    waiting = server.parked()
    server.settled(2)
    async with board() as it:
        await it.poll(full=True)
        server.deploy("support", "intake", "await_approval", "finish", "await_approval_too")
        server.edges = [("intake", "await_approval"), ("finish", "await_approval")]  # the target is a join now: touched
        waiting.pending, waiting.checkpoint = [], 9  # its history is gone, so nothing tells how it left
        waiting.status, waiting.updated_at = "idle", it.clock()
        await it.poll(full=True)
        assert "fell_at_deploy" in await it.codes()
        server.edges = []
        for _ in range(2):
            await it.poll(full=True)
        assert "fell_at_deploy" in await it.codes()
        it.clock.tick(seconds=1)
        await say(it, "acknowledgements", codes=["fell_at_deploy"])
        assert "fell_at_deploy" not in await it.codes()
        for _ in range(2):
            await it.poll(full=True)
        assert await it.codes() == set()
        (said,) = (await it.get(f"{MINE}/acknowledgements"))["items"]
        assert await ask(it, "DELETE", f"{MINE}/acknowledgements/{said['id']}") == (200, {"ended": 1})
        assert "fell_at_deploy" in await it.codes()


async def test_a_field_is_erased_only_when_storage_shows_it_nowhere(board: Open, server: FakeAgentServer) -> None:
    held = server.settled(1, values={"passport_number": "x"}, channels={"passport_number", "branch:to:finish"})[0]
    server.settled(1)
    server.fields.append("passport_number")
    async with board(drains=[FIELDS | {"erase_fields": ["passport_number"]}]) as it:
        await it.poll(full=True)
        assert await counts(it) == {"holds_old_field": 1, "unaffected": 1}
        held.values, held.updated_at = {"note": "x"}, it.clock()  # gone from the state, still in the history
        await it.poll()
        assert await counts(it) == {"holds_old_field": 1, "unaffected": 1}
        held.channels.discard("passport_number")  # the runs were deleted, which moves no row
        await it.poll()
        assert await counts(it) == {"holds_old_field": 1, "unaffected": 1}
        await it.poll(full=True)
        assert await counts(it) == {"unaffected": 2}
        await it.poll(full=True)
        assert await it.verdict() == "drained"
        server.fields.remove("passport_number")  # whoever still sends it is stored whole, under no name
        server.deploy("support", "intake", "await_approval", "finish", "new")
        for _ in range(2):
            await it.poll(full=True)
        assert await it.codes() == {"target_not_deployed"}


async def test_without_storage_an_erasure_is_not_proved(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)
    server.fail("/storage", lambda _: httpx.Response(404, json={"detail": "Not Found"}))
    async with board(drains=[FIELDS | {"erase_fields": ["passport_number"]}]) as it:
        await it.poll(full=True)
        await it.poll(full=True)
        assert await it.verdict() == "unknown"
        assert "history_unseen" in await it.codes()
