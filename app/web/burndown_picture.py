"""The burn-down as a picture: what is left as a line, arrivals and departures below it, deploys as marks. Pure.

Drawn on the server, coloured by the style sheet. A line stops where nobody looked and goes on after it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.drains.burndown import BurnDown, BurnPoint, FlowCount, Gap
from app.drains.sentences import threads
from app.durations import span

WIDTH, HEIGHT = 720, 206
LEFT, RIGHT, TOP = 44, 8, 12
LINE_BOTTOM, FLOW_TOP, FLOW_BOTTOM = 128, 146, 182
BARS = 60
ROWS = 12
SHORTEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """Threads that came or left in one part of the time; ``y`` and ``height`` in the strip below the line."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A deploy, or a time in which nobody looked (then with a width)."""

    x: float
    width: float
    at: datetime
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table that says the same."""

    at: datetime
    blocking: int
    unknown: int
    size: int


@dataclass(frozen=True, slots=True)
class BurnPicture:
    """All that the template draws. ``blocking`` and ``unknown`` are SVG paths; ``most``: the threads at the top of the scale."""

    sentence: str
    blocking: str
    unknown: str
    most: int
    arrived: tuple[Bar, ...]
    left: tuple[Bar, ...]
    most_flow: int
    gaps: tuple[Mark, ...]
    deploys: tuple[Mark, ...]
    rows: tuple[Row, ...]
    since: datetime
    until: datetime
    width: int = WIDTH
    height: int = HEIGHT


def draw_burndown(found: BurnDown) -> BurnPicture | None:
    """The picture of a drain's history; None while no answer is stored."""
    if not found.points:
        return None
    begins = min(found.points[0].at, found.until - SHORTEST)  # nothing is drawn of the time before the first look
    scale = _Scale(begins, found.until)
    most = max(1, *(max(point.blocking, point.unknown) for point in found.points))
    arrived, left, most_flow = _bars(found.flow, scale)
    return BurnPicture(
        sentence=say_burndown(found),
        blocking=_path([(point.at, point.blocking) for point in found.points], found.gaps, scale, most),
        unknown=_path([(point.at, point.unknown) for point in found.points], found.gaps, scale, most),
        most=most,
        arrived=arrived,
        left=left,
        most_flow=most_flow,
        gaps=tuple(Mark(scale.x(gap.since), scale.x(gap.until) - scale.x(gap.since), gap.since) for gap in found.gaps),
        deploys=tuple(Mark(scale.x(mark.at), 0, mark.at, mark.id) for mark in found.deploys),
        rows=tuple(_rows(found.points)),
        since=begins,
        until=found.until,
    )


def say_burndown(found: BurnDown) -> str:
    """The picture in words. No date of an end where as many come as leave."""
    first, last = found.points[0], found.points[-1]
    length = found.until - first.at
    block = "blocks" if last.blocking == 1 else "block"
    parts = [f"{threads(last.blocking)} {block} now; {first.blocking:,} did {span(length)} ago."]
    if found.arrived or found.left:
        parts.append(f"Seen at the targets meanwhile: {found.arrived:,} came, {found.left:,} left.")
    if last.blocking and found.left > found.arrived:
        rest = length * (last.blocking / (found.left - found.arrived))
        parts.append(f"If it goes on like this, none is left in about {span(rest)}.")
    elif last.blocking and found.arrived:
        parts.append("At least as many come as leave, so there is no end in sight.")
    if found.gaps:
        unseen = sum((gap.until - gap.since for gap in found.gaps), timedelta(0))
        parts.append(f"For {span(unseen)} nobody looked.")
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class _Scale:
    since: datetime
    until: datetime

    def x(self, at: datetime) -> float:
        """A time as a place from left to right."""
        share = (at - self.since) / (self.until - self.since)
        return round(LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT), 1)


def _y(count: int, most: int) -> float:
    return round(LINE_BOTTOM - count / most * (LINE_BOTTOM - TOP), 1)


def _path(points: Sequence[tuple[datetime, int]], gaps: Sequence[Gap], scale: _Scale, most: int) -> str:
    """Steps from point to point, up to the end; lifted over gaps."""
    steps: list[str] = []
    ends = [at for at, _ in points[1:]] + [scale.until]
    for (at, count), end in zip(points, ends, strict=True):
        y = _y(count, most)
        for start, stop in _seen(at, end, gaps):
            joins = bool(steps) and start == at and not any(gap.until == at for gap in gaps)
            steps.append(f"{'L' if joins else 'M'}{scale.x(start)} {y}H{scale.x(stop)}")
    return "".join(steps)


def _seen(start: datetime, end: datetime, gaps: Iterable[Gap]) -> list[tuple[datetime, datetime]]:
    """The parts of a time that are in no gap."""
    found, at = [], start
    for gap in gaps:
        if gap.until <= at or gap.since >= end:
            continue
        if gap.since > at:
            found.append((at, gap.since))
        at = max(at, gap.until)
    return [*found, (at, end)] if at < end else found


def _bars(flow: Iterable[FlowCount], scale: _Scale) -> tuple[tuple[Bar, ...], tuple[Bar, ...], int]:
    """Arrivals upwards, departures downwards from the middle of the strip, summed over equal parts of the time."""
    part = (scale.until - scale.since) / BARS
    arrived, left = [0] * BARS, [0] * BARS
    for one in flow:
        index = min(BARS - 1, max(0, int((one.at - scale.since) / part)))
        arrived[index] += one.arrived
        left[index] += sum(one.left.values())
    most = max([*arrived, *left])
    middle, unit = (FLOW_TOP + FLOW_BOTTOM) / 2, (FLOW_BOTTOM - FLOW_TOP) / 2 / max(1, most)
    width = round((WIDTH - LEFT - RIGHT) / BARS - 1, 1)

    def bars(counts: Sequence[int], *, upwards: bool) -> tuple[Bar, ...]:
        return tuple(
            Bar(
                scale.x(scale.since + index * part),
                round(middle - count * unit if upwards else middle, 1),
                width,
                round(count * unit, 1),
            )
            for index, count in enumerate(counts)
            if count
        )

    return bars(arrived, upwards=True), bars(left, upwards=False), most


def _rows(points: Sequence[BurnPoint]) -> Iterable[Row]:
    """The newest points, newest first."""
    return [Row(point.at, point.blocking, point.unknown, point.size) for point in reversed(points[-ROWS:])]
