"""Every page: whole, live part, empty and error; and what holds for all of them."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from app.drains.answers import Verdict
from app.web.deploys import headline
from tests.web.conftest import make_app
from tests.web.fakes import (
    ENTERED,
    HOSTILE_ID,
    HOSTILE_NODE,
    LONG_NAME,
    FakeDashboard,
    answer,
    before,
    deploy,
    deployment,
    full_dashboard,
    revision,
    source,
    thread,
    thread_id,
    traced,
    unseen_deployment,
)

PARTIAL = {"HX-Request": "true", "HX-Request-Type": "partial"}
PAGES = {
    "overview": "/",
    "deployment": "/deployments/support-prod",
    "filtered": "/deployments/support-prod?condition=parked&pending=await_approval&fields=customer_name:present",
    "no match": "/deployments/support-prod?status=idle&condition=running",
    "silent deployment": "/deployments/support-stage",
    "unseen deployment": "/deployments/fresh",
    "threads": "/deployments/support-prod/threads",
    "next threads": "/deployments/support-prod/threads?cursor=50&sort=created_at",
    "thread": f"/deployments/support-prod/threads/{thread_id(9)}",
    "hostile thread": f"/deployments/support-prod/threads/{quote(HOSTILE_ID, safe='')}",
    "live thread": f"/deployments/support-prod/threads/{thread_id(9)}?live=true",
    "deploy": "/deployments/support-prod/deploys/7",
    "deploy by fate": "/deployments/support-prod/deploys/7?fate=lost",
    "deploy without threads of a fate": "/deployments/support-prod/deploys/7?fate=waiting",
    "preflight": "/deployments/support-prod/preflight",
    "drains": "/drains",
    "blocked": "/drains/drop-await-approval",
    "blocked by disposition": "/drains/drop-await-approval?disposition=stranded",
    "unknown": f"/drains/{LONG_NAME}",
    "drained": "/drains/drop-legacy-triage",
    "blocked for a target": "/drains/drop-await-approval?disposition=stranded&target=node:await_approval",
    "answers": "/drains/drop-await-approval/answers",
    "older answers": "/drains/drop-await-approval/answers?before=960",
    "past answer": "/drains/drop-await-approval/answers/999",
    "past answer of an older version": "/drains/drop-await-approval/answers/997",
    "new drain": "/drains/new",
    "new drain elsewhere": "/drains/new?deployment=support-stage&node=await_approval",
    "changed drain": "/drains/drop-await-approval/edit",
    "search": "/search",
    "search by part": "/search?q=await_approval",
    "search without a hit": "/search?q=%3Cscript%3Ealert%281%29%3C/script%3E",
    "activity": "/activity",
    "activity of a deployment": "/activity?deployment=support-prod&cursor=x",
}
ERRORS = {
    "/deployments/nowhere": 404,
    "/drains/nothing": 404,
    "/no/such/page": 404,
    "/deployments/support-prod/deploys/8": 404,
    "/deployments/support-prod/deploys/x": 422,
    "/deployments/support-prod/threads/unknown-id": 404,
    "/deployments/support-prod?colour=red": 422,
    "/deployments/support-prod/threads?sort=colour": 422,
    "/deployments/support-prod/threads?cursor=x": 422,
    f"/deployments/support-prod/threads/{thread_id(9)}?live=perhaps": 422,
    "/deployments/support-prod/poll": 405,
    "/drains/nothing/answers": 404,
    "/drains/drop-await-approval/answers/7": 404,
    "/drains/drop-await-approval/answers/x": 422,
    "/drains/drop-await-approval/answers?at=2001-01-01T00:00": 404,
    "/drains/drop-await-approval/answers?at=tuesday": 422,
}
PARTS_OF_TABLES = {
    ("table", None): "table",
    ("thead", None): "rowgroup",
    ("tbody", None): "rowgroup",
    ("tr", None): "row",
    ("td", None): "cell",
    ("th", "col"): "columnheader",
    ("th", "row"): "rowheader",
}
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}


class Document(HTMLParser):
    """What a test asks of a page: tags, ids, headings, text; and that every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    @property
    def ids(self) -> list[str]:
        return [attrs["id"] for _, attrs in self.tags if attrs.get("id")]  # type: ignore[misc]

    @property
    def headings(self) -> list[int]:
        return [int(tag[1]) for tag, _ in self.tags if re.fullmatch(r"h[1-6]", tag)]

    def tables(self) -> list[list[int]]:
        """How many cells each row of each table has, by their roles."""
        found: list[list[int]] = []
        for tag, attrs in self.tags:
            assert attrs.get("role") == PARTS_OF_TABLES.get((tag, attrs.get("scope")), attrs.get("role")), (tag, attrs)
            if tag == "table":
                found.append([])
            elif tag == "tr":
                found[-1].append(0)
            elif tag in ("td", "th"):
                found[-1][-1] += int(attrs.get("colspan") or 1)
        return found

    def links(self) -> list[str]:
        return [attrs["href"] or "" for tag, attrs in self.tags if tag == "a" and "href" in attrs]


