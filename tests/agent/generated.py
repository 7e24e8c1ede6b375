"""Random small graphs in one deployment, and the same without their nodes that ask: for the proof by an interrupt's id."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tests.agent.situations import revision

NAMES = (
    "plain", "a/b", "50%", "%2F", "ünï", "名前", "a b", "x.y", "a-b", "q?", "#1", "Ask", "ask", "branch", "to to", "1",
)  # fmt: skip

Spec = dict[str, Any]


def specs(count: int, *, seed: int) -> dict[str, Spec]:
    """Graphs by name: one to four nodes each, nested up to two deep, beside each other or in a row."""
    chance = random.Random(seed)
    return {f"g{number}": _graph(chance, depth=0, once=True) for number in range(count)}


def without_what_asks(graphs: dict[str, Spec]) -> dict[str, Spec]:
    """The same graphs a release later: every node that asks has another name."""
    return {name: _renamed(spec) for name, spec in graphs.items()}


def without_subgraphs(graphs: dict[str, Spec]) -> dict[str, Spec]:
    """The same graphs with every root node that is a subgraph under another name, too."""
    asked = without_what_asks(graphs)
    return {name: {**spec, "nodes": [_moved(node) for node in spec["nodes"]]} for name, spec in asked.items()}


def paths(graphs: dict[str, Spec]) -> frozenset[str]:
    """Every node as a path, each step as the name itself is kept."""
    return frozenset(path for spec in graphs.values() for path in _paths(spec, ""))


def files(graphs: dict[str, Spec]) -> dict[str, str]:
    """The deployment that holds them all."""
    configuration = {"dependencies": ["."], "graphs": {name: f"./generated.py:{name}" for name in graphs}}
    return {
        **revision("generated"),
        "specs.json": json.dumps(graphs),
        "langgraph.json": json.dumps(configuration),
    }


def _graph(chance: random.Random, *, depth: int, once: bool, remembers: bool = False) -> Spec:
    """`once`: it runs once at a time, so that what is in it may remember (`checkpointer=True`)."""
    names = chance.sample(NAMES, chance.randint(1, 4 - depth))
    in_a_row = chance.random() < 0.3
    nodes = [_node(chance, name, depth, once=once, may_be_sent=not in_a_row) for name in names]
    return {"nodes": nodes, "in_a_row": in_a_row, "remembers": remembers}


def _node(chance: random.Random, name: str, depth: int, *, once: bool, may_be_sent: bool) -> Spec:
    sent = chance.choice((0, 0, 2, 3)) if may_be_sent else 0
    once = once and not sent
    inner = None
    if depth < 2 and chance.random() < 0.5:
        inner = _graph(chance, depth=depth + 1, once=once, remembers=once and chance.random() < 0.5)
    return {"name": name, "asks": chance.choice((0, 1, 1, 2, 3)), "inner": inner, "sent": sent}


def _renamed(spec: Spec) -> Spec:
    nodes = [
        {**node, "inner": _renamed(node["inner"])}
        if node["inner"]
        else {**node, "name": node["name"] + " anew" if node["asks"] else node["name"]}
        for node in spec["nodes"]
    ]
    return {**spec, "nodes": nodes}


def _paths(spec: Spec, above: str) -> Iterator[str]:
    for node in spec["nodes"]:
        path = above + quote(node["name"], safe=" ?#") if set(node["name"]) & {"/", "%"} else above + node["name"]
        yield path
        if node["inner"]:
            yield from _paths(node["inner"], f"{path}/")


def _moved(node: Spec) -> Spec:
    return {**node, "name": node["name"] + " moved"} if node["inner"] else node
