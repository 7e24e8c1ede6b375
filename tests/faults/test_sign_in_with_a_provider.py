"""OpenID Connect with a real provider in a process of its own: there, back, and every way in which that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.faults.fake_server import Clock, FakeAgentServer
from tests.flows.product import free_port, wait_until

SECRET = "client-secret-that-never-leaves"
PEOPLE = (
    {"sub": "ada", "email": "ada@example.org", "roles": ["operator", "something-else"]},
    {"sub": "ben", "roles": "viewer"},
    {"sub": "eve", "roles": []},
    {"sub": "kim", "teams": ["payments"]},
)
Enter = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    port = free_port()
    people = [part for person in PEOPLE for part in ("--user-claims", json.dumps(person))]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), *people],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: _answers(f"http://localhost:{port}/.well-known/openid-configuration"), seconds=60)
        yield f"http://localhost:{port}"
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def enter(tmp_path: Path, server: FakeAgentServer, clock: Clock, issuer: str, monkeypatch: pytest.MonkeyPatch) -> Enter:
    monkeypatch.setenv("OIDC_SECRET", SECRET)

    @asynccontextmanager
    async def opened(**changes: Any) -> AsyncIterator[httpx.AsyncClient]:
        given = {"mode": "oidc", "issuer": issuer, "client_id": "drainboard", "client_secret_env": "OIDC_SECRET"}
        settings = Settings(
            database_url=f"sqlite+aiosqlite:///{tmp_path}/board.db",
            key_file=tmp_path / "board.key",
            home=tmp_path,
            deployments=[{"name": name, "url": "http://agent.test"} for name in ("mine", "theirs")],
            sign_in=given | changes,
        )
        app = create_app(settings, schedule=False, transport=lambda _: server.transport)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="https://drainboard.test") as http:
                yield http

    return opened


async def go(http: httpx.AsyncClient, who: str, place: str = "/drains") -> httpx.Response:
    """What a browser does: the way there, the provider's form, the way back."""
    there = await http.get("/sign-in/start", params={"next": place})
    assert there.status_code in (302, 303), there.text
    async with httpx.AsyncClient(trust_env=False) as outside:
        answer = await outside.post(there.headers["location"], data={"sub": who})
    assert answer.status_code in (302, 303), answer.text
    return await http.get(answer.headers["location"])


async def test_who_signs_in_has_the_role_that_the_claim_says(enter: Enter) -> None:
    async with enter() as http:
        assert (await http.get("/drains")).headers["location"] == "/sign-in?next=%2Fdrains"
        back = await go(http, "ada")
        assert (back.status_code, back.headers["location"]) == (303, "/drains")
        assert "ada@example.org" in (await http.get("/drains")).text
        body = {"name": "made", "deployment": "mine", "graph": "support", "remove_nodes": ["a"]}
        assert (await http.post("/api/v1/drains", json=body)).status_code == 201
        assert (await http.get("/settings")).status_code == 403
        noted = (await http.get("/api/v1/activity")).json()["items"]
        assert noted[0]["actor"] == "ada@example.org (API)"


async def test_a_viewer_looks_and_changes_nothing(enter: Enter) -> None:
    async with enter() as http:
        await go(http, "ben")
        assert (await http.get("/drains")).status_code == 200
        assert (await http.post("/deployments/mine/poll")).status_code == 403


async def test_who_has_no_role_is_told_so_and_stays_outside(enter: Enter) -> None:
    async with enter() as http:
        back = await go(http, "eve")
        assert (back.status_code, "no role here" in back.text) == (403, True)
        assert (await http.get("/drains")).status_code == 303


async def test_grants_give_roles_over_some_deployments(enter: Enter) -> None:
    grants = [{"value": "payments", "role": "operator", "deployments": ["mine"]}]
    async with enter(roles_claim="teams", grants=grants) as http:
        await go(http, "kim", "/")
        listed = (await http.get("/api/v1/deployments")).json()["items"]
        assert [each["name"] for each in listed] == ["mine"]
        assert (await http.get("/deployments/theirs")).status_code == 404


async def test_an_answer_that_was_not_asked_for_signs_nobody_in(enter: Enter) -> None:
    async with enter() as http:
        for query in ({}, {"code": "x", "state": "y"}, {"error": "access_denied", "state": "y"}):
            back = await http.get("/sign-in/callback", params=query)
            assert (back.status_code, "Try again" in back.text) == (401, True)
        there = await http.get("/sign-in/start")
        state = parse_qs(urlsplit(there.headers["location"]).query)["state"][0]
        assert (await http.get("/sign-in/callback", params={"code": "made-up", "state": state})).status_code == 401
        assert (await http.get("/drains")).status_code == 303


async def test_the_way_there_has_a_state_a_nonce_and_a_challenge(enter: Enter) -> None:
    async with enter() as http:
        there = await http.get("/sign-in/start")
        query = parse_qs(urlsplit(there.headers["location"]).query)
        assert {"state", "nonce", "code_challenge"} <= set(query)
        assert query["code_challenge_method"] == ["S256"]
        assert query["redirect_uri"] == ["https://drainboard.test/sign-in/callback"]
        assert SECRET not in there.headers["location"]


async def test_the_address_that_people_use_is_a_setting_behind_a_proxy(enter: Enter) -> None:
    async with enter(public_url="https://drains.example.org/") as http:
        there = await http.get("/sign-in/start")
        query = parse_qs(urlsplit(there.headers["location"]).query)
        assert query["redirect_uri"] == ["https://drains.example.org/sign-in/callback"]


async def test_a_provider_that_is_down_is_said_to_be(enter: Enter) -> None:
    async with enter(issuer=f"http://localhost:{free_port()}") as http:
        answer = await http.get("/sign-in/start")
        assert (answer.status_code, "could not be asked" in answer.text) == (502, True)
        assert (await http.get("/healthz")).status_code == 200
