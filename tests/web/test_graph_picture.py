"""The picture of a graph: every shape of graph is laid out, nothing overlaps, and every thread is on it."""

import re
from dataclasses import replace
from itertools import combinations

import pytest
from fastapi.testclient import TestClient
from hypothesis import example, given
from hypothesis import strategies as st

from app.web.graph_layout import Box, place
from app.web.graph_picture import GraphPicture, NodeTotals, draw_graph, draw_removed, short_count
from tests.web.conftest import make_app
from tests.web.fakes import LONG_NODE, deployment, full_dashboard, revision

SIZE = (120.0, 44.0)
NOTHING = NodeTotals({}, {})
Edges = tuple[tuple[str, str, bool], ...]

CYCLE: Edges = (("a", "b", False), ("b", "c", False), ("c", "a", False))
AGENT: Edges = (
    ("__start__", "agent", False),
    ("agent", "tools", True),
    ("tools", "agent", False),
    ("agent", "__end__", True),
)
LOOP: Edges = (("__start__", "a", False), ("a", "a", True), ("a", "__end__", True))
PARTS: Edges = (("a", "b", False), ("c", "d", False), ("d", "c", False))
NESTED: Edges = (
    ("__start__", "order", False),
    ("order", "refund", True),
    ("order", "refund/ask", True),
    ("refund/ask", "refund/pay", False),
    ("refund/pay", "refund/bank/send", False),
    ("refund/bank/send", "refund/bank/confirm", False),
    ("refund/bank/confirm", "reply", False),
    ("refund", "reply", False),
    ("reply", "__end__", False),
)
CHAIN: Edges = tuple((f"step_{n}", f"step_{n + 1}", False) for n in range(99))
WEB: Edges = tuple((f"step_{n}", f"step_{(n * 7 + k * 13 + 1) % 100}", k == 1) for n in range(100) for k in range(2))


def nodes_of(edges: Edges) -> tuple[str, ...]:
    return tuple(sorted({name for edge in edges for name in edge[:2] if not name.startswith("__")}))


def drawn(edges: Edges, *more: str, counts: NodeTotals = NOTHING, removed: tuple[str, ...] = ()) -> GraphPicture:
    graph = revision(1, nodes=(*nodes_of(edges), *more), edges=edges)
    return draw_graph(graph, counts, removed, lambda node, condition: f"?pending={node}&condition={condition}")


def overlap(one: Box, other: Box) -> bool:
    return one.x < other.right and other.x < one.right and one.y < other.bottom and other.y < one.bottom


def is_inside(inner: Box, outer: Box) -> bool:
    across = outer.x <= inner.x and inner.right <= outer.right
    return across and outer.y <= inner.y and inner.bottom <= outer.bottom


def box(picture: GraphPicture, name: str) -> Box:
    return next(each.box for each in (*picture.nodes, *picture.frames) if each.name == name)


