"""The picture of a graph: its nodes with the threads that wait there, as shapes that ``graph.html`` draws.

Sizes follow from names alone, so that a live picture does not jump when a count changes.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from app.inventory.views import DeploymentStatus, RevisionSummary
from app.web.graph_layout import BOX_GAP, Box, Pair, Placed, Point, place
from app.web.trace_strip import NO_STRIPS, ROOM, Entered, Strips, draw_strips

MARKS = ("parked", "failed", "running", "stranded", "lost")
OTHER = "other"

CHARACTER = 7.3  # of the monospace font at 12 px
LONGEST_LABEL = 26
NODE_HEIGHT = 44.0
NARROWEST = 92.0
END_HEIGHT = 22.0
SIDE = 12.0  # inside a box, left and right of its text
FRAME_TOP = 32.0
FRAME_SIDE = 14.0
MARGIN = 20.0
BETWEEN = 36.0  # the graph and the nodes that are gone
REMOVED_LABEL = "not deployed, and threads still wait there"
MARK_ICON = 14.0
MARK_GAP = 12.0
THOUSANDS_FROM = 10_000
BOLDEST = 4
LOOK = (160, 200)  # left of, and above, what a look at its own size begins with
LARGE_FROM = 40
BACK = 5.0  # how far the two lines of a pair of nodes that lead to each other keep apart

Href = Callable[[str, str | None], str]
GraphHref = Callable[[str | None, str, str | None], str]


@dataclass(frozen=True, slots=True)
class NodeTotals:
    """The threads at the nodes of one graph: all, and by condition."""

    totals: Mapping[str, int]
    by_condition: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Mark:
    """How many threads of one condition wait at a node, and where that is written."""

    kind: str
    count: int
    label: str
    href: str
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A box. ``kind``: node, end, frame or removed. ``weight``: 0 holds nothing, 4 holds most. ``news``: what a deploy did to it,
    ``new`` or ``changed``. ``entered``: how often in the days of its strip; None: it has none."""

    name: str
    label: str
    kind: str
    box: Box
    total: int
    weight: int
    href: str
    marks: tuple[Mark, ...]
    news: str | None = None
    entered: int | None = None

    @property
    def text_y(self) -> float:
        if self.kind == "frame":
            return self.box.y + 20
        if self.kind == "end":
            return self.box.middle + 4
        return self.box.y + (19 if self.marks else 26)


@dataclass(frozen=True, slots=True)
class LineShape:
    """A line and its arrow head, as SVG paths."""

    source: str
    target: str
    conditional: bool
    path: str
    head: str


@dataclass(frozen=True, slots=True)
class GraphPicture:
    """One deployed graph, or with ``graph`` None the nodes of no graph that is deployed. ``removed_y``: their label."""

    graph: str | None
    hash: str | None
    nodes: tuple[NodeShape, ...]
    frames: tuple[NodeShape, ...]
    lines: tuple[LineShape, ...]
    width: float
    height: float
    removed_y: float | None
    strips: Strips = NO_STRIPS

    @property
    def holding(self) -> tuple[NodeShape, ...]:
        """The nodes that hold threads, fullest first."""
        return tuple(sorted((each for each in (*self.frames, *self.nodes) if each.total), key=_fullest_first))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The marks that are on it, for the legend."""
        found = {mark.kind for each in (*self.nodes, *self.frames) for mark in each.marks}
        return tuple(kind for kind in (*MARKS, OTHER) if kind in found)

    @property
    def ways(self) -> tuple[tuple[bool, str], ...]:
        """All lines as one path for each kind: conditional or not."""
        kinds = (False, True)
        paths = {kind: "".join(line.path for line in self.lines if line.conditional is kind) for kind in kinds}
        return tuple((kind, path) for kind, path in paths.items() if path)

    @property
    def heads(self) -> str:
        """All arrow heads as one path."""
        return "".join(line.head for line in self.lines)

    @property
    def is_large(self) -> bool:
        """Too large to be read at its own size: then it is shown as a whole, and what holds threads is named below."""
        return self.node_count > LARGE_FROM

    @property
    def begins_at(self) -> tuple[float, float]:
        """Where a look at its own size begins: some way above the node that holds most, or where work enters."""
        first = next(iter((*self.holding, *(each for each in self.nodes if each.kind == "end"), *self.nodes)))
        return max(0, first.box.x - LOOK[0]), max(0, first.box.y - LOOK[1])

    @property
    def node_count(self) -> int:
        return sum(each.kind in ("node", "frame") for each in (*self.nodes, *self.frames))


def shares_names(deployment: DeploymentStatus) -> bool:
    """Whether a node's name alone does not say which graph its threads belong to."""
    known = _known_nodes(deployment).values()
    return sum(len(names) for names in known) > len(set().union(*known))


