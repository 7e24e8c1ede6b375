"""The only place that reads a clock. ``now`` is taken once per request or poll and passed down."""

import time
from datetime import UTC, datetime, timedelta

CLOCKS_DIFFER = timedelta(seconds=30)  # at most, of two machines that work on one database


def utc_now() -> datetime:
    """The present time, UTC-aware."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds on a clock that never jumps; only differences mean anything."""
    return time.monotonic()


def is_too_old(at: datetime, most: timedelta, now: datetime) -> bool:
    """Whether evidence of ``at`` counts no more. What is of the future has no age that one could know: a clock is wrong."""
    return not -CLOCKS_DIFFER <= now - at <= most
