"""``drainboard tokens``, and a server that asks for one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.commands.test_command_line import Installed, installed, says_why, says_why_in_json
from tests.flows.product import DEPLOYMENT, free_port, one_deployment, wait_until

DRAINBOARD = Path(sys.executable).with_name("drainboard")


@pytest.fixture
def run(tmp_path: Path) -> Installed:
    return installed(tmp_path, one_deployment("http://127.0.0.1:9") | {"sign_in": {"mode": "token"}})


def test_a_token_is_made_listed_and_revoked(run: Installed) -> None:
    made = run(
        "tokens", "create", "pipeline", "--rights", "read,operate", "--deployments", DEPLOYMENT, "--expires", "30d"
    )
    assert made.code == 0
    assert made.out.startswith("drb_")
    assert len(made.out.splitlines()) == 1
    (listed,) = run("tokens", "list", "--json").json["items"]
    assert (listed["name"], listed["rights"], listed["deployments"]) == ("pipeline", ["operate", "read"], [DEPLOYMENT])
    assert made.out.strip() not in run("tokens", "list").said
    says_why(run("tokens", "create", "pipeline", "--rights", "read"), "already")
    assert run("tokens", "revoke", "pipeline").code == 0
    says_why(run("tokens", "revoke", "pipeline"), "pipeline")
    assert (
        run("tokens", "create", "pipeline", "--rights", "read", "--expires", "never", "--json").json["expires_at"]
        is None
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("create", "x", "--rights", "everything"), "read, operate"),
        (("create", "x", "--rights", ","), "at least one right"),
        (("create", "x", "--rights", "read", "--deployments", "nowhere"), "nowhere"),
        (("create", "x", "--rights", "read", "--expires", "soon"), "--expires"),
        (("create", " ", "--rights", "read"), "name"),
        (("create", "x"), "--rights"),
        (("revoke", "nobody"), "nobody"),
    ],
)
def test_what_is_wrong_with_a_token_is_said(run: Installed, arguments: tuple[str, ...], word: str) -> None:
    says_why(run("tokens", *arguments), word)
    says_why_in_json(run("tokens", *arguments, "--json"))


def test_commands_on_the_database_itself_need_no_token(run: Installed) -> None:
    assert run("drains", "list").code == 0


@pytest.fixture
def served(run: Installed) -> Iterator[str]:
    """A real server beyond this machine, which sign-in allows without another word."""
    port = free_port()
    process = subprocess.Popen(
        [DRAINBOARD, "serve", "--host", "0.0.0.0", "--port", str(port)],
        cwd=run.product.folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("DRAINBOARD_")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is None and _answers(url), seconds=60)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_a_command_needs_the_token_of_its_server(run: Installed, served: str) -> None:
    token = run("tokens", "create", "cli", "--rights", "read").out.strip()
    says_why(run("drains", "list", "--server", served), "API token")
    says_why(run("drains", "list", "--server", served, DRAINBOARD_TOKEN="drb_wrong"), "not known")
    assert run("drains", "list", "--server", served, DRAINBOARD_TOKEN=token).code == 0
    says_why(run("poll", DEPLOYMENT, "--server", served, DRAINBOARD_TOKEN=token), "operate")
