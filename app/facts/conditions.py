"""What can be said of one thread alone (design §3.3). Pure; ``now`` comes in as a parameter.

Each obvious rule here is false on the real server. A row alone proves what waits, never that nothing waits; a state
alone forgets what its graph no longer has. So row, state and what was seen before are read together.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from app.facts.interrupts import Proof, places_of, prove
from app.facts.topology import at_or_below
from app.facts.types import (
    Cause,
    Condition,
    Leaf,
    LeafSource,
    RowFacts,
    RunFacts,
    StateFacts,
    StateFailure,
    Status,
    ThreadFacts,
)

LASTING_POLLS = 2
LAG = timedelta(seconds=1)
"""How long after its last checkpoint a run may end and move the row."""

CURRENT_DURABILITY = frozenset({"sync", "async"})


@dataclass(frozen=True, slots=True)
class Judgement:
    """A condition with the leaves it stands on."""

    condition: Condition
    leaves: tuple[Leaf, ...]
    stuck: bool = False


def may_hold_work(row: RowFacts, known: ThreadFacts | None) -> bool:
    """Whether only the state can say what a thread is doing: not idle, or idle in a way that has hidden work before."""
    if row.status is not Status.IDLE or row.shape is None or row.interrupts or row.error_class is not None:
        return True
    if is_mute(row):
        return True
    return known is not None and bool(known.leaves)


def is_mute(row: RowFacts) -> bool:
    """Whether a row does not say when its state changed. On such a server (Aegra, old ones) an idle thread may wait at a
    breakpoint, and an update of the state does not move the row: only the state tells, and only for the moment."""
    return row.state_updated_at is None


def judge_unread(row: RowFacts, known: ThreadFacts | None) -> Judgement:
    """The condition of a thread whose state was not read since its row moved."""
    if may_hold_work(row, known):
        return Judgement(Condition.UNREAD, known.leaves if known else ())
    return Judgement(Condition.PRESUMED_SETTLED, ())


def judge_failure(failure: StateFailure, failures: int, known: ThreadFacts | None) -> Judgement:
    """The condition of a thread whose state could not be read. What was seen before stays beside it."""
    leaves = known.leaves if known else ()
    match failure:
        case StateFailure.THREAD_MISSING:
            return Judgement(Condition.GONE, leaves)
        case StateFailure.GRAPH_MISSING:
            return Judgement(Condition.GRAPH_MISSING, leaves)
        case StateFailure.LASTING if failures >= LASTING_POLLS:
            return Judgement(Condition.UNREADABLE, leaves)
        case _:
            return Judgement(Condition.UNREAD, leaves)


def judge_state(
    row: RowFacts,
    state: StateFacts,
    *,
    runs: tuple[RunFacts, ...] | None,
    known: ThreadFacts | None,
    candidates: Collection[str],
    stuck_after: timedelta,
    now: datetime,
) -> Judgement:
    """The condition of a thread from its row and a state that was read after the row.

    ``runs`` None: nobody asked. ``known``: what was remembered before this reading. ``candidates``: every node name
    that an interrupt may have come from.
    """
    missing = tuple(_not_scheduled(row, state, known, candidates))
    if _went_past(row, known) and not _read_by_another_graph(row, state):
        missing = tuple(replace(leaf, lost=leaf.lost or leaf.source is LeafSource.LAST_SEEN) for leaf in missing)
    leaves = state.leaves + missing
    if row.status is Status.BUSY and (found := _busy(state, runs, stuck_after, now)) is not None:
        return replace(found, leaves=leaves)
    if state.checkpoint_id is None:
        contradicts = row.status in (Status.ERROR, Status.INTERRUPTED) or bool(row.interrupts)
        return Judgement(Condition.UNPLACED if contradicts else Condition.NEVER_RAN, missing)
    return Judgement(_resting(row, state, missing), leaves)


def with_causes(
    leaves: tuple[Leaf, ...], row: RowFacts, state: StateFacts, last_run: RunFacts | None
) -> tuple[Leaf, ...]:
    """Leaves whose cause neither row nor state tells, with what the thread's newest run tells: one that was cancelled ends as
    ``interrupted``, one that met a breakpoint as ``success``."""
    if last_run is None or row.status is not Status.INTERRUPTED or state.source != "loop":
        return leaves
    cause = {"interrupted": Cause.CANCELLED, "success": Cause.STATIC}.get(last_run.status, Cause.UNKNOWN)
    return tuple(
        replace(leaf, cause=cause)
        if leaf.cause is Cause.UNKNOWN and leaf.error_class is None and leaf.source is LeafSource.STATE
        else leaf
        for leaf in leaves
    )


def _busy(
    state: StateFacts, runs: tuple[RunFacts, ...] | None, stuck_after: timedelta, now: datetime
) -> Judgement | None:
    """Running, scheduled, or unread; None when no run is active although the row says busy (a ghost)."""
    if runs is None:
        return Judgement(Condition.RUNNING, ())
    running = [run for run in runs if run.status == "running"]
    if any(run.leaps for run in runs) or any(run.durability not in CURRENT_DURABILITY for run in running):
        return Judgement(Condition.UNREAD, ())
    if running:
        began = max(run.created_at for run in running)
        progress = max(began, state.created_at) if state.created_at else began
        return Judgement(Condition.RUNNING, (), stuck=now - progress > stuck_after)
    return Judgement(Condition.SCHEDULED, ()) if runs else None


def _resting(row: RowFacts, state: StateFacts, missing: tuple[Leaf, ...]) -> Condition:
    if any(leaf.lost and not leaf.acknowledged for leaf in missing):
        return Condition.LOST
    if any(not leaf.lost for leaf in missing):
        return Condition.STRANDED
    waits = row.status in (Status.ERROR, Status.INTERRUPTED) or bool(row.interrupts)
    if waits and not state.leaves and not state.unapplied:
        return Condition.UNPLACED
    if any(leaf.error_class is not None for leaf in state.leaves):
        return Condition.FAILED
    if state.leaves:
        return Condition.PARKED
    if state.unapplied:
        return Condition.HALF_STEP
    return Condition.UNREAD if _read_by_another_graph(row, state) else Condition.SETTLED


_AT_REST = frozenset(
    {
        Condition.LOST,
        Condition.STRANDED,
        Condition.UNPLACED,
        Condition.FAILED,
        Condition.PARKED,
        Condition.HALF_STEP,
        Condition.SETTLED,
    }
)


def after_acknowledgement(facts: ThreadFacts, tasks: Collection[str]) -> ThreadFacts:
    """A thread judged anew when the losses and strandings of these tasks have been dealt with, and of no others. A leaf that
    the deployed graph schedules is pending whatever anybody says of it."""
    scheduled = facts.state.leaves if facts.state is not None else ()
    leaves = tuple(
        leaf if leaf in scheduled else replace(leaf, acknowledged=leaf.task_id in tasks) for leaf in facts.leaves
    )
    condition = facts.condition
    if facts.state is not None and condition in _AT_REST:
        condition = _resting(facts.row, facts.state, tuple(leaf for leaf in leaves if leaf not in scheduled))
    return replace(facts, leaves=leaves, condition=condition)


def _read_by_another_graph(row: RowFacts, state: StateFacts) -> bool:
    """The server reads with the graph of the last run. If another one wrote the head, what that one left pending does
    not show: a run under another graph can "succeed", write nothing, and leave the work where it was."""
    return state.graph_id is not None and row.graph_id is not None and state.graph_id != row.graph_id


def _still_stands(leaf: Leaf, state: StateFacts, known: ThreadFacts) -> bool:
    """Whether the checkpoint at which a leaf was pending is still the head of its namespace. An inner namespace that does
    not show (its outer node is gone) stands while the root does, unless the outer task has ended."""
    if leaf.checkpoint_id is not None and leaf.ns in state.heads:
        return state.heads[leaf.ns] == leaf.checkpoint_id
    if not leaf.ns or known.state is None or state.finished.intersection(_tasks_above(leaf)):
        return False
    root = known.state.heads.get("")
    return root is not None and root == state.heads.get("")


def left(state: StateFacts, known: ThreadFacts | None, leaves: Collection[Leaf]) -> tuple[Leaf, ...]:
    """Leaves that were seen pending before and are no longer; each is judged once. ``leaves``: those that stand now."""
    if known is None:
        return ()
    standing = {leaf.task_id for leaf in leaves if not leaf.lost}
    standing |= {task for leaf in state.leaves for task in _tasks_above(leaf)}
    return tuple(leaf for leaf in known.leaves if not leaf.lost and leaf.task_id not in standing)


def _tasks_above(leaf: Leaf) -> Iterable[str]:
    """The tasks whose subgraphs a leaf is in, from its namespace ``OUTER:TASK|INNER:TASK``."""
    return (step.rpartition(":")[2] for step in leaf.ns.split("|") if step)


def _went_past(row: RowFacts, known: ThreadFacts | None) -> bool:
    """Whether a run has ended since: the row moved and waits no longer. A leaf whose checkpoint is still the head was then
    passed over without being done."""
    return known is not None and waits_no_more(row) and changed_at(row) != changed_at(known.row)


def waits_no_more(row: RowFacts) -> bool:
    """Whether the row says that nobody has to act: idle, without an interrupt or an error."""
    if is_mute(row):
        return False
    return row.status is Status.IDLE and not row.interrupts and row.error_class is None


def changed_at(row: RowFacts) -> datetime:
    """When the thread's state last changed, as far as the row says."""
    return row.state_updated_at or row.updated_at


