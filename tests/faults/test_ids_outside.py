"""With ``exported_ids = "pseudonyms"`` nothing that people carry away names a thread by its id, and here its pseudonym finds it."""

from __future__ import annotations

import pytest

from app.facts.privacy import pseudonym
from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

HERE = f"/api/v1/deployments/{NAME}/threads"
CARRIED_AWAY = (
    f"{HERE}/{{id}}/evidence",
    f"{HERE}/{{id}}/evidence?format=markdown",
    f"{HERE}/{{id}}/evidence?live=true&format=markdown",
    f"{HERE}/{{id}}/evidence?live=true",
    "/api/v1/drains/drop-it?format=markdown",
    "/api/v1/drains/drop-it/gate",
)
HERE_ONLY = (f"{HERE}/{{id}}", f"{HERE}/{{id}}?format=markdown", HERE, f"/deployments/{NAME}/threads/{{id}}")


async def text_of(it: Board, path: str) -> str:
    answer = await it.http.get(path)
    assert answer.status_code == 200, path
    return answer.text


@pytest.mark.parametrize("exported", ["pseudonyms", "clear"])
async def test_a_thread_is_called_by_its_pseudonym_outside_and_found_by_it_here(
    board: Open, server: FakeAgentServer, monkeypatch: pytest.MonkeyPatch, exported: str
) -> None:
    monkeypatch.setenv("DRAINBOARD_EXPORTED_IDS", exported)
    server.settled(2)
    thread = server.parked()
    async with board() as it:
        await it.poll(full=True)
        called = pseudonym(it.app.state.runtime.store.hash_key, NAME, thread.id)
        outside, other = (called, thread.id) if exported == "pseudonyms" else (thread.id, called)
        for path in CARRIED_AWAY:
            said = await text_of(it, path.format(id=thread.id))
            assert outside in said, path
            assert other not in said, path
            assert other.replace("-", "") not in said, path
        for path in HERE_ONLY:
            said = await text_of(it, path.format(id=thread.id))
            assert thread.id in said, path
            assert called not in said, path
        assert (await it.get(f"{HERE}/{called}"))["thread_id"] == thread.id
        assert (await it.get(f"{HERE}/{called}/evidence"))["thread_id"] == outside
        hits = (await it.get(f"/api/v1/search?q=the ticket says {called.upper()}, what is it"))["hits"]
        assert [(hit["name"], hit["about"]) for hit in hits] == [(thread.id, ["parked"])]
        found = await it.http.get(f"/search?q={called}")
        assert (found.status_code, found.headers["location"]) == (303, f"/deployments/{NAME}/threads/{thread.id}")
        nobody = await it.http.get(f"{HERE}/th_{'0' * 24}")
        assert (nobody.status_code, nobody.json()["error"]["code"]) == (404, "not_found")
        assert (await it.get(f"/api/v1/search?q=th_{'0' * 24}"))["hits"] == []
