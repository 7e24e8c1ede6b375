"""What a deploy met and what became of it, and who came and left, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from app.errors import BadRequest
from app.facts.types import Condition, Departed, Departure, LeafSource, ThreadFacts
from app.inventory import deploys, reads, writes
from app.inventory.current import current_of
from app.inventory.db import Database
from app.inventory.flow import flow
from app.inventory.revisions import Drawn, keep_drawings, keep_revisions, list_drawings
from app.inventory.views import Deploy, Drawing
from app.inventory.writes import Dictionaries
from tests.unit.builders import HOUR, MINUTE, NODE, NOW, facts, leaf, parked, parked_row, row, state, topology, uuid_of

LATER = NOW + HOUR


@dataclass
class Stored:
    """One deployment whose graph was seen once."""

    database: Database
    deployment_id: int
    dictionaries: Dictionaries
    poll_id: int

    async def keep(self, *threads: ThreadFacts, poll: int | None = None) -> None:
        async with self.database.write() as connection:
            await writes.upsert_threads(connection, self.dictionaries, threads, poll_id=poll or self.poll_id)

    async def poll(self, at: datetime, state_: str = "complete") -> int:
        async with self.database.write() as connection:
            found = await writes.begin_poll(connection, self.deployment_id, kind="sweep", now=at)
            await writes.update_poll(connection, found, state=state_, finished_at=at)
            return found

    async def look(self, *drawn: Drawn, at: datetime) -> int | None:
        """The deploy that this look notices, if it does."""
        async with self.database.write() as connection:
            changes = await keep_revisions(connection, self.deployment_id, drawn, now=at)
            if not changes:
                return None
            return await deploys.keep_deploy(connection, self.deployment_id, changes, poll_id=self.poll_id, now=at)

    async def deploy(self, deploy_id: int) -> Deploy:
        async with self.database.read() as connection:
            found = await deploys.find_deploy(connection, self.deployment_id, "prod", deploy_id)
        assert found is not None
        return found

    async def threads(self, deploy_id: int, **options: Any) -> list[tuple[str, str]]:
        options = {"fate": None, "cursor": None, "limit": 10, **options}
        async with self.database.read() as connection:
            found, _ = await deploys.list_deploy_threads(connection, self.deployment_id, deploy_id, **options)
        return [(each.thread_id, each.fate) for each in found]

    async def pages(self, deploy_id: int, *, limit: int) -> list[str]:
        """The ids of all pages, one after the other."""
        seen: list[str] = []
        cursor = None
        while True:
            async with self.database.read() as connection:
                page, cursor = await deploys.list_deploy_threads(
                    connection, self.deployment_id, deploy_id, fate=None, cursor=cursor, limit=limit
                )
            seen += [each.thread_id for each in page]
            if cursor is None:
                return seen


@pytest.fixture
async def stored(database: Database) -> Stored:
    async with database.write() as connection:
        mine = await writes.ensure_deployment(connection, "prod", NOW)
        poll_id = await writes.begin_poll(connection, mine, kind="sweep", now=NOW)
    found = Stored(database, mine, Dictionaries(mine), poll_id)
    assert await found.look(Drawn(topology("intake", NODE)), at=NOW) is None
    return found


def waits(number: int, **changes: Any) -> ThreadFacts:
    one = leaf(task_id=f"t{number}")
    return replace(parked(parked_row(thread_id=uuid_of(number)), one), **changes)


def left(number: int, departure: Departure, condition: Condition = Condition.SETTLED) -> ThreadFacts:
    gone = Departed(leaf(task_id=f"t{number}"), departure)
    made = facts(row(uuid_of(number)), condition=condition, departed=(gone,), state_read_at=LATER + MINUTE)
    return replace(made, seen_at=LATER + MINUTE)


async def test_a_deploy_names_who_waited_and_tells_what_became_of_each(stored: Stored) -> None:
    await stored.keep(*(waits(number) for number in range(1, 9)), facts(row(uuid_of(20))))
    deploy_id = await stored.look(Drawn(topology("intake", "other")), at=LATER)
    assert deploy_id is not None
    assert (await stored.deploy(deploy_id)).fates["not_read"] == 8
    since = {"state_read_at": LATER + MINUTE, "seen_at": LATER + MINUTE}
    remembered = replace(leaf(task_id="t1"), source=LeafSource.LAST_SEEN)
    await stored.keep(
        waits(1, condition=Condition.STRANDED, leaves=(remembered,), state=state(), **since),
        left(2, Departure.LOST, Condition.LOST),
        left(3, Departure.COMPLETED),
        left(4, Departure.ABANDONED),
        left(5, Departure.UNEXPLAINED),
        waits(6, **since),
        waits(7, condition=Condition.GRAPH_MISSING, state=None, state_read_at=None),
    )
    async with stored.database.write() as connection:
        await writes.mark_gone(connection, stored.deployment_id, [uuid_of(8)], poll_id=stored.poll_id, now=LATER + HOUR)
    deploy = await stored.deploy(deploy_id)
    expected = ["stranded", "lost", "completed", "taken_over", "unexplained", "waiting", "unreadable", "gone"]
    lines = sorted(enumerate(expected, 1), key=lambda line: deploys.FATES.index(line[1]))
    assert await stored.threads(deploy_id) == [(uuid_of(n), fate) for n, fate in lines], "the worst first"
    assert await stored.pages(deploy_id, limit=3) == [uuid_of(n) for n, _ in lines]
    assert (deploy.threads, deploy.latest) == (8, True)
    assert deploy.fates == {fate: int(fate in expected) for fate in deploys.FATES}
    assert await stored.threads(deploy_id, fate="lost") == [(uuid_of(2), "lost")]
    async with stored.database.read() as connection:
        found = await deploys.find_unfinished(connection, stored.deployment_id)
    assert found is not None
    assert (found.deploy, found.graph, found.nodes, found.threads) == (deploy_id, "support", (NODE,), 3)


async def test_the_threads_of_a_deploy_are_paged_by_key(stored: Stored) -> None:
    await stored.keep(*(waits(number) for number in range(1, 8)))
    deploy_id = await stored.look(Drawn(topology("intake")), at=LATER)
    assert await stored.pages(deploy_id or 0, limit=3) == [uuid_of(number) for number in range(1, 8)]
    with pytest.raises(BadRequest, match="cursor"):
        await stored.threads(deploy_id or 0, cursor="x")
    with pytest.raises(BadRequest, match="no fate"):
        await stored.threads(deploy_id or 0, fate="eaten")


async def test_a_graph_that_vanishes_meets_whoever_waited_in_it_and_one_that_appears_meets_nobody(
    stored: Stored,
) -> None:
    await stored.keep(waits(1))
    vanished = await stored.deploy(await stored.look(Drawn(topology("a", graph_id="new")), at=LATER) or 0)
    assert [(each.graph, each.kind) for each in vanished.changes] == [("new", "appeared"), ("support", "vanished")]
    assert vanished.threads == 1
    async with stored.database.read() as connection:
        page, cursor = await deploys.list_deploys(connection, stored.deployment_id, "prod", cursor=None, limit=10)
    assert ([each.id for each in page], cursor) == ([vanished.id], None)


async def test_a_drawing_of_one_configuration_is_a_line_of_its_own(stored: Stored) -> None:
    plain, rare = topology("intake", NODE), topology("intake", "review")

    async def draw(*configs: str, at: datetime) -> tuple[int | None, dict[str, tuple[str, ...] | None]]:
        deploy_id = await stored.look(
            Drawn(plain, None, frozenset({"c0"})), Drawn(rare, "c1", frozenset(configs)), at=at
        )
        async with stored.database.write() as connection:
            revisions = await reads.list_revisions(connection, stored.deployment_id)
            ids = {found.variant: found.id for found in revisions if found.vanished_at is None}
            drawings = [Drawing("support", config, "a", None, ids["c1"], at) for config in configs]
            drawings += [
                Drawing("support", "c0", "a", None, ids[None], at),
                Drawing("support", "x", "a", None, None, None),
            ]
            await keep_drawings(connection, stored.deployment_id, drawings, graphs=["support"])
            current = current_of(revisions, await list_drawings(connection, stored.deployment_id))
        found = {config: current.of("support", config) for config in ("c0", "c1", "x", "unlisted")}
        return deploy_id, {config: each.nodes if each else None for config, each in found.items()}

    deploy_id, nodes = await draw("c1", "c2", at=LATER)
    assert deploy_id is None, "an assistant is no deploy"
    assert nodes == {"c0": ("await_approval", "intake"), "c1": ("intake", "review"), "x": None, "unlisted": None}
    rare = topology("intake", "check")
    deploy_id, nodes = await draw("c1", "c2", at=LATER + HOUR)
    (change,) = (await stored.deploy(deploy_id or 0)).changes
    assert (change.variant, change.nodes_removed, change.nodes_added) == ("c1", ("review",), ("check",))
    assert nodes["c1"] == ("check", "intake")


async def test_a_reading_under_another_configurations_drawing_is_trusted_no_more(stored: Stored) -> None:
    async with stored.database.read() as connection:
        (first,) = await reads.list_revisions(connection, stored.deployment_id)
    same = facts(replace(row(uuid_of(1)), config="c0"), revision_id=first.id)
    other = facts(replace(row(uuid_of(2)), config="c1"), revision_id=first.id)
    nobody = facts(row(uuid_of(3)), revision_id=first.id)
    await stored.keep(same, other, nobody)
    await stored.look(
        Drawn(topology("intake", NODE), None, frozenset({"c0"})),
        Drawn(topology("b"), "c1", frozenset({"c1"})),
        at=LATER,
    )
    async with stored.database.write() as connection:
        second = next(r for r in await reads.list_revisions(connection, stored.deployment_id) if r.variant)
        drawings = [
            Drawing("support", "c0", "a", None, first.id, NOW),
            Drawing("support", "c1", "b", None, second.id, NOW),
        ]
        await keep_drawings(connection, stored.deployment_id, drawings, graphs=["support"])
        known = await reads.known_threads(connection, stored.dictionaries, [uuid_of(n) for n in (1, 2, 3)])
    assert [known[uuid_of(n)].revision_id for n in (1, 2, 3)] == [first.id, None, None]


async def test_arrivals_and_departures_are_counted_by_poll_and_node_inner_ones_included(stored: Stored) -> None:
    first, second = stored.poll_id, await stored.poll(LATER)
    inner = parked(parked_row(thread_id=uuid_of(5)), leaf(f"{NODE}/ask", ns="n", task_id="t5"))
    namesake = parked(parked_row(thread_id=uuid_of(6)), leaf(f"{NODE}_too", task_id="t6"))
    two_tasks = parked(parked_row(thread_id=uuid_of(7)), leaf(task_id="a"), leaf(task_id="b"))
    await stored.keep(waits(1), waits(2), waits(3), waits(4), inner, namesake, two_tasks)
    await stored.keep(left(1, Departure.COMPLETED), left(2, Departure.COMPLETED), left(3, Departure.LOST), poll=second)
    async with stored.database.write() as connection:
        await writes.mark_gone(connection, stored.deployment_id, [uuid_of(4)], poll_id=second, now=LATER + MINUTE)
    async with stored.database.read() as connection:
        points = await flow(connection, stored.deployment_id, [NODE], since=NOW - HOUR, until=LATER + HOUR)
        later = await flow(connection, stored.deployment_id, [NODE], since=LATER, until=LATER + HOUR)
        none = await flow(connection, stored.deployment_id, ["elsewhere"], since=NOW - HOUR, until=LATER + HOUR)
    assert [(p.poll_id, p.node, p.arrived, dict(p.left)) for p in points] == [
        (first, NODE, 6, {}),
        (second, NODE, 0, {"completed": 2, "deleted": 1, "lost": 1}),
    ]
    assert [p.complete for p in points] == [False, True], "the first was cut short"
    assert later == points[1:]
    assert none == ()
