"""Who may see and do what: every route as a stranger, as a viewer of another deployment, and as everybody in between."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.auth.needs import needed
from app.auth.tokens import Tokens
from app.drains.register import By
from app.main import ROUTERS, create_app
from app.rights import Right
from app.settings import Settings
from tests.faults.conftest import DRAIN
from tests.faults.fake_server import Clock, FakeAgentServer

MINE, THEIRS = "mine", "theirs"
PLACES = {
    "deployment": THEIRS,
    "drain": "their-drain",
    "name": THEIRS,
    "thread_id": "10000000-0000-0000-0000-000000000001",
}
NUMBERS = (
    "poll",
    "deploy",
    "deploy_id",
    "waiver",
    "acknowledgement",
    "attestation",
    "said",
    "waiter",
    "number",
    "delivery",
)


@dataclass
class Place:
    """A running Drainboard with sign-in by token, and a client of each kind of caller."""

    app: FastAPI
    http: httpx.AsyncClient
    clock: Clock
    tokens: dict[str, str]

    async def ask(self, who: str | None, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        return await self.http.request(method, path, headers=headers, **more)


Enter = Callable[..., AbstractAsyncContextManager[Place]]
CALLERS: dict[str, tuple[list[str], list[str] | None]] = {
    "viewer of mine": (["read"], [MINE]),
    "viewer": (["read"], None),
    "operator of mine": (["read", "operate"], [MINE]),
    "operator": (["read", "operate"], None),
    "admin": ([right.value for right in Right], None),
    "reporter of mine": (["facts"], [MINE]),
    "index of mine": (["index"], [MINE]),
}


@pytest.fixture
def place(tmp_path: Path, migrated_sqlite: Path, server: FakeAgentServer, clock: Clock) -> Enter:
    @asynccontextmanager
    async def opened(**sign_in: Any) -> AsyncIterator[Place]:
        shutil.copy(migrated_sqlite, tmp_path / "board.db")
        settings = Settings(
            database_url=f"sqlite+aiosqlite:///{tmp_path}/board.db",
            key_file=tmp_path / "board.key",
            home=tmp_path,
            deployments=[
                {"name": name, "url": "http://agent.test", "environment": environment, "requests_per_minute": 600_000}
                for name, environment in ((MINE, "staging"), (THEIRS, "production"))
            ],
            drains=[
                DRAIN | {"name": f"{which}-drain", "deployment": name}
                for which, name in (("my", MINE), ("their", THEIRS))
            ],
            sign_in={"mode": "token"} | sign_in,
        )
        app = create_app(settings, schedule=False, transport=lambda _: server.transport)
        async with app.router.lifespan_context(app):
            made = {}
            for who, (rights, over) in CALLERS.items():
                made[who], _ = await app.state.tokens.create(
                    who, rights, deployments=over, expires_in=timedelta(days=90), by=By("test", clock())
                )
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="https://drainboard.test") as http:
                yield Place(app, http, clock, made)

    return opened


def addresses(over: str) -> Iterator[tuple[str, str]]:
    """Every route there is, about a deployment and its drain; those of pages and API alike."""
    drain = "my-drain" if over == MINE else "their-drain"
    for router in ROUTERS:
        for route in router.routes:
            path = re.sub(r"\{(\w+)(?::\w+)?\}", partial(_part, route.path, over, drain), route.path)  # type: ignore[attr-defined]
            for method in sorted(route.methods):  # type: ignore[attr-defined]
                yield method, path
    yield "GET", "/metrics"
    yield "GET", "/api/v1/openapi.json"


def _part(path: str, over: str, drain: str, found: re.Match[str]) -> str:
    name = found[1]
    if name in NUMBERS:
        return "1"
    if name == "name":
        return "token" if path.startswith("/settings") else drain if path.startswith("/drains") else over
    if name == "webhook":
        return "hook"
    return {"deployment": over, "drain": drain, "thread_id": PLACES["thread_id"]}[name]


def is_public(path: str) -> bool:
    return path.startswith(("/sign-in", "/sign-out", "/static"))


async def test_a_stranger_gets_nothing_from_any_route(place: Enter) -> None:
    async with place() as it:
        for method, path in addresses(MINE):
            answer = await it.ask(None, method, path)
            if is_public(path):
                assert answer.status_code < 500, (method, path)
            elif method == "GET" and not path.startswith(("/api/", "/metrics")):
                assert (answer.status_code, answer.headers["location"][:14]) == (303, "/sign-in?next="), path
            else:
                assert answer.status_code == 401, (method, path)
                assert MINE not in answer.text


async def test_who_sees_one_deployment_gets_nothing_of_another(place: Enter) -> None:
    names = (THEIRS, "their-drain")
    async with place() as it:
        for name in (MINE, THEIRS):
            await it.app.state.runtime.poll(name, full=True)
        for who in ("viewer of mine", "operator of mine", "reporter of mine", "index of mine"):
            for method, path in addresses(THEIRS):
                if is_public(path):
                    continue
                answer = await it.ask(who, method, path, json={} if method != "GET" else None)
                about_theirs = any(name in path for name in names)
                assert answer.status_code in ((403, 404) if about_theirs else (200, 303, 403, 404, 422)), (
                    who,
                    method,
                    path,
                )
                told = [
                    name for name in names if name in re.sub(r"with the name \S+", "", answer.text.replace(path, ""))
                ]
                assert not told, (who, method, path)


@pytest.mark.parametrize("text", ["their", "drain", "agent", "1000", PLACES["thread_id"], "0123abcd", "nothing at all"])
async def test_the_search_looks_only_where_one_may_see(place: Enter, text: str) -> None:
    async with place() as it:
        for name in (MINE, THEIRS):
            await it.app.state.runtime.poll(name, full=True)
        for path in ("/api/v1/search", "/search"):
            answer = await it.ask("viewer of mine", "GET", path, params={"q": text})
            assert answer.status_code in (200, 303)
            told = answer.text.replace(text, "") + answer.headers.get("location", "")
            assert THEIRS not in told, path
            assert "their-drain" not in told, path
        everything = (await it.ask("viewer", "GET", "/api/v1/search", params={"q": text})).json()
        assert {each["deployment"] for each in everything["looked"]} == {MINE, THEIRS}
        if text == "their":
            assert [each["name"] for each in everything["hits"]] == ["their-drain", THEIRS]


async def test_a_preview_needs_the_right_to_make_the_drain(place: Enter) -> None:
    typed = {"name": "thought", "graph": "agent", "remove_nodes": "old", "do": "preview"}
    async with place() as it:
        await it.app.state.runtime.poll(THEIRS, full=True)
        for who, expected in (("operator of mine", 404), ("viewer", 403), ("operator", 200)):
            answer = await it.ask(who, "POST", "/drains/new", data=typed | {"deployment": THEIRS})
            assert answer.status_code == expected, (who, answer.text)


async def test_a_viewer_changes_nothing(place: Enter) -> None:
    async with place() as it:
        await it.app.state.runtime.poll(MINE, full=True)
        for who in ("viewer", "viewer of mine"):
            for method, path in addresses(MINE):
                may_wait = method in ("POST", "PUT") and path.startswith("/api/") and "/waiters" in path
                if method == "GET" or is_public(path) or "preflight" in path or may_wait:
                    continue
                assert (await it.ask(who, method, path)).status_code == 403, (who, method, path)
        assert (await it.ask("viewer", "GET", "/settings")).status_code == 403
        assert (await it.ask("operator", "GET", "/settings")).status_code == 403


async def test_a_viewer_may_wait_at_a_gate_and_be_seen_but_not_end_a_wait_or_open_a_drain(place: Enter) -> None:
    gate = "/api/v1/drains/my-drain"
    topology = {
        "schema": "drainboard.topology/1",
        "graphs": {"support": {"kind": "graph", "nodes": ["intake", "finish"], "edges": []}},
    }
    async with place() as it:
        await it.app.state.runtime.poll(MINE, full=True)
        begun = await it.ask("viewer of mine", "POST", f"{gate}/waiters", json={"caller": "ci", "wait": "5m"})
        assert begun.status_code == 201
        path = f"{gate}/waiters/{begun.json()['id']}"
        assert (await it.ask("viewer of mine", "PUT", path, json={"verdict": "blocked"})).status_code == 200
        assert (await it.ask("viewer of mine", "DELETE", path)).status_code == 403
        assert (await it.ask("operator of mine", "DELETE", path)).status_code == 200
        asked = f"/api/v1/deployments/{MINE}/preflight"
        assert (await it.ask("viewer of mine", "POST", asked, json=topology)).status_code == 200
        opens = {"topology": topology, "open_drain": True}
        wanted = (await it.ask("viewer of mine", "POST", asked, json=topology)).json()["drains"]
        assert (await it.ask("viewer of mine", "POST", asked, json=opens)).status_code == (403 if wanted else 200)
        assert (await it.ask("operator of mine", "POST", asked, json=opens)).status_code == 200


async def test_everybody_with_the_right_gets_through(place: Enter) -> None:
    async with place() as it:
        for name in (MINE, THEIRS):
            await it.app.state.runtime.poll(name, full=True)
        for method, path in addresses(MINE):
            if method == "GET":
                assert (await it.ask("admin", method, path)).status_code not in (401, 403), path
        assert (await it.ask("operator of mine", "POST", f"/api/v1/deployments/{MINE}/poll")).status_code == 202
        push = {"threads": []}
        assert (await it.ask("index of mine", "PUT", f"/api/v1/deployments/{MINE}/index", json=push)).status_code == 200
        assert (await it.ask("index of mine", "GET", f"/api/v1/deployments/{MINE}")).status_code == 403
        assert (await it.ask("reporter of mine", "GET", "/api/v1/drains/my-drain/gate")).status_code == 403
        assert (await it.ask("viewer of mine", "GET", "/api/v1/drains/my-drain/gate")).json()["drain"] == "my-drain"
        listed = (await it.ask("viewer of mine", "GET", "/api/v1/deployments")).json()["items"]
        assert [each["name"] for each in listed] == [MINE]
        assert len((await it.ask("viewer", "GET", "/api/v1/deployments")).json()["items"]) == 2


async def test_a_drain_cannot_be_made_where_one_may_not_operate(place: Enter) -> None:
    body = DRAIN | {"name": "made-here"}
    async with place() as it:
        for who, deployment, expected in (
            ("operator of mine", THEIRS, 404),
            ("operator of mine", MINE, 201),
            ("operator", THEIRS, 409),
        ):
            answer = await it.ask(who, "POST", "/api/v1/drains", json=body | {"deployment": deployment})
            assert answer.status_code == expected, (who, answer.text)
        several = {"drains": [body | {"deployment": MINE}, body | {"name": "other", "deployment": THEIRS}]}
        assert (await it.ask("operator of mine", "PUT", "/api/v1/drains", json=several)).status_code == 404
        assert (await it.ask("admin", "GET", "/api/v1/drains/other")).status_code == 404
        put = {key: value for key, value in body.items() if key != "name"} | {"deployment": THEIRS}
        assert (await it.ask("operator of mine", "PUT", "/api/v1/drains/new-one", json=put)).status_code == 404


async def test_the_audit_says_who_and_shows_each_only_their_own(place: Enter) -> None:
    async with place() as it:
        for name in (MINE, THEIRS):
            await it.app.state.runtime.poll(name, full=True)
            await it.ask("viewer", "GET", f"/api/v1/deployments/{name}/threads/{PLACES['thread_id']}")
        mine = (await it.ask("viewer of mine", "GET", "/api/v1/activity")).json()["items"]
        assert {each["deployment"] for each in mine} == {MINE}
        assert mine[0]["actor"] == "token viewer (API)"
        everything = (await it.ask("viewer", "GET", "/api/v1/activity?limit=500")).json()["items"]
        assert {each["deployment"] for each in everything} == {MINE, THEIRS, None}
        assert "token.created" in {each["action"] for each in everything}
        other = await it.ask("viewer of mine", "GET", f"/api/v1/activity?deployment={THEIRS}")
        assert other.status_code == 404


async def test_a_token_ends_when_it_expires_and_when_it_is_revoked(place: Enter) -> None:
    async with place() as it:
        tokens: Tokens = it.app.state.tokens
        it.app.state.callers._clock = it.clock
        path = f"/api/v1/deployments/{MINE}/index"
        assert (await it.ask("reporter of mine", "GET", path)).status_code == 200
        await tokens.revoke("reporter of mine", By("test", it.clock()))
        assert (await it.ask("reporter of mine", "GET", path)).status_code == 401
        assert (await it.ask("viewer", "GET", "/api/v1/drains")).status_code == 200
        it.clock.tick(days=91)
        assert (await it.ask("viewer", "GET", "/api/v1/drains")).status_code == 401
        stored = {each.name: each for each in await tokens.all()}
        assert stored["viewer"].last_used_at is not None


async def test_what_is_stored_of_a_token_opens_nothing(place: Enter, tmp_path: Path) -> None:
    async with place() as it:
        await it.ask("viewer", "GET", "/api/v1/drains")
        stored = b"".join(file.read_bytes() for file in sorted(tmp_path.glob("board.db*")))  # noqa: ASYNC240
        for secret in it.tokens.values():
            assert secret.encode() not in stored
            assert secret.removeprefix("drb_").encode() not in stored


async def test_guessing_tokens_is_stopped_and_holds_up_nobody_who_has_one(place: Enter) -> None:
    async with place() as it:
        codes = []
        for _ in range(12):
            headers = {"Authorization": f"Bearer {secrets.token_urlsafe(32)}"}
            codes.append((await it.http.get("/api/v1/drains", headers=headers)).status_code)
        assert codes == [401] * 10 + [429] * 2
        assert (await it.ask("viewer", "GET", "/api/v1/drains")).status_code == 200


async def test_a_token_is_pasted_to_sign_in_and_the_session_ends_with_it(place: Enter) -> None:
    async with place() as it:
        wrong = await it.http.post("/sign-in", data={"token": "drb_none", "next": "/drains"})
        assert (wrong.status_code, "not known" in wrong.text) == (401, True)
        assert "/search" not in wrong.text
        answer = await it.http.post("/sign-in", data={"token": it.tokens["viewer of mine"], "next": "/drains"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/drains")
        cookie = answer.headers["set-cookie"].lower()
        assert all(each in cookie for each in ("httponly", "secure", "samesite=lax"))
        page = await it.http.get("/drains")
        assert "token viewer of mine" in page.text
        assert "their-drain" not in page.text
        assert (await it.http.get(f"/deployments/{THEIRS}")).status_code == 404
        await it.app.state.tokens.revoke("viewer of mine", By("test", it.clock()))
        assert (await it.http.get("/drains")).status_code == 303


async def test_signing_out_forgets_the_session(place: Enter) -> None:
    async with place() as it:
        await it.http.post("/sign-in", data={"token": it.tokens["viewer"]})
        assert (await it.http.get("/drains")).status_code == 200
        assert (await it.http.post("/sign-out")).headers["location"] == "/sign-in"
        assert (await it.http.get("/drains")).status_code == 303


@pytest.mark.parametrize("elsewhere", ["https://evil.test/", "//evil.test/", "/\\evil.test", "evil.test", "/sign-in"])
async def test_signing_in_never_leads_to_another_site(place: Enter, elsewhere: str) -> None:
    async with place() as it:
        answer = await it.http.post("/sign-in", data={"token": it.tokens["viewer"], "next": elsewhere})
        assert answer.headers["location"] == "/"


async def test_a_session_that_was_tampered_with_is_none(place: Enter) -> None:
    async with place() as it:
        await it.http.post("/sign-in", data={"token": it.tokens["viewer"]})
        value = it.http.cookies["drainboard_session"]
        it.http.cookies.clear()
        it.http.cookies.set("drainboard_session", ("A" if value[0] != "A" else "B") + value[1:])
        assert (await it.http.get("/drains")).status_code == 303


async def test_tokens_are_made_and_revoked_on_the_page_and_shown_once(place: Enter) -> None:
    async with place() as it:
        await it.http.post("/sign-in", data={"token": it.tokens["admin"]})
        form = {"name": "pipeline", "rights": ["read"], "deployments": [MINE], "expires": "30d"}
        made = await it.http.post("/settings/tokens", data=form)
        secret = re.search(r"drb_[\w-]{43}", made.text)
        assert (made.status_code, secret is not None) == (201, True)
        assert "drb_" not in (await it.http.get("/settings")).text
        it.tokens["pipeline"] = secret[0]  # type: ignore[index]
        it.http.cookies.clear()
        assert (await it.ask("pipeline", "GET", "/api/v1/drains")).status_code == 200
        await it.http.post("/sign-in", data={"token": it.tokens["admin"]})
        twice = await it.http.post("/settings/tokens", data=form)
        assert (twice.status_code, "already" in twice.text) == (409, True)
        for wrong in ({"rights": []}, {"expires": "soon"}, {"name": ""}, {"deployments": ["nowhere"]}):
            assert (await it.http.post("/settings/tokens", data=form | {"name": "x"} | wrong)).status_code == 422
        assert (await it.http.post("/settings/tokens/pipeline/revoke")).status_code == 303
        it.http.cookies.clear()
        assert (await it.ask("pipeline", "GET", "/api/v1/drains")).status_code == 401


def test_a_route_of_tomorrow_is_closed() -> None:
    for method in ("GET", "POST", "BREW"):
        need = needed(method, "/something/new")
        assert need is not None
        assert need.rights


async def test_only_an_administrator_erases(place: Enter) -> None:
    path = f"/api/v1/deployments/{MINE}/threads/{PLACES['thread_id']}"
    async with place() as it:
        await it.app.state.runtime.poll(MINE, full=True)
        for who, expected in (("viewer", 403), ("operator", 403), ("reporter of mine", 403), ("admin", 404)):
            assert (await it.ask(who, "DELETE", path)).status_code == expected, who