def draw_deployment(
    deployment: DeploymentStatus,
    everything: NodeTotals,
    by_graph: Mapping[str, NodeTotals],
    href: GraphHref,
    *,
    entered: Entered = MappingProxyType({}),
) -> tuple[GraphPicture, ...]:
    """A picture of each deployed graph, and one more for nodes that hold threads and belong to none of them.

    ``by_graph`` has the graphs that were counted on their own; in the others a node is known by its name. ``entered``: by day, of
    the nodes that the traces tell of.
    """
    known = _known_nodes(deployment)
    pictures = []
    left = dict(everything.totals)
    for revision in _deployed(deployment):
        counts = by_graph.get(revision.graph) or _only(everything, known[revision.graph])
        left = {node: total - counts.totals.get(node, 0) for node, total in left.items()}
        removed = sorted(node for node, total in counts.totals.items() if total and node not in revision.nodes)
        pictures.append(draw_graph(revision, counts, removed, _of_graph(href, revision.graph), entered=entered))
    deployed = {node for each in _deployed(deployment) for node in each.nodes}
    strays = sorted(node for node, total in left.items() if total > 0 and node not in deployed)
    if strays and pictures:
        pictures.append(draw_removed(_only(everything, strays), strays, _of_graph(href, None)))
    return tuple(pictures)


def draw_graph(
    revision: RevisionSummary,
    counts: NodeTotals,
    removed: Iterable[str],
    href: Href,
    *,
    news: Mapping[str, str] | None = None,
    entered: Entered = MappingProxyType({}),
) -> GraphPicture:
    """The graph of a revision, with the nodes that are gone and still hold threads below. ``href``: node, condition; ``news``:
    what a deploy did to a node; ``entered``: by day, of the nodes that the traces tell of."""
    edges = tuple((source, target) for source, target, _ in revision.edges)
    placed = _place_graph(revision.nodes, edges, NODE_HEIGHT + ROOM if entered else NODE_HEIGHT)
    solid = {(source, target) for source, target, conditional in revision.edges if not conditional}
    return _draw(
        revision.graph, revision.hash, placed, solid, _Holding(counts, tuple(removed), href, news or {}, entered)
    )


def draw_removed(counts: NodeTotals, removed: Iterable[str], href: Href) -> GraphPicture:
    """Nodes that hold threads and belong to no deployed graph."""
    return _draw(None, None, _Whole(Placed({}, {}, 0, 0)), set(), _Holding(counts, tuple(removed), href))


def _deployed(deployment: DeploymentStatus) -> tuple[RevisionSummary, ...]:
    """Each graph that is deployed now, with the nodes and edges that any configuration gives it."""
    newest: dict[str, RevisionSummary] = {}
    for each in sorted(deployment.revisions, key=lambda found: (found.variant is not None, -found.id)):
        if each.vanished_at is not None:
            continue
        known = newest.setdefault(each.graph, each)
        more = tuple(node for node in each.nodes if node not in known.nodes)
        edges = tuple(edge for edge in each.edges if edge not in known.edges)
        newest[each.graph] = replace(known, nodes=known.nodes + more, edges=known.edges + edges)
    return tuple(newest.values())


def _known_nodes(deployment: DeploymentStatus) -> dict[str, set[str]]:
    """Every node that each graph has ever had."""
    known: dict[str, set[str]] = {}
    for each in deployment.revisions:
        known.setdefault(each.graph, set()).update(each.nodes)
    return known


def _only(counts: NodeTotals, names: Iterable[str]) -> NodeTotals:
    kept = set(names)
    return NodeTotals(
        {node: total for node, total in counts.totals.items() if node in kept},
        {
            condition: {node: total for node, total in totals.items() if node in kept}
            for condition, totals in counts.by_condition.items()
        },
    )


def _of_graph(href: GraphHref, graph: str | None) -> Href:
    return lambda node, condition: href(graph, node, condition)


# -- where things are ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Whole:
    """All levels of a graph, with absolute places. ``loops``: nodes that lead to themselves."""

    placed: Placed
    frames: frozenset[str] = frozenset()
    loops: tuple[str, ...] = ()
    drawn: Mapping[Pair, tuple[Pair, ...]] = field(default_factory=dict)  # a line, and the edges that it stands for


