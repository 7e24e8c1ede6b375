"""Places the boxes of one level of a graph, left to right in layers, and the lines between them. grandalf decides where.

grandalf draws from the top down: here its height is our width, and its y our x.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from grandalf.graphs import Edge, Vertex, graph_core
from grandalf.layouts import SugiyamaLayout, VertexViewer

LAYER_GAP = 40.0
BOX_GAP = 20.0
LINE_GAP = 12.0
ROUNDS = 4  # of reducing crossings
ROW_WIDTH = 720.0  # boxes without a line go in rows at least this wide

Pair = tuple[str, str]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """Where something is: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    def moved(self, x: float, y: float) -> "Box":
        return replace(self, x=self.x + x, y=self.y + y)


@dataclass(frozen=True, slots=True)
class Placed:
    """Boxes by name, and for each line the points from its source to its target. All from 0, 0 on."""

    boxes: Mapping[str, Box]
    lines: Mapping[Pair, tuple[Point, ...]]
    width: float
    height: float


def place(sizes: Mapping[str, tuple[float, float]], edges: Iterable[Pair]) -> Placed:
    """``sizes``: width and height by name, in the order of the graph. Loops from a box to itself are left to the caller."""
    pairs = list(dict.fromkeys((source, target) for source, target in edges if source != target))
    linked = {name for pair in pairs for name in pair}
    parts = [_component(part, sizes) for part in _components([name for name in sizes if name in linked], pairs)]
    width = max((part.width for part in parts), default=0.0)
    alone = {name: size for name, size in sizes.items() if name not in linked}
    if alone:
        parts.append(_rows(alone, max(width, ROW_WIDTH)))
    return stacked(parts)


def stacked(parts: Iterable[Placed], gap: float = BOX_GAP) -> Placed:
    """One below the other."""
    boxes: dict[str, Box] = {}
    lines: dict[Pair, tuple[Point, ...]] = {}
    width = bottom = 0.0
    for part in parts:
        top = bottom + gap if bottom else 0.0
        boxes |= {name: box.moved(0, top) for name, box in part.boxes.items()}
        lines |= {pair: tuple((x, y + top) for x, y in points) for pair, points in part.lines.items()}
        width, bottom = max(width, part.width), top + part.height
    return Placed(boxes, lines, width, bottom)


def _components(names: list[str], pairs: list[Pair]) -> Iterator[tuple[list[str], list[Pair]]]:
    """What hangs together, in the order of the graph."""
    near: dict[str, list[str]] = {name: [] for name in names}
    for source, target in pairs:
        near[source].append(target)
        near[target].append(source)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            continue
        found, waiting = {name}, [name]
        while waiting:
            fresh = set(near[waiting.pop()]) - found
            found |= fresh
            waiting += fresh
        seen |= found
        yield [each for each in names if each in found], [pair for pair in pairs if pair[0] in found]


def _forward(names: list[str], pairs: list[Pair]) -> list[Pair]:
    """Each line once and so turned that no circle is left: those that lead back in a walk from the start are reversed.

    grandalf could do that too, but not for every graph: circles that its walk from the roots does not reach make it fail.
    """
    targets: dict[str, list[str]] = {name: [] for name in names}
    entered = set()
    for source, target in pairs:
        targets[source].append(target)
        entered.add(target)
    done: dict[str, None] = {}  # in the order in which the walk left them
    for start in [*(name for name in names if name not in entered), *names]:
        _walk(start, targets, done)
    order = {name: place for place, name in enumerate(reversed(done))}
    return list(dict.fromkeys((a, b) if order[a] < order[b] else (b, a) for a, b in pairs))


def _walk(start: str, targets: Mapping[str, list[str]], done: dict[str, None]) -> None:
    """Depth first, without recursion: a long chain is deeper than Python's stack."""
    opened = {start}
    path = [(start, iter(reversed(targets[start])))] if start not in done else []
    while path:
        name, following = path[-1]
        fresh = next((each for each in following if each not in opened and each not in done), None)
        if fresh is None:
            done[name] = None
            path.pop()
        else:
            opened.add(fresh)
            path.append((fresh, iter(reversed(targets[fresh]))))


