"""Drainboard's clock, which jumps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from unittest.mock import patch

import app.clock


@dataclass
class Clock:
    """The real time, put forward or back. ``jumps``: how often."""

    shift: timedelta = timedelta(0)
    jumps: int = 0

    def jump(self, to: timedelta) -> None:
        self.shift, self.jumps = to, self.jumps + 1

    def now(self, zone: tzinfo | None = None) -> datetime:
        return datetime.now(zone) + self.shift


@contextmanager
def jumping() -> Iterator[Clock]:
    """Drainboard reads this clock: the module that reads one has no other."""
    clock = Clock()
    with patch.object(app.clock, "datetime", clock):
        yield clock
