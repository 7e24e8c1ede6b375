"""Reading threads one by one: which need it, what the answers make of them. Requests only; nothing is written here."""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from app.clock import utc_now
from app.facts.conditions import (
    Judgement,
    changed_at,
    explained,
    is_mute,
    judge_failure,
    judge_state,
    judge_unread,
    left,
    may_hold_work,
    moved_without_writing,
    waits_no_more,
    with_causes,
)
from app.facts.departures import Circumstances, ended_at, judge_departure
from app.facts.joins import deferred_is_empty, join_is_empty, lines_back, written
from app.facts.topology import prefixes
from app.facts.types import (
    Condition,
    Departed,
    Departure,
    Leaf,
    LeafSource,
    RowFacts,
    StateFacts,
    StateFailure,
    Status,
    StorageFacts,
    ThreadFacts,
)
from app.inventory.current import Current
from app.inventory.views import RevisionSummary
from app.sources.agent_server.client import AgentServer

T = TypeVar("T")
JOIN_HISTORY = 30  # checkpoints in which a join must have run, to show that nothing waits at it
SETTLES = frozenset({Condition.SETTLED, Condition.PARKED, Condition.FAILED})
RESTS = frozenset({Condition.SETTLED, Condition.NEVER_RAN, Condition.PARKED, Condition.FAILED, Condition.HALF_STEP})
SURPRISES = frozenset({Condition.STRANDED, Condition.LOST, Condition.UNPLACED})


