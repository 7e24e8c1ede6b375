"""Pictures of every page, to look at: light, dark, narrow and empty. ``./scripts/screenshots`` runs it."""

import argparse
import asyncio
import contextlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from app.demo.agent_server import LocalAgentServer
from app.demo.seed import seed
from tests.browser.chromium import launch
from tests.flows.product import ROOT, Product, node_drain, one_deployment, poll_over_http, wait_until

AGENT = ROOT / "app" / "demo" / "agent"
REMOVED = "await_approval"

WIDE, NARROW = (1280, 900), (320, 640)
README_PICTURES = {  # path, height
    "overview": ("/", 460),
    "drain": ("/drains/drop-await-approval", 818),
    "graph": ("/deployments/demo", 760),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./scripts/screenshots", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / ".drainboard" / "screenshots")
    parser.add_argument("--readme", action="store_true", help="make the three pictures of the README instead")
    parser.add_argument("--server", help="the address of a demo that runs already")
    asked = parser.parse_args()
    with sync_playwright() as playwright, contextlib.closing(launch(playwright)) as browser:
        with _demo(asked.server) as client:
            if asked.readme:
                _readme_pictures(browser, client)
                return
            _all_pages(browser, str(client.base_url), _pages(client), asked.folder)
        with _serving("--url", "http://127.0.0.1:1") as client:
            pages = {"silent-overview": "/", "silent-deployment": "/deployments/local"}
            _all_pages(browser, str(client.base_url), pages, asked.folder)
        with _serving() as client:
            _all_pages(browser, str(client.base_url), {"empty-overview": "/", "empty-drains": "/drains"}, asked.folder)
        with _signed_in() as client:
            _all_pages(browser, str(client.base_url), {"sign-in": "/sign-in?next=/drains"}, asked.folder)
        _pages_around_a_deploy(browser, asked.folder)
    print(f"Pictures are in {asked.folder}")  # noqa: T201 - a command of its own


@contextlib.contextmanager
def _serving(*arguments: str, settings: Mapping[str, Any] | str = "") -> Iterator[httpx.Client]:
    with tempfile.TemporaryDirectory() as folder:
        product = Product(Path(folder))
        product.configure(settings)
        with product.serve(*arguments) as client:
            yield client


@contextlib.contextmanager
def _signed_in() -> Iterator[httpx.Client]:
    with tempfile.TemporaryDirectory() as folder:
        product = Product(Path(folder))
        product.configure({"sign_in": {"mode": "token"}})
        made = product.run("tokens", "create", "pictures", "--rights", "read", "--expires", "1d", "--json")
        assert made.code == 0, made.said
        with product.serve(token=made.json["token"]) as client:
            yield client


@contextlib.contextmanager
def _demo(address: str | None) -> Iterator[httpx.Client]:
    """The demo, once its second drain is drained."""
    with contextlib.ExitStack() as stack:
        if address:
            client = stack.enter_context(httpx.Client(base_url=address, trust_env=False))
        else:
            client = stack.enter_context(_serving("--demo"))
        wait_until(lambda: client.get("/api/v1/drains/drop-legacy-triage").json()["verdict"] == "drained")
        yield client


def _pages(client: httpx.Client) -> dict[str, str]:
    threads = client.get("/api/v1/drains/drop-await-approval/threads").json()["items"]
    failed = client.get("/api/v1/deployments/demo/threads", params={"condition": "failed"}).json()["items"]
    thread = f"/deployments/demo/threads/{threads[0]['thread_id']}"
    return {
        "overview": "/",
        "deployment": "/deployments/demo",
        "deployment-filtered": "/deployments/demo?status=interrupted&fields=customer_name:present",
        "deployment-no-match": "/deployments/demo?status=idle&condition=parked",
        "threads": "/deployments/demo/threads",
        "threads-filtered": "/deployments/demo/threads?condition=parked&pending=await_approval",
        "thread": thread,
        "thread-live": f"{thread}?live=true",
        "thread-failed": f"/deployments/demo/threads/{failed[0]['thread_id']}",
        "thread-not-found": "/deployments/demo/threads/00000000-0000-4000-8000-000000000000",
        "drains": "/drains",
        "drain-blocked": "/drains/drop-await-approval",
        "drain-disposition": "/drains/drop-await-approval?disposition=conflict",
        "drain-target": "/drains/drop-await-approval?disposition=holds_old_field&target=rename:customer_name->display_name",
        "drain-drained": "/drains/drop-legacy-triage",
        "drain-answers": "/drains/drop-legacy-triage/answers",
        "drain-answer": "/drains/drop-legacy-triage/answers?at=2100-01-01T00:00",
        "drain-new": "/drains/new?deployment=demo&graph=support&node=await_approval",
        "search": "/search?q=approval",
        "search-nothing": "/search?q=nothing",
        "activity": "/activity",
        "settings": "/settings",
        "error": "/no/such/page",
        "error-filter": "/deployments/demo?colour=red",
    }


def _pages_around_a_deploy(browser: Browser, folder: Path) -> None:
    """A candidate without a node that is asked about, and what is seen once it was deployed all the same."""
    with tempfile.TemporaryDirectory() as home:
        files = {path.name: path.read_text("utf-8") for path in AGENT.iterdir() if path.is_file()}
        for name, text in files.items():
            (Path(home) / name).write_text(text, "utf-8")
        without = files | {"graph.py": _without(REMOVED, files["graph.py"])}
        settings = one_deployment("{url}", node_drain("drop-await-approval", "support", REMOVED))
        with LocalAgentServer(Path(home)) as server:
            with ThreadPoolExecutor(1) as beside:  # the browser has this thread's event loop
                beside.submit(asyncio.run, seed(server.url)).result()
            settings["deployments"][0]["url"] = server.url
            with _serving(settings=settings) as client:
                address, name = str(client.base_url), settings["deployments"][0]["name"]
                poll_over_http(client)
                candidate = _topology(without)
                for look, page in _looks(browser):
                    _open(page, f"{address.rstrip('/')}/deployments/{name}/preflight")
                    page.screenshot(path=folder / f"preflight-blank-{look}.png", full_page=True)
                    page.get_by_label("Topology").fill(candidate)
                    page.get_by_role("button", name="Ask", exact=True).click()
                    page.wait_for_load_state()
                    page.screenshot(path=folder / f"preflight-{look}.png", full_page=True)
                server.deploy(without)
                poll_over_http(client)
                pages = {
                    "deploy-overview": "/",
                    "deploy-deployment": f"/deployments/{name}",
                    "deploy": _first_deploy(client, name),
                    "deploy-drain": "/drains/drop-await-approval",
                }
                _all_pages(browser, address, pages, folder)


def _without(node: str, code: str) -> str:
    """The graph's code, in which the node that leads there goes past it."""
    gone = f"    .add_node({node})\n"
    assert gone in code
    return code.replace(gone, "").replace(f'"{node}", ', "").replace(f'"{node}" if', '"respond" if')


def _topology(files: Mapping[str, str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, "utf-8")
        product = Product(Path(folder))
        product.configure("")
        ran = product.run("topology", "--langgraph-json", str(Path(folder) / "langgraph.json"), "--json")
        assert ran.code == 0, ran.said
        return json.dumps(ran.json)


def _first_deploy(client: httpx.Client, name: str) -> str:
    found = re.search(rf'href="(/deployments/{name}/deploys/[^"]+)"', client.get(f"/deployments/{name}").text)
    assert found is not None
    return found[1]


def _all_pages(browser: Browser, address: str, pages: dict[str, str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for look, page in _looks(browser):
        for name, path in pages.items():
            _open(page, address.rstrip("/") + path)
            page.screenshot(path=folder / f"{name}-{look}.png", full_page=True)


def _looks(browser: Browser) -> Iterator[tuple[str, Page]]:
    for look, (width, height), colours in (
        ("light", WIDE, "light"),
        ("dark", WIDE, "dark"),
        ("narrow", NARROW, "light"),
    ):
        with _page(browser, width, height, colours) as page:
            yield look, page


def _readme_pictures(browser: Browser, client: httpx.Client) -> None:
    folder = ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (path, height) in README_PICTURES.items():
        with _page(browser, WIDE[0], height, "light") as page:
            wait_until(lambda: client.get("/api/v1/deployments/demo").json()["current_poll"] is None)
            _open(page, str(client.base_url).rstrip("/") + path)
            page.screenshot(path=folder / f"{name}.png")


@contextlib.contextmanager
def _page(browser: Browser, width: int, height: int, colours: str) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if colours == "dark" else "light",
        reduced_motion="reduce",
    )
    with contextlib.closing(context):
        yield context.new_page()


def _open(page: Page, address: str) -> None:
    page.goto(address, wait_until="load")
    page.evaluate("document.fonts.ready")


if __name__ == "__main__":
    main()
