"""Threads of the table: parked under the graph as it was, taken up again under the graph as it is, and what became of them.

What is said here is what was done and what the server then showed, read with the raw SDK; nothing uses the product.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

MOST_SECONDS = 120
AT_ONCE = 10  # as many as the server works on
ONE_EACH = {"Connection": "close"}  # the server cuts a connection on which a state could not be read


@dataclass(frozen=True)
class Life:
    """How one thread is parked.

    `how`: `asks` (one run, up to where it stops), `settles` (answered until its end), `half` (one of its questions is answered),
    `bulk` (written as if by `begin`) or `never` (created only).
    """

    graph: str
    how: str = "asks"
    input: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """What the server shows of a thread: None for `values` and `next` where its state cannot be read."""

    values: Mapping[str, Any] | None
    leaves: tuple[str, ...] | None
    finished: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Lived:
    """A thread before the deploy, after it, and after somebody went on with it."""

    life: Life
    thread_id: str
    before: Look
    deployed: Look
    after: Look
    status: str
    """Of the thread, at the end."""

    refused: str | None
    """What the run's refusal was, if the server did not even start one."""


async def park(url: str, lives: Sequence[Life]) -> list[tuple[str, Look]]:
    """Make the threads, all at once."""
    async with get_client(url=url, headers=ONE_EACH) as client, asyncio.timeout(MOST_SECONDS):
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(life: Life) -> tuple[str, Look]:
            async with turn:
                thread_id = await _park(client, life)
                return thread_id, await look(client, thread_id)

        return list(await asyncio.gather(*(one(life) for life in lives)))


async def go_on(url: str, lives: Sequence[Life], parked: Sequence[tuple[str, Look]]) -> list[Lived]:
    """Look at the threads under what is deployed now, and go on with each as its application would."""
    async with get_client(url=url, headers=ONE_EACH) as client, asyncio.timeout(MOST_SECONDS):
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(life: Life, thread_id: str, before: Look) -> Lived:
            async with turn:
                return await _go_on(client, life, thread_id, before)

        return list(await asyncio.gather(*(one(life, *made) for life, made in zip(lives, parked, strict=True))))


async def look(client: LangGraphClient, thread_id: str) -> Look:
    """The state with its subgraphs: the leaves that are pending, and the names of tasks that are finished and not applied."""
    try:
        state = await client.threads.get_state(thread_id, subgraphs=True)
    except (APIStatusError, httpx.HTTPStatusError):
        return Look(None, None)
    values = state["values"] if isinstance(state["values"], Mapping) else {}
    return Look(values, tuple(_leaves(state)), frozenset(t["name"] for t in state["tasks"] if t.get("result")))


async def _park(client: LangGraphClient, life: Life) -> str:
    if life.how == "bulk":
        updates = [{"values": {"note": "x", **life.input}, "as_node": "begin"}]
        return str((await client.threads.create(graph_id=life.graph, supersteps=[{"updates": updates}]))["thread_id"])
    thread_id = str((await client.threads.create(graph_id=life.graph))["thread_id"])
    if life.how == "never":
        return thread_id
    await _run(client, thread_id, life.graph, input={"note": "x", **life.input})
    if life.how == "settles":
        await _answer(client, thread_id, life.graph)
    if life.how == "half":
        await _answer(client, thread_id, life.graph, most=1)
    return thread_id


async def _go_on(client: LangGraphClient, life: Life, thread_id: str, before: Look) -> Lived:
    deployed = await look(client, thread_id)
    refused = None
    try:
        if life.how in ("settles", "never"):
            await _run(client, thread_id, life.graph, input={"note": "again"})
        await _answer(client, thread_id, life.graph)
    except (APIStatusError, httpx.HTTPStatusError) as error:
        refused = type(error).__name__
    after = await look(client, thread_id)
    status = str((await client.threads.get(thread_id))["status"])
    return Lived(life, thread_id, before, deployed, after, status, refused)


async def _answer(client: LangGraphClient, thread_id: str, graph: str, *, most: int | None = None) -> None:
    """Answer what is asked, and go on from breakpoints and failures, until nothing moves any more."""
    for _ in range(5):
        thread = await client.threads.get(thread_id)
        asked = [one["id"] for found in (thread["interrupts"] or {}).values() for one in found]
        if thread["status"] == "idle":
            return
        if asked:
            await _run(client, thread_id, graph, command={"resume": dict.fromkeys(asked[:most], "yes")})
        else:
            await _run(client, thread_id, graph, input=None)
        if most is not None:
            return


async def _run(client: LangGraphClient, thread_id: str, graph: str, **options: Any) -> None:
    await client.runs.wait(thread_id, graph, raise_error=False, **options)


def _leaves(state: Mapping[str, Any], above: str = "") -> list[str]:
    found = []
    for one in state["tasks"]:
        if one.get("result") is not None:
            continue
        path = f"{above}{one['name']}"
        inner = _leaves(one["state"], f"{path}/") if isinstance(one.get("state"), Mapping) else []
        found += inner or [path]
    return found
