"""What callers may send to the API, and that none of it is answered with a crash or takes the board from others."""

from __future__ import annotations

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
    full |= {"require_kinds": dict.fromkeys(named, "text"), "rename_fields": [{"old": x, "new": f"{x}y"} for x in named]}
    async with board() as it:
        assert (await it.http.post(DRAINS, json=full)).status_code == 201
        assert (await it.poll(full=True)).state == "complete"
        assert (await it.http.get(DRAINS)).status_code == 200
        assert await it.verdict("made-here") == "unknown"