@dataclass
class Readings:
    """What one poll reads of threads, under the graph revisions that were deployed when it began.

    ``current``: which revision a state is read under, ``candidates``: the node names an interrupt may have come from.
    """

    server: AgentServer
    revisions: Mapping[int, RevisionSummary]
    current: Current
    candidates: Collection[str]
    stuck_after: timedelta
    wanted: int = 0
    done: int = 0
    touched: set[str] = field(default_factory=set)

    def needs_state(self, row: RowFacts, known: ThreadFacts | None, *, thorough: bool) -> bool:
        """Whether the state must be asked. ``thorough``: a sweep, which reads again whatever is not settled."""
        if known is None or moved(row, known):
            ran_elsewhere = known is not None and known.row.graph_id != row.graph_id
            return may_hold_work(row, known) or ran_elsewhere
        if known.condition in (Condition.UNREAD, Condition.GONE):
            return may_hold_work(row, known) or known.condition is Condition.GONE
        if not thorough:
            return is_mute(row) and known.revision_id is None
        if known.condition is Condition.SETTLED:
            return row.shape is None or is_mute(row) or not self._proved_settled(known)
        return known.condition not in (Condition.PRESUMED_SETTLED, Condition.NEVER_RAN) or may_hold_work(row, known)

    def _proved_settled(self, known: ThreadFacts) -> bool:
        """Whether a thread was seen settled under the revision that wrote its head, or under the one deployed now."""
        revision = self.revisions.get(known.revision_id) if known.revision_id is not None else None
        if revision is None or known.state is None:
            return False
        if revision.vanished_at is None:
            return True
        first = first_of_line(revision, self.revisions.values())
        wrote = known.state.created_at
        return revision.id == first or (wrote is not None and wrote >= revision.first_seen_at)

    def row_only(self, row: RowFacts, known: ThreadFacts | None, now: datetime) -> ThreadFacts:
        """A thread of which only the row is looked at in this poll."""
        if known is not None and not moved(row, known) and known.condition is not Condition.GONE:
            return replace(known, row=row, seen_at=now)
        judged = judge_unread(row, known)
        return ThreadFacts(
            row=row, seen_at=now, condition=judged.condition, leaves=judged.leaves, head_graph=_head_graph(row, known)
        )

    async def read(
        self, row: RowFacts, known: ThreadFacts | None, *, with_runs: bool = False, with_storage: bool = False
    ) -> ThreadFacts:
        """A thread with its state read now, and its active runs and storage where asked for."""
        if known is not None and known.row.created_at != row.created_at:
            known = None  # the same id, another thread
        self.wanted += 1
        self.touched.add(row.thread_id)
        runs = await self.server.runs(row.thread_id) if self._asks_for_runs(row, with_runs) else None
        read_at = utc_now()
        state = await self.server.state(row.thread_id)
        self.done += 1
        if isinstance(state, StateFailure):
            failed = self._failed(row, known, state, read_at)
            if not with_storage or failed.condition is not Condition.GRAPH_MISSING:
                return failed
            return replace(failed, storage=await self.server.storage(row.thread_id))  # needs no graph
        state, is_whole = await self._completed(row, state)
        judge = partial(judge_state, row, state, runs=runs, known=known, stuck_after=self.stuck_after, now=read_at)
        judged = judge(candidates=self.candidates)
        revision_id = self._revision_of(row, state)
        wants_storage = with_storage or _asks_unnamed(row, judged)
        storage = await self._storage(row, state, revision_id) if wants_storage else None
        if storage is not None and _asks_unnamed(row, judged):
            judged = judge(candidates={*self.candidates, *storage.branches})
        surprises = judged.condition in SURPRISES and (known is None or known.condition is not judged.condition)
        went_on = surprises and not await self._still_the_same(row)
        if went_on:  # a departure is judged once, so not by a row that is older than the state
            judged = replace(judged, condition=Condition.UNREAD, leaves=_with_known(state.leaves, known))
        if judged.condition in SETTLES and moved_without_writing(row, state):
            state = replace(state, may_hide=not explained(row, await self.server.ended(row.thread_id)))
            if state.may_hide and judged.condition is Condition.SETTLED:
                judged = replace(judged, condition=Condition.UNPLACED)
        if not is_whole and judged.condition in RESTS:
            judged = replace(judged, condition=Condition.UNREAD)
        judged, departed = await self._judge_departures(row, state, None if went_on else known, judged)
        if storage is None and known is not None and not moved(row, known) and _same_head(known.state, state):
            storage = known.storage
        return ThreadFacts(
            row=row,
            seen_at=read_at,
            condition=judged.condition,
            leaves=judged.leaves,
            state=state,
            state_read_at=read_at,
            revision_id=revision_id,
            runs=runs,
            storage=storage,
            stuck=judged.stuck,
            departed=departed,
        )

    async def read_storage(self, known: ThreadFacts) -> ThreadFacts:
        """A thread with its stored channels read now; and its state too, where that is not known since it moved."""
        if known.state is None or known.row.status is Status.BUSY:
            return await self.read(known.row, known, with_runs=True, with_storage=True)
        self.wanted += 1
        storage = await self._storage(known.row, known.state, known.revision_id)
        self.done += 1
        return replace(known, storage=storage or known.storage, seen_at=utc_now(), departed=())

    async def read_routes(self, known: ThreadFacts) -> ThreadFacts:
        """A thread with its stored channels, and no more: what waits at its joins is not counted, which takes its history."""
        self.wanted += 1
        storage = await self.server.storage(known.row.thread_id)
        self.done += 1
        revision = self.revisions.get(known.revision_id) if known.revision_id is not None else None
        if storage is not None:
            nodes, deferred = (revision.nodes, revision.deferred) if revision is not None else (storage.joins, ())
            may_wait = written(storage.joins, nodes) | written(storage.branches, deferred)
            storage = replace(storage, is_counted=not may_wait)
        return replace(known, storage=storage or known.storage, departed=())

    async def _storage(self, row: RowFacts, state: StateFacts, revision_id: int | None) -> StorageFacts | None:
        """Stored channels, and at which joins and deferred nodes nothing waits although something once did."""
        storage = await self.server.storage(row.thread_id)
        revision = self.revisions.get(revision_id) if revision_id is not None else None
        if storage is None or revision is None or row.status is Status.BUSY:
            return storage
        line = lines_back(revision, self.revisions.values())
        joins = written(storage.joins, revision.nodes)
        done = await self._joins_that_ran(row, state, storage, line) if joins else set()
        late = written({*storage.branches, *storage.joins}, revision.deferred)
        if joins == done:  # else a join may be ready, which no view shows, and a deferred node waits for it
            done |= {node for node in late if node not in joins}
            late = {node for node in late if not deferred_is_empty(node, state, line)}
        return replace(storage, empty=frozenset(done - late))

    async def _joins_that_ran(
        self, row: RowFacts, state: StateFacts, storage: StorageFacts, line: Sequence[RevisionSummary]
    ) -> set[str]:
        """The joins of the root at which nothing waits although something once did. A node with one edge into it may be one,
        too, which only storage tells."""
        joins = written(storage.joins, line[0].nodes)
        history = await self.server.history(row.thread_id, ns="", down_to="", limit=JOIN_HISTORY)
        whole = history if history and history[0].id == state.checkpoint_id else ()
        told = storage.waits_for or ()
        waits_for = {node: {names for target, names in told if target == node} for node in joins}
        return {node for node in joins if join_is_empty(node, whole, line, waits_for=waits_for[node], unshown=joins)}

    def _asks_for_runs(self, row: RowFacts, with_runs: bool) -> bool:
        """Whether the active runs must be asked for: where it matters, and of a thread that has been busy for so long that it
        is stuck, or that no run is there at all."""
        if row.status is not Status.BUSY:
            return False
        return with_runs or utc_now() - row.updated_at > self.stuck_after

    async def read_closely(self, row: RowFacts, known: ThreadFacts | None) -> ThreadFacts:
        """A thread with everything that can be asked of it: for a person who looks at it."""
        facts = await self.read(row, known, with_runs=True, with_storage=True)
        last_run = await self.server.last_run(row.thread_id)
        expires_at = await self.server.expires_at(row.thread_id)
        leaves = with_causes(facts.leaves, row, facts.state, last_run) if facts.state is not None else facts.leaves
        return replace(facts, leaves=leaves, last_run=last_run, expires_at=expires_at)

    async def _completed(self, row: RowFacts, state: StateFacts) -> tuple[StateFacts, bool]:
        """A state with the graph of its head, from the run that wrote it where the head does not name one; and whether that
        is all that is to know. A thread that names no graph has an empty state, whatever its head holds."""
        if state.checkpoint_id is None:
            return state, row.graph_id is not None or await self._has_no_head(row)
        graphs = {found.graph for found in self.revisions.values()}
        if state.graph_id is not None or graphs <= {row.graph_id}:
            return state, True
        graph = None if state.run_id is None else await self.server.graph_of_run(row.thread_id, state.run_id)
        return replace(state, graph_id=graph), graph is not None

    async def _has_no_head(self, row: RowFacts) -> bool:
        """Whether nothing was ever written on a thread, whatever graph it names."""
        storage = await self.server.storage(row.thread_id)
        if storage is not None and storage.checkpoints is not None:
            return storage.checkpoints == 0
        return await self.server.ever_ran(row.thread_id) is False

    async def _judge_departures(
        self, row: RowFacts, state: StateFacts, known: ThreadFacts | None, judged: Judgement
    ) -> tuple[Judgement, tuple[Departed, ...]]:
        """How leaves left that were seen pending before. A loss stays with the thread, as its condition. Each is judged
        once: one that nothing explains yet, of a thread that was listed while it ran, waits for the next poll."""
        departed = []
        open_ = []
        for leaf in left(state, known, judged.leaves):
            if leaf.task_id in state.finished:
                found = Departed(leaf, Departure.COMPLETED)
            elif any(leaf.task_id == other.task_id and other.lost for other in judged.leaves):
                found = Departed(leaf, Departure.LOST)
            else:
                found = await self._departure(row, state, known, leaf)
            is_head = leaf.checkpoint_id == state.checkpoint_id
            if found.departure is Departure.UNEXPLAINED and row.status is Status.BUSY and is_head:
                open_.append(replace(leaf, source=LeafSource.LAST_SEEN))
            else:
                departed.append(found)
        judged = replace(judged, leaves=(*judged.leaves, *open_))
        held = {leaf.task_id for leaf in judged.leaves}
        lost = tuple(
            replace(found.leaf, source=LeafSource.LAST_SEEN, lost=True)
            for found in departed
            if found.departure is Departure.LOST and found.leaf.task_id not in held
        )
        if lost:
            rests = judged.condition not in (Condition.UNREAD, Condition.RUNNING, Condition.SCHEDULED)
            condition = Condition.LOST if rests else judged.condition
            judged = replace(judged, leaves=judged.leaves + lost, condition=condition)
        return judged, tuple(departed)

    async def _departure(self, row: RowFacts, state: StateFacts, known: ThreadFacts | None, leaf: Leaf) -> Departed:
        """Read the leaf's own history down to where it waited, and how the runs since then wrote, if that matters."""
        if leaf.checkpoint_id is None:
            return Departed(leaf, Departure.UNEXPLAINED)
        history = await self.server.history(row.thread_id, ns=leaf.ns, down_to=leaf.checkpoint_id)
        moved_on = known is not None and changed_at(row) != changed_at(known.row)
        found = Circumstances(
            history=history,
            durability={},
            mover=state.run_id,
            node_gone_since=self._gone_since(row, leaf.node),
            waits_no_more=waits_no_more(row) and moved_on,
        )
        judged = judge_departure(leaf, found)
        if judged is not Departure.UNEXPLAINED or not history:
            return Departed(leaf, judged, ended_at(leaf, judged, history or ()))
        after = [checkpoint for checkpoint in history if checkpoint.parent_id == leaf.checkpoint_id]
        runs = {run for run in (state.run_id, *(checkpoint.run_id for checkpoint in after)) if run is not None}
        durability = {run: await self.server.durability(row.thread_id, run) for run in sorted(runs)}
        return Departed(leaf, judge_departure(leaf, replace(found, durability=durability)))

    def _gone_since(self, row: RowFacts, node: str) -> datetime | None:
        revision = self.current.of(row.graph_id, row.config)
        return None if revision is None or node in revision.nodes else revision.first_seen_at

    def _failed(
        self, row: RowFacts, known: ThreadFacts | None, failure: StateFailure, read_at: datetime
    ) -> ThreadFacts:
        again = known is not None and known.failure is failure
        failures = (known.failures if again and known else 0) + 1
        judged = judge_failure(failure, failures, known)
        return ThreadFacts(
            row=row,
            seen_at=read_at,
            condition=judged.condition,
            leaves=judged.leaves,
            state=known.state if known is not None and not moved(row, known) else None,
            storage=known.storage if known is not None and not moved(row, known) else None,
            failure=failure,
            failures=failures,
            gone_at=read_at if judged.condition is Condition.GONE else None,
            departed=_deleted(known) if judged.condition is Condition.GONE else (),
            head_graph=_head_graph(row, known),
        )

    async def _still_the_same(self, row: RowFacts) -> bool:
        """Whether the row is still as it was listed: a run between the two calls explains most surprises."""
        again = await self.server.thread(row.thread_id)
        return again is not None and again.updated_at == row.updated_at and again.status is row.status

    def _revision_of(self, row: RowFacts, state: StateFacts) -> int | None:
        """The revision that the state was read under: the server reads with the graph of the thread's last run, made with the
        configuration that the thread keeps. A node that it schedules and that the drawing lacks shows that it is another."""
        found = self.current.of(row.graph_id or state.graph_id, row.config)
        if found is None or any(next(prefixes(leaf.node)) not in found.nodes for leaf in state.leaves):
            return None
        return found.id


