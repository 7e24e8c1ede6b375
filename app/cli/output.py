"""What the command line prints: tables with colour where the terminal has it, or JSON."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

MARKS = {"drained": "[green]✓ drained[/]", "blocked": "[red]✕ blocked[/]", "unknown": "[yellow]? unknown[/]"}
CHECKS = {"pass": "[green]✓[/]", "fail": "[red]✕[/]", "unknown": "[yellow]?[/]", "not_needed": "[dim]-[/]"}

WIDE = 10_000
NOBODY_READS = 3


def nobody_reads() -> int:
    """What is printed goes nowhere any more, and Python need not complain of that at its end; the exit code.

    Left to itself, rich or click would end with 1, which reads as blocked.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NOBODY_READS


class _Lines(Console):
    def on_broken_pipe(self) -> None:
        raise SystemExit(nobody_reads())


out = _Lines(soft_wrap=True, highlight=False)
err = _Lines(stderr=True, soft_wrap=True, highlight=False)


def as_json(value: Any) -> None:
    """One JSON document, and nothing else, on stdout."""
    text(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def text(whole: str) -> None:
    """As it is, on stdout."""
    try:
        sys.stdout.write(whole)
        sys.stdout.flush()
    except BrokenPipeError:
        raise SystemExit(nobody_reads()) from None


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A plain table. Cells may have markup; what comes from outside was escaped by ``plain``.

    A last column without a name holds sentences, and they are wrapped to the terminal. A name or a time is never broken,
    and in a pipe nothing is.
    """
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for index, name in enumerate(head):
        grid.add_column(name, no_wrap=bool(name) or index < len(head) - 1, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    if head[-1] or not out.is_terminal:
        grid.width = out.measure(grid, options=out.options.update(width=WIDE)).maximum
    out.print(grid)


@contextmanager
def progress(began: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """How far long work has come, on a terminal only; what is called with each step."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    with err.status(plain(began)) as shown:
        yield lambda step: shown.update(plain(step))


def minute(moment: str | None) -> str:
    """A time of the API, short enough for a column. The first of all times is one that nobody knows."""
    return f"{moment[:10]} {moment[11:16]}" if moment and not moment.startswith("1970-01-01T00:00") else ""


def plain(value: object) -> str:
    """Text for a terminal: no markup, no control characters."""
    shown = "" if value is None else str(value)
    return escape("".join(char if char.isprintable() else "�" for char in shown))


def sentence(text: str) -> str:
    """A sentence of ours, with names between backticks in bold."""
    parts = text.split("`")
    return "".join(f"[bold]{plain(part)}[/]" if index % 2 else plain(part) for index, part in enumerate(parts))


def answer(found: Mapping[str, Any]) -> None:
    """A verdict with its checklist."""
    out.print(
        f"{MARKS[found['verdict']]}  [bold]{plain(found['drain'])}[/]  [dim]{plain(found['deployment'])} / {plain(found['graph'])}[/]"
    )
    out.print(f"  {sentence(found['headline'])}")
    if found["next_step"]:
        out.print(f"  Next: {sentence(found['next_step'])}")
    out.print()
    table(
        ["", "check", ""],
        [(CHECKS[check["status"]], plain(check["name"]), sentence(check["sentence"])) for check in found["checks"]],
    )
    held = {name: count for name, count in found["dispositions"].items() if count}
    shown = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in held.items()) or "no threads"
    out.print(f"\n[dim]{found['population']['size']:,} threads: {plain(shown)}[/]")


def said(found: Mapping[str, Any]) -> None:
    """Where a drain is written, and what people said about it that counts now."""
    place = "in the settings file" if found["managed_by_file"] else "in the API, the pages or `drains apply`"
    out.print(f"[dim]Criteria version {found['criteria_version']}, to be changed {place}.[/]")
    for each in (*found["waivers"], *found["attested"]):
        what = ", ".join(each["names"]) or f"{each['count']:,} threads"
        until = f" until {each['until']}" if each["until"] else ""
        why = f": {each['reason']}" if each["reason"] else ""
        out.print(f"  {plain(each['kind'])} of {plain(what)} by {plain(each['owner'])}{plain(until)}{plain(why)}")


def problem(message: str) -> None:
    """Something went wrong: one sentence on stderr."""
    err.print(f"[red]drainboard:[/] {sentence(message)}")