def whole(client: TestClient, path: str, status: int = 200) -> Document:
    response = client.get(path)
    assert response.status_code == status
    return Document(response.text)


@pytest.mark.parametrize("path", [*PAGES.values(), *ERRORS], ids=[*PAGES, *ERRORS])
class TestEveryPage:
    def test_is_well_made(self, web: TestClient, path: str) -> None:
        response = web.get(path)
        assert response.status_code == ERRORS.get(path, 200)
        assert len(response.content) < 150_000
        page = Document(response.text)
        assert len(page.ids) == len(set(page.ids))
        assert page.headings[0] == 1
        assert page.headings.count(1) == 1
        assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
        labels = {attrs["aria-labelledby"] for _, attrs in page.tags if attrs.get("aria-labelledby")}
        assert labels <= set(page.ids)
        for widths in page.tables():
            assert len(set(widths)) == 1, widths

    def test_has_nothing_inline(self, web: TestClient, path: str) -> None:
        page = Document(web.get(path).text)
        for tag, attrs in page.tags:
            assert tag != "style"
            assert tag != "script" or attrs.get("src", "").startswith("/static/")  # type: ignore[union-attr]
            assert not any(name == "style" or name.startswith(("on", "hx-on")) for name in attrs)
            assert "js:" not in (attrs.get("hx-vals") or "")

    def test_says_who_may_run_and_frame_it(self, web: TestClient, path: str) -> None:
        headers = web.get(path).headers
        assert "script-src 'self'; style-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "HX-Request-Type" in headers["vary"]

    def test_the_live_part_is_a_part_of_the_page(self, web: TestClient, path: str) -> None:
        part = web.get(path, headers=PARTIAL)
        assert part.status_code == ERRORS.get(path, 200)
        assert "<html" not in part.text
        assert "HX-Request-Type" in part.headers["vary"]
        Document(part.text)

    def test_hostile_names_stay_text(self, web: TestClient, path: str) -> None:
        html = web.get(path).text
        assert "<script>alert" not in html
        assert "<b>" not in html
        assert "<i>odd" not in html


@pytest.mark.parametrize("path", ["/", "/drains"])
def test_pages_without_data_say_what_to_do(empty_web: TestClient, path: str) -> None:
    page = whole(empty_web, path)
    assert "No drain is tracked yet." in page.text
    assert page.headings.count(1) == 1


def test_the_empty_overview_says_how_to_start(empty_web: TestClient) -> None:
    assert "drainboard serve --url" in whole(empty_web, "/").text


def test_an_unseen_deployment_shows_no_zero(web: TestClient) -> None:
    text = whole(web, "/deployments/fresh").text
    assert "was not looked at yet" in text
    assert "0 threads ·" not in text


