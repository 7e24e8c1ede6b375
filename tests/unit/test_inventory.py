"""What is remembered, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import inspect, select

from app.errors import BadRequest, StoreError
from app.facts.types import (
    Cause,
    Condition,
    Interrupt,
    LeafSource,
    StateFailure,
    Status,
    ThreadFacts,
)
from app.inventory import reads, subjects, tables, writes
from app.inventory.db import Database, head_revision
from app.inventory.encode import (
    detail_to_json,
    pending_nodes,
    shape_from_json,
    shape_to_json,
    thread_from_row,
    topology_to_json,
    work_to_json,
)
from app.inventory.queue_schema import is_ours
from app.inventory.reads import InventoryScope
from app.inventory.revisions import Drawn, keep_revisions
from app.inventory.subjects import Lens
from app.inventory.views import GraphChange
from app.inventory.waiting_at import count_waiting
from app.inventory.writes import Dictionaries
from tests.unit.builders import (
    HOUR,
    MINUTE,
    NODE,
    NOW,
    facts,
    leaf,
    names,
    parked,
    parked_row,
    row,
    run,
    shape,
    state,
    storage,
    topology,
    uuid_of,
)

SORTS = ("-updated_at", "created_at", "thread_id")
ZOO: tuple[ThreadFacts, ...] = (
    facts(),
    facts(
        row(uuid_of(2), graph_id=None, assistant_id=None, shape=None, state_updated_at=None, metadata={"region": "eu"})
    ),
    facts(row(uuid_of(3)), condition=Condition.PRESUMED_SETTLED, state=None, state_read_at=None),
    parked(parked_row(Interrupt("task-1", "i1"), Interrupt("task-1", "i2"), thread_id=uuid_of(4))),
    parked(
        parked_row(thread_id=uuid_of(5)),
        leaf("nested/sub_wait", ns="nested:t", interrupts=0, cause=Cause.STATIC),
        leaf("nested/sub_wait", ns="nested:t", task_id="t2", error_class="ValueError", inside_unseen=True),
    ),
    facts(
        row(uuid_of(6), status=Status.INTERRUPTED),
        condition=Condition.STRANDED,
        leaves=(leaf(source=LeafSource.INTERRUPT_ID), leaf("finish", source=LeafSource.LAST_SEEN)),
        state=state(unapplied=("a", "b"), heads={"": "C", "nested:t": "I"}, shape=None),
    ),
    facts(
        row(uuid_of(7), status=Status.BUSY, shape=shape({})),
        condition=Condition.RUNNING,
        stuck=True,
        runs=(run(), run("pending", None)),
        storage=storage("a", "b", joins=["t"], sends=True),
        state=state(shape=shape({"customer_name": "a", "display_name": "b", "state_version": "x", "undeclared": 1})),
        revision_id=7,
    ),
    facts(
        row(uuid_of(8), status=Status.ERROR, error_class="KeyError"),
        condition=Condition.UNREADABLE,
        state=None,
        state_read_at=None,
        failure=StateFailure.LASTING,
        failures=3,
        runs=(),
    ),
    facts(
        row(uuid_of(9)),
        condition=Condition.NEVER_RAN,
        state=state(
            checkpoint_id=None,
            parent_id=None,
            created_at=None,
            source=None,
            step=None,
            graph_id=None,
            shape=None,
            heads={},
        ),
    ),
    facts(row(uuid_of(10)), condition=Condition.GONE, gone_at=NOW, state=state(leaf(), leaf())),
    replace(parked(parked_row(thread_id=uuid_of(11)), leaf(task_id=None), leaf(task_id=None))),
)


@dataclass
class Inventory:
    """One deployment with a poll, and what a question to it needs."""

    database: Database
    deployment_id: int
    dictionaries: Dictionaries
    poll_id: int

    async def keep(self, *threads: ThreadFacts) -> None:
        async with self.database.write() as connection:
            await writes.upsert_threads(connection, self.dictionaries, threads, poll_id=self.poll_id)

    def fresh(self) -> Dictionaries:
        """Dictionaries as another process has them: nothing met yet."""
        return Dictionaries(self.deployment_id)

    async def known(self, ids: Sequence[str]) -> dict[str, ThreadFacts]:
        async with self.database.read() as connection:
            return await reads.known_threads(connection, self.fresh(), ids)

    def scope(self) -> InventoryScope:
        return InventoryScope(
            self.deployment_id,
            "prod",
            self.fresh(),
            names(),
            "state_version",
            ("customer_name", "display_name", "note"),
        )


@pytest.fixture
async def inventory(database: Database) -> Inventory:
    async with database.write() as connection:
        other = await writes.ensure_deployment(connection, "other", NOW)
        mine = await writes.ensure_deployment(connection, "prod", NOW)
        poll_id = await writes.begin_poll(connection, mine, kind="sweep", now=NOW)
        other_poll = await writes.begin_poll(connection, other, kind="sweep", now=NOW)
        noise = [facts(row(uuid_of(n), shape=shape({"noise": n}))) for n in range(5)]
        await writes.upsert_threads(connection, Dictionaries(other), noise, poll_id=other_poll)
    return Inventory(database, mine, Dictionaries(mine), poll_id)


# -- round trip -------------------------------------------------------------------------------------------------------


async def test_what_is_written_is_read_back_as_it_was(inventory: Inventory) -> None:
    await inventory.keep(*ZOO)
    known = await inventory.known([one.row.thread_id for one in ZOO])
    for one in ZOO:
        # The state's own leaves are stored once, as places in the thread's leaves.
        expected = one
        if one.state is not None and not set(one.state.leaves) <= set(one.leaves):
            expected = replace(one, state=replace(one.state, leaves=()))
        assert known[one.row.thread_id] == expected


async def test_writing_twice_is_writing_once_and_the_last_word_counts(inventory: Inventory) -> None:
    await inventory.keep(*ZOO)
    await inventory.keep(*ZOO)
    later = replace(ZOO[0], condition=Condition.PARKED, leaves=(leaf(),), state=state(leaf()))
    await inventory.keep(later)
    async with inventory.database.read() as connection:
        assert await reads.count_threads(
            connection, inventory.deployment_id, tables.thread.c.thread_id.is_not(None)
        ) == len(ZOO)
    assert (await inventory.known([uuid_of(1)]))[uuid_of(1)] == later


async def test_shapes_and_pending_work_are_stored_once(inventory: Inventory) -> None:
    await inventory.keep(*(facts(row(uuid_of(n))) for n in range(50)))
    async with inventory.database.read() as connection:
        for table in (tables.shape, tables.work):
            query = select(table.c.id).where(table.c.deployment_id == inventory.deployment_id)
            assert len((await connection.execute(query)).all()) == 1


async def test_two_processes_give_the_same_things_the_same_ids(inventory: Inventory) -> None:
    await inventory.keep(*ZOO)
    other = Inventory(inventory.database, inventory.deployment_id, inventory.fresh(), inventory.poll_id)
    await other.keep(*(replace(one, row=replace(one.row, thread_id=uuid_of(100 + n))) for n, one in enumerate(ZOO)))
    mine, theirs = inventory.fresh(), other.dictionaries
    async with inventory.database.read() as connection:
        await mine.load(connection)
    assert mine.shapes == theirs.shapes
    assert mine.works == theirs.works
    assert len({repr(found) for found in mine.shapes.values()}) == len(mine.shapes)


async def test_a_write_that_was_rolled_back_is_forgotten(inventory: Inventory) -> None:
    async def fail() -> None:
        async with inventory.database.write() as connection:
            await writes.upsert_threads(connection, inventory.dictionaries, ZOO, poll_id=inventory.poll_id)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await inventory.keep(*reversed(ZOO))
    assert len(await inventory.known([one.row.thread_id for one in ZOO])) == len(ZOO)
    table, fresh = tables.thread.c, inventory.fresh()
    async with inventory.database.read() as connection:
        await fresh.load(connection)
        rows = (await connection.execute(select(table.work_id, table.row_shape_id, table.state_shape_id))).all()
    assert {row.work_id for row in rows} <= set(fresh.works) == set(inventory.dictionaries.works)
    assert {found for row in rows for found in row[1:] if found is not None} <= set(fresh.shapes)


@pytest.mark.parametrize("text", ["ünï ☃ 😀", "a'b\"c\\d", "%s {x} :y", "x" * 255])
async def test_any_text_that_a_server_may_use_as_a_name_is_kept(inventory: Inventory, text: str) -> None:
    one = parked(parked_row(graph_id=text, assistant_id=text, metadata={"region": text}), leaf(text))
    await inventory.keep(one)
    assert (await inventory.known([uuid_of(1)]))[uuid_of(1)] == one


async def test_a_large_step_and_many_interrupts_are_kept(inventory: Inventory) -> None:
    interrupts = tuple(Interrupt(f"t{n}", "i" * 32) for n in range(500))
    one = facts(row(interrupts=interrupts), state=state(step=2**40))
    await inventory.keep(one)
    assert (await inventory.known([uuid_of(1)]))[uuid_of(1)] == one


# -- gone -------------------------------------------------------------------------------------------------------------


async def test_threads_are_counted_by_the_value_of_a_metadata_key(inventory: Inventory) -> None:
    values: tuple[object, ...] = ("eu", "eu", "us", 3, None)
    threads = [
        facts(row(uuid_of(number), metadata={} if value is None else {"region": value}))
        for number, value in enumerate(values, start=1)
    ]
    await inventory.keep(*threads)
    async with inventory.database.read() as connection:
        found = await subjects.count_by_metadata(
            connection, inventory.deployment_id, reads.is_alive(), key="region", limit=10
        )
        most = await subjects.count_by_metadata(
            connection, inventory.deployment_id, reads.is_alive(), key="region", limit=1
        )
    assert dict(found) == {"eu": 2, "us": 1, "3": 1, None: 1}
    assert most == [("eu", 2)]


async def test_a_tombstone_keeps_its_facts_and_counts_only_as_gone(inventory: Inventory) -> None:
    await inventory.keep(*ZOO)
    async with inventory.database.write() as connection:
        await writes.mark_gone(connection, inventory.deployment_id, [uuid_of(4)], poll_id=inventory.poll_id, now=NOW)
    async with inventory.database.read() as connection:
        known = await reads.known_threads(connection, inventory.fresh(), [uuid_of(4)])
        assert known[uuid_of(4)] == replace(ZOO[3], condition=Condition.GONE, gone_at=NOW)
        everything = await reads.get_inventory(connection, inventory.scope(), {}, now=NOW)
        assert everything.total == len(ZOO) - 2
        assert everything.facets["condition"]["gone"] == 2
        assert sum(everything.facets["status"].values()) == everything.total
        gone = await reads.get_inventory(connection, inventory.scope(), {"condition": ("gone",)}, now=NOW)
        assert gone.total == 2
        page = await reads.list_threads(
            connection, inventory.scope(), {}, cursor=None, limit=100, sort="thread_id", now=NOW
        )
        assert {uuid_of(4), uuid_of(10)}.isdisjoint({item.thread_id for item in page.items})


async def test_seen_unseen_and_moved_polls(inventory: Inventory) -> None:
    await inventory.keep(*ZOO)
    async with inventory.database.write() as connection:
        second = await writes.begin_poll(connection, inventory.deployment_id, kind="sweep", now=NOW)
        await writes.mark_seen(
            connection, inventory.deployment_id, [uuid_of(n) for n in (1, 2, 3)], poll_id=second, now=NOW + HOUR
        )
        unseen = await reads.list_unseen(connection, inventory.deployment_id, before_poll=second, after="", limit=100)
        assert unseen == [uuid_of(n) for n in (4, 5, 6, 7, 8, 9, 11)]
        assert await reads.list_unseen(
            connection, inventory.deployment_id, before_poll=second, after=uuid_of(8), limit=1
        ) == [uuid_of(9)]


async def test_readings_of_a_poll_with_a_deploy_in_it_lose_their_revision(inventory: Inventory) -> None:
    await inventory.keep(facts(revision_id=7), facts(row(uuid_of(2)), revision_id=7, state_read_at=NOW - HOUR))
    async with inventory.database.write() as connection:
        await writes.distrust_readings(connection, inventory.deployment_id, since=NOW - MINUTE)
    known = await inventory.known([uuid_of(1), uuid_of(2)])
    assert (known[uuid_of(1)].revision_id, known[uuid_of(2)].revision_id) == (None, 7)


# -- inventory: counts, filters, pages -----------------------------------------------------------------------------------


async def test_facets_add_up_under_every_filter(inventory: Inventory) -> None:
    await inventory.keep(*ZOO)
    filters: list[dict[str, tuple[str, ...]]] = [
        {},
        {"status": ("interrupted", "busy")},
        {"condition": ("parked",)},
        {"pending": (NODE,)},
        {"pending": (NODE, "nested/sub_wait")},
        {"state_version": ("2",)},
        {"state_version": ("missing", "malformed")},
        {"state_version": ("unknown",)},
        {"graph": ("support",)},
        {"graph": ("none",)},
        {"age": ("1h", "1d")},
        {"age": ("older",)},
        {"fields": ("customer_name:present",)},
        {"fields": ("note:absent", "note:unknown")},
        {"status": ("idle",), "condition": ("settled",)},
        {"condition": ("gone",)},
        {"condition": ("gone", "parked")},
        {"pending": ("nowhere",)},
        {"graph": ("nothing",)},
    ]
    async with inventory.database.read() as connection:
        for chosen in filters:
            found = await reads.get_inventory(connection, inventory.scope(), chosen, now=NOW)
            page = await reads.list_threads(
                connection, inventory.scope(), chosen, cursor=None, limit=500, sort="thread_id", now=NOW
            )
            assert found.total == page.total == len(page.items), chosen
            for facet in ("status", "state_version", "age"):
                assert sum(found.facets[facet].values()) == found.total, (chosen, facet)
            for name, buckets in found.facets["fields"].items():
                assert sum(buckets.values()) == found.total, (chosen, name)
                assert set(buckets) == {"absent", "null", "empty", "present", "unknown"}
            conditions = Counter(item.condition for item in page.items)
            shown = {
                name: count
                for name, count in found.facets["condition"].items()
                if name != "gone" or "gone" in chosen.get("condition", ())
            }
            assert {name: count for name, count in shown.items() if count} == dict(conditions), chosen
            pending = Counter(node for item in page.items for node in item.pending)
            assert found.facets["pending"] == dict(pending), chosen
            counted: Counter[tuple[str, str]] = Counter()
            for each in await count_waiting(connection, inventory.scope(), chosen, now=NOW):
                counted[each.node, each.condition] += each.count
            assert counted == Counter((node, item.condition) for item in page.items for node in item.pending), chosen
            assert all("#" not in name for name in found.facets["fields"])


async def test_filters_let_the_right_threads_through(inventory: Inventory) -> None:
    await inventory.keep(*ZOO)

    async def ids(**chosen: tuple[str, ...]) -> set[int]:
        page = await reads.list_threads(
            connection, inventory.scope(), chosen, cursor=None, limit=500, sort="thread_id", now=NOW
        )
        return {int(item.thread_id[-12:], 16) for item in page.items}

    async with inventory.database.read() as connection:
        assert await ids(pending=(NODE,)) == {4, 6, 11}
        assert await ids(pending=("nested",)) == set()
        assert await ids(pending=("nested/sub_wait",), status=("interrupted",)) == {5}
        assert await ids(graph=("none",)) == set()  # 2 has a graph by its head
        assert 2 in await ids(graph=("support",))
        assert await ids(state_version=("malformed",)) == {7}  # of a running thread the state counts
        assert await ids(fields=("customer_name:present",)) == {7}
        assert await ids(condition=("unreadable", "never_ran")) == {8, 9}


@pytest.mark.parametrize("bad", [{"colour": ("x",)}, {"fields": ("note",)}, {"fields": ("note:maybe",)}])
async def test_a_filter_that_is_none_is_refused(inventory: Inventory, bad: dict[str, tuple[str, ...]]) -> None:
    async with inventory.database.read() as connection:
        with pytest.raises(BadRequest):
            await reads.get_inventory(connection, inventory.scope(), bad, now=NOW)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("limit", [1, 3, 7, 50])
async def test_pages_have_every_thread_once_in_order(inventory: Inventory, sort: str, limit: int) -> None:
    """Many threads share a time; ids break the tie."""
    times = [NOW - timedelta(seconds=n % 4) for n in range(23)]
    await inventory.keep(*(facts(row(uuid_of(n), updated_at=when, created_at=when)) for n, when in enumerate(times)))
    found, cursor = [], None
    async with inventory.database.read() as connection:
        for _ in range(40):
            page = await reads.list_threads(
                connection, inventory.scope(), {}, cursor=cursor, limit=limit, sort=sort, now=NOW
            )
            assert page.total == 23
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
    assert len({item.thread_id for item in found}) == len(found) == 23
    keys: dict[str, Any] = {
        "-updated_at": lambda item: item.updated_at,
        "created_at": lambda item: item.created_at,
        "thread_id": lambda item: item.thread_id,
    }
    assert found == sorted(found, key=keys[sort], reverse=sort.startswith("-")) or sort != "thread_id"
    assert [keys[sort](item) for item in found] == sorted(
        (keys[sort](item) for item in found), reverse=sort.startswith("-")
    )


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "bm9uc2Vuc2U",
        "W10",
        "WyItdXBkYXRlZF9hdCIsICJ4IiwgInkiXQ",
        "WyItdXBkYXRlZF9hdCIsICIyMDI2LTAxLTAxIiwgInkiXQ",
        "ünï",
        "a" * 5000,
    ],
)
async def test_a_cursor_of_another_list_is_refused(inventory: Inventory, cursor: str) -> None:
    async with inventory.database.read() as connection:
        with pytest.raises(BadRequest):
            await reads.list_threads(
                connection, inventory.scope(), {}, cursor=cursor, limit=5, sort="-updated_at", now=NOW
            )


@pytest.mark.parametrize("limit", [0, -1, 501])
async def test_a_limit_that_is_none_is_refused(inventory: Inventory, limit: int) -> None:
    async with inventory.database.read() as connection:
        with pytest.raises(BadRequest):
            await reads.list_threads(
                connection, inventory.scope(), {}, cursor=None, limit=limit, sort="thread_id", now=NOW
            )


# -- drains -----------------------------------------------------------------------------------------------------------


async def test_counted_classes_are_those_of_the_listed_threads(inventory: Inventory) -> None:
    await inventory.keep(*ZOO)
    everybody = reads.in_population("support", metadata={}, created_before=None)
    for cutoff in (NOW - HOUR, NOW + HOUR):
        async with inventory.database.read() as connection:
            counted = await subjects.count_subjects(connection, inventory.deployment_id, everybody, lens=Lens(cutoff))
            assert sum(found.count for found in counted) == len(ZOO)
            for found in counted:
                where = subjects.looks_like([found.key], lens=Lens(cutoff))
                listed, cursor = [], None
                for _ in range(20):
                    threads, cursor = await subjects.list_subject_threads(
                        connection, inventory.deployment_id, where, lens=Lens(cutoff), cursor=cursor, limit=2
                    )
                    listed += threads
                    if cursor is None:
                        break
                assert len(listed) == found.count
                assert {one.key for one in listed} == {found.key}
            none, _ = await subjects.list_subject_threads(
                connection,
                inventory.deployment_id,
                subjects.looks_like([], lens=Lens(cutoff)),
                lens=Lens(cutoff),
                cursor=None,
                limit=9,
            )
            assert none == []


async def test_a_running_reading_is_current_only_after_the_cutoff(inventory: Inventory) -> None:
    await inventory.keep(facts(row(status=Status.BUSY), condition=Condition.RUNNING, runs=(run(),), state_read_at=NOW))
    everybody = reads.is_alive()
    async with inventory.database.read() as connection:
        for cutoff, current in ((NOW - MINUTE, True), (NOW, True), (NOW + MINUTE, False)):
            (found,) = await subjects.count_subjects(connection, inventory.deployment_id, everybody, lens=Lens(cutoff))
            assert found.key.is_current is current


async def test_the_population_is_by_graph_head_metadata_and_age(inventory: Inventory) -> None:
    threads = [
        facts(row(uuid_of(1))),
        facts(row(uuid_of(2), graph_id="other")),
        facts(row(uuid_of(3), graph_id="other"), state=state(graph_id="other")),
        facts(row(uuid_of(4), graph_id=None), state=None),
        facts(row(uuid_of(5), metadata={"region": "eu"}, created_at=NOW)),
    ]
    await inventory.keep(*threads)

    async def ids(metadata: dict[str, str] | None = None, before: Any = None) -> list[int]:
        where = reads.in_population("support", metadata=metadata or {}, created_before=before)
        return [
            int(one[-12:], 16)
            for one in await reads.list_ids(connection, inventory.deployment_id, where=where, after="", limit=99)
        ]

    async with inventory.database.read() as connection:
        assert await ids() == [1, 2, 4, 5]
        assert await ids({"region": "eu"}) == [5]
        assert await ids({"region": "us"}) == []
        assert await ids(before=NOW) == [1, 2, 4]


# -- locks and polls ----------------------------------------------------------------------------------------------------


async def test_a_lock_is_taken_renewed_refused_and_lost_by_a_dead_holder(inventory: Inventory) -> None:
    async def take(holder: str, now: Any) -> Any:
        async with inventory.database.write() as connection:
            return await writes.take_lock(connection, inventory.deployment_id, holder=holder, now=now, lease=MINUTE)

    assert await take("a", NOW) == NOW + MINUTE
    assert await take("b", NOW) is None
    assert await take("a", NOW + MINUTE / 2) == NOW + MINUTE * 1.5
    assert await take("b", NOW + MINUTE) is None
    assert await take("b", NOW + 2 * MINUTE) is not None
    assert await take("a", NOW + 2 * MINUTE) is None
    async with inventory.database.write() as connection:
        await writes.release_lock(connection, inventory.deployment_id, holder="a")
    assert await take("a", NOW + 2 * MINUTE) is None
    async with inventory.database.write() as connection:
        await writes.release_lock(connection, inventory.deployment_id, holder="b")
    assert await take("a", NOW + 2 * MINUTE) is not None


async def test_of_many_who_want_a_lock_at_once_one_gets_it(inventory: Inventory) -> None:
    async def take(holder: str) -> bool:
        async with inventory.database.write() as connection:
            found = await writes.take_lock(connection, inventory.deployment_id, holder=holder, now=NOW, lease=MINUTE)
        return found is not None

    assert sum(await asyncio.gather(*(take(f"h{n}") for n in range(8)))) == 1


async def test_a_poll_that_a_dead_process_left_is_closed_as_failed(inventory: Inventory) -> None:
    async with inventory.database.write() as connection:
        second = await writes.begin_poll(connection, inventory.deployment_id, kind="scan", now=NOW + HOUR)
        await writes.update_poll(connection, second, state="complete", finished_at=NOW + HOUR, reasons=[["a", "b"]])
    async with inventory.database.read() as connection:
        first = await reads.find_poll(connection, inventory.deployment_id, inventory.poll_id)
        assert first is not None
        assert (first.state, first.reasons[0].code) == ("failed", "interrupted")
        newest = await reads.find_latest_poll(
            connection, inventory.deployment_id, kinds=("sweep", "scan"), states=("complete",)
        )
        assert newest is not None
        assert newest.id == second


# -- revisions, alarms ----------------------------------------------------------------------------------------------------


async def test_a_new_look_of_a_graph_is_a_revision_and_the_same_look_is_none(inventory: Inventory) -> None:
    async def keep(*found: Any, now: Any) -> tuple[GraphChange, ...]:
        async with inventory.database.write() as connection:
            drawn = [Drawn(each) for each in found]
            return await keep_revisions(connection, inventory.deployment_id, drawn, now=now)

    assert not await keep(topology("a", fields=frozenset({"note"})), now=NOW)  # the first look is no deploy
    assert not await keep(topology("a", fields=frozenset({"note"})), now=NOW + MINUTE)
    (changed,) = await keep(topology("a", "b"), now=NOW + HOUR)
    assert (changed.kind, changed.nodes_added, changed.nodes_kept) == ("changed", ("b",), 1)
    assert changed.fields_removed == ("note",)
    (vanished,) = await keep(now=NOW + 2 * HOUR)
    assert (vanished.kind, vanished.nodes_removed) == ("vanished", ("a", "b"))
    (appeared,) = await keep(topology("a", "b"), now=NOW + 3 * HOUR)
    assert (appeared.kind, appeared.nodes_added) == ("appeared", ("a", "b"))
    async with inventory.database.read() as connection:
        newest, middle, first = await reads.list_revisions(connection, inventory.deployment_id)
        assert (first.nodes, first.last_seen_at, first.vanished_at) == (("a",), NOW + MINUTE, NOW + HOUR)
        assert (middle.nodes, middle.vanished_at) == (("a", "b"), NOW + 2 * HOUR)
        assert newest.vanished_at is None
        assert "note" in await reads.list_declared_fields(connection, inventory.deployment_id)


async def test_an_alarm_stands_until_it_is_cleared(inventory: Inventory) -> None:
    async def keep(found: dict[str, tuple[str, int | None]], clear: list[str], now: Any) -> None:
        async with inventory.database.write() as connection:
            await writes.keep_alarms(connection, inventory.deployment_id, found, clear=clear, now=now)

    await keep({"stranded": ("2 stranded.", 2)}, ["stranded"], NOW)
    await keep({"stranded": ("3 stranded.", 3)}, ["stranded"], NOW + HOUR)
    async with inventory.database.read() as connection:
        (alarm,) = await reads.list_alarms(connection, inventory.deployment_id, "prod")
    assert (alarm.count, alarm.first_seen_at, alarm.last_seen_at) == (3, NOW, NOW + HOUR)
    await keep({}, [], NOW + 2 * HOUR)
    await keep({}, ["stranded"], NOW + 2 * HOUR)
    async with inventory.database.read() as connection:
        assert await reads.list_alarms(connection, inventory.deployment_id, "prod") == ()


# -- the schema -----------------------------------------------------------------------------------------------------------


def differences(connection: Any) -> list[Any]:
    opts = {"compare_type": True, "compare_server_default": True, "include_name": is_ours}
    context = MigrationContext.configure(connection, opts=opts)
    return [found for found in compare_metadata(context, tables.metadata) if "alembic_version" not in repr(found)]


async def test_the_migrations_make_what_the_tables_say(database: Database) -> None:
    async with database.engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_an_empty_database_is_brought_to_the_newest_schema_once(database: Database) -> None:
    assert await database.revision() == head_revision()
    await database.upgrade()
    async with database.engine.connect() as connection:
        found = set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))
    assert set(tables.metadata.tables) <= found


async def test_postgresql_is_migrated_from_empty(empty_postgres: str) -> None:
    database = Database(empty_postgres)
    assert await database.revision() is None
    await database.upgrade()
    assert await database.revision() == head_revision()
    await database.close()


async def test_a_database_of_a_newer_version_is_refused(database: Database) -> None:
    async with database.engine.begin() as connection:
        await connection.exec_driver_sql("update alembic_version set version_num = '9999'")
    with pytest.raises(StoreError, match="newer"):
        await database.upgrade()


@pytest.mark.parametrize("url", ["nonsense", "mysql://x", "sqlite:///x.db", "nosuch+driver://x", ""])
def test_an_address_that_is_none_is_said(url: str) -> None:
    with pytest.raises(StoreError, match="database_url"):
        Database(url)


@pytest.mark.parametrize("content", [b"this is not a database, and longer than a header would be" * 4])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_file_that_is_no_database_is_said_without_a_crash(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.db").write_bytes(content)
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    with pytest.raises(StoreError, match="damaged"):
        await database.upgrade()
    await database.close()
    gc.collect()  # the driver's thread of the refused connection ends while there is a loop
    await asyncio.sleep(0.05)


async def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/no/such/x.db")
    with pytest.raises(StoreError, match="database_url"):
        await database.upgrade()
    await database.close()


async def test_a_server_that_is_not_there_is_said_without_its_password() -> None:
    database = Database("postgresql+psycopg://user:hunter2@127.0.0.1:1/nothing")
    with pytest.raises(StoreError) as error:
        await database.upgrade()
    assert "hunter2" not in str(error.value)
    await database.close()


# -- encoding -------------------------------------------------------------------------------------------------------------

VALUES = st.dictionaries(
    st.sampled_from(["note", "customer_name", "display_name", "state_version", "x", "y"]),
    st.sampled_from([None, "", "a", 0, 1, True, 1.5, [], {}, [1]]),
)


@given(VALUES)
def test_a_shape_survives_being_stored(values: dict[str, object]) -> None:
    assert shape_from_json(shape_to_json(shape(values))) == shape(values)


LEAVES = st.lists(
    st.builds(
        leaf,
        st.sampled_from(["a", "a/b"]),
        ns=st.sampled_from(["", "a:t"]),
        task_id=st.sampled_from([None, "t"]),
        error_class=st.sampled_from([None, "E"]),
        cause=st.sampled_from(list(Cause)),
        inside_unseen=st.booleans(),
        source=st.sampled_from(list(LeafSource)),
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(LEAVES, st.sampled_from([(), ("a",)]))
def test_a_threads_detail_survives_being_stored(leaves: list[Any], unapplied: tuple[str, ...]) -> None:
    shown = tuple(one for one in leaves if one.source is LeafSource.STATE)
    one = facts(leaves=tuple(leaves), state=state(*shown, unapplied=unapplied))
    columns = {
        "thread_id": one.row.thread_id,
        "status": one.row.status,
        "created_at": one.row.created_at,
        "updated_at": one.row.updated_at,
        "state_updated_at": one.row.state_updated_at,
        "graph_id": one.row.graph_id,
        "assistant_id": one.row.assistant_id,
        "config": one.row.config,
        "metadata": {},
        "row_shape_id": 1,
        "state_shape_id": 1,
        "routes_id": None,
        "seen_at": one.seen_at,
        "condition": one.condition,
        "state_read_at": one.state_read_at,
        "revision_id": None,
        "stuck": False,
        "gone_at": None,
        "detail": detail_to_json(one),
    }
    assert thread_from_row(columns, {1: shape()}, {}) == one
    work = work_to_json(one)
    assert set(pending_nodes(work)) == {found.node for found in leaves}
    assert work["half_step"] == bool(unapplied)


def test_a_topology_is_stored_in_order() -> None:
    assert topology_to_json(topology("b", "a"))["nodes"] == ["a", "b"]
