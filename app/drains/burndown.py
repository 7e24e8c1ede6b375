"""How a drain went over time: what was left after each poll, what came and what left, where nobody looked. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from app.drains.dispositions import Disposition


@dataclass(frozen=True, slots=True)
class BurnPoint:
    """What a stored answer said: threads that block, that are unknown, and all of the population."""

    at: datetime
    verdict: str
    blocking: int
    unknown: int
    size: int
    criteria_version: int


@dataclass(frozen=True, slots=True)
class FlowCount:
    """What one poll saw come to the node targets and leave them, in threads. ``left`` is by departure. ``complete``: the poll
    saw everything; what came and left between two polls is in neither number."""

    at: datetime
    poll: int
    arrived: int
    left: Mapping[str, int]
    complete: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which no poll saw everything: what happened then is not in the series."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class DeployMark:
    """A deploy of the drain's graph, by its id."""

    at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class BurnDown:
    """The series of one drain between two times, oldest first. A point holds until the next one."""

    drain: str
    since: datetime
    until: datetime
    points: tuple[BurnPoint, ...]
    flow: tuple[FlowCount, ...]
    gaps: tuple[Gap, ...]
    deploys: tuple[DeployMark, ...]

    @property
    def arrived(self) -> int:
        """Threads that were seen to come."""
        return sum(found.arrived for found in self.flow)

    @property
    def left(self) -> int:
        """Threads that were seen to leave."""
        return sum(sum(found.left.values()) for found in self.flow)


def burn_point(answer: Mapping[str, Any], at: datetime) -> BurnPoint:
    """The point of a stored answer."""
    groups = {"blocking": 0, "unknown": 0}
    for name, count in answer["dispositions"].items():
        group = Disposition(name).group
        if group in groups:
            groups[group] += count
    return BurnPoint(
        at,
        answer["verdict"],
        groups["blocking"],
        groups["unknown"],
        answer["population"]["size"],
        answer["criteria_version"],
    )


def find_gaps(looks: Sequence[datetime], *, since: datetime, until: datetime, longest: timedelta) -> tuple[Gap, ...]:
    """The times longer than ``longest`` between complete looks, from the first one on, up to ``until``."""
    times = sorted(look for look in looks if since <= look <= until)
    if not times:
        return (Gap(since, until),) if until > since else ()
    return tuple(Gap(before, after) for before, after in pairwise([*times, until]) if after - before > longest)


def sum_flow(found: Iterable[FlowCount]) -> tuple[FlowCount, ...]:
    """One count for each poll, over all nodes."""
    by_poll: dict[int, FlowCount] = {}
    for one in found:
        before = by_poll.get(one.poll)
        if before is None:
            by_poll[one.poll] = one
            continue
        left = {name: before.left.get(name, 0) + one.left.get(name, 0) for name in (*before.left, *one.left)}
        by_poll[one.poll] = FlowCount(
            one.at, one.poll, before.arrived + one.arrived, left, before.complete and one.complete
        )
    return tuple(sorted(by_poll.values(), key=lambda one: one.at))
