"""The truth about threads, kept from what was done with them. Nothing here asks the product."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass
class Life:
    """One thread.

    `at`: the leaves that would run if it were continued under a graph that has them, one per task, those included that no view shows.
    `graph` wrote its head, `row_graph` ran last. `asks`: somebody may answer. `twice`: it asks once more. `run`: of a run that is active.
    `seen_at`: leaves that a complete poll could see waiting there. `lost`: leaves whose wait was thrown away by a run under a graph
    without them; `lost_seen`: those of them that a poll had seen before; `lost_due`: those that a poll could have missed since;
    `lost_shown`: those that a view had named.
    `outdated`: nodes that a view names and that would not run. `unsure`: nodes of which this model makes no claim.
    `was_refused`: its last run was, so that its row shows an error.
    `holds`: the watched fields, by name; None: this model makes no claim about them.
    `stores`: fields that some checkpoint of it has. `shows_in_row`: the row says that work is pending.
    `dealt_with`: leaves whose stranding a person has dealt with, and `set_aside` those of them that the deployed graph lacks: nobody
    waits for them. `is_known`: nothing was done with it since a complete poll saw it.
    `result_of`: the node whose result is stored and not applied yet, if nothing else keeps what it scheduled.
    `hidden`: leaves that no view names. `touched`: the number of the last deed done with it. `run_deleted`: its row did not move with it.
    `is_copy`: under a graph with a subgraph the server cannot read it (see CAN_BE_COPIED).
    `finishing_run`: the node that its last run was the answer of.
    """

    thread_id: str
    history: str
    graph: str
    row_graph: str
    shape: str
    at: tuple[str, ...] = ()
    asks: bool = False
    twice: bool = False
    run: str | None = None
    is_held: bool = False
    is_delayed: bool = False
    never_ran: bool = False
    is_gone: bool = False
    is_text_amount: bool = False
    was_refused: bool = False
    lost: set[str] = field(default_factory=set)
    lost_seen: set[str] = field(default_factory=set)
    lost_due: set[str] = field(default_factory=set)
    lost_shown: set[str] = field(default_factory=set)
    outdated: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    holds: dict[str, object] | None = field(default_factory=dict)
    stores: set[str] = field(default_factory=set)
    shows_in_row: bool = False
    hidden: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)
    seen_at: set[str] = field(default_factory=set)
    dealt_with: set[str] = field(default_factory=set)
    set_aside: set[str] = field(default_factory=set)
    is_known: bool = False
    touched: int = 0
    run_deleted: bool = False
    finishing_run: str | None = None
    result_of: str | None = None
    is_copy: bool = False
    deeds: list[str] = field(default_factory=list)

    def waits(self, *leaves: str, asks: bool = False, hidden: Iterable[str] = (), in_row: bool = True) -> Life:
        """Say where it is now."""
        self.at, self.asks, self.hidden, self.shows_in_row = leaves, asks, set(hidden), in_row
        self.seen_at, self.dealt_with, self.set_aside, self.result_of = set(), set(), set(), None
        self.needed |= set(leaves)
        return self

    def keeps(self, state: dict[str, object]) -> None:
        """Say what it holds, and so stores."""
        self.holds = state
        self.stores |= set(state)

    def is_settled(self) -> Life:
        """Say that nothing is pending."""
        return self.waits(in_row=False)

    def threw_away(self, *leaves: str) -> None:
        """A run went past these without doing them."""
        self.lost |= set(leaves)
        self.lost_shown |= set(leaves) - self.hidden
        self.lost_seen |= self.seen_at & set(leaves)

    def was_polled(self, has: Callable[[str, str], bool]) -> None:
        """A complete poll looked, with nothing done since it began; `has`: whether a graph is deployed with a leaf."""
        self.is_known = True
        if self.row_graph == self.graph:
            self.seen_at |= {leaf for leaf in self.at if has(self.graph, leaf)}
        self.lost_due |= {leaf for leaf in self.lost_seen if not has(self.graph, leaf)}

    def was_dealt_with(self, has: Callable[[str, str], bool]) -> None:
        """A person has dealt with what is stranded or lost, as far as a poll could show it."""
        stranded = {leaf for leaf in self.at if not has(self.graph, leaf)}
        self.dealt_with |= (stranded & self.seen_at) - self.hidden
        self.lost_seen -= self.lost_due
        self.lost_due = set()
        self.was_deployed(has)

    def was_deployed(self, has: Callable[[str, str], bool]) -> None:
        """Another revision is there: what it has waits again, whatever a person said. A result of a node that it lacks is not
        applied until the node is back."""
        self.set_aside = {leaf for leaf in self.dealt_with if not has(self.graph, leaf)}
        if self.result_of is not None and not has(self.graph, self.result_of):
            self.set_aside |= set(self.at)
            self.unsure |= set(self.at)

    def was_done(self) -> None:
        """What was thrown away came back with its node, and was done."""
        for thrown_away in (self.lost, self.lost_seen, self.lost_due):
            thrown_away -= set(self.at)

    def needs(self, node: str) -> bool:
        """Whether removing the node would lose something of this thread that is not lost yet."""
        return not self.is_gone and any(at_or_below(leaf, node) for leaf in self.at if leaf not in self.set_aside)

    def lost_what_was_seen(self, node: str) -> bool:
        """Whether a wait at the node was thrown away, between a poll that saw it waiting and one that could miss it."""
        return not self.is_gone and any(at_or_below(leaf, node) for leaf in self.lost_due)

    def is_unsure(self, node: str) -> bool:
        """Whether this model makes no claim about the node."""
        return any(at_or_below(leaf, node) for leaf in self.unsure | self.outdated)

    @property
    def is_busy(self) -> bool:
        """Whether a run is active or due."""
        return self.is_held or self.is_delayed

    @property
    def as_one_line(self) -> str:
        """For the report of a failure."""
        where = ", ".join(self.at) or "nowhere"
        return f"{self.thread_id} [{self.graph}] {' > '.join(self.deeds)}: at {where}; lost {sorted(self.lost)}"


def at_or_below(leaf: str, node: str) -> bool:
    """Whether a path is the node's, or inside it."""
    return leaf == node or leaf.startswith(f"{node}/")


OLD, NEW, VERSION, COUNT, NOTES, SECRET = (
    "customer_name",
    "display_name",
    "state_version",
    "retry_count",
    "legacy_notes",
    "passport_number",
)


def loses_by_rename(holds: dict[str, object]) -> bool:
    """Whether removing the old field would lose something: it is there, and the new one does not say the same."""
    return OLD in holds and holds.get(NEW) != holds[OLD]


def is_not_a_version(holds: dict[str, object], minimum: int, newest: int) -> bool:
    """Whether code that knows only these versions would not know this state."""
    version = holds.get(VERSION)
    return isinstance(version, bool) or not isinstance(version, int) or not minimum <= version <= newest


def has_wrong_kind(holds: dict[str, object]) -> bool:
    """Whether the counter is no whole number."""
    return COUNT in holds and not isinstance(holds[COUNT], int)
