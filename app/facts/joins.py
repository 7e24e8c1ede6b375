"""Whether something waits at a join or a deferred node of the root, where no view of a thread shows it. Pure.

Storage tells that a route to the node was written at some time, never whether it was taken. The history can tell: each task of
a step shows at the checkpoint before it. A deferred node waits for the end of a run, so a head at which nothing is pending
holds nothing for it.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Protocol, TypeVar

from app.facts.types import CheckpointFacts, StateFacts

BY_RUNS = frozenset({"loop", "input"})


class Revision(Protocol):
    """What is needed of a graph revision; ``edges`` are source, target, conditional."""

    @property
    def id(self) -> int:
        """Grows with time."""

    @property
    def graph(self) -> str:
        """Whose it is."""

    @property
    def variant(self) -> str | None:
        """Which of its drawings."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Paths."""

    @property
    def joins(self) -> tuple[str, ...]:
        """Paths of joins."""

    @property
    def deferred(self) -> tuple[str, ...]:
        """Paths of deferred nodes."""

    @property
    def edges(self) -> tuple[tuple[str, str, bool], ...]:
        """Source, target, conditional."""

    @property
    def first_seen_at(self) -> datetime:
        """When it was first seen."""


R = TypeVar("R", bound=Revision)


def lines_back(revision: R, revisions: Iterable[R]) -> tuple[R, ...]:
    """A revision and those before it of the same drawing, newest first. Before a configuration had a drawing of its own, it
    was drawn as the graph's own assistant is."""
    of_graph = [one for one in revisions if one.graph == revision.graph and one.id <= revision.id]
    same = [one for one in of_graph if one.variant == revision.variant]
    began = min((one.id for one in same), default=revision.id)
    earlier = [one for one in of_graph if one.variant is None and one.id < began]
    return tuple(sorted([*same, *earlier], key=lambda one: one.id, reverse=True))


def written(names: Collection[str], nodes: Iterable[str]) -> set[str]:
    """The nodes of the root to which a route was ever stored."""
    return {node for node in nodes if "/" not in node and node in names}


def join_is_empty(
    node: str,
    history: Sequence[CheckpointFacts],
    line: Sequence[Revision],
    *,
    waits_for: Collection[frozenset[str]],
    unshown: Collection[str] = (),
) -> bool:
    """Whether nothing waits at a join, by everything that ever ran on the thread.

    A join holds the names of its sources that ran, until all have; then it runs with the next step. The server never shows it,
    not even when it is ready, so what it holds is counted from the beginning. ``history``: the root's, newest first, from the
    head to the first checkpoint. ``line``: the graph's revisions, newest first. ``waits_for``: the sources of each of its
    channels, since a node may have several joins, and other edges beside them. ``unshown``: nodes that run unseen, too.
    """
    known = _sources(line[0], node)
    hidden = _unshown(line[0]).union(unshown)
    if not waits_for or not _is_whole(history, line):
        return False
    return all(
        sources <= known and not sources.intersection(hidden) and _is_done(sources, history) for sources in waits_for
    )


def _is_done(sources: frozenset[str], history: Sequence[CheckpointFacts]) -> bool:
    """Whether all sources of one join ran as often as it took, and none since."""
    held: frozenset[str] = frozenset()
    for before, after in pairwise(reversed(history)):
        if after.source == "loop":
            held = (frozenset() if held == sources else held) | (before.tasks & sources)
        elif held == sources:
            return False  # a new input while it was ready: did it run?
    return not held and not history[0].finished.intersection(sources)


def _unshown(revision: Revision) -> set[str]:
    """Nodes of the root that no checkpoint shows as tasks: other joins."""
    return {path.split("/")[0] for path in revision.joins}


def _is_whole(history: Sequence[CheckpointFacts], line: Sequence[Revision]) -> bool:
    """Whether the history goes back to the beginning without a gap, was written by runs of one graph alone, and that graph has
    looked the same since."""
    if not history or history[-1].parent_id is not None or any(one.source not in BY_RUNS for one in history):
        return False
    if not all(_follows(after, before) for after, before in pairwise(history)):
        return False
    looks = [(set(one.nodes), set(one.edges)) for one in line]
    since = _since([look == looks[0] for look in looks], line)
    began = history[-1].created_at
    return since is None or (began is not None and began >= since)


def _follows(after: CheckpointFacts, before: CheckpointFacts) -> bool:
    """Whether a checkpoint is the next one: a run that writes at its end only leaves steps out."""
    if after.parent_id != before.id or after.step is None or before.step is None or after.graph_id != before.graph_id:
        return False
    return after.step == before.step + 1


def deferred_is_empty(node: str, state: StateFacts, line: Sequence[Revision]) -> bool:
    """Whether a head at which nothing is pending shows that a deferred node does not wait: not where the graph has lost a node
    since the head was written, whose work would be hidden."""
    if state.leaves or state.unapplied or state.may_hide or state.checkpoint_id is None:
        return False
    now = set(line[0].nodes)
    since = _since([node in one.deferred and set(one.nodes) <= now for one in line], line)
    return since is None or (state.created_at is not None and state.created_at >= since)


def _since(holds: Sequence[bool], line: Sequence[Revision]) -> datetime | None:
    """From when on something has held of every revision up to the newest; None: ever, as far as anybody saw."""
    unbroken = next((index for index, found in enumerate(holds) if not found), len(holds))
    return None if unbroken == len(holds) else line[max(0, unbroken - 1)].first_seen_at


def _sources(revision: Revision, node: str) -> frozenset[str]:
    """The nodes of the root from which an unconditional edge leads to a node."""
    found = (source for source, target, conditional in revision.edges if target == node and not conditional)
    return frozenset(source.split("/")[0] for source in found)