def test_the_overview_puts_alarms_first_and_blocked_drains_before_drained(web: TestClient) -> None:
    html = web.get("/").text
    order = [html.index(f">{each}") for each in ("3 threads<", "drop-await-approval", "drop-the-very", "drop-legacy")]
    assert order == sorted(order)


def test_verdicts_are_words_and_shapes(web: TestClient) -> None:
    page = whole(web, "/drains")
    for verdict in ("blocked", "unknown", "drained"):
        assert any(f"icon-{verdict}" in (attrs.get("class") or "") for _, attrs in page.tags)
        assert verdict in page.text


def test_a_silent_deployment_says_since_when(web: TestClient) -> None:
    for path in ("/", "/deployments/support-stage"):
        text = whole(web, path).text
        assert "support-stage has not answered for 2 h, since 11:40 UTC." in text
        assert "What is shown was seen 3 h ago." in text


def test_a_deployment_that_was_never_seen_is_not_said_to_be_empty() -> None:
    failed = source("threads", "failed", as_of=None, since=before(seconds=3), expected=None, seen=None)
    never = deployment("never", as_of=None, total=0, current_poll=None, revisions=(), sources=(failed,))
    with TestClient(make_app(FakeDashboard(known=(never,)))) as client:
        text = whole(client, "/deployments/never").text
        assert "never does not answer, since 14:20 UTC." in text
        assert "was not looked at yet" in text
        assert "Last polls" in text
        for path in ("/deployments/never", "/deployments/never/threads"):
            assert not re.search(r"\b0 threads", whole(client, path).text)
            assert "listed no thread" not in whole(client, path).text


def test_a_refused_filter_offers_the_page_without_it(web: TestClient) -> None:
    assert "/deployments/support-prod" in whole(web, "/deployments/support-prod?colour=red", 422).links()


def test_counts_link_to_the_threads_behind_them(web: TestClient) -> None:
    links = whole(web, "/").links()
    assert "/deployments/support-prod/threads?status=interrupted" in links
    assert "/deployments/support-prod/threads?condition=stranded&pending=legacy_triage" in links
    links = whole(web, "/deployments/support-prod").links()
    assert "/deployments/support-prod/threads?pending=await_approval&condition=parked" in links
    assert f"/deployments/support-prod/threads?pending={quote(HOSTILE_NODE, safe=':/')}" in links


def test_a_node_that_is_not_deployed_still_shows_its_threads(web: TestClient) -> None:
    text = whole(web, "/deployments/support-prod").text
    assert "legacy_triage not deployed 3" in text


def test_the_graph_is_drawn_with_its_threads(web: TestClient) -> None:
    page = whole(web, "/deployments/support-prod")
    labels = {attrs.get("aria-label"): attrs["href"] for tag, attrs in page.tags if tag == "a"}
    path = "/deployments/support-prod/threads?pending="
    assert labels["await_approval: 10 threads"] == f"{path}await_approval"
    assert labels["await_approval: 10 threads parked"] == f"{path}await_approval&condition=parked"
    assert labels["legacy_triage: 3 threads stranded"] == f"{path}legacy_triage&condition=stranded"
    assert labels["triage: 3 threads running"] == f"{path}triage&condition=running"
    assert f"{HOSTILE_NODE}: 1 thread" in labels
    assert "lookup_order: 0 of 60 threads" in page.text
    assert "7 nodes and 10 lines, from left to right. await_approval: 10 threads." in page.text
    assert "Nodes of no deployed graph that still hold threads" in page.text
    assert "The same as a table" in page.text


def test_the_picture_keeps_the_filters(web: TestClient) -> None:
    links = whole(web, "/deployments/support-prod?status=interrupted&sort=created_at").links()
    assert "/deployments/support-prod/threads?status=interrupted&pending=await_approval&condition=parked" in links


