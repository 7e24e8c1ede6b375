"""A thread that a reporter tells of -> facts, judged by the very rules that judge what an Agent Server answers. Pure.

There is no row without a server, so one is made of the head: the fields that are stored, the questions that are stored, the time
of the head. Nobody sees a run.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

from app.facts.types import (
    CheckpointFacts,
    Condition,
    Interrupt,
    RowFacts,
    RunFacts,
    Shape,
    StateFacts,
    StateFailure,
    Status,
    StorageFacts,
    ThreadFacts,
)
from app.inventory.current import Current
from app.inventory.reporters import never_told
from app.inventory.tables import NEVER
from app.inventory.views import RevisionSummary
from app.jobs.readings import Readings
from app.sources.agent_server.client import AgentServer

ANSWERED = timedelta(microseconds=1)
"""An answer that nothing took writes no checkpoint; it moves the row by this much."""


class HistoryWanted(Exception):
    """How a leaf left is to be judged, and the reporter did not tell the history of its namespace."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a reporter tells of one thread; ``state`` is a failure where it has none.

    ``answered``: somebody answered a question that the code no longer asks. ``histories``: by namespace; None could not be
    read.
    """

    thread_id: str
    state: StateFacts | StateFailure
    begun_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    shape: Shape | None = None
    interrupts: tuple[Interrupt, ...] = ()
    answered: bool = False
    routes: StorageFacts | None = None
    histories: Mapping[str, Sequence[CheckpointFacts] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Under:
    """What a pass's threads are judged under: the graph, its revisions, and every name that a question may come from."""

    graph_id: str
    revisions: Mapping[int, RevisionSummary]
    current: Current
    candidates: Collection[str]
    stuck_after: timedelta


async def judge_told(told: Told, known: ThreadFacts | None, under: Under, now: datetime) -> ThreadFacts:
    """The thread as it is known now. Raises ``HistoryWanted``."""
    if isinstance(told.state, StateFailure):
        return await _without_state(told.thread_id, told.state, known, under, now)
    begun_at = told.begun_at or (known.row.created_at if known is not None else NEVER)
    if begun_at == NEVER:  # nobody knows how old it is, so not whose business
        return await _without_state(told.thread_id, StateFailure.PASSING, known, under, now)
    row = _row(told, told.state, known, begun_at=begun_at, graph_id=under.graph_id, now=now)
    state = replace(told.state, graph_id=under.graph_id)
    found = await _readings(_Server(told, row, state), under).read(row, known, with_storage=True)
    hides = state.may_hide and found.condition is Condition.SETTLED
    return replace(found, condition=Condition.UNPLACED) if hides else found


async def _without_state(
    thread_id: str, failure: StateFailure, known: ThreadFacts | None, under: Under, now: datetime
) -> ThreadFacts:
    """Nothing is there, or it cannot be read. What was never there cannot be gone: it is listed, and nobody knows more."""
    before = known or never_told(thread_id, under.graph_id, None, now)
    was_there = before.row.updated_at != NEVER
    if failure is StateFailure.THREAD_MISSING and not was_there:
        return replace(before, seen_at=now, failure=None, failures=0)
    if failure is StateFailure.THREAD_MISSING and before.condition is Condition.GONE:
        return replace(before, seen_at=now, departed=())
    told = Told(thread_id, failure)
    found = await _readings(_Server(told, before.row, failure), under).read(before.row, before)
    return replace(found, seen_at=now)


def _row(
    told: Told, state: StateFacts, known: ThreadFacts | None, *, begun_at: datetime, graph_id: str, now: datetime
) -> RowFacts:
    """A row as a server would have it. A question that was answered although nothing took the answer is asked no more, if it
    was seen before; otherwise it is all that names the node."""
    passed = told.answered and known is not None and bool(known.leaves)
    interrupts = () if passed else told.interrupts
    changed = (state.created_at or now) + (ANSWERED if passed else timedelta(0))
    return RowFacts(
        thread_id=told.thread_id,
        status=_status(state, interrupts),
        created_at=begun_at,
        updated_at=changed,
        state_updated_at=changed,
        graph_id=graph_id,
        assistant_id=None,
        metadata=told.metadata,
        shape=told.shape,
        interrupts=interrupts,
    )


def _status(state: StateFacts, interrupts: Collection[Interrupt]) -> Status:
    """By the state alone: an error, else something that waits, else nothing."""
    if any(leaf.error_class is not None for leaf in state.leaves):
        return Status.ERROR
    return Status.INTERRUPTED if state.leaves or interrupts else Status.IDLE


def _readings(server: "_Server", under: Under) -> "_PushedReadings":
    return _PushedReadings(
        server=cast(AgentServer, server),
        revisions=under.revisions,
        current=under.current,
        candidates=under.candidates,
        stuck_after=under.stuck_after,
    )


class _PushedReadings(Readings):
    """The rules of a poll, over what was told."""

    async def _storage(self, row: RowFacts, state: StateFacts, revision_id: int | None) -> StorageFacts | None:  # noqa: ARG002
        """What waits at joins is counted from the checkpoint itself, where the reporter is."""
        return await self.server.storage(row.thread_id)


@dataclass(frozen=True, slots=True)
class _Server:
    """What was told of one thread, in the place of a server that is asked for it."""

    told: Told
    row: RowFacts
    found: StateFacts | StateFailure

    async def thread(self, thread_id: str) -> RowFacts:  # noqa: ARG002
        """The row."""
        return self.row

    async def state(self, thread_id: str) -> StateFacts | StateFailure:  # noqa: ARG002
        """The state."""
        return self.found

    async def storage(self, thread_id: str) -> StorageFacts | None:  # noqa: ARG002
        """The stored channels of the head's line."""
        return self.told.routes

    async def runs(self, thread_id: str) -> tuple[RunFacts, ...] | None:  # noqa: ARG002
        """Nobody sees runs."""
        return None

    async def ended(self, thread_id: str) -> tuple[datetime, ...]:  # noqa: ARG002
        """Nobody sees runs."""
        return ()

    async def ever_ran(self, thread_id: str) -> bool | None:  # noqa: ARG002
        """Nobody sees runs."""
        return None

    async def durability(self, thread_id: str, run_id: str) -> str | None:  # noqa: ARG002
        """How a run wrote is not stored."""
        return None

    async def history(
        self,
        thread_id: str,  # noqa: ARG002
        *,
        ns: str,
        down_to: str,  # noqa: ARG002
        limit: int = 0,  # noqa: ARG002
    ) -> Sequence[CheckpointFacts] | None:
        """The history of a namespace."""
        if ns not in self.told.histories:
            raise HistoryWanted
        return self.told.histories[ns]
