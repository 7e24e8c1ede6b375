"""One evaluation for many callers that ask the same at once, never one that began before its caller asked."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Turn(Generic[T]):
    """One evaluation, for those who asked before it began. ``now``: when the last of them asked."""

    now: datetime
    task: "asyncio.Task[T] | None" = None
    begun: bool = False


@dataclass
class Shared(Generic[T]):
    """Answers by key. While one is worked out, whoever asks waits for the next one, with all others who do."""

    _turns: dict[Hashable, list[_Turn[T]]] = field(default_factory=dict)

    async def ask(self, key: Hashable, now: datetime, work: Callable[[datetime], Awaitable[T]]) -> T:
        """The answer of an evaluation that begins after this call, at this time or a later one."""
        turns = self._turns.setdefault(key, [])
        if turns and not turns[-1].begun:
            turns[-1].now = max(turns[-1].now, now)
        else:
            turn = _Turn[T](now)
            before = turns[-1].task if turns else None
            turn.task = asyncio.create_task(self._take(key, turn, before, work))
            turn.task.add_done_callback(_is_seen)  # everybody may have gone by the time when it fails
            turns.append(turn)
        task = turns[-1].task
        if task is None:
            raise RuntimeError("a turn without work")
        return await asyncio.shield(task)

    async def _take(
        self, key: Hashable, turn: _Turn[T], before: "asyncio.Task[T] | None", work: Callable[[datetime], Awaitable[T]]
    ) -> T:
        if before is not None:
            await asyncio.wait([before])
        turn.begun = True
        try:
            return await work(turn.now)
        finally:
            turns = self._turns[key]
            turns.remove(turn)
            if not turns:
                del self._turns[key]


def _is_seen(task: "asyncio.Task[T]") -> None:
    """Look at how it ended: what nobody looks at, asyncio prints."""
    if not task.cancelled():
        task.exception()
