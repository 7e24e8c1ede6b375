"""Drains that are made, changed and closed through the API, and what a settings file does to them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import DRAIN, NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

NEW: dict[str, Any] = {
    "name": "made-here",
    "deployment": NAME,
    "graph": "support",
    "remove_nodes": ["await_approval"],
    "policy": {"soak_sweeps": 1, "soak_hold": "0s"},
}
HERE = "/api/v1/drains/made-here"


async def ask(it: Board, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
    answer = await it.http.request(method, path, json=body, headers=headers)
    return answer.status_code, answer.json()


async def refused(it: Board, method: str, path: str, body: Any = None) -> tuple[int, str]:
    status, found = await ask(it, method, path, body)
    assert set(found) == {"error"}
    assert set(found["error"]) == {"code", "message"}
    assert found["error"]["message"].endswith(".")
    return status, found["error"]["code"]


async def actions(it: Board) -> list[tuple[str, str]]:
    items = (await it.get("/api/v1/activity"))["items"]
    return [(item["action"], item["subject"]) for item in items if item["actor"] != "settings file"]


async def test_a_drain_that_is_made_twice_is_made_once(board: Open) -> None:
    async with board() as it:
        made = await ask(it, "POST", "/api/v1/drains", NEW)
        assert made == (
            201,
            {"drain": "made-here", "outcome": "created", "criteria_version": 1, "phase": "observing", "changed": []},
        )
        assert (await ask(it, "POST", "/api/v1/drains", NEW))[0] == 200
        assert (await ask(it, "POST", "/api/v1/drains", NEW | {"owner": "other"}))[1]["outcome"] == "unchanged"
        assert (await ask(it, "PUT", HERE, NEW))[1]["outcome"] == "unchanged"
        assert await actions(it) == [("drain.created", "made-here")]


async def test_other_criteria_under_the_same_name_need_a_put(board: Open) -> None:
    other = NEW | {"remove_nodes": ["finish"]}
    async with board() as it:
        await ask(it, "POST", "/api/v1/drains", NEW)
        assert await refused(it, "POST", "/api/v1/drains", other) == (409, "drain_exists")
        status, found = await ask(it, "PUT", HERE, other)
        assert (status, found["outcome"], found["criteria_version"], found["changed"]) == (
            200,
            "changed",
            2,
            ["remove_nodes"],
        )
        versions = (await it.get(f"{HERE}/versions"))["items"]
        assert [(each["version"], each["actor"]) for each in versions] == [(2, "API"), (1, "API")]
        assert [each["spec"]["targets"][0]["name"] for each in versions] == ["finish", "await_approval"]


async def test_what_was_proved_is_void_after_another_criterion_and_not_after_another_owner(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(2)
    async with board() as it:
        await ask(it, "POST", "/api/v1/drains", NEW)
        await it.poll(full=True)
        assert await it.verdict("made-here") == "drained"
        status, found = await ask(it, "PATCH", HERE, {"owner": "payments"})
        assert (status, found["changed"], found["criteria_version"]) == (200, ["owner"], 1)
        assert await it.verdict("made-here") == "drained"
        await ask(it, "PATCH", HERE, {"policy": {"soak_sweeps": 2}})
        answer = await it.gate("made-here")
        assert (answer["verdict"], answer["criteria_version"], answer["soak"]["sweeps"]) == ("unknown", 2, 0)
        assert answer["owner"] == "payments"
        detail = await it.get(HERE)
        assert (detail["versions"], detail["managed_by_file"]) == (2, False)
        assert detail["settings"]["policy"]["soak_sweeps"] == 2
        assert detail["settings"]["policy"]["soak_hold"] == "0s"


async def test_a_key_of_null_goes_back_to_its_default(board: Open) -> None:
    async with board() as it:
        await ask(it, "POST", "/api/v1/drains", NEW | {"owner": "payments"})
        await ask(it, "PATCH", HERE, {"owner": None, "policy": {"soak_hold": None}})
        settings = (await it.get(HERE))["settings"]
        assert (settings["owner"], settings["policy"]["soak_hold"]) == (None, "1h")
        assert settings["policy"]["soak_sweeps"] == 1


async def test_what_a_drain_shows_can_be_put_as_it_is(board: Open) -> None:
    every: dict[str, Any] = NEW | {
        "rename_fields": [{"old": "customer_name", "new": "display_name"}],
        "require_kinds": {"retries": "integer"},
        "remove_fields": ["notes"],
        "erase_fields": ["passport"],
        "minimum_state_version": 2,
        "newest_versions": {"state_version": 3},
        "intake_closed_at": "2026-11-01T00:00:00+01:00",
        "population": {"metadata": {"region": "eu"}, "created_before": "2026-12-01T00:00:00Z"},
        "policy": {
            "max_age": "90s",
            "retention": {"idle_for": "90d", "reason": "policy DP-12"},
            "require": ["threads"],
            "accept": ["idle_unverified"],
            "attestations": ["queues"],
        },
    }
    async with board(metadata_keys=["region"]) as it:
        assert (await ask(it, "POST", "/api/v1/drains", every))[0] == 201
        settings = (await it.get(HERE))["settings"]
        assert settings["minimum_versions"] == {"state_version": 2}
        assert settings["policy"]["max_age"] == "90s"
        assert (await ask(it, "PUT", HERE, settings))[1]["outcome"] == "unchanged"


WRONG: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "no target": ({"remove_nodes": []}, 422, "invalid", "something to remove"),
    "unknown key": ({"colour": "red"}, 422, "invalid", "colour"),
    "unknown deployment": ({"deployment": "nowhere"}, 404, "not_found", "nowhere"),
    "metadata that is not kept": ({"population": {"metadata": {"team": "x"}}}, 422, "invalid", "metadata_keys"),
    "version that is not read": ({"minimum_versions": {"other": 2}}, 422, "invalid", "version_keys"),
    "duration": ({"policy": {"max_age": "soon"}}, 422, "invalid", "30s, 15m"),
    "time without a zone": ({"intake_closed_at": "2026-12-01T00:00:00"}, 422, "invalid", "zone"),
    "bad name": ({"name": "a name"}, 422, "invalid", "letters"),
    "name of the form": ({"name": "new"}, 422, "invalid", "/drains/new"),
    "removing at once": ({"phase": "removing"}, 409, "not_drained", "gate"),
    "long node": ({"remove_nodes": ["x" * 501]}, 422, "invalid", "500"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_drain_that_cannot_be_is_refused_with_a_sentence(board: Open, case: str) -> None:
    change, status, code, words = WRONG[case]
    async with board() as it:
        for method, path in (("POST", "/api/v1/drains"), ("PUT", HERE)):
            if method == "PUT" and case in ("bad name", "name of the form"):
                continue
            found, body = await ask(it, method, path, NEW | change)
            assert (found, body["error"]["code"]) == (status, code)
            assert words in body["error"]["message"]
        assert (await ask(it, "GET", HERE))[0] == 404
        assert await actions(it) == []


async def test_a_drain_of_the_settings_file_is_changed_there_only(board: Open) -> None:
    mine = "/api/v1/drains/drop-it"
    async with board() as it:
        assert (await it.get(mine))["managed_by_file"] is True
        for method, path, body in (
            ("PATCH", mine, {"owner": "me"}),
            ("PUT", mine, DRAIN | {"remove_nodes": ["finish"]}),
            ("POST", "/api/v1/drains", DRAIN | {"remove_nodes": ["finish"]}),
            ("DELETE", mine, None),
        ):
            assert await refused(it, method, path, body) == (409, "managed_by_file")
        assert (await ask(it, "PUT", mine, DRAIN))[1]["outcome"] == "unchanged"
        assert await actions(it) == []


async def test_a_drain_that_is_no_longer_in_the_file_is_closed_and_can_be_opened_here(board: Open) -> None:
    other = DRAIN | {"name": "other"}
    async with board() as it:
        await it.poll(full=True)
    async with board(drains=[other]) as it:
        found = await it.get("/api/v1/drains/drop-it")
        assert (found["phase"], found["managed_by_file"]) == ("closed", False)
        assert "drain_closed" in await it.codes("drop-it")
        status, written = await ask(it, "PATCH", "/api/v1/drains/drop-it", {"phase": "observing"})
        assert (status, written["phase"], written["criteria_version"]) == (200, "observing", 1)
    async with board(drains=[other]) as it:
        assert (await it.get("/api/v1/drains/drop-it"))["phase"] == "observing"
    async with board() as it:
        assert (await it.get("/api/v1/drains/drop-it"))["managed_by_file"] is True
        assert (await it.get("/api/v1/drains/other"))["phase"] == "closed"
        closed = [item for item in (await it.get("/api/v1/activity"))["items"] if item["action"] == "drain.closed"]
        assert [(item["subject"], item["actor"]) for item in closed] == [
            ("other", "settings file"),
            ("drop-it", "settings file"),
        ]


async def test_the_sentence_says_in_which_file_to_change_it(board: Open, tmp_path: Path) -> None:
    async with board() as it:
        object.__setattr__(it.app.state.runtime.settings, "file", tmp_path / "drainboard.toml")
        _, body = await ask(it, "PATCH", "/api/v1/drains/drop-it", {"owner": "me"})
        assert str(tmp_path / "drainboard.toml") in body["error"]["message"]


async def test_closing_is_not_deleting_and_opening_again_starts_anew(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)
    async with board() as it:
        await ask(it, "POST", "/api/v1/drains", NEW)
        await it.poll(full=True)
        assert await it.verdict("made-here") == "drained"
        assert (await ask(it, "DELETE", HERE))[1]["phase"] == "closed"
        assert (await ask(it, "DELETE", HERE))[1]["outcome"] == "unchanged"
        assert await it.codes("made-here") >= {"drain_closed"}
        assert await refused(it, "POST", "/api/v1/drains", NEW) == (409, "drain_exists")
        assert (await ask(it, "PATCH", HERE, {"owner": "payments"}))[1]["phase"] == "closed"
        await ask(it, "PATCH", HERE, {"phase": "observing"})
        assert await it.verdict("made-here") == "unknown"
        assert [action for action, _ in await actions(it)].count("drain.closed") == 1


async def test_removing_is_only_reached_from_drained(board: Open, server: FakeAgentServer) -> None:
    thread = server.parked()
    async with board() as it:
        await ask(it, "POST", "/api/v1/drains", NEW)
        await it.poll(full=True)
        assert await refused(it, "PATCH", HERE, {"phase": "removing"}) == (409, "not_drained")
        server.finish(thread)
        await it.poll(full=True)
        assert await it.verdict("made-here") == "drained"
        changed = {"phase": "removing", "remove_nodes": ["finish"]}
        assert await refused(it, "PATCH", HERE, changed) == (409, "not_drained")
        assert (await ask(it, "PATCH", HERE, {"phase": "removing"}))[1]["phase"] == "removing"
        assert (await ask(it, "PATCH", HERE, {"owner": "payments"}))[1]["phase"] == "removing"


async def test_a_name_and_a_deployment_stay(board: Open) -> None:
    async with board() as it:
        await ask(it, "POST", "/api/v1/drains", NEW)
        assert await refused(it, "PUT", HERE, NEW | {"name": "another"}) == (422, "invalid")
        assert await refused(it, "PATCH", HERE, {"deployment": "stage"}) == (422, "invalid")
        assert await refused(it, "PATCH", HERE, {"policy": {"max_age": "soon"}}) == (422, "invalid")
        assert (await ask(it, "PUT", HERE, {key: NEW[key] for key in NEW if key != "name"}))[0] == 200
        for method in ("PATCH", "DELETE"):
            assert await refused(it, method, "/api/v1/drains/nothing", {}) == (404, "not_found")


async def test_two_that_make_the_same_name_at_once(board: Open) -> None:
    other = NEW | {"remove_nodes": ["finish"]}
    async with board() as it:
        found = await asyncio.gather(*(ask(it, "POST", "/api/v1/drains", each) for each in (NEW, other) * 4))
        statuses = sorted(status for status, _ in found)
        assert statuses == [200, 200, 200, 201, 409, 409, 409, 409]
        assert (await it.get(HERE))["versions"] == 1


async def test_a_file_of_drains_is_written_whole_or_not_at_all(board: Open) -> None:
    async with board() as it:
        await ask(it, "POST", "/api/v1/drains", NEW)
        bad = {"drains": [NEW | {"name": "fresh"}, DRAIN | {"owner": "me"}]}
        assert await refused(it, "PUT", "/api/v1/drains", bad) == (409, "managed_by_file")
        assert (await ask(it, "GET", "/api/v1/drains/fresh"))[0] == 404
        good = {"drains": [NEW | {"name": "fresh"}, NEW | {"owner": "me"}, DRAIN]}
        _, found = await ask(it, "PUT", "/api/v1/drains", good)
        assert {item["drain"]: item["outcome"] for item in found["items"]} == {
            "drop-it": "unchanged",
            "fresh": "created",
            "made-here": "changed",
        }
        twice = {"drains": [NEW, NEW]}
        assert await refused(it, "PUT", "/api/v1/drains", twice) == (422, "invalid")


async def test_another_site_changes_nothing(board: Open) -> None:
    async with board() as it:
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.test"}):
            status, body = await ask(it, "POST", "/api/v1/drains", NEW, **headers)
            assert (status, body["error"]["code"]) == (403, "cross_site")
        assert (await ask(it, "GET", HERE))[0] == 404


async def test_evaluations_and_the_audit_are_paged(board: Open, server: FakeAgentServer) -> None:
    async with board() as it:
        for _ in range(4):
            server.parked()
            await it.poll(full=True)
        found, cursor = [], ""
        for _ in range(4):
            page = await it.get(f"/api/v1/drains/drop-it/evaluations?limit=2{cursor}")
            found += [item["evaluated_at"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert len(found) == len(set(found)) >= 4
        assert found == sorted(found, reverse=True)
        for path in ("/api/v1/drains/drop-it/evaluations", "/api/v1/activity"):
            assert (await ask(it, "GET", f"{path}?cursor=nonsense"))[0] == 422


async def test_an_evidence_report_that_is_opened_is_in_the_audit(board: Open, server: FakeAgentServer) -> None:
    thread = server.parked()
    async with board() as it:
        await it.poll(full=True)
        place = f"/api/v1/deployments/{NAME}/threads/{thread.id}"
        await it.get(place)
        await it.get(f"{place}/evidence?live=true")
        await it.http.get(f"/deployments/{NAME}/threads/{thread.id}")
        items = (await it.get(f"/api/v1/activity?deployment={NAME}&limit=3"))["items"]
        assert [(item["action"], item["subject"]) for item in items] == [("evidence.opened", thread.id)] * 3
        assert [(item["actor"], item["detail"]["live"]) for item in items] == [
            ("browser", False),
            ("API", True),
            ("API", False),
        ]
