"""Situations one by one: each with a population of its own, so that no thread hides behind another that blocks.

On the shared server a drain is blocked by many threads at once, and then the product rightly reads less. Here a thread has
its situation's name in its metadata, beside a harmless thread of the same name and graph, and a drain selects by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.agent.situations import Situation
from tests.flows.product import node_drain

LAST_NODE = {
    "support": "notify",
    "twin": "notify",
    "dropped": "notify",
    "fan_out": "publish",
    "nested": "finish",
    "remembering": "finish",
    "deep": "finish",
    "half_step": "t",
    "goto": "t",
    "join": "t",
    "deferred": "t",
    "beside": "a",
    "freeform": "wait",
    "strict": "await_amount",
    "moves": "begin",
    "stops": "begin",
    "leaving": "ask",
    "half_inside": "finish",
    "join_inside": "finish",
    "remembering_deep": "finish",
    "sent_inside": "desk",
    "two_desks": "left",
    "calling": "call",
}


@dataclass(frozen=True)
class Asked:
    """One drain, and the thread that it is about."""

    drain: str
    graph: str
    node: str
    situation: Situation

    @property
    def settings(self) -> dict[str, Any]:
        """The drain in the settings file."""
        return node_drain(self.drain, self.graph, self.node, situation=self.situation.name)


def ask(situation: Situation, graph: str, node: str) -> Asked:
    """A drain of one node over one situation's population."""
    name = f"{situation.name}--{graph}--{node.replace('/', '.')}"
    return Asked(name, graph, node, situation)


def with_everything_above(leaves: Iterable[str]) -> list[str]:
    """The leaves and the nodes that they are in: a target covers every leaf below its path."""
    found = set()
    for leaf in leaves:
        parts = leaf.split("/")
        found |= {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    return sorted(found)


def graphs_of(situation: Situation) -> set[str]:
    """The graphs that a thread belongs to: the row's, and the head checkpoint's where that is another."""
    return {situation.graph, situation.more.get("graph_of_the_head", situation.graph)}


async def give_populations(url: str, wanted: Mapping[str, tuple[Situation, set[str]]]) -> None:
    """Write each situation's name on its thread, and make a harmless thread beside it in each of these graphs."""
    async with get_client(url=url) as client:
        calls = []
        for name, (situation, graphs) in wanted.items():
            calls.append(client.threads.update(situation.thread_id, metadata={"situation": name}))
            calls += [harmless(client, graph, name) for graph in graphs]
        await asyncio.gather(*calls)


async def harmless(client: LangGraphClient, graph: str, situation: str) -> None:
    """A thread that is done: nothing is pending, and nothing ever was."""
    metadata = {"situation": situation}
    if graph in ("functional", "two_tasks"):
        thread = await client.threads.create(metadata=metadata)
        await client.runs.wait(thread["thread_id"], graph, input={})
        return
    updates = [{"values": {"note": "done"}, "as_node": LAST_NODE[graph]}]
    await client.threads.create(graph_id=graph, metadata=metadata, supersteps=[{"updates": updates}])
