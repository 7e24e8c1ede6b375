"""Going through all rows of a server without missing one, although the list moves underneath. Requests only.

Paging is by offset, and offsets shift when a thread is deleted. So every page overlaps the one before: a page that does
not begin with something already seen may have skipped rows, and the walk steps back until it does. A short page is not
the end, since servers cap pages: the end is where nothing new comes.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

from app.facts.types import RowFacts
from app.sources.agent_server.client import AgentServer, RowPage

LEAST_PAGE = 2


@dataclass
class Walk:
    """What went through. ``reasons``: codes of what makes the walk incomplete."""

    seen: int = 0
    malformed: int = 0
    reasons: set[str] = field(default_factory=set)
    newest: datetime | None = None


async def by_thread_id(server: AgentServer, walk: Walk, *, page_size: int) -> AsyncIterator[tuple[RowFacts, ...]]:
    """Every row in order of id, a page at a time, each row once."""
    limit, offset, last = max(LEAST_PAGE, page_size), 0, ""
    overlap = 1
    while True:
        page = await server.page(sort_by="thread_id", descending=False, offset=offset, limit=limit)
        ids = [row.thread_id for row in page.rows]
        if ids != sorted(ids):
            walk.reasons.add("order_unknown")
        if offset > 0 and (not ids or ids[0] > last):
            overlap = min(overlap * 2, offset)
            offset -= overlap
            continue
        _note(walk, page)
        fresh = tuple(row for row in page.rows if row.thread_id > last)
        if fresh:
            last = fresh[-1].thread_id
            walk.seen += len(fresh)
            yield fresh
        if not fresh and page.size < limit:
            return
        overlap = 1
        offset += max(0, page.size - overlap)


async def by_change(
    server: AgentServer, walk: Walk, *, page_size: int, down_to: datetime | None
) -> AsyncIterator[tuple[RowFacts, ...]]:
    """Rows that changed at or after ``down_to`` (None: all), newest change first, each row once."""
    limit, offset = max(LEAST_PAGE, page_size), 0
    seen: set[str] = set()
    overlap = 1
    while True:
        page = await server.page(sort_by="updated_at", descending=True, offset=offset, limit=limit)
        if walk.newest is None and page.rows:
            walk.newest = page.rows[0].updated_at
        if offset > 0 and (not page.rows or page.rows[0].thread_id not in seen):
            overlap = min(overlap * 2, offset)
            offset -= overlap
            continue
        _note(walk, page)
        wanted = [row for row in page.rows if down_to is None or row.updated_at >= down_to]
        fresh = tuple(row for row in wanted if row.thread_id not in seen)
        seen.update(row.thread_id for row in page.rows)
        walk.seen += len(fresh)
        if fresh:
            yield fresh
        if len(wanted) < len(page.rows) or (not fresh and page.size < limit):
            return
        overlap = 1
        offset += max(0, page.size - overlap)


def _note(walk: Walk, page: RowPage) -> None:
    if page.malformed:
        walk.malformed += page.malformed
        walk.reasons.add("row_malformed")
