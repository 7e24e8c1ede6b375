"""Forms in a real browser: with and without JavaScript, and beside a page that updates itself."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import MADE, Ask, Open, violations
from tests.browser.test_every_page import AXE, RULES, RUN
from tests.flows.product import wait_until


@pytest.mark.parametrize("javascript", [True, False])
def test_a_drain_is_made_changed_and_closed(open_page: Open, ask: Ask, javascript: bool) -> None:
    name = f"drop-lookup-{'with' if javascript else 'without'}"
    page = open_page(javascript=javascript).go("/drains")
    page.get_by_role("link", name="Make a drain").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Graph", exact=True).fill("support")
    page.get_by_label("Nodes to remove, 1").fill("lookup_order")
    page.get_by_label("Owner").fill("orders team")
    page.get_by_text("Policy", exact=True).click()
    page.get_by_label("Complete sweeps without a blocker").fill("3")
    page.get_by_role("button", name="Make the drain").click()
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
    settings = ask(f"/drains/{name}")["settings"]
    assert (settings["remove_nodes"], settings["policy"]["soak_sweeps"]) == (["lookup_order"], 3)

    page.get_by_role("link", name="Change").click()
    page.get_by_label("Owner").fill("payments team")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".meta")).to_contain_text("payments team")
    assert ask(f"/drains/{name}")["criteria_version"] == 1

    page.get_by_role("button", name="Close").click()
    expect(page.locator(".meta")).to_contain_text("closed")
    expect(page.get_by_role("link", name="Open again")).to_be_visible()


def test_a_form_with_mistakes_keeps_what_was_typed(open_page: Open, ask: Ask, request: pytest.FixtureRequest) -> None:
    watched = open_page()
    page = watched.go("/drains/new")
    page.get_by_label("Name", exact=True).fill("a name")
    page.get_by_label("Fields to rename: old, 1").fill("customer_name")
    page.get_by_role("button", name="Make the drain").click()
    expect(page.get_by_role("alert").first).to_contain_text("Nothing was saved")
    expect(page.get_by_label("Name", exact=True)).to_have_value("a name")
    expect(page.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Fields to rename: old, 1")).to_have_value("customer_name")
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    found = page.evaluate(RUN, ["tag", RULES])
    assert violations(found) == "[]"
    watched.complaints = [each for each in watched.complaints if "status of 422" not in each]


def test_the_form_suggests_the_nodes_of_the_graph(open_page: Open) -> None:
    page = open_page().go("/drains/new")
    nodes = page.locator("#known-nodes option").evaluate_all("all => all.map(each => each.value)")
    assert "await_approval" in nodes
    assert not [node for node in nodes if node.startswith("__")]


@pytest.mark.parametrize("javascript", [True, False])
def test_ticked_threads_are_taken_over_and_given_back(
    open_page: Open, demo: httpx.Client, ask: Ask, made: str, javascript: bool
) -> None:
    page = open_page(javascript=javascript).go(made)
    boxes = page.locator("tbody .choose input")
    wanted = [boxes.nth(index).get_attribute("value") for index in (0, 2)]
    for index in (0, 2):
        boxes.nth(index).check()
    form = page.locator("#say")
    form.get_by_label("Owner").fill("Ben")
    form.get_by_label("Reason").fill(f"by hand, {javascript}")
    form.get_by_role("button", name="Take over").click()
    line = page.get_by_role("listitem").filter(has_text=f"by hand, {javascript}")
    expect(line).to_contain_text("2 threads")
    expect(line).to_contain_text("Ben")
    (said,) = [each for each in ask(f"/drains/{MADE}")["waivers"] if each["reason"] == f"by hand, {javascript}"]
    assert sorted(said["thread_ids"]) == sorted(str(each) for each in wanted)
    line.get_by_role("button", name="Take back").click()
    expect(line).to_have_count(0)


def test_what_is_typed_outlives_the_live_part(open_page: Open, made: str) -> None:
    """The page asks again every five seconds, and once somebody has begun to fill in a form it waits."""
    watched = open_page()
    watched.page.clock.install()
    page = watched.go(made)
    box, owner = page.locator("tbody .choose input").first, page.locator("#say").get_by_label("Owner")
    box.check()
    owner.fill("Ana")
    expect(page.locator("#live-control")).to_have_text("waits")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(20_000)
    assert asked == []
    expect(box).to_be_checked()
    expect(owner).to_have_value("Ana")
    box.uncheck()
    owner.fill("")
    expect(page.locator("#live-control")).to_have_text("live")
    with page.expect_response(f"**{made}"):
        page.clock.run_for(6_000)


def test_an_attestation_is_ticked(open_page: Open, ask: Ask, made: str) -> None:
    page = open_page().go(made)
    part = page.get_by_role("region", name="Attest what only a person can check")
    expect(part.get_by_label("export queues")).to_have_count(0)
    part.get_by_label("recovery replicas").check()
    part.get_by_label("Owner").fill("Ben")
    part.get_by_role("button", name="Attest").click()
    said = page.get_by_role("region", name="What people said").get_by_role("listitem")
    expect(said.filter(has_text="recovery replicas")).to_contain_text("Ben")
    expect(part).to_have_count(0)
    assert len(ask(f"/drains/{MADE}")["attested"]) == 2


def test_the_audit_shows_what_was_done_here(open_page: Open, made: str) -> None:
    page = open_page().go("/activity")
    expect(page.get_by_role("row").filter(has_text=re.compile(f"made the drain.*{MADE}"))).to_have_count(1)


def test_a_drain_of_the_settings_offers_no_change(open_page: Open) -> None:
    page: Page = open_page().go("/drains/drop-await-approval")
    expect(page.locator(".meta")).to_contain_text("written in the settings file")
    expect(page.get_by_role("link", name="Change")).to_have_count(0)
    expect(page.get_by_role("button", name="Close")).to_have_count(0)
    wait_until(lambda: page.get_by_role("button", name="Take over").is_visible())
