"""What an interrupt's id proves, against random graphs on a real server: before and after two deploys without the nodes.

The truth is the raw state with subgraphs of the first act: nothing is done to the threads after it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from app.clock import utc_now
from app.facts.conditions import Judgement, judge_state
from app.facts.interrupts import Proof, places_of, prove
from app.facts.privacy import Names, node_name
from app.facts.types import Condition, LeafSource, RowFacts, StateFacts
from app.sources.agent_server.client import AgentServer
from app.sources.agent_server.reduce import Reading
from tests.agent import generated
from tests.agent.fixtures import FreshServer

GRAPHS = generated.specs(24, seed=20261130)
ANSWERED = ("nothing", "one question", "every question")


@dataclass(frozen=True)
class Asked:
    """The task that raised an interrupt: its path, its own id, and the root's task that it is in."""

    node: str
    task_id: str
    root: str
    root_id: str


@dataclass(frozen=True)
class Seen:
    """What the product's reading of one thread gives."""

    row: RowFacts
    state: StateFacts

    def proofs(self, candidates: frozenset[str], *, with_places: bool = True) -> tuple[Proof, ...]:
        """What is proved, with the checkpoints that the state shows or by the row alone."""
        places = places_of(self.state.heads, self.state.steps) if with_places else ()
        return prove(self.row.interrupts, candidates, places)

    def judged(self, candidates: frozenset[str]) -> Judgement:
        """The condition, for somebody who never saw the thread before."""
        return judge_state(
            self.row,
            self.state,
            runs=(),
            known=None,
            candidates=candidates,
            stuck_after=timedelta(minutes=15),
            now=utc_now(),
        )


@dataclass(frozen=True)
class Play:
    """Truth by thread and interrupt id; what the product saw in each act; every node of the first act, and those that it draws."""

    truth: Mapping[str, Mapping[str, Asked]]
    acts: Mapping[str, Mapping[str, Seen]]
    candidates: frozenset[str]
    drawn: frozenset[str]


@pytest.fixture(scope="module")
def play(module_agent_server: FreshServer) -> Play:
    server = module_agent_server(generated.files(GRAPHS))
    threads = asyncio.run(_make(server.url))
    truth = asyncio.run(_truth(server.url, threads))
    drawn = asyncio.run(_nodes(server.url))
    acts = {"before": asyncio.run(_look(server.url, threads))}
    server.deploy(generated.files(generated.without_what_asks(GRAPHS)))
    acts["nodes gone"] = asyncio.run(_look(server.url, threads))
    server.deploy(generated.files(generated.without_subgraphs(GRAPHS)))
    acts["subgraphs gone"] = asyncio.run(_look(server.url, threads))
    return Play(truth, acts, generated.paths(GRAPHS), drawn)


async def _make(url: str) -> list[str]:
    """Three threads of each graph: one as it starts, one with one answer, one with every question answered once."""
    chance = random.Random(7)
    async with get_client(url=url) as client, asyncio.timeout(60):
        made = [_ask(client, graph, answered, chance) for graph in GRAPHS for answered in ANSWERED]
        return list(await asyncio.gather(*made))


async def _ask(client: LangGraphClient, graph: str, answered: str, chance: random.Random) -> str:
    thread_id = str((await client.threads.create())["thread_id"])
    await client.runs.wait(thread_id, graph, input={"ran": []})
    row: Any = await client.threads.get(thread_id)
    questions = sorted(one["id"] for group in row["interrupts"].values() for one in group)
    if answered == "one question" and questions:
        questions = [chance.choice(questions)]
    if answered != "nothing" and questions:
        await client.runs.wait(thread_id, graph, command={"resume": dict.fromkeys(questions, "yes")})
    return thread_id


async def _truth(url: str, threads: list[str]) -> dict[str, dict[str, Asked]]:
    async with get_client(url=url) as client:
        states: Any = await asyncio.gather(*(client.threads.get_state(one, subgraphs=True) for one in threads))
    return {
        thread_id: {
            interrupt: Asked(node, task, root["name"], root["id"])
            for root in state["tasks"]
            for interrupt, node, task in _who_asked(root, "")
        }
        for thread_id, state in zip(threads, states, strict=True)
    }


def _who_asked(task: Mapping[str, Any], above: str) -> Iterator[tuple[str, str, str]]:
    """The interrupts of a task's innermost tasks. An unfinished task of a subgraph has those of what is inside it, too."""
    path = above + node_name(task["name"])
    inner = task["state"]["tasks"] if task.get("state") else []
    if task["result"] is None:
        if inner:
            for one in inner:
                yield from _who_asked(one, f"{path}/")
        else:
            for interrupt in task["interrupts"]:
                yield interrupt["id"], path, task["id"]