def moved_without_writing(row: RowFacts, state: StateFacts) -> bool:
    """Whether something moved the state of an idle thread after its head was written. A run that was told where to go, and
    was rolled back, leaves that node pending in no view at all; its run is gone, too."""
    if row.status is not Status.IDLE or row.shape is None or row.state_updated_at is None or state.created_at is None:
        return False
    return row.state_updated_at - state.created_at > LAG


def explained(row: RowFacts, ended: Iterable[datetime] | None) -> bool:
    """Whether a run that is still listed ended when the row's state last moved: one that had nothing to do."""
    return row.state_updated_at is not None and any(abs(row.state_updated_at - one) < LAG for one in ended or ())


def _not_scheduled(
    row: RowFacts, state: StateFacts, known: ThreadFacts | None, candidates: Collection[str]
) -> Iterable[Leaf]:
    """Leaves that are pending by proof or by what was last seen, but that the graph does not schedule."""
    dealt_with = {leaf.task_id for leaf in known.leaves if leaf.acknowledged} if known is not None else set()
    proofs = _unscheduled(row, state, candidates)
    exact = tuple(_proved(proof, state, dealt_with) for proof in proofs if not proof.inside)
    seen = tuple(_last_seen(row, state, known, {leaf.node for leaf in exact}))
    yield from exact
    yield from seen
    for proof in proofs:
        if proof.inside and not any(at_or_below(leaf.node, proof.node) for leaf in seen):
            yield _proved(proof, state, dealt_with)


