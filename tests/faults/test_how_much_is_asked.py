"""What a page or a route asks of the database does not grow with the threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from tests.faults.conftest import DRAIN, NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

API = f"/api/v1/deployments/{NAME}"
PAGES = (
    "/",
    f"/deployments/{NAME}",
    f"/deployments/{NAME}?condition=parked&state_version=missing&age=1h",
    f"/deployments/{NAME}/threads?status=idle",
    "/drains",
    "/drains/drop-it",
    "/drains/retained",
    "/activity",
    "/metrics",
    API,
    f"{API}/inventory",
    f"{API}/inventory?pending=await_approval",
    f"{API}/threads?sort=created_at",
    f"{API}/deploys",
    "/api/v1/drains",
    "/api/v1/drains/drop-it",
    "/api/v1/drains/drop-it/gate",
    "/api/v1/drains/drop-it/threads",
    "/api/v1/drains/drop-it/threads?disposition=unaffected",
    "/api/v1/drains/drop-it/history",
    "/api/v1/drains/drop-it/evaluations",
    "/api/v1/drains/drop-it/waivers",
    "/api/v1/drains/retained/gate",
)
FOR_A_GATE, FOR_A_PAGE = 30, 100
RETAINED = DRAIN | {
    "name": "retained",
    "policy": DRAIN["policy"] | {"retention": {"idle_for": "1h", "reason": "they expire"}},
}


@contextmanager
def counted(it: Board) -> Iterator[list[str]]:
    """The statements that were sent meanwhile."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        found.append(statement)

    engine = it.app.state.runtime.store.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def questions(it: Board) -> dict[str, int]:
    found = {}
    for path in PAGES:
        with counted(it) as statements:
            answer = await it.http.get(path)
        assert answer.status_code == 200, (path, answer.text)
        found[path] = len(statements)
    return found


async def test_more_threads_are_no_more_questions(board: Open, server: FakeAgentServer) -> None:
    def fill(count: int) -> None:
        server.settled(count)
        for _ in range(count):
            server.parked("await_approval")

    fill(2)
    async with board(drains=[DRAIN, RETAINED]) as it:
        await it.poll(full=True)
        fill(2)
        await it.poll(full=True)
        await questions(it)  # what is looked up once in a process
        few = await questions(it)
        fill(60)
        await it.poll(full=True)
        await questions(it)
        assert await questions(it) == few
        assert few["/api/v1/drains/drop-it/gate"] <= FOR_A_GATE
        assert max(few.values()) <= FOR_A_PAGE
