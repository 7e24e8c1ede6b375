"""What people say about drains, as it is remembered: on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from sqlalchemy import JSON, column, func, insert, select, table, update
from sqlalchemy.ext.asyncio import AsyncConnection

from alembic import command
from app.errors import BadRequest
from app.inventory import reads, register, tables, writes
from app.inventory.cube import check_counts
from app.inventory.db import Database
from app.inventory.encode import is_nameless
from app.inventory.register import Words
from app.inventory.writes import Dictionaries
from app.places import MIGRATIONS
from tests.unit.builders import HOUR, NOW, facts, row, uuid_of


@dataclass
class Board:
    """A deployment with three threads and one drain."""

    database: Database
    deployment_id: int
    drain: Any

    async def waived(self, now: datetime) -> list[str]:
        async with self.database.read() as connection:
            where = register.is_waived(self.drain.id, now)
            return await reads.list_ids(connection, self.deployment_id, where=where, after="", limit=50)


@pytest.fixture
async def board(database: Database) -> Board:
    async with database.write() as connection:
        deployment_id = await writes.ensure_deployment(connection, "prod", NOW)
        threads = [facts(row(uuid_of(number), created_at=NOW - HOUR)) for number in (1, 2, 3)]
        await writes.upsert_threads(connection, Dictionaries(deployment_id), threads, poll_id=1)
        await writes.upsert_drain(connection, drain_values(deployment_id))
        drain = await reads.find_drain(connection, "drop-it")
    return Board(database, deployment_id, drain)


def drain_values(deployment_id: int) -> dict[str, Any]:
    return {
        "name": "drop-it",
        "deployment_id": deployment_id,
        "spec": {"deployment": "prod", "targets": [{"kind": "node", "name": "old"}]},
        "criteria_digest": "d",
        "criteria_version": 2,
        "managed_by_file": True,
        "created_at": NOW,
    }


def words(batch: str = "b1", *, until: datetime | None = None) -> Words:
    return Words(batch, owner="payments", reason="taken over by hand", until=until, created_at=NOW, actor="api")


def of(*numbers: int) -> dict[str, datetime]:
    return {uuid_of(number): NOW - HOUR for number in numbers}


async def test_a_waiver_counts_until_its_end_and_until_it_is_taken_back(board: Board) -> None:
    async with board.database.write() as connection:
        await register.add_waivers(connection, board.drain, of(1), words=words("b1", until=NOW + HOUR))
        await register.add_waivers(connection, board.drain, of(2), words=words("b2"))
    assert await board.waived(NOW) == [uuid_of(1), uuid_of(2)]
    assert await board.waived(NOW + HOUR) == [uuid_of(2)]
    async with board.database.write() as connection:
        assert await register.end_waivers(connection, board.drain.id, "b2", NOW) == 1
        assert await register.end_waivers(connection, board.drain.id, "b2", NOW) == 0
        assert [said.id for said in await register.active_waivers(connection, board.drain.id, NOW)] == ["b1"]
        every, _ = await register.list_waivers(connection, board.drain.id, limit=50)
    assert [(said.id, said.ended_at) for said in every] == [("b2", NOW), ("b1", None)]
    assert await board.waived(NOW) == [uuid_of(1)]


async def test_a_thread_made_anew_under_the_same_id_is_not_waived(board: Board) -> None:
    async with board.database.write() as connection:
        await register.add_waivers(connection, board.drain, of(1), words=words())
        anew = [facts(row(uuid_of(1), created_at=NOW))]
        await writes.upsert_threads(connection, Dictionaries(board.deployment_id), anew, poll_id=2)
    assert await board.waived(NOW) == []


async def test_a_call_is_shown_once_with_its_count_and_its_first_ids(board: Board) -> None:
    async with board.database.write() as connection:
        await register.add_waivers(connection, board.drain, of(*range(1, 51)), words=words())
        (said,) = await register.active_waivers(connection, board.drain.id, NOW)
    assert (said.kind, said.owner, said.count, len(said.thread_ids)) == ("waiver", "payments", 50, 20)
    assert said.thread_ids == tuple(uuid_of(number) for number in range(1, 21))


async def acknowledge(
    connection: AsyncConnection,
    board: Board,
    batch: str,
    threads: dict[str, list[str]],
    *codes: str,
    drain: bool = True,
) -> None:
    drain_id = board.drain.id if drain else None
    await register.add_acknowledgements(
        connection, board.deployment_id, drain_id=drain_id, threads=threads, codes=codes, words=words(batch)
    )


async def test_acknowledged_tasks_are_those_of_every_call_that_stands(board: Board) -> None:
    async with board.database.write() as connection:
        await acknowledge(connection, board, "b1", {uuid_of(1): ["t1"], uuid_of(2): ["t9"]})
        await acknowledge(connection, board, "b2", {uuid_of(1): ["t2", "t3"]}, drain=False)
        found = await register.acknowledged_tasks(connection, board.deployment_id, None, NOW)
        assert found == {uuid_of(1): {"t1", "t2", "t3"}, uuid_of(2): {"t9"}}
        ended = await register.end_acknowledgements(
            connection, board.deployment_id, drain_id=board.drain.id, batch="b1", now=NOW
        )
        assert (ended[0], sorted(ended[1]), ended[2]) == (2, [uuid_of(1), uuid_of(2)], ())
        found = await register.acknowledged_tasks(connection, board.deployment_id, [uuid_of(1), uuid_of(2)], NOW)
    assert found == {uuid_of(1): {"t2", "t3"}}


async def test_a_code_is_acknowledged_for_the_drain_or_for_the_deployment(board: Board) -> None:
    async with board.database.write() as connection:
        await acknowledge(connection, board, "b1", {}, "fell_at_deploy")
        await acknowledge(connection, board, "b2", {}, "mass_disappearance", "canary_missing", drain=False)
        of_drain = await register.acknowledged_codes(connection, board.deployment_id, drain_id=board.drain.id, now=NOW)
        of_all = await register.acknowledged_codes(connection, board.deployment_id, drain_id=None, now=NOW)
        (said,) = await register.active_acknowledgements(connection, board.deployment_id, drain_id=None, now=NOW)
    assert of_drain == {"fell_at_deploy": NOW}
    assert of_all == {"mass_disappearance": NOW, "canary_missing": NOW}
    assert (said.count, said.thread_ids, sorted(said.names)) == (0, (), ["canary_missing", "mass_disappearance"])


async def attested(board: Board, version: int, now: datetime = NOW) -> set[str]:
    async with board.database.read() as connection:
        found = await register.active_attestations(connection, board.drain.id, criteria_version=version, now=now)
        return {name for said in found for name in said.names}


async def test_an_attestation_is_for_the_criteria_it_was_ticked_for(board: Board) -> None:
    async with board.database.write() as connection:
        (one,) = await register.add_attestations(connection, board.drain, ["queues"], words=words(until=NOW + HOUR))
    assert await attested(board, 2) == {"queues"}
    assert await attested(board, 3) == set()
    assert await attested(board, 2, NOW + HOUR) == set()
    async with board.database.write() as connection:
        assert await register.end_attestation(connection, board.drain.id, int(one), NOW) == 1
    assert await attested(board, 2) == set()
    async with board.database.read() as connection:
        ((said,), _) = await register.list_attestations(connection, board.drain.id, limit=50)
    assert (said.names, said.ended_at, said.criteria_version) == (("queues",), NOW, 2)


async def test_the_versions_of_the_criteria_are_kept(board: Board) -> None:
    async with board.database.write() as connection:
        await register.add_version(connection, board.drain, now=NOW, actor="api")
        ((found,), _) = await register.list_versions(connection, board.drain.id, limit=50)
    assert (found.version, found.actor, found.spec) == (2, "api", board.drain.spec)


async def test_the_audit_is_paged_newest_first(board: Board) -> None:
    async with board.database.write() as connection:
        for number in range(5):
            await register.add_activity(
                connection,
                board.deployment_id if number else None,
                now=NOW + timedelta(minutes=number),
                actor="api",
                action="drain.changed",
                subject=f"drop-{number}",
                detail={"criteria_version": number},
            )
    seen, cursor = [], None
    async with board.database.read() as connection:
        for _ in range(3):
            items, cursor = await register.list_activity(connection, cursor=cursor, limit=2)
            seen += [(item.subject, item.deployment) for item in items]
        assert seen == [*((f"drop-{number}", "prod") for number in (4, 3, 2, 1)), ("drop-0", None)]
        assert cursor is None
        mine, _ = await register.list_activity(connection, deployments=["prod"], cursor=None, limit=9)
        assert len(mine) == 4
        with pytest.raises(BadRequest, match="cursor"):
            await register.list_activity(connection, cursor="bm9wZQ", limit=2)


# -- the way there from the first schema -----------------------------------------------------------------------------


def migrations(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    return config


def upgrade_to(url: str, revision: str) -> None:
    command.upgrade(migrations(url), revision)


def downgrade_to(url: str, revision: str) -> None:
    command.downgrade(migrations(url), revision)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/old.db"
    found: str = request.getfixturevalue("empty_postgres")
    return found


SPEC = {
    "deployment": "prod",
    "targets": [{"kind": "node", "name": "old"}, {"kind": "node", "name": "a/b"}, {"kind": "erase", "name": "x"}],
}
NAMES = "id deployment_id name spec criteria_digest criteria_version managed_by_file created_at sweeps removed_at drained_at"
FIRST_DRAIN = table(
    "drain",
    *(
        column(name, JSON if name == "spec" else tables.UtcDateTime if name.endswith("_at") else None)
        for name in NAMES.split()
    ),
)


async def old_deployment(connection: AsyncConnection) -> int:
    """A deployment as an earlier schema takes it, without columns that came later."""
    values = {"id": 1, "name": "prod", "created_at": NOW, "capabilities": {}, "assistants": {}}
    await connection.execute(insert(tables.deployment).values(**values))
    return 1


async def fill_the_first_schema(connection: AsyncConnection) -> None:
    """A drain whose target was removed and one whose was not, and what refers to them."""
    deployment_id = await old_deployment(connection)
    common = {"deployment_id": deployment_id, "spec": SPEC, "criteria_digest": "d", "created_at": NOW, "sweeps": 2}
    removed = {"id": 1, "name": "was-removed", "criteria_version": 3, "managed_by_file": True}
    stands = {"id": 2, "name": "stands", "criteria_version": 1, "managed_by_file": False}
    await connection.execute(
        insert(FIRST_DRAIN),
        [
            {**common, **removed, "removed_at": NOW + HOUR, "drained_at": NOW},
            {**common, **stands, "removed_at": None, "drained_at": None},
        ],
    )
    await writes.add_evaluation(
        connection,
        {
            "deployment_id": deployment_id,
            "drain_id": 1,
            "evaluated_at": NOW,
            "criteria_version": 3,
            "verdict": "drained",
            "answer": {},
        },
    )
    await writes.keep_arrivals(
        connection,
        [
            {
                "deployment_id": deployment_id,
                "drain_id": 1,
                "thread_id": "t",
                "target": "old",
                "seen_at": NOW,
                "created_at": NOW,
            }
        ],
    )


async def count(connection: AsyncConnection, name: str) -> int:
    return int(await connection.scalar(select(func.count()).select_from(tables.metadata.tables[name])) or 0)


async def test_rows_of_the_first_schema_survive_the_way_to_the_newest(empty_address: str) -> None:
    await asyncio.to_thread(upgrade_to, empty_address, "0001")
    database = Database(empty_address)
    async with database.write() as connection:
        await fill_the_first_schema(connection)
    await database.upgrade()
    async with database.read() as connection:
        was_removed = await reads.find_drain(connection, "was-removed")
        stands = await reads.find_drain(connection, "stands")
        versions = [one for drain in (1, 2) for one in (await register.list_versions(connection, drain, limit=50))[0]]
        counts = [await count(connection, name) for name in ("evaluation", "arrival", "drain")]
    assert was_removed is not None
    assert stands is not None
    at = (NOW + HOUR).isoformat()
    assert (was_removed.removed, was_removed.drained_at, was_removed.sweeps) == (
        {"node:old": at, "node:a/b": at},
        NOW,
        2,
    )
    assert stands.removed == {}
    assert [(found.version, found.actor, found.spec, found.created_at) for found in versions] == [
        (3, "settings file", SPEC, NOW),
        (1, "unknown", SPEC, NOW),
    ]
    assert counts == [1, 1, 2]
    await database.close()


async def test_the_way_back_to_the_first_schema_keeps_the_drains(empty_address: str) -> None:
    await asyncio.to_thread(upgrade_to, empty_address, "0001")
    database = Database(empty_address)
    async with database.write() as connection:
        await fill_the_first_schema(connection)
    await database.upgrade()
    await asyncio.to_thread(downgrade_to, empty_address, "0001")
    async with database.read() as connection:
        assert await count(connection, "evaluation") == 1
        names = (await connection.execute(select(FIRST_DRAIN.c.name).order_by(FIRST_DRAIN.c.id))).scalars()
        assert list(names) == ["was-removed", "stands"]
    await database.close()


async def test_storage_that_does_not_say_whether_a_state_is_stored_whole_is_read_again(empty_address: str) -> None:
    """Such an erasure was clear for ever: past checkpoints may hold the field in a state that is stored under no name."""
    database = Database(empty_address)
    await database.upgrade()
    said = {"branches": [], "joins": [], "sends": False, "fields": ["a"], "empty": []}
    async with database.write() as connection:
        deployment_id = await old_deployment(connection)
        for number, content in enumerate((said, said | {"nameless": False}), 1):
            values = {"deployment_id": deployment_id, "id": number, "digest": str(number), "content": content}
            await connection.execute(insert(tables.routes).values(**values))
        known = Dictionaries(deployment_id)
        await writes.upsert_threads(connection, known, [facts(row(uuid_of(n))) for n in (1, 2)], poll_id=1)
        for number in (1, 2):
            mine = tables.thread.c.thread_id == uuid_of(number)
            await connection.execute(update(tables.thread).where(mine).values(routes_id=number))
    await asyncio.to_thread(downgrade_to, empty_address, "0016")
    await database.upgrade()
    async with database.read() as connection:
        query = select(tables.thread.c.routes_id).order_by(tables.thread.c.thread_id)
        assert list((await connection.execute(query)).scalars()) == [None, 2]
    assert (await check_counts(database)).differences == ()
    await database.close()
    assert is_nameless(said)
