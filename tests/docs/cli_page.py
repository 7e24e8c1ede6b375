"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from app.cli.main import app
from tests.docs.tables import code, table, words

INTRODUCTION = """\
# Command line

Commands ask a running Drainboard when `--server` or `DRAINBOARD_SERVER` names one (with `DRAINBOARD_TOKEN` where one signs
in), else the database that `drainboard.toml` names. Results go to standard output, messages to standard error.

| exit code | |
|---|---|
| 0 | it is so, or it was done: `drained`, `safe`, complete |
| 1 | it is not so: `blocked` |
| 2 | it is not known: `unknown`, incomplete, not found |
| 3 | it could not be asked: wrong name, setting or option, no answer |

`--json` prints one JSON document, errors included: `{"error": {"code": "…", "message": "…"}}`.

This page is written by `./scripts/reference` from the commands. Do not edit it.
"""


def page() -> str:
    """The whole page."""
    lines = INTRODUCTION.splitlines()
    for path, command in commands():
        if hasattr(command, "commands"):
            continue
        lines += ["", f"## drainboard {' '.join(path)}", "", words(command.help), ""]
        rows = [_row(each) for each in command.params if each.name != "help"]
        lines += table(("", "default", ""), rows)[:-1] if rows else ["It takes no options."]
    return "\n".join(lines) + "\n"


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words, groups before their own commands."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


def _row(each: Any) -> tuple[str, str, str]:
    is_option = each.param_type_name == "option"
    shown = code(", ".join(each.opts)) if is_option else code((each.name or "").upper())
    return shown, _default(each, is_option=is_option), words(getattr(each, "help", None))


def _default(each: Any, *, is_option: bool) -> str:
    if each.required:
        return "required"
    if each.multiple:
        return "may be repeated"
    if not is_option or each.default in (None, False):
        return ""
    return code(each.default)
