"""Fills a local Agent Server with the demo's threads: 60, in a believable mix, by real runs of the example graphs.

The only code of ours that writes to an Agent Server. The demo calls it on a server that it started itself; nothing else
may.
"""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

_SETTLE_SECONDS = 20.0
_NAMESPACE = uuid.UUID("6f1c2a52-6f2f-5c1e-9d4b-0d2a5f0c7d11")

_PEOPLE = (
    "Ada Marsh", "Bela Novak", "Chidi Okafor", "Dana Weiss", "Elif Kaya", "Finn Larsen", "Goran Petrov", "Hana Sato",
    "Ines Costa", "Jonas Berg", "Kavya Rao", "Liam Byrne", "Mina Haddad", "Noor Aziz", "Olga Ivanova", "Pablo Ruiz",
)  # fmt: skip

# How far a thread is with the rename of customer_name to display_name, by its number; most of the old ones are on
# version 1, the newest on version 2, and some were begun before there was a version at all.
_OLD, _BOTH, _NEW = ("customer_name",), ("customer_name", "display_name"), ("display_name",)
_MIGRATIONS: tuple[tuple[tuple[str, ...], int | None], ...] = (
    (_OLD, 1), (_NEW, 2), (_OLD, None), (_BOTH, 2), (_OLD, 1), (_NEW, 2), (_BOTH, 1), (_NEW, 2),
)  # fmt: skip


@dataclass(frozen=True)
class Story:
    """One thread: what it starts with, and what people did with it so far.

    `answers` resume it one after the other; `answer_items` is how many of several parallel questions are answered at
    once; `changes` are laid over what the thread starts with.
    """

    graph: str
    assistant: str
    start: dict[str, Any] | None  # None: created, and never run
    answers: Sequence[str] = ()
    answer_items: int = 0
    reopened: bool = False
    changes: dict[str, Any] = field(default_factory=dict)


def _purchase(amount: int, *answers: str, assistant: str = "sales") -> Story:
    return Story("support", assistant, {"topic": "purchase", "amount": amount}, answers)


def _refund(amount: int, *answers: str) -> Story:
    return Story("support", "refunds", {"topic": "refund", "amount": amount}, answers)


def _order(order_id: str | None) -> Story:
    return Story("support", "sales", {"topic": "order", "order_id": order_id})


def _question(topic: str, assistant: str = "sales", **more: Any) -> Story:
    return Story("support", assistant, {"topic": topic}, **more)


def _parcel(*items: str, answer_items: int = 0) -> Story:
    return Story("parcels", "parcels", {"items": list(items)}, answer_items=answer_items)


def _stories() -> Iterator[Story]:
    # Waiting for a person at await_approval: the first signature, and the second.
    yield from (_purchase(amount) for amount in (120, 180, 240, 320, 450, 510, 640))
    yield from (_purchase(amount, assistant="refunds") for amount in (150, 275, 390))
    yield from (_purchase(amount, "ann") for amount in (1200, 4800))
    # Waiting at the static breakpoint before collect_payment: right away, and after an approval.
    yield from (_purchase(amount) for amount in (15, 20, 45))
    yield from (_purchase(amount, "ann") for amount in (200, 310))
    # Waiting inside the subgraph, at refund/confirm_refund.
    yield from (_refund(amount) for amount in (12, 18, 25, 40, 60, 85, 99))
    # Failed: orders that cannot be found.
    yield from (_order(order_id) for order_id in ("OLD-17", "OLD-23", "OLD-88", None))
    # Settled, in each way that there is.
    yield from (_order(f"A-{number}") for number in range(301, 307))
    yield from (_question("opening hours", "refunds") for _ in range(6))
    yield from (_refund(amount, answer) for amount, answer in ((20, "yes"), (35, "no"), (50, "yes")))
    yield from (_purchase(amount, "no") for amount in (700, 820))
    # A person reopened a finished one: pending by an update, without an interrupt or a failed run.
    yield _question("complaint", "refunds", reopened=True)
    # One each that a migration has to find: names that disagree, a version that is no number, an old name that is null.
    yield _question("opening hours", changes={"customer_name": "A. Marsh", "display_name": "Ada Marsh-Novak"})
    yield _question("delivery", changes={"state_version": "2"})
    yield _question("delivery", changes={"customer_name": None, "display_name": "Elif Kaya"})
    yield _question("opening hours", changes={"state_version": 1})
    # A fan-out: nobody, somebody, everybody has answered.
    yield from (_parcel("cup", "plate", "bowl") for _ in range(3))
    yield from (_parcel("lamp", "bulb", "shade", answer_items=count) for count in (1, 2, 1))
    yield from (_parcel("chair", "table", answer_items=2) for _ in range(2))
    # Opened and left.
    yield Story("support", "refunds", None)
    yield Story("support", "sales", None)