def numbers(path: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?[0-9.]+", path)]


@pytest.mark.parametrize(
    ("edges", "more"),
    [
        (CYCLE, ()),
        (AGENT, ()),
        (LOOP, ()),
        (PARTS, ()),
        (NESTED, ()),
        (CHAIN, ()),
        (WEB, ()),
        ((), ("only",)),
        ((), ("__start__", "only")),
        (CYCLE, ("sent_to", "sent_to_too", LONG_NODE)),
        ((), tuple(f"sent_to_{n}" for n in range(40))),
        ((), ()),
    ],
    ids=["cycle", "two that call each other", "self loop", "parts", "nested", "chain of 100", "web of 100", "functional",
         "functional with start", "isolated", "only isolated", "empty"],
)  # fmt: skip
def test_every_graph_has_a_picture_without_overlaps(edges: Edges, more: tuple[str, ...]) -> None:
    picture = drawn(edges, *more)
    assert {each.name for each in (*picture.nodes, *picture.frames)} >= {*nodes_of(edges), *more}
    assert not any(overlap(one.box, other.box) for one, other in combinations(picture.nodes, 2))
    whole = Box(0, 0, picture.width, picture.height)
    assert all(is_inside(each.box, whole) for each in (*picture.nodes, *picture.frames))
    assert len({(line.source, line.target) for line in picture.lines}) == len(picture.lines)


UNEVEN: Edges = (
    ("/", "aa", False), ("/", "ab", False), ("/", "aaa", False), ("b", "aaaaa", False), ("c", "a", False), ("c", "/", False),
    ("c", "b", False), ("c", "aaaa", False), ("b/", "/", False), ("b/a/", "a", False),
)  # fmt: skip


@example(edges=UNEVEN, more=())
@given(
    edges=st.lists(st.tuples(*[st.text("abc/", min_size=1, max_size=6)] * 2, st.booleans()), max_size=20).map(tuple),
    more=st.lists(st.text("abcd/", min_size=1, max_size=6), max_size=4).map(tuple),
)
def test_no_graph_is_too_odd(edges: Edges, more: tuple[str, ...]) -> None:
    picture = drawn(edges, *more)
    assert {each.name for each in (*picture.nodes, *picture.frames)} >= {*nodes_of(edges), *more}
    assert not any(overlap(one.box, other.box) for one, other in combinations(picture.nodes, 2))


def test_a_graph_is_drawn_in_the_same_way_each_time() -> None:
    sizes = dict.fromkeys(nodes_of(WEB), SIZE)
    pairs = [edge[:2] for edge in WEB]
    assert place(sizes, pairs) == place(sizes, pairs)


def test_a_graph_reads_from_left_to_right() -> None:
    picture = drawn(NESTED)
    places = [box(picture, name).x for name in ("__start__", "order", "refund", "reply", "__end__")]
    assert places == sorted(places)
    inner = [box(picture, name).x for name in ("refund/ask", "refund/pay", "refund/bank")]
    assert inner == sorted(inner)


def test_inner_nodes_are_inside_their_frames_and_others_are_not() -> None:
    picture = drawn(NESTED)
    assert [frame.name for frame in picture.frames] == ["refund", "refund/bank"]
    for frame in picture.frames:
        for node in picture.nodes:
            assert is_inside(node.box, frame.box) == node.name.startswith(f"{frame.name}/")
            assert overlap(node.box, frame.box) == node.name.startswith(f"{frame.name}/")
    assert {each.label for each in picture.nodes} >= {"ask", "send"}


def test_a_line_into_a_subgraph_ends_at_its_frame_once() -> None:
    lines = {(line.source, line.target): line.conditional for line in drawn(NESTED).lines}
    assert lines["order", "refund"] is True
    assert lines["refund", "reply"] is False
    assert ("order", "refund/ask") not in lines


def test_a_line_is_dashed_only_when_all_its_edges_are_conditional() -> None:
    picture = drawn((("a", "b", True), ("a", "b", False), ("a", "c", True)))
    assert {line.target: line.conditional for line in picture.lines} == {"b": False, "c": True}


def test_nodes_that_lead_to_each_other_have_two_lines_apart() -> None:
    there, back = sorted(
        (line for line in drawn(AGENT).lines if {line.source, line.target} == {"agent", "tools"}),
        key=lambda line: line.source,
    )
    assert abs(numbers(there.path)[1] - numbers(back.path)[-1]) == 10
    assert numbers(there.path)[0] == numbers(back.path)[-2]


def test_a_loop_has_its_line() -> None:
    assert ("a", "a") in {(line.source, line.target) for line in drawn(LOOP).lines}


def test_lines_begin_and_end_at_their_boxes() -> None:
    picture = drawn(CHAIN)
    for line in picture.lines:
        points = numbers(line.path)
        assert points[0] == pytest.approx(box(picture, line.source).right, abs=0.1)
        assert points[-2] == pytest.approx(box(picture, line.target).x, abs=0.1)


def test_every_thread_of_a_node_has_its_mark() -> None:
    counts = NodeTotals({"a": 15, "b": 1}, {"parked": {"a": 9}, "failed": {"a": 2}, "running": {"a": 1, "b": 1}})
    picture = drawn(CYCLE, counts=counts)
    marks = {each.name: {mark.kind: mark.count for mark in each.marks} for each in picture.nodes}
    assert marks == {"a": {"parked": 9, "failed": 2, "running": 1, "other": 3}, "b": {"running": 1}, "c": {}}
    assert {each.name: each.weight for each in picture.nodes} == {"a": 4, "b": 1, "c": 0}
    assert [each.name for each in picture.holding] == ["a", "b"]
    links = [mark.href for each in picture.nodes for mark in each.marks]
    assert links[0] == "?pending=a&condition=parked"
    assert links[3] == "?pending=a&condition=None"


def test_counts_do_not_move_the_graph() -> None:
    full = drawn(NESTED, counts=NodeTotals({"order": 12345}, {"parked": {"order": 12345}}))
    assert [each.box for each in full.nodes] == [each.box for each in drawn(NESTED).nodes]


def test_removed_nodes_stand_below_the_graph() -> None:
    counts = NodeTotals({"old": 3, "older": 1}, {"stranded": {"old": 3, "older": 1}})
    picture = drawn(AGENT, counts=counts, removed=("old", "older"))
    gone = [each for each in picture.nodes if each.kind == "removed"]
    assert [each.name for each in gone] == ["old", "older"]
    lowest = max(each.box.bottom for each in picture.nodes if each.kind != "removed")
    assert picture.removed_y is not None
    assert all(each.box.y > picture.removed_y > lowest for each in gone)


def test_threads_of_no_deployed_graph_have_a_picture_of_their_own() -> None:
    picture = draw_removed(NodeTotals({"old": 3}, {"stranded": {"old": 3}}), ("old",), lambda node, _: node)
    assert picture.graph is None
    assert [each.kind for each in picture.nodes] == ["removed"]


def test_a_strip_below_a_node_has_a_column_for_each_day_with_an_entry() -> None:
    days = {"agent": (0, 8, 0, 1, 4), "tools": (0, 0, 0, 0, 0), "nowhere": (3, 3, 3, 3, 3)}
    graph = revision(1, nodes=nodes_of(AGENT), edges=AGENT)
    picture = draw_graph(graph, NodeTotals({"agent": 2}, {}), ("old",), lambda node, _: node, entered=days)
    boxes = {each.name: each.box for each in picture.nodes}
    assert picture.strips.ground.count("h10") == 2, "the nodes that are watched, with entries or without"
    assert re.findall(r"v-(\d+)", picture.strips.columns) == ["8", "1", "4"], "of the busiest day the highest"
    places = [int(each) for each in re.findall(r"[Mm](-?\d+)", picture.strips.columns)]
    assert (places[1], places[2]) == (4, 2), "two days and one day on"
    assert boxes["agent"].x < places[0] < boxes["agent"].right
    assert {each.name: each.entered for each in picture.nodes if each.kind != "end"} == {
        "agent": 13, "tools": 0, "old": None,
    }  # fmt: skip
    assert drawn(AGENT).strips.ground == drawn(AGENT).strips.columns == ""
    assert picture.height > drawn(AGENT, removed=("old",)).height, "room for the strip"


def test_a_hundred_nodes_that_are_busy_every_day_stay_light() -> None:
    days = {name: tuple(range(1, 31)) for name in nodes_of(WEB)}
    graph = revision(1, nodes=nodes_of(WEB), edges=WEB)
    strips = draw_graph(graph, NOTHING, (), lambda node, _: node, entered=days).strips
    assert strips.columns.count("v-") == 3000
    assert len(strips.columns) + len(strips.ground) < 30_000


def test_the_strip_is_there_only_where_traces_are_read(web: TestClient) -> None:
    html = web.get("/deployments/support-prod").text
    assert 'class="graph-entered"' in html
    assert "times in 30 days, by the traces</title>" in html
    with TestClient(make_app(replace(full_dashboard(), traced=()))) as client:
        assert "graph-entered" not in client.get("/deployments/support-prod").text


def test_long_names_and_large_counts_are_shortened() -> None:
    picture = drawn((), LONG_NODE.replace("/", "_"), counts=NodeTotals({LONG_NODE.replace("/", "_"): 1}, {}))
    assert len(picture.nodes[0].label) == 26
    assert [short_count(number) for number in (9, 1234, 48_210)] == ["9", "1,234", "48k"]


def test_straight_pieces_of_a_line_are_one() -> None:
    for line in drawn(CHAIN).lines:
        assert line.path.count("L") == 1


def test_a_large_graph_is_shown_whole_and_names_what_holds_threads() -> None:
    """A hundred nodes, twenty with threads: within the limit of a page, and readable without the picture."""
    nodes = tuple(f"step_{n}" for n in range(100))
    dashboard = full_dashboard()
    large = replace(deployment(), revisions=(revision(9, nodes=nodes, edges=WEB),))
    waiting = tuple(
        replace(each, pending=(nodes[place],)) if each.pending else each
        for place, each in enumerate(dashboard.threads_of)
    )
    with TestClient(make_app(replace(dashboard, known=(large,), threads_of=waiting))) as client:
        response = client.get("/deployments/support-prod")
    assert len(response.content) < 150_000
    html = response.text
    assert 'class="graph graph-large"' in html
    assert 'href="#graph-1"' in html
    listed = html[html.index('class="graph-holding"') :]
    listed = listed[: listed.index("</ul>")]
    holding = {node for each in waiting for node in each.pending}
    assert len(holding) > 10
    assert all(f"<code>{node}</code>" in listed for node in holding)
    assert f"No thread waits at {100 - len(holding)} nodes" in html


def test_a_look_at_its_own_size_begins_at_the_node_that_holds_most() -> None:
    full = "step_70"
    picture = drawn(CHAIN, counts=NodeTotals({"step_3": 1, full: 5}, {}))
    box = next(each.box for each in picture.nodes if each.name == full)
    x, y = picture.begins_at
    assert 0 <= box.x - x <= 160
    assert 0 <= box.y - y <= 200
    assert drawn(AGENT).begins_at[0] == 0  # where work enters


def test_a_small_graph_stays_at_its_own_size() -> None:
    assert not drawn(AGENT).is_large
    assert drawn(CHAIN).is_large
