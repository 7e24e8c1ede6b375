"""The main job, from outside: a settings file, `drainboard poll --full`, and HTTP. Every situation is told as it is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.agent.fixtures import SituationsServer
from tests.agent.situations import RECIPES
from tests.flows import truth
from tests.flows.product import DEPLOYMENT, Product, all_threads, node_drain, ok, one_deployment, poll_over_http

NAMES = [recipe.build.__name__ for recipe in RECIPES if recipe.build.__name__ not in truth.NOT_LISTED]


@dataclass(frozen=True)
class Told:
    """What the product says over HTTP after one poll through the command line."""

    client: httpx.Client
    threads: dict[str, dict[str, Any]]
    evidence: dict[str, dict[str, Any]]
    inventory: dict[str, Any]
    rows: dict[str, str | None]
    """The graph that the server's own row names, by thread."""

    @property
    def server_ids(self) -> frozenset[str]:
        """Every thread of the server."""
        return frozenset(self.rows)

    def graphs(self, thread_id: str) -> set[str]:
        """The graphs of a thread: its row's, and its head's as the evidence has it."""
        heads = {one["thread_id"]: one["head_graph_id"] for one in self.evidence.values()}
        return {graph for graph in (self.rows[thread_id], heads.get(thread_id)) if graph} or {"none"}


