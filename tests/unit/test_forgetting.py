"""What is over is forgotten after a while, and what a verdict rests on is not, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update

from app.drains.spec import to_json
from app.facts.types import Condition, Departed, Departure, ThreadFacts
from app.inventory import deploys, forgetting, reads, register, tables, traces, writes
from app.inventory.db import Database
from app.inventory.revisions import Drawn, keep_revisions
from app.inventory.store import Store
from app.inventory.writes import Dictionaries
from app.jobs import forgetting as job
from app.jobs.forgetting import forget_over, horizon
from app.settings import KeepSettings, Settings
from tests.unit.builders import HOUR, KEY, NODE, NOW, facts, leaf, parked, parked_row, row, spec, topology, uuid_of

DAY = timedelta(days=1)
LONG_AGO, SHORTLY = NOW - 500 * DAY, NOW - 5 * DAY
NAME = "prod"


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "BATCH", 2)
    monkeypatch.setattr(job, "PAUSE", 0.0)


class Kept:
    """A deployment of which things are kept."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.store = Store(database, KEY)
        self.mine = 0

    async def poll(self, at: Any, *, kind: str = "sweep", state: str = "complete") -> int:
        async with self.database.write() as connection:
            self.mine = await writes.ensure_deployment(connection, NAME, at)
            found = await writes.begin_poll(connection, self.mine, kind=kind, now=at)
            await writes.update_poll(connection, found, state=state, finished_at=at)
            return found

    async def keep(self, *threads: ThreadFacts, poll: int) -> None:
        async with self.database.write() as connection:
            await writes.upsert_threads(connection, Dictionaries(self.mine), threads, poll_id=poll)

    async def leave(self, number: int, departure: Departure, at: Any, poll: int, **changes: Any) -> None:
        """A thread waits, and leaves at a time."""
        mine = leaf(task_id=f"t{number}")
        await self.keep(parked(parked_row(thread_id=uuid_of(number)), mine, state_read_at=at - HOUR), poll=poll)
        gone = facts(row(uuid_of(number)), departed=(Departed(mine, departure),), seen_at=at, **changes)
        await self.keep(gone, poll=poll)

    async def bury(self, *numbers: int, at: Any, poll: int) -> None:
        async with self.database.write() as connection:
            ids = [uuid_of(number) for number in numbers]
            await writes.mark_gone(connection, self.mine, ids, poll_id=poll, now=at)

    async def add(self, table: Any, **values: Any) -> None:
        async with self.database.write() as connection:
            await connection.execute(insert(table).values(**values))

    async def forget(self, **keep: Any) -> dict[str, int]:
        return dict(await forget_over(self.store, KeepSettings(**keep), NAME, NOW))

    async def left(self, column: Any) -> list[Any]:
        async with self.database.read() as connection:
            return sorted((await connection.execute(select(column))).scalars())


@pytest.fixture
def kept(database: Database) -> Kept:
    return Kept(database)


def old(number: int, **changes: Any) -> ThreadFacts:
    at = {"created_at": LONG_AGO - DAY, "updated_at": LONG_AGO, "state_updated_at": LONG_AGO}
    return facts(row(uuid_of(number), **at), seen_at=LONG_AGO, **changes)


