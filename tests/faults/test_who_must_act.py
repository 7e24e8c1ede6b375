"""Who must act on what blocks: by assistant, and by each metadata key that the settings keep."""

from __future__ import annotations

from typing import Any

from tests.faults.conftest import DRAIN, Open
from tests.faults.fake_server import FakeAgentServer

MINE = "/api/v1/drains/drop-it"


def _some_wait(server: FakeAgentServer) -> None:
    for region, team in (("eu", "a"), ("eu", "b"), ("us", 3), (None, None)):
        metadata: dict[str, Any] = {"region": region, "team": team}
        server.parked().metadata = {key: value for key, value in metadata.items() if value is not None}
    server.thread().metadata = {"region": "eu", "team": "a"}


async def test_threads_that_block_are_grouped_by_each_metadata_key_of_the_settings(
    board: Open, server: FakeAgentServer
) -> None:
    _some_wait(server)
    async with board(metadata_keys=["region", "team", "nobody_has_it"]) as it:
        await it.poll(full=True)
        assert (await it.get(MINE))["must_act_by"] == {
            "region": [{"value": "eu", "count": 2}, {"value": None, "count": 1}, {"value": "us", "count": 1}],
            "team": [
                {"value": None, "count": 1},
                {"value": "3", "count": 1},
                {"value": "a", "count": 1},
                {"value": "b", "count": 1},
            ],
        }


async def test_a_key_that_the_settings_do_not_name_groups_nothing(board: Open, server: FakeAgentServer) -> None:
    _some_wait(server)
    async with board() as it:
        await it.poll(full=True)
        found = await it.get(MINE)
        assert found["must_act_by"] == {}
        assert [group["count"] for group in found["must_act"]] == [4]


async def test_the_key_that_a_drain_selects_by_is_left_out(board: Open, server: FakeAgentServer) -> None:
    _some_wait(server)
    drain = DRAIN | {"population": {"metadata": {"region": "eu"}}}
    async with board(drains=[drain], metadata_keys=["region", "team"]) as it:
        await it.poll(full=True)
        assert list((await it.get(MINE))["must_act_by"]) == ["team"]


async def test_what_blocks_no_more_waits_for_nobody(board: Open, server: FakeAgentServer) -> None:
    server.thread().metadata = {"region": "eu"}
    async with board(metadata_keys=["region"]) as it:
        await it.poll(full=True)
        assert (await it.get(MINE))["must_act_by"] == {}


async def test_the_threads_of_each_who_must_act_are_exactly_those_that_are_counted(
    board: Open, server: FakeAgentServer
) -> None:
    _some_wait(server)
    async with board(metadata_keys=["region", "team"]) as it:
        await it.poll(full=True)
        found = await it.get(MINE)
        groups = [
            ({"by": key} if each["value"] is None else {"by": key, "value": each["value"]}, each["count"])
            for key, owners in found["must_act_by"].items()
            for each in owners
        ]
        groups += [({"assistant": each["assistant"] or "none"}, each["count"]) for each in found["must_act"]]
        assert len(groups) > len(found["must_act_by"])
        for asked, count in groups:
            listed = (await it.http.get(f"{MINE}/threads", params={**asked, "limit": 1})).json()
            assert listed["total"] == count, asked
            every = (await it.http.get(f"{MINE}/threads", params=asked)).json()
            assert len({each["thread_id"] for each in every["items"]}) == count, asked
            page = (await it.http.get("/drains/drop-it", params=asked)).text
            assert f"{count} of {count} thread" in page, asked
        assert (await it.http.get(f"{MINE}/threads", params={"assistant": "nobody-known"})).json()["total"] == 0
        assert (await it.http.get(f"{MINE}/threads", params={"by": "not_kept"})).status_code == 422
