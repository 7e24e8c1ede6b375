"""The trend of a drain as a small line beside its name, and the same in words. Pure."""

from dataclasses import dataclass
from datetime import datetime

from app.drains.trends import Trend
from app.durations import span

WIDTH, HEIGHT, EDGE = 96, 24, 2


@dataclass(frozen=True, slots=True)
class TrendPicture:
    """``line`` and ``area`` are SVG paths, empty before the second answer; ``words`` say the same."""

    line: str
    area: str
    words: str
    since: datetime
    width: int = WIDTH
    height: int = HEIGHT


def draw_trend(found: Trend) -> TrendPicture:
    """Zero is the bottom, the most that was ever left the top."""
    known = [(place, left) for place, left in enumerate(found.left) if left is not None]
    if len(known) < 2:
        return TrendPicture("", "", f"{known[0][1]:,} left" if known else "no answer yet", found.since)
    most = max(1, *(left for _, left in known))
    points = [(_x(place, len(found.left)), _y(left, most)) for place, left in known]
    line = "M" + "L".join(f"{x} {y}" for x, y in points)
    area = f"{line}L{points[-1][0]} {HEIGHT}L{points[0][0]} {HEIGHT}Z"
    return TrendPicture(line, area, _words(found, known), found.since)


def _words(found: Trend, known: list[tuple[int, int]]) -> str:
    steps = len(found.left) - 1
    first, last = known[0], known[-1]
    length = span(found.span * (last[0] - first[0]) / steps)
    if first[1] == last[1]:
        return f"{last[1]:,} left, as {length} ago"
    change = abs(first[1] - last[1])
    return f"{last[1]:,} left, {change:,} {'fewer' if last[1] < first[1] else 'more'} than {length} ago"


def _x(place: int, count: int) -> float:
    return round(EDGE + place / (count - 1) * (WIDTH - 2 * EDGE), 1)


def _y(left: int, most: int) -> float:
    return round(HEIGHT - EDGE - left / most * (HEIGHT - 2 * EDGE), 1)
