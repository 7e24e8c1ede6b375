"""Tables in Markdown, and what is said about the keys of a class: the text below each, as its source has it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from textwrap import dedent


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """The lines of a table, and an empty one."""
    return [_line(head), "|" + "---|" * len(head), *(_line(row) for row in rows), ""]


def code(word: object) -> str:
    """In monospace."""
    return f"`{word}`"


def words(text: str | None) -> str:
    """A docstring on one line, with the backticks of Markdown."""
    return " ".join((text or "").replace("``", "`").split())


def below(cls: type) -> dict[str, str]:
    """What the text below each key of a class says."""
    [found] = ast.parse(dedent(inspect.getsource(cls))).body
    assert isinstance(found, ast.ClassDef)
    said = {}
    for key, text in zip(found.body, found.body[1:], strict=False):
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name) and isinstance(text, ast.Expr):
            said[key.target.id] = words(str(ast.literal_eval(text.value)))
    return said


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