def test_graphs_that_share_a_node_name_are_counted_apart() -> None:
    agent = (("__start__", "agent", False), ("agent", "tools", True), ("tools", "agent", False))
    two = deployment(
        "two",
        revisions=tuple(
            revision(n, graph, nodes=("agent", "tools"), joins=(), deferred=(), edges=agent)
            for n, graph in ((1, "sales"), (2, "support"))
        ),
    )
    items = [thread(n, "parked", "agent", graph_id="sales") for n in range(4)]
    items += [thread(n, "parked", "agent", graph_id="support") for n in range(4, 9)]
    with TestClient(make_app(FakeDashboard(known=(two,), threads_of=tuple(items)))) as client:
        page = whole(client, "/deployments/two")
        only = whole(client, "/deployments/two?graph=sales")
    labels = {attrs.get("aria-label"): attrs["href"] for tag, attrs in page.tags if tag == "a"}
    path = "/deployments/two/threads?"
    assert labels["agent: 4 threads"] == f"{path}pending=agent&graph=sales"
    assert labels["agent: 5 threads"] == f"{path}pending=agent&graph=support"
    assert "agent: 9 threads" not in labels
    labels = {attrs.get("aria-label"): attrs["href"] for tag, attrs in only.tags if tag == "a"}
    assert "agent: 4 threads" in labels
    assert "agent: 5 threads" not in labels


def test_a_filter_is_a_chip_that_removes_itself(web: TestClient) -> None:
    links = whole(web, "/deployments/support-prod/threads?condition=parked&status=interrupted&sort=created_at").links()
    assert "?condition=parked&sort=created_at" in links
    assert "?status=interrupted&sort=created_at" in links
    assert "?" in links


def test_threads_are_paged_to_the_end(web: TestClient) -> None:
    first = whole(web, "/deployments/support-prod/threads")
    assert "50 of 60 threads" in first.text
    assert "?cursor=50" in first.links()
    last = whole(web, "/deployments/support-prod/threads?cursor=50")
    assert "10 of 60 threads" in last.text
    assert "the end" in last.text


def test_a_hostile_id_is_linked_and_found(web: TestClient, dashboard: FakeDashboard) -> None:
    path = f"/deployments/support-prod/threads/{quote(HOSTILE_ID, safe='')}"
    assert path in whole(web, "/deployments/support-prod/threads").links()
    assert HOSTILE_ID in whole(web, path + "?live=true").text
    assert dashboard.live_reads == [HOSTILE_ID]


def test_a_thread_shows_diagnosis_before_evidence(web: TestClient) -> None:
    text = whole(web, PAGES["thread"]).text
    assert text.index("It waited at legacy_triage") < text.index("Where it waits") < text.index("Head checkpoint")
    assert "safe to repeat" in text
    assert "not deployed" in text
    assert "cannot tell" in text


def test_a_page_that_reads_the_server_does_not_repeat_that_by_itself(web: TestClient) -> None:
    assert "hx-trigger" in web.get(PAGES["thread"]).text
    assert "hx-trigger" not in web.get(PAGES["live thread"]).text


def test_a_thread_that_is_not_found_says_what_was_looked_at(web: TestClient) -> None:
    text = whole(web, "/deployments/support-prod/threads/unknown-id", 404).text
    assert "What was looked at" in text
    assert "deleted before Drainboard first looked" in text
    assert "safe to repeat" not in text
    assert "http://agent-server.support.internal:8123" in text


def test_dispositions_show_zeros_and_add_up(web: TestClient) -> None:
    text = whole(web, "/drains/drop-await-approval").text
    assert "Blocks 26 of 60 threads" in text
    assert "Not known 1 of 60 threads" in text
    assert "Clear 30 of 60 threads" in text
    assert "Left out 3 of 60 threads" in text
    assert "0 each: graph missing" in text


def test_a_drain_shows_what_it_said_before_and_ten_at_most(web: TestClient) -> None:
    text = whole(web, "/drains/drop-await-approval").text
    before = text[text.index("What it said before") : text.index("How fresh it is")]
    assert before.index("blocked 1 h ago 9 threads") < before.index("unknown 3 h ago")
    assert "drained 30 h ago Nothing needs await_approval." in before
    assert before.count("threads waited.") == 6
    assert "of an older version" not in before