def _unscheduled(row: RowFacts, state: StateFacts, candidates: Collection[str]) -> tuple[Proof, ...]:
    """What is proved of interrupts whose own task the state does not show."""
    shown = {leaf.task_id for leaf in state.leaves if not leaf.inside_unseen} | state.finished
    unexplained = [interrupt for interrupt in row.interrupts if interrupt.task_id not in shown]
    proofs = prove(unexplained, candidates, places_of(state.heads, state.steps)) if unexplained else ()
    return tuple(
        proof
        for proof in proofs
        if proof.node not in state.unapplied and not any(at_or_below(leaf.node, proof.node) for leaf in state.leaves)
    )


def _proved(proof: Proof, state: StateFacts, dealt_with: Collection[str | None]) -> Leaf:
    return Leaf(
        node=proof.node,
        ns=proof.ns,
        task_id=proof.task_id,
        checkpoint_id=state.heads.get(proof.ns, state.checkpoint_id),
        interrupts=proof.interrupts,
        cause=Cause.DYNAMIC,
        inside_unseen=proof.inside,
        source=LeafSource.INTERRUPT_ID,
        acknowledged=proof.task_id in dealt_with,
    )


def _last_seen(row: RowFacts, state: StateFacts, known: ThreadFacts | None, named: Collection[str]) -> Iterable[Leaf]:
    if known is None or known.row.created_at != row.created_at:
        return
    tasks = {leaf.task_id for leaf in state.leaves} | {task for leaf in state.leaves for task in _tasks_above(leaf)}
    nodes = {leaf.node for leaf in state.leaves} | set(state.unapplied) | set(named)
    for leaf in known.leaves:
        stands = _still_stands(leaf, state, known)
        if (stands or leaf.lost) and leaf.task_id not in tasks and leaf.node not in nodes:
            yield replace(leaf, source=LeafSource.LAST_SEEN)
