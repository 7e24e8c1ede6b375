"""Cursors of lists that are paged by key: opaque to the caller, checked when they come back."""

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime

from app.errors import BadRequest

_NOT_OURS = "The cursor is not one of this list. Start again without a cursor."


def close_cursor(sort: str, value: str, key: str) -> str:
    """The cursor after a line of a list in an order."""
    return base64.urlsafe_b64encode(json.dumps([sort, value, key]).encode()).decode().rstrip("=")


def open_cursor(cursor: str, sort: str) -> tuple[str, str]:
    """Value and key of the line to go on after. Raises ``BadRequest``."""
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        was, value, key = (str(part) for part in found)
    except (ValueError, TypeError, binascii.Error, UnicodeDecodeError):
        was, value, key = "", "", ""
    if was != sort:
        raise BadRequest(_NOT_OURS)
    return value, key


def page_of(names: Sequence[str], sort: str, cursor: str | None, limit: int) -> tuple[tuple[str, ...], str | None]:
    """The names of a page, in alphabetical order, and the cursor of the next one: each name is on one page, whatever is made or
    removed meanwhile. Raises ``BadRequest``."""
    after = open_cursor(cursor, sort)[1] if cursor is not None else ""
    left = sorted(name for name in names if name > after)
    page = tuple(left[:limit])
    return page, close_cursor(sort, "", page[-1]) if len(left) > limit else None


def cursor_time(value: str) -> datetime:
    """The time in a cursor. Raises ``BadRequest``."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise BadRequest(_NOT_OURS) from None
    if found.tzinfo is None:
        raise BadRequest(_NOT_OURS)
    return found
