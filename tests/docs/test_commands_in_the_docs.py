"""What the documents tell people to type works, and ends as they say; settings and JSON in them are valid; links lead somewhere."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.settings import load_settings
from tests.delivery.commands import parse
from tests.docs.blocks import DOCUMENTS, ROOT, Block, blocks, commands
from tests.docs.world import World, world

SHELL = ("sh", "bash")
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
ELSEWHERE = {"drains.md"}  # run by tests/faults/test_the_reference_of_drains.py
WITH_COMMANDS = [
    path for path in DOCUMENTS if path.name not in ELSEWHERE and any(block.language in SHELL for block in blocks(path))
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("docs")) as found:
        yield found


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_end_as_the_document_says(document: Path, here: World) -> None:
    here.begin()
    for block in blocks(document):
        if block.language in SHELL:
            for command in commands(block):
                if block.is_run:
                    here.run(command)
                elif command.words[0] == "drainboard":
                    parse(command.words[1:])


@each_document
def test_settings_and_json_are_valid(document: Path, tmp_path: Path) -> None:
    for block in blocks(document):
        if block.language == "json":
            json.loads(block.text.replace("…", "x"))
        if block.language == "toml":
            _check_settings(block, tmp_path / "drainboard.toml")


def _check_settings(block: Block, file: Path) -> None:
    """A part of a settings file, with the deployments that it takes for granted."""
    found: dict[str, Any] = tomllib.loads(block.text)
    text = block.text
    named = {drain["deployment"] for drain in found.get("drains", ())}
    named |= {name for webhook in found.get("webhooks", ()) for name in webhook.get("deployments", ())}
    if isinstance(found.get("deployments"), dict):  # `[deployments.langsmith]` alone
        text = f'[[deployments]]\nname = "a"\nurl = "http://127.0.0.1:1"\n{text}'
    elif "deployments" not in found:
        text += "".join(f'\n[[deployments]]\nname = "{name}"\nurl = "http://127.0.0.1:1"\n' for name in sorted(named))
    file.write_text(text, encoding="utf-8")
    load_settings(file)


@each_document
def test_links_lead_to_what_is_there(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        place, _, anchor = target.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        file = document if not place else (document.parent / place).resolve()
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, target


def test_every_document_is_named_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    named = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", index)}
    documents = {path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts}
    assert documents - {ROOT / "docs" / "README.md"} <= named
