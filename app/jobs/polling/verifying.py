"""Between polls: idle heads that a green verdict needs, read a handful at a time within the deployment's budget.

Each handful has a look at the graphs before and after it, and is written only when nothing was deployed meanwhile: then
nothing that a stopped process leaves behind has to be distrusted.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from math import ceil
from typing import Any

from sqlalchemy import ColumnElement, or_

from app.clock import utc_now
from app.inventory import reads, writes
from app.inventory.views import Verification
from app.jobs.deployed import looks_the_same, restarted, unchanged
from app.jobs.polling.graphs import stored_graphs
from app.jobs.polling.preparing import prepare_reading, readings_of
from app.jobs.polling.work import Work, log
from app.jobs.readings import gather

SECONDS = 3  # how long a handful may keep a poll waiting
LEAST, MOST = 1, 500
SMOOTH = 0.3  # how much the newest rate counts
SPARE = 1.25  # a budget that would just do is one that does not


@dataclass(frozen=True, slots=True)
class Progress:
    """What is remembered from one handful to the next."""

    at: datetime
    total: int
    left: int
    read_per_minute: float = 0.0
    moved_per_minute: float = 0.0


async def verify_some(work: Work) -> int:
    """Read a handful of idle heads, and keep how far that got. The number read: 0 when nothing is left, or a deploy has to be
    looked at first."""
    wanted = await _wanted(work)
    if wanted is None:
        await _keep(work, None)
        return 0
    started = utc_now()
    total, left = await _count(work, wanted)
    size = max(LEAST, min(MOST, work.server.pace.requests_per_minute * SECONDS // 60))
    unread = wanted.left & reads.is_not_read_since(started - work.settings.sweep_interval)
    async with work.reading() as connection:
        ids = await reads.list_oldest_readings(connection, work.deployment_id, where=unread, limit=size)
    done = await _read(work, ids) if ids else 0
    await _keep(
        work, next_progress(await _last(work), total=total, left=left, done=done, started=started, now=utc_now())
    )
    return done


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Conditions: idle heads that drains need, and those that are not read."""

    left: ColumnElement[bool]
    total: ColumnElement[bool]


async def _wanted(work: Work) -> _Wanted | None:
    needs = await work.drains.needs(work.deployment_id, utc_now())
    left = [need.idle_heads for need in needs if need.idle_heads is not None and need.counted is not None]
    total = [need.counted for need in needs if need.idle_heads is not None and need.counted is not None]
    return _Wanted(or_(*left), or_(*total)) if left else None


async def _count(work: Work, wanted: _Wanted) -> tuple[int, int]:
    async with work.reading() as connection:
        total = await reads.count_threads(connection, work.deployment_id, wanted.total & reads.is_idle())
        return total, await reads.count_threads(connection, work.deployment_id, wanted.left)


async def _read(work: Work, ids: list[str]) -> int:
    """Read heads and write them, if the graphs were the same before and after."""
    if not await _same_graphs(work):
        return 0
    await prepare_reading(work)
    readings = await readings_of(work)
    async with work.reading() as connection:
        known = await reads.known_threads(connection, work.dictionaries, ids)
    found = await gather(readings.read(facts.row, facts) for facts in known.values())
    if not await _same_graphs(work):
        return 0
    async with work.writing() as connection:
        await writes.upsert_threads(connection, work.dictionaries, found, poll_id=work.poll.id, listed=False)
    return len(found)


async def _same_graphs(work: Work) -> bool:
    """Whether what is deployed is what the last poll saw. If not, the next poll looks at it."""
    deployed = await work.server.deployed()
    revisions, drawings = await stored_graphs(work)
    graphs = {found.graph_id for found in deployed.graphs}
    if not unchanged(deployed, revisions) or restarted(deployed, drawings):
        return False
    return await looks_the_same(work.server, deployed, revisions, drawings, graphs=graphs)


# -- how far it got ------------------------------------------------------------------------------------------------


def next_progress(
    last: Progress | None, *, total: int, left: int, done: int, started: datetime, now: datetime
) -> Progress:
    """How far it is after a handful. ``total`` and ``left`` are of before it; what came since the last one has moved."""
    read = 60 * done / max((now - started).total_seconds(), 0.001)
    if last is None or last.at > started:
        return Progress(now, total, max(0, left - done), read, 0.0)
    came = max(0, left - last.left)
    moved = 60 * came / max((now - last.at).total_seconds(), 0.001)
    return Progress(
        now,
        total,
        max(0, left - done),
        _smoothed(last.read_per_minute, read) if done else last.read_per_minute,
        _smoothed(last.moved_per_minute, moved),
    )


def _smoothed(before: float, now: float) -> float:
    return before + SMOOTH * (now - before) if before else now


async def _last(work: Work) -> Progress | None:
    async with work.reading() as connection:
        row = await reads.find_deployment(connection, work.settings.name)
    return _progress(row.verification) if row is not None and row.verification else None


async def _keep(work: Work, progress: Progress | None) -> None:
    raw = None if progress is None else as_kept(progress)
    async with work.writing() as connection:
        await writes.update_deployment(connection, work.deployment_id, verification=raw)
    if progress is not None:
        log.info("verify.progress", deployment=work.settings.name, total=progress.total, left=progress.left)


def as_kept(progress: Progress) -> dict[str, Any]:
    """What is kept with the deployment."""
    return asdict(progress) | {"at": progress.at.isoformat()}


def _progress(raw: Mapping[str, Any]) -> Progress:
    return Progress(**{**raw, "at": datetime.fromisoformat(raw["at"])})


def verification_of(raw: Mapping[str, Any] | None, *, requests_per_minute: int) -> Verification | None:
    """What was kept, as it is shown."""
    if raw is None:
        return None
    found = _progress(raw)
    gains = found.read_per_minute - found.moved_per_minute
    behind = found.left > 0 and 0 < found.read_per_minute <= found.moved_per_minute
    budget = ceil(requests_per_minute * SPARE * found.moved_per_minute / found.read_per_minute) if behind else None
    done_in = round(60 * found.left / gains) if gains > 0 else None
    return Verification(
        as_of=found.at,
        total=found.total,
        left=found.left,
        read_per_minute=round(found.read_per_minute, 1),
        moved_per_minute=round(found.moved_per_minute, 1),
        done_in_seconds=done_in if found.left else 0,
        budget=budget,
        sentence=_sentence(found, done_in, budget),
    )


def _sentence(found: Progress, done_in: int | None, budget: int | None) -> str:
    told = f"{found.total - found.left:,} of {found.total:,} idle heads verified"
    if not found.left:
        return f"{told}."
    if budget is not None:
        return (
            f"{told}. Threads move faster than they can be read: {found.moved_per_minute:,.0f} a minute, of which "
            f"{found.read_per_minute:,.0f} can be read. requests_per_minute = {budget} would do."
        )
    return f"{told}." if done_in is None else f"{told}, done in about {_about(done_in)} at this rate."


def _about(seconds: int) -> str:
    if seconds < 90:
        return f"{max(1, seconds)} seconds"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{round(minutes / 60)} hours"
