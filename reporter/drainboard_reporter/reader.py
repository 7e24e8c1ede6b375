"""Asks the graph for one thread after another. It only reads, through what LangGraph offers to everybody: ``get_state`` and
``get_state_history`` of the graph, and the saver's ``get_tuple``, which ``get_state`` itself reads with.

``get_state`` shows what the code of today makes of a thread. A node that the code no longer has is not in it, nor the question
that it asked, nor what a join holds: these are in the checkpoint.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from drainboard_reporter import wire
from drainboard_reporter.facts.raw import maybe_time, scalar_of
from drainboard_reporter.facts.reading import Reading
from drainboard_reporter.facts.states import reduce_history, reduce_state
from drainboard_reporter.facts.types import CheckpointFacts, StateFacts, Topology
from drainboard_reporter.snapshots import Stored, state_of, stored_of
from drainboard_reporter.wire import Json

HISTORY_PAGE = 10
MOST_TRIES = 3
MAX_HISTORY = 200
LONGEST_LIFE = 2000  # checkpoints that are looked through for a thread's beginning, where no first step is stored
_PASSING = (OSError, TimeoutError, asyncio.TimeoutError)
_PASSING_NAMES = frozenset(
    {"OperationalError", "InterfaceError", "PoolTimeout", "TooManyRequests", "PoolClosed", "InternalError"}
)


class _MovedError(Exception):
    """State and checkpoint are not of the same head."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A thread to read. ``waits``: what was seen waiting there, as task, namespace and checkpoint; if it left, the history of
    its namespace is told too. ``head``: the one that was told last; under it the thread's beginning is known."""

    thread_id: str
    waits: tuple[tuple[str, str, str], ...] = ()
    head: str | None = None


@dataclass
class Reader:
    """Reads threads of one graph. ``failed_in_a_row``: how often the store could not be asked, and nothing else happened."""

    graph: Any
    topology: Topology
    reading: Reading
    failed_in_a_row: int = 0
    _is_async: bool | None = None

    async def line(self, wanted: Wanted) -> Json:
        """What is to be told of a thread. A thread that cannot be read is told as that."""
        line: Json = {"thread_id": wanted.thread_id, "found": "state"}
        try:
            found = await self._read_at_rest(wanted)
        except _MovedError:
            return line | {"found": "not_now"}
        except Exception as error:  # noqa: BLE001 - the state's own code may raise anything, and one thread must not stop the rest
            passing = isinstance(error, _PASSING) or type(error).__name__ in _PASSING_NAMES
            self.failed_in_a_row = self.failed_in_a_row + 1 if passing else 0
            return line | {"found": "not_now" if passing else "unreadable"}
        self.failed_in_a_row = 0
        return line | found

    async def _read_at_rest(self, wanted: Wanted) -> Json:
        """A thread that moves between two questions is asked again."""
        for _ in range(MOST_TRIES - 1):
            with contextlib.suppress(_MovedError):
                return await self._read(wanted)
        return await self._read(wanted)

    async def _read(self, wanted: Wanted) -> Json:
        config = {"configurable": {"thread_id": wanted.thread_id}}
        snapshot = await self._state(config)
        state = reduce_state(state_of(snapshot), self.reading)
        if state.checkpoint_id is None:
            return {"found": "nothing"}
        stored = await self._stored(config, state)
        return {
            "begun_at": None if state.checkpoint_id == wanted.head else await self._begun_at(config),
            "metadata": _metadata(snapshot.metadata, self.reading),
            "state": wire.state_json(state),
            "stored": None if stored is None else wire.stored_json(stored),
            "histories": [
                wire.history_json(ns, await self._history(wanted.thread_id, ns, down_to))
                for ns, down_to in _left(wanted, state)
            ],
        }

    async def _state(self, config: Json) -> Any:
        if self._is_async is None:
            self._is_async = await self._answers_async(config)
        if self._is_async:
            return await self.graph.aget_state(config, subgraphs=True)
        return self.graph.get_state(config, subgraphs=True)

    async def _answers_async(self, config: Json) -> bool:
        """Whether the saver can be asked without blocking; those that cannot say so."""
        try:
            await self.graph.checkpointer.aget_tuple(config)
        except NotImplementedError:
            return False
        return True

    async def _stored(self, config: Json, state: StateFacts) -> Stored | None:
        """What the checkpoint holds, if it is still the one that the state was made of."""
        saver = self.graph.checkpointer
        saved = await saver.aget_tuple(config) if self._is_async else saver.get_tuple(config)
        if saved is None or saved.config["configurable"].get("checkpoint_id") != state.checkpoint_id:
            raise _MovedError
        shown = {leaf.task_id for leaf in state.leaves if not leaf.inside_unseen} | state.finished
        shown |= {step.rpartition(":")[2] for leaf in state.leaves for step in leaf.ns.split("|") if step}
        return stored_of(saved, self.reading, self.topology, shown=shown)

    async def _begun_at(self, config: Json) -> str | None:
        """When the thread was begun: its first checkpoint. None where it is too far back to be seen."""
        first = [found async for found in self._snapshots(config, filter={"step": -1}, limit=1)]
        if first:
            return _iso(maybe_time(first[0].created_at))
        seen: list[CheckpointFacts] = []
        async for page in self._pages(config):
            seen = list(page)
            if seen[-1].parent_id is None:
                return _iso(seen[-1].created_at)
        return None

    async def _history(self, thread_id: str, ns: str, down_to: str) -> tuple[CheckpointFacts, ...] | None:
        """A namespace's checkpoints, newest first, down to one of them where it is near enough."""
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
        found: list[CheckpointFacts] = []
        try:
            async for page in self._pages(config):
                found += page
                if len(found) >= MAX_HISTORY or any(one.id == down_to for one in page):
                    break
        except Exception:  # noqa: BLE001 - a namespace that the code no longer has; how the work left is then not explained
            return None
        return tuple(found)

    async def _pages(self, config: Json) -> AsyncIterator[Sequence[CheckpointFacts]]:
        """Checkpoints in small pages, reduced at once: each carries a whole state."""
        before: Json | None = None
        for _ in range(LONGEST_LIFE // HISTORY_PAGE):
            raw = [state_of(one) async for one in self._snapshots(config, before=before, limit=HISTORY_PAGE)]
            page = reduce_history(raw)
            if page:
                yield page
            if len(page) < HISTORY_PAGE:
                return
            place = {**config["configurable"], "checkpoint_id": page[-1].id}
            before = {"configurable": place}

    async def _snapshots(self, config: Json, **options: Any) -> AsyncIterator[Any]:
        if self._is_async:
            async for found in self.graph.aget_state_history(config, **options):
                yield found
        else:
            for found in islice(self.graph.get_state_history(config, **options), options["limit"]):
                yield found


def _left(wanted: Wanted, state: StateFacts) -> list[tuple[str, str]]:
    """Namespace and checkpoint of what waited and is not pending in the state any more."""
    standing = {leaf.task_id for leaf in state.leaves}
    standing |= {step.rpartition(":")[2] for leaf in state.leaves for step in leaf.ns.split("|") if step}
    return sorted({(ns, checkpoint) for task, ns, checkpoint in wanted.waits if task not in standing and checkpoint})


def _metadata(metadata: object, reading: Reading) -> Json:
    found = metadata if isinstance(metadata, Mapping) else {}
    return {key: scalar_of(found[key]) for key in reading.metadata_keys if key in found}


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()
