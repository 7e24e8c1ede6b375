"""What people come for, done with mouse, keyboard and without JavaScript."""

import re

import httpx
from playwright.sync_api import Page, expect

from tests.browser.conftest import Ask, Open
from tests.flows.product import wait_until

DRAIN = "drop-await-approval"


def test_a_release_manager_finds_what_blocks_why_and_who_must_act_in_two_clicks(open_page: Open, ask: Ask) -> None:
    answer = ask(f"/drains/{DRAIN}")
    parked = answer["dispositions"]["parked_at_target"]
    page = open_page().go("/")
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=DRAIN, exact=True))
    expect(row).to_contain_text("blocked")
    expect(row).to_contain_text(f"{parked} threads still wait at await_approval.")

    row.get_by_role("link", name=DRAIN, exact=True).click()
    verdict = page.get_by_role("region", name=re.compile("Blocked"))
    expect(verdict).to_contain_text(f"{parked} threads still wait at await_approval.")
    expect(verdict).to_contain_text("Next:")
    must_act = ", ".join(f"{each['name']} {each['count']}" for each in answer["must_act"])
    expect(verdict).to_contain_text(f"Who must act: {must_act}")

    for who in answer["must_act"]:
        path = str(verdict.locator(f"a[href*='assistant={who['assistant']}']").get_attribute("href"))
        theirs = open_page().go(path).get_by_role("region", name="Threads of this drain").locator("tbody tr")
        expect(theirs).to_have_count(who["count"])
        expect(theirs.filter(has_text=who["name"])).to_have_count(who["count"])

    reason = page.get_by_role("region", name="All reasons").get_by_role("listitem").first
    reason.get_by_role("link", name=f"{parked} threads").click()
    expect(page).to_have_url(re.compile(r"disposition=parked_at_target#threads$"))
    table = page.get_by_role("region", name="Threads of this drain")
    expect(table.locator("tbody tr")).to_have_count(parked)
    expect(table).not_to_contain_text("holds old field")


def test_a_number_in_the_picture_leads_to_its_threads(open_page: Open, ask: Ask) -> None:
    parked = ask("/deployments/demo/threads", pending="await_approval", condition="parked")["total"]
    page = open_page().go("/deployments/demo")
    picture = page.get_by_role("group", name="The graph support")
    expect(picture).to_be_visible()
    picture.get_by_role("link", name=f"await_approval: {parked} threads parked").click()
    expect(page).to_have_url(re.compile(r"/threads\?pending=await_approval&condition=parked$"))
    expect(page.get_by_role("region", name="Table of threads").locator("tbody tr")).to_have_count(parked)


def test_the_picture_and_its_table_say_the_same(open_page: Open, ask: Ask) -> None:
    pending = ask("/deployments/demo/inventory")["facets"]["pending"]
    page = open_page().go("/deployments/demo")
    for node, count in pending.items():
        words = f"{node}: {count} thread{'' if count == 1 else 's'}"
        expect(page.get_by_role("link", name=words, exact=True)).to_have_count(1)
    page.get_by_text("The same as a table").click()
    table = page.get_by_role("region", name="Threads at each node")
    for node, count in pending.items():
        row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=node, exact=True))
        expect(row.get_by_role("link").first).to_have_text(str(count))


def test_an_engineer_on_call_opens_a_stuck_thread_from_the_inventory(open_page: Open, ask: Ask) -> None:
    failed = ask("/deployments/demo/threads", condition="failed")
    page = open_page().go("/")
    page.get_by_role("link", name="demo", exact=True).first.click()
    filters = page.get_by_role("complementary", name="Filters")
    filters.get_by_role("link", name=f"failed {failed['total']}").click()
    expect(page.get_by_role("group", name="Active filters")).to_contain_text("failed")
    table = page.get_by_role("region", name="Table of threads")
    expect(table.locator("tbody tr")).to_have_count(failed["total"])

    table.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("[0-9a-f-]{36}"))
    diagnosis = page.locator(".banner")
    expect(diagnosis).to_contain_text("It failed at lookup_order")
    expect(diagnosis.get_by_role("listitem")).not_to_have_count(0)
    expect(page.get_by_role("region", name="Pending nodes")).to_contain_text("lookup_order")


