"""How the command line shows a preflight."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.cli import output
from app.errors import SettingsError

_MARKS = {"safe": "[green]✓ safe[/]", "blocked": "[red]✕ would break[/]", "unknown": "[yellow]? unknown[/]"}
_COLOURS = {"safe": "green", "unknown": "yellow", "may_strand": "yellow"}


def print_answer(found: Mapping[str, Any], *, as_markdown: bool, as_json: bool) -> None:
    """A preflight as Markdown, as JSON, or as a table for people."""
    if as_markdown:
        output.text(_markdown(found))
    elif as_json:
        output.as_json(found)
    else:
        _print_table(found)


def write_markdown(found: Mapping[str, Any], file: Path) -> None:
    """The summary for a pull request's comment. Raises ``SettingsError``."""
    try:
        file.write_text(_markdown(found), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{file} cannot be written ({error.strerror}).") from None


def _markdown(found: Mapping[str, Any]) -> str:
    from app.drains.preflight_markdown import to_markdown

    return to_markdown(found)


def _print_table(found: Mapping[str, Any]) -> None:
    output.out.print(f"{_MARKS[found['verdict']]}  [bold]{output.plain(found['deployment'])}[/]")
    output.out.print(f"  {output.sentence(found['headline'])}")
    if found["changes"]:
        output.out.print()
        output.table(["outcome", "threads", "graph", "what"], [_row(one) for one in found["changes"]])
    for reason in found["reasons"]:
        output.out.print(f"[yellow]?[/] {output.sentence(reason['sentence'])}")
    for name in found["opened"]:
        output.out.print(
            f"Opened the drain [bold]{output.plain(name)}[/]. `drainboard gate {output.plain(name)}` waits for it."
        )
    if found["drains"] and not found["opened"]:
        names = ", ".join(output.plain(one["name"]) for one in found["drains"])
        output.out.print(f"[dim]With --open-drain: {names}.[/]")


def _row(one: Mapping[str, Any]) -> tuple[str, str, str, str]:
    colour = _COLOURS.get(one["outcome"], "red")
    outcome = f"[{colour}]{output.plain(one['outcome'].replace('_', ' '))}[/]"
    return outcome, f"{one['count']:,}", output.plain(one["graph"]), output.sentence(one["sentence"])


def print_taken(taken: Mapping[str, Any]) -> None:
    """What became of a topology that was pushed."""
    output.table(
        ["graph", "joins", "deferred", ""],
        [
            (output.plain(one["graph"]), str(one["joins"]), str(one["deferred"]), output.sentence(one["sentence"]))
            for one in taken["graphs"]
        ],
    )
