"""A preflight as Markdown for a pull request's comment. Pure.

The first line is a marker that no reader sees, the same for every run of one deployment: who posts the comment finds the last
one by it, and writes over it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

MARKER = "<!-- drainboard-preflight:{deployment} -->"
_WORDS = {"safe": "✅ safe", "blocked": "⛔ would break live threads", "unknown": "❔ not known"}
_MOST = 50


def to_markdown(answer: Mapping[str, Any]) -> str:
    """The summary; ``answer`` is the answer's JSON."""
    return "\n".join(_lines(answer)) + "\n"


def marker(deployment: str) -> str:
    """What the comment of a deployment begins with."""
    return MARKER.format(deployment=_safe(deployment))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    yield marker(answer["deployment"])
    yield f"### Drainboard preflight: {_WORDS[answer['verdict']]}"
    yield ""
    yield f"{_text(answer['headline'])} Deployment {_code(answer['deployment'])}."
    changes = answer["changes"]
    if changes:
        yield ""
        yield "| graph | change | threads | outcome | |"
        yield "|---|---|---:|---|---|"
        for one in changes[:_MOST]:
            what = f"{one['kind'].replace('_', ' ')} {_code(one['name'])}"
            outcome = one["outcome"].replace("_", " ")
            yield f"| {_bars(_code(one['graph']))} | {_bars(what)} | {one['count']:,} | {outcome} | {_cell(one['sentence'])} |"
        if len(changes) > _MOST:
            yield f"| | | | | and {len(changes) - _MOST} more |"
    if answer["reasons"]:
        yield ""
        yield "**Not known**"
        yield ""
        yield from (f"- {_text(one['sentence'])}" for one in answer["reasons"])
    if answer["opened"]:
        yield ""
        yield f"Opened: {', '.join(_code(name) for name in answer['opened'])}."
    yield ""
    yield f"<sub>Threads as of {answer['as_of'] or 'never'}.</sub>"


def _code(text: str) -> str:
    return f"`{_safe(text).replace('`', chr(39))}`"


def _cell(text: str) -> str:
    return _bars(_text(text))


def _bars(text: str) -> str:
    """A table's cell ends at a bar, in code too."""
    return text.replace("|", "\\|")


def _text(text: str) -> str:
    return _safe(text).replace("<", "&lt;")


def _safe(text: str) -> str:
    """One line, and nothing that ends a comment."""
    return " ".join(text.replace("--", "- -").split())
