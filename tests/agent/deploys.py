"""Threads that live through deploys: made under `graphs/before`, met by `graphs/after`, and by `graphs/before` again.

files = revision("before")               # situations.py
before = make_before(url, folder)
server.deploy(revision("before", "after"))
after = go_on_after(url, folder, before) # some are answered now
server.deploy(revision("before"))
back = look_back(before)                 # nothing is done
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph_sdk import get_client

from tests.agent.situations import CANARY, CANARY_KEY, Bench, Recipe, Situation, make_situations, parked

Act = Callable[[Bench, Situation], Awaitable[None]]


@dataclass(frozen=True)
class Story:
    """How one thread begins, what is done with it after the deploy, and what is true in each of the three acts."""

    name: str
    graph: str
    build: Callable[[Bench], Awaitable[str]]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    back: Mapping[str, Any]
    act: Act | None = None

    @property
    def recipe(self) -> Recipe:
        """The first act."""

        async def build(bench: Bench) -> str:
            return await self.build(bench)

        build.__name__ = self.name
        build.__doc__ = self.name.replace("_", " ")
        return Recipe(build, {"graph": self.graph, **self.before})

    def told(self, situation: Situation, truth: Mapping[str, Any]) -> Situation:
        """The same thread in a later act."""
        return Situation(
            name=self.name, thread_id=situation.thread_id, graph=self.graph, description=situation.description, **truth
        )


async def make_before(url: str, folder: Path) -> list[Situation]:
    """The first act: everything is parked or finished under `before`."""
    return await make_situations(url, folder, [story.recipe for story in STORIES])


async def go_on_after(url: str, folder: Path, before: Sequence[Situation]) -> list[Situation]:
    """The second act, to be called once `after` is deployed: some threads are answered."""
    async with get_client(url=url) as client:
        bench = Bench(client, folder)
        acts = [story.act(bench, one) for story, one in zip(STORIES, before, strict=True) if story.act]
        await asyncio.gather(*acts)
    return [story.told(one, story.after) for story, one in zip(STORIES, before, strict=True)]


def untouched_after(before: Sequence[Situation]) -> list[Situation]:
    """What is true once `after` is deployed and nobody has answered: the stories in which nothing is done then."""
    return [story.told(one, story.after) for story, one in zip(STORIES, before, strict=True) if not story.act]


def look_back(before: Sequence[Situation]) -> list[Situation]:
    """The third act, after `before` was deployed again on top of the second act."""
    return [story.told(one, story.back) for story, one in zip(STORIES, before, strict=True)]


def ran(graph: str, **state: Any) -> Callable[[Bench], Awaitable[str]]:
    """One run with this input."""

    async def build(bench: Bench) -> str:
        return await bench.ran(graph, state)

    return build


async def bulk(bench: Bench) -> str:
    updates = [{"values": {"case": "ask", "note": CANARY, "customer_name": CANARY}, "as_node": "intake"}]
    return await bench.thread(graph_id="support", metadata={"customer": CANARY}, supersteps=[{"updates": updates}])


async def stopped_before(bench: Bench) -> str:
    return await bench.ran("support", {"case": "ask"}, interrupt_before=["await_approval"])


async def answer(bench: Bench, situation: Situation) -> None:
    """Answer every question that the row still shows, as an application does that kept the ids."""
    row = await bench.client.threads.get(situation.thread_id)
    asked = [one["id"] for interrupts in (row["interrupts"] or {}).values() for one in interrupts]
    reply = dict.fromkeys(asked, CANARY) if len(asked) > 1 else CANARY
    await bench.answer(situation.thread_id, situation.graph, reply)


async def new_input(bench: Bench, situation: Situation) -> None:
    """Something else is asked of the same thread."""
    await bench.run(situation.thread_id, situation.graph, input={"case": "finish", "note": CANARY})


async def good_amount(bench: Bench, situation: Situation) -> None:
    """A new input with a value that the stricter schema accepts."""
    await bench.run(situation.thread_id, situation.graph, input={"amount": 7, "decision": "given"})


def stranded(*leaves: str, **truth: Any) -> dict[str, Any]:
    """The look of an interrupted thread whose node is gone."""
    return {"status": "interrupted", "stranded": leaves, "next": (), "interrupts": len(leaves), **truth}


def lost(*leaves: str, **truth: Any) -> dict[str, Any]:
    """The look after somebody answered it."""
    return {"status": "idle", "lost": leaves, "next": (), **truth}


def again(*leaves: str, **truth: Any) -> dict[str, Any]:
    """The look after the node came back to a thread that was answered without it."""
    return parked(*leaves, status="idle", interrupts=0, **truth)


ASKS = {"case": "ask", "customer_name": CANARY, "legacy_notes": CANARY}
DONE: dict[str, Any] = {}
ASKS_IN_NODE = parked("await_approval")
ASKS_WITHOUT_INTERRUPT = parked("await_approval", interrupts=0)
ASKS_INSIDE = parked("desk/sub_wait")
ASKS_TWO_DEEP = parked("office/desk/sub_wait")
ASKS_AMOUNT = parked("await_amount")
BESIDE = parked("b", "c")
REVIEWS = parked("review", "review")
WAITING_T = parked("b", pending=("b", "t"), unseen=("t",))
STRANDED_T = parked("b", stranded=("t",))
FUNCTIONAL = parked("functional", values="null")

STORIES: list[Story] = [
    Story("renamed", "support", ran("support", **ASKS), ASKS_IN_NODE, stranded("await_approval"), ASKS_IN_NODE),
    Story(
        "renamed_and_answered",
        "support",
        ran("support", **ASKS),
        ASKS_IN_NODE,
        lost("await_approval"),
        again("await_approval"),
        answer,
    ),
    # With the node back the state names it for ever, from a trigger that is still in the checkpoint; no run executes it.
    Story(
        "renamed_and_asked_something_else",
        "support",
        ran("support", **ASKS),
        ASKS_IN_NODE,
        DONE,
        {"next": ("await_approval",), "outdated": ("await_approval",)},
        new_input,
    ),
    Story(
        "renamed_under_a_bulk_thread",
        "support",
        bulk,
        ASKS_WITHOUT_INTERRUPT,
        stranded("await_approval", interrupts=0),
        ASKS_WITHOUT_INTERRUPT,
    ),
    Story(
        "renamed_under_a_breakpoint",
        "support",
        stopped_before,
        ASKS_WITHOUT_INTERRUPT,
        stranded("await_approval", interrupts=0),
        ASKS_WITHOUT_INTERRUPT,
    ),
    Story(
        "finished_with_the_old_field", "support", ran("support", case="finish", customer_name=CANARY), DONE, DONE, DONE
    ),
    Story(
        "inner_renamed", "nested", ran("nested"), ASKS_INSIDE, stranded("desk/sub_wait", next=("desk",)), ASKS_INSIDE
    ),
    Story("inner_renamed_and_answered", "nested", ran("nested"), ASKS_INSIDE, lost("desk/sub_wait"), DONE, answer),
    Story(
        "inner_with_memory_renamed",
        "remembering",
        ran("remembering"),
        ASKS_INSIDE,
        stranded("desk/sub_wait", next=("desk",)),
        ASKS_INSIDE,
    ),
    Story(
        "two_deep_renamed",
        "deep",
        ran("deep"),
        ASKS_TWO_DEEP,
        stranded("office/desk/sub_wait", next=("office",)),
        ASKS_TWO_DEEP,
    ),
    Story("one_of_two_removed", "beside", ran("beside"), BESIDE, parked("b", interrupts=2, stranded=("c",)), BESIDE),
    Story(
        "one_of_two_removed_and_answered",
        "beside",
        ran("beside"),
        BESIDE,
        lost("c"),
        {"lost": ("c",), "next": ("c",), "outdated": ("c",)},
        answer,
    ),
    Story(
        "send_target_renamed",
        "fan_out",
        ran("fan_out", documents=["one", "two"]),
        REVIEWS,
        stranded("review", "review"),
        REVIEWS,
    ),
    Story(
        "send_target_renamed_and_answered",
        "fan_out",
        ran("fan_out", documents=["one", "two"]),
        REVIEWS,
        lost("review", "review"),
        again("review", "review"),
        answer,
    ),
    Story("half_step_renamed", "half_step", ran("half_step"), WAITING_T, STRANDED_T, WAITING_T),
    Story(
        "half_step_renamed_and_answered", "half_step", ran("half_step"), WAITING_T, lost("t"), {"lost": ("t",)}, answer
    ),
    Story("goto_renamed_and_answered", "goto", ran("goto"), WAITING_T, lost("t"), {"lost": ("t",)}, answer),
    Story("join_renamed", "join", ran("join"), WAITING_T, STRANDED_T, WAITING_T),
    Story("join_renamed_and_answered", "join", ran("join"), WAITING_T, lost("t"), {"lost": ("t",)}, answer),
    Story("deferred_renamed", "deferred", ran("deferred"), WAITING_T, STRANDED_T, WAITING_T),
    Story("deferred_renamed_and_answered", "deferred", ran("deferred"), WAITING_T, lost("t"), {"lost": ("t",)}, answer),
    Story(
        "stricter_schema",
        "strict",
        ran("strict", amount="seven"),
        ASKS_AMOUNT,
        parked("await_amount", next=None),
        ASKS_AMOUNT,
    ),
    Story(
        "stricter_schema_and_a_good_input",
        "strict",
        ran("strict", amount="seven"),
        ASKS_AMOUNT,
        parked("await_amount", next=None, status="error"),
        parked("await_amount", status="error"),
        good_amount,
    ),
    Story("stricter_schema_met", "strict", ran("strict", amount=7), ASKS_AMOUNT, ASKS_AMOUNT, ASKS_AMOUNT),
    Story("stricter_schema_finished", "strict", ran("strict", amount="seven", decision="given"), DONE, DONE, DONE),
    Story(
        "graph_dropped",
        "dropped",
        ran("dropped", **ASKS),
        ASKS_IN_NODE,
        stranded("await_approval", next=None),
        ASKS_IN_NODE,
    ),
    Story("graph_dropped_finished", "dropped", ran("dropped", case="finish"), DONE, {"next": None}, DONE),
    Story(
        "not_touched",
        "functional",
        ran("functional", ask=True, **{CANARY_KEY: CANARY}),
        FUNCTIONAL,
        FUNCTIONAL,
        FUNCTIONAL,
    ),
]
