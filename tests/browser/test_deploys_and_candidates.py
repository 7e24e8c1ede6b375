"""Before a deploy and after it: a release manager asks about a candidate, opens the drain, and sees what a deploy did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from starlette.staticfiles import StaticFiles

from app.places import STATIC
from tests.browser.conftest import Ask, Open, violations
from tests.browser.test_every_page import AXE, RULES, RUN, TABLES_TOO_WIDE, TOO_WIDE
from tests.flows.product import Product
from tests.loopback import served
from tests.web.conftest import make_app
from tests.web.fakes import full_dashboard

GRAPH = Path("app/demo/agent/langgraph.json")
NODE = "await_approval"


@pytest.fixture(scope="module")
def candidate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo's own graphs as their code draws them, without the node."""
    product = Product(tmp_path_factory.mktemp("candidate"))
    product.configure("")
    ran = product.ask("topology", "--langgraph-json", str(GRAPH.resolve()), "--json")
    assert ran.code == 0, ran.said
    found: dict[str, Any] = ran.json
    graph = found["graphs"]["support"]
    graph["nodes"].remove(NODE)
    graph["edges"] = [edge for edge in graph["edges"] if NODE not in edge[:2]]
    return json.dumps(found)


@pytest.mark.parametrize("javascript", [True, False])
def test_a_release_manager_asks_about_a_candidate_and_opens_the_drain_with_one_button(
    open_page: Open, ask: Ask, candidate: str, javascript: bool
) -> None:
    parked = ask("/deployments/demo/threads", pending=NODE)["total"]
    page = open_page(javascript=javascript).go("/deployments/demo")
    page.get_by_role("link", name="Preflight").click()
    page.get_by_label("Topology").fill(candidate)
    page.get_by_role("button", name="Ask", exact=True).click()

    answer = page.locator(".banner")
    expect(answer).to_contain_text("would break")
    expect(answer).to_contain_text(f"{parked} threads")
    changes = page.get_by_role("region", name="Changes and what they mean")
    row = changes.get_by_role("row").filter(has_text=NODE).first
    expect(row).to_contain_text("would strand")
    path = str(row.get_by_role("link", name=str(parked), exact=True).get_attribute("href"))
    listed = open_page(javascript=javascript).go(path)
    expect(listed.get_by_role("region", name="Table of threads").locator("tbody tr")).to_have_count(parked)

    answer.get_by_role("button", name="Open 1 drain for it").click()
    expect(page.get_by_label("Topology")).to_have_value(candidate)
    opened = page.locator(".banner").get_by_role("link", name=re.compile("^preflight-support-"))
    name = opened.inner_text()
    opened.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_role("region", name="What is left", exact=True)).to_contain_text(NODE)
    assert ask(f"/drains/{name}")["dispositions"]["parked_at_target"] == parked


@pytest.fixture(scope="module")
def deployed() -> Iterator[str]:
    """Pages with a deploy that stranded threads, from made-up answers: a real deploy takes half a minute, see tests/flows."""
    app = make_app(full_dashboard())
    app.mount("/static", StaticFiles(directory=STATIC))
    with served(app) as address:
        yield address


def test_what_a_deploy_did_leads_to_the_threads_that_it_stranded(open_page: Open, deployed: str) -> None:
    watched = replace(open_page(), address=deployed)
    page = watched.go("/deployments/support-prod")
    page.get_by_role("link", name="Deploy 7").first.click()
    said = page.locator(".banner")
    expect(said).to_contain_text("stranded")
    expect(said.get_by_role("listitem")).not_to_have_count(0)
    expect(page.get_by_role("group", name="The graph support")).to_be_visible()
    table = page.get_by_role("region", name="Threads that this deploy met")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(RUN, ["tag", RULES])
    assert not found["violations"], violations(found)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320, page.evaluate(TOO_WIDE, 320)
    assert page.evaluate(TABLES_TOO_WIDE) == []
    thread = table.get_by_role("rowheader").first.get_by_role("link")
    name = str(thread.get_attribute("title"))
    thread.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
