"""How often the nodes of a picture were entered on each of the last days, by the traces: small columns below each name. Pure.

All of a picture's strips are two paths, so that a hundred nodes stay light.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.web.graph_layout import Box

STEP = 2  # from one day to the next
HIGHEST = 8
ROOM = 10.0  # that a strip takes at the foot of a box
FOOT = 5  # from a strip to the border below

Entered = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Strips:
    """Two SVG paths of strokes: the ground that every strip stands on, and the columns. Both empty: no traces are read."""

    ground: str = ""
    columns: str = ""


NO_STRIPS = Strips()


def draw_strips(boxes: Iterable[tuple[str, Box]], entered: Entered) -> Strips:
    """``entered``: entries by day, oldest first, of the nodes that are watched; the busiest day of each is the highest."""
    ground, columns = [], []
    for name, box in boxes:
        if days := entered.get(name):
            x = round(box.x + (box.width - STEP * len(days)) / 2)
            y = round(box.bottom) - FOOT
            ground.append(f"M{x} {y}h{STEP * len(days)}")
            columns.append(_columns(x + STEP // 2, y, days))
    return Strips("".join(ground), "".join(columns))


def _columns(x: int, y: int, days: Sequence[int]) -> str:
    """A stroke up for each day with an entry, each drawn from where the last one ended."""
    path: list[str] = []
    at, most = (0, 0), max(days)
    for place, count in enumerate(days):
        if count:
            height = max(1, round(HIGHEST * count / most))
            to = (x + STEP * place, y)
            path.append(f"m{to[0] - at[0]} {to[1] - at[1]}v-{height}" if path else f"M{to[0]} {to[1]}v-{height}")
            at = (to[0], to[1] - height)
    return "".join(path)
