"""The topology that a command is about: of a graph, of a ``langgraph.json``, or as it was written to a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import typer

from app.candidate.running import CandidateError, Source, read_candidate


def read(source: Source, file: Path | None = None, *, takes_file: bool = False) -> dict[str, Any]:
    """The topology; ``takes_file``: the command has an option for one that was written before.

    Raises ``CandidateError``, and a usage error when it is not said what is meant.
    """
    named = [source.graph, source.langgraph_json, file]
    if sum(one is not None for one in named) != 1:
        options = "--graph, --langgraph-json and --topology" if takes_file else "--graph and --langgraph-json"
        raise typer.BadParameter(f"Name one of {options}.")
    if file is not None:
        return _from_file(file)
    return read_candidate(source, secrets=frozenset(_secrets()))


def _from_file(file: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(file.read_bytes())
    except OSError:
        raise CandidateError(f"There is no file {file} that can be read.") from None
    except orjson.JSONDecodeError:
        raise CandidateError(f"{file} is not JSON. `drainboard topology` writes such a file.") from None
    if not isinstance(found, dict):
        raise CandidateError(f"{file} is no topology. `drainboard topology` writes such a file.")
    return found


def _secrets() -> Iterator[str]:
    """The names of environment variables that the settings take a secret from. Settings that are wrong are an error: nobody
    would know what to keep back."""
    from app.settings import load_settings

    yield from _names(load_settings().model_dump())


def _names(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for key, value in found.items():
            if isinstance(key, str) and key.endswith("_env") and isinstance(value, str):
                yield value
            yield from _names(value)
    elif isinstance(found, (list, tuple)):
        for one in found:
            yield from _names(one)
