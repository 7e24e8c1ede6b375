"""What a reporter sends is facts and nothing else; anything else is refused, line by line, and never repeated."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reporter.board import NAME, SECRET, Board, Recording, board, graph_of, run

FACTS = f"/api/v1/deployments/{NAME}/facts"


@pytest.fixture
async def orders(tmp_path: Path) -> AsyncIterator[Board]:
    async with board(tmp_path, metadata_keys=["region"]) as found:
        yield found


@pytest.fixture
async def sent(orders: Board) -> list[dict[str, Any]]:
    """The messages of a pass over one thread that waits, as they were sent."""
    await run(graph_of(orders.saver), "one", asks=True, customer_name=SECRET)
    kept = Recording(orders.app)
    await orders.report(["one"], transport=kept)
    return [json.loads(body) for body in kept.bodies]


async def _begun(orders: Board, sent: list[dict[str, Any]]) -> dict[str, Any]:
    """A new pass, and a message with the thread for it."""
    begin = copy.deepcopy(next(message for message in sent if "begin" in message))
    begin["pass"] = "another"
    answer = await orders.client.post(FACTS, json=begin)
    assert answer.status_code == 200, answer.text
    threads = copy.deepcopy(next(message for message in sent if "threads" in message))
    threads["pass"] = "another"
    return threads


def _a_value(line: dict[str, Any]) -> None:
    line["state"]["values"] = {"note": SECRET}


def _a_value_in_a_leaf(line: dict[str, Any]) -> None:
    line["state"]["leaves"][0]["payload"] = SECRET


def _an_error_text(line: dict[str, Any]) -> None:
    line["state"]["leaves"][0]["error_class"] = f"ValueError: {SECRET}"


def _an_undeclared_name(line: dict[str, Any]) -> None:
    line["state"]["shape"]["fields"][SECRET] = ["present", "text"]


def _an_undeclared_route(line: dict[str, Any]) -> None:
    line["stored"]["routes"]["fields"].append(SECRET)


def _metadata_that_is_not_allowed(line: dict[str, Any]) -> None:
    line["metadata"] = {"customer": SECRET}


def _a_number_as_text(line: dict[str, Any]) -> None:
    line["state"]["leaves"][0]["interrupts"] = "1"


def _a_time_without_a_zone(line: dict[str, Any]) -> None:
    line["begun_at"] = "2026-01-01T00:00:00"


def _a_long_id(line: dict[str, Any]) -> None:
    line["thread_id"] = "x" * 256


def _a_word_of_its_own(line: dict[str, Any]) -> None:
    line["state"]["source"] = SECRET


def _no_state(line: dict[str, Any]) -> None:
    line["state"] = None


BAD = [
    _a_value,
    _a_value_in_a_leaf,
    _an_error_text,
    _an_undeclared_name,
    _an_undeclared_route,
    _metadata_that_is_not_allowed,
    _a_number_as_text,
    _a_time_without_a_zone,
    _a_long_id,
    _a_word_of_its_own,
    _no_state,
]


@pytest.mark.parametrize("spoil", BAD)
async def test_a_line_that_is_no_fact_is_named_and_keeps_no_other_out(
    orders: Board, sent: list[dict[str, Any]], spoil: Callable[[dict[str, Any]], None]
) -> None:
    message = await _begun(orders, sent)
    bad = copy.deepcopy(message["threads"][0]) | {"thread_id": "bad"}
    spoil(bad)
    message["threads"].insert(0, bad)
    answer = await orders.client.post(FACTS, json=message)
    assert answer.status_code == 200
    assert [problem["line"] for problem in answer.json()["problems"]] == [1]
    assert answer.json()["taken"] == 1
    assert SECRET not in answer.text
    assert await orders.conditions() == {"one": "parked"}


async def test_the_good_line_is_good(orders: Board, sent: list[dict[str, Any]]) -> None:
    answer = (await orders.client.post(FACTS, json=await _begun(orders, sent))).json()
    assert (answer["taken"], answer["problems"], answer["again"]) == (1, [], [])


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b'{"pass": 1}',
        b'{"pass": "p", "note": "x"}',
        b'{"pass": "p\\u0000"}',
        b'{"pass": "p", "end": 1}',
        b"\xff",
    ],
)
async def test_a_message_of_another_form_is_refused(orders: Board, body: bytes) -> None:
    answer = await orders.client.post(FACTS, content=body)
    assert answer.status_code == 422
    assert set(answer.json()["error"]) == {"code", "message"}


async def test_a_message_that_is_too_long_is_refused(orders: Board) -> None:
    answer = await orders.client.post(FACTS, content=b'{"pass": "' + b"x" * 8_100_000)
    assert answer.status_code == 413


async def test_threads_without_a_pass_are_refused(orders: Board) -> None:
    answer = await orders.client.post(FACTS, json={"pass": "never-begun", "threads": [], "end": True})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "pass_ended")


async def test_messages_that_come_at_once_are_taken_one_after_the_other(
    orders: Board, sent: list[dict[str, Any]]
) -> None:
    message = await _begun(orders, sent)
    lines = [copy.deepcopy(message["threads"][0]) | {"thread_id": f"thread-{number}"} for number in range(12)]
    answers = await asyncio.gather(*(orders.client.post(FACTS, json=message | {"threads": [line]}) for line in lines))
    assert [answer.json()["taken"] for answer in answers] == [1] * 12
    assert len(await orders.conditions()) == 13


async def test_an_ended_pass_takes_nothing_more(orders: Board, sent: list[dict[str, Any]]) -> None:
    for message in sent:
        if "threads" in message:
            answer = await orders.client.post(FACTS, json=message)
            assert answer.json()["error"]["code"] == "pass_ended"


async def test_a_pass_with_threads_left_does_not_end(orders: Board, sent: list[dict[str, Any]]) -> None:
    message = await _begun(orders, sent)
    answer = await orders.client.post(FACTS, json={"pass": "another", "end": True})
    assert (answer.json()["ended"], answer.json()["complete"]) == (False, False)
    await orders.client.post(FACTS, json=message)
    answer = await orders.client.post(FACTS, json={"pass": "another", "end": True, "ids": 2})
    assert (answer.json()["ended"], answer.json()["complete"]) == (True, False)  # one of two ids was not told of
    assert "sweep_incomplete" in await orders.codes()


@pytest.mark.parametrize(("deployment", "status"), [("nowhere", 404), ("served", 422)])
async def test_facts_of_another_deployment_are_refused(orders: Board, deployment: str, status: int) -> None:
    answer = await orders.client.post(f"/api/v1/deployments/{deployment}/facts", json={"pass": "p"})
    assert answer.status_code == status


async def test_what_needs_a_server_says_that_there_is_none(orders: Board, sent: list[dict[str, Any]]) -> None:
    live = await orders.client.get(f"/api/v1/deployments/{NAME}/threads/one/evidence", params={"live": True})
    poll = await orders.client.post(f"/api/v1/deployments/{NAME}/poll", json={})
    for answer in (live, poll):
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "reported")
        assert "drainboard_reporter" in answer.json()["error"]["message"]


async def test_the_reporter_is_told_another_key_than_ours(orders: Board, sent: list[dict[str, Any]]) -> None:
    settings = orders.runtime.deployment(NAME)
    assert orders.runtime.store.key_of(settings) != orders.runtime.store.hash_key
    assert orders.runtime.store.key_of(orders.runtime.deployment("served")) == orders.runtime.store.hash_key


async def test_a_name_that_a_drain_names_later_is_found_again(orders: Board) -> None:
    """A field of a free-form state is told by its hash, and found by it before the next pass."""
    from typing import Any as Anything

    from langgraph.graph import START, StateGraph

    builder = StateGraph(dict)
    builder.add_node("keep", lambda state: state)
    builder.add_edge(START, "keep")
    graph: Anything = builder.compile(checkpointer=orders.saver)
    await graph.ainvoke({"free": SECRET}, {"configurable": {"thread_id": "one"}})
    await orders.report(["one"], graph)
    drain = {"name": "erase-free", "deployment": NAME, "graph": "order", "erase_fields": ["free"]}
    assert (await orders.client.post("/api/v1/drains", json=drain)).status_code == 201
    assert "holds_old_field" in await orders.codes("erase-free")


async def test_an_erasure_is_not_proved_by_the_head(orders: Board) -> None:
    await run(graph_of(orders.saver), "one")
    drain = {"name": "erase-name", "deployment": NAME, "graph": "order", "erase_fields": ["customer_name"]}
    assert (await orders.client.post("/api/v1/drains", json=drain)).status_code == 201
    await orders.report(["one"])
    assert "history_unseen" in await orders.codes("erase-name")


async def test_the_pages_offer_nothing_that_needs_a_server(orders: Board, sent: list[dict[str, Any]]) -> None:
    pages = {"": 200, "/threads/one": 200, "/threads/unknown": 404}
    for path, status in pages.items():
        page = await orders.client.get(f"/deployments/{NAME}{path}")
        assert page.status_code == status
        assert "live=true" not in page.text
        assert f'action="/deployments/{NAME}/poll"' not in page.text
        assert SECRET not in page.text
    page = await orders.client.get(f"/deployments/{NAME}")
    assert "InMemorySaver" in page.text