def test_a_drain_that_said_nothing_before_says_so() -> None:
    with TestClient(make_app(FakeDashboard(answers=(answer("fresh", Verdict.UNKNOWN, "Not known yet."),)))) as client:
        assert "Nothing yet: it answers after each poll" in whole(client, "/drains/fresh").text


def test_who_must_act_has_a_name_and_the_id_behind_it(web: TestClient) -> None:
    page = whole(web, "/drains/drop-await-approval")
    assert "Who must act: refunds 9, no assistant 3" in page.text
    assert any(attrs.get("title") == "0655a30a-059d-5391-9c1a-825bfd029f25" for _, attrs in page.tags)


def test_who_must_act_is_told_by_each_metadata_key_too(web: TestClient) -> None:
    assert "By region: eu 8, <us> 3, none 1" in whole(web, "/drains/drop-await-approval").text
    assert "By region" not in whole(web, "/drains/drop-legacy-triage").text


def test_a_disposition_that_we_do_not_know_counts_as_unknown() -> None:
    odd = answer("odd", Verdict.UNKNOWN, "Odd.", dispositions={"brand_new": 7})
    with TestClient(make_app(FakeDashboard(answers=(odd,)))) as client:
        assert "Not known 7" in whole(client, "/drains/odd").text


def test_where_threads_are_not_known_no_target_is_said_to_be_free(web: TestClient) -> None:
    assert "none is known to block; 30 are not known" in whole(web, f"/drains/{LONG_NAME}").text
    assert "nothing blocks" in whole(web, "/drains/drop-legacy-triage").text


def test_what_people_said_is_apart_from_how_many_threads_it_is_about(web: TestClient) -> None:
    assert "Acknowledged fell at deploy 7 threads:" in whole(web, "/drains/drop-await-approval").text


def test_a_drain_without_blockers_never_shows_a_bare_zero(web: TestClient) -> None:
    assert "0 block, of 60 threads looked at." in whole(web, "/drains/drop-legacy-triage").text


def test_a_settled_thread_waits_nowhere_but_an_unread_one_is_not_known(web: TestClient) -> None:
    unread = whole(web, "/deployments/support-prod/threads?condition=unread").text
    assert "unread idle not known" in unread
    assert "settled idle nowhere" in whole(web, "/deployments/support-prod/threads?condition=settled").text


def test_the_threads_of_a_reason_are_shown(web: TestClient) -> None:
    text = whole(web, "/drains/drop-await-approval?reason=threads_unread").text
    assert "Threads: threads unread" in text
    assert "show all that block" in text


def test_an_open_dashboard_says_so_on_every_page() -> None:
    with TestClient(make_app(full_dashboard(), open_notice=True)) as client:
        for path in ("/", "/drains", "/no/such/page"):
            assert "Open to everyone who can reach it" in client.get(path).text


def test_a_closed_dashboard_does_not(web: TestClient) -> None:
    assert "Open to everyone" not in web.get("/").text


def test_an_error_of_the_live_part_leaves_the_page_as_it_was(web: TestClient) -> None:
    part = web.get("/drains/nothing", headers=PARTIAL)
    assert part.headers["hx-retarget"] == "#live-notice"
    assert "There is no drain" in part.text
    assert "<h1" not in part.text


def test_a_crash_shows_a_page_without_its_cause() -> None:
    class Broken(FakeDashboard):
        async def drains(self) -> tuple[()]:
            raise RuntimeError("secret cause")

    with TestClient(make_app(Broken()), raise_server_exceptions=False) as client:
        response = client.get("/drains")
    assert response.status_code == 500
    assert "Drainboard failed" in response.text
    assert "secret cause" not in response.text


def test_a_history_request_of_htmx_gets_the_whole_page(web: TestClient) -> None:
    html = web.get("/drains", headers={"HX-Request": "true", "HX-Request-Type": "full"}).text
    assert "<html" in html


