"""The drains that a history may have, and what is true of each: by what was done, never by what the product says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.truth.lives import (
    COUNT,
    NEW,
    NOTES,
    OLD,
    SECRET,
    VERSION,
    Life,
    at_or_below,
    has_wrong_kind,
    is_not_a_version,
    loses_by_rename,
)
from tests.truth.product import NAME

MINIMUM, NEWEST = 2, 4


@dataclass(frozen=True)
class Watched:
    """One drain of one history. `policy`: what it asks for beside its soak. `excused`: threads that a person took over."""

    history: str
    graph: str
    nodes: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    has_retention: bool = False
    policy: Mapping[str, Any] = field(default_factory=dict)
    excused: set[str] = field(default_factory=set, compare=False)

    @property
    def name(self) -> str:
        """The drain's name."""
        parts = [node.replace("/", ".") for node in self.nodes]
        parts += [*self.fields, *(["retention"] if self.has_retention else [])]
        return "-".join((self.history, self.graph, *parts))

    @property
    def settings(self) -> dict[str, Any]:
        """The drain as the settings file has it: it soaks in one sweep."""
        found: dict[str, Any] = {
            "name": self.name,
            "deployment": NAME,
            "graph": self.graph,
            "population": {"metadata": {"history": self.history}},
            "policy": {"soak_sweeps": 1, "soak_hold": "0s", **self.policy},
        }
        if self.nodes:
            found["remove_nodes"] = list(self.nodes)
        if self.has_retention:
            found["policy"]["retention"] = {"idle_for": "0s", "reason": "conversations expire at once"}
        for name in self.fields:
            found |= _FIELDS[name]
        return found

    def is_about(self, life: Life) -> bool:
        """Whether the thread's work is this graph's."""
        return life.history == self.history and life.graph == self.graph and not life.is_gone

    def needed_by(self, lives: Iterable[Life]) -> list[Life]:
        """The threads that would lose something, or have lost something that was seen, by removing the target."""
        mine = (life for life in lives if self.is_about(life) and life.thread_id not in self.excused)
        return [life for life in mine if self._at_node(life) or self._by_field(life)]

    def may_hold_back(self, life: Life) -> bool:
        """Whether the thread needs the target, or holds fields of which nothing is claimed."""
        unclear = bool(self.fields) and life.holds is None and not life.never_ran
        return self.is_about(life) and (unclear or bool(self.needed_by([life])))

    def was_lost_by(self, life: Life) -> bool:
        """Whether a wait at the target was thrown away after it was seen."""
        is_mine = self.is_about(life) and life.thread_id not in self.excused
        return is_mine and any(life.lost_what_was_seen(node) for node in self.nodes)

    def surely_unneeded(self, life: Life) -> bool:
        """Whether nothing at all of this thread is at a node target."""
        quiet = not life.lost and not life.is_busy and not any(life.is_unsure(node) for node in self.nodes)
        inside = (leaf != node and at_or_below(leaf, node) for leaf in life.set_aside for node in self.nodes)
        quiet = quiet and not any(inside)  # the node around it is still scheduled
        return quiet and not any(life.needs(node) for node in self.nodes)

    def _at_node(self, life: Life) -> bool:
        return any(life.needs(node) for node in self.nodes)

    def _by_field(self, life: Life) -> bool:
        if self.has_retention and not life.at and not life.is_busy:
            return False
        if "erase" in self.fields and SECRET in life.stores:
            return True
        if life.holds is None or life.never_ran:
            return False
        return self._is_hit_by(life.holds, waits=bool(life.at))

    def _is_hit_by(self, holds: dict[str, object], *, waits: bool) -> bool:
        found = {
            "rename": loses_by_rename(holds),
            "version": is_not_a_version(holds, MINIMUM, NEWEST),
            "kind": has_wrong_kind(holds),
            "remove": NOTES in holds and waits,
        }
        return any(found.get(name, False) for name in self.fields)

    def suits(self, holds: Mapping[str, object]) -> bool:
        """Whether a thread that holds this may need a field of the drain."""
        return self._is_hit_by(dict(holds), waits=True) or ("erase" in self.fields and SECRET in holds)


_FIELDS: dict[str, dict[str, Any]] = {
    "rename": {"rename_fields": [{"old": OLD, "new": NEW}]},
    "version": {"minimum_versions": {VERSION: MINIMUM}, "newest_versions": {VERSION: NEWEST}},
    "kind": {"require_kinds": {COUNT: "integer"}},
    "remove": {"remove_fields": [NOTES]},
    "erase": {"erase_fields": [SECRET]},
}

CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "support": [
        {"nodes": ("await_approval",)},
        {"nodes": ("hold",)},
        {"fields": ("rename",)},
        {"fields": ("rename",), "has_retention": True},
        {"fields": ("version",)},
        {"fields": ("kind",)},
        {"fields": ("remove",)},
        {"fields": ("erase",)},
        {"nodes": ("await_approval",), "fields": ("rename",)},
        {"nodes": ("fail", "spin")},
    ],
    "dropped": [{"nodes": ("await_approval",)}],
    "nested": [{"nodes": ("desk/sub_wait",)}, {"nodes": ("desk",)}, {"nodes": ("desk/sub_start",)}],
    "remembering": [{"nodes": ("desk/sub_wait",)}],
    "deep": [{"nodes": ("office/desk/sub_wait",)}, {"nodes": ("office",)}],
    "half_step": [{"nodes": ("t",)}, {"nodes": ("b",)}],
    "goto": [{"nodes": ("t",)}],
    "join": [{"nodes": ("t",)}, {"nodes": ("b",)}],
    "deferred": [{"nodes": ("t",)}, {"nodes": ("b",)}],
    "beside": [{"nodes": ("c",)}, {"nodes": ("a", "b")}],
    "fan_out": [{"nodes": ("review",)}, {"nodes": ("publish",)}],
    "functional": [{"nodes": ("functional",)}, {"fields": ("erase",)}],
    "freeform": [{"nodes": ("wait",)}, {"fields": ("erase",)}],
    "strict": [{"nodes": ("await_amount",)}],
}
"""What may be drained of each graph."""
