"""A drain on a node that a thread needs is never `drained`, whatever the views show; one that nothing needs becomes so."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from app.demo.agent_server import LocalAgentServer
from tests.agent.fixtures import FreshServer
from tests.agent.situations import RECIPES, Situation, make_situations, revision
from tests.flows import truth
from tests.flows.populations import Asked, ask, give_populations, graphs_of, with_everything_above
from tests.flows.product import CLEAR, ROOT, Product, dispositions, node_drain, ok, one_deployment, poll_over_http

NEEDED = [
    (recipe.build.__name__, node)
    for recipe in RECIPES
    for node in with_everything_above([*recipe.truth.get("pending", ()), *recipe.truth.get("unseen", ())])
]


def _is_seen(name: str, node: str) -> bool:
    """Whether the state view names a leaf at or below the node. Otherwise unknown is as much as can be said."""
    [recipe] = [recipe for recipe in RECIPES if recipe.build.__name__ == name]
    situation = Situation(name=name, thread_id="", description="", **recipe.truth)
    return any(leaf == node or leaf.startswith(f"{node}/") for leaf in situation.seen)


SEEN = [(name, node) for name, node in NEEDED if _is_seen(name, node)]

# Nothing is pending, and every view says so: a drain on any other node can be proved green with what this release reads.
HARMLESS = (
    "never_ran",
    "finished",
    "answered",
    "dropped_by_a_new_input",
    "cancelled_with_nothing_pending",
    "first_run_rolled_back",
    "copy_of_finished",
    "time_travelled",
    "answered_under_its_twin",
    "delayed_on_never_ran",
    "delayed_on_finished",
    "functional_finished",
    "version_null",
    "personal_keys_finished",
)
POLLS = (("scan", False), ("second", True))


@dataclass(frozen=True)
class Judged:
    """What was said of each drain after each poll, and of each thread at the end."""

    asked: Mapping[str, Asked]
    answers: Mapping[str, Mapping[str, Any]]
    dispositions: Mapping[str, Mapping[str, str]]
    evaluations: Mapping[str, list[str]]


@pytest.fixture(scope="module")
def judged(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    server = module_agent_server(revision("before"))
    situations = {one.name: one for one in asyncio.run(make_situations(server.url, server.folder))}
    wanted = {name: situations[name] for name in {*(name for name, _ in NEEDED), *HARMLESS}}
    asyncio.run(give_populations(server.url, {name: (one, graphs_of(one) - {"none"}) for name, one in wanted.items()}))
    asked = [_asked(situations[name], node) for name, node in NEEDED]
    asked += [_asked(situations[name], _quiet(situations[name])) for name in HARMLESS]
    by_name = {one.drain: one for one in asked}
    product = Product(tmp_path_factory.mktemp("judged"))
    product.configure(one_deployment(server.url, *(one.settings for one in asked)))
    answers: dict[str, Mapping[str, Any]] = {}
    product.poll(full=True)
    answers["command line"] = _answers_of(product.run("drains", "list", "--json").json)
    with product.serve() as client:
        for name, full in POLLS:
            assert poll_over_http(client, full=full)["state"] == "complete"
            answers[name] = _answers_of(ok(client.get("/api/v1/drains?limit=500")))
        return Judged(
            asked=by_name,
            answers=answers,
            dispositions={name: dispositions(client, answers["second"][name]) for name in by_name},
            evaluations={name: _verdicts(client, name) for name in by_name},
        )


def _asked(situation: Situation, node: str) -> Asked:
    return ask(situation, situation.more.get("graph_of_the_head", situation.graph), node)


def _quiet(situation: Situation) -> str:
    return {"functional": "functional"}.get(situation.graph, "await_approval")


def _answers_of(body: Mapping[str, Any]) -> dict[str, Any]:
    return {item["drain"]: item for item in body["items"]}


def _verdicts(client: httpx.Client, drain: str) -> list[str]:
    return [item["verdict"] for item in ok(client.get(f"/api/v1/drains/{drain}/evaluations"))["items"]]


def _drain(name: str, node: str) -> str:
    truth_of = next(recipe.truth for recipe in RECIPES if recipe.build.__name__ == name)
    graph = "support" if name == "answered_under_another_graph" else truth_of["graph"]
    return f"{name}--{graph}--{node.replace('/', '.')}"


def _disposition(judged: Judged, name: str, node: str) -> str:
    drain = _drain(name, node)
    return judged.dispositions[drain][judged.asked[drain].situation.thread_id]


# --- Needed --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "node"), NEEDED)
def test_a_drain_on_a_node_that_is_needed_is_never_drained(judged: Judged, name: str, node: str) -> None:
    drain = _drain(name, node)
    verdicts = {when: answers[drain]["verdict"] for when, answers in judged.answers.items()}
    assert "drained" not in verdicts.values(), verdicts
    assert "drained" not in judged.evaluations[drain]
    assert {answers[drain]["exit_code"] for answers in judged.answers.values()} <= {1, 2}


@pytest.mark.parametrize(("name", "node"), NEEDED)
def test_a_thread_that_needs_the_node_is_counted_and_not_clear(judged: Judged, name: str, node: str) -> None:
    drain = _drain(name, node)
    said, thread_id = judged.dispositions[drain], judged.asked[drain].situation.thread_id
    assert thread_id in said, "the thread is not in the drain's population"
    assert said[thread_id] not in CLEAR


@pytest.mark.parametrize(("name", "node"), SEEN)
def test_a_leaf_that_the_state_names_blocks(judged: Judged, name: str, node: str) -> None:
    assert judged.answers["second"][_drain(name, node)]["verdict"] == "blocked"


EXPECTED_BLOCKERS = {
    ("parked_by_interrupt", "await_approval"): "parked_at_target",
    ("bulk_parked", "await_approval"): "parked_at_target",
    ("copy_of_parked", "await_approval"): "parked_at_target",
    ("node_failed", "fail"): "failed_at_target",
    ("recursion_limit", "spin"): "parked_at_target",
    ("cancelled_run", "hold"): "parked_at_target",
    ("running_sync", "hold"): "running_at_target",
    ("running_inside", "desk/sub_start"): "running_at_target",
    ("inner_parked", "desk"): "parked_at_target",
    ("two_deep_parked", "office/desk"): "parked_at_target",
    ("failed_beside_parked", "a"): "failed_at_target",
    ("failed_beside_parked", "b"): "parked_at_target",
}


@pytest.mark.parametrize(("case", "disposition"), EXPECTED_BLOCKERS.items())
def test_a_blocker_says_how_it_blocks(judged: Judged, case: tuple[str, str], disposition: str) -> None:
    assert _disposition(judged, *case) == disposition


@pytest.mark.parametrize("name", ["delayed_over_parked", "delayed_run_rolled_back"])
def test_a_busy_thread_at_the_target_blocks_before_anybody_asks_for_its_runs(judged: Judged, name: str) -> None:
    """`runs.list` is read for drains that nothing blocks, so that it is scheduled, or a ghost, need not be known here."""
    at_target = {"running_at_target", "scheduled_at_target", "parked_at_target"}
    assert _disposition(judged, name, "await_approval") in at_target


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("half_step", "half_step_unseen"),
        ("goto_half_step", "half_step_unseen"),
        ("finishing_run_deleted", "half_step_unseen"),
        ("resume_rolled_back_later", "half_step_unseen"),
        ("join_waiting", "deferred_unseen"),
        ("deferred_waiting", "deferred_unseen"),
        ("running_exit", "threads_unread"),
        ("running_exit_after_parked", "threads_unread"),
    ],
)
def test_what_no_view_names_is_unknown_for_its_own_reason(judged: Judged, name: str, code: str) -> None:
    [node] = next(recipe.truth["unseen"] for recipe in RECIPES if recipe.build.__name__ == name)
    answer = judged.answers["second"][_drain(name, node)]
    assert answer["verdict"] == "unknown"
    assert code in {reason["code"] for reason in answer["reasons"]}


def test_dispositions_add_up_to_the_population(judged: Judged) -> None:
    for answers in judged.answers.values():
        for answer in answers.values():
            assert sum(answer["dispositions"].values()) == answer["population"]["size"]


# --- Not needed ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HARMLESS)
def test_a_drain_that_nothing_needs_becomes_drained(judged: Judged, name: str) -> None:
    [drain] = [one.drain for one in judged.asked.values() if one.situation.name == name]
    answer = judged.answers["second"][drain]
    assert (answer["verdict"], answer["exit_code"]) == ("drained", 0), answer["headline"]


WHOLE_SERVER = {
    "drop-await-approval": ("support", "await_approval"),
    "drop-desk": ("nested", "desk"),
    "drop-t": ("goto", "t"),
}


@pytest.fixture(scope="module")
def harmless_server(module_agent_server: FreshServer) -> LocalAgentServer:
    """A whole server on which nothing is pending anywhere."""
    server = module_agent_server(revision("before"))
    recipes = [
        recipe for recipe in RECIPES if recipe.build.__name__ in {*HARMLESS, *truth.FIELDS} - {"personal_keys_parked"}
    ]
    asyncio.run(make_situations(server.url, server.folder, recipes))
    return server


@pytest.fixture(scope="module")
def harmless_product(harmless_server: LocalAgentServer, tmp_path_factory: pytest.TempPathFactory) -> Product:
    """Looked at by the command line alone."""
    product = Product(tmp_path_factory.mktemp("harmless"))
    drains = [node_drain(name, graph, node) for name, (graph, node) in WHOLE_SERVER.items()]
    product.configure(one_deployment(harmless_server.url, *drains))
    product.poll(full=True)
    return product


def test_green_is_reached_through_the_command_line(harmless_product: Product) -> None:
    ran = harmless_product.run("gate", "drop-await-approval", "--json")
    assert (ran.code, ran.json["verdict"]) == (0, "drained"), ran.json["headline"]
    assert ran.json["accepting"] == []
    assert ran.json["valid_until"] is not None


@pytest.mark.parametrize("drain", ["drop-desk", "drop-t"])
def test_a_graph_without_a_thread_of_its_own_is_not_drained_by_that(harmless_product: Product, drain: str) -> None:
    """Only threads without a graph are in the population: they never ran, and they are not evidence of an empty graph."""
    ran = harmless_product.gate(drain)
    size = ran.json["population"]["size"]
    assert ran.code == (0 if size else 2)


SLOW_EVALUATION = """
import asyncio
from app.drains.service import Drains
from app.command import run

