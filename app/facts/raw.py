"""Looking into an answer that came from outside, piece by piece. Pure; nothing of a value is kept, and no sentence quotes one."""

import re
from collections.abc import Collection, Mapping
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any

from app.facts.privacy import identifier

MAX_METADATA = 200
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Malformed(ValueError):
    """An answer that is not shaped as the API promises. The message names the place, never what stood there."""


def mapped(raw: object, what: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise Malformed(f"the {what} is not an object")
    return raw


def listed(raw: object, what: str) -> Collection[Any]:
    if not isinstance(raw, list):
        raise Malformed(f"the {what} is not a list")
    return raw


def maybe_mapped(raw: object, what: str) -> Mapping[str, Any] | None:
    """None where there is none; something else in its place is no answer that one could trust."""
    return None if raw is None else mapped(raw, what)


def maybe_listed(raw: object, what: str) -> Collection[Any]:
    return () if raw is None else listed(raw, what)


def text_of(raw: object, what: str) -> str:
    if (found := identifier(raw)) is None:
        raise Malformed(f"a {what} is missing")
    return found


def time_of(raw: object, what: str) -> datetime:
    if (found := maybe_time(raw)) is None:
        raise Malformed(f"a {what} is missing or no time")
    return found


def maybe_time(raw: object) -> datetime | None:
    if not isinstance(raw, str):
        return None
    try:
        return in_utc(datetime.fromisoformat(raw))
    except ValueError:
        return None


def in_utc(found: datetime) -> datetime | None:
    """The same time in UTC; None at either end of the calendar, where nothing can be added to it."""
    if not MINYEAR + 1 < found.year < MAXYEAR - 1:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def known_source(raw: object) -> str | None:
    """How a checkpoint came about, in LangGraph's own words; metadata is the caller's too, so no other word is kept."""
    return raw if isinstance(raw, str) and raw in ("input", "loop", "update", "fork") else None


def step_of(metadata: Mapping[str, Any]) -> int | None:
    step = metadata.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def uuid_of(raw: object) -> str | None:
    """An id that looks like one; metadata is the caller's too."""
    return raw if isinstance(raw, str) and _UUID.fullmatch(raw) else None


def checkpoint_of(state: Mapping[str, Any]) -> str | None:
    """The checkpoint of a state; None when nothing was ever written. A never-run thread has null metadata too. An id that
    cannot be one is no sign that a thread never ran."""
    checkpoint = maybe_mapped(state.get("checkpoint"), "checkpoint")
    found = (checkpoint or {}).get("checkpoint_id")
    found = state.get("checkpoint_id") if found is None else found
    return None if found is None else text_of(found, "checkpoint id")


def parent_of(state: Mapping[str, Any]) -> str | None:
    """The parent of a checkpoint; None: it is the first of its line. What cannot be read is no sign of that."""
    parent = maybe_mapped(state.get("parent_checkpoint"), "parent checkpoint")
    found = (parent or {}).get("checkpoint_id")
    found = state.get("parent_checkpoint_id") if found is None else found
    return None if found is None else text_of(found, "parent checkpoint id")


def scalar_of(value: object) -> str:
    """An allow-listed metadata value as text. Lists and objects are not kept."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\0", "")[:MAX_METADATA] if isinstance(value, (str, int, float)) else ""
