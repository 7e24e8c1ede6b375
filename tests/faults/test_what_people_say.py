"""Waivers, acknowledgements and attestations through the API: what is stored, what is refused, what is listed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from app.inventory import register
from tests.faults.conftest import DRAIN, NAME, Board, Open
from tests.faults.fake_server import CANARY, FakeAgentServer, Thread
from tests.faults.test_drains_are_written import actions, ask, refused

MINE = "/api/v1/drains/drop-it"
OWNED: dict[str, Any] = {"owner": "payments", "reason": "taken over by hand"}
ASKING = [DRAIN | {"policy": DRAIN["policy"] | {"attestations": ["queues", "replicas"]}}]
KINDS = ("waivers", "acknowledgements", "attestations")


def names(threads: list[Thread], **more: Any) -> dict[str, Any]:
    return OWNED | {"thread_ids": [thread.id for thread in threads]} | more


def stranded(server: FakeAgentServer, count: int = 1) -> list[Thread]:
    """Threads that wait at a node that was removed before anybody looked."""
    found = [server.parked() for _ in range(count)]
    server.deploy("support", "intake", "finish")
    return found


async def stored_tasks(it: Board) -> dict[str, frozenset[str]]:
    async with it.app.state.runtime.store.database.read() as connection:
        return await register.acknowledged_tasks(connection, 1, None, it.clock())


async def test_a_waiver_is_listed_until_it_is_taken_back(board: Open, server: FakeAgentServer) -> None:
    threads = [server.parked() for _ in range(3)]
    async with board() as it:
        await it.poll(full=True)
        until = (it.clock() + timedelta(days=3)).isoformat()
        status, said = await ask(it, "POST", f"{MINE}/waivers", names(threads[:2], until=until))
        assert status == 201
        assert (said["kind"], said["owner"], said["reason"], said["count"]) == ("waiver", *OWNED.values(), 2)
        assert sorted(said["thread_ids"]) == sorted(thread.id for thread in threads[:2])
        assert (await it.get(MINE))["waivers"] == [said]
        assert (await it.get(f"{MINE}/waivers"))["items"] == [said]
        it.clock.tick(days=3)
        assert (await it.get(MINE))["waivers"] == []
        assert await ask(it, "DELETE", f"{MINE}/waivers/{said['id']}") == (200, {"ended": 2})
        assert await refused(it, "DELETE", f"{MINE}/waivers/{said['id']}") == (404, "not_found")
        assert (await it.get(f"{MINE}/waivers"))["items"][0]["ended_at"] is not None
        assert await actions(it) == [("waiver.ended", "drop-it"), ("threads.waived", "drop-it")]


async def test_an_id_is_read_as_a_uuid_and_counts_once(board: Open, server: FakeAgentServer) -> None:
    thread = server.parked()
    async with board() as it:
        await it.poll(full=True)
        ids = [thread.id.upper(), thread.id, f" {thread.id.replace('-', '')} "]
        _, said = await ask(it, "POST", f"{MINE}/waivers", OWNED | {"thread_ids": ids})
        assert (said["count"], said["thread_ids"]) == (1, [thread.id])


async def test_an_unknown_thread_makes_the_whole_call_fail_and_is_named(board: Open, server: FakeAgentServer) -> None:
    thread = server.parked()
    async with board() as it:
        await it.poll(full=True)
        unknown = [f"0000000{number:x}-0000-4000-8000-000000000000" for number in range(12)]
        status, body = await ask(it, "POST", f"{MINE}/waivers", OWNED | {"thread_ids": [thread.id, *unknown]})
        assert (status, body["error"]["code"]) == (422, "unknown_threads")
        assert unknown[0] in body["error"]["message"]
        assert unknown[11] not in body["error"]["message"]
        assert "and 2 more" in body["error"]["message"]
        assert thread.id not in body["error"]["message"]
        assert (await it.get(MINE))["waivers"] == []
        assert await actions(it) == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no owner": ({"owner": "  "}, "owner"),
    "no reason": ({"reason": ""}, "reason"),
    "long owner": ({"owner": "x" * 101}, "owner"),
    "long reason": ({"reason": "x" * 501}, "reason"),
    "no zone": ({"until": "2099-01-01T00:00:00"}, "until"),
    "past": ({"until": "2020-01-01T00:00:00Z"}, "until"),
    "unknown key": ({"colour": "red"}, "colour"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", WRONG)
async def test_what_is_said_needs_an_owner_a_reason_and_an_end_to_come(
    board: Open, server: FakeAgentServer, kind: str, case: str
) -> None:
    change, word = WRONG[case]
    threads = stranded(server)
    async with board(drains=ASKING) as it:
        await it.poll(full=True)
        body = (OWNED | {"names": ["queues"]} if kind == "attestations" else names(threads)) | change
        status, found = await ask(it, "POST", f"{MINE}/{kind}", body)
        assert (status, found["error"]["code"]) == (422, "invalid")
        assert word in found["error"]["message"]
        assert (await it.get(f"{MINE}/{kind}"))["items"] == []


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_call_names_one_to_a_thousand_threads(board: Open, count: int) -> None:
    ids = [f"00000000-0000-4000-8000-{number:012x}" for number in range(count)]
    async with board() as it:
        for kind in ("waivers", "acknowledgements"):
            status, found = await ask(it, "POST", f"{MINE}/{kind}", OWNED | {"thread_ids": ids})
            assert (status, found["error"]["code"]) == (422, "invalid")


async def test_only_what_is_stranded_or_lost_can_be_acknowledged(board: Open, server: FakeAgentServer) -> None:
    (settled,) = server.settled(1)
    (waits,) = stranded(server)
    async with board() as it:
        await it.poll(full=True)
        status, body = await ask(it, "POST", f"{MINE}/acknowledgements", names([waits, settled]))
        assert (status, body["error"]["code"]) == (422, "not_acknowledgeable")
        assert f"{settled.id} is " in body["error"]["message"]
        assert await stored_tasks(it) == {}
        status, said = await ask(it, "POST", f"{MINE}/acknowledgements", names([waits]))
        assert (status, said["count"]) == (201, 1)
        assert await stored_tasks(it) == {waits.id: {task for _, task in waits.pending}}
        assert (await it.get(MINE))["waivers"] == [said]
        assert await ask(it, "DELETE", f"{MINE}/acknowledgements/{said['id']}") == (200, {"ended": 1})
        assert await stored_tasks(it) == {}


async def test_what_the_first_sweep_found_is_acknowledged_in_one_go(board: Open, server: FakeAgentServer) -> None:
    path = f"/api/v1/deployments/{NAME}/acknowledgements"
    body = OWNED | {"codes": ["baseline"]}
    found = stranded(server, 3)
    async with board() as it:
        assert await refused(it, "POST", path, body) == (409, "nothing_to_acknowledge")
        await it.poll(full=True)
        status, said = await ask(it, "POST", path, body)
        assert (status, said["count"], said["names"]) == (201, 3, ["baseline"])
        assert set(await stored_tasks(it)) == {thread.id for thread in found}
        assert await refused(it, "POST", path, body) == (409, "nothing_to_acknowledge")
        assert (await it.get(path))["items"] == [said]
        assert await ask(it, "DELETE", f"{path}/{said['id']}") == (200, {"ended": 4})
        assert await stored_tasks(it) == {}


async def test_what_was_lost_since_is_no_baseline(board: Open, server: FakeAgentServer) -> None:
    """A thread that was seen waiting before the node went, and one that moved after the first sweep."""
    seen, (moved,) = server.parked(), server.settled(1)
    async with board() as it:
        await it.poll(full=True)
        it.clock.tick(seconds=1)
        server.park(moved)
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        assert (await it.conditions())["stranded"] == 2
        assert seen.id in str(await it.get(f"/api/v1/deployments/{NAME}/threads?condition=stranded"))
        path = f"/api/v1/deployments/{NAME}/acknowledgements"
        assert await refused(it, "POST", path, OWNED | {"codes": ["baseline"]}) == (409, "nothing_to_acknowledge")


async def test_an_alarm_can_be_acknowledged_only_while_it_stands(board: Open, server: FakeAgentServer) -> None:
    waiting = [server.parked() for _ in range(30)]
    path = f"/api/v1/deployments/{NAME}/acknowledgements"
    body = OWNED | {"codes": ["mass_disappearance"]}
    async with board() as it:
        await it.poll(full=True)
        assert await refused(it, "POST", path, body) == (409, "nothing_to_acknowledge")
        for thread in waiting:
            del server.threads[thread.id]
        server.settled(1)
        await it.poll(full=True)
        said = (await ask(it, "POST", path, body))[1]
        (alarm,) = [each for each in (await it.deployment())["alarms"] if each["code"] == "mass_disappearance"]
        assert alarm["acknowledged_at"] == said["created_at"]
        assert await refused(it, "POST", path, OWNED | {"codes": ["canary_missing", "mass_disappearance"]}) == (
            409,
            "nothing_to_acknowledge",
        )
        assert await refused(it, "POST", path, OWNED | {"codes": ["fell_at_deploy"]}) == (422, "invalid")
        assert await refused(it, "POST", f"{MINE}/acknowledgements", body) == (422, "invalid")
        fell = OWNED | {"codes": ["fell_at_deploy"]}
        assert await refused(it, "POST", f"{MINE}/acknowledgements", fell) == (409, "nothing_to_acknowledge")


async def test_an_attestation_is_ticked_for_the_criteria_of_today(board: Open) -> None:
    asking = ASKING[0] | {"name": "made-here"}
    here = "/api/v1/drains/made-here"
    async with board() as it:
        await ask(it, "POST", "/api/v1/drains", asking)
        status, said = await ask(it, "POST", f"{here}/attestations", {"owner": "ops", "names": ["queues"]})
        assert (status, [item["names"] for item in said["items"]]) == (201, [["queues"]])
        await ask(it, "POST", f"{here}/attestations", OWNED | {"name": "replicas"})
        assert [item["names"] for item in (await it.get(here))["attested"]] == [["replicas"], ["queues"]]
        other = OWNED | {"name": "tools"}
        assert await refused(it, "POST", f"{here}/attestations", other) == (422, "invalid")
        assert await refused(it, "POST", f"{here}/attestations", OWNED) == (422, "invalid")
        one = said["items"][0]["id"]
        assert await ask(it, "DELETE", f"{here}/attestations/{one}") == (200, {"ended": 1})
        await ask(it, "PATCH", here, {"remove_nodes": ["finish"]})
        assert (await it.get(here))["attested"] == []
        assert len((await it.get(f"{here}/attestations"))["items"]) == 2


async def test_nothing_is_said_about_a_drain_that_is_closed_or_not_there(board: Open, server: FakeAgentServer) -> None:
    threads = [server.parked()]
    async with board() as it:
        await it.poll(full=True)
        await ask(it, "POST", "/api/v1/drains", DRAIN | {"name": "made-here", "remove_nodes": ["finish"]})
        await ask(it, "DELETE", "/api/v1/drains/made-here")
        assert await refused(it, "POST", "/api/v1/drains/made-here/waivers", names(threads)) == (409, "drain_closed")
        for kind in KINDS:
            assert await refused(it, "GET", f"/api/v1/drains/nothing/{kind}") == (404, "not_found")
            assert await refused(it, "DELETE", f"{MINE}/{kind}/nothing") == (404, "not_found")
        nowhere = "/api/v1/deployments/nowhere/acknowledgements"
        assert await refused(it, "POST", nowhere, names(threads)) == (404, "not_found")
        assert await refused(it, "GET", nowhere) == (404, "not_found")


async def test_the_audit_has_names_and_counts_and_nothing_of_a_state(board: Open, server: FakeAgentServer) -> None:
    threads = [server.parked() for _ in range(12)]
    async with board() as it:
        await it.poll(full=True)
        await ask(it, "POST", f"{MINE}/waivers", names(threads))
        (entry,) = (await it.get("/api/v1/activity?limit=1"))["items"]
        assert (entry["deployment"], entry["actor"], entry["detail"]["threads"]) == (NAME, "API", 12)
        assert len(entry["detail"]["first"]) == 10
        assert CANARY not in str(entry)


async def test_what_was_said_is_listed_by_page_newest_first(board: Open, server: FakeAgentServer) -> None:
    """Two threads in each call, so that a page ends between calls and never within one."""
    threads = [server.parked() for _ in range(2)]
    attestations = {"attestations": [f"list {number}" for number in range(5)]}
    async with board(policy=attestations) as it:
        await it.poll(full=True)
        for number in range(5):
            assert (await ask(it, "POST", f"{MINE}/waivers", names(threads, reason=f"reason {number}")))[0] == 201
            body = {"name": f"list {number}", "owner": "me", "reason": "looked"}
            assert (await ask(it, "POST", f"{MINE}/attestations", body))[0] == 201
        for kind, key in (("waivers", "reason"), ("attestations", "names")):
            items: list[Any] = []
            sizes, cursor = [], ""
            while cursor is not None and len(sizes) < 9:
                page = await it.get(f"{MINE}/{kind}?limit=2" + (f"&cursor={cursor}" if cursor else ""))
                items += page["items"]
                sizes.append(len(page["items"]))
                cursor = page["next_cursor"]
            assert sizes == [2, 2, 1]
            wanted = (
                [f"reason {n}" for n in (4, 3, 2, 1, 0)]
                if kind == "waivers"
                else [[f"list {n}"] for n in (4, 3, 2, 1, 0)]
            )
            assert [item[key] for item in items] == wanted
            assert len((await it.get(f"{MINE}/{kind}"))["items"]) == 5
        assert (await it.get(f"{MINE}/versions"))["next_cursor"] is None
        assert (await it.http.get(f"{MINE}/waivers?cursor=nonsense")).status_code == 422


async def test_a_loss_that_was_acknowledged_about_one_drain_is_listed_by_every_drain_that_does_not_count_it(
    board: Open, server: FakeAgentServer
) -> None:
    (thread,) = stranded(server)
    other = DRAIN | {"name": "other"}
    async with board(drains=[DRAIN, other]) as it:
        await it.poll(full=True)
        assert (await it.get("/api/v1/drains/other"))["waivers"] == []
        _, said = await ask(it, "POST", f"{MINE}/acknowledgements", names([thread]))
        found = await it.get("/api/v1/drains/other")
        assert found["dispositions"]["acknowledged"] == 1
        assert [(each["id"], each["drain"], each["thread_ids"]) for each in found["waivers"]] == [
            (said["id"], "drop-it", [thread.id])
        ]
        page = (await it.http.get("/drains/other")).text
        assert f"/drains/drop-it/acknowledgements/{said['id']}/end" in page
