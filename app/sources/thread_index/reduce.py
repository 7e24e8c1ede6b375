"""From a row of the application's list to a fact. Pure; columns that nobody asked for are dropped here."""

import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from app.facts.index import IndexEntry

COLUMNS = ("thread_id", "graph_id", "created_at", "closed_at", "state_version", "state")
LONGEST_ID = 255
LONGEST_WORD = 100


class Malformed(ValueError):
    """A row without a usable thread id. ``message`` never quotes it."""


def reduce_entry(raw: Mapping[str, Any], *, as_is: bool = False) -> tuple[IndexEntry, tuple[str, ...]]:
    """The entry, and the columns whose value could not be used and was left out. Raises ``Malformed``.

    ``as_is``: two ids are the same only if they are written the same, since no server writes them its own way.
    What is left out counts against a drain: without ``closed_at`` the thread is open, without ``created_at`` it is young.
    """
    bad: list[str] = []

    def read(column: str, parse: Any) -> Any:
        value = raw.get(column)
        if value is None or value == "":
            return None
        try:
            return parse(value)
        except (ValueError, TypeError, OverflowError):
            bad.append(column)
            return None

    entry = IndexEntry(
        thread_id=_thread_id(raw.get("thread_id"), as_is=as_is),
        graph_id=read("graph_id", lambda value: _word(value, LONGEST_ID)),
        created_at=read("created_at", _time),
        closed_at=read("closed_at", _time),
        state_version=read("state_version", _version),
        state=read("state", lambda value: _word(value, LONGEST_WORD)),
    )
    return entry, tuple(bad)


def _thread_id(raw: object, *, as_is: bool) -> str:
    text = str(raw) if isinstance(raw, str | uuid.UUID) else ""
    if not text.strip():
        raise Malformed("there is no thread_id")
    if len(text) > LONGEST_ID or not text.isprintable():
        raise Malformed(f"its thread_id is longer than {LONGEST_ID} characters, or has some that cannot be printed")
    if as_is:
        return text
    try:
        return str(uuid.UUID(text.strip()))  # the same id in capitals or without dashes is the same thread
    except ValueError:
        return text.strip()


def _word(raw: object, longest: int) -> str:
    if not isinstance(raw, str) or len(raw) > longest or not raw.isprintable():
        raise ValueError
    return raw


def _version(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise TypeError
    found = int(raw)
    if not 0 <= found <= 9999:
        raise ValueError
    return found


def _time(raw: object) -> datetime:
    """A time; one without a zone is UTC."""
    if isinstance(raw, str):
        raw = datetime.fromisoformat(raw.strip())
    if isinstance(raw, date) and not isinstance(raw, datetime):
        raw = datetime(raw.year, raw.month, raw.day, tzinfo=UTC)
    if not isinstance(raw, datetime):
        raise TypeError
    return raw.replace(tzinfo=UTC) if raw.tzinfo is None else raw.astimezone(UTC)
