"""Traces end to end: a real Agent Server traces into the stand-in, and the verdict follows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.flows.product import Product, node_drain, one_deployment
from tests.flows.tracing import CANARY, Traced, failed, html, slow_down, traced_server

HOUR = timedelta(hours=1)
FAX = {"topic": "fax", "customer_name": CANARY}
PURCHASE = {"topic": "purchase", "amount": 500}
QUESTION = {"topic": "opening hours"}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with traced_server(tmp_path_factory.mktemp("traced")) as found:
        yield found


def _product(folder: Path, traced: Traced, *drains: dict[str, Any], **langsmith: Any) -> Product:
    traced.between.mend()
    product = Product(folder)
    settings = one_deployment(traced.url, *drains, langsmith=traced.settings(**langsmith), metadata_keys=[])
    product.configure(settings)
    return product


def _drain(name: str, node: str, **policy: Any) -> dict[str, Any]:
    drain = node_drain(name, "support", node)
    return drain | {"policy": drain["policy"] | policy}


def _poll(product: Product) -> None:
    assert product.ask("poll", "--full", "--json").code == 0


def test_a_node_that_stops_nobody_is_seen_in_the_traces_and_forgotten_with_the_window(
    traced: Traced, tmp_path: Path
) -> None:
    """No thread waits at `legacy_triage`: the thread list alone calls it drained."""
    [fax, other] = traced.run(FAX, QUESTION)
    traced.wait_for_trace(fax, "legacy_triage")
    traced.wait_for_trace(other, "respond")
    product = _product(tmp_path / "in", traced, _drain("fax", "legacy_triage", trace_window="30m"))

    _poll(product)
    blocked = product.gate("fax")

    assert blocked.code == 1, blocked.said
    [reason] = [found for found in blocked.json["reasons"] if found["verdict"] == "blocked"]
    assert (reason["code"], reason["source"], reason["count"]) == ("node_still_entered", "traces", 1)
    assert blocked.json["soak"]["holds_since"] is None

    traced.runs.age(fax, by=HOUR)
    product = _product(tmp_path / "out", traced, _drain("fax", "legacy_triage", trace_window="30m"))
    _poll(product)
    drained = product.gate("fax")

    assert drained.code == 0, drained.json["reasons"]
    [check] = [found for found in drained.json["checks"] if found["name"] == "traces"]
    assert check["status"] == "pass"


def test_a_run_that_belongs_to_a_stay_that_ended_in_order_is_explained(traced: Traced, tmp_path: Path) -> None:
    drain = _drain("sign", "await_approval", trace_window="30m")
    traced.age_all(by=HOUR)
    [parked, other] = traced.run(PURCHASE, QUESTION)
    traced.wait_for_trace(parked, "await_approval")
    traced.wait_for_trace(other, "respond")
    product = _product(tmp_path, traced, drain)
    _poll(product)
    waiting = product.gate("sign")

    assert [found["code"] for found in waiting.json["reasons"] if found["verdict"] == "blocked"] == ["parked_at_target"]

    traced.answer(parked, "no")
    traced.wait_for_trace(parked, "await_approval", count=2)
    traced.wait_for_trace(parked, "respond")
    _poll(product)
    after = product.gate("sign")

    assert after.code == 0, after.json["reasons"]
    [check] = [found for found in after.json["checks"] if found["name"] == "traces"]
    assert check["sentence"].startswith("2 entries")


LOST: dict[str, tuple[dict[str, Any], Any, set[str]]] = {
    "a short retention": ({"retention": "1s"}, None, {"traces_window_short"}),
    "sampling": ({"sampling_rate": 0.5}, None, {"traces_sampled"}),
    "another project": ({"project": "nobody's"}, None, {"source_failed"}),
    "a sign-in page": ({}, lambda between: between.fail("/info", html()), {"source_failed"}),
    "a sign-in page for questions": ({}, lambda between: between.fail("/runs/query", html()), {"source_failed"}),
    "429 at once": ({}, lambda between: between.fail("/runs/query", slow_down()), {"traces_incomplete"}),
    "a backend that breaks": ({}, lambda between: between.fail("/runs/query", failed(500)), {"source_failed"}),
    "a key that is refused": ({}, lambda between: between.fail("/sessions", failed(401)), {"source_failed"}),
    "no route for questions": ({}, lambda between: between.fail("/runs/query", failed(404)), {"source_failed"}),
}


@pytest.mark.parametrize("what", LOST)
def test_each_way_of_losing_traces_withholds_the_verdict_and_says_why(
    traced: Traced, tmp_path: Path, what: str
) -> None:
    settings, break_it, codes = LOST[what]
    traced.age_all(by=2 * HOUR)
    [other] = traced.run(QUESTION)
    traced.wait_for_trace(other, "respond")
    product = _product(tmp_path, traced, _drain("fax", "legacy_triage", trace_window="90m"), **settings)
    if break_it is not None:
        break_it(traced.between)

    assert product.ask("poll", "--full", "--json").code == 0  # the threads were seen
    answer = product.gate("fax")

    assert answer.code == 2, answer.said
    assert {found["code"] for found in answer.json["reasons"] if found["source"] == "traces"} >= codes
    assert all(found["sentence"] for found in answer.json["reasons"])


def test_a_project_in_which_nobody_leaves_a_trace_proves_nothing(traced: Traced, tmp_path: Path) -> None:
    traced.age_all(by=3 * HOUR)
    product = _product(tmp_path, traced, _drain("fax", "legacy_triage", trace_window="90m"))
    _poll(product)
    answer = product.gate("fax")

    assert answer.code == 2
    assert "traces_silent" in {found["code"] for found in answer.json["reasons"]}


def test_what_a_run_carries_is_kept_nowhere(traced: Traced, tmp_path: Path) -> None:
    [fax] = traced.run(FAX)
    traced.wait_for_trace(fax, "legacy_triage")
    assert any(CANARY in str(run.raw) for run in traced.runs.all()), "the stand-in has the payload"
    product = _product(tmp_path, traced, _drain("fax", "legacy_triage"))
    product.ask("poll", "--full", "--json")
    said = [product.gate("fax").said, product.ask("evidence", "real", fax, "--json").said]

    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert fax.encode() in stored
    assert CANARY.encode() not in stored
    assert not any(CANARY in text for text in said)
