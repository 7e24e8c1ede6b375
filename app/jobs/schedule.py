"""What goes on in this process until it ends: the polls of each deployment, and what is sent to the receivers of webhooks."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Schedule:
    """Tasks that are never over by themselves. ``is_here``: this process has a schedule; another one may have it."""

    is_here: bool
    _tasks: dict[str, asyncio.Task[Any]] = field(default_factory=dict)

    def add(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Begin with something."""
        self._tasks[name] = asyncio.create_task(work, name=f"schedule {name}")

    @property
    def size(self) -> int:
        """How many parts it has."""
        return len(self._tasks)

    @property
    def ended(self) -> tuple[str, ...]:
        """What should go on and does not."""
        return tuple(name for name, task in self._tasks.items() if task.done())

    @property
    def counts(self) -> dict[str, int]:
        """How many parts go on, and how many have ended."""
        return {"alive": self.size - len(self.ended), "ended": len(self.ended)}

    async def stop(self) -> None:
        """End all of it."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
