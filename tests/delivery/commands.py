"""Whether words are a command of ours, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer.main

from app.cli.main import app


def parse(words: Sequence[str]) -> None:
    """Read a command line as the program would. Raises what it would: an unknown command, option or value."""
    found: Any = typer.main.get_command(app)
    rest = list(words)
    context = None
    while hasattr(found, "commands") and rest and not rest[0].startswith("-"):
        context = found.make_context(rest[0], list(rest), parent=context, resilient_parsing=True)
        if rest[0] not in found.commands:
            raise LookupError(f"there is no command {rest[0]}")
        found = found.commands[rest.pop(0)]
    if not hasattr(found, "commands"):
        found.make_context(found.name, rest, parent=context)
    elif rest not in (["--help"], ["--version"]):
        raise LookupError(f"{' '.join(words)} is no whole command")
