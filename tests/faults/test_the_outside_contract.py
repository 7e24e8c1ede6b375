"""What callers may send to the API, and that none of it is answered with a crash or takes the board from others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

DRAINS = "/api/v1/drains"
MADE: dict[str, Any] = {"name": "made-here", "deployment": NAME, "graph": "support", "remove_nodes": ["old"]}


async def refused(it: Board, method: str, path: str, body: Any = None) -> tuple[int, str]:
    answer = await it.http.request(method, path, json=body)
    found = answer.json()
    assert set(found) == {"error"}
    assert set(found["error"]) == {"code", "message"}
    assert "\n" not in found["error"]["message"]
    return answer.status_code, found["error"]["code"]


@pytest.mark.parametrize("key", ["remove_nodes", "remove_fields", "erase_fields"])
async def test_one_drain_of_very_many_targets_does_not_take_the_board_from_everybody(board: Open, key: str) -> None:
    async with board() as it:
        many = {**MADE, key: [f"x{number}" for number in range(20_000)]}
        assert await refused(it, "POST", DRAINS, many) == (422, "invalid")
        assert await refused(it, "PUT", f"{DRAINS}/made-here", many) == (422, "invalid")
        assert await refused(it, "PATCH", f"{DRAINS}/drop-it", {key: many[key]}) == (422, "invalid")


async def test_a_drain_of_as_many_targets_as_are_taken_is_judged(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)
    named = [f"x{number}" for number in range(200)]
    full = {**MADE, "remove_nodes": named, "remove_fields": named, "erase_fields": named}
    full |= {
        "require_kinds": dict.fromkeys(named, "text"),
        "rename_fields": [{"old": x, "new": f"{x}y"} for x in named],
    }
    async with board() as it:
        assert (await it.http.post(DRAINS, json=full)).status_code == 201
        assert (await it.poll(full=True)).state == "complete"
        assert (await it.http.get(DRAINS)).status_code == 200
        assert await it.verdict("made-here") == "unknown"


@pytest.mark.parametrize("beyond", ["9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00"])
async def test_a_time_that_has_no_utc_is_refused_everywhere(board: Open, server: FakeAgentServer, beyond: str) -> None:
    thread = server.settled(1)[0].id
    own = {"owner": "me", "reason": "mine", "until": beyond}
    async with board() as it:
        await it.poll(full=True)
        for changed in ({"intake_closed_at": beyond}, {"population": {"created_before": beyond}}):
            assert await refused(it, "POST", DRAINS, MADE | changed) == (422, "invalid")
            assert await refused(it, "PATCH", f"{DRAINS}/drop-it", changed) == (422, "invalid")
        said = own | {"thread_ids": [thread]}
        assert await refused(it, "POST", f"{DRAINS}/drop-it/waivers", said) == (422, "invalid")


@pytest.mark.parametrize("edge", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
async def test_the_first_and_the_last_time_there_is_are_taken(board: Open, server: FakeAgentServer, edge: str) -> None:
    server.settled(1)
    async with board() as it:
        made = MADE | {"intake_closed_at": edge, "population": {"created_before": edge}}
        assert (await it.http.post(DRAINS, json=made)).status_code == 201
        assert (await it.poll(full=True)).state == "complete"
        assert await it.verdict("made-here") == "unknown"
        assert (await it.http.get("/drains/made-here")).status_code == 200


@pytest.mark.parametrize("name", ["new", "%00", "x" * 101, "a b", "\N{GRINNING FACE}"])
async def test_a_name_that_no_drain_can_have_is_refused_in_a_path_too(board: Open, name: str) -> None:
    body = {key: value for key, value in MADE.items() if key != "name"}
    async with board() as it:
        assert await refused(it, "PUT", f"{DRAINS}/{name}", body) == (422, "invalid")


@pytest.mark.parametrize("number", ["0", "-1", "9223372036854775808", "9" * 40, "x"])
@pytest.mark.parametrize("noun", ["polls", "deploys"])
async def test_a_number_that_no_row_has_is_refused(board: Open, noun: str, number: str) -> None:
    async with board() as it:
        assert await refused(it, "GET", f"/api/v1/deployments/{NAME}/{noun}/{number}") == (422, "invalid")


async def test_another_site_cannot_push_or_forget_the_thread_index(board: Open) -> None:
    place = f"/api/v1/deployments/{NAME}/index"
    async with board() as it:
        for method, body in (("PUT", {"threads": [{"thread_id": "a"}]}), ("DELETE", None)):
            for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere.test"}):
                answer = await it.http.request(method, place, json=body, headers=headers)
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
        assert (await it.http.put(place, json={"threads": []})).status_code == 200


@pytest.mark.parametrize(
    ("place", "megabytes"), [("drains", 9), ("deployments/prod/poll", 9), ("deployments/prod/index", 5)]
)
async def test_a_body_without_an_end_is_read_only_so_far(board: Open, place: str, megabytes: int) -> None:
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(megabytes * 10):
            sent += 1
            yield b" " * 1_000_000

    headers = {"Content-Type": "application/json"}
    method = "PUT" if place.endswith("index") else "POST"
    async with board() as it:
        answer = await it.http.request(method, f"/api/v1/{place}", content=parts(), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert sent == megabytes


@pytest.mark.parametrize("body", [b"\x95", b"[" * 100_000, b"{", b"\xff\xfe", b"nul"])
async def test_a_body_that_is_no_json_is_said_to_be_none(board: Open, body: bytes) -> None:
    async with board() as it:
        answer = await it.http.post(DRAINS, content=body, headers={"Content-Type": "application/json"})
        listed = it.app.openapi()["paths"][DRAINS]["post"]["responses"]
    assert answer.status_code in (400, 422)
    assert str(answer.status_code) in listed
    assert answer.json()["error"]["code"] in ("unreadable", "invalid")


async def test_every_reference_of_the_description_leads_somewhere(board: Open) -> None:
    async with board() as it:
        described = (await it.http.get("/api/v1/openapi.json")).json()
    named = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert _references(described) <= named


def _references(part: Any) -> set[str]:
    inner = list(part.values()) if isinstance(part, dict) else part if isinstance(part, list) else []
    own = {part["$ref"]} if isinstance(part, dict) and isinstance(part.get("$ref"), str) else set()
    return own.union(*map(_references, inner))


async def test_the_head_checkpoint_of_a_report_has_every_key(board: Open, server: FakeAgentServer) -> None:
    thread = server.parked().id
    async with board() as it:
        await it.poll(full=True)
        found = await it.get(f"/api/v1/deployments/{NAME}/threads/{thread}/evidence")
    assert set(found["checkpoint"]) == {"id", "parent_id", "ns", "created_at", "source", "step"}
    assert found["checkpoint"]["ns"] == ""


@pytest.mark.parametrize(
    "path",
    [
        f"{DRAINS}/drop-it/gate?max-age=1m",
        f"{DRAINS}/drop-it/gate?http-status=1",
        f"/api/v1/deployments/{NAME}/inventory?status=bogus",
        f"/api/v1/deployments/{NAME}/threads?condition=parked&condition=xx",
        f"/api/v1/deployments/{NAME}/threads?age=2d",
        f"/api/v1/deployments/{NAME}/threads?state_version=abc",
        f"/api/v1/deployments/{NAME}/inventory?state_version=007",
        f"/api/v1/deployments/{NAME}/inventory?graph=%00",
        f"{DRAINS}/drop-it/threads?reason=bogus",
        f"{DRAINS}/drop-it/threads?disposition=bogus",
    ],
)
async def test_what_is_misspelt_is_refused_and_does_not_ask_for_less(board: Open, path: str) -> None:
    async with board() as it:
        await it.poll(full=True)
        status, _ = await refused(it, "GET", path)
        assert status == 422


async def test_the_gate_of_a_closed_drain_is_unknown_although_threads_wait(
    board: Open, server: FakeAgentServer
) -> None:
    server.parked()
    async with board() as it:
        await it.poll(full=True)
        assert (await it.http.post(DRAINS, json={**MADE, "remove_nodes": ["await_approval"]})).status_code == 201
        await it.poll(full=True)
        assert await it.verdict("made-here") == "blocked"
        assert (await it.http.request("DELETE", f"{DRAINS}/made-here")).status_code == 200
        assert (await it.verdict("made-here"), await it.codes("made-here")) == ("unknown", {"drain_closed"})


async def test_the_history_of_a_drain_has_points_and_what_left(board: Open, server: FakeAgentServer) -> None:
    waiting = [server.parked() for _ in range(2)]
    async with board() as it:
        await it.poll(full=True)
        server.finish(waiting[0])
        await it.poll()
        del server.threads[waiting[1].id]
        await it.poll(full=True)
        it.clock.tick(seconds=1)
        found = await it.get(f"{DRAINS}/drop-it/history")
        assert found["points"][0]["blocking"] == 2
        assert found["points"][-1]["blocking"] == 0
        assert sum(sum(one["left"].values()) for one in found["flow"]) == 2
        assert sum(one["arrived"] for one in found["flow"]) == 0  # they were there when it was first looked at
        assert await refused(it, "GET", f"{DRAINS}/drop-it/history?since=2020-01-01T00:00:00Z") == (422, "bad_request")


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": {"soak_sweeps": "2"}},
        {"policy": {"soak_sweeps": 2.0}},
        {"minimum_versions": {"state_version": "2"}},
        {"minimum_state_version": 1.0},
        {"owner": "a\0b"},
        {"remove_nodes": ["a\0b"]},
        {"graph": "\0"},
        {"population": {"metadata": {"a\0": "b"}}},
        {"policy": {"attestations": ["a\0b"]}},
    ],
)
async def test_a_value_of_another_kind_is_refused_and_not_read_as_the_right_one(
    board: Open, wrong: dict[str, Any]
) -> None:
    async with board() as it:
        assert await refused(it, "POST", DRAINS, MADE | wrong) == (422, "invalid")
        assert await refused(it, "PATCH", f"{DRAINS}/drop-it", wrong) in ((422, "invalid"), (409, "managed_by_file"))
        assert await refused(it, "POST", f"/api/v1/deployments/{NAME}/poll", {"full": 0}) == (422, "invalid")


async def test_a_blank_owner_is_none(board: Open) -> None:
    async with board() as it:
        assert (await it.http.post(DRAINS, json=MADE | {"owner": "  "})).status_code == 201
        assert (await it.get(f"{DRAINS}/made-here"))["owner"] is None


async def test_the_minimum_of_the_state_version_can_be_changed_by_its_short_name(board: Open) -> None:
    async with board() as it:
        made = MADE | {"minimum_versions": {"state_version": 2}}
        assert (await it.http.post(DRAINS, json=made)).status_code == 201
        place = f"{DRAINS}/made-here"
        assert (await it.http.patch(place, json={"minimum_state_version": 3})).status_code == 200
        assert (await it.get(place))["settings"]["minimum_versions"] == {"state_version": 3}
        assert (await it.http.patch(place, json={"minimum_state_version": None})).status_code == 200
        assert (await it.get(place))["settings"]["minimum_versions"] == {}


async def test_the_threads_of_a_blocking_reason_are_those_of_its_disposition(
    board: Open, server: FakeAgentServer
) -> None:
    waiting = server.parked()
    async with board() as it:
        await it.poll(full=True)
        found = await it.get(f"{DRAINS}/drop-it/threads?reason=parked_at_target")
        assert [each["thread_id"] for each in found["items"]] == [waiting.id]


async def test_a_wrong_method_is_answered_with_all_that_are_taken(board: Open) -> None:
    async with board() as it:
        answer = await it.http.request("DELETE", DRAINS)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST, PUT")
        assert "PATCH" in (await it.http.request("POST", f"{DRAINS}/drop-it")).headers["allow"]


async def test_a_report_as_markdown_says_whether_the_thread_is_there_and_is_noted_once(
    board: Open, server: FakeAgentServer
) -> None:
    thread = server.parked().id
    place = f"/api/v1/deployments/{NAME}/threads/{{}}/evidence?format=markdown"
    async with board() as it:
        await it.poll(full=True)
        found = await it.http.get(place.format(thread))
        absent = await it.http.get(place.format("00000000-0000-0000-0000-00000000ffff"))
        assert (found.headers["drainboard-found"], absent.headers["drainboard-found"]) == ("true", "false")
        noted = (await it.get("/api/v1/activity"))["items"]
        assert [each["subject"] for each in noted if each["action"] == "evidence.opened"][1:] == [thread]
        listed = it.app.openapi()["paths"]["/api/v1/deployments/{deployment}/threads/{thread_id}/evidence"]
        assert "text/markdown" in listed["get"]["responses"]["200"]["content"]
