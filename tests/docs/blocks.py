"""The fenced blocks of the documents, and the commands in them, with the outcome that the document promises.

A command is expected to exit 0, a request to be answered below 400. A comment behind it says otherwise: ``# exits 1`` (or
several, ``# exits 0 drained, 1 blocked``), or ``# 404`` for a request. A block that begins with ``sh parse`` is read and not run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "decisions" not in path.parts and path.name not in ("api.md", "command-line.md", "settings.md", "evidence.md")
)
_FENCE = re.compile(r"^( *)```([a-z]+)( parse)?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block. ``is_run`` False: the document asks for it to be read only."""

    language: str
    text: str
    line: int
    is_run: bool = True


@dataclass(frozen=True)
class Command:
    """One command, with what follows it (a document that it reads, further lines of an argument). ``outcomes``: exit codes, or
    statuses of a request; empty: as usual."""

    text: str
    outcomes: frozenset[int]

    @property
    def words(self) -> list[str]:
        """As a shell splits it, comments aside."""
        return shlex.split(self.text.replace("\\\n", " "), comments=True)

    @property
    def needs_a_shell(self) -> bool:
        """Whether there is more to it than a program and its arguments."""
        return any(word in ("|", "&&") or word.startswith("<<") for word in self.words)


def blocks(document: Path) -> Iterator[Block]:
    """The blocks of a document that have a language."""
    text = document.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        _, language, parse, inner = found.groups()
        yield Block(language, inner, text.count("\n", 0, found.start()) + 1, is_run=parse is None)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a shell's block: lines, with those that continue one."""
    waiting: list[str] = []
    for line in block.text.splitlines():
        waiting.append(line)
        text = "\n".join(waiting)
        if _is_whole(text):
            if text.strip() and not text.strip().startswith("#"):
                yield Command(text.strip(), _outcomes(text))
            waiting = []
    assert not waiting, f"line {block.line}: a command does not end"


def _is_whole(text: str) -> bool:
    if text.endswith("\\"):
        return False
    if (document := re.search(r"<<'?([A-Z]+)'?", text)) and not text.endswith(f"\n{document.group(1)}"):
        return False
    try:
        shlex.split(text.partition("<<")[0] if document else text, comments=True)
    except ValueError:  # a quotation that goes on
        return False
    return True


def _outcomes(text: str) -> frozenset[int]:
    comment = re.search(r"\s#\s*(exits .*|\d{3}\b.*)$", text)
    return frozenset(int(code) for code in re.findall(r"\b\d{1,3}\b", comment.group(1))) if comment else frozenset()