def test_the_live_part_asks_for_its_own_page(web: TestClient) -> None:
    path = "/deployments/support-prod/threads?condition=parked&sort=created_at"
    page = whole(web, path)
    live = next(attrs for _, attrs in page.tags if attrs.get("id") == "live")
    assert live["hx-get"] == path
    assert live["hx-swap"] == "innerMorph"
    assert live["hx-target"] == "#live"


def test_poll_now_starts_a_scan_and_comes_back(web: TestClient, dashboard: FakeDashboard) -> None:
    path = "/deployments/support-prod/poll"
    answered = web.post(path, headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=False)
    assert answered.status_code == 303
    assert answered.headers["location"] == "/deployments/support-prod"
    web.post(f"{path}?full=true", headers={"Origin": "http://testserver"}, follow_redirects=False)
    assert dashboard.polls_started == [("support-prod", False), ("support-prod", True)]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
    ],
)
def test_a_form_of_another_site_is_refused(web: TestClient, dashboard: FakeDashboard, headers: dict[str, str]) -> None:
    response = web.post("/deployments/support-prod/poll", headers=headers)
    assert response.status_code == 403
    assert "another site" in response.text
    assert "Ask an administrator" not in response.text
    assert dashboard.polls_started == []


def test_every_page_has_the_search_box(web: TestClient) -> None:
    for path in PAGES.values():
        page = whole(web, path)
        assert ("form", "/search") in [(tag, attrs.get("action")) for tag, attrs in page.tags]


def test_the_search_goes_straight_to_the_only_hit(web: TestClient) -> None:
    sent = web.get("/search", params={"q": thread_id(9)}, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, f"/deployments/support-prod/threads/{thread_id(9)}")


def test_the_search_lists_what_it_found_by_kind(web: TestClient) -> None:
    page = whole(web, "/search?q=await_approval")
    assert "4 hits for await_approval" in page.text
    assert "blocked drop-await-approval" in page.text
    assert "12 threads still wait at await_approval." in page.text
    order = [page.text.rindex(f"{kind} ") for kind in ("Nodes", "State fields", "Deployments")]
    assert order == sorted(order)
    assert {
        "/drains/drop-await-approval",
        "/deployments/support-prod?pending=await_approval",
        "/deployments/support-stage?fields=await_approval:present",
    } <= set(page.links())
    assert "not deployed" in page.text


def test_a_drain_of_a_node_that_was_found_begins_with_its_graph(web: TestClient) -> None:
    begun = [link for link in whole(web, "/search?q=await_approval").links() if link.startswith("/drains/new?")]
    assert begun
    assert all("&graph=support" in link for link in begun)
    typed = {attrs.get("name"): attrs.get("value") for _, attrs in whole(web, begun[0]).tags if attrs.get("id")}
    assert typed["graph"] == "support"


def test_a_search_that_finds_nothing_says_what_was_looked_at(web: TestClient) -> None:
    page = whole(web, "/search?q=nothing")
    assert "Nothing found for nothing" in page.text
    assert "in the last complete sweep" in page.text
    assert "no complete sweep yet" in page.text


def test_a_whole_id_that_nobody_has_seen_can_be_asked_for(web: TestClient) -> None:
    wanted = "00000000-0000-4000-8000-00000000abcd"
    page = whole(web, f"/search?q={wanted}")
    assert f"/deployments/support-prod/threads/{wanted}?live=true" in page.links()


def test_a_deployment_without_any_thread_says_what_to_check() -> None:
    seen = deployment("bare", total=0, statuses={"idle": 0}, conditions={}, current_poll=None, unverified_idle=0)
    with TestClient(make_app(FakeDashboard(known=(seen, unseen_deployment())))) as client:
        for path in ("/deployments/bare", "/deployments/bare/threads"):
            assert "The server listed no thread." in whole(client, path).text


