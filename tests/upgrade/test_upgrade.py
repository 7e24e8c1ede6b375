"""A database of the earliest version that ran a demo is brought up: nothing is lost, and nothing is drained by it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.demo.run import DEMO_DRAINS
from app.inventory import proofs
from app.inventory.db import Database, head_revision
from app.main import create_app
from app.settings import Settings
from tests.counts import check_kept
from tests.faults.conftest import READS_A_CLOCK, Board
from tests.faults.fake_server import Clock, FakeAgentServer, Thread
from tests.upgrade.stored import REVISION, STOPPED_AT, Rows, on_postgresql, on_sqlite, rows_of

TRACES = {"project": "demo", "endpoint": "http://langsmith.test"}
NOT_OLD = {"alembic_version"}
CHANGED = {("thread", "routes_id")}
"""What a migration is meant to change."""


@pytest.fixture
def old(tmp_path: Path) -> str:
    """The address of the old database."""
    on_sqlite(tmp_path / "old.db")
    return f"sqlite+aiosqlite:///{tmp_path}/old.db"


@pytest.fixture
def old_on_postgresql(old: str, tmp_path: Path, empty_postgres: str) -> str:
    on_postgresql(empty_postgres, tmp_path / "old.db")
    return empty_postgres


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(STOPPED_AT + timedelta(seconds=5))
    for module in READS_A_CLOCK:
        monkeypatch.setattr(module, "utc_now", made)
    return made


@asynccontextmanager
async def drainboard(
    address: str, folder: Path, clock: Clock, server: FakeAgentServer, **deployment: Any
) -> AsyncIterator[Board]:
    settings = Settings(
        database_url=address,
        key_file=folder / "board.key",
        home=folder,
        deployments=[{"name": "demo", "url": "http://agent.test", "requests_per_minute": 600_000} | deployment],
        drains=DEMO_DRAINS,
    )
    application = create_app(settings, schedule=False, transport=lambda _: server.transport)
    async with application.router.lifespan_context(application):
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test") as http:
            yield Board(application, http, clock)
    await check_kept(address)


def plain(address: str) -> str:
    return address.replace("+aiosqlite", "")


def without(rows: Rows, columns: dict[str, list[str]]) -> Rows:
    """The rows with the columns that were there before, but for those that are meant to change."""
    return {
        name: [{key: row[key] for key in columns[name] if (name, key) not in CHANGED} for row in rows[name]]
        for name in columns
    }


@pytest.mark.parametrize("kind", ["old", "old_on_postgresql"])
def test_nothing_is_lost_by_the_upgrade_and_nothing_is_drained_by_it(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path, clock: Clock
) -> None:
    address = request.getfixturevalue(kind)
    asyncio.run(_loses_nothing(address))
    codes = asyncio.run(_right_after(address, tmp_path, clock, expected="unknown"))
    assert {"sweep_incomplete", "idle_unverified", "soaking", "target_not_deployed"} <= codes


def test_without_the_rule_the_old_verdict_would_stand(
    old: str, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trusts(*_: Any) -> None:
        """Whatever was proved."""

    monkeypatch.setattr(proofs, "distrust_other_rules", trusts)
    assert asyncio.run(_right_after(old, tmp_path, clock, expected="drained")) == set()


async def _loses_nothing(address: str) -> None:
    before = rows_of(plain(address))
    assert before["alembic_version"][0]["version_num"] == REVISION
    database = Database(address)
    await database.upgrade()
    assert await database.revision() == head_revision()
    await database.close()
    after = rows_of(plain(address))
    columns = {name: list(rows[0]) for name, rows in before.items() if rows and name not in NOT_OLD}
    assert {"thread", "observation", "evaluation", "trace_run", "waiver", "activity", "deploy"} <= set(columns)
    assert without(after, columns) == without(before, columns)
    assert sum(cell["n"] for cell in after["thread_cell"]) == len(before["thread"])
    await check_kept(address)


async def _right_after(address: str, folder: Path, clock: Clock, *, expected: str) -> set[str]:
    """Everything is fresh, and the old version said drained a moment ago; but by weaker rules."""
    async with drainboard(address, folder, clock, FakeAgentServer(clock), langsmith=TRACES) as it:
        blocked = await it.gate("drop-await-approval")
        assert (blocked["verdict"], blocked["dispositions"]["parked_at_target"]) == ("blocked", 7)
        answers = (await it.get("/api/v1/drains/drop-legacy-triage/evaluations"))["items"]
        assert answers[0]["verdict"] == "drained", "what it said then can still be read"
        gate = await it.gate("drop-legacy-triage")
        assert gate["verdict"] == expected
        return {reason["code"] for reason in gate["reasons"]}


async def test_after_polls_it_says_what_a_new_installation_says(old: str, tmp_path: Path, clock: Clock) -> None:
    server = FakeAgentServer(clock)
    server.graphs = {
        "support": ["intake", "triage", "await_approval", "refund", "lookup_order", "collect_payment", "respond"],
        "parcels": ["receive", "check_item", "close_parcel"],
    }
    _go_on(server, rows_of(plain(old)))
    clock.tick(days=2)
    told = []
    for place in (old, f"sqlite+aiosqlite:///{tmp_path}/new.db"):
        database = Database(place)
        await database.upgrade()
        await database.close()
        async with drainboard(place, tmp_path, clock, server) as it:
            for _ in range(3):
                assert (await it.app.state.runtime.poll("demo", full=True)).state == "complete"
                clock.tick(hours=1)
            await it.app.state.runtime.poll("demo", full=True)
            told.append([await _said(it, drain["name"]) for drain in DEMO_DRAINS] + [await _conditions(it)])
            if place == old:
                assert "target_not_deployed" in await it.codes("drop-legacy-triage"), (
                    "that it went safely is no proof any more"
                )
    assert told[0] == told[1]
    server.graphs["support"].append("legacy_triage")
    async with drainboard(old, tmp_path, clock, server) as it:
        for _ in range(3):
            await it.app.state.runtime.poll("demo", full=True)
            clock.tick(hours=1)
        await it.app.state.runtime.poll("demo", full=True)
        assert (await it.gate("drop-legacy-triage"))["verdict"] == "drained", "put back, it can be proved anew"


async def _said(it: Board, drain: str) -> tuple[str, dict[str, int], set[str]]:
    gate = await it.gate(drain)
    counts = gate["dispositions"] | {"gone": 0, "waived": 0, "passed": 0}
    counts["parked_at_target"] += gate["dispositions"]["waived"]
    counts["unaffected"] += gate["dispositions"]["passed"]
    return gate["verdict"], counts, {reason["code"] for reason in gate["reasons"]}


async def _conditions(it: Board) -> dict[str, int]:
    """What no drain needs stays presumed, where a new installation has read it."""
    found = dict((await it.get("/api/v1/deployments/demo"))["conditions"])
    found["settled"] += found.pop("presumed_settled", 0)
    return found


def _go_on(server: FakeAgentServer, rows: Rows) -> None:
    """The threads as the old database knows them, but for those that wait in a subgraph, or several times at a node, which the
    stand-in cannot: they are deleted meanwhile."""
    shapes = {row["id"]: _json(row["content"]) for row in rows["shape"]}
    for row in rows["thread"]:
        detail = _json(row["detail"])
        leaves = detail["leaves"]
        if row["condition"] == "gone" or len(leaves) > 1 or any(leaf["ns"] for leaf in leaves):
            continue
        fields = shapes[row["row_shape_id"]]["fields"] if row["row_shape_id"] else {}
        server.threads[row["thread_id"]] = Thread(
            id=row["thread_id"],
            created_at=_time(row["created_at"]),
            updated_at=_time(row["updated_at"]),
            graph=row["graph_id"],
            head_graph=row["head_graph_id"] or row["graph_id"],
            status=row["status"],
            values={name: name for name in fields} or None,
            pending=[(leaf["node"], leaf["task_id"]) for leaf in leaves],
            static=not any(leaf["interrupts"] for leaf in leaves),
            ran=row["condition"] != "never_ran",
        )


def _json(raw: Any) -> Any:
    return json.loads(raw) if isinstance(raw, str) else raw


def _time(raw: Any) -> datetime:
    return datetime.fromisoformat(raw).replace(tzinfo=UTC) if isinstance(raw, str) else raw