def test_everything_works_without_javascript(open_page: Open, ask: Ask, demo: httpx.Client) -> None:
    page = open_page(javascript=False).go("/deployments/demo/threads")
    total = ask("/deployments/demo/threads")["total"]
    expect(page.get_by_role("button", name="live")).to_be_hidden()

    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_text(f"{total - 50} of {total} threads")).to_be_visible()
    page.get_by_role("link", name="First page").click()
    page.get_by_role("link", name=re.compile("^interrupted ")).click()
    expect(page).to_have_url(re.compile("status=interrupted"))
    page.get_by_role("link", name=re.compile("interrupted.*remove")).click()
    expect(page).not_to_have_url(re.compile("status="))

    wanted = ask("/deployments/demo/threads")["items"][7]["thread_id"]
    page.get_by_role("searchbox").fill(f" {wanted.upper()} ")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(wanted)

    page.goto(f"{str(demo.base_url).rstrip('/')}/deployments/demo")
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("region", name="Threads at each node")).to_be_visible()
    before = newest_poll(ask)
    page.get_by_role("button", name="Poll now").click()
    expect(page).to_have_url(re.compile("/deployments/demo$"))
    expect(page.get_by_role("heading", level=1, name="demo")).to_be_visible()
    wait_until(lambda: newest_poll(ask) > before)


def test_the_live_part_keeps_focus_and_what_was_opened(open_page: Open) -> None:
    page = open_page().go("/deployments/demo")
    page.get_by_text("The same as a table").click()
    field = page.locator(".facet summary").first
    field.click()
    link = page.get_by_role("group", name="The graph support").get_by_role("link").first
    link.focus()
    name = link.get_attribute("aria-label")
    page.evaluate("document.querySelector('h1').textContent = 'what stood here before'")

    refresh(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("demo")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == name
    assert page.evaluate("document.activeElement.namespaceURI") == "http://www.w3.org/2000/svg"
    expect(page.get_by_role("region", name="Threads at each node")).to_be_visible()
    assert field.evaluate("each => each.parentElement.open")
    expect(page.locator("#live-notice")).to_be_empty()
    assert page.locator("svg.graph-picture").first.bounding_box()["height"] > 100  # type: ignore[index]


def test_a_page_updates_itself_until_it_is_paused(open_page: Open) -> None:
    watched = open_page()
    watched.page.clock.install()
    page = watched.go("/drains")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_response("**/drains"):
        page.clock.run_for(5_500)

    page.get_by_role("button", name="live").click()
    expect(page.get_by_role("button", name="paused")).to_have_attribute("aria-pressed", "true")
    before = len(asked)
    page.clock.run_for(20_000)
    assert len(asked) == before

    with page.expect_response("**/drains"):
        page.get_by_role("button", name="paused").click()
    expect(page.get_by_role("button", name="live")).to_have_attribute("aria-pressed", "false")


def test_the_colours_that_were_chosen_are_remembered(open_page: Open) -> None:
    watched = open_page()
    page = watched.go("/")
    page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    watched.go("/drains")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_keyboard_alone_reaches_the_threads_behind_the_verdict(open_page: Open) -> None:
    page = open_page().go(f"/drains/{DRAIN}")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = []
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.append(focused(page))
        if re.fullmatch(r"\d+ threads", reached[-1]):
            break
    assert reached[0] == "Drains"
    assert re.fullmatch(r"\d+ threads", reached[-1]), reached
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("disposition=parked_at_target#threads$"))


def refresh(page: Page) -> None:
    """What the page does by itself every few seconds."""
    page.evaluate("""new Promise((done) => {
        document.addEventListener("htmx:after:swap", () => done(), { once: true });
        htmx.trigger(document.getElementById("live"), "refresh");
    })""")


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim().replace(/\\s+/g, ' ')"))


def newest_poll(ask: Ask) -> int:
    return max(int(each["id"]) for each in ask("/deployments/demo")["polls"])
