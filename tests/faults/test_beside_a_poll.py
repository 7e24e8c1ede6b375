"""People and polls that write at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.faults.conftest import DRAIN, NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

ROUNDS, MOST = 3, 12


async def test_people_and_polls_never_wait_for_each_other_for_ever(board: Open, server: FakeAgentServer) -> None:
    """Deployment, drains, threads: everybody locks in this order, whatever is written. Otherwise PostgreSQL ends one of them."""
    server.parked("await_approval")
    server.parked("await_approval")
    other = DRAIN | {"name": "other", "remove_nodes": ["finish"]}
    async with board(drains=[other]) as it:
        await _ok(it, "POST", "/api/v1/drains", DRAIN)
        await it.poll(full=True)
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        listed = await it.get(f"/api/v1/deployments/{NAME}/threads?condition=stranded")
        ids = [item["thread_id"] for item in listed["items"]]
        assert len(ids) == 2
        for number in range(ROUNDS):
            poll = asyncio.create_task(it.poll(full=number % 2 == 0))
            await asyncio.gather(
                _while_it_runs(poll, lambda _: _acknowledge_and_take_back(it, ids)),
                _while_it_runs(poll, lambda n: _ok(it, "PATCH", "/api/v1/drains/drop-it", {"remove_nodes": _nodes(n)})),
                _while_it_runs(
                    poll, lambda n: _ok(it, "PUT", "/api/v1/drains", {"drains": [_drain("b", n), _drain("a", n)]})
                ),
            )
            await poll
        await it.poll(full=True)
        assert (await it.conditions())["stranded"] == 2


def _nodes(number: int) -> list[str]:
    return ["await_approval"] if number % 2 else ["await_approval", "finish"]


def _drain(name: str, number: int) -> dict[str, Any]:
    return DRAIN | {"name": name, "remove_nodes": _nodes(number)}


async def _while_it_runs(poll: asyncio.Task[Any], do: Callable[[int], Awaitable[Any]]) -> None:
    number = 0
    while not poll.done() and number < MOST:
        number += 1
        await do(number)


async def _acknowledge_and_take_back(it: Board, ids: list[str]) -> None:
    path = f"/api/v1/deployments/{NAME}/acknowledgements"
    said = await _ok(it, "POST", path, {"thread_ids": ids, "owner": "me", "reason": "done by hand"})
    await _ok(it, "DELETE", f"{path}/{said['id']}")


async def _ok(it: Board, method: str, path: str, body: Any = None) -> Any:
    answer = await it.http.request(method, path, json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()
