"""The situations are what they say, shown by the official SDK: product tests that build on them stand on the real server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from langgraph_sdk import get_client
from xxhash import xxh3_128

from tests.agent import deploys
from tests.agent.fixtures import FreshServer, SituationsServer
from tests.agent.raw_views import RawViews, interrupts_of, let_all_go_on, look_at_all, said
from tests.agent.situations import CANARY, CANARY_KEY, RECIPES, STATES, Situation, make_situations, revision


@pytest.fixture(scope="module")
def views(situations_server: SituationsServer) -> dict[str, RawViews]:
    return asyncio.run(look_at_all(situations_server.url, situations_server.situations))


@pytest.mark.parametrize("name", [recipe.build.__name__ for recipe in RECIPES])
def test_the_views_show_what_the_situation_says(
    situations_server: SituationsServer, views: Mapping[str, RawViews], name: str
) -> None:
    assert views[name].looks == said(situations_server[name])


def test_the_names_are_unique() -> None:
    names = [recipe.build.__name__ for recipe in RECIPES] + [story.name for story in deploys.STORIES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", STATES)
def test_the_fields_are_stored_as_they_were_sent(views: Mapping[str, RawViews], name: str) -> None:
    row = views[name].row
    assert row is not None
    ours = {key: value for key, value in row["values"].items() if key not in {"case", "note", "outcome"}}
    assert repr(sorted(ours.items())) == repr(
        sorted(STATES[name].items())
    )  # 1, 1.0 and true are equal but not the same


def hashed(namespace: str) -> str:
    return xxh3_128(namespace.encode()).hexdigest()


# --- Interrupts ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("parked_by_interrupt", "await_approval:{task}"),
        ("parked_at_second_question", "await_approval:{task}|1"),
        ("fan_out_parked", "review:{task}"),
        ("inner_parked", "desk:{task}|sub_wait:{inner}"),
        ("inner_with_memory_parked", "desk|sub_wait:{inner}"),
    ],
)
def test_an_interrupt_id_is_the_hash_of_the_namespace_that_raised_it(
    views: Mapping[str, RawViews], name: str, namespace: str
) -> None:
    view = views[name]
    assert view.row is not None
    assert view.state is not None
    task, raised = next(iter(view.row["interrupts"].items()))
    inner = (view.state["tasks"][0]["state"] or {"tasks": [{"id": ""}]})["tasks"][0]["id"]
    assert hashed(namespace.format(task=task, inner=inner)) == raised[0]["id"]


def test_the_interrupt_of_a_functional_thread_names_no_node(views: Mapping[str, RawViews]) -> None:
    row = views["functional_parked"].row
    assert row is not None
    task, raised = next(iter(row["interrupts"].items()))
    assert raised[0]["id"] not in {hashed(f"{name}:{task}") for name in ("functional", "ask")}


def test_a_rolled_back_resume_leaves_the_interrupt_of_a_node_that_is_done(views: Mapping[str, RawViews]) -> None:
    view = views["resume_rolled_back_later"]
    assert view.row is not None
    assert view.state is not None
    assert len(interrupts_of(view.row)) == 1
    assert view.state["next"] == []
    assert [list(task["result"]) for task in view.state["tasks"]] == [["decision"]]


# --- Work that no view names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["half_step", "goto_half_step"])
def test_half_a_step_shows_a_result_beside_an_unfinished_task(views: Mapping[str, RawViews], name: str) -> None:
    state, storage = views[name].state, views[name].storage
    assert state is not None
    assert [(task["name"], task["result"]) for task in state["tasks"]] == [("a", {"ran": ["a"]}), ("b", None)]
    assert "branch:to:t" not in storage["channel_values"]["by_channel"]


@pytest.mark.parametrize(("name", "channel"), [("join_waiting", "join:a+b:t"), ("deferred_waiting", "branch:to:t")])
def test_a_waiting_join_or_deferral_shows_only_in_storage(
    views: Mapping[str, RawViews], name: str, channel: str
) -> None:
    state, storage = views[name].state, views[name].storage
    assert state is not None
    assert [(task["name"], task["result"]) for task in state["tasks"]] == [("b", None)]
    assert channel in storage["channel_values"]["by_channel"]


# --- How a leaf left -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "source", "had_result"),
    [
        ("answered", "loop", True),
        ("answered_by_update", "update", True),
        ("dropped_by_a_new_input", "input", False),
        ("new_input_under_another_graph", "input", False),
    ],
)
def test_the_child_of_the_parked_checkpoint_tells_how_it_was_left(
    situations_server: SituationsServer, views: Mapping[str, RawViews], name: str, source: str, had_result: bool
) -> None:
    parked_at = situations_server[name].more["parked_checkpoint"]
    child, parked = _child_and_checkpoint(views[name], parked_at)
    assert child["metadata"]["source"] == source
    assert any(task["result"] is not None for task in parked["tasks"]) == had_result


def test_time_travel_leaves_the_parked_checkpoint_off_the_line_of_the_head(
    situations_server: SituationsServer, views: Mapping[str, RawViews]
) -> None:
    parked_at = situations_server["time_travelled"].more["parked_checkpoint"]
    parents = {
        one["checkpoint"]["checkpoint_id"]: (one["parent_checkpoint"] or {}).get("checkpoint_id")
        for one in views["time_travelled"].history
    }
    line, at = [], next(iter(parents))
    while at:
        line.append(at)
        at = parents.get(at)
    assert parked_at in parents
    assert parked_at not in line


def _child_and_checkpoint(view: RawViews, parked_at: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    child = next(one for one in view.history if (one["parent_checkpoint"] or {}).get("checkpoint_id") == parked_at)
    parked = next(one for one in view.history if one["checkpoint"]["checkpoint_id"] == parked_at)
    return child, parked


# --- Runs ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("running_sync", ["running"]),
        ("running_async", ["pending", "running"]),
        ("running_exit", ["running"]),
        ("delayed_on_never_ran", ["pending"]),
        ("delayed_over_parked", ["pending", "success"]),
        ("delayed_run_rolled_back", ["success"]),
    ],
)
def test_busy_means_an_active_run_except_after_a_rollback(
    views: Mapping[str, RawViews], name: str, statuses: list[str]
) -> None:
    assert sorted(run["status"] for run in views[name].runs) == statuses


def test_the_runs_say_their_durability(views: Mapping[str, RawViews]) -> None:
    said_by_runs = [views[f"running_{kind}"].runs[-1]["kwargs"]["durability"] for kind in ("sync", "async", "exit")]
    assert said_by_runs == ["sync", "async", "exit"]


def test_the_row_has_the_graph_of_the_last_run_and_the_head_that_of_its_own(views: Mapping[str, RawViews]) -> None:
    view = views["answered_under_another_graph"]
    assert view.row is not None
    assert view.state is not None
    assert (view.row["metadata"]["graph_id"], view.state["metadata"]["graph_id"]) == ("nested", "support")


# --- Canaries ------------------------------------------------------------------------------------------------------------------------


def test_the_canary_is_in_every_place_that_may_hold_one(views: Mapping[str, RawViews]) -> None:
    parked, failed, free = views["parked_by_interrupt"], views["node_failed"], views["personal_keys_parked"]
    assert parked.row
    assert parked.state
    assert failed.row
    assert failed.state
    assert free.row
    places = {
        "row values": parked.row["values"]["note"],
        "row interrupt": interrupts_of(parked.row)[0]["value"],
        "row metadata": parked.row["metadata"]["customer"],
        "row error": failed.row["error"],
        "state values": parked.state["values"],
        "state metadata": parked.state["metadata"],
        "task error": failed.state["tasks"][0]["error"],
        "task interrupt": parked.state["tasks"][0]["interrupts"],
        "run metadata": parked.runs[0]["metadata"],
        "run config": parked.runs[0]["kwargs"]["config"],
        "run input": parked.runs[0]["kwargs"]["input"],
    }
    assert [place for place, content in places.items() if CANARY not in repr(content)] == []
    assert CANARY_KEY in free.row["values"]


# --- Deploys -------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Act:
    """What was true and what was seen after one deploy."""

    situations: dict[str, Situation]
    views: dict[str, RawViews]


@dataclass(frozen=True)
class Play:
    """The acts, and what ran when everybody went on at the end."""

    acts: dict[str, Act]
    truth: dict[str, Situation]
    went_on: dict[str, list[str]]


@pytest.fixture(scope="module")
def play(module_agent_server: FreshServer) -> Play:
    server = module_agent_server(revision("before"))

    def act(situations: list[Situation]) -> Act:
        return Act({one.name: one for one in situations}, asyncio.run(look_at_all(server.url, situations)))

    before = asyncio.run(deploys.make_before(server.url, server.folder))
    acts = {"before": act(before)}
    server.deploy(revision("before", "after"))
    acts["untouched"] = act(deploys.untouched_after(before))
    acts["after"] = act(asyncio.run(deploys.go_on_after(server.url, server.folder, before)))
    server.deploy(revision("before"))
    back = deploys.look_back(before)
    acts["back"] = act(back)
    others = asyncio.run(make_situations(server.url, server.folder))
    # Runs, streamed, are done at a few per second: the finished threads that differ in a field only are one, `finished`.
    skipped = {*STATES, "never_ran_without_a_graph", "deleted"}
    idle = [one for one in [*back, *others] if one.status != "busy" and one.name not in skipped]
    return Play(acts, {one.name: one for one in idle}, asyncio.run(let_all_go_on(server.url, server.folder, idle)))


ACTS = [
    (act, story.name)
    for act in ("before", "untouched", "after", "back")
    for story in deploys.STORIES
    if act != "untouched" or not story.act
]


@pytest.mark.parametrize(("act", "name"), ACTS)
def test_a_deploy_leaves_what_the_story_says(play: Play, act: str, name: str) -> None:
    assert play.acts[act].views[name].looks == said(play.acts[act].situations[name])


def test_what_is_called_pending_runs_when_the_thread_goes_on_and_nothing_runs_without(play: Play) -> None:
    """`pending` is the truth: each of its leaves runs to an end, and a thread without any does nothing at all."""
    missing = {
        name: (one.pending, play.went_on[name])
        for name, one in play.truth.items()
        if not Counter(one.pending) <= Counter(play.went_on[name]) or (not one.pending and play.went_on[name])
    }
    assert missing == {}


def test_a_stricter_schema_fails_the_state_call_and_says_a_value(play: Play) -> None:
    error = play.acts["after"].views["stricter_schema"].state_error
    assert error is not None
    status, body = error
    assert status == 400
    assert list(body) == ["detail"]
    assert "input_value='seven'" in body["detail"]


def test_the_state_of_a_dropped_graph_is_not_found_while_its_thread_is(play: Play) -> None:
    view = play.acts["after"].views["graph_dropped"]
    assert view.row is not None
    assert view.state_error is not None
    status, body = view.state_error
    assert status == 404
    assert body["detail"].startswith("Graph 'dropped' not found. Expected one of: [")


def test_the_answer_to_a_removed_node_succeeds_and_writes_nothing(play: Play) -> None:
    before, after = (play.acts[act].views["renamed_and_answered"] for act in ("before", "after"))
    assert before.state
    assert after.state
    assert [run["status"] for run in after.runs] == ["success", "success"]
    assert before.state["checkpoint"] == after.state["checkpoint"]
    assert "customer_name" in before.state["values"]
    assert "customer_name" not in after.state["values"]
    assert "customer_name" in after.storage["channel_values"]["by_channel"]


def test_a_run_that_was_cut_off_is_done_again_after_the_restart(fresh_agent_server: FreshServer) -> None:
    server = fresh_agent_server(revision("before"))
    recipes = [recipe for recipe in RECIPES if recipe.build.__name__ == "running_sync"]
    [situation] = asyncio.run(make_situations(server.url, server.folder, recipes))
    server.deploy(revision("before"))
    row, runs = asyncio.run(_row_and_runs(server.url, situation.thread_id))
    assert row["status"] == "busy"
    assert {run["status"] for run in runs} <= {"pending", "running"}


async def _row_and_runs(url: str, thread_id: str) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    async with get_client(url=url) as client:
        row: Any = await client.threads.get(thread_id)
        runs: Any = await client.runs.list(thread_id)
        return row, runs
