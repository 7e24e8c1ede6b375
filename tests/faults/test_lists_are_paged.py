"""The lists of drains and of deployments: each of them on one page, whatever is made meanwhile."""

from __future__ import annotations

from tests.faults.conftest import DRAIN, Board, Open

NAMES = ["apart", "drop-it", "early", "other", "zeal"]


async def _pages(it: Board, path: str, name: str, *, limit: int) -> list[list[str]]:
    pages, cursor = [], None
    for _ in range(len(NAMES) + 1):
        asked = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
        found = (await it.http.get(path, params=asked)).json()
        pages.append([each[name] for each in found["items"]])
        cursor = found["next_cursor"]
        if cursor is None:
            return pages
    raise AssertionError("a list has an end")


async def test_every_drain_is_on_one_page(board: Open) -> None:
    drains = [DRAIN | {"name": name} for name in reversed(NAMES)]
    async with board(drains=drains) as it:
        for limit, sizes in ((2, [2, 2, 1]), (5, [5]), (50, [5])):
            pages = await _pages(it, "/api/v1/drains", "drain", limit=limit)
            assert [len(page) for page in pages] == sizes
            assert [name for page in pages for name in page] == NAMES
        first = (await it.http.get("/api/v1/drains", params={"limit": 2})).json()["next_cursor"]
        made = DRAIN | {"name": "b-made-meanwhile"}
        assert (await it.http.post("/api/v1/drains", json=made)).status_code == 201
        second = (await it.http.get("/api/v1/drains", params={"limit": 2, "cursor": first})).json()
        assert [each["drain"] for each in second["items"]] == NAMES[2:4]


async def test_deployments_are_paged_in_the_same_way_and_no_foreign_cursor_is_taken(board: Open) -> None:
    async with board() as it:
        assert await _pages(it, "/api/v1/deployments", "name", limit=1) == [["prod"]]
        for path in ("/api/v1/drains", "/api/v1/deployments"):
            for wrong in ({"cursor": "nonsense"}, {"limit": 0}, {"limit": 501}):
                assert (await it.http.get(path, params=wrong)).status_code == 422, (path, wrong)