@lru_cache(maxsize=64)
def _place_graph(nodes: tuple[str, ...], edges: tuple[Pair, ...], node_height: float) -> _Whole:
    names = list(dict.fromkeys([*nodes, *(name for edge in edges for name in edge)]))
    frames = frozenset(parent for name in names for parent in _parents(name))
    drawn: dict[str, dict[Pair, list[Pair]]] = {}
    for source, target in edges:
        if found := _ends(source, target):
            drawn.setdefault(found[0], {}).setdefault(found[1], []).append((source, target))

    def level(prefix: str) -> Placed:
        """Lay out what is directly in ``prefix``: its frames first, for their size."""
        children = list(dict.fromkeys(_child(name, prefix) for name in names if _is_in(name, prefix)))
        inner = {child: level(child) for child in children if child in frames}
        sizes = {
            child: _frame_size(child, inner[child]) if child in inner else _size(child, node_height)
            for child in children
        }
        placed = place(sizes, drawn.get(prefix, ()))
        boxes, lines = dict(placed.boxes), dict(placed.lines)
        for child, part in inner.items():
            x, y = placed.boxes[child].x + FRAME_SIDE, placed.boxes[child].y + FRAME_TOP
            boxes |= {name: each.moved(x, y) for name, each in part.boxes.items()}
            lines |= {pair: tuple((a + x, b + y) for a, b in way) for pair, way in part.lines.items()}
        return Placed(boxes, lines, placed.width, placed.height)

    return _Whole(
        level(""),
        frames,
        tuple(dict.fromkeys(source for source, target in edges if source == target)),
        {pair: tuple(each) for lines in drawn.values() for pair, each in lines.items()},
    )


def _parents(name: str) -> Iterator[str]:
    """The frames around it, the outermost first."""
    prefix = ""
    while (child := _child(name, prefix)) != name:
        yield child
        prefix = child


def _is_in(name: str, prefix: str) -> bool:
    return name.startswith(f"{prefix}/") if prefix else True


def _child(name: str, prefix: str) -> str:
    """The part of the path that is directly in ``prefix``. A part has at least one character, whatever that is."""
    cut = name.find("/", len(prefix) + 2 if prefix else 1)
    return name if cut < 0 else name[:cut]


def _ends(source: str, target: str) -> tuple[str, Pair] | None:
    """The level of an edge's line, and its ends: frames when it crosses their border. None: it stays inside of one box."""
    prefix = ""
    while True:
        first, last = _child(source, prefix), _child(target, prefix)
        if first != last:
            return prefix, (first, last)
        if first in (source, target):
            return None
        prefix = first


def _size(name: str, node_height: float) -> tuple[float, float]:
    label = _label(name)
    if _is_end(name):
        return len(label) * CHARACTER * 0.92 + 2 * SIDE - 8, END_HEIGHT
    return max(NARROWEST, math.ceil(len(label) * CHARACTER + 2 * SIDE)), node_height


def _frame_size(name: str, inner: Placed) -> tuple[float, float]:
    title = len(_label(name)) * CHARACTER + 2 * FRAME_SIDE + 48
    return max(title, inner.width + 2 * FRAME_SIDE), inner.height + FRAME_TOP + FRAME_SIDE


def _is_end(name: str) -> bool:
    return name.rpartition("/")[2] in ("__start__", "__end__")


def _label(name: str) -> str:
    last = name.rpartition("/")[2]
    if _is_end(name):
        return last.strip("_")
    return _shortened(last)


def _shortened(label: str) -> str:
    half = LONGEST_LABEL // 2
    return label if len(label) <= LONGEST_LABEL else f"{label[:half]}…{label[-half + 1 :]}"


# -- what is drawn -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Holding:
    counts: NodeTotals
    removed: tuple[str, ...]
    href: Href
    news: Mapping[str, str] = field(default_factory=dict)
    entered: Entered = field(default_factory=dict)

    @property
    def most(self) -> int:
        return max(self.counts.totals.values(), default=0)

    def shape(self, name: str, kind: str, box: Box, label: str) -> NodeShape:
        total = self.counts.totals.get(name, 0)
        weight = math.ceil(BOLDEST * math.log(total + 1) / math.log(self.most + 1)) if total else 0
        marks = tuple(self._marks(name, kind, box, label)) if total else ()
        entered = sum(self.entered[name]) if kind == "node" and name in self.entered else None
        return NodeShape(
            name, label, kind, box, total, weight, self.href(name, None), marks, self.news.get(name), entered
        )

    def _marks(self, name: str, kind: str, box: Box, label: str) -> Iterator[Mark]:
        counts = {mark: self.counts.by_condition.get(mark, {}).get(name, 0) for mark in MARKS}
        rest = self.counts.totals[name] - sum(counts.values())
        found = [(mark, count) for mark, count in (*counts.items(), (OTHER, rest)) if count > 0]
        labels = [short_count(count) for _, count in found]
        widths = [MARK_ICON + len(each) * CHARACTER for each in labels]
        if kind == "frame":
            x, y = box.x + FRAME_SIDE + len(label) * CHARACTER + MARK_GAP, box.y + 16
        else:
            x, y = box.x + (box.width - sum(widths) - MARK_GAP * (len(widths) - 1)) / 2, box.y + 33
        for (mark, count), text, width in zip(found, labels, widths, strict=True):
            yield Mark(mark, count, text, self.href(name, None if mark == OTHER else mark), x, y, width)
            x += width + MARK_GAP


