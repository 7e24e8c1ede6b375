"""Errors that carry their code, their status and a sentence that says what to do."""

from datetime import datetime


class DrainboardError(Exception):
    """Something that a person can act on. ``message`` says what happened and what to do; it never quotes a payload."""

    code = "internal"
    status = 500

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class SettingsError(DrainboardError):
    """A setting is wrong, unknown or missing."""

    code = "settings"


class NotFound(DrainboardError):
    """There is no such deployment, drain, poll or page."""

    code = "not_found"
    status = 404


class BadRequest(DrainboardError):
    """The question itself is malformed."""

    code = "bad_request"
    status = 422


class TooLarge(DrainboardError):
    """More was sent at once than is read."""

    code = "too_large"
    status = 413


class Conflict(DrainboardError):
    """What is asked for does not go together with what is there."""

    code = "conflict"
    status = 409


class Unauthenticated(DrainboardError):
    """Nobody knows who asks."""

    code = "unauthenticated"
    status = 401


class TooMany(DrainboardError):
    """Tried too often in a short time."""

    code = "too_many"
    status = 429


class Forbidden(DrainboardError):
    """This caller may not do this."""

    code = "forbidden"
    status = 403


class StoreError(DrainboardError):
    """The database cannot be used: unwritable, locked, of another version."""

    code = "database"
    status = 503


class SourceError(DrainboardError):
    """A source could not be asked, or answered nonsense. ``message`` never quotes the answer."""

    code = "source_failed"
    status = 502


class Throttled(SourceError):
    """The source asked us to slow down."""

    code = "throttled"


def at(when: datetime) -> str:
    """A time as our sentences and JSON write it: RFC 3339, UTC, whole seconds."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