async def seed(url: str) -> int:
    """Park the demo's threads on the Agent Server at `url`, a few seconds; returns how many were made.

    Makes none where the server has threads already. Ours have fixed ids, and the last is written when all others are
    done, so that a seeding that was interrupted is seen, and done again.
    """
    threads = [(_thread_id(number), story) for number, story in enumerate(_stories())]
    client = get_client(url=url, api_key=None)
    async with client:
        if not await _needs_seeding(client, [thread_id for thread_id, _ in threads]):
            return 0
        assistants = await _make_assistants(client)

        async def live(number: int) -> None:
            thread_id, story = threads[number]
            await _live(client, thread_id, story, assistants[story.assistant], number)

        last = len(threads) - 1
        await asyncio.gather(*(live(number) for number in range(last)))
        await _wait_until_settled(client)
        await live(last)
    return len(threads)


async def _needs_seeding(client: LangGraphClient, ids: Sequence[str]) -> bool:
    """Deletes what an interrupted seeding left. Threads of others are never touched."""
    found = await client.threads.search(limit=1000, select=["thread_id"])
    ours = {thread["thread_id"] for thread in found}.intersection(ids)
    if ids[-1] in ours or len(found) > len(ours):
        return False
    for thread_id in ours:
        await client.threads.delete(thread_id)
    return True


async def _make_assistants(client: LangGraphClient) -> dict[str, str]:
    """Two teams share the support graph, each with an assistant of its own; who must act is told by it."""
    assistants = {}
    for name, graph in (("refunds", "support"), ("sales", "support"), ("parcels", "parcels")):
        assistant = await client.assistants.create(
            graph, assistant_id=_identifier(f"assistant {name}"), name=name, if_exists="do_nothing"
        )
        assistants[name] = assistant["assistant_id"]
    return assistants


async def _live(client: LangGraphClient, thread_id: str, story: Story, assistant_id: str, number: int) -> None:
    await client.threads.create(thread_id=thread_id, graph_id=story.graph, if_exists="do_nothing")
    if story.start is None:
        return
    await client.runs.wait(thread_id, assistant_id, input=_values(story, number), raise_error=False)
    for answer in story.answers:
        await client.runs.wait(thread_id, assistant_id, command={"resume": answer})
    if story.answer_items:
        questions = await _open_questions(client, thread_id)
        answers = dict.fromkeys(questions[: story.answer_items], "yes")
        await client.runs.wait(thread_id, assistant_id, command={"resume": answers})
    if story.reopened:
        await client.threads.update_state(thread_id, {"topic": "refund", "amount": 30}, as_node="intake")


async def _open_questions(client: LangGraphClient, thread_id: str) -> list[str]:
    thread = await client.threads.get(thread_id)
    return [question["id"] for questions in thread["interrupts"].values() for question in questions]


async def _wait_until_settled(client: LangGraphClient) -> None:
    """A run is over a moment before its thread says so."""
    async with asyncio.timeout(_SETTLE_SECONDS):
        while await client.threads.count(status="busy"):  # noqa: ASYNC110 - it is another process that we wait for
            await asyncio.sleep(0.1)


def _values(story: Story, number: int) -> dict[str, Any]:
    names, version = _MIGRATIONS[number % len(_MIGRATIONS)]
    person = _PEOPLE[number % len(_PEOPLE)]
    values: dict[str, Any] = {"ticket_id": f"T-{1000 + number}", **dict.fromkeys(names, person), **(story.start or {})}
    if version is not None:
        values["state_version"] = version
    return values | story.changes


def _thread_id(number: int) -> str:
    return _identifier(f"thread {number}")


def _identifier(name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, name))
