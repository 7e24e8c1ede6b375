"""Deploys over live threads: poll, deploy without the nodes, poll, go on, poll, deploy back, poll.

One drain for each story, with a population of its own (`populations.py`). Waiting for issue 3 (departures read the history,
storage refines joins): see `LOSSES_THAT_WAIT`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.agent import deploys
from tests.agent.fixtures import FreshServer
from tests.agent.situations import Situation, revision
from tests.flows.populations import Asked, ask, give_populations
from tests.flows.product import (
    CLEAR,
    DEPLOYMENT,
    Product,
    all_threads,
    dispositions,
    ok,
    one_deployment,
    poll_over_http,
)

TARGETS = {
    "support": "await_approval",
    "dropped": "await_approval",
    "nested": "desk/sub_wait",
    "remembering": "desk/sub_wait",
    "deep": "office/desk/sub_wait",
    "beside": "c",
    "fan_out": "review",
    "half_step": "t",
    "goto": "t",
    "join": "t",
    "deferred": "t",
    "strict": "await_amount",
    "functional": "functional",
}
STILL_DEPLOYED = frozenset({"strict", "functional"})
STORIES = [story.name for story in deploys.STORIES]
REMOVED = [story.name for story in deploys.STORIES if story.graph not in STILL_DEPLOYED]
NEEDED_BEFORE = [story.name for story in deploys.STORIES if story.before]
# What waited is still to be cared for: a new input that takes its place, and runs to its end, is the other case.
NEEDED_AFTER = [story.name for story in deploys.STORIES if story.before and story.after != deploys.DONE]
SAFE = [story.name for story in deploys.STORIES if not story.before]

NOBODY_NAMES = frozenset(
    {
        # A half step, a join and a deferred node show nowhere: `may_hold_target` before, and never clear after.
        "half_step_renamed",
        "half_step_renamed_and_answered",
        "goto_renamed_and_answered",
        "join_renamed",
        "join_renamed_and_answered",
        "deferred_renamed",
        "deferred_renamed_and_answered",
    }
)
LOSSES_THAT_WAIT = {
    "inner_renamed_and_answered": "the root went on; only the inner namespace's history tells (departures, issue 3)",
    "one_of_two_removed_and_answered": "the checkpoint has a loop child; only its tasks' results tell (departures, issue 3)",
    **dict.fromkeys(
        NOBODY_NAMES & {name for name in STORIES if name.endswith("_answered")},
        "no view named it, so nothing was seen to leave (storage and departures, issue 3)",
    ),
}


@dataclass(frozen=True)
class Act:
    """What the product said after one poll."""

    answers: Mapping[str, Mapping[str, Any]]
    threads: Mapping[str, Mapping[str, Any]]
    dispositions: Mapping[str, str | None]
    evidence: Mapping[str, Mapping[str, Any]]
    alarms: frozenset[str]


@dataclass(frozen=True)
class Play:
    """Every act, as a product saw it that had been there from the start, and one that came after the deploy."""

    asked: Mapping[str, Asked]
    acts: Mapping[str, Act]
    late: Mapping[str, Act]


@pytest.fixture(scope="module")
def play(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> Play:
    server = module_agent_server(revision("before"))
    before = asyncio.run(deploys.make_before(server.url, server.folder))
    asyncio.run(give_populations(server.url, {one.name: (one, {one.graph}) for one in before}))
    asked = {one.name: ask(one, one.graph, TARGETS[one.graph]) for one in before}
    settings = one_deployment(server.url, *(one.settings for one in asked.values()))
    early, late = (Product(tmp_path_factory.mktemp(name)) for name in ("early", "late"))
    early.configure(settings)
    late.configure(settings)
    acts, late_acts = {}, {}
    with early.serve() as client, ExitStack() as ended_afterwards:
        beside = ended_afterwards.enter_context(ThreadPoolExecutor(1))

        def look(name: str) -> None:
            """Both look at once, each with a process of its own."""
            looks_late = beside.submit(_act, latecomer, asked, scan=False, listed=name == "back")
            acts[name] = _act(client, asked)
            late_acts[name] = looks_late.result()

        acts["before"] = _act(client, asked)
        server.deploy(revision("before", "after"))
        latecomer = ended_afterwards.enter_context(late.serve())
        look("untouched")
        asyncio.run(deploys.go_on_after(server.url, server.folder, before))
        look("after")
        server.deploy(revision("before"))
        look("back")
    return Play(asked, acts, late_acts)


def _act(client: httpx.Client, asked: Mapping[str, Asked], *, scan: bool = True, listed: bool = True) -> Act:
    """A scan as the schedule would make it, which must notice the deploy by itself, and then a sweep; or the sweep alone.

    `listed`: ask for the threads of each drain, too.
    """
    for full in (False, True) if scan else (True,):
        summary = poll_over_http(client, full=full)
        assert summary["state"] == "complete", summary["reasons"]
    by_drain = {item["drain"]: item for item in ok(client.get("/api/v1/drains?limit=500"))["items"]}
    answers = {name: by_drain[one.drain] for name, one in asked.items()}
    threads = all_threads(client)
    return Act(
        answers=answers,
        threads={name: threads[one.situation.thread_id] for name, one in asked.items()},
        dispositions={
            name: dispositions(client, answers[name]).get(one.situation.thread_id)
            for name, one in asked.items()
            if listed
        },
        evidence={
            name: _evidence(client, one.situation)
            for name, one in asked.items()
            if threads[one.situation.thread_id]["condition"] == "stranded"
        },
        alarms=frozenset(alarm["code"] for alarm in ok(client.get(f"/api/v1/deployments/{DEPLOYMENT}"))["alarms"]),
    )


def _evidence(client: httpx.Client, situation: Situation) -> Any:
    return ok(client.get(f"/api/v1/deployments/{DEPLOYMENT}/threads/{situation.thread_id}"))


def _codes(act: Act, name: str) -> set[str]:
    return {reason["code"] for reason in act.answers[name]["reasons"]}


def _story(name: str) -> deploys.Story:
    return next(story for story in deploys.STORIES if story.name == name)


# --- Before --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NEEDED_BEFORE)
def test_before_the_deploy_what_waits_is_not_drained(play: Play, name: str) -> None:
    assert play.acts["before"].answers[name]["verdict"] == ("unknown" if name in NOBODY_NAMES else "blocked")
    assert play.acts["before"].dispositions[name] not in CLEAR


@pytest.mark.parametrize("name", SAFE)
def test_before_the_deploy_what_is_done_is_drained(play: Play, name: str) -> None:
    assert play.acts["before"].answers[name]["verdict"] == "drained"


# --- After the deploy ----------------------------------------------------------------------------------------------------------------


STILL_NEEDED = [*(("untouched", name) for name in NEEDED_BEFORE), *(("after", name) for name in NEEDED_AFTER)]


@pytest.mark.parametrize(("act", "name"), STILL_NEEDED)
def test_no_drain_whose_threads_waited_says_drained_after_the_deploy(play: Play, act: str, name: str) -> None:
    assert play.acts[act].answers[name]["verdict"] != "drained"
    assert play.acts[act].dispositions[name] not in CLEAR or name not in NEEDED_AFTER


@pytest.mark.parametrize("name", [name for name in REMOVED if name in NEEDED_BEFORE])
@pytest.mark.parametrize("act", ["untouched", "after"])
def test_a_removed_target_is_said_to_be_not_deployed(play: Play, act: str, name: str) -> None:
    answer = play.acts[act].answers[name]
    assert answer["verdict"] != "drained"
    assert "target_not_deployed" in _codes(play.acts[act], name)
    assert [target["deployed"] for target in answer["targets"]] == [False]


@pytest.mark.parametrize("name", [name for name in REMOVED if name in SAFE])
def test_a_target_that_was_removed_while_drained_stays_drained(play: Play, name: str) -> None:
    """Proof 3 of §4.3: removed at a moment when this drain was drained."""
    assert play.acts["untouched"].answers[name]["verdict"] == "drained", play.acts["untouched"].answers[name][
        "headline"
    ]


UNTOUCHED = [
    (story.name, story.after["stranded"][0])
    for story in deploys.STORIES
    if story.act is None and story.after.get("stranded") and story.after.get("next", ()) is not None
    and story.name not in NOBODY_NAMES
]  # fmt: skip


@pytest.mark.parametrize(("name", "node"), UNTOUCHED)
def test_a_thread_whose_node_is_gone_is_stranded_there(play: Play, name: str, node: str) -> None:
    assert play.acts["untouched"].threads[name]["condition"] == "stranded"
    evidence = play.acts["untouched"].evidence[name]
    assert node in {pending["node"] for pending in evidence["pending"] if pending["source"] != "state"}
    assert evidence["diagnosis"]["code"] == "stranded"
    assert play.acts["untouched"].dispositions[name] == "stranded"
    assert "stranded" in _codes(play.acts["untouched"], name)


@pytest.mark.parametrize("name", sorted(NOBODY_NAMES & set(NEEDED_BEFORE)))
@pytest.mark.parametrize("act", ["untouched"])
def test_what_nobody_names_is_not_settled_after_the_deploy(play: Play, act: str, name: str) -> None:
    assert play.acts[act].threads[name]["condition"] not in ("settled", "presumed_settled")


@pytest.mark.parametrize(("name", "condition"), [
    ("graph_dropped", "graph_missing"),
    ("stricter_schema", "unreadable"),
    ("stricter_schema_met", "parked"),
    ("not_touched", "parked"),
])  # fmt: skip
def test_other_ways_to_be_hit_by_a_deploy(play: Play, name: str, condition: str) -> None:
    assert play.acts["untouched"].threads[name]["condition"] == condition
    assert play.acts["untouched"].answers[name]["verdict"] == "blocked"


def test_a_deploy_that_strands_raises_its_alarms(play: Play) -> None:
    assert {"stranded", "graph_missing", "unreadable"} <= play.acts["untouched"].alarms
    assert "lost" in play.acts["after"].alarms


# --- After somebody went on ----------------------------------------------------------------------------------------------------------

LOST = [story.name for story in deploys.STORIES if story.after.get("lost")]


@pytest.mark.parametrize("name", [name for name in LOST if name not in LOSSES_THAT_WAIT])
def test_an_answer_that_was_thrown_away_is_lost_and_blocks(play: Play, name: str) -> None:
    act = play.acts["after"]
    assert act.threads[name]["condition"] == "lost"
    assert act.dispositions[name] == "lost"
    assert act.answers[name]["verdict"] == "blocked"


@pytest.mark.parametrize("name", sorted(LOSSES_THAT_WAIT))
def test_a_loss_that_only_history_tells_is_never_green_while_the_node_is_gone(play: Play, name: str) -> None:
    act = play.acts["after"]
    assert act.answers[name]["verdict"] in ("blocked", "unknown")
    assert act.dispositions[name] not in CLEAR


# --- Deployed back -------------------------------------------------------------------------------------------------------------------


BACK = [story.name for story in deploys.STORIES if story.back.get("pending")]


@pytest.mark.parametrize("name", BACK)
@pytest.mark.parametrize("who", ["acts", "late"])
def test_what_waits_again_after_the_deploy_back_is_not_drained_and_not_settled(play: Play, who: str, name: str) -> None:
    act: Act = getattr(play, who)["back"]
    assert act.answers[name]["verdict"] == ("unknown" if name in NOBODY_NAMES else "blocked")
    assert act.threads[name]["condition"] not in ("settled", "presumed_settled")
    assert act.dispositions[name] not in CLEAR


@pytest.mark.parametrize("name", [name for name in BACK if name not in NOBODY_NAMES])
def test_what_waits_again_waits_at_its_node(play: Play, name: str) -> None:
    assert set(_story(name).back["pending"]) <= set(play.acts["back"].threads[name]["pending"])


@pytest.mark.parametrize("name", [name for name in BACK if _story(name).before == _story(name).back])
@pytest.mark.parametrize("who", ["acts", "late"])
def test_a_node_that_came_back_heals_the_thread(play: Play, who: str, name: str) -> None:
    """Nothing is wrong with it any more: it waits as it did, and no alarm may stay."""
    assert getattr(play, who)["back"].threads[name]["condition"] == "parked"


@pytest.mark.parametrize("who", ["acts", "late"])
def test_no_alarm_of_the_deploy_is_left_after_the_deploy_back(play: Play, who: str) -> None:
    assert not {"stranded", "graph_missing", "unreadable"} & getattr(play, who)["back"].alarms


GREEN_AFTER_A_LOSS = ("inner_renamed_and_answered", "half_step_renamed_and_answered", "goto_renamed_and_answered")


@pytest.mark.parametrize("name", GREEN_AFTER_A_LOSS)
def test_a_loss_across_deploys_is_not_told_as_drained(play: Play, name: str) -> None:
    """Work at the target was thrown away between the two deploys; the fall to zero is no progress (§4.3)."""
    assert play.acts["back"].answers[name]["verdict"] != "drained"


# --- A product that came after the deploy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REMOVED)
@pytest.mark.parametrize("act", ["untouched", "after"])
def test_whoever_first_looks_after_the_deploy_is_never_told_drained(play: Play, act: str, name: str) -> None:
    """Nothing was seen before: the target is not deployed and was not removed while drained, so nobody can know."""
    assert play.late[act].answers[name]["verdict"] in ("blocked", "unknown")
    assert "target_not_deployed" in _codes(play.late[act], name)


PROVED = ["renamed", "send_target_renamed", "one_of_two_removed"]
PROVED_INSIDE = ["inner_renamed", "inner_with_memory_renamed", "two_deep_renamed"]


@pytest.mark.parametrize("name", [*PROVED, *PROVED_INSIDE])
def test_an_interrupt_names_its_node_although_no_revision_was_seen_that_had_it(play: Play, name: str) -> None:
    """The drain names the node, and the interrupt's id proves it (§3.2)."""
    assert play.late["untouched"].threads[name]["condition"] == "stranded"
    evidence = play.late["untouched"].evidence[name]
    assert TARGETS[_story(name).graph] in {
        pending["node"] for pending in evidence["pending"] if pending["source"] == "interrupt_id"
    }


@pytest.mark.parametrize("name", ["renamed_under_a_bulk_thread", "renamed_under_a_breakpoint"])
def test_without_an_interrupt_it_is_unplaced(play: Play, name: str) -> None:
    assert play.late["untouched"].threads[name]["condition"] == "unplaced"