evaluate = Drains.after_poll

async def late(self, *arguments, **more):
    await asyncio.sleep(1)
    await evaluate(self, *arguments, **more)

Drains.after_poll = late
run()
"""


def test_poll_ends_only_after_its_drains_were_evaluated(harmless_product: Product, tmp_path: Path) -> None:
    """With many drains, or on a busy machine, the evaluation takes longer than the command's look at the poll's state."""
    product = Product(tmp_path)
    product.configure(harmless_product.config.read_text(encoding="utf-8"))
    environment = {**os.environ, "DRAINBOARD_CONFIG": str(product.config), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SLOW_EVALUATION, "poll", "--full", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0
    assert product.gate("drop-await-approval").json["soak"]["sweeps"] == 1


def test_a_run_that_is_deleted_behind_a_row_that_does_not_move_is_noticed_by_a_sweep(
    harmless_server: LocalAgentServer, tmp_path: Path
) -> None:
    """facts §5: `DELETE /threads/{id}/runs/{run}` takes the head away, and the work that was done is pending again."""
    server = harmless_server
    recipes = [recipe for recipe in RECIPES if recipe.build.__name__ == "answered"]
    [answered] = asyncio.run(make_situations(server.url, server.folder, recipes))
    asyncio.run(give_populations(server.url, {"run deleted": (answered, set())}))
    product = Product(tmp_path)
    product.configure(one_deployment(server.url, node_drain("drop-hold", "support", "hold", situation="run deleted")))
    assert product.ask("poll", "--full").code == 0
    assert product.gate("drop-hold").json["verdict"] == "drained"
    asyncio.run(_delete_newest_run(server.url, answered.thread_id))
    assert product.ask("poll", "--full").code == 0
    assert product.gate("drop-hold").json["verdict"] != "drained"
    asyncio.run(_delete_thread(server.url, answered.thread_id))


async def _delete_thread(url: str, thread_id: str) -> None:
    """The server is shared: leave it harmless."""
    async with get_client(url=url) as client:
        await client.threads.delete(thread_id)


async def _delete_newest_run(url: str, thread_id: str) -> None:
    async with get_client(url=url) as client:
        newest = (await client.runs.list(thread_id, limit=1))[0]
        await client.runs.delete(thread_id, newest["run_id"])
