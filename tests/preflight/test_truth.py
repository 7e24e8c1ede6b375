"""Every change of the table: what a preflight says before the deploy, and what the deploy then really does to the threads.

All graphs are deployed together, so that one server, one preflight and one deploy cover the table.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.demo.agent_server import write_files
from tests.agent.fixtures import FreshServer
from tests.flows.product import DEPLOYMENT, Product, one_deployment
from tests.preflight.lives import Life, Lived, go_on, park
from tests.preflight.table import DROPPED, LIMITS, RENAMED, TABLE, Row, files

ROWS = [pytest.param(row, id=row.graph) for row in TABLE]
HARMLESS = [pytest.param(row, id=row.graph) for row in TABLE if not any(row.says.values())]
UNTOLD_BY_A_DRAWING = frozenset({"flow_untouched", "flow_renamed"})  # no server tells what an entrypoint calls
STRANDS = ("would_strand", "would_drop_send")


@dataclass(frozen=True)
class Play:
    """What was said, and what happened. `first` and `drawn`: what was said when nobody had pushed what is deployed, at once and
    when the polls had read what the drains need."""

    first: Mapping[str, Any]
    drawn: Mapping[str, Any]
    answer: Mapping[str, Any]
    code: int
    lived: Mapping[str, Sequence[Lived]]

    def said(self, graph: str) -> list[Mapping[str, Any]]:
        """The changes of a graph, additions left out."""
        return _said(self.answer, graph)

    def counts(self, graph: str) -> Counter[str]:
        """How many threads of a graph have which outcome."""
        return _counts(self.said(graph))


def _said(answer: Mapping[str, Any], graph: str) -> list[Mapping[str, Any]]:
    return [one for one in answer["changes"] if one["graph"] == graph and not one["kind"].endswith("_added")]


def _counts(said: Sequence[Mapping[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in said:
        found[one["outcome"]] += one["count"]
    return found


@pytest.fixture(scope="module")
def play(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> Play:
    server = module_agent_server(files(after=False))
    lives: list[Life] = [life for row in TABLE for life in row.parked]
    parked = asyncio.run(park(server.url, lives))
    product = Product(tmp_path_factory.mktemp("product"))
    product.configure(one_deployment(server.url))
    candidate = tmp_path_factory.mktemp("candidate")
    write_files(candidate, files(after=True))
    deployed = ("--langgraph-json", str(server.folder / "langgraph.json"))
    preflight = ("preflight", DEPLOYMENT, "--langgraph-json", str(candidate / "langgraph.json"), "--json")
    product.poll()
    first = product.ask(*preflight, "--open-drain")
    assert first.json["opened"]
    product.poll()
    drawn = product.ask(*preflight)
    pushed = product.ask("topology", *deployed, "--python", sys.executable, "--push", DEPLOYMENT, "--json")
    assert [one["matches"] for one in pushed.json["graphs"]] == [True] * len(TABLE), pushed.said
    asked = product.ask(*preflight)
    server.deploy({**files(after=True), "langgraph.json": (candidate / "langgraph.json").read_text()})
    lived = asyncio.run(go_on(server.url, lives, parked))
    return Play(
        first.json,
        drawn.json,
        asked.json,
        asked.code,
        {row.graph: [one for one in lived if one.life.graph == row.graph] for row in TABLE},
    )


def test_the_table_is_large_enough_and_its_limits_are_few() -> None:
    assert len(TABLE) >= 25
    assert len(LIMITS) <= 3
    assert {row.graph for row in TABLE} >= LIMITS


@pytest.mark.parametrize("row", ROWS)
def test_a_change_is_told_as_the_table_has_it(play: Play, row: Row) -> None:
    said: dict[tuple[str, str], dict[str, int]] = {}
    for one in play.said(row.graph):
        entry = said.setdefault((one["kind"], one["name"]), {})
        if one["outcome"] != "safe":
            entry[one["outcome"]] = one["count"]
    assert said == {change: dict(outcomes) for change, outcomes in row.says.items()}
    assert {one["name"]: one["renamed_to"] for one in play.said(row.graph) if one["renamed_to"]} == row.renamed


@pytest.mark.parametrize("row", ROWS)
def test_what_was_said_is_what_the_deploy_did(play: Play, row: Row) -> None:
    said, lived = play.counts(row.graph), play.lived[row.graph]
    failed = sum(_failed(one) for one in lived)
    stranded = sum(_stranded(one, row) for one in lived)
    if row.graph in LIMITS:
        assert set(said) == {"unknown"}
        return
    assert said["unknown"] == 0
    assert failed == said["would_fail_to_load"] or said["may_strand"] >= failed > 0, lived
    assert stranded >= sum(said[one] for one in STRANDS), lived
    assert stranded <= sum(said[one] for one in (*STRANDS, "may_strand")), lived
    hidden = {one["name"]: one["count"] for one in play.said(row.graph) if one["outcome"] == "would_hide"}
    assert hidden == Counter(name for one in lived for name in _hidden(one, row)), lived


@pytest.mark.parametrize("row", ROWS)
def test_no_harm_is_called_safe_where_nobody_pushed_what_is_deployed(play: Play, row: Row) -> None:
    harmed = [one for one in play.lived[row.graph] if _failed(one) or _stranded(one, row)]
    for answer in (play.first, play.drawn):
        said = _counts(_said(answer, row.graph))
        assert said.total() - said["safe"] >= len(harmed), (said, harmed)


@pytest.mark.parametrize("row", [row for row in HARMLESS if row.values[0].graph not in UNTOLD_BY_A_DRAWING])
def test_what_changes_nothing_that_matters_is_safe_where_nobody_pushed_either(play: Play, row: Row) -> None:
    said = _said(play.drawn, row.graph)
    assert not set(_counts(said)) - {"safe"}, said


@pytest.mark.parametrize("row", HARMLESS)
def test_what_was_safe_did_no_harm(play: Play, row: Row) -> None:
    assert not set(play.counts(row.graph)) - {"safe"}
    for one in play.lived[row.graph]:
        if one.life.how == "never" and row.graph in DROPPED:
            continue  # it holds nothing; another run needs another graph
        assert not _failed(one), one
        assert not _stranded(one, row), one
        assert one.after.leaves == (), one


def test_the_whole_candidate_is_blocked(play: Play) -> None:
    assert (play.answer["verdict"], play.answer["exit_code"], play.code) == ("blocked", 1, 1)
    outcomes = [one["outcome"] for one in play.answer["changes"]]
    assert outcomes == sorted(outcomes, key=_ORDER.index)


def test_examples_are_threads_that_were_hit(play: Play) -> None:
    for row in TABLE:
        ids = {one.thread_id for one in play.lived[row.graph]}
        for one in play.said(row.graph):
            assert len(one["examples"]) == min(one["count"], 10)
            assert set(one["examples"]) <= ids


def test_no_value_of_a_state_is_in_the_answer(play: Play) -> None:
    assert "seven" not in json.dumps(play.answer)
    assert "Ada" not in json.dumps(play.answer)


_ORDER = ["would_strand", "would_drop_send", "would_fail_to_load", "would_hide", "may_strand", "unknown", "safe"]


def _failed(one: Lived) -> bool:
    """Nobody can read it, go on with it, or a run of it ended in an error."""
    can_run = one.life.how != "never"
    return can_run and (one.refused is not None or one.deployed.leaves is None or one.status == "error")


def _stranded(one: Lived, row: Row) -> bool:
    """Something that was pending or scheduled before the deploy never ran."""
    if _failed(one) or one.life.how in ("settles", "never"):
        return False
    leaves = one.before.leaves or ()
    owed = Counter(row.owes if row.owes is not None else [leaf.rpartition("/")[2] for leaf in leaves])
    done = Counter(_ran(one.after.values))
    return any(done[name] < count + _kept(one, name, row) for name, count in owed.items())


def _kept(one: Lived, name: str, row: Row) -> int:
    """How often a node had run for good before; what a half step did is still to be applied."""
    return 0 if row.owes is not None else _ran(one.before.values).count(name) - (name in one.before.finished)


def _ran(values: Mapping[str, Any] | None) -> list[str]:
    return list((values or {}).get("ran", []))


def _hidden(one: Lived, row: Row) -> set[str]:
    """What the thread held and whoever goes on with it does not find any more. A settled thread is gone on with by its new
    names only."""
    if one.deployed.values is None or not (one.before.leaves or row.renamed):
        return set()
    return set(one.before.values or {}) - set(one.deployed.values)


def test_the_candidate_of_the_table_is_read_without_its_folder_being_the_current_one(tmp_path: Path) -> None:
    write_files(tmp_path / "deep", files(after=True))
    product = Product(tmp_path / "product")
    product.configure({"deployments": []})
    found = product.ask("topology", "--langgraph-json", str(tmp_path / "deep" / "langgraph.json"))
    assert found.code == 0, found.said
    assert set(found.json["graphs"]) == {row.graph for row in TABLE} - DROPPED | {RENAMED}
