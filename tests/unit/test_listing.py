"""Going through all rows of a server whose list moves underneath."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.facts.types import RowFacts
from app.jobs.listing import Walk, by_change, by_thread_id
from app.sources.agent_server.client import RowPage
from tests.unit.builders import NOW, row, uuid_of

MANY = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MOST_PAGES = 600


class NeverEnds(AssertionError):
    """The walk asked for more pages than any list needs."""


@dataclass
class ServersList:
    """A server's list of threads, paged by offset. ``between`` changes it between two pages."""

    rows: dict[str, datetime] = field(default_factory=dict)
    cap: int = 1000
    between: Callable[[ServersList], None] = lambda _: None
    malformed: frozenset[str] = frozenset()
    ignores: frozenset[str] = frozenset()
    ties: random.Random | None = None
    pages: int = 0

    async def page(self, *, sort_by: str, descending: bool, offset: int, limit: int) -> RowPage:
        self.pages += 1
        if self.pages > MOST_PAGES:
            raise NeverEnds(f"{self.pages} pages for {len(self.rows)} rows")
        if self.pages > 1:
            self.between(self)
        ids = list(self.rows)
        if "sort" not in self.ignores:
            if sort_by == "thread_id":
                ids.sort(reverse=descending)
            else:
                ids.sort()
                if self.ties:
                    self.ties.shuffle(ids)
                ids.sort(key=lambda one: self.rows[one], reverse=descending)
        start = 0 if "offset" in self.ignores else offset
        size = len(ids) if "limit" in self.ignores else min(limit, self.cap)
        sent = ids[start : start + size]
        readable = [one for one in sent if one not in self.malformed]
        rows = tuple(row(one, updated_at=self.rows[one]) for one in readable)
        return RowPage(rows, len(sent), len(sent) - len(readable))


async def walk_by_id(server: ServersList, page_size: int) -> tuple[list[str], Walk]:
    walk, found = Walk(), []
    async for rows in by_thread_id(server, walk, page_size=page_size):  # type: ignore[arg-type]
        found += [one.thread_id for one in rows]
    return found, walk


async def walk_by_change(server: ServersList, page_size: int, down_to: datetime | None) -> tuple[list[RowFacts], Walk]:
    walk, found = Walk(), []
    async for rows in by_change(server, walk, page_size=page_size, down_to=down_to):  # type: ignore[arg-type]
        found += rows
    return found, walk


def made(count: int, **changes: Any) -> ServersList:
    """``count`` threads with even numbers, so that others fit between; the first changed last."""
    return ServersList({uuid_of(2 * n): NOW - timedelta(seconds=n) for n in range(1, count + 1)}, **changes)


@dataclass
class Moves:
    """What happens to the list between pages, from a seed: deletions, insertions anywhere, updates."""

    seed: int
    deletes: int
    inserts: int
    updates: int
    protected: frozenset[str] = frozenset()
    busy: int = 40

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.deleted: set[str] = set()
        self.updated: set[str] = set()
        self.clock = NOW

    def __call__(self, server: ServersList) -> None:
        if self.busy <= 0:  # a list that shrinks or grows for ever has no end
            return
        self.busy -= 1
        for _ in range(self.random.randint(0, self.deletes)):
            victims = sorted(set(server.rows) - self.protected)
            if victims:
                victim = self.random.choice(victims)
                self.deleted.add(victim)
                del server.rows[victim]
        for _ in range(self.random.randint(0, self.inserts)):
            server.rows.setdefault(uuid_of(self.random.randint(0, 200)), self.tick())
        for _ in range(self.random.randint(0, self.updates)):
            if server.rows:
                one = self.random.choice(sorted(server.rows))
                self.updated.add(one)
                server.rows[one] = self.tick()

    def tick(self) -> datetime:
        self.clock += timedelta(milliseconds=self.random.choice([0, 1, 5]))
        return self.clock


