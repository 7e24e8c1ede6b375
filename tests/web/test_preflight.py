"""The page that asks about a candidate, the deploy's comparison, and who waits on a gate."""

import json
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from app.errors import BadRequest
from tests.web.fakes import HOSTILE_NODE

GRAPH = {"kind": "graph", "nodes": ["ask"], "edges": [["__start__", "ask", False]]}
TOPOLOGY = json.dumps({"schema": "drainboard.topology/1", "graphs": {"support": GRAPH}})
PATH = "/deployments/support-prod/preflight"
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}


def send(web: TestClient, path: str = PATH, **fields: str) -> tuple[int, str]:
    answer = web.post(path, content=urlencode(fields), headers=FORM, follow_redirects=False)
    return answer.status_code, answer.text


def test_a_candidate_is_asked_about_and_its_changes_are_shown_with_their_threads(web: TestClient) -> None:
    status, page = send(web, topology=TOPOLOGY)
    assert status == 200
    for part in ("would break", "would strand", "may strand", "The last complete poll is old."):
        assert part in page
    assert 'href="/deployments/support-prod/threads?graph=support' in page
    assert "Open 1 drain for it" in page
    assert HOSTILE_NODE not in page


def test_the_button_opens_the_drain_that_is_needed(web: TestClient) -> None:
    status, page = send(web, topology=TOPOLOGY, open_drain="yes")
    assert status == 200
    assert 'href="/drains/preflight-support-1"' in page
    assert "for it</button>" not in page
    [(what, drain)] = web.app.state.register.written  # type: ignore[attr-defined]
    assert (what, drain.remove_nodes) == ("created", ("ask",))


@pytest.mark.parametrize(("typed", "complaint"), [
    ("", "This is not JSON."), ("{", "This is not JSON."), ("[]", "is no table"), ('{"schema": "x"}', "not a topology"),
])  # fmt: skip
def test_what_cannot_be_taken_is_shown_again_as_it_was_typed(web: TestClient, typed: str, complaint: str) -> None:
    status, page = send(web, topology=typed)
    assert status == 422
    assert complaint in page
    assert 'role="alert"' in page


def test_a_drain_that_cannot_be_opened_says_why(web: TestClient) -> None:
    web.app.state.register.refusal = BadRequest("The drain cannot be made.")  # type: ignore[attr-defined]
    status, page = send(web, topology=TOPOLOGY, open_drain="yes")
    assert (status, "The drain cannot be made." in page) == (422, True)


def test_a_page_of_another_site_cannot_open_drains(web: TestClient) -> None:
    answer = web.post(PATH, content=urlencode({"topology": TOPOLOGY}), headers={**FORM, "Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert not web.app.state.register.written  # type: ignore[attr-defined]


def test_a_deploy_shows_what_a_preflight_would_have_said(web: TestClient) -> None:
    page = web.get("/deployments/support-prod/deploys/7").text
    assert "What a preflight would have said" in page
    assert "would strand" in page


def test_the_page_of_a_drain_shows_who_waits_on_it_and_how_they_ended(web: TestClient) -> None:
    page = web.get("/drains/drop-await-approval").text
    assert "Who waits on this gate" in page
    assert page.count('/cancel"') == 2
    assert "silent for" in page
    assert "gave up" in page
    assert HOSTILE_NODE not in page
    assert "Who waits on this gate" not in web.get("/drains/drop-legacy-triage").text


def test_a_wait_is_cancelled_there(web: TestClient) -> None:
    status, _ = send(web, "/drains/drop-await-approval/waiters/w1/cancel")
    assert status == 303
    assert web.app.state.waiters.cancelled == [("drop-await-approval", "w1")]  # type: ignore[attr-defined]
