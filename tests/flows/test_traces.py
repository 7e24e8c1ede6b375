"""Traces end to end: a real Agent Server traces into the stand-in, and the verdict follows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from app.demo.langsmith.standin import make_standin, serve_standin
from app.sources.langsmith import client
from tests.flows.product import Product, node_drain, one_deployment, wait_until
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


LOST: dict[str, tuple[dict[str, Any], Any, str, str]] = {
    "a short retention": ({"retention": "1s"}, None, "traces_window_short", "are kept for"),
    "sampling": ({"sampling_rate": 0.5}, None, "traces_sampled", "Only 50% of the traces are kept"),
    "another project": ({"project": "nobody's"}, None, "source_failed", "no project with the name"),
    "a sign-in page": ({}, lambda between: between.fail("/info", html()), "source_failed", "sign-in page"),
    "a sign-in page for questions": (
        {}, lambda between: between.fail("/runs/query", html()), "source_failed", "sign-in page"
    ),
    "429 at once": ({}, lambda between: between.fail("/runs/query", slow_down()), "traces_incomplete", "to slow down"),
    "429 with a body": (
        {}, lambda between: between.fail("/runs/query", failed(429, detail=CANARY)), "traces_incomplete", "to slow down"
    ),
    "a backend that breaks": (
        {}, lambda between: between.fail("/runs/query", failed(500)), "source_failed", "does not answer"
    ),
    "a key that is refused": (
        {}, lambda between: between.fail("/sessions", failed(401)), "source_failed", "refuses the key"
    ),
    "no route for questions": (
        {}, lambda between: between.fail("/runs/query", failed(404)), "source_failed", "is too old"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LOST)
def test_each_way_of_losing_traces_withholds_the_verdict_and_says_why(
    traced: Traced, tmp_path: Path, what: str
) -> None:
    settings, break_it, code, says = LOST[what]
    traced.age_all(by=2 * HOUR)
    [other] = traced.run(QUESTION)
    traced.wait_for_trace(other, "respond")
    product = _product(tmp_path, traced, _drain("fax", "legacy_triage", trace_window="90m"), **settings)
    if break_it is not None:
        break_it(traced.between)

    assert product.ask("poll", "--full", "--json").code == 0  # the threads were seen
    answer = product.gate("fax")

    assert answer.code == 2, answer.said
    said = {found["code"]: found["sentence"] for found in answer.json["reasons"] if found["source"] == "traces"}
    assert says in said[code]
    assert CANARY not in answer.said


HALF_WAY: dict[str, tuple[Response, str]] = {
    "429 without a body": (slow_down(), "to slow down"),
    "429 with a body": (failed(429, detail=CANARY), "to slow down"),
    "a sign-in page": (html(), "sign-in page"),
    "a lost page": (JSONResponse({"items": [], "next_cursor": "more"}), "stopped before its end"),
}


@pytest.mark.parametrize("what", HALF_WAY)
def test_an_answer_that_stops_half_way_proves_nothing_until_the_rest_was_read(
    traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    broken, says = HALF_WAY[what]
    traced.age_all(by=4 * HOUR)
    [parked, other] = traced.run(PURCHASE, QUESTION)
    traced.wait_for_trace(parked, "await_approval")
    traced.wait_for_trace(other, "respond")
    product = _product(tmp_path, traced, _drain("sign", "await_approval", trace_window="90m"))
    traced.between.fail("/info", failed(500))
    product.ask("poll", "--full", "--json")
    traced.answer(parked, "no")
    traced.wait_for_trace(parked, "await_approval", count=2)
    monkeypatch.setattr(client, "PAGE", 1)

    traced.between.mend()
    traced.between.fail("/runs/query", None, broken)
    product.ask("poll", "--full", "--json")
    answer = product.gate("sign")
    traced.between.mend()
    monkeypatch.undo()
    product.ask("poll", "--full", "--json")
    after = product.gate("sign")

    assert answer.code == 2, answer.said
    said = {found["code"]: found["sentence"] for found in answer.json["reasons"] if found["source"] == "traces"}
    assert says in (said.get("traces_incomplete") or said["source_failed"])
    assert CANARY not in answer.said
    assert after.code == 0, after.json["reasons"]
    [check] = [found for found in after.json["checks"] if found["name"] == "traces"]
    assert check["sentence"].startswith("2 entries")


def test_more_runs_than_one_poll_reads_are_read_by_the_next_ones(
    traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 1)
    monkeypatch.setattr(client, "MAX_RUNS", 2)
    monkeypatch.setattr("app.jobs.traces.TIE", timedelta(0))
    traced.age_all(by=4 * HOUR)
    faxes = traced.run(*[FAX] * 5)
    for fax in faxes:
        traced.wait_for_trace(fax, "legacy_triage")
    for number, fax in enumerate(faxes):
        traced.runs.age(fax, by=timedelta(minutes=20 + number))
    product = _product(tmp_path, traced, _drain("fax", "legacy_triage", trace_window="90m"))
    counts, sources = [], []
    for _ in range(6):
        product.ask("poll", "--full", "--json")
        answer = product.gate("fax").json
        counts += [found["count"] for found in answer["reasons"] if found["code"] == "node_still_entered"]
        sources += [found["sentence"] for found in answer["sources"] if found["name"] == "traces"]

    assert (counts[0], counts[-1]) == (2, 5)
    assert counts == sorted(counts)
    assert "next polls go on" in sources[0]


def test_a_backend_of_the_old_kind_gives_the_same_answer(traced: Traced, tmp_path: Path) -> None:
    traced.age_all(by=4 * HOUR)
    [fax, other] = traced.run(FAX, QUESTION)
    traced.wait_for_trace(fax, "legacy_triage")
    traced.wait_for_trace(other, "respond")
    with serve_standin(make_standin(traced.runs, version="0.13.2")) as old:
        product = _product(tmp_path, traced, _drain("fax", "legacy_triage", trace_window="90m"), endpoint=old)
        _poll(product)
        answer = product.gate("fax")

    assert answer.code == 1
    [reason] = [found for found in answer.json["reasons"] if found["source"] == "traces"]
    assert (reason["code"], reason["count"]) == ("node_still_entered", 1)


def test_a_new_thread_that_passes_through_leaks_and_its_entry_leads_to_the_thread_and_the_trace(
    traced: Traced, tmp_path: Path
) -> None:
    traced.age_all(by=4 * HOUR)
    [other] = traced.run(QUESTION)
    traced.wait_for_trace(other, "respond")
    product = _product(tmp_path, traced, _drain("fax", "legacy_triage", trace_window="90m"), web_url=traced.langsmith)
    _poll(product)
    assert product.gate("fax").code == 0
    [fax] = traced.run(FAX)
    traced.wait_for_trace(fax, "legacy_triage")

    with product.serve() as client_:

        def codes() -> set[str]:
            return {found["code"] for found in client_.get("/api/v1/drains/fax/gate").json()["reasons"]}

        wait_until(lambda: {"leaking", "node_still_entered"} <= codes())  # the threads are looked at before the traces
        entry, *_ = client_.get("/api/v1/deployments/real/nodes/entries", params={"node": "legacy_triage"}).json()[
            "items"
        ]
        report = client_.get("/api/v1/deployments/real/nodes").json()
        drain_page = client_.get("/drains/fax").text
        thread_page = client_.get(f"/deployments/real/threads/{fax}").text
        trace = client_.get(entry["trace"]).json()

    assert entry["thread_id"] == fax
    assert f'href="/deployments/real/threads/{fax}"' in drain_page
    assert f'href="{entry["trace"]}"' in drain_page
    assert entry["trace"].rpartition("/r/")[0] in thread_page
    assert "legacy_triage" in {run["name"] for run in trace}
    [node] = [found for found in report["items"] if found["node"] == "legacy_triage"]
    assert node["days"][-1]["entered"] >= 1


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

    with product.serve() as client_:  # with the most that it logs
        said += [client_.get(path).text for path in ("/drains/fax", f"/deployments/real/threads/{fax}", "/metrics")]
    said += [(tmp_path / "serve.log").read_text()]

    assert "traces.read" in said[-1]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert fax.encode() in stored
    assert CANARY.encode() not in stored
    assert not any(CANARY in text for text in said)