@MANY
@given(
    count=st.integers(0, 60),
    page_size=st.integers(1, 12),
    seed=st.integers(0, 2**32),
    deletes=st.integers(0, 8),
    inserts=st.integers(0, 8),
    updates=st.integers(0, 3),
)
async def test_a_walk_by_id_misses_no_thread_that_was_there_all_the_time(  # noqa: PLR0917
    count: int, page_size: int, seed: int, deletes: int, inserts: int, updates: int
) -> None:
    server = made(count)
    before = set(server.rows)
    moves = server.between = Moves(seed, deletes, inserts, updates)
    found, walk = await walk_by_id(server, page_size)
    assert before - moves.deleted <= set(found)
    assert len(found) == len(set(found)), "a row twice"
    assert found == sorted(found)
    assert walk.seen == len(found)
    assert not walk.reasons


@MANY
@given(
    count=st.integers(0, 60),
    page_size=st.integers(2, 20),
    cap=st.integers(1, 8),
    seed=st.integers(0, 2**32),
    deletes=st.integers(0, 8),
    inserts=st.integers(0, 8),
)
async def test_a_server_that_caps_pages_hides_no_thread_from_a_walk_that_says_it_is_complete(  # noqa: PLR0917
    count: int, page_size: int, cap: int, seed: int, deletes: int, inserts: int
) -> None:
    """Pages shorter than asked are not the end of the list."""
    server = made(count, cap=cap)
    before = set(server.rows)
    moves = server.between = Moves(seed, deletes, inserts, 0)
    found, walk = await walk_by_id(server, page_size)
    assert len(found) == len(set(found)), "a row twice"
    assert walk.reasons or before - moves.deleted <= set(found)


async def test_many_threads_deleted_at_once_behind_the_cursor_of_a_capped_server_hide_nothing() -> None:
    """A time-to-live sweep of the server deletes hundreds in one go; the step back may then overshoot a whole page."""
    server = made(300, cap=20)
    stay = set(list(server.rows)[150:])

    def clean_up(one: ServersList) -> None:
        if one.pages == 9:  # the cursor stands at about 150
            for gone in sorted(one.rows)[:100]:
                del one.rows[gone]

    server.between = clean_up
    found, walk = await walk_by_id(server, 200)
    assert walk.reasons or stay <= set(found)


async def test_a_server_that_sends_one_row_a_page_is_walked_to_the_end_or_the_walk_is_incomplete() -> None:
    found, walk = await walk_by_id(made(5, cap=1), 10)
    assert walk.reasons or len(found) == 5


@MANY
@given(
    count=st.integers(0, 30),
    page_size=st.integers(1, 6),
    broken=st.sets(st.integers(1, 30), max_size=30),
    cap=st.integers(2, 9),
)
async def test_malformed_rows_are_counted_and_the_walk_ends_with_all_others(
    count: int, page_size: int, broken: set[int], cap: int
) -> None:
    bad = frozenset(uuid_of(2 * n) for n in broken if n <= count)
    server = made(count, malformed=bad, cap=cap)
    found, walk = await walk_by_id(server, page_size)
    if not bad:
        assert len(found) == count
    else:
        assert "row_malformed" in walk.reasons
        assert len(found) == len(set(found))


async def test_a_server_whose_every_row_is_malformed_does_not_keep_the_walk_for_ever() -> None:
    server = made(10)
    server.malformed = frozenset(server.rows)
    found, walk = await walk_by_id(server, 4)
    assert found == []
    assert walk.reasons == {"row_malformed"}


@pytest.mark.parametrize(
    "ignores", [{"offset"}, {"limit"}, {"offset", "limit"}, {"sort"}], ids=lambda one: "+".join(sorted(one))
)
@pytest.mark.parametrize("count", [0, 1, 4, 5, 23])
async def test_a_server_that_ignores_what_is_asked_never_looks_complete_with_rows_missing(
    ignores: set[str], count: int
) -> None:
    server = made(count, ignores=frozenset(ignores))
    items = list(server.rows.items())
    random.Random(7).shuffle(items)
    server.rows = dict(items)
    found, walk = await walk_by_id(server, 4)
    assert len(found) == len(set(found))
    assert walk.reasons or len(found) == count


# -- by change ------------------------------------------------------------------------------------------------------


