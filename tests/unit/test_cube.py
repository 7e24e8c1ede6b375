"""The counts of threads that are kept beside them, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from alembic.config import Config
from sqlalchemy import and_, delete, insert, select, text, update

from alembic import command
from app.errors import StoreError
from app.facts.types import Condition, Status, ThreadFacts
from app.inventory import cube, db, reads, register, subjects, tables, writes
from app.inventory.cube import check_counts
from app.inventory.db import Database
from app.inventory.register import Words
from app.inventory.subjects import Lens
from app.inventory.writes import Dictionaries
from app.places import MIGRATIONS
from tests.unit.builders import HOUR, MINUTE, NODE, NOW, facts, leaf, parked, parked_row, row, run, uuid_of
from tests.unit.test_inventory import ZOO, Inventory, inventory  # noqa: F401 - a fixture
from tests.unit.test_register import old_deployment

DAY = 24 * HOUR
MOMENTS = (NOW, NOW + 59 * MINUTE, NOW + 3 * HOUR, NOW + 8 * DAY, NOW - 2 * HOUR, NOW + 200 * DAY, NOW - 40 * DAY)


def any_thread(random: Random) -> ThreadFacts:
    moved = NOW - random.choice([MINUTE, 50 * MINUTE, HOUR, 5 * HOUR, DAY, 9 * DAY, 33 * DAY, 91 * DAY, 400 * DAY])
    found = random.choice(ZOO)
    return replace(
        found,
        row=replace(
            found.row,
            thread_id=uuid_of(random.randrange(40)),
            updated_at=moved + random.choice([timedelta(0), MINUTE]),
            state_updated_at=random.choice([None, moved]),
            graph_id=random.choice([None, "support", "billing"]),
            assistant_id=random.choice([None, "a", "b"]),
        ),
        head_graph=random.choice([None, "support"]) if found.state is None else None,
        revision_id=random.choice([None, 1, 2]),
    )


async def brute_ages(database: Database, deployment_id: int, now: datetime) -> dict[str, int]:
    counts = dict.fromkeys(cube.AGE_NAMES, 0)
    table = tables.thread
    query = select(table.c.state_updated_at, table.c.updated_at).where(
        table.c.deployment_id == deployment_id, table.c.condition != "gone"
    )
    async with database.read() as connection:
        for state_updated_at, updated_at in await connection.execute(query):
            old = now - (state_updated_at or updated_at)
            counts[next((name for name, length in cube.AGES.values() if old < length), "older")] += 1
    return counts


@pytest.mark.parametrize("seed", range(4))
async def test_the_counts_are_those_of_the_threads_whatever_is_done_to_them(inventory: Inventory, seed: int) -> None:  # noqa: F811
    random, database, mine = Random(seed), inventory.database, inventory.deployment_id
    some = lambda: [uuid_of(random.randrange(40)) for _ in range(5)]  # noqa: E731
    table = tables.thread
    for step in range(25):
        async with database.write() as connection:
            match random.randrange(8):
                case 0 | 1:
                    batch = {one.row.thread_id: one for one in (any_thread(random) for _ in range(12))}
                    await writes.upsert_threads(connection, inventory.dictionaries, list(batch.values()), poll_id=1)
                case 2:
                    await writes.mark_gone(connection, mine, some(), poll_id=1, now=NOW)
                case 3:
                    await writes.mark_seen(connection, mine, some(), poll_id=step, now=NOW)
                case 4:
                    await writes.distrust_readings(connection, mine, since=NOW - random.choice([HOUR, DAY, 90 * DAY]))
                case 5:
                    await cube.move_ages(connection, mine, random.choice(MOMENTS))
                case 6:
                    where = and_(table.c.deployment_id == mine, table.c.thread_id.in_(some()))
                    await connection.execute(delete(table).where(where))
                case 7:
                    await writes.distrust_older_readings(connection, mine, table.c.thread_id.in_(some()))
        assert (await check_counts(database)).differences == ()
        now = random.choice(MOMENTS)
        async with database.read() as connection:
            found = await reads.get_inventory(connection, inventory.scope(), {}, now=now)
        assert found.facets["age"] == await brute_ages(database, mine, now)


async def test_what_was_rolled_back_was_not_counted(inventory: Inventory) -> None:  # noqa: F811
    async with inventory.database.write() as connection:
        undone = await connection.begin_nested()
        await writes.upsert_threads(connection, inventory.dictionaries, ZOO, poll_id=1)
        assert await cube.count(connection, inventory.deployment_id, reads.is_alive) > 0
        await undone.rollback()
    async with inventory.database.read() as connection:
        assert await cube.count(connection, inventory.deployment_id, reads.is_alive) == 0


async def test_a_deployment_that_is_deleted_takes_its_counts_with_it(inventory: Inventory) -> None:  # noqa: F811
    await inventory.keep(*ZOO)
    async with inventory.database.write() as connection:
        await connection.execute(delete(tables.deployment).where(tables.deployment.c.id == inventory.deployment_id))
    async with inventory.database.read() as connection:
        left = set((await connection.execute(select(tables.thread_cell.c.deployment_id))).scalars())
        assert inventory.deployment_id not in left


async def test_a_count_that_differs_is_found_and_made_anew(inventory: Inventory) -> None:  # noqa: F811
    await inventory.keep(*ZOO)
    cell, mine = tables.thread_cell, inventory.deployment_id
    async with inventory.database.write() as connection:
        parked_ones = and_(cell.c.deployment_id == mine, cell.c.condition == "parked")
        await connection.execute(update(cell).where(parked_ones).values(n=cell.c.n + 7))
        await connection.execute(delete(cell).where(cell.c.deployment_id == mine, cell.c.condition == "settled"))
    checked = await check_counts(inventory.database)
    assert {one.deployment for one in checked.differences} == {"prod"}
    assert {one.cell["condition"] for one in checked.differences} == {"parked", "settled"}
    assert not checked.is_repaired
    assert (await check_counts(inventory.database, repair=True)).is_repaired
    assert (await check_counts(inventory.database)).differences == ()


async def test_the_cube_counts_a_population_as_the_rows_do(inventory: Inventory) -> None:  # noqa: F811
    """Waived threads, old ones under a retention, and running ones by how current their reading is."""
    random = Random(7)
    batch = {one.row.thread_id: one for one in (any_thread(random) for _ in range(300))}
    running = [
        facts(
            row(uuid_of(100 + number), status=Status.BUSY),
            condition=Condition.RUNNING,
            runs=(run(),),
            state_read_at=NOW - number * MINUTE,
        )
        for number in range(6)
    ]
    await inventory.keep(*batch.values(), *running)
    mine = inventory.deployment_id
    async with inventory.database.write() as connection:
        await writes.upsert_drain(connection, drain_values(mine))
        drain = await reads.find_drain(connection, "drop-it")
        taken = {one.row.thread_id: one.row.created_at for one in [*list(batch.values())[:9], running[0]]}
        await register.add_waivers(connection, drain, taken, words=Words("b", "me", "why", None, NOW, "api"))
    for now in (NOW, NOW + 3 * MINUTE):
        for lens in (
            Lens(now),
            Lens(now - 4 * MINUTE, waived=register.is_waived(drain.id, now)),
            Lens(now, changed_before=now - 30 * DAY),
            Lens(now - 4 * MINUTE, waived=register.is_waived(drain.id, now), changed_before=now - 10 * DAY),
        ):
            async with inventory.database.read() as connection:
                rows = reads.in_population("support", metadata={}, created_before=None)
                by_row = await subjects.count_subjects(connection, mine, rows, lens=lens)
                by_cell = await subjects.count_population(
                    connection, mine, rows, lambda of: reads.is_of_graph("support", of), lens=lens
                )
                assert {key: found.total() for key, found in by_cell.items()} == {one.key: one.count for one in by_row}
                rows = reads.may_belong("support", metadata={}, created_before=None)
                by_row = await subjects.count_subjects(connection, mine, rows, lens=lens)
                by_cell = await subjects.count_population(
                    connection,
                    mine,
                    rows,
                    lambda of: reads.may_belong("support", metadata={}, created_before=None, of=of),
                    lens=lens,
                )
                assert {key: found.total() for key, found in by_cell.items()} == {one.key: one.count for one in by_row}


def drain_values(deployment_id: int) -> dict[str, Any]:
    return {
        "name": "drop-it",
        "deployment_id": deployment_id,
        "spec": {"deployment": "prod", "targets": [{"kind": "node", "name": "old"}]},
        "criteria_digest": "d",
        "criteria_version": 1,
        "managed_by_file": True,
        "created_at": NOW,
    }


async def test_writers_beside_each_other_lose_no_count(inventory: Inventory) -> None:  # noqa: F811
    """A poll that takes rows in and moves the ages, and people who settle threads, all at once."""
    mine, database = inventory.deployment_id, inventory.database
    threads = [facts(row(uuid_of(number), updated_at=NOW, state_updated_at=NOW)) for number in range(60)]
    await inventory.keep(*threads)

    async def write(seed: int) -> None:
        random = Random(seed)
        dictionaries = Dictionaries(mine)
        for _ in range(12):
            async with database.write() as connection:
                await register.lock_places(connection, deployments=["prod"])
                if seed == 0:
                    await cube.move_ages(connection, mine, NOW + random.randrange(100) * HOUR)
                chosen = random.sample(threads, 9)
                moved = [
                    replace(
                        one,
                        condition=random.choice([Condition.SETTLED, Condition.PRESUMED_SETTLED]),
                        row=replace(one.row, state_updated_at=NOW - random.randrange(90) * HOUR),
                    )
                    for one in chosen
                ]
                await writes.upsert_threads(connection, dictionaries, moved, poll_id=1)
                await writes.mark_gone(connection, mine, [uuid_of(random.randrange(60))], poll_id=1, now=NOW)

    await asyncio.gather(*(write(seed) for seed in range(5)))
    assert (await check_counts(database)).differences == ()


# -- migration -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def old_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/old.db"
    found: str = request.getfixturevalue("empty_postgres")
    return found


def _to(url: str, revision: str, *, down: bool = False) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    (command.downgrade if down else command.upgrade)(config, revision)


async def test_threads_from_before_are_counted_by_the_migration(old_address: str) -> None:
    await asyncio.to_thread(_to, old_address, "0012")
    database = Database(old_address)
    since = {"gone_poll_id"}  # columns that came later
    old = [one for one in tables.thread.columns if one.computed is None and one.name not in since]
    async with database.write() as connection:
        mine = await old_deployment(connection)
        dictionaries = Dictionaries(mine)
        for found in (facts(), parked(parked_row(thread_id=uuid_of(2)), leaf(NODE))):
            values = await writes._thread_values(connection, dictionaries, found, 1)
            await connection.execute(insert(tables.thread).values({column.name: values[column.name] for column in old}))
    await database.upgrade()
    assert (await check_counts(database)).differences == ()
    async with database.write() as connection:
        assert dict(await reads.count_by(connection, mine, "condition")) == {"parked": 1, "settled": 1}
        await writes.mark_gone(connection, mine, [uuid_of(2)], poll_id=1, now=NOW)
        assert dict(await reads.count_by(connection, mine, "condition")) == {"settled": 1}
    await asyncio.to_thread(_to, old_address, "0012", down=True)
    async with database.read() as connection:
        assert await connection.scalar(text("select count(*) from thread")) == 2
    await database.close()


async def test_a_migration_gives_up_soon_when_somebody_holds_a_table(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "LOCK_TIMEOUT", timedelta(milliseconds=200))
    await asyncio.to_thread(_to, empty_postgres, "0005")  # the next one changes the threads
    database, other = Database(empty_postgres), Database(empty_postgres)
    async with other.write() as connection:
        await connection.execute(text("lock table thread in share mode"))
        with pytest.raises(StoreError, match="holds a table"):
            await database.upgrade()
    await database.upgrade()
    await other.close()
    await database.close()