def _component(part: tuple[list[str], list[Pair]], sizes: Mapping[str, tuple[float, float]]) -> Placed:
    names, pairs = part
    vertices = {name: Vertex(name) for name in names}
    for name, vertex in vertices.items():
        width, height = sizes[name]
        vertex.view = VertexViewer(w=height, h=width)
    forward = {pair: Edge(vertices[pair[0]], vertices[pair[1]]) for pair in _forward(names, pairs)}
    core = graph_core(
        list(vertices.values()), list(forward.values())
    )  # `Graph` would use sets: another picture each time
    layout = SugiyamaLayout(core)
    layout.xspace, layout.yspace, layout.dw, layout.dh = BOX_GAP, LAYER_GAP, LINE_GAP, LINE_GAP
    layout.init_all(roots=[vertex for vertex in core.sV if not vertex.e_in()], inverted_edges=[])
    layout.draw(ROUNDS)
    return _read(layout, vertices, forward, pairs)


def _read(layout: Any, vertices: Mapping[str, Any], forward: Mapping[Pair, Any], pairs: list[Pair]) -> Placed:
    """What grandalf found, turned and moved to 0, 0."""
    boxes = {}
    for name, vertex in vertices.items():
        y, x = vertex.view.xy
        boxes[name] = Box(x - vertex.view.h / 2, y - vertex.view.w / 2, vertex.view.h, vertex.view.w)
    ranks = {name: layout.grx[vertex].rank for name, vertex in vertices.items()}
    boxes = _apart(boxes, ranks)
    layers: dict[int, tuple[float, float]] = {}
    for name, rank in ranks.items():
        left, right = layers.get(rank, (boxes[name].x, boxes[name].right))
        layers[rank] = min(left, boxes[name].x), max(right, boxes[name].right)
    routes: dict[Pair, tuple[Point, ...]] = {}
    for pair, edge in forward.items():
        routes[pair] = tuple(_route(boxes[pair[0]], boxes[pair[1]], layout, edge, layers))
    points = [point for route in routes.values() for point in route]
    left = min(box.x for box in boxes.values())
    top = min([box.y for box in boxes.values()] + [y for _, y in points])
    bottom = max([box.bottom for box in boxes.values()] + [y for _, y in points])
    moved = {pair: tuple((x - left, y - top) for x, y in route) for pair, route in routes.items()}
    return Placed(
        boxes={name: box.moved(-left, -top) for name, box in boxes.items()},
        lines={pair: moved[pair] if pair in moved else moved[pair[1], pair[0]][::-1] for pair in pairs},
        width=max(box.right for box in boxes.values()) - left,
        height=bottom - top,
    )


def _apart(boxes: Mapping[str, Box], ranks: Mapping[str, int]) -> dict[str, Box]:
    """The same boxes, those of one layer below each other: grandalf lets boxes of different heights overlap now and then."""
    found = dict(boxes)
    bottoms: dict[int, float] = {}
    for name in sorted(boxes, key=lambda each: boxes[each].y):
        box, bottom = boxes[name], bottoms.get(ranks[name])
        if bottom is not None and box.y < bottom:
            found[name] = replace(box, y=bottom + BOX_GAP)
        bottoms[ranks[name]] = found[name].bottom
    return found


def _route(
    source: Box, target: Box, layout: Any, edge: Any, layers: Mapping[int, tuple[float, float]]
) -> Iterator[Point]:
    """From the source's right to the target's left; level through each layer on the way, so that no box is crossed."""
    ranks = [layout.grx[vertex].rank for vertex in edge.v]
    ways = layout.ctrls.get(edge, {})
    yield source.right, source.middle
    if layers[ranks[0]][1] > source.right:
        yield layers[ranks[0]][1], source.middle
    for rank in range(ranks[0] + 1, ranks[1]):
        y = ways[rank].view.xy[0]
        yield layers[rank][0], y
        yield layers[rank][1], y
    if layers[ranks[1]][0] < target.x:
        yield layers[ranks[1]][0], target.middle
    yield target.x, target.middle


def _rows(sizes: Mapping[str, tuple[float, float]], width: float) -> Placed:
    """Boxes without any line, in rows."""
    boxes: dict[str, Box] = {}
    x = y = row = widest = 0.0
    for name, (box_width, box_height) in sizes.items():
        if x and x + box_width > width:
            x, y, row = 0.0, y + row + BOX_GAP, 0.0
        boxes[name] = Box(x, y, box_width, box_height)
        widest = max(widest, x + box_width)
        x, row = x + box_width + BOX_GAP, max(row, box_height)
    return Placed(boxes, {}, widest, y + row)
