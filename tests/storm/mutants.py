"""Rules of the product, broken on purpose: the storm must notice each of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

from sqlalchemy.exc import DBAPIError

from app.drains import verdicts
from app.facts import states
from app.inventory import register
from app.jobs.polling import lock, work
from app.sources.agent_server import client
from tests.storm.proxy import Weather

Mutant = Callable[[], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def half_is_enough() -> Iterator[None]:
    """A poll that did not see everything counts like one that did."""
    with patch.object(work.Poll, "miss", lambda *_: None):
        yield


@contextlib.contextmanager
def odd_is_new() -> Iterator[None]:
    """A state whose checkpoint cannot be read is that of a thread that never ran."""

    def lenient(state: Mapping[str, Any]) -> str | None:
        checkpoint = state.get("checkpoint")
        return checkpoint.get("checkpoint_id") if isinstance(checkpoint, Mapping) else None

    reduce = states.reduce_state

    def believed(raw: Any, reading: Any) -> Any:
        is_new = isinstance(raw, Mapping) and lenient(raw) is None
        return reduce(dict(raw) | NEVER_RAN if is_new else raw, reading)

    with patch.object(client, "reduce_state", believed):
        yield


NEVER_RAN = {"checkpoint": None, "tasks": [], "next": [], "metadata": None, "values": {}}


@contextlib.contextmanager
def any_404_is_gone() -> Iterator[None]:
    """Whoever answers 404, the thread is gone."""
    with patch.object(client, "_NAMES_A_THREAD", re.compile("")):
        yield


@contextlib.contextmanager
def nothing_grows_old() -> Iterator[None]:
    """Evidence counts however old it is."""
    with patch.object(verdicts, "is_too_old", lambda *_: False):
        yield


@contextlib.contextmanager
def the_audit_can_wait() -> Iterator[None]:
    """A line of the audit that cannot be written is let go, and what it is about is done."""
    add = register.add_activity

    async def try_to_add(connection: Any, *given: Any, **more: Any) -> None:
        with contextlib.suppress(DBAPIError):
            await add(connection, *given, **more)

    with patch.object(register, "add_activity", try_to_add):
        yield


@contextlib.contextmanager
def never_lets_go() -> Iterator[None]:
    """The lock of a poll is given back by time alone."""

    async def nothing(*_: Any) -> None:
        return

    with patch.object(lock.PollLock, "_release", nothing):
        yield


MUTANTS: Mapping[str, Mutant] = {
    "half": half_is_enough,
    "new": odd_is_new,
    "404": any_404_is_gone,
    "old": nothing_grows_old,
    "audit": the_audit_can_wait,
    "lock": never_lets_go,
}
WHERE_IT_SHOWS: Mapping[str, Weather | tuple[float, str]] = {
    "half": Weather(1.0, ("broken_waiting",), "/threads/search"),
    "new": Weather(0.3, ("wrong_checkpoint",), "/state"),
    "404": Weather(0.8, ("not_here",), "GET /threads/[^/]*(/state)?$"),
    "old": Weather(),
    "audit": (0.5, "INTO activity"),
    "lock": (0.5, "UPDATE deployment"),
}
"""Weather in which the broken rule is the one that matters: of the network, or how often the database fails and where."""