async def test_a_tombstone_is_forgotten_when_nothing_needs_it(kept: Kept) -> None:
    first = await kept.poll(LONG_AGO - HOUR)
    waiting = leaf(NODE, task_id="t")
    await kept.keep(*(old(number) for number in range(1, 12)), poll=first)
    await kept.keep(old(12, condition=Condition.PARKED, leaves=(waiting,)), poll=first)
    await kept.keep(old(13, condition=Condition.PARKED, leaves=(leaf("elsewhere", task_id="e"),)), poll=first)
    before = await kept.poll(LONG_AGO - HOUR / 2)
    await kept.bury(1, 2, 3, 4, 5, 6, 12, 13, at=LONG_AGO, poll=before)
    await kept.bury(7, at=SHORTLY, poll=before)
    await kept.add(tables.index_thread, deployment_id=kept.mine, thread_id=uuid_of(4), reading=1)
    traced = {"deployment_id": kept.mine, "run_id": "r", "node": NODE, "thread_id": uuid_of(5), "started_at": LONG_AGO}
    await kept.add(tables.trace_run, **traced, end="success")
    await kept.add(tables.drain, **stored_drain(kept.mine))
    assert "tombstones" not in await kept.forget(), "no sweep was complete since they vanished"
    swept = await kept.poll(NOW - 2 * DAY)
    await kept.keep(old(6, condition=Condition.GONE, gone_at=LONG_AGO), poll=swept)  # a reporter tells of it each time
    assert (await kept.forget())["tombstones"] == 4
    left = {uuid_of(n) for n in (4, 5, 6, 7, 8, 9, 10, 11, 12)}
    assert set(await kept.left(tables.thread.c.thread_id)) == left
    async with kept.database.read() as connection:
        everybody = reads.in_population("support", metadata={}, created_before=None)
        created, _ = await traces.find_movement(connection, kept.mine, everybody)
    assert created == LONG_AGO - DAY, "a drain's traces must reach back to it all the same"
    await kept.forget(tombstones="7d")
    assert set(await kept.left(tables.thread.c.thread_id)) == left, "five days are not seven"


async def test_the_first_thread_counts_for_the_window_of_traces_after_it_is_forgotten(kept: Kept) -> None:
    first = await kept.poll(LONG_AGO - HOUR)
    await kept.keep(old(1), facts(row(uuid_of(2), created_at=NOW - HOUR)), poll=first)
    await kept.bury(1, at=LONG_AGO, poll=first)
    await kept.poll(NOW - HOUR)
    everybody = reads.in_population("support", metadata={}, created_before=None)
    for forgotten in (0, 1):
        async with kept.database.read() as connection:
            created, _ = await traces.find_movement(connection, kept.mine, everybody)
        assert created == LONG_AGO - DAY
        assert (await kept.forget()).get("tombstones", 0) == 1 - forgotten


async def test_of_departures_what_is_lost_stays_and_what_a_deploy_met(kept: Kept) -> None:
    first = await kept.poll(LONG_AGO - 2 * HOUR)
    for number, departure in enumerate((Departure.COMPLETED, Departure.ABANDONED, Departure.OVERRIDDEN), 1):
        await kept.leave(number, departure, LONG_AGO, first)
    await kept.leave(4, Departure.LOST, LONG_AGO, first, condition=Condition.LOST)
    await kept.leave(5, Departure.UNEXPLAINED, LONG_AGO, first)
    await kept.leave(6, Departure.COMPLETED, SHORTLY, first)
    await kept.keep(parked(parked_row(thread_id=uuid_of(7)), leaf(task_id="t7"), state_read_at=LONG_AGO), poll=first)
    await kept.leave(8, Departure.UNEXPLAINED, LONG_AGO, first)
    await kept.bury(8, at=LONG_AGO, poll=first)
    await kept.leave(9, Departure.COMPLETED, LONG_AGO, first)
    await kept.add(tables.deploy, id=1, deployment_id=kept.mine, poll_id=1, noticed_at=SHORTLY, changes=[])
    met = {"deployment_id": kept.mine, "deploy_id": 1, "thread_id": uuid_of(9), "node": NODE, "graph_id": "support"}
    await kept.add(tables.deploy_thread, **met)
    assert (await kept.forget())["departures"] == 4
    assert await kept.left(tables.observation.c.thread_id) == [uuid_of(n) for n in (4, 5, 6, 7, 9)]