@pytest.fixture(scope="module")
def unasked(situations_server: SituationsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Without a drain: states are read only of threads whose row may hold work."""
    product = Product(tmp_path_factory.mktemp("unasked"))
    product.configure(one_deployment(situations_server.url))
    with product.serve() as client:  # its first poll is a sweep
        yield _told(client, situations_server)


@pytest.fixture(scope="module")
def told(situations_server: SituationsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """With a drain for every graph that nothing blocks: every idle head and the runs of busy threads are read."""
    product = Product(tmp_path_factory.mktemp("told"))
    drains = [node_drain(f"quiet-{graph}", graph, node) for graph, node in truth.QUIET.items()]
    product.configure(one_deployment(situations_server.url, *drains))
    product.poll(full=True)
    with product.serve() as client:
        yield _told(client, situations_server)


def _told(client: httpx.Client, server: SituationsServer) -> Told:
    """After a sweep, and a scan that must not make it worse."""
    assert poll_over_http(client, full=False)["state"] == "complete"
    evidence = {
        one.name: ok(client.get(f"/api/v1/deployments/{DEPLOYMENT}/threads/{one.thread_id}"))
        for one in server.situations
    }
    return Told(
        client=client,
        threads=all_threads(client),
        evidence=evidence,
        inventory=ok(client.get(f"/api/v1/deployments/{DEPLOYMENT}/inventory")),
        rows=asyncio.run(_rows(server.url)),
    )


async def _rows(url: str) -> dict[str, str | None]:
    async with get_client(url=url) as client:
        rows = await client.threads.search(limit=1000, select=["thread_id", "metadata"])
    return {str(row["thread_id"]): (row["metadata"] or {}).get("graph_id") for row in rows}


# --- Each situation ------------------------------------------------------------------------------------------------------------------


def test_every_situation_has_an_expected_condition() -> None:
    assert sorted(truth.CONDITIONS) == sorted(NAMES)


def test_every_thread_of_the_server_is_listed_and_no_other(told: Told) -> None:
    assert set(told.threads) == told.server_ids
    assert told.inventory["total"] == len(told.server_ids)
    assert told.inventory["complete"] is True


def test_small_pages_list_the_same_threads(situations_server: SituationsServer, told: Told, tmp_path: Path) -> None:
    product = Product(tmp_path)
    product.configure(one_deployment(situations_server.url, page_size=5))
    assert product.poll(full=True)["threads_seen"] == len(told.server_ids)
    listed = product.ask("threads", "list", DEPLOYMENT, "--limit", "500", "--json").json
    assert {item["thread_id"] for item in listed["items"]} == told.server_ids


@pytest.mark.parametrize("name", NAMES)
def test_the_status_is_that_of_the_row(told: Told, situations_server: SituationsServer, name: str) -> None:
    one = situations_server[name]
    assert (told.threads[one.thread_id]["status"], told.evidence[name]["status"]) == (one.status, one.status)


@pytest.mark.parametrize("name", NAMES)
def test_the_condition_is_the_one_of_the_design(told: Told, situations_server: SituationsServer, name: str) -> None:
    one = situations_server[name]
    assert told.threads[one.thread_id]["condition"] in truth.condition(one)
    assert told.evidence[name]["condition"] == told.threads[one.thread_id]["condition"]


@pytest.mark.parametrize("name", NAMES)
def test_the_condition_without_a_drain_presumes_and_does_not_claim(
    unasked: Told, situations_server: SituationsServer, name: str
) -> None:
    one = situations_server[name]
    assert unasked.threads[one.thread_id]["condition"] in truth.conditions_unasked(one)


@pytest.mark.parametrize("name", NAMES)
def test_pending_nodes_are_those_that_the_state_names_as_paths(
    told: Told, situations_server: SituationsServer, name: str
) -> None:
    one = situations_server[name]
    named = (*one.seen, *truth.NAMED_BY_PROOF.get(name, ()))
    assert told.threads[one.thread_id]["pending"] == sorted(set(named))
    tasks: Counter[str] = Counter()
    for pending in told.evidence[name]["pending"] or ():
        tasks[pending["node"]] += pending["tasks"]
    assert tasks == Counter(named)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in truth.MAY_BE_UNKNOWN])
def test_the_state_version_is_read_and_never_guessed(
    told: Told, situations_server: SituationsServer, name: str
) -> None:
    missing = ("unknown", None) if name in truth.WITHOUT_VALUES else ("missing", None)
    for said in (
        told.threads[situations_server[name].thread_id]["state_version"],
        told.evidence[name]["state_version"],
    ):
        assert (said["reading"], said["value"]) == truth.VERSIONS.get(name, missing)


@pytest.mark.parametrize("name", NAMES)
def test_presence_is_taken_from_keys(told: Told, situations_server: SituationsServer, name: str) -> None:
    one, fields = situations_server[name], told.evidence[name]["fields"]
    for field in truth.WATCHED:
        said = fields[field]
        if one.values == "present":
            assert (field, said["row"]) == (field, truth.presence(one, field))
        else:
            assert (field, said["row"]) == (field, None)
        if one.values == "absent":  # then the state is what is looked at
            assert (field, said["state"]) == (field, truth.presence(one, field))
        kind = truth.FIELDS.get(name, {}).get(field, (None, None))[1]
        assert (field, said["kind"]) == (field, kind)


@pytest.mark.parametrize("name", ["personal_keys_parked", "personal_keys_finished"])
def test_a_personal_key_is_counted_and_not_named(told: Told, name: str) -> None:
    assert told.evidence[name]["undeclared_fields"] >= 1


def test_a_deleted_thread_that_was_never_seen_is_not_found(told: Told) -> None:
    said = told.evidence["deleted"]
    assert (said["found"], said["diagnosis"]["code"]) == (False, "not_found")


# --- Counts --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("facet", ["status", "age", "state_version", "condition"])
@pytest.mark.parametrize("which", ["told", "unasked"])
def test_the_buckets_of_a_facet_add_up_to_total(request: pytest.FixtureRequest, which: str, facet: str) -> None:
    inventory = request.getfixturevalue(which).inventory
    counts = {value: n for value, n in inventory["facets"][facet].items() if value != "gone"}
    assert sum(counts.values()) == inventory["total"]


@pytest.mark.parametrize("which", ["told", "unasked"])
def test_the_buckets_of_every_field_add_up_to_total(request: pytest.FixtureRequest, which: str) -> None:
    inventory = request.getfixturevalue(which).inventory
    fields = inventory["facets"]["fields"]
    assert set(truth.WATCHED) <= set(fields)
    assert {name: sum(counts.values()) for name, counts in fields.items()} == dict.fromkeys(fields, inventory["total"])
    assert all(n >= 0 for counts in fields.values() for n in counts.values())


def test_the_facets_count_what_was_done(told: Told, situations_server: SituationsServer) -> None:
    ours = _with_the_originals(situations_server)
    facets = told.inventory["facets"]
    assert facets["status"] == dict(sorted(Counter(status for status, _ in ours).items()))
    pending = Counter(node for _, seen in ours for node in set(seen))
    pending.update(node for nodes in truth.NAMED_BY_PROOF.values() for node in nodes)
    assert facets["pending"] == dict(sorted(pending.items()))
    versions = {value: facets["state_version"].get(value) for value in ("1", "2", "malformed")}
    assert versions == {"1": 1, "2": 1, "malformed": 5}


def _with_the_originals(server: SituationsServer) -> list[tuple[str, tuple[str, ...]]]:
    """Status and seen leaves of every thread of the server: the situations, and what was copied."""
    listed = [(one.status, one.seen) for one in server.situations if one.status is not None]
    copied = [("await_approval",), ("desk/sub_wait",), ("b",)]
    return [*listed, *(("interrupted", seen) for seen in copied), ("idle", ())]


def test_field_counts_are_those_of_the_states(told: Told, situations_server: SituationsServer) -> None:
    for field in truth.WATCHED:
        expected = Counter(truth.presence(one, field) for one in situations_server.situations)
        expected["present"] += field == "customer_name"  # what was copied
        said = told.inventory["facets"]["fields"][field]
        for presence in ("null", "empty", "present"):
            assert (field, presence, said[presence]) == (field, presence, expected[presence])


# --- Filters -------------------------------------------------------------------------------------------------------------------------

FILTERS: list[dict[str, list[str]]] = [
    {"status": ["interrupted"]},
    {"status": ["interrupted", "error"]},
    {"status": ["idle"], "condition": ["parked"]},
    {"condition": ["parked", "failed"], "pending": ["await_approval", "desk/sub_wait"]},
    {"pending": ["desk/sub_wait"]},
    {"pending": ["nowhere"]},
    {"state_version": ["1", "2"]},
    {"state_version": ["malformed"]},
    {"state_version": ["unknown"]},
    {"graph": ["nested"]},
    {"graph": ["none"]},
    {"graph": ["nested", "deep"], "status": ["interrupted"]},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_filter_narrows_list_and_counts_alike(
    told: Told, situations_server: SituationsServer, filters: Mapping[str, list[str]]
) -> None:
    """The same key twice is OR, different keys are AND; each is compared with what the unfiltered list says."""
    expected = {thread_id for thread_id, item in told.threads.items() if _passes(told, item, filters)}
    assert set(all_threads(told.client, **filters)) == expected
    inventory = ok(told.client.get(f"/api/v1/deployments/{DEPLOYMENT}/inventory", params=filters))
    assert inventory["total"] == len(expected)
    assert inventory["filters"] == filters
    for facet in ("status", "age", "state_version"):
        assert (facet, sum(inventory["facets"][facet].values())) == (facet, len(expected))
    for field, counts in inventory["facets"]["fields"].items():
        assert (field, sum(counts.values())) == (field, len(expected))


def _passes(told: Told, item: Mapping[str, Any], filters: Mapping[str, list[str]]) -> bool:
    version = item["state_version"]
    has = {
        "status": {item["status"]},
        "condition": {item["condition"]},
        "pending": set(item["pending"]),
        "state_version": {str(version["value"]) if version["reading"] == "integer" else version["reading"]},
    }
    if "graph" in filters:
        has["graph"] = told.graphs(item["thread_id"])
    return all(has[key] & set(values) for key, values in filters.items())


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["customer_name:null"], {"old_field_null", "old_null_new_present"}),
        (["customer_name:empty"], {"old_field_empty", "old_field_empty_list"}),
        (["retry_count:present"], {"kind_text", "kind_integer"}),
        (["customer_name:null", "retry_count:present"],
         {"old_field_null", "old_null_new_present", "kind_text", "kind_integer"}),
    ],
)  # fmt: skip
def test_a_field_filter_finds_its_threads(
    told: Told, situations_server: SituationsServer, wanted: list[str], names: set[str]
) -> None:
    found = set(all_threads(told.client, fields=wanted))
    assert {_name(situations_server, thread_id) for thread_id in found} == names


def test_absent_is_not_unknown_in_a_field_filter(told: Told) -> None:
    absent = set(all_threads(told.client, fields=["customer_name:absent"]))
    unknown = set(all_threads(told.client, fields=["customer_name:unknown"]))
    assert not absent & unknown
    assert unknown
    said = told.inventory["facets"]["fields"]["customer_name"]
    assert (said["absent"], said["unknown"]) == (len(absent), len(unknown))


@pytest.mark.parametrize(
    "query", [{"stauts": "idle"}, {"fields": "customer_name"}, {"sort": "nonsense"}, {"limit": "0"}]
)
def test_a_filter_that_is_not_understood_is_refused(told: Told, query: dict[str, str]) -> None:
    answer = told.client.get(f"/api/v1/deployments/{DEPLOYMENT}/threads", params=query)
    assert answer.status_code == 422
    assert set(answer.json()["error"]) == {"code", "message"}


def _name(server: SituationsServer, thread_id: str) -> str:
    return next((one.name for one in server.situations if one.thread_id == thread_id), thread_id)
