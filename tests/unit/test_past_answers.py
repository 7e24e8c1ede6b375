"""Stored answers: which one held at a time, how a drain went, and the preview of a drain."""

from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import insert

from app.drains.preview import NOBODY, as_if_written
from app.drains.spec import DrainSpec, Policy, Target, to_json
from app.drains.trends import POINTS, trend, trend_times
from app.inventory import evaluations, tables, writes
from app.inventory.db import Database
from app.inventory.evaluations import Sample
from tests.unit.builders import HOUR, MINUTE, NOW

SPEC = DrainSpec("drop-it", "prod", "support", (Target("node", "old"),))


async def keep(database: Database, *answers: tuple[datetime, int]) -> int:
    """A drain with stored answers: when, and how many threads blocked."""
    async with database.write() as connection:
        deployment_id = await writes.ensure_deployment(connection, "prod", NOW)
        drain: Any = {
            "deployment_id": deployment_id, "name": "drop-it", "spec": to_json(SPEC), "created_at": NOW,
            "criteria_digest": SPEC.criteria_digest(), "criteria_version": 1, "managed_by_file": False,
            "sweeps": 0, "removed": {},
        }  # fmt: skip
        drain_id = (await connection.execute(insert(tables.drain).values(drain))).inserted_primary_key[0]
        for at, blocking in answers:
            said = {"dispositions": {"parked_at_target": blocking, "unread": 1, "unaffected": 7}}
            await writes.add_evaluation(
                connection,
                {
                    "deployment_id": deployment_id, "drain_id": drain_id, "poll_id": 1, "evaluated_at": at,
                    "criteria_version": 1, "verdict": "blocked", "answer": said,
                },
            )  # fmt: skip
    return int(drain_id)


async def test_the_answer_of_a_time_is_the_last_one_before_it(database: Database) -> None:
    drain_id = await keep(database, (NOW, 3), (NOW + HOUR, 2), (NOW + 2 * HOUR, 1))

    async def at(when: datetime) -> evaluations.HeldAnswer | None:
        async with database.read() as connection:
            return await evaluations.find_answer(connection, drain_id, at=when)

    assert await at(NOW - MINUTE) is None
    first, middle, last = await at(NOW), await at(NOW + HOUR + MINUTE), await at(NOW + 9 * HOUR)
    assert first is not None
    assert middle is not None
    assert last is not None
    assert (first.stored.at, first.until, first.earlier, first.later) == (NOW, NOW + HOUR, None, middle.stored.number)
    assert (middle.until, middle.earlier) == (NOW + 2 * HOUR, first.stored.number)
    assert (last.until, last.later) == (None, None)
    async with database.read() as connection:
        found = await evaluations.find_answer(connection, drain_id, number=middle.stored.number)
        assert found == middle
        assert await evaluations.find_answer(connection, drain_id + 1, number=middle.stored.number) is None
        page, older = await evaluations.list_answers(connection, drain_id, before=None, limit=2)
        assert [each.number for each in page] == [last.stored.number, middle.stored.number]
        rest, end = await evaluations.list_answers(connection, drain_id, before=older, limit=2)
        assert ([each.number for each in rest], end) == ([first.stored.number], None)


async def test_a_trend_has_what_held_at_each_time(database: Database) -> None:
    drain_id = await keep(database, (NOW, 30), (NOW + HOUR, 20), (NOW + HOUR + MINUTE, 10))
    times = [NOW - MINUTE, NOW, NOW + HOUR - MINUTE, NOW + HOUR, NOW + 5 * HOUR]
    async with database.read() as connection:
        samples = await evaluations.list_samples(connection, [drain_id, drain_id + 1], times)
    assert [(each.at, each.dispositions["parked_at_target"]) for each in samples] == [
        (NOW, 30), (NOW + HOUR - MINUTE, 30), (NOW + HOUR, 20), (NOW + 5 * HOUR, 10),
    ]  # fmt: skip


def test_a_trend_counts_what_blocks_and_what_is_unknown() -> None:
    since, now = NOW, NOW + 10 * HOUR
    times = trend_times(since, now)
    assert (times[0], times[-1], len(times)) == (since, now, POINTS)
    counts = {"parked_at_target": 3, "unread": 2, "unaffected": 90, "waived": 1, "of_tomorrow": 1}
    found = trend("x", "prod", since, [Sample(1, times[-1], counts)], now)
    assert found.left == (None,) * (POINTS - 1) + (6,), "what we do not know counts as unknown"


class Known:
    """A stored drain."""

    id, deployment_id, criteria_version, closed_at = 7, 1, 4, None
    criteria_digest = SPEC.criteria_digest()
    observing_since, holds_since, sweeps = NOW - HOUR, NOW - MINUTE, 2
    regressed_since = drained_at = fell_at = leaking_since = None
    removed: dict[str, str] = {}  # noqa: RUF012


def test_a_preview_of_a_new_drain_has_proved_nothing() -> None:
    found = as_if_written(None, SPEC, 1, NOW)
    assert (found.id, found.holds_since, found.sweeps, found.observing_since) == (NOBODY, None, 0, NOW)


@pytest.mark.parametrize(("policy", "sweeps", "version"), [(Policy(), 2, 4), (Policy(soak_sweeps=5), 0, 5)])
def test_a_preview_keeps_what_was_proved_of_the_same_criteria_only(policy: Policy, sweeps: int, version: int) -> None:
    asked = DrainSpec("drop-it", "prod", "support", SPEC.targets, owner="somebody else", policy=policy)
    found = as_if_written(Known(), asked, 1, NOW)
    assert (found.id, found.sweeps, found.criteria_version) == (7, sweeps, version)
    assert found.observing_since == Known.observing_since


def test_a_preview_of_a_closed_drain_that_is_opened_begins_anew() -> None:
    class Closed(Known):
        closed_at = NOW - MINUTE

    found = as_if_written(Closed(), SPEC, 1, NOW)
    assert (found.sweeps, found.observing_since, found.closed_at) == (0, NOW, None)