async def test_a_stay_says_the_same_of_when_it_began_whatever_polls_are_forgotten(kept: Kept) -> None:
    """Else a run that nothing explains would be explained by a later stay."""
    for day in range(6):
        await kept.poll(LONG_AGO + day * DAY, kind="sweep" if day == 1 else "scan")
    arrived = await kept.poll(LONG_AGO + 6 * DAY, state="incomplete")
    await kept.keep(parked(parked_row(thread_id=uuid_of(1)), leaf(task_id="t", checkpoint_id="no-time")), poll=arrived)
    for at in (LONG_AGO + 7 * DAY, LONG_AGO + 8 * DAY, NOW - 2 * DAY, NOW - DAY, NOW):
        await kept.poll(at)
    await kept.poll(LONG_AGO + 9 * DAY, kind="scan", state="failed")
    await kept.poll(NOW, kind="scan")

    async def began() -> Any:
        async with kept.database.read() as connection:
            return (await traces.list_stays(connection, kept.mine, [uuid_of(1)], [NODE]))[0].came_after

    async def first_sweep() -> Any:
        async with kept.database.read() as connection:
            return await register.find_first_sweep_end(connection, kept.mine)

    before = (await began(), await first_sweep())
    assert before == (LONG_AGO + 5 * DAY, LONG_AGO + DAY)
    assert (await kept.forget())["polls"] == 6
    assert (await began(), await first_sweep()) == before
    # 2: the first sweep. 6: before the stay. 7: the newest sweep that was not complete. 13: the newest that failed.
    assert await kept.left(tables.poll.c.id) == [2, 6, 7, 10, 11, 12, 13, 14]
    async with kept.database.write() as connection:
        await connection.execute(update(tables.poll).where(tables.poll.c.id == 6).values(state="failed"))
    assert await began() != before[0], "the test sees it"


async def test_of_answers_the_newest_stays_and_those_on_which_a_target_was_removed(kept: Kept) -> None:
    await kept.poll(NOW - HOUR)
    await kept.add(tables.drain, **stored_drain(kept.mine, removed={f"node:{NODE}": (LONG_AGO + 4 * DAY).isoformat()}))
    for day in range(9):
        await kept.add(tables.evaluation, **answer(kept.mine, 1, LONG_AGO + day * DAY))
    await kept.add(tables.drain, **stored_drain(kept.mine, id=2, name="quiet"))
    await kept.add(tables.evaluation, **answer(kept.mine, 2, LONG_AGO))
    await kept.add(tables.evaluation, **answer(kept.mine, 1, SHORTLY))
    assert (await kept.forget())["answers"] == 7
    assert await kept.left(tables.evaluation.c.id) == [4, 5, 10, 11]


async def test_a_deploy_stays_while_somebody_waits_for_what_it_removed(kept: Kept) -> None:
    first = await kept.poll(LONG_AGO - DAY)
    waits = [
        parked(parked_row(thread_id=uuid_of(n)), leaf(task_id=f"t{n}"), state_read_at=LONG_AGO - DAY) for n in (1, 2)
    ]
    await kept.keep(*waits, poll=first)
    seen = [
        topology("intake", NODE),
        topology("intake"),
        topology("intake", NODE),
        topology("intake"),
        topology("other"),
    ]
    for day, drawn in enumerate(seen):
        async with kept.database.write() as connection:
            changes = await keep_revisions(connection, kept.mine, [Drawn(drawn)], now=LONG_AGO + day * DAY)
            if changes:
                at = LONG_AGO + day * DAY
                await deploys.keep_deploy(connection, kept.mine, changes, poll_id=first, now=at)
        if day == 1:
            await kept.leave(1, Departure.COMPLETED, LONG_AGO + 2 * DAY, first)
    assert await kept.left(tables.deploy.c.id) == [1, 2, 3, 4]
    assert (await kept.forget())["deploys"] == 1, "1 and 3 met the second thread, which still waits; 4 is the latest"
    assert await kept.left(tables.deploy.c.id) == [1, 3, 4]


