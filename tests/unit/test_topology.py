"""What a graph looks like as deployed, and when two looks are the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.facts.topology import at_or_below, drawing_hash, prefixes, reduce_topology, topology_hash
from app.facts.types import Topology
from tests.unit.builders import drawing


def reduced(plain: dict[str, object], xray: dict[str, object] | None = None, fields: tuple[str, ...] = ()) -> Topology:
    return reduce_topology("g", "a", plain=plain, xray=xray or plain, fields=fields)


def test_the_names_are_those_of_both_drawings_and_every_prefix_of_an_inner_one() -> None:
    found = reduced(
        drawing("intake", "nested", "end"), drawing("intake", "nested:desk:ask", "nested:sub_wait", "nested:__start__")
    )
    assert found.nodes == {"intake", "nested", "nested/desk", "nested/desk/ask", "nested/sub_wait", "end"}


def test_several_static_edges_into_a_node_are_a_join() -> None:
    edges = [("a", "t"), ("b", "t"), ("t", "__end__"), ("a", "__end__"), ("a", "b")]
    assert reduced(drawing("a", "b", "t", edges=edges)).joins == {"t"}


def test_the_same_edge_in_both_drawings_is_one() -> None:
    edges = [("a", "t")]
    assert reduced(drawing("a", "t", edges=edges), drawing("a", "t", edges=edges)).joins == frozenset()


def test_conditional_edges_make_no_join() -> None:
    drawn = drawing("a", "b", "t", edges=[("a", "t")])
    drawn["edges"].append({"source": "b", "target": "t", "conditional": True})
    assert reduced(drawn).joins == frozenset()


def test_an_inner_join_is_a_path() -> None:
    xray = drawing(
        "o:a", "o:b", "o:t", edges=[("o:a", "o:t"), ("o:b", "o:t"), ("o:a", "o:__end__"), ("o:b", "o:__end__")]
    )
    assert reduced(drawing("o"), xray).joins == {"o/t"}


def test_deferred_nodes_are_known_inner_ones_too() -> None:
    found = reduced(drawing("a", "o", defer=["a"]), drawing("a", "o:late", defer=["a", "o:late"]))
    assert found.deferred == {"a", "o/late"}


def test_a_slash_in_a_name_is_no_level() -> None:
    assert reduced(drawing("ask/again", "50%")).nodes == {"ask%2Fagain", "50%25"}


@given(st.integers(0, 10_000))
def test_the_hash_does_not_depend_on_the_order_in_which_things_are_listed(seed: int) -> None:
    drawn = drawing("a", "b", "c", "d", edges=[("a", "b"), ("b", "c"), ("a", "d")], defer=["c"])
    mixed = {"nodes": list(drawn["nodes"]), "edges": list(drawn["edges"])}
    random.Random(seed).shuffle(mixed["nodes"])
    random.Random(seed).shuffle(mixed["edges"])
    assert drawing_hash(mixed) == drawing_hash(drawn)
    assert topology_hash(reduced(mixed)) == topology_hash(reduced(drawn))


@pytest.mark.parametrize(
    "other",
    [
        drawing("a"),
        drawing("a", "b", "c"),
        drawing("a", "b2"),
        drawing("a", "b", edges=[("a", "b")]),
        drawing("a", "b", defer=["b"]),
    ],
)
def test_another_look_has_another_hash(other: dict[str, object]) -> None:
    assert drawing_hash(other) != drawing_hash(drawing("a", "b"))
    assert topology_hash(reduced(other)) != topology_hash(reduced(drawing("a", "b")))


def test_another_field_is_another_revision() -> None:
    assert topology_hash(reduced(drawing("a"), fields=("x",))) != topology_hash(reduced(drawing("a"), fields=("y",)))


def test_what_else_a_drawing_says_does_not_matter() -> None:
    plain = drawing("a")
    noisy = drawing("a")
    noisy["nodes"][1]["data"] = {"whatever": 1}
    noisy["nodes"][1]["metadata"] = {"tag": "x"}
    assert drawing_hash(noisy) == drawing_hash(plain)


@pytest.mark.parametrize(
    ("node", "target", "covered"),
    [
        ("a", "a", True),
        ("a/b", "a", True),
        ("a/b/c", "a/b", True),
        ("ab", "a", False),
        ("a", "a/b", False),
        ("b/a", "a", False),
        ("a%2Fb", "a", False),
    ],
)
def test_a_target_covers_its_leaf_and_every_leaf_below(node: str, target: str, covered: bool) -> None:
    assert at_or_below(node, target) is covered


def test_prefixes_of_a_path() -> None:
    assert list(prefixes("a/b/c")) == ["a", "a/b", "a/b/c"]
