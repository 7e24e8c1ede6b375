"""Forms: what is typed is kept, what is wrong stands beside its field, and what is right is written once."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from app.errors import BadRequest, Conflict
from app.settings import DrainSettings, Limit
from app.web import words
from app.web.forms import MAX_BODY, drain_of, form_of, read_form
from tests.unit.test_criteria import drains
from tests.web.fakes import HOSTILE_ID, HOSTILE_NODE, FakeRegister, FakeStatements, entries, thread_id
from tests.web.test_pages import Document

DRAIN = "/drains/drop-await-approval"
TYPED: dict[str, Any] = {
    "name": "drop-it",
    "deployment": "support-prod",
    "graph": "support",
    "owner": "",
    "phase": "observing",
    "remove_nodes": ["await_approval", "  nested/sub_wait ", ""],
    "rename_old": ["customer_name", ""],
    "rename_new": ["display_name", ""],
    "kind_field": ["retries", ""],
    "kind": ["integer", "boolean"],
    "minimum_key": ["state_version", ""],
    "minimum": ["2", ""],
    "intake_closed_at": "2026-06-01T00:00",
    "soak_sweeps": "3",
    "attestations": ["export queues", ""],
    "accept": ["idle_unverified"],
}
OWNED = {"owner": "Ana", "reason": "called the customer", "until": ""}


def send(web: TestClient, path: str, typed: dict[str, Any], **headers: str) -> Any:
    body = urlencode(typed, doseq=True)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return web.post(path, content=body, headers=kind | headers, follow_redirects=False)


def register(web: TestClient) -> FakeRegister:
    found: FakeRegister = web.app.state.register  # type: ignore[attr-defined]
    return found


def people(web: TestClient) -> FakeStatements:
    found: FakeStatements = web.app.state.statements  # type: ignore[attr-defined]
    return found


def wrong(html: str) -> dict[str, str]:
    """What is wrong, by the id of its paragraph; each is the description of a field that is marked as invalid."""
    document = Document(html)
    ids = [str(attrs["id"]) for tag, attrs in document.tags if str(attrs.get("id", "")).startswith("wrong-")]
    described = " ".join(str(attrs.get("aria-describedby", "")) for _, attrs in document.tags).split()
    assert [each for each in ids if each not in described and each != "wrong-targets"] == []
    return {each.removeprefix("wrong-"): html.partition(f'id="{each}">')[2].partition("</p>")[0] for each in ids}


@hypothesis_settings(deadline=None)
@given(drains.filter(lambda drain: all(each.old != each.new for each in drain.rename_fields)))
def test_a_drain_goes_through_the_form_and_back(drain: DrainSettings) -> None:
    sent = urlencode({key: list(values) for key, values in form_of(drain).typed.items()}, doseq=True)
    again = DrainSettings.model_validate(drain_of(read_form(sent.encode())))
    stripped = drain.model_dump(exclude={"policy": {"require"}})
    assert again.model_dump(exclude={"policy": {"require"}}) == stripped


def test_a_drain_that_is_typed_is_made(web: TestClient) -> None:
    answer = send(web, "/drains/new", TYPED)
    assert (answer.status_code, answer.headers["location"]) == (303, "/drains/drop-it")
    ((what, drain),) = register(web).written
    assert what == "created"
    assert isinstance(drain, DrainSettings)
    assert drain.remove_nodes == ("await_approval", "nested/sub_wait")
    assert [(each.old, each.new) for each in drain.rename_fields] == [("customer_name", "display_name")]
    assert (drain.require_kinds, drain.minimum_versions) == ({"retries": "integer"}, {"state_version": 2})
    assert drain.intake_closed_at is not None
    assert drain.intake_closed_at.isoformat() == "2026-06-01T00:00:00+00:00"
    assert (drain.policy.soak_sweeps, drain.policy.attestations) == (3, ("export queues",))
    assert drain.owner is None


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "name": ({"name": "a name"}, "name", "letters"),
    "no name": ({"name": ""}, "name", "letters"),
    "graph": ({"graph": ""}, "graph", "filled in"),
    "nothing to go": (
        {"remove_nodes": [], "rename_old": [], "kind_field": [], "minimum_key": []},
        "targets",
        "something to remove",
    ),
    "rename": ({"rename_new": [""]}, "rename_fields", "filled in"),
    "rename to itself": ({"rename_new": ["customer_name"]}, "rename_fields", "itself"),
    "version": ({"minimum": ["two"]}, "minimum_versions", "integer"),
    "duration": ({"max_age": "soon"}, "max_age", "15m"),
    "sweeps": ({"soak_sweeps": "0"}, "soak_sweeps", "greater"),
    "retention": ({"retention_idle_for": "90d"}, "retention_reason", "filled in"),
    "time": ({"intake_closed_at": "tomorrow"}, "intake_closed_at", "datetime"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_is_kept(web: TestClient, case: str) -> None:
    change, key, word = WRONG[case]
    answer = send(web, "/drains/new", TYPED | {"owner": "<b>Ana</b> & co"} | change)
    assert answer.status_code == 422
    found = wrong(answer.text)
    assert list(found) == [key]
    assert word in found[key]
    assert 'value="&lt;b&gt;Ana&lt;/b&gt; &amp; co"' in answer.text
    assert 'value="export queues"' in answer.text
    assert 'hx-get="' not in answer.text
    assert register(web).written == []


@pytest.mark.parametrize(("code", "place"), [("drain_exists", "name"), ("name_taken", "name"), ("not_drained", "")])
def test_what_the_register_refuses_is_said_in_the_form(web: TestClient, code: str, place: str) -> None:
    register(web).refusal = Conflict("That name is taken.", code=code)
    answer = send(web, "/drains/new", TYPED)
    assert answer.status_code == 409
    assert "That name is taken." in answer.text
    assert ("name" in wrong(answer.text)) == (place == "name")
    register(web).refusal = BadRequest("The drain drop-it selects by the metadata key x.", code="invalid")
    assert "selects by the metadata key x" in send(web, "/drains/new", TYPED).text


def test_the_form_offers_the_names_of_the_graph_and_the_defaults(web: TestClient) -> None:
    html = web.get("/drains/new").text
    options = {attrs["value"] for tag, attrs in Document(html).tags if tag == "option"}
    assert {"await_approval", "support", "customer_name", "support-stage"} <= options
    for default in ('value="15m"', 'value="1d"', 'value="2"', 'value="1h"', 'value="3d"'):
        assert default in html


def test_a_drain_is_changed_in_the_form_that_shows_it(web: TestClient) -> None:
    html = web.get(f"{DRAIN}/edit").text
    assert 'value="await_approval"' in html
    assert HOSTILE_NODE not in html
    answer = send(web, f"{DRAIN}/edit", TYPED | {"name": "another", "deployment": "support-stage"})
    assert answer.headers["location"] == DRAIN
    ((what, drain),) = register(web).written
    assert isinstance(drain, DrainSettings)
    assert (what, drain.name, drain.deployment) == ("replaced", "drop-await-approval", "support-prod")


def test_a_preview_says_what_the_drain_would_and_writes_nothing(web: TestClient) -> None:
    answer = send(web, "/drains/new", TYPED | {"do": "preview"})
    assert answer.status_code == 200
    ((what, drain),) = register(web).written
    assert isinstance(drain, DrainSettings)
    assert (what, drain.remove_nodes) == ("previewed", ("await_approval", "nested/sub_wait"))
    text = Document(answer.text).text
    assert "It would say: blocked" in text
    assert "Nothing is saved yet." in text
    assert 'value="export queues"' in answer.text
    wrong_one = send(web, "/drains/new", TYPED | {"do": "preview", "soak_sweeps": "many"})
    assert wrong_one.status_code == 422
    assert "It would say" not in wrong_one.text


def test_a_form_that_was_opened_before_somebody_else_saved_says_so_and_can_be_sent_again(web: TestClient) -> None:
    seen = re.findall(r'name="seen"\s+value="([0-9a-f]+)"', web.get(f"{DRAIN}/edit").text)
    assert len(seen) == 1
    register(web).refusal = Conflict("Somebody has changed the drain.", code="changed_meanwhile")
    answer = send(web, f"{DRAIN}/edit", TYPED | {"seen": "of another time", "owner": "me"})
    assert answer.status_code == 409
    text = Document(answer.text).text
    assert "Somebody has changed the drain." in text
    assert "owner: payments team" in text
    assert "minimum: 2" not in text, "only what differs"
    assert re.findall(r'name="seen"\s+value="([0-9a-f]+)"', answer.text) == seen
    assert 'value="me"' in answer.text


def test_a_drain_of_the_settings_file_has_no_form(web: TestClient) -> None:
    register(web).managed_by_file = True
    assert web.get(f"{DRAIN}/edit").status_code == 409
    html = web.get(DRAIN).text
    assert f'action="{DRAIN}/close"' not in html
    assert "written in the settings file" in html
    assert f'action="{DRAIN}/waivers#say-title"' in html


def test_a_drain_is_closed_with_a_button(web: TestClient) -> None:
    assert f'action="{DRAIN}/close"' in web.get(DRAIN).text
    answer = send(web, f"{DRAIN}/close", {})
    assert (answer.status_code, answer.headers["location"]) == (303, DRAIN)
    assert register(web).written == [("closed", "drop-await-approval")]


def test_ticked_and_pasted_threads_are_taken_over(web: TestClient) -> None:
    typed = OWNED | {"thread_ids": [thread_id(1), f"{thread_id(2)}\r\n{thread_id(3)}\r\n"], "until": "2099-01-01T10:00"}
    assert send(web, f"{DRAIN}/waivers", typed).headers["location"] == f"{DRAIN}#said-title"
    assert send(web, f"{DRAIN}/acknowledgements", typed | {"codes": "fell_at_deploy"}).status_code == 303
    (waived, acknowledged) = people(web).said
    ids = tuple(thread_id(number) for number in (1, 2, 3))
    assert waived[:3] == ("waive", "drop-await-approval", ids)
    assert acknowledged[:4] == ("acknowledge", "drop-await-approval", ids, ("fell_at_deploy",))
    owned: Any = waived[3]
    assert (owned.owner, owned.reason, owned.until.isoformat()) == (
        "Ana",
        "called the customer",
        "2099-01-01T10:00:00+00:00",
    )


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"owner": " "}, "owner"),
        ({"reason": ""}, "reason"),
        ({"thread_ids": ""}, "thread_ids"),
        ({"until": "x"}, "until"),
    ],
)
def test_a_waiver_that_lacks_something_is_shown_again_as_it_was_typed(
    web: TestClient, change: dict[str, Any], key: str
) -> None:
    typed = OWNED | {"thread_ids": [thread_id(0), "another"], "until": "2099-01-01T10:00"} | change
    answer = send(web, f"{DRAIN}/waivers", typed)
    assert answer.status_code == 422
    assert list(wrong(answer.text)) == [key]
    assert 'hx-get="' not in answer.text
    if key != "thread_ids":
        assert ">another" in answer.text
        assert answer.text.count("checked") == 1
    assert people(web).said == []


def test_threads_that_nobody_knows_are_named_beside_the_field(web: TestClient) -> None:
    people(web).refusal = BadRequest("These threads were never seen: <x>.", code="unknown_threads")
    answer = send(web, f"{DRAIN}/waivers", OWNED | {"thread_ids": "x"})
    assert "never seen: &lt;x&gt;" in wrong(answer.text)["thread_ids"]


def test_attestations_that_are_open_can_be_ticked(web: TestClient) -> None:
    html = web.get(DRAIN).text
    assert 'value="recovery &lt;replicas&gt;"' in html
    assert 'value="export queues"' not in html
    assert send(web, f"{DRAIN}/attestations", {"owner": "Ana", "names": ["recovery <replicas>"]}).status_code == 303
    assert people(web).said[0][:3] == ("attest", "drop-await-approval", ("recovery <replicas>",))
    assert list(wrong(send(web, f"{DRAIN}/attestations", {"owner": "Ana"}).text)) == ["names"]


def test_what_was_said_is_listed_and_can_be_taken_back(web: TestClient) -> None:
    html = web.get(DRAIN).text
    assert "called the customer" in html
    assert "Ana &lt;b&gt;" in html
    for kind, said in (("waivers", "0a1b2c"), ("acknowledgements", "0a1b2c"), ("attestations", "7")):
        assert f'action="{DRAIN}/{kind}/{said}/end"' in html
        assert send(web, f"{DRAIN}/{kind}/{said}/end", {}).status_code == 303
    of_all = "/deployments/support-prod/acknowledgements/3d/end"
    assert f'action="{of_all}"' in html
    assert send(web, of_all, {}).headers["location"] == "/deployments/support-prod"
    ended = ("waiver", "acknowledgement", "attestation", "deployment acknowledgement")
    assert [what for what, *_ in people(web).said] == [f"end {each}" for each in ended]


def test_a_deployment_offers_what_can_be_acknowledged_there(web: TestClient) -> None:
    html = web.get("/deployments/support-prod").text
    path = "/deployments/support-prod/acknowledgements"
    assert f'action="{path}#acknowledge"' in html
    assert 'value="baseline"' in html
    assert 'value="canary_missing"' not in html
    answer = send(web, path, OWNED | {"codes": ["baseline"]})
    assert (answer.status_code, answer.headers["location"]) == (303, "/deployments/support-prod")
    assert people(web).said[0][:3] == ("acknowledge deployment", "support-prod", ("baseline",))
    again = send(web, path, {"codes": ["baseline"], "owner": "", "reason": "dealt with on <Monday>"})
    assert again.status_code == 422
    assert "owner" in wrong(again.text)
    assert 'value="dealt with on &lt;Monday&gt;"' in again.text
    assert 'value="baseline" checked' in again.text
    assert 'hx-get="' not in again.text
    assert re.search(r'id="acknowledge"\s+open', again.text)


@pytest.mark.parametrize(
    "path", ["/drains/new", f"{DRAIN}/edit", f"{DRAIN}/close", f"{DRAIN}/waivers", f"{DRAIN}/attestations/7/end"]
)
def test_a_form_that_another_site_sends_changes_nothing(web: TestClient, path: str) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.test"}):
        assert send(web, path, TYPED | OWNED, **headers).status_code == 403
    assert register(web).written == []
    assert people(web).said == []


@pytest.mark.parametrize("body", [b"a" * (MAX_BODY + 1), b"name=%ff", b"&".join([b"a=1"] * 2001)])
def test_a_body_that_is_no_form_is_refused(web: TestClient, body: bytes) -> None:
    assert web.post("/drains/new", content=body).status_code == 422


def test_the_audit_says_who_did_what(web: TestClient) -> None:
    register(web).entries = entries()
    html = web.get("/activity").text
    text = Document(html).text
    assert "took threads over for drop-await-approval" in text
    assert HOSTILE_ID not in html
    assert "<b>Ana</b>" not in html
    assert "something.new" in text
    assert "/activity?cursor=next" in html
    register(web).entries = ()
    assert "Nothing was changed" in web.get("/activity").text


def test_a_thread_that_is_opened_is_in_the_audit_once(web: TestClient) -> None:
    path = f"/deployments/support-prod/threads/{thread_id(9)}"
    web.get(path)
    web.get(path, headers={"HX-Request": "true", "HX-Request-Type": "partial"})
    assert register(web).written == [("opened", thread_id(9))]


def test_the_words_name_what_the_settings_take() -> None:
    assert set(words.LIMITS) == set(Limit.__args__)  # type: ignore[attr-defined]
