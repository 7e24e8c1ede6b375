"""Lengths of time as people write and read them. Pure."""

import re
from datetime import timedelta

LONGEST = timedelta(days=36500)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*$")


def parse_duration(raw: object) -> timedelta:
    """``90d``, ``1h``, ``30s`` -> timedelta. Raises ``ValueError`` with a sentence."""
    if isinstance(raw, timedelta):
        found = raw
    elif isinstance(raw, str) and (match := _DURATION.match(raw)):
        seconds = float(match.group(1)) * _UNITS[match.group(2)]
        if seconds > LONGEST.total_seconds():
            raise ValueError("a duration may be 36500d at most")
        found = timedelta(seconds=seconds)
    else:
        raise ValueError("write a duration as a number and a unit, like 30s, 15m, 1h or 90d")
    if found > LONGEST:
        raise ValueError("a duration may be 36500d at most")
    return found


def duration_text(found: timedelta) -> str:
    """The reverse: ``90d``, ``1h``, ``30s``; in the largest unit that says it in whole numbers."""
    seconds = found.total_seconds()
    unit = next(
        (unit for unit, size in reversed(_UNITS.items()) if unit != "w" and seconds and not seconds % size), "s"
    )
    return f"{seconds / _UNITS[unit]:.6f}".rstrip("0").rstrip(".") + unit


def span(length: timedelta) -> str:
    """``14 s``, ``22 min``, ``1 h 20 min``, ``2 d 4 h``."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if hours == 0:
        return f"{minutes} min"
    if days == 0:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"
