"""The Dockerfile, read: its stages with their steps, and what of the repository comes into the image."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Stage:
    """One ``FROM``. ``steps`` are (instruction, rest), continued lines joined."""

    base: str
    name: str | None
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        """What follows an instruction, each time."""
        return [rest for found, rest in self.steps if found == instruction]

    def last_list(self, instruction: str) -> list[str]:
        """The last of an instruction that is written as a JSON list."""
        return list(json.loads(self.all(instruction)[-1]))


def stages() -> list[Stage]:
    """Every stage, in order."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[Stage] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(base, name or None))
        else:
            found[-1].steps.append((instruction, rest.strip()))
    return found


def context() -> list[str]:
    """The files of the repository that come into the image: the last pattern of ``.dockerignore`` that matches decides."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.splitlines() if comes_in(name)]


def comes_in(name: str) -> bool:
    """Whether ``.dockerignore`` lets a file through."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    through = True
    for pattern in (line for line in lines if line and not line.startswith("#")):
        if any(_matches(part, pattern.removeprefix("!")) for part in _above(name)):
            through = pattern.startswith("!")
    return through


def _above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _matches(name: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch(name.rpartition("/")[2], pattern.removeprefix("**/"))
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)
