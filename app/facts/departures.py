"""How a pending leaf left, judged once, in the leaf's own checkpoint namespace (design §3.4). Pure.

Two things make the obvious reading of a history wrong. A run with ``durability="exit"`` stores neither results nor inner
checkpoints, so a task without a result may well have been done: only a run that writes as it goes can show a loss. And
tasks of old checkpoints are recomputed by today's graph, so a node that is no longer deployed has no result there either:
then the time of the next checkpoint decides, if it can.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.facts.types import CheckpointFacts, Departure, Leaf

WRITES_AS_IT_GOES = frozenset({"sync", "async"})


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a departure is judged by, beside the leaf.

    ``history``: the leaf's namespace, newest first (None: could not be read). ``durability`` maps a run to how it wrote.
    ``mover``: the run that moved the root's head last. ``node_gone_since``: since when the deployed graph lacks the node
    (None: it has it). ``waits_no_more``: the row has neither interrupt nor error and has moved since.
    """

    history: Sequence[CheckpointFacts] | None
    durability: Mapping[str, str | None]
    mover: str | None
    node_gone_since: datetime | None
    waits_no_more: bool


def judge_departure(leaf: Leaf, found: Circumstances) -> Departure:
    """How a leaf that is no longer pending left, of a thread that is still there."""
    history = found.history or ()
    by_id = {checkpoint.id: checkpoint for checkpoint in history}
    here = by_id.get(leaf.checkpoint_id or "")
    if here is None:
        return Departure.UNEXPLAINED
    if history[0].id == here.id:
        return _still_the_head(leaf, here, found)
    child, is_whole = _child_on_the_way(history, here)
    if child is None:
        return Departure.FORKED if is_whole else Departure.UNEXPLAINED
    match child.source:
        case "fork":
            return Departure.FORKED
        case "input":
            return Departure.ABANDONED
        case "update":
            return Departure.OVERRIDDEN
        case "loop" if child.graph_id == here.graph_id:
            return _went_on(leaf, here, child, found)
        case _:
            return Departure.UNEXPLAINED


def ended_at(leaf: Leaf, judged: Departure, history: Sequence[CheckpointFacts]) -> datetime | None:
    """When a leaf that went on was done: the next checkpoint of its namespace was written then."""
    here = next((found for found in history if found.id == leaf.checkpoint_id), None)
    if judged is not Departure.COMPLETED or here is None:
        return None
    child, _ = _child_on_the_way(history, here)
    return None if child is None else child.created_at


def _still_the_head(leaf: Leaf, here: CheckpointFacts, found: Circumstances) -> Departure:
    """Nothing came after. At the root that is a loss; an inner namespace stands still also after a run that wrote nothing
    until its end."""
    if leaf.task_id in here.results:
        return Departure.COMPLETED
    if not found.waits_no_more:
        return Departure.UNEXPLAINED
    if leaf.ns and found.durability.get(found.mover or "") not in WRITES_AS_IT_GOES:
        return Departure.UNEXPLAINED
    return Departure.LOST


def _went_on(leaf: Leaf, here: CheckpointFacts, child: CheckpointFacts, found: Circumstances) -> Departure:
    if leaf.task_id in here.results:
        return Departure.COMPLETED
    if found.durability.get(child.run_id or "") not in WRITES_AS_IT_GOES:
        return Departure.UNEXPLAINED
    if found.node_gone_since is None:
        return Departure.LOST
    after_the_deploy = child.created_at is not None and child.created_at >= found.node_gone_since
    return Departure.LOST if after_the_deploy else Departure.UNEXPLAINED


def _child_on_the_way(history: Sequence[CheckpointFacts], here: CheckpointFacts) -> tuple[CheckpointFacts | None, bool]:
    """The ancestor of the head, or the head, whose parent is ``here``; and whether the way back was seen to its end."""
    by_id = {checkpoint.id: checkpoint for checkpoint in history}
    at = history[0]
    for _ in history:  # a way that is longer goes round in a circle
        if at.parent_id == here.id:
            return at, True
        if at.parent_id is None:
            return None, True
        following = by_id.get(at.parent_id)
        if following is None:
            return None, _is_older(at, here)
        at = following
    return None, False


def _is_older(at: CheckpointFacts, here: CheckpointFacts) -> bool:
    """Whether the way back has passed the leaf's checkpoint already: its ancestors are older than it."""
    return at.step is not None and here.step is not None and at.step <= here.step
