"""Every situation that rests is polled, continued under its graph with every question answered, and polled again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.drains.jsonable import to_jsonable
from app.facts.topology import at_or_below
from app.jobs.dashboard import Dashboard
from app.jobs.runtime import Runtime, open_runtime
from app.settings import load_settings
from tests.agent.fixtures import FreshServer
from tests.agent.raw_views import RawViews, leaves_of, let_all_go_on, look_at_all
from tests.agent.situations import RECIPES, STATES, Situation, make_situations, revision
from tests.flows import truth
from tests.flows.product import DEPLOYMENT, node_drain, one_deployment, to_toml

# Busy threads go on by themselves; the finished ones that differ in a field only are one, `finished`.
LEFT_OUT = {*STATES, *truth.NOT_LISTED, "never_ran_without_a_graph"}
NAMES = [
    recipe.build.__name__
    for recipe in RECIPES
    if recipe.truth.get("status") != "busy" and recipe.build.__name__ not in LEFT_OUT
]
OVER = frozenset({"settled", "presumed_settled", "never_ran"})


@dataclass(frozen=True)
class GoneOn:
    """What the product said before and after, what ran in between, and what the server shows afterwards."""

    situations: Mapping[str, Situation]
    before: Mapping[str, Mapping[str, Any]]
    went: Mapping[str, list[str]]
    after: Mapping[str, Mapping[str, Any]]
    views: Mapping[str, RawViews]


@pytest.fixture(scope="module")
def gone_on(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> GoneOn:
    server = module_agent_server(revision("before"))
    return asyncio.run(_play(server.url, server.folder, tmp_path_factory.mktemp("going_on")))


async def _play(url: str, server_folder: Path, folder: Path) -> GoneOn:
    drains = [node_drain(f"quiet-{graph}", graph, node) for graph, node in truth.QUIET.items()]
    config = folder / "drainboard.toml"
    config.write_text(to_toml(one_deployment(url, *drains)), encoding="utf-8")
    situations = await make_situations(url, server_folder, [one for one in RECIPES if one.build.__name__ in NAMES])
    async with open_runtime(load_settings(config), schedule=False) as runtime:
        before = await _polled(runtime, situations)
        went = await let_all_go_on(url, server_folder, situations)
        after = await _polled(runtime, situations)
    return GoneOn({one.name: one for one in situations}, before, went, after, await look_at_all(url, situations))


async def _polled(runtime: Runtime, situations: list[Situation]) -> dict[str, dict[str, Any]]:
    assert (await runtime.poll(DEPLOYMENT, full=True)).state == "complete"
    dashboard = Dashboard(runtime)
    found: dict[str, dict[str, Any]] = {}
    for one in situations:
        evidence: Any = to_jsonable(await dashboard.evidence(DEPLOYMENT, one.thread_id, False))
        found[one.name] = evidence
    return found


def _departures(evidence: Mapping[str, Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for left in evidence["departures"]:
        found.setdefault(left["node"], set()).add(left["departure"])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_is_called_settled_runs_nothing_when_it_goes_on(gone_on: GoneOn, name: str) -> None:
    assert gone_on.before[name]["condition"] in truth.condition(gone_on.situations[name])
    if gone_on.before[name]["condition"] in OVER:
        assert gone_on.went[name] == []


@pytest.mark.parametrize("name", NAMES)
def test_what_is_called_pending_is_what_runs(gone_on: GoneOn, name: str) -> None:
    """Each leaf that Drainboard names comes to an end, but for those that the table says it names too many."""
    named: Counter[str] = Counter()
    for one in gone_on.before[name]["pending"] or ():
        named[one["node"]] += one["tasks"]
    named.subtract(gone_on.situations[name].outdated)
    assert named <= Counter(gone_on.went[name])


@pytest.mark.parametrize("name", NAMES)
def test_each_leaf_leaves_as_it_was_left(gone_on: GoneOn, name: str) -> None:
    """What still waits did not leave: a node that had not begun now asks, one that failed fails again."""
    waits = [node for node in _still_pending(gone_on, name) if name not in truth.DEPARTURES]
    expected = truth.departures(gone_on.situations[name])
    left = {node: how for node, how in expected.items() if not any(at_or_below(one, node) for one in waits)}
    assert _departures(gone_on.after[name]) == left


@pytest.mark.parametrize("name", NAMES)
def test_afterwards_what_is_pending_is_what_the_server_still_shows(gone_on: GoneOn, name: str) -> None:
    left = _still_pending(gone_on, name)
    assert {one["node"] for one in gone_on.after[name]["pending"] or ()} == set(left)
    condition = gone_on.after[name]["condition"]
    assert (condition == "unplaced") if name in truth.REFUSED else ((condition in OVER) == (not left))


def _still_pending(gone_on: GoneOn, name: str) -> list[str]:
    """The leaves that the server shows afterwards. A question that no state names cannot be answered by it: it asks again."""
    state = gone_on.views[name].state
    assert state is not None
    return [*leaves_of(state), *truth.NAMED_BY_PROOF.get(name, ())]
