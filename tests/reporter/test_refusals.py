"""A dashboard that refuses, or is none, is told in one sentence; a token is sent when there is one."""

from __future__ import annotations

import httpx
import pytest
from drainboard_reporter import ReporterError, areport
from langgraph.checkpoint.memory import InMemorySaver

from tests.reporter.board import graph_of


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
