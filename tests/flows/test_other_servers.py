"""The real Agent Server behind a transport that answers as Aegra does: every situation, and nothing false is said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.agent.fixtures import SituationsServer
from tests.faults.other_servers import AEGRA, OLD, Kind, OtherServer
from tests.flows import truth
from tests.flows.product import DEPLOYMENT, node_drain, ok, one_deployment
from tests.flows.truth import QUIET

KINDS = (AEGRA, *(kind for kind in OLD if kind.name in ("no state time",)))
HIDDEN_WITHOUT_A_STATE_TIME = (
    "sent_there_and_rolled_back",
    "sent_from_where_it_asked_and_rolled_back",
    "sent_there_and_cancelled",
)
"""Only the row's state time shows that something hides there (docs/decisions/0015)."""

NOBODY_CAN_TELL = frozenset({"unread", "unplaced"})


def named(kind: Kind) -> str:
    return kind.name


@asynccontextmanager
async def looked(url: str, kind: Kind, folder: Path, *drains: Mapping[str, Any]) -> AsyncIterator[httpx.AsyncClient]:
    """The product in this process, after a sweep and a scan of a server of that kind."""
    settings = Settings(
        **one_deployment(url, *drains), database_url=f"sqlite+aiosqlite:///{folder}/board.db", home=folder
    )
    app = create_app(settings, schedule=False, transport=lambda _: OtherServer(kind, httpx.AsyncHTTPTransport()))
    async with app.router.lifespan_context(app):
        for full in (True, False):
            summary = await app.state.runtime.poll(DEPLOYMENT, full=full)
            assert (summary.state, summary.reasons) == ("complete", ())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test") as client:
            yield client


@pytest.mark.parametrize("kind", KINDS, ids=named)
async def test_no_situation_is_told_wrongly(situations_server: SituationsServer, tmp_path: Path, kind: Kind) -> None:
    quiet = [node_drain(f"quiet-{graph}", graph, node) for graph, node in QUIET.items()]
    async with looked(situations_server.url, kind, tmp_path, *quiet) as client:
        page = ok(await client.get(f"/api/v1/deployments/{DEPLOYMENT}/threads", params={"limit": 500}))
        told = {item["thread_id"]: item for item in page["items"]}
    for one in situations_server.situations:
        if one.name in truth.NOT_LISTED or one.name in HIDDEN_WITHOUT_A_STATE_TIME:
            continue
        said = told[one.thread_id]
        assert (one.name, said["condition"]) in {(one.name, c) for c in truth.condition(one) | NOBODY_CAN_TELL}
        if one.name in ("parked_by_interrupt", "breakpoint_before", "breakpoint_after", "inner_parked", "half_step"):
            assert (one.name, said["condition"]) == (one.name, "parked")
        if one.status != "busy":
            named = set(one.seen) | (set() if kind is AEGRA else set(truth.NAMED_BY_PROOF.get(one.name, ())))
            assert (one.name, said["pending"]) == (one.name, sorted(named))


@pytest.mark.parametrize("kind", KINDS, ids=named)
async def test_a_drain_of_a_node_where_a_thread_waits_is_never_drained(
    situations_server: SituationsServer, tmp_path: Path, kind: Kind
) -> None:
    waits = {(one.graph, leaf) for one in situations_server.situations for leaf in (*one.pending, *one.unseen)}
    drains = [node_drain(f"drop-{n}", graph, node) for n, (graph, node) in enumerate(sorted(waits))]
    async with looked(situations_server.url, kind, tmp_path, *drains) as client:
        for drain in drains:
            answer = ok(await client.get(f"/api/v1/drains/{drain['name']}/gate"))
            assert (drain["remove_nodes"], answer["verdict"]) != (drain["remove_nodes"], "drained")


async def test_a_harmless_thread_is_clear_behind_a_server_like_aegra(
    situations_server: SituationsServer, tmp_path: Path
) -> None:
    one = situations_server["finished"]
    drain = node_drain("quiet", one.graph, QUIET[one.graph])
    async with looked(situations_server.url, AEGRA, tmp_path, drain) as client:
        page = ok(await client.get("/api/v1/drains/quiet/threads", params={"disposition": "unaffected", "limit": 500}))
    assert {one.thread_id, situations_server["answered"].thread_id} <= {item["thread_id"] for item in page["items"]}
