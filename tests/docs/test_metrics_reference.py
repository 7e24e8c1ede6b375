"""Every metric is in the reference, and whatever the reference, the alert rules and the dashboard name is really scraped."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.main import create_app
from app.settings import Settings
from tests.faults.conftest import DRAIN, NAME
from tests.faults.conftest import clock as clock  # noqa: PLC0414
from tests.faults.conftest import server as server  # noqa: PLC0414
from tests.faults.fake_server import CANARY, Clock, FakeAgentServer

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
BOARD = ROOT / "deploy" / "grafana" / "drainboard.json"
Samples = dict[str, list[dict[str, str]]]


@pytest.fixture
async def scraped(tmp_path: Path, migrated_sqlite: Path, server: FakeAgentServer, clock: Clock) -> tuple[str, Samples]:
    """A scrape of a Drainboard with one deployment, one drain and one webhook; and the labels of its samples, by name."""
    shutil.copy(migrated_sqlite, tmp_path / "board.db")
    parked = server.parked()
    settings = Settings(
        database_url=f"sqlite+aiosqlite:///{tmp_path}/board.db",
        home=tmp_path,
        deployments=[{"name": NAME, "url": "http://agent.test"}],
        drains=[DRAIN],
        webhooks=[{"name": "hook", "url": "https://hooks.test", "secret_env": "NOWHERE"}],
    )
    app = create_app(settings, schedule=False, transport=lambda _: server.transport)
    async with app.router.lifespan_context(app):
        for full in (True, False):
            await app.state.runtime.poll(NAME, full=full)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://drainboard.test") as http:
            await http.get(f"/deployments/{NAME}/threads/{parked.id}")
            text = (await http.get("/metrics")).text
    assert parked.id not in text
    assert CANARY not in text
    assert 'route="/deployments/{name}/threads/{thread_id:path}"' in text
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample.labels)
    return text, samples


def referenced() -> dict[str, set[str]]:
    rows = [line.split("|") for line in REFERENCE.read_text().splitlines() if line.startswith("| `drainboard_")]
    return {re.findall(r"`(\w+)`", row[1])[0]: set(re.findall(r"`(\w+)`", row[2])) for row in rows}


def selectors(expression: str) -> list[tuple[str, dict[str, tuple[str, str]]]]:
    """Metrics of an expression, with what it asks of their labels: ``{label: (operator, value)}``."""
    found = []
    for name, inner in re.findall(r"(drainboard_\w+)(?:\{([^}]*)\})?", expression):
        asked = {label: (how, value) for label, how, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', inner)}
        found.append((name, asked))
    return found


def check_expression(expression: str, samples: Samples) -> None:
    used = selectors(expression)
    assert used, expression
    for opened, closed in ("()", "{}", "[]"):
        assert expression.count(opened) == expression.count(closed), expression
    labels: set[str] = set()
    for name, asked in used:
        assert name in samples, f"{name} is not scraped"
        labels |= {label for found in samples[name] for label in found}
        for label, (how, value) in asked.items():
            values = {found.get(label) for found in samples[name]} - {None}
            assert values, f"{name} has no label {label}"
            if how in ("=", "=~") and not value.startswith("$"):
                missing = [each for each in value.split("|") if each not in values]
                assert not missing, f"{name} has never {label}={missing}"
    for grouping in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
        assert set(re.split(r",\s*", grouping)) <= labels | {"instance"}, expression


async def test_the_reference_has_every_metric_with_its_labels_and_no_other(scraped: tuple[str, Samples]) -> None:
    _, samples = scraped
    real = {}
    for name, labels in samples.items():
        base = re.sub(r"_(bucket|count|sum|created)$", "", name) if "_http_" in name else name
        real.setdefault(base, set()).update(label for found in labels for label in found if label != "le")
    assert referenced() == real


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("drain_verdict", {"deployment": NAME, "drain": "drop-it", "verdict": "drained"}),
        ("drain_threads", {"deployment": NAME, "drain": "drop-it", "disposition": "lost"}),
        ("alarm_threads", {"deployment": NAME, "code": "stranded"}),
        ("thread_conditions", {"deployment": NAME, "condition": "lost"}),
        ("source_throttled_total", {"deployment": NAME}),
        ("webhook_messages", {"webhook": "hook", "state": "dead"}),
    ],
)
def test_zeros_are_explicit(scraped: tuple[str, Samples], name: str, labels: dict[str, str]) -> None:
    families = text_string_to_metric_families(scraped[0])
    found = [sample for family in families for sample in family.samples if sample.name == f"drainboard_{name}"]
    assert [sample.value for sample in found if sample.labels == labels] == [0]


async def test_every_rule_is_well_formed_and_asks_for_what_is_scraped(scraped: tuple[str, Samples]) -> None:
    _, samples = scraped
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert re.fullmatch(r"Drainboard[A-Za-z]+", rule["alert"])
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s"))
        assert rule["labels"]["severity"] in ("page", "ticket", "info")
        check_expression(rule["expr"], samples)
        known = {label for name, _ in selectors(rule["expr"]) for found in samples[name] for label in found} | {
            "instance"
        }
        text = json.dumps(rule["annotations"])
        assert set(rule["annotations"]) == {"summary", "description"}
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known, rule["alert"]


async def test_every_panel_asks_for_what_is_scraped(scraped: tuple[str, Samples]) -> None:
    _, samples = scraped
    board: dict[str, Any] = json.loads(BOARD.read_text())
    shown: set[str] = set()
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    for panel in board["panels"]:
        for target in panel["targets"]:
            check_expression(target["expr"], samples)
            shown |= {name.removesuffix("_bucket") for name, _ in selectors(target["expr"])}
    (variable,) = [each for each in board["templating"]["list"] if each["type"] == "query"]
    check_expression(variable["query"]["query"], samples)
    missing = set(referenced()) - shown - {"drainboard_request_budget_per_minute"}
    assert not missing, "no panel shows them"
