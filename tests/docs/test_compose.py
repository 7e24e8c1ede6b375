"""The compose file starts what there is: no engine runs here, so its commands and names are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from app.cli.main import app
from app.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "drainboard"}
EMBEDDED: dict[str, Any] = yaml.safe_load((ROOT / "compose.embedded.yaml").read_text())
ALL_OF_OURS = {**OURS, **EMBEDDED["services"]}


@pytest.mark.parametrize("name", sorted(ALL_OF_OURS))
def test_a_service_runs_a_real_command_with_real_options(name: str) -> None:
    group, words = typer.main.get_command(app), list(ALL_OF_OURS[name]["command"])
    context = group.make_context("drainboard", [words[0]])
    found: Any = group
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
        context = (
            found.make_context(found.name, list(words), parent=context) if not hasattr(found, "commands") else context
        )
    assert context.command is found


def test_two_web_processes_and_three_workers_share_one_postgresql() -> None:
    assert {name: service.get("deploy", {}).get("replicas", 1) for name, service in OURS.items()} == {
        "prepare": 1,
        "web": 2,
        "worker": 3,
    }
    for service in OURS.values():
        given = {key.removeprefix("DRAINBOARD_").lower() for key in service["environment"]}
        assert given == {"database_url", "work"}
        assert given <= set(Settings.model_fields)
        assert service["environment"]["DRAINBOARD_DATABASE_URL"].partition("@")[2] == "database/drainboard"
        assert service["build"] == "."


@pytest.mark.parametrize("name", sorted(ALL_OF_OURS))
def test_a_service_writes_to_its_volume_alone_and_may_nothing_else(name: str) -> None:
    service = ALL_OF_OURS[name]
    assert service["volumes"] == ["data:/data", "./drainboard.toml:/data/drainboard.toml:ro"]
    assert (service["read_only"], service["tmpfs"]) == (True, ["/tmp"])
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])


def test_the_embedded_scale_is_one_process_that_is_reached_from_here_alone() -> None:
    [service] = EMBEDDED["services"].values()
    assert (service["build"], service["image"]) == (".", "drainboard")
    assert service["ports"] == [f"127.0.0.1:8400:{service['command'][-1]}"]
    assert "environment" not in service, "SQLite and polling here are the defaults"
    assert set(EMBEDDED["volumes"]) == {"data"}


def test_every_name_in_it_is_there() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        named = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert {name for name in named if not name.startswith(".")} <= set(COMPOSE["volumes"])
    assert SERVICES["front"]["command"][-1] == f"http://web:{OURS['web']['command'][-1]}"
    assert "EXPOSE 8400" in (ROOT / "Dockerfile").read_text()