def short_count(number: int) -> str:
    """``9``, ``1,234``, ``12k``: what fits in a box; the title has all of it."""
    return f"{number:,}" if number < THOUSANDS_FROM else f"{number // 1000:,}k"


def _draw(graph: str | None, revision: str | None, whole: _Whole, solid: set[Pair], holding: _Holding) -> GraphPicture:
    placed = whole.placed
    boxes = {name: box.moved(MARGIN, MARGIN) for name, box in placed.boxes.items()}
    shapes = [holding.shape(name, _kind(name, whole), box, _label(name)) for name, box in boxes.items()]
    width, bottom = placed.width, placed.height
    removed_y = None
    if holding.removed:
        label = BOX_GAP if bottom else 0.0
        removed_y = MARGIN + bottom + (BETWEEN if bottom else 0)
        labels = {name: _shortened(name) for name in holding.removed}
        sizes = {
            name: (max(NARROWEST, len(label) * CHARACTER + 2 * SIDE), NODE_HEIGHT) for name, label in labels.items()
        }
        row = place(sizes, ())
        for name, box in row.boxes.items():
            shapes.append(holding.shape(name, "removed", box.moved(MARGIN, removed_y + label), labels[name]))
        width, bottom = max(width, row.width), removed_y - MARGIN + label + row.height
        width = max(width, len(REMOVED_LABEL) * CHARACTER) if label else width
    return GraphPicture(
        graph=graph,
        hash=revision,
        nodes=tuple(each for each in shapes if each.kind != "frame"),
        frames=tuple(sorted((each for each in shapes if each.kind == "frame"), key=lambda each: each.name.count("/"))),
        lines=tuple(_lines(whole, boxes, solid)),
        width=math.ceil(width + 2 * MARGIN),
        height=math.ceil(bottom + 2 * MARGIN),
        removed_y=removed_y,
        strips=draw_strips(((each.name, each.box) for each in shapes if each.entered is not None), holding.entered),
    )


def _kind(name: str, whole: _Whole) -> str:
    if name in whole.frames:
        return "frame"
    return "end" if _is_end(name) else "node"


def _lines(whole: _Whole, boxes: Mapping[str, Box], solid: set[Pair]) -> Iterator[LineShape]:
    for pair, points in whole.placed.lines.items():
        conditional = not any(edge in solid for edge in whole.drawn[pair])
        moved = [(x + MARGIN, y + MARGIN) for x, y in points]
        if pair[::-1] in whole.placed.lines:
            apart = BACK if moved[0][0] > moved[-1][0] else -BACK
            moved = [(x, y + apart) for x, y in moved]
        yield LineShape(*pair, conditional, _curve(moved), _head(moved))
    for name in whole.loops:
        box, middle = boxes[name], boxes[name].x + boxes[name].width / 2
        path = f"M{middle + 14:.1f} {box.y:.1f}c0 -18 -28 -18 -28 -2"
        head = f"M{middle - 18:.1f} {box.y - 6:.1f}l4 6l4 -6z"
        yield LineShape(name, name, (name, name) not in solid, path, head)


def _curve(points: list[Point]) -> str:
    """Level where it leaves, enters and passes; level pieces stay straight."""
    (x, y), *rest = points
    path = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in rest:
        if abs(next_y - y) < 0.5:
            if path[-1].startswith("L"):
                path.pop()  # straight on
            path.append(f"L{next_x:.1f} {next_y:.1f}")
        else:
            half = (x + next_x) / 2
            path.append(f"C{half:.1f} {y:.1f} {half:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return "".join(path)


def _head(points: list[Point]) -> str:
    (before, _), (x, y) = points[-2:]
    back = -7 if x > before else 7
    return f"M{x:.1f} {y:.1f}l{back} -3.5v7z"


def _fullest_first(shape: NodeShape) -> tuple[int, str]:
    return -shape.total, shape.name
