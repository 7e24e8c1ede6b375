"""`drains apply` and `drains close`, without a server and through one; and what they refuse, always with exit 3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_command_line import Installed, installed, says_why, says_why_in_json
from tests.flows.product import DEPLOYMENT, node_drain, one_deployment, to_toml

OF_FILE = node_drain("of-file", "support", "hold")
MINE = node_drain("mine", "support", "await_approval")
OTHER = node_drain("other", "support", "desk")


@pytest.fixture
def run(tmp_path: Path) -> Installed:
    return installed(tmp_path, one_deployment("http://127.0.0.1:9", OF_FILE))


def file_of(folder: Path, *drains: Mapping[str, Any]) -> str:
    file = folder / "drains.toml"
    file.write_text(to_toml({"drains": list(drains)}), encoding="utf-8")
    return str(file)


def outcomes(said: Any) -> dict[str, str]:
    return {item["drain"]: item["outcome"] for item in said["items"]}


def test_a_file_of_drains_is_applied_and_applied_again_without_a_change(run: Installed, tmp_path: Path) -> None:
    file = file_of(tmp_path, MINE, OTHER, OF_FILE)
    first = run("drains", "apply", file, "--json")
    assert first.code == 0, first.said
    assert outcomes(first.json) == {"mine": "created", "other": "created", "of-file": "unchanged"}
    again = run("drains", "apply", file_of(tmp_path, MINE | {"owner": "ops"}, OTHER), "--json")
    assert outcomes(again.json) == {"mine": "changed", "other": "unchanged"}
    shown = run("drains", "apply", file_of(tmp_path, MINE | {"remove_nodes": ["desk"], "owner": "ops"}))
    assert shown.code == 0
    assert "changed" in shown.out
    assert "version 2" in shown.out
    assert "remove_nodes" in shown.out
    audit = run("drains", "show", "mine", "--json").json
    assert (audit["versions"], audit["managed_by_file"], audit["owner"]) == (2, False, "ops")
    assert "drains apply" in run("drains", "show", "mine").out
    assert "settings file" in run("drains", "show", "of-file").out


def test_through_a_server_it_is_the_same(run: Installed, tmp_path: Path) -> None:
    with run.product.serve() as client:
        address = str(client.base_url)
        applied = run("drains", "apply", file_of(tmp_path, MINE), "--json", "--server", address)
        assert outcomes(applied.json) == {"mine": "created"}
        (entry,) = [each for each in client.get("/api/v1/activity").json()["items"] if each["subject"] == "mine"]
        assert entry["actor"] == "command line"
        assert run("drains", "close", "mine", "--server", address).code == 0
        assert client.get("/api/v1/drains/mine").json()["phase"] == "closed"


def test_a_closed_drain_answers_unknown(run: Installed, tmp_path: Path) -> None:
    run("drains", "apply", file_of(tmp_path, MINE))
    closed = run("drains", "close", "mine")
    assert (closed.code, "is closed" in closed.out) == (0, True)
    assert "was closed already" in run("drains", "close", "mine").out
    assert run("drains", "close", "mine", "--json").json["outcome"] == "unchanged"
    gate = run("gate", "mine", "--json")
    assert (gate.code, gate.json["verdict"]) == (2, "unknown")
    assert "drain_closed" in {reason["code"] for reason in gate.json["reasons"]}


WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "no TOML": ("[[drains", ("drains.toml", "TOML")),
    "no drains": ("", ("drains",)),
    "other tables": (to_toml({"deployments": [{"name": "x"}], "drains": [MINE]}), ("deployments",)),
    "unknown key": (to_toml({"drains": [MINE | {"colour": "red"}]}), ("drains.0.colour",)),
    "no target": (to_toml({"drains": [{**MINE, "remove_nodes": []}]}), ("something to remove",)),
    "twice": (to_toml({"drains": [MINE, MINE]}), ("two drains", "mine")),
    "unknown deployment": (to_toml({"drains": [MINE | {"deployment": "nowhere"}]}), ("nowhere", DEPLOYMENT)),
    "of the settings file": (to_toml({"drains": [MINE, OF_FILE | {"owner": "me"}]}), ("of-file", "drainboard.toml")),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_cannot_be_applied_changes_nothing(run: Installed, tmp_path: Path, case: str) -> None:
    content, words = WRONG[case]
    file = tmp_path / "drains.toml"
    file.write_text(content, encoding="utf-8")
    says_why(run("drains", "apply", str(file)), *words)
    says_why_in_json(run("drains", "apply", str(file), "--json"))
    names = [item["drain"] for item in run("drains", "list", "--json").json["items"]]
    assert names == ["of-file"]


def test_what_cannot_be_closed_is_said(run: Installed, tmp_path: Path) -> None:
    says_why(run("drains", "close", "of-file"), "of-file", "drainboard.toml")
    says_why(run("drains", "close", "nothing"), "nothing")
    says_why(run("drains", "apply", str(tmp_path / "missing.toml")), "missing.toml")
    assert says_why_in_json(run("drains", "close", "of-file", "--json"))["code"] == "managed_by_file"


def test_every_command_has_json_and_a_usage_error_is_whole_sentences(run: Installed) -> None:
    assert run("db", "upgrade", "--json").json == {"revision": run("db", "check", "--json").json["expected"]}
    assert says_why_in_json(run("serve", "--host", "0.0.0.0", "--json"))["code"] == "settings"
    assert says_why_in_json(run("gate", "a", "--nope", "--json"))["message"].startswith("No such option: --nope. ")
