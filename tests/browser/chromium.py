"""Finds a Chromium, and starts it so that it talks to nobody but us."""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING = "There is no Chromium: install it (on Debian: apt install chromium) or run `.venv/bin/python -m playwright install chromium`."


def find_chromium(playwright: Playwright) -> str | None:
    """The system's, else Playwright's own."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def launch(playwright: Playwright) -> Browser:
    """Start it; a test without any Chromium fails."""
    path = find_chromium(playwright)
    if path is None:
        pytest.fail(MISSING, pytrace=False)
    # A proxy of the caller's is not for a server on this machine.
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS], env=environment)
