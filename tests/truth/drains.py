"""The drains that a history may have, and what is true of each: by what was done, never by what the product says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.truth.lives import NEW, OLD, VERSION, Life, is_below_version, loses_by_rename
from tests.truth.product import NAME

MINIMUM = 2


@dataclass(frozen=True)
class Watched:
    """One drain of one history."""

    history: str
    graph: str
    nodes: tuple[str, ...] = ()
    rename: bool = False
    version: bool = False

    @property
    def name(self) -> str:
        """The drain's name."""
        parts = [node.replace("/", ".") for node in self.nodes]
        parts += ["rename"] if self.rename else []
        parts += ["version"] if self.version else []
        return "-".join((self.history, self.graph, *parts))

    @property
    def settings(self) -> dict[str, Any]:
        """The drain as the settings file has it: it soaks in one sweep."""
        found: dict[str, Any] = {
            "name": self.name,
            "deployment": NAME,
            "graph": self.graph,
            "population": {"metadata": {"history": self.history}},
            "policy": {"soak_sweeps": 1, "soak_hold": "0s"},
        }
        if self.nodes:
            found["remove_nodes"] = list(self.nodes)
        if self.rename:
            found["rename_fields"] = [{"old": OLD, "new": NEW}]
        if self.version:
            found["minimum_versions"] = {VERSION: MINIMUM}
        return found

    def is_about(self, life: Life) -> bool:
        """Whether the thread's work is this graph's."""
        return life.history == self.history and life.graph == self.graph and not life.is_gone

    def needed_by(self, lives: Iterable[Life]) -> list[Life]:
        """The threads that would lose something, or have lost something that was seen, by removing the target."""
        return [life for life in lives if self.is_about(life) and (self._at_node(life) or self._by_field(life))]

    def may_hold_back(self, life: Life) -> bool:
        """Whether the thread needs the target, or holds fields of which nothing is claimed."""
        unclear = (self.rename or self.version) and life.holds is None and not life.never_ran
        return self.is_about(life) and (unclear or bool(self.needed_by([life])))

    def was_lost_by(self, life: Life) -> bool:
        """Whether a wait at the target was thrown away after it was seen."""
        return self.is_about(life) and any(life.lost_what_was_seen(node) for node in self.nodes)

    def surely_unneeded(self, life: Life) -> bool:
        """Whether nothing at all of this thread is at a node target."""
        quiet = not life.lost and not life.is_busy and not any(life.is_unsure(node) for node in self.nodes)
        return quiet and not any(life.needs(node) for node in self.nodes)

    def _at_node(self, life: Life) -> bool:
        return any(life.needs(node) for node in self.nodes)

    def _by_field(self, life: Life) -> bool:
        if life.holds is None or life.never_ran:
            return False
        return (self.rename and loses_by_rename(life.holds)) or (self.version and is_below_version(life.holds, MINIMUM))


CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "support": [
        {"nodes": ("await_approval",)},
        {"nodes": ("hold",)},
        {"rename": True},
        {"version": True},
        {"nodes": ("await_approval",), "rename": True},
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
    "functional": [{"nodes": ("functional",)}],
    "freeform": [{"nodes": ("wait",)}],
    "strict": [{"nodes": ("await_amount",)}],
}
"""What may be drained of each graph."""
