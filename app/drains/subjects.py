"""What the rules look at: classes of threads that look the same to every rule, and what the rules know beside them.

Threads that look the same are judged together: a ``Subject`` is such a class, and the inventory counts how many threads
are in it. Pure.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from app.drains.spec import Policy
from app.facts.types import Condition, FieldFact, Shape


@dataclass(frozen=True, slots=True)
class WorkLeaf:
    """A pending leaf as the rules see it."""

    node: str
    failed: bool = False
    inside_unseen: bool = False
    scheduled: bool = True  # False: pending by proof or memory only, the deployed graph does not schedule it
    sent: bool = False  # by ``Send``: what it was sent does not show
    acknowledged: bool = False  # a person has dealt with its loss or stranding


@dataclass(frozen=True, slots=True)
class Work:
    """What is pending on a thread, and whether finished tasks stand beside it that are not applied yet."""

    leaves: tuple[WorkLeaf, ...] = ()
    half_step: bool = False


@dataclass(frozen=True, slots=True)
class Routes:
    """What a thread's storage ever held: routes (names without a path), ``sends`` for entries that leave no name, and the
    state fields, their names kept as in a shape, unless some state is ``nameless``. ``empty``: joins and deferred nodes of the
    root at which nothing waits. ``waits_for``: each join's target and sources; None: not known."""

    branches: frozenset[str]
    joins: frozenset[str]
    sends: bool
    fields: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()
    nameless: bool = False
    waits_for: frozenset[tuple[str, frozenset[str]]] | None = frozenset()


@dataclass(frozen=True, slots=True)
class Subject:
    """A class of threads that look the same to every rule.

    ``shape`` is the row's, ``state_shape`` what was read since (None: nobody saw it). ``revision_id``: the graph
    revision that the state was read under. ``reading_is_current``: a running thread's state was read within the
    drain's ``max_age`` from a run that writes checkpoints as it goes. ``routes`` None: storage was not read since.
    ``is_waived``: a person took the thread over for this drain. ``is_past_retention``: its state last changed longer ago
    than the drain's retention.
    """

    condition: Condition
    work: Work
    shape: Shape | None
    revision_id: int | None
    reading_is_current: bool
    routes: Routes | None
    state_shape: Shape | None = None
    is_waived: bool = False
    is_past_retention: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What the rules need beside a subject.

    ``revision_nodes`` and ``revision_fields``: the paths and the state fields of every revision.
    ``joins`` and ``deferred``: nodes that are a join, or deferred, in any revision of the drain's graph.
    ``find``: a field's fact in a shape, however its name was kept. ``varies``: the graph is drawn differently for different
    configurations. ``sees_history``: storage tells of every checkpoint, and not of the head's line alone.
    """

    revision_nodes: Mapping[int, Collection[str]]
    joins: frozenset[str]
    deferred: frozenset[str]
    find: Callable[[Mapping[str, FieldFact], str], FieldFact | None]
    policy: Policy
    newest_versions: Mapping[str, int]
    revision_fields: Mapping[int, Collection[str]] = field(default_factory=dict)
    varies: bool = False
    sees_history: bool = True