def test_a_deploy_says_first_who_was_stranded_and_then_what_to_do(web: TestClient) -> None:
    text = whole(web, "/deployments/support-prod/deploys/7").text
    assert "2 threads waited at legacy_triage" in text
    assert text.index("the answer is lost") < text.index("Put the nodes back") < text.index("What changed")


def test_the_deployment_links_its_revision_to_the_deploy_that_brought_it(web: TestClient) -> None:
    assert "/deployments/support-prod/deploys/7" in whole(web, "/deployments/support-prod").links()


@pytest.mark.parametrize(
    ("fates", "threads", "word"),
    [
        ({"stranded": 1, "lost": 2}, 3, "stranded"),
        ({"lost": 2, "completed": 1}, 3, "lost"),
        ({"unreadable": 2}, 2, "unreadable"),
        ({"not_read": 2, "completed": 1}, 3, "not known"),
        ({"completed": 2}, 2, "nobody left"),
        ({}, 0, "nobody hit"),
    ],
)
def test_the_headline_of_a_deploy_is_the_worst_that_it_did(fates: dict[str, int], threads: int, word: str) -> None:
    assert headline(deploy(fates=fates, threads=threads)).word == word


def test_a_drain_shows_its_nodes_in_the_traces(web: TestClient) -> None:
    page = web.get("/drains/drop-await-approval").text

    assert "In the traces" in page
    assert "·▃█" in page
    assert "82 %" in page  # of 11 entries, 9 say which thread it was


def test_a_drain_shows_who_entered_its_nodes_with_a_way_to_the_thread_and_to_its_trace(web: TestClient) -> None:
    page = web.get("/drains/drop-await-approval").text
    entries = page.partition("Newest entries")[2]

    assert f'href="/deployments/support-prod/threads/{ENTERED}"' in entries
    assert 'href="https://smith.example/r/9"' in entries
    assert "the trace does not say" in entries
    assert "Threads that block" in page


def test_a_deployment_names_nodes_that_nobody_has_entered_for_a_month() -> None:
    seen = deployment(revisions=(revision(1, nodes=("await_approval", "old", "young")),))
    nodes = (traced("await_approval", 1), traced("old", 0), traced("young", 0, watched_days=3))
    with TestClient(make_app(FakeDashboard(known=(seen,), traced=nodes))) as client:
        page = client.get(f"/deployments/{seen.name}").text

    [said] = [line for line in page.splitlines() if "candidates for removal" in line]
    assert "<code>old</code>" in said
    assert "young" not in said
    assert "await_approval" not in said


def test_a_thread_links_to_its_trace(web: TestClient) -> None:
    page = web.get(PAGES["thread"]).text

    assert 'href="https://smith.example/o/1/projects/p/2/r/3"' in page


def test_the_headline_of_a_deploy_speaks_of_one_as_of_one() -> None:
    change = replace(deploy().changes[0], kind="changed", nodes_removed=("ask",))
    said = headline(deploy(changes=(change,), fates={"stranded": 1, "lost": 1}, threads=2))

    assert said.sentence == (
        "1 thread waited at `ask` when this deploy removed it. If anyone answers it now, the answer is lost. "
        "1 thread lost its answer already."
    )
    assert not any("Do not" in step for step, _ in said.steps)


def test_the_diagnosis_says_since_when_for_whom_and_what_the_thread_holds_up(web: TestClient) -> None:
    text = " ".join(whole(web, PAGES["thread"]).text.split())
    said = text[text.index('id="diagnosis-title"') :] if 'id="diagnosis-title"' in text else text
    for part in ("Since ", "Run by assistant ", "Holds up drop-await-approval"):
        assert part in said, part


def test_a_step_of_the_lineage_is_apart_from_its_number(web: TestClient) -> None:
    assert "a step of a run head step 1" in " ".join(whole(web, PAGES["thread"]).text.split())


def test_when_a_thread_was_last_traced_is_a_time(web: TestClient) -> None:
    page = web.get(PAGES["thread"]).text

    assert re.search(r"entered <time datetime=", page)
    assert "lists it as open" in page
