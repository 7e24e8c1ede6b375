"""What the official SDK shows of a thread, read without the product."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from tests.agent.situations import CANARY, Bench, Situation


@dataclass(frozen=True)
class Looks:
    """The part of the views that a Situation says in advance."""

    status: str | None
    next: tuple[str, ...] | None
    interrupts: int
    values: str
    leaves: tuple[str, ...] | None


@dataclass(frozen=True)
class RawViews:
    """Row, state with subgraphs, storage, runs and history; None where the server answered with an error."""

    row: Mapping[str, Any] | None
    state: Mapping[str, Any] | None
    state_error: tuple[int, Any] | None
    storage: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]
    history: Sequence[Mapping[str, Any]]

    @property
    def looks(self) -> Looks:
        """What is compared with a Situation."""
        row, state = self.row, self.state
        return Looks(
            status=row["status"] if row else None,
            next=tuple(state["next"]) if state else None,
            interrupts=len(interrupts_of(row)),
            values=values_of(row),
            leaves=tuple(leaves_of(state)) if state else None,
        )


def said(situation: Situation) -> Looks:
    """What a Situation says that the views show."""
    return Looks(
        status=situation.status,
        next=situation.next,
        interrupts=situation.interrupts,
        values=situation.values,
        leaves=None if situation.next is None else situation.seen,
    )


async def look_at_all(url: str, situations: Sequence[Situation]) -> dict[str, RawViews]:
    """Every view of every thread, by the situation's name."""
    async with get_client(url=url) as client:
        views = await asyncio.gather(*(look_at(client, one.thread_id) for one in situations))
    return {one.name: view for one, view in zip(situations, views, strict=True)}


async def look_at(client: LangGraphClient, thread_id: str) -> RawViews:
    """Every view of one thread."""
    rows = await client.threads.search(ids=[thread_id], limit=1)
    if not rows:
        return RawViews(None, None, None, {}, (), ())
    state: Any = None
    state_error = None
    history: Any = ()
    try:
        state = await client.threads.get_state(thread_id, subgraphs=True)
        history = await client.threads.get_history(thread_id, limit=100)
    except (APIStatusError, httpx.HTTPStatusError) as error:
        state_error = (error.response.status_code, error.response.json())
    storage: Any = await client.http.get(f"/threads/{thread_id}/storage")
    runs: Any = await client.runs.list(thread_id, limit=100)
    row: Any = rows[0]
    return RawViews(row, state, state_error, storage, runs, history)


def interrupts_of(row: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The row's interrupts, whatever their task."""
    return [one for task in ((row or {}).get("interrupts") or {}).values() for one in task]


def values_of(row: Mapping[str, Any] | None) -> str:
    """Whether the row's values are `absent` as a key, `null` or `present`."""
    if row is None:
        return "present"
    return "absent" if "values" not in row else "null" if row["values"] is None else "present"


def leaves_of(state: Mapping[str, Any], above: str = "") -> list[str]:
    """The unfinished tasks as paths, down through the subgraphs.

    A subgraph that has not begun has a state without a checkpoint: the leaf is its node. One that has begun and shows no task is stranded.
    """
    leaves: list[str] = []
    for task in state["tasks"]:
        inner = task.get("state")
        if task.get("result") is not None:
            continue
        if inner and inner["checkpoint"]:
            leaves += leaves_of(inner, f"{above}{task['name']}/")
        else:
            leaves.append(above + task["name"])
    return leaves


async def let_all_go_on(url: str, folder: Path, situations: Sequence[Situation]) -> dict[str, list[str]]:
    """Resume every thread under its graph, with an answer for each question; the leaves that came to an end, by name."""
    async with get_client(url=url) as client, asyncio.timeout(60):
        for reached in (folder / "gates").glob(
            "*.reached"
        ):  # also those of running threads, which hold the server's workers
            Bench(client, folder).open(reached.stem)
        for one in situations:
            Bench(client, folder).open(one.thread_id)
        went = await asyncio.gather(*(_let_go_on(client, one) for one in situations))
    return {one.name: paths for one, paths in zip(situations, went, strict=True)}


async def _let_go_on(client: LangGraphClient, situation: Situation) -> list[str]:
    state = await client.threads.get_state(situation.thread_id, subgraphs=True)
    answers = {str(one["id"]): CANARY for one in state["interrupts"]}
    graph = situation.more.get("graph_of_the_head", situation.graph)
    events = client.runs.stream(
        situation.thread_id,
        graph,
        input=None,
        command={"resume": answers} if answers else None,
        stream_mode="tasks",
        stream_subgraphs=True,
        config={"recursion_limit": 10},
    )
    return [
        _path(event.event, event.data["name"])
        async for event in events
        if event.event.startswith("tasks") and "input" not in event.data
    ]


def _path(event: str, name: str) -> str:
    # `tasks|desk:TASK_ID|inner:TASK_ID`: the namespace in which the task ended.
    return "/".join([*(part.split(":")[0] for part in event.split("|")[1:]), name])