def _with_known(leaves: tuple[Leaf, ...], known: ThreadFacts | None) -> tuple[Leaf, ...]:
    """Leaves, and those that were seen before and are not among them."""
    shown = {leaf.task_id for leaf in leaves}
    return leaves + tuple(leaf for leaf in known.leaves if leaf.task_id not in shown) if known else leaves


def first_of_line(revision: RevisionSummary, revisions: Iterable[RevisionSummary]) -> int:
    """The id of the first revision that was ever seen of a graph as the same configuration draws it."""
    return min((found.id for found in lines_back(revision, revisions)), default=revision.id)


def _head_graph(row: RowFacts, known: ThreadFacts | None) -> str | None:
    """The graph that a head may belong to although the row names another: what was last known of it."""
    if known is None:
        return None
    if known.state is not None and known.state.graph_id is not None:
        return known.state.graph_id
    return known.head_graph or (known.row.graph_id if known.row.graph_id != row.graph_id else None)


def _same_head(before: StateFacts | None, now: StateFacts) -> bool:
    """Whether the head is still the one that was remembered: deleting a run takes checkpoints away and moves no row."""
    return before is not None and before.checkpoint_id == now.checkpoint_id


def _asks_unnamed(row: RowFacts, judged: Judgement) -> bool:
    """Whether a thread asks and no node is named that does: its storage may know a name that no revision had."""
    return judged.condition is Condition.UNPLACED and bool(row.interrupts)


def _deleted(known: ThreadFacts | None) -> tuple[Departed, ...]:
    leaves = known.leaves if known is not None else ()
    return tuple(Departed(leaf, Departure.DELETED) for leaf in leaves if leaf.source is LeafSource.STATE)


def moved(row: RowFacts, known: ThreadFacts) -> bool:
    """Whether a row is not the one that is remembered."""
    before = known.row
    return (row.created_at, row.updated_at, row.status, row.interrupts, row.graph_id) != (
        before.created_at,
        before.updated_at,
        before.status,
        before.interrupts,
        before.graph_id,
    )


def reads_the_same(row: RowFacts, known: ThreadFacts) -> bool:
    """Whether what is kept of a row that did not move is still what would be kept: names, renames or metadata keys that
    are asked for may have changed."""
    before = known.row
    return before.shape == row.shape and before.metadata == row.metadata and before.config == row.config


async def gather(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Run together; the first failure ends the others and is raised as itself."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
