"""The only place that reads a clock. ``now`` is taken once per request or poll and passed down."""

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """The present time, UTC-aware."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds on a clock that never jumps; only differences mean anything."""
    return time.monotonic()
