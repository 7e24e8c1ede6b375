"""A dashboard that refuses, or is none, is told in one sentence; a token is sent when there is one."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from drainboard_reporter import ReporterError, areport
from langgraph.checkpoint.memory import InMemorySaver

from app.clock import utc_now
from app.drains.register import By
from app.main import create_app
from app.settings import Settings
from tests.reporter.board import graph_of, run


async def _refused(answer: httpx.Response, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[httpx.Request]]:
    monkeypatch.setattr("drainboard_reporter.dashboard.ATTEMPTS", 1)
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return answer

    with pytest.raises(ReporterError) as refused:
        await areport(
            graph_of(InMemorySaver()),
            ["one"],
            server="http://board",
            deployment="orders",
            token="secret-token",
            transport=httpx.MockTransport(handle),
        )
    return str(refused.value), asked


OURS = {"x-drainboard": "0.1.0"}


@pytest.mark.parametrize("status", [401, 403])
async def test_a_wrong_token_is_named_and_not_repeated(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said, asked = await _refused(httpx.Response(status, json={}, headers=OURS), monkeypatch)
    assert "refuses the token for the deployment orders" in said
    assert "DRAINBOARD_TOKEN" in said
    assert "secret-token" not in said
    assert asked[0].headers["authorization"] == "Bearer secret-token"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (httpx.Response(200, text="<html>"), "does not look like a Drainboard"),
        (httpx.Response(404, text="nothing"), "does not look like a Drainboard"),
        (httpx.Response(302, headers={"location": "http://elsewhere"}), "does not look like a Drainboard"),
        (httpx.Response(502, text="gateway"), "does not look like a Drainboard"),
        (
            httpx.Response(503, json={"error": {"code": "busy", "message": "Send this one again."}}, headers=OURS),
            "Send this one again.",
        ),
    ],
)
async def test_what_is_no_dashboard_is_said_to_be_none(
    answer: httpx.Response, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, _ = await _refused(answer, monkeypatch)
    assert sentence in said
    assert "\n" not in said


RIGHTS = {"reporter": ["facts"], "viewer": ["read"], "index": ["index"]}


async def test_a_token_may_do_only_that_for_its_deployment(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        deployments=({"name": "orders", "reported": True}, {"name": "others", "reported": True}),
        sign_in={"mode": "token"},
    )
    app = create_app(settings, schedule=False)
    async with app.router.lifespan_context(app):
        secrets = {}
        for name, rights in RIGHTS.items():
            secrets[name], _ = await app.state.tokens.create(
                name, rights, deployments=["orders"], expires_in=None, by=By("test", utc_now())
            )
        saver = InMemorySaver()
        await run(graph_of(saver), "one")

        async def told(deployment: str, token: str | None) -> bool:
            summary = await areport(
                graph_of(saver),
                ["one"],
                server="http://board",
                deployment=deployment,
                token=token,
                transport=httpx.ASGITransport(app=app),
            )
            return summary.complete

        assert await told("orders", secrets["reporter"])
        for name in ("viewer", "index"):
            with pytest.raises(ReporterError, match="refuses the token for the deployment orders"):
                await told("orders", secrets[name])
        for token in (None, "made-up"):
            with pytest.raises(ReporterError, match="refuses the token"):
                await told("orders", token)
        with pytest.raises(ReporterError, match="no deployment with the name 'others'"):
            await told("others", secrets["reporter"])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://board") as client:
            mine = {"Authorization": f"Bearer {secrets['reporter']}"}
            for path in ("deployments/orders/threads", "deployments/orders", "drains"):
                assert (await client.get(f"/api/v1/{path}", headers=mine)).status_code == 403