@MANY
@given(
    count=st.integers(0, 60),
    page_size=st.integers(1, 12),
    cap=st.sampled_from([1000, 2, 3, 5]),
    seed=st.integers(0, 2**32),
    deletes=st.integers(0, 8),
    inserts=st.integers(0, 8),
    updates=st.integers(0, 3),
    floor=st.one_of(st.none(), st.integers(0, 60)),
)
async def test_a_walk_by_change_misses_no_row_that_had_changed_and_stayed_as_it_was(  # noqa: PLR0917
    count: int, page_size: int, cap: int, seed: int, deletes: int, inserts: int, updates: int, floor: int | None
) -> None:
    server = made(count, cap=cap)
    before = dict(server.rows)
    down_to = None if floor is None else NOW - timedelta(seconds=floor)
    moves = server.between = Moves(seed, deletes, inserts, updates)
    found, walk = await walk_by_change(server, page_size, down_to)
    ids = [one.thread_id for one in found]
    wanted = {one for one, when in before.items() if down_to is None or when >= down_to}
    assert len(ids) == len(set(ids)), "a row twice"
    assert walk.reasons or wanted - moves.deleted - moves.updated <= set(ids)
    assert down_to is None or all(one.updated_at >= down_to for one in found)


@MANY
@given(
    count=st.integers(2, 40),
    page_size=st.integers(1, 6),
    seed=st.integers(0, 2**32),
    deletes=st.integers(0, 3),
    updates=st.integers(1, 3),
)
async def test_a_row_that_moves_to_the_top_during_the_walk_is_not_missed_by_it_and_the_next_one(
    count: int, page_size: int, seed: int, deletes: int, updates: int
) -> None:
    """The next walk goes down to where this one began, so a row may be late by one walk and never more."""
    server = made(count)
    moves = server.between = Moves(seed, deletes, 0, updates)
    before = set(server.rows)
    first, walk = await walk_by_change(server, page_size, None)
    server.between = lambda _: None
    server.pages = 0
    second, _ = await walk_by_change(server, page_size, walk.newest)
    assert before - moves.deleted <= {one.thread_id for one in [*first, *second]}


@pytest.mark.parametrize("page_size", [1, 2, 3, 5, 40])
async def test_rows_that_changed_at_the_same_moment_are_all_found_once(page_size: int) -> None:
    server = ServersList({uuid_of(n): NOW for n in range(1, 31)})
    found, walk = await walk_by_change(server, page_size, NOW)
    assert sorted(one.thread_id for one in found) == sorted(server.rows)
    assert not walk.reasons


@pytest.mark.parametrize("seed", range(5))
async def test_ties_in_another_order_on_every_page_lose_no_row_without_a_reason(seed: int) -> None:
    """PostgreSQL promises no order among equal ``updated_at``: a bulk update makes hundreds of them."""
    server = ServersList({uuid_of(n): NOW for n in range(1, 31)}, ties=random.Random(seed))
    found, walk = await walk_by_change(server, 8, NOW)
    assert walk.reasons or {one.thread_id for one in found} == set(server.rows)


async def test_a_server_that_ignores_the_order_of_change_is_noticed() -> None:
    """Else the walk stops at the first old row, and calls itself complete."""
    server = made(30, ignores=frozenset({"sort"}))
    server.rows = dict(reversed(list(server.rows.items())))  # oldest first
    found, walk = await walk_by_change(server, 5, NOW - timedelta(seconds=10))
    assert walk.reasons or len(found) == 10


@pytest.mark.parametrize("ignores", [{"offset"}, {"offset", "limit"}])
async def test_a_walk_by_change_ends_on_a_server_that_ignores_the_offset(ignores: set[str]) -> None:
    server = made(12, ignores=frozenset(ignores))
    found, walk = await walk_by_change(server, 4, None)
    assert walk.reasons or len(found) == 12


async def test_the_watermark_is_the_newest_change_at_the_beginning_of_the_walk() -> None:
    server = made(10)
    newest = max(server.rows.values())
    server.between = Moves(3, 0, 2, 2)
    _, walk = await walk_by_change(server, 3, None)
    assert walk.newest == newest