def _product(url: str) -> AgentServer:
    reading = Reading(Names((), key=b"key"), (), (), ())
    return AgentServer(
        name="generated", url=url, api_key=None, reading=reading, requests_per_minute=60_000, concurrency=8
    )


async def _nodes(url: str) -> frozenset[str]:
    async with _product(url) as server:
        drawn = await asyncio.gather(*(server.topology(one) for one in (await server.deployed()).graphs))
    return frozenset(node for topology in drawn for node in topology.nodes)


async def _look(url: str, threads: list[str]) -> dict[str, Seen]:
    async with _product(url) as server:
        seen = await asyncio.gather(*(_seen(server, thread_id) for thread_id in threads))
        return dict(zip(threads, seen, strict=True))


async def _seen(server: AgentServer, thread_id: str) -> Seen:
    row, state = await server.thread(thread_id), await server.state(thread_id)
    assert row is not None
    assert isinstance(state, StateFacts)
    return Seen(row, state)


def _counted(asked: Mapping[str, Asked]) -> Counter[tuple[str, str]]:
    return Counter((one.node, one.task_id) for one in asked.values())


def _exact(proofs: tuple[Proof, ...]) -> Counter[tuple[str, str]]:
    return Counter({(proof.node, proof.task_id): proof.interrupts for proof in proofs if not proof.inside})


def test_the_graphs_ask_in_every_way(play: Play) -> None:
    """Else what follows would prove little."""
    asked = [one for thread in play.truth.values() for one in thread.values()]
    depths = Counter(one.node.count("/") for one in asked)
    assert min(depths[depth] for depth in (0, 1, 2)) >= 20
    again = [row.interrupts for row in (seen.row for seen in play.acts["before"].values())]
    assert any(len(interrupts) > len({one.task_id for one in interrupts}) for interrupts in again)
    assert {name for one in asked for name in one.node.split("/")} >= {"a%2Fb", "50%25", "ünï", "名前"}


def test_a_drawing_leaves_out_what_is_inside_some_subgraphs(play: Play) -> None:
    """One with a node that no edge leads to, as where it is sent to, is drawn as one node: a drain has to name what is inside."""
    assert play.drawn < play.candidates
    assert {path for path in play.candidates if "/" not in path} <= play.drawn


@pytest.mark.parametrize("act", ["before", "nodes gone", "subgraphs gone"])
def test_by_the_row_alone_exactly_the_nodes_of_the_root_that_asked_are_proved(play: Play, act: str) -> None:
    for thread_id, asked in play.truth.items():
        at_the_root = {interrupt: one for interrupt, one in asked.items() if "/" not in one.node}
        proofs = play.acts[act][thread_id].proofs(play.candidates, with_places=False)
        assert _exact(proofs) == _counted(at_the_root)
        assert not any(proof.inside for proof in proofs)


@pytest.mark.parametrize("act", ["before", "nodes gone"])
def test_with_the_checkpoints_that_the_state_shows_every_node_that_asked_is_proved_and_no_other(
    play: Play, act: str
) -> None:
    for thread_id, asked in play.truth.items():
        proofs = play.acts[act][thread_id].proofs(play.candidates)
        assert _exact(proofs) == _counted(asked)
        assert not any(proof.inside for proof in proofs)


def test_without_the_outer_node_the_outer_node_is_proved_and_what_asked_inside_is_not_named(play: Play) -> None:
    for thread_id, asked in play.truth.items():
        proofs = play.acts["subgraphs gone"][thread_id].proofs(play.candidates)
        inside = Counter((node_name(one.root), one.root_id) for one in asked.values() if "/" in one.node)
        assert Counter({(one.node, one.task_id): one.interrupts for one in proofs if one.inside}) == inside
        assert _exact(proofs) == _counted({key: one for key, one in asked.items() if "/" not in one.node})


@pytest.mark.parametrize("act", ["nodes gone", "subgraphs gone"])
def test_whoever_comes_after_the_deploy_is_told_that_the_thread_is_stranded_and_where(play: Play, act: str) -> None:
    for thread_id, asked in play.truth.items():
        judged = play.acts[act][thread_id].judged(play.candidates)
        if not asked:
            continue
        assert judged.condition is Condition.STRANDED
        named = {leaf.node for leaf in judged.leaves if leaf.source is LeafSource.INTERRUPT_ID}
        gone = act == "subgraphs gone"
        assert named == {node_name(one.root) if gone and "/" in one.node else one.node for one in asked.values()}


def test_names_that_were_never_deployed_prove_nothing(play: Play) -> None:
    others = frozenset(f"{'/'.join(['other'] * depth)}" for depth in (1, 2, 3)) | {"plain anew", "a%2Fb/ask anew"}
    for seen in play.acts["nodes gone"].values():
        assert seen.proofs(others) == ()
