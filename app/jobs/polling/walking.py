"""The list of threads: all of them in a sweep, what changed in a scan."""

from datetime import datetime, timedelta
from functools import partial

from app.clock import utc_now
from app.jobs.listing import Walk, changed, everything
from app.jobs.polling.reconciling import compare_counts, name_the_broken, name_the_stranded, reconcile
from app.jobs.polling.resuming import remember, resume
from app.jobs.polling.taking_in import take_in_all
from app.jobs.polling.work import Work
from app.jobs.readings import Readings
from app.sources.agent_server.client import Deployed, SortRefused
from app.sources.agent_server.probe import probe

OVERLAP = timedelta(seconds=5)
AHEAD = timedelta(minutes=10)  # how far two clocks may differ


async def sweep(work: Work, readings: Readings, deployed: Deployed) -> None:
    """Every thread; then what changed since the sweep began; then what was not listed."""
    poll, server = work.poll, work.server
    mark = await resume(work)
    start = mark.changed_at if mark is not None else await _newest_change(work)
    poll.expected = await server.count()
    walk = Walk()
    pages = everything(server, walk, page_size=work.settings.page_size, place=mark.place if mark else None)
    poll.seen = mark.seen if mark else 0
    keep = None if start is None else partial(remember, work, walk, deployed, changed_at=start)
    await take_in_all(work, readings, pages, thorough=True, remember=keep)
    poll.seen = walk.seen
    poll.sorts = server.observed.found.get("sort_by_thread_id") is True
    await scan(work, readings, down_to=start)
    await reconcile(work, readings)
    await compare_counts(work)
    await name_the_stranded(work)
    await name_the_broken(work)
    if poll.sample is not None:
        await probe(server, poll.sample)
    for reason in walk.reasons:
        poll.miss(reason)


async def scan(work: Work, readings: Readings, *, down_to: datetime | None) -> None:
    """What changed since ``down_to``, and a little before."""
    poll, walk = work.poll, Walk()
    floor = down_to - OVERLAP if down_to is not None else None
    pages = changed(work.server, walk, page_size=work.settings.page_size, down_to=floor, sorts=poll.sorts)
    await take_in_all(work, readings, pages, thorough=False)
    if poll.kind == "scan":
        poll.seen = walk.seen
    poll.watermark = walk.newest or down_to
    if poll.watermark is not None and poll.watermark > utc_now() + AHEAD:
        # A time that is not yet would hide every change until it comes: go on from a time that is surely past.
        poll.watermark = poll.started_at - AHEAD
    for reason in walk.reasons:
        poll.miss(reason)


async def _newest_change(work: Work) -> datetime | None:
    """When a thread changed last; None when there is none, or the server does not say."""
    try:
        first = await work.server.page(sort_by="updated_at", descending=True, offset=0, limit=1)
    except SortRefused:
        return None
    return first.rows[0].updated_at if first.rows else None
