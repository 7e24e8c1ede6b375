"""The part of LangSmith's filter language that the product writes: ``and``, ``eq`` and ``in`` on names and metadata."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from app.demo.langsmith.runs import Run

_TOKEN = re.compile(r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<word>[a-z_]+)|(?P<sign>[()\[\],]))')


class BadFilter(ValueError):
    """The expression is not one that the stand-in understands."""


def parse(text: str) -> Callable[[Run], bool]:
    """An expression as a question to a run. Raises ``BadFilter``."""
    tokens = list(_tokens(text))
    expression = _expression(tokens)
    if tokens:
        raise BadFilter(text)
    terms = [term for term in expression[1] if term] if expression[0] == "and" else [expression]
    return lambda run: _holds(terms, run)


def _holds(terms: list[Any], run: Run) -> bool:
    """A key and a value in one ``and`` are about the same pair."""
    wanted = {field: values for _, field, values in terms}
    if "name" in wanted and run.name not in wanted["name"]:
        return False
    keys, values = wanted.get("metadata_key"), wanted.get("metadata_value")
    if keys is None and values is None:
        return True
    return any(
        (keys is None or key in keys) and (values is None or value in values) for key, value in run.metadata.items()
    )


def _tokens(text: str) -> Iterator[str]:
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise BadFilter(text)
        place = match.end()
        yield match.group().strip()


def _expression(tokens: list[str]) -> Any:
    name = tokens.pop(0)
    _expect(tokens, "(")
    if name == "and":
        terms = [_expression(tokens)]
        while tokens and tokens[0] == ",":
            tokens.pop(0)
            terms.append(_expression(tokens))
        _expect(tokens, ")")
        return ("and", terms)
    field = tokens.pop(0)
    _expect(tokens, ",")
    if name not in ("eq", "in") or field not in ("name", "metadata_key", "metadata_value"):
        raise BadFilter(name)
    values = [_string(tokens)] if name == "eq" else _list(tokens)
    _expect(tokens, ")")
    return (name, field, values)


def _list(tokens: list[str]) -> list[str]:
    _expect(tokens, "[")
    values = [_string(tokens)]
    while tokens and tokens[0] == ",":
        tokens.pop(0)
        values.append(_string(tokens))
    _expect(tokens, "]")
    return values


def _string(tokens: list[str]) -> str:
    if not tokens or not tokens[0].startswith('"'):
        raise BadFilter(" ".join(tokens))
    return re.sub(r"\\(.)", r"\1", tokens.pop(0)[1:-1])


def _expect(tokens: list[str], sign: str) -> None:
    if not tokens or tokens.pop(0) != sign:
        raise BadFilter(sign)
