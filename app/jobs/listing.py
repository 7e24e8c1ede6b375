"""Going through all rows of a server without missing one, although the list moves underneath. Requests only.

A server may refuse an order, ignore it, or have its own idea of it (a database sorts text by its locale). So the order is
checked on every page, and where it does not hold another one is tried: by id, by creation, by change.

Paging is by offset, and offsets shift when a thread is deleted. So every page overlaps the one before: a page that does
not begin with something already seen may have skipped rows, and the walk steps back until it does. A short page is not
the end, since servers cap pages: the end is where nothing follows. A walk that gets nowhere stops, and says so.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Literal

from app.facts.types import RowFacts
from app.sources.agent_server.client import AgentServer, RowPage, SortRefused
from app.sources.agent_server.observed import SortBy

ByTime = Literal["created_at", "updated_at"]
LEAST_PAGE = 2
MOST_ROWS = 1000  # that a server sends on a page
FIRST_PAGE = 200  # of a walk down to a moment: mostly little has changed
LEAST_PATIENCE = 64
MOST_PASSES = 10
SURE = 4


@dataclass
class Walk:
    """What went through. ``reasons``: codes of what makes the walk incomplete. ``newest``: the newest change when it began.

    ``idle`` counts pages in a row that brought nothing new, and ``reached`` is the offset that last brought something: a few
    such pages are normal after stepping back. ``by_id``: it goes in the order of ids.
    """

    seen: int = 0
    malformed: int = 0
    reasons: set[str] = field(default_factory=set)
    newest: datetime | None = None
    idle: int = 0
    reached: int = 0
    by_id: bool = True

    def note(self, page: RowPage) -> None:
        """One more page."""
        self.idle += 1
        if page.malformed:
            self.malformed += page.malformed
            self.reasons.add("row_malformed")

    def brought(self, count: int, offset: int) -> None:
        """New rows, at an offset."""
        self.seen += count
        self.idle, self.reached = 0, offset

    def take_over(self, attempt: "Walk") -> None:
        """What another walk, which went to its end, has seen."""
        self.seen, self.malformed = attempt.seen, attempt.malformed
        self.newest, self.reasons = attempt.newest, attempt.reasons

    def is_stuck(self, size: int) -> bool:
        """Whether it is of no use to go on: nothing new for longer than any step back explains."""
        if self.idle <= LEAST_PATIENCE + 2 * self.reached // max(1, size):
            return False
        if not self.malformed:
            self.reasons.add("list_stuck")
        return True


@dataclass(frozen=True, slots=True)
class Place:
    """Where a walk by id stopped: the last id, and how many rows it had seen until then."""

    last: str = ""
    seen: int = 0


async def everything(
    server: AgentServer, walk: Walk, *, page_size: int, place: Place | None = None
) -> AsyncGenerator[tuple[RowFacts, ...]]:
    """Every row, in the first order that the server keeps; a row may come again when a second order had to be tried.
    ``place``: where to go on, in the order of ids."""
    for go in (partial(by_thread_id, place=place), by_creation, partial(by_change, down_to=None)):
        attempt = Walk()
        try:
            async with aclosing(go(server, attempt, page_size=page_size)) as pages:
                async for rows in pages:
                    if "order_unknown" in attempt.reasons:
                        break
                    walk.reasons |= attempt.reasons
                    yield rows
        except SortRefused:
            attempt.reasons.add("order_unknown")
        if "order_unknown" not in attempt.reasons:
            walk.take_over(attempt)
            return
        walk.by_id = False
    async for rows in _whatever_comes(server, walk, page_size=page_size):
        yield rows


async def changed(
    server: AgentServer, walk: Walk, *, page_size: int, down_to: datetime | None, sorts: bool
) -> AsyncGenerator[tuple[RowFacts, ...]]:
    """Rows that changed at or after ``down_to``; every row where the server does not sort by change.

    ``sorts``: the server was seen to sort as asked. One that always lists the newest thread first looks sorted by change
    until an old thread changes, and stopping at ``down_to`` would hide that one.
    """
    if sorts:
        attempt = Walk()
        try:
            async with aclosing(by_change(server, attempt, page_size=page_size, down_to=down_to)) as pages:
                async for rows in pages:
                    yield rows
        except SortRefused:
            attempt.reasons.add("order_unknown")
        if "order_unknown" not in attempt.reasons:
            walk.take_over(attempt)
            return
    oldest: datetime | None = None
    async for rows in everything(server, walk, page_size=page_size):
        oldest = min(row.updated_at for row in rows) if oldest is None else min(oldest, *(r.updated_at for r in rows))
        yield rows
    walk.newest = down_to or oldest  # what changed later may have been passed before it did


async def _whatever_comes(server: AgentServer, walk: Walk, *, page_size: int) -> AsyncIterator[tuple[RowFacts, ...]]:
    """What can be seen of a list that keeps to no order; it proves nothing."""
    walk.reasons.add("order_unknown")
    try:
        async for rows in by_thread_id(server, walk, page_size=page_size):
            yield rows
    except SortRefused:
        return


async def by_thread_id(
    server: AgentServer, walk: Walk, *, page_size: int, place: Place | None = None
) -> AsyncGenerator[tuple[RowFacts, ...]]:
    """Every row in order of id, a page at a time, each row once. Offsets may have shifted since ``place``: the walk steps
    back until a page begins with what was seen."""
    place = place or Place()
    limit, offset, last, overlap, largest = max(LEAST_PAGE, page_size), max(0, place.seen - 1), place.last, 1, 0
    walk.seen, walk.reached = place.seen, offset
    while True:
        page = await server.page(sort_by="thread_id", descending=False, offset=offset, limit=limit)
        walk.note(page)
        largest = max(largest, page.size)
        ids = [row.thread_id for row in page.rows]
        if ids != sorted(ids):
            walk.reasons.add("order_unknown")
        if walk.is_stuck(page.size):
            return
        if offset > 0 and (not ids or ids[0] > last):
            overlap = min(overlap * 2, offset)
            offset -= overlap
            continue
        fresh = tuple(row for row in page.rows if row.thread_id > last)
        if fresh:
            last = fresh[-1].thread_id
            walk.brought(len(fresh), offset)
            yield fresh
        elif page.size < max(1, largest) and await _nothing_follows(server, "thread_id", offset + page.size):
            return
        if largest == 1 and await _is_alone(server, walk, "thread_id", partial(_is_at_or_before, last)):
            return
        overlap = 1
        offset += max(1, page.size - overlap)


async def by_creation(server: AgentServer, walk: Walk, *, page_size: int) -> AsyncGenerator[tuple[RowFacts, ...]]:
    """Every row, the newest first, each row once. When a thread was made never changes, so this order does as well as that
    of ids; what is made meanwhile is at the top, for the next walk by change."""
    turned = _Turned()
    async for rows in _one_pass(server, walk, set(), turned, page_size=page_size, down_to=None, by="created_at"):
        yield rows


async def by_change(
    server: AgentServer, walk: Walk, *, page_size: int, down_to: datetime | None
) -> AsyncGenerator[tuple[RowFacts, ...]]:
    """Rows that changed at or after ``down_to`` (None: all), newest change first, each row once.

    A row that moves to the top while pages are turned is in no later page: so the top is read again until nothing new has
    come. What was seen and moved since is for the next walk, which goes down to where this one began.
    """
    seen: set[str] = set()
    floor = down_to
    for _ in range(MOST_PASSES):
        turned = _Turned()
        async for rows in _one_pass(server, walk, seen, turned, page_size=page_size, down_to=floor):
            yield rows
        if walk.reasons or turned.pages <= 1 or await _nothing_moved(server, turned):
            return
        floor = walk.newest
    walk.reasons.add("list_stuck")


@dataclass
class _Turned:
    """One pass: how many pages it took, the row that was at the top when it began, and whether equals fill a page."""

    pages: int = 0
    top: RowFacts | None = None
    tied: bool = False

    def note(self, page: RowPage) -> None:
        """One more page."""
        self.pages += 1
        if self.pages == 1 and page.rows:
            self.top = page.rows[0]


async def _nothing_moved(server: AgentServer, turned: _Turned) -> bool:
    """Whether the top of the list is as it was: then nothing went there while pages were turned."""
    page = await server.page(sort_by="updated_at", descending=True, offset=0, limit=1)
    top = page.rows[0] if page.rows else None
    before = turned.top
    if top is None or before is None:
        return top is before
    return (top.thread_id, top.updated_at) == (before.thread_id, before.updated_at)


async def _one_pass(
    server: AgentServer,
    walk: Walk,
    seen: set[str],
    turned: _Turned,
    *,
    page_size: int,
    down_to: datetime | None,
    by: ByTime = "updated_at",
) -> AsyncGenerator[tuple[RowFacts, ...]]:
    whole = max(LEAST_PAGE, page_size)
    limit, offset, overlap, largest = whole if down_to is None else min(whole, FIRST_PAGE), 0, 1, 0
    passed: set[str] = set()
    while True:
        page = await server.page(sort_by=by, descending=True, offset=offset, limit=limit)
        walk.note(page)
        turned.note(page)
        largest = max(largest, page.size)
        _check_order(walk, page, by)
        if walk.is_stuck(page.size):
            return
        if offset > 0 and (not page.rows or page.rows[0].thread_id not in passed):
            overlap = min(overlap * 2, offset)
            offset -= overlap
            continue
        wanted = [row for row in page.rows if down_to is None or row.updated_at >= down_to]
        fresh = tuple(row for row in wanted if row.thread_id not in seen)
        new_here = {row.thread_id for row in page.rows} - passed
        seen.update(row.thread_id for row in wanted)
        passed |= new_here
        if new_here:
            walk.brought(len(fresh), offset)
        if fresh:
            yield fresh
        is_short = not new_here and page.size < max(1, largest)
        if len(wanted) < len(page.rows) or (is_short and await _nothing_follows(server, by, offset + page.size)):
            break
        if largest == 1 and await _is_alone(server, walk, by, partial(_is_in, passed)):
            return
        overlap = 1
        if _is_one_moment(page, by) and limit < MOST_ROWS and page.size >= limit:
            limit = MOST_ROWS  # among equals a server promises no order, so have them all on one page if it can
            continue
        turned.tied = turned.tied or _is_one_moment(page, by)
        offset += _step(page, by)
        limit = max(limit, whole)
    if turned.tied and not walk.malformed and len(passed) < offset + page.size:
        walk.reasons.add("order_unknown")


def _check_order(walk: Walk, page: RowPage, by: ByTime) -> None:
    times = _times(page, by)
    if walk.newest is None and times and by == "updated_at":
        walk.newest = times[0]
    if times != sorted(times, reverse=True):
        walk.reasons.add("order_unknown")


def _times(page: RowPage, by: ByTime) -> list[datetime]:
    return [row.created_at if by == "created_at" else row.updated_at for row in page.rows]


def _is_one_moment(page: RowPage, by: ByTime) -> bool:
    """Whether all rows of a page changed, or were made, at the same moment."""
    return len(page.rows) > 1 and len(set(_times(page, by))) == 1


def _step(page: RowPage, by: ByTime) -> int:
    """How far to go on: so that the next page begins with the rows that changed at the same moment as the last one."""
    if _is_one_moment(page, by) or not page.rows:
        return max(1, page.size - 1)
    times = _times(page, by)
    return max(1, times.index(times[-1]))


def _is_at_or_before(last: str, row: RowFacts) -> bool:
    return row.thread_id <= last


def _is_in(passed: set[str], row: RowFacts) -> bool:
    return row.thread_id in passed


async def _nothing_follows(server: AgentServer, sort_by: SortBy, offset: int) -> bool:
    """Whether the list ends at an offset."""
    page = await server.page(sort_by=sort_by, descending=sort_by != "thread_id", offset=offset, limit=1)
    return page.size == 0


async def _is_alone(server: AgentServer, walk: Walk, sort_by: SortBy, is_seen: Callable[[RowFacts], bool]) -> bool:
    """After pages of one row each: whether there is no row but one that was seen, or the server sends one row at a time,
    so that no page can overlap the one before and nothing is proved. A list that grows from one row to two looks so for a
    moment."""
    for _ in range(SURE):
        if not await _shows_one(server, sort_by, is_seen):
            return False
        if await _nothing_follows(server, sort_by, 1):
            return await _shows_one(server, sort_by, is_seen)
    walk.reasons.add("page_too_small")
    return True


async def _shows_one(server: AgentServer, sort_by: SortBy, is_seen: Callable[[RowFacts], bool]) -> bool:
    """Whether the first page has a single row, although two were asked for, and it was seen."""
    two = await server.page(sort_by=sort_by, descending=sort_by != "thread_id", offset=0, limit=2)
    return two.size == 1 and all(is_seen(row) for row in two.rows)
