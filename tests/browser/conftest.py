"""One demo for all browser tests, and pages that fail a test when the browser complains."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import launch
from tests.flows.product import Product, wait_until

Ask = Callable[..., Any]
Open = Callable[..., "Watched"]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, contextlib.closing(launch(playwright)) as found:
        yield found


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A real Drainboard on a real Agent Server, once its second drain is drained."""
    product = Product(tmp_path_factory.mktemp("browser"))
    product.configure("")
    with product.serve("--demo") as client:
        wait_until(lambda: client.get("/api/v1/drains/drop-legacy-triage").json()["verdict"] == "drained")
        yield client


@pytest.fixture(scope="package")
def ask(demo: httpx.Client) -> Ask:
    """The JSON API of the demo."""

    def answer(path: str, **params: str) -> Any:
        response = demo.get(f"/api/v1{path}", params=params)
        assert response.status_code == 200, response.text
        return response.json()

    return answer


@dataclass
class Watched:
    """A page, and what the browser said against it."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str, status: int = 200) -> Page:
        answer = self.page.goto(self.address + path)
        assert answer is not None
        assert answer.status == status
        # The browser reports an answer that says 404 as an error of its own.
        self.complaints = [each for each in self.complaints if status < 400 or f"status of {status}" not in each]
        return self.page


@pytest.fixture
def open_page(browser: Browser, demo: httpx.Client) -> Iterator[Open]:
    """Opens pages as asked: ``dark``, ``width``, ``javascript``. At the end none of them may have complained."""
    opened: list[Watched] = []
    with contextlib.ExitStack() as stack:

        def make(*, dark: bool = False, width: int = 1280, javascript: bool = True) -> Watched:
            context = browser.new_context(
                viewport={"width": width, "height": 800},
                color_scheme="dark" if dark else "light",
                java_script_enabled=javascript,
                reduced_motion="reduce",
            )
            stack.enter_context(contextlib.closing(context))
            context.set_default_timeout(10_000)
            watched = Watched(context.new_page(), str(demo.base_url).rstrip("/"))
            watched.page.on("console", lambda said: _note(watched, said.type, said.text))
            watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
            watched.page.on("requestfailed", lambda request: _failed(watched, request.url, request.failure))
            opened.append(watched)
            return watched

        yield make
        complaints = [each for watched in opened for each in watched.complaints]
    assert complaints == []


def _note(watched: Watched, kind: str, text: str) -> None:
    if kind in ("error", "warning") or "Content Security Policy" in text:
        watched.complaints.append(text)


def _failed(watched: Watched, url: str, failure: str | None) -> None:
    if failure != "net::ERR_ABORTED":  # what a page asked for when it was left
        watched.complaints.append(f"{url}: {failure}")


MADE = "drop-customer-name"


@pytest.fixture(scope="package")
def made(demo: httpx.Client) -> str:
    """The path of a drain that was made through the API, with something said about it."""
    drain = {
        "name": MADE,
        "deployment": "demo",
        "graph": "support",
        "remove_nodes": ["await_approval"],
        "rename_fields": [{"old": "customer_name", "new": "display_name"}],
        "policy": {"attestations": ["export queues", "recovery replicas"]},
    }
    assert demo.post("/api/v1/drains", json=drain).status_code == 201
    ids = [each["thread_id"] for each in demo.get(f"/api/v1/drains/{MADE}/threads").json()["items"]]
    said = {"owner": "Ana", "reason": "called the customer"}
    waived = demo.post(f"/api/v1/drains/{MADE}/waivers", json=said | {"thread_ids": ids[:7]})
    assert waived.status_code == 201
    attested = demo.post(f"/api/v1/drains/{MADE}/attestations", json=said | {"name": "export queues"})
    assert attested.status_code == 201
    return f"/drains/{MADE}"


@pytest.fixture(scope="package")
def pages(ask: Ask, made: str, demo: httpx.Client) -> dict[str, tuple[str, int]]:
    """Every page of the demo by name: its path and its status."""
    blocking = ask("/drains/drop-await-approval/threads")["items"][0]["thread_id"]
    failed = ask("/deployments/demo/threads", condition="failed")["items"][0]["thread_id"]
    return {
        "overview": ("/", 200),
        "deployment": ("/deployments/demo", 200),
        "filtered deployment": ("/deployments/demo?status=interrupted&fields=customer_name:present", 200),
        "nothing found": ("/deployments/demo?status=idle&condition=parked", 200),
        "threads": ("/deployments/demo/threads", 200),
        "thread": (f"/deployments/demo/threads/{blocking}", 200),
        "failed thread": (f"/deployments/demo/threads/{failed}", 200),
        "live thread": (f"/deployments/demo/threads/{blocking}?live=true", 200),
        "unknown thread": ("/deployments/demo/threads/00000000-0000-4000-8000-000000000000", 404),
        "preflight": ("/deployments/demo/preflight", 200),
        "drains": ("/drains", 200),
        "blocked drain": ("/drains/drop-await-approval", 200),
        "drained drain": ("/drains/drop-legacy-triage", 200),
        "threads of a reason": ("/drains/drop-await-approval?disposition=conflict", 200),
        "made drain": (made, 200),
        "target of a drain": (
            "/drains/drop-await-approval?disposition=parked_at_target&target=node:await_approval",
            200,
        ),
        "answers": ("/drains/drop-await-approval/answers", 200),
        "past answer": (
            str(demo.get("/drains/drop-await-approval/answers?at=2100-01-01T00:00").headers["location"]),
            200,
        ),
        "search": ("/search", 200),
        "search by part": ("/search?q=approval", 200),
        "search without a hit": ("/search?q=nothing", 200),
        "new drain": ("/drains/new", 200),
        "changed drain": (f"{made}/edit", 200),
        "activity": ("/activity", 200),
        "settings": ("/settings", 200),
        "error": ("/no/such/page", 404),
        "refused filter": ("/deployments/demo?colour=red", 422),
    }


def violations(found: dict[str, Any]) -> str:
    """What axe found, short enough to read."""
    return json.dumps(
        [{each["id"]: [node["target"] for node in each["nodes"]][:4]} for each in found["violations"]], indent=1
    )
