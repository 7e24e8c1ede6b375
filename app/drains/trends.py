"""How drains went, in a few numbers each: for lists of drains. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.drains.dispositions import Disposition
from app.inventory.evaluations import Sample

POINTS = 16
LONGEST = timedelta(days=14)
SHORTEST = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Trend:
    """A drain since it began to observe. ``left``: threads that blocked or were unknown at equal steps of ``span`` up to now;
    None before its first answer."""

    drain: str
    deployment: str
    since: datetime
    span: timedelta
    left: tuple[int | None, ...]


def trend_times(since: datetime, now: datetime) -> list[datetime]:
    """The times that a trend asks about, oldest first; the last is now."""
    step = _span(since, now) / (POINTS - 1)
    return [now - step * back for back in range(POINTS - 1, -1, -1)]


def trend(drain: str, deployment: str, since: datetime, samples: Sequence[Sample], now: datetime) -> Trend:
    """The trend of one drain, from what it said at those times."""
    said = {sample.at: sample.dispositions for sample in samples}
    times = trend_times(since, now)
    return Trend(
        drain, deployment, since, _span(since, now), tuple(_left(said[at]) if at in said else None for at in times)
    )


def _span(since: datetime, now: datetime) -> timedelta:
    return max(SHORTEST, min(LONGEST, now - since))


_GROUPS = {found.value: found.group for found in Disposition}


def _left(dispositions: object) -> int:
    counts = dispositions if isinstance(dispositions, dict) else {}
    return sum(count for name, count in counts.items() if _GROUPS.get(name, "unknown") in ("blocking", "unknown"))
