"""The ways of the three kinds of people through the pages: search, preview, past answers, print, keyboard, weight."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import MADE, Ask, Open
from tests.browser.test_every_page import OPEN_ALL
from tests.browser.test_stories import focused

DRAIN = "drop-await-approval"
Pages = dict[str, tuple[str, int]]


def test_from_any_page_the_oldest_blocker_is_at_most_two_clicks_away(open_page: Open, pages: Pages, ask: Ask) -> None:
    oldest = ask(f"/drains/{DRAIN}")["oldest"]["thread_id"]
    watched = open_page(javascript=False)
    for name, (path, status) in pages.items():
        page = watched.go(path, status)
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Overview").click()
        row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=DRAIN, exact=True))
        row.locator(f"a[href$='{oldest}']").click()
        assert page.url.endswith(f"/threads/{oldest}"), name


@pytest.mark.parametrize("javascript", [True, False])
def test_an_engineer_pastes_an_id_and_sees_why_the_thread_is_stuck(open_page: Open, ask: Ask, javascript: bool) -> None:
    failed = ask("/deployments/demo/threads", condition="failed")["items"][0]["thread_id"]
    page = open_page(javascript=javascript).go("/drains")
    box = page.get_by_role("searchbox")
    if javascript:
        page.keyboard.press("/")
        expect(box).to_be_focused()
    else:
        box.focus()
    page.keyboard.insert_text(f"  thread_id={failed.upper()} ")
    page.keyboard.press("Enter")
    expect(page.locator(".banner")).to_contain_text("It failed at lookup_order")
    assert ask("/search", q=failed[:13])["hits"][0]["name"] == failed


@pytest.mark.parametrize("javascript", [True, False])
def test_a_release_manager_types_a_node_and_finds_the_drain_that_removes_it(open_page: Open, javascript: bool) -> None:
    page = open_page(javascript=javascript).go("/")
    page.get_by_role("searchbox").fill("await_app")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("region", name="Nodes").get_by_role("link", name="await_approval")).to_be_visible()
    page.get_by_role("region", name="Drains").get_by_role("link", name=DRAIN).click()
    expect(page.get_by_role("region", name=re.compile("Blocked"))).to_be_visible()


def test_the_search_names_what_it_looked_at_and_never_what_threads_hold(open_page: Open, ask: Ask) -> None:
    page = open_page().go("/search?q=Ada+Lovelace")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Nothing found")
    expect(page.get_by_role("region", name="What was looked at")).to_contain_text("demo: 60 threads")
    unknown = "00000000-0000-4000-8000-000000000001"
    found = ask("/search", q=unknown)
    assert (found["hits"], found["thread_id"], found["is_whole_id"]) == ([], unknown, True)


def test_what_is_left_leads_to_exactly_those_threads(open_page: Open, ask: Ask) -> None:
    """A thread that blocks for two targets is listed under both."""
    targets = {each["name"]: each["dispositions"] for each in ask(f"/drains/{DRAIN}")["targets"]}
    page = open_page().go(f"/drains/{DRAIN}")
    left = page.get_by_role("region", name="What is left, by target and reason")
    both = 0
    for name, dispositions in targets.items():
        for disposition, count in dispositions.items():
            words = disposition.replace("_", " ")
            part = left.locator("tbody").filter(has_text=name.replace("->", " → "))
            link = part.get_by_role("row").filter(has_text=words).get_by_role("link")
            expect(link).to_have_text(str(count))
            path = link.get_attribute("href")
            table = open_page().go(str(path)).get_by_role("region", name="Threads of this drain")
            expect(table.locator("tbody tr")).to_have_count(count)
            expect(table.locator("tbody tr").filter(has_text=words)).to_have_count(count)
            both += count
    assert both > ask(f"/drains/{DRAIN}/threads")["total"]


@pytest.mark.parametrize("javascript", [True, False])
def test_a_preview_shows_the_verdict_keeps_what_was_typed_and_stores_nothing(
    open_page: Open, demo: httpx.Client, javascript: bool
) -> None:
    page = open_page(javascript=javascript).go("/drains/new?deployment=demo&node=await_approval")
    page.get_by_label("Name", exact=True).fill("only-a-thought")
    page.get_by_label("Graph", exact=True).fill("support")
    page.get_by_label("Owner").fill("somebody")
    page.get_by_role("button", name="Preview").click()
    said = page.locator("#preview")
    expect(said).to_contain_text("It would say: blocked")
    expect(said).to_contain_text("12 threads still wait at await_approval")
    expect(page.get_by_label("Owner")).to_have_value("somebody")
    assert demo.get("/api/v1/drains/only-a-thought").status_code == 404


def test_two_people_who_change_one_drain_do_not_overwrite_each_other_unseen(
    open_page: Open, ask: Ask, made: str
) -> None:
    first, second = open_page(), open_page(javascript=False)
    page, other = first.go(f"{made}/edit"), second.go(f"{made}/edit")
    for each, owner in ((other, "faster team"), (page, "slower team")):
        each.get_by_label("Owner").fill(owner)
        each.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody has changed the drain")
    expect(page.get_by_role("region", name="Stored now")).to_contain_text("owner: faster team")
    expect(page.get_by_label("Owner")).to_have_value("slower team")
    assert ask(f"/drains/{MADE}")["owner"] == "faster team"
    first.complaints = [each for each in first.complaints if "status of 409" not in each]
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".meta")).to_contain_text("slower team")


@pytest.mark.parametrize("javascript", [True, False])
def test_why_a_drain_said_something_at_some_time_can_be_read(open_page: Open, javascript: bool) -> None:
    watched = open_page(javascript=javascript)
    page = watched.go("/drains/drop-legacy-triage")
    page.get_by_role("region", name="What it said before").get_by_role("link").last.click()
    expect(page).to_have_url(re.compile("/drop-legacy-triage/answers$"))
    page.get_by_role("region", name="The newest first").get_by_role("link").last.click()
    expect(page.get_by_role("heading", level=2).first).to_contain_text("Unknown then")
    expect(page.get_by_role("region", name="Checks")).to_contain_text("soak")
    page.get_by_role("link", name="After").click()
    expect(page.get_by_role("heading", level=2).first).to_contain_text("then")
    page.get_by_label("What did it say at").fill("2001-01-01T00:00")
    with page.expect_response(re.compile("answers")) as answered:
        page.get_by_role("button", name="Show").click()
    assert answered.value.status == 404
    expect(page.locator("#wrong-at")).to_contain_text("had not answered yet")
    watched.complaints = [each for each in watched.complaints if "status of 404" not in each]


def test_a_drain_makes_a_good_print(open_page: Open) -> None:
    page = open_page().go(f"/drains/{DRAIN}")
    expect(page.get_by_role("button", name="Print")).to_be_visible()
    page.emulate_media(media="print", color_scheme="dark")
    for gone in ("searchbox", "navigation", "textbox"):
        expect(page.get_by_role(gone).first).to_be_hidden()
    expect(page.get_by_role("region", name=re.compile("Blocked"))).to_be_visible()
    whole = page.locator(".banner .id").first.evaluate("each => getComputedStyle(each.children[0]).fontSize")
    assert whole != "0px", "an id is whole on paper"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    made = page.pdf(format="A4")
    assert made.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", made)) <= 6


def test_every_page_is_light_with_everything_that_it_needs(open_page: Open, pages: Pages) -> None:
    """Less than 150 kB over the wire on a first visit: page, style, scripts, icon; the page itself less than 100 kB as it is."""
    for name, (path, status) in pages.items():
        watched = open_page()
        asked: list[Request] = []
        watched.page.on("requestfinished", lambda request, asked=asked: asked.append(request))
        watched.go(path, status)
        watched.page.wait_for_load_state("load")
        sizes = {urlsplit(each.url).path: each.sizes()["responseBodySize"] for each in asked}
        assert len(sizes) >= 4, "page, style and scripts"
        assert 0 < sum(sizes.values()) < 150_000, (name, sizes)
        assert len(watched.page.content()) < 100_000, name
        watched.page.context.close()


def test_nothing_moves_for_those_who_asked_for_that(open_page: Open) -> None:
    page = open_page().go("/")
    moving = page.evaluate(
        """[...document.querySelectorAll("*")].filter(each => {
            const style = getComputedStyle(each);
            return style.animationName !== "none" || style.transitionDuration.split(",").some(part => parseFloat(part) > 0);
        }).length"""
    )
    assert moving == 0


def test_at_twice_the_size_nothing_is_cut_off(open_page: Open, pages: Pages) -> None:
    watched = open_page(width=640)
    for name, (path, status) in pages.items():
        page = watched.go(path, status)
        page.evaluate(OPEN_ALL)
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        cut = page.evaluate(
            """[...document.querySelectorAll("main *")].filter(each =>
                getComputedStyle(each).overflowX === "hidden" && each.scrollWidth > each.clientWidth + 1
                && each.clientWidth > 1 && !each.closest(".facet-label, .facets, .unseen, svg")).map(each => each.outerHTML.slice(0, 90))"""
        )
        assert cut == [], name


def test_a_page_that_is_not_updated_says_of_when_it_is(open_page: Open) -> None:
    watched = open_page()
    watched.page.clock.install()
    page = watched.go("/drains")
    page.get_by_role("button", name="live").click()
    page.clock.run_for(70_000)
    expect(page.locator("#live-notice")).to_contain_text("updates are paused")
    with page.expect_response("**/drains"):
        page.get_by_role("button", name="paused").click()
    expect(page.locator("#live-notice")).to_be_empty()


def test_a_time_is_told_in_the_zone_of_the_reader(open_page: Open) -> None:
    page = open_page().go("/drains")
    time = page.locator("main time[title]").first
    time.hover()
    assert re.search(r"\n\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", str(time.get_attribute("title")))


def test_the_search_is_reached_and_left_with_the_keyboard(open_page: Open) -> None:
    page: Page = open_page().go(f"/drains/{DRAIN}")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("a/b")
    expect(page.get_by_role("searchbox")).to_have_value("a/b")
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox")).not_to_be_focused()
    page.keyboard.press("/")
    page.keyboard.press("Tab")
    assert focused(page) in ("Find", "live")


def test_a_thread_is_copied_as_json_and_a_drain_as_markdown(open_page: Open, ask: Ask) -> None:
    oldest = ask(f"/drains/{DRAIN}")["oldest"]["thread_id"]
    watched = open_page()
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.go(f"/deployments/demo/threads/{oldest}")
    page.get_by_role("link", name="Copy as JSON").click()
    expect(page.locator("#copied")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText().then(text => JSON.parse(text).thread_id)") == oldest
    expect(page.get_by_role("link", name="Studio")).to_have_attribute("href", re.compile(f"/studio/thread/{oldest}"))
    watched.go(f"/drains/{DRAIN}").get_by_role("link", name="Copy as Markdown").click()
    expect(page.locator("#copied")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith(f"## Drain `{DRAIN}`: blocked")