async def test_audit_alarms_waiters_and_counts_of_days_end_too(kept: Kept) -> None:
    await kept.poll(NOW - HOUR)
    await kept.add(tables.drain, **stored_drain(kept.mine))
    for at in (LONG_AGO, SHORTLY):
        said = {"at": at, "actor": "a", "action": "b", "subject": "c", "detail": {}}
        await kept.add(tables.activity, deployment_id=None, **said)
        seen = {"code": "lost", "sentence": "s", "first_seen_at": at, "last_seen_at": at, "cleared_at": at}
        await kept.add(tables.alarm, deployment_id=kept.mine, **seen)
        times = {"since": at, "until": at, "seen_at": at, "verdict": "unknown", "caller": "ci"}
        await kept.add(tables.waiter, id=f"w{at}", deployment_id=kept.mine, drain_id=1, **times)
        counts = dict.fromkeys(("entered", "finished", "errored", "joined"), 1)
        await kept.add(tables.node_activity, deployment_id=kept.mine, node=NODE, day=at, **counts)
    standing = seen | {"first_seen_at": LONG_AGO, "last_seen_at": LONG_AGO, "cleared_at": None}
    await kept.add(tables.alarm, deployment_id=kept.mine, **standing)
    assert await kept.forget() == {"audit": 1, "asides": 3}
    assert await kept.forget() == {}
    async with kept.database.read() as connection:
        assert await connection.scalar(select(func.count()).select_from(tables.alarm)) == 2


def test_a_long_window_of_traces_keeps_everything_for_as_long() -> None:
    specs = [spec(policy={"trace_window": 200 * DAY}), spec()]
    found = horizon(KeepSettings(), specs, NOW)
    assert (found.tombstones, found.history, found.audit) == (NOW - 201 * DAY, NOW - 201 * DAY, NOW - 400 * DAY)
    assert horizon(KeepSettings(), [], NOW).history == NOW - 90 * DAY


@pytest.mark.parametrize("keep", [{"history": "31d"}, {"tombstones": "6d"}, {"audit": "0s"}, {"deploys": "1h"}])
def test_what_is_kept_too_short_is_refused(keep: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least"):
        Settings(home=tmp_path, keep=keep)


def test_every_table_is_forgotten_or_kept_on_purpose() -> None:
    """A new table has to be put on one of the sides."""
    ends = {
        "thread",
        "observation",
        "poll",
        "evaluation",
        "deploy",
        "deploy_thread",
        "activity",
        "alarm",
        "waiter",
        "node_activity",
    }
    otherwise = {
        "trace_run",
        "trace_coverage",
        "trace_reading",
        "trace_source",
        "index_thread",
        "index_source",
        "delivery",
        "worker",
    }
    now = {"deployment", "drain", "drain_told", "reporter", "thread_cell", "thread_age", "api_token", "drawing"}
    rests_on = {"graph_revision", "topology", "shape", "work", "routes", "arrival", "drain_version"}
    said = {"waiver", "acknowledgement", "attestation"}
    assert set(tables.metadata.tables) == ends | otherwise | now | rests_on | said
    assert ends - {"deploy_thread"} <= {word for word in tables.metadata.tables if word in _source()}


def _source() -> str:
    return Path(forgetting.__file__).read_text(encoding="utf-8")


def stored_drain(deployment_id: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "deployment_id": deployment_id,
        "name": "drop-it",
        "spec": to_json(spec()),
        "criteria_digest": "d",
        "criteria_version": 1,
        "managed_by_file": False,
        "created_at": LONG_AGO,
        "removed": {},
    } | changes


def answer(deployment_id: int, drain_id: int, at: Any) -> dict[str, Any]:
    told = {"criteria_version": 1, "verdict": "drained", "answer": {}}
    return {"deployment_id": deployment_id, "drain_id": drain_id, "evaluated_at": at, **told}
