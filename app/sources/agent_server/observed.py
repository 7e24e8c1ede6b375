"""What a server was seen to do, by looking at what came back: never at a version. Nothing of a value is kept.

True: seen to work. False: seen to be refused, ignored or lacking. Not there: nothing has shown it yet.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SortBy = Literal["thread_id", "created_at", "updated_at"]


@dataclass
class Observed:
    """Filled by the client as it asks; a sweep begins with a new one, since a server may have been replaced."""

    found: dict[str, bool] = field(default_factory=dict)

    def page(self, raw: Sequence[Any], *, asked: Collection[str], selected: bool, limit: int) -> None:
        """One page of ``threads.search``. ``asked``: the fields that were asked for, ``selected``: by ``select``."""
        rows = [row for row in raw if isinstance(row, Mapping)]
        if selected and rows:
            self.found["select"] = not any(row.keys() - set(asked) for row in rows)
        if not selected:
            self.found["select"] = False
        self._worst("limit", len(raw) <= limit, shown=bool(raw))
        self._rows(rows, "row")

    def order(self, sort_by: SortBy, keys: Sequence[Any], *, descending: bool) -> None:
        """In which order a page came."""
        in_order = list(keys) == sorted(keys, reverse=descending)
        self._worst(f"sort_by_{sort_by}", in_order, shown=len(set(keys)) > 1)

    def thread(self, raw: object) -> None:
        """A row by id."""
        if isinstance(raw, Mapping):
            self._rows([raw], "row_by_id")

    def state(self, raw: object) -> None:
        """A state: whether its head names its graph, and whether tasks say that they were sent."""
        if not isinstance(raw, Mapping) or not isinstance(checkpoint := raw.get("checkpoint"), Mapping):
            return
        metadata = raw.get("metadata")
        if checkpoint.get("checkpoint_id") and isinstance(metadata, Mapping):
            self._best("head_graph", bool(metadata.get("graph_id")))
        for task in raw.get("tasks") or ():
            if isinstance(task, Mapping):
                self._worst("task_paths", "path" in task, shown=True)
                self._worst("task_interrupts", "interrupts" in task, shown=True)

    def runs(self, raw: object) -> None:
        """A list of runs: whether they say how they write checkpoints, and whether ``select`` left out the rest."""
        self.note("runs", isinstance(raw, list))
        for run in raw if isinstance(raw, list) else ():
            if isinstance(run, Mapping):
                kwargs = run.get("kwargs")
                self._best("run_durability", isinstance(kwargs, Mapping) and "durability" in kwargs)
                self._worst("run_select", not run.keys() - {"run_id", "status", "created_at", "kwargs"}, shown=True)

    def note(self, name: str, works: bool) -> None:
        """Anything else that was tried; one failure is enough."""
        self._worst(name, works, shown=True)

    def _rows(self, rows: Sequence[Mapping[str, Any]], prefix: str) -> None:
        for row in rows:
            self._best(f"{prefix}_values", "values" in row)
            self._best(f"{prefix}_state_time", row.get("state_updated_at") is not None)
            # An idle row lacks the key on the official server too.
            if prefix == "row" and row.get("status") == "interrupted":
                self._best(f"{prefix}_interrupts", "interrupts" in row)

    def _best(self, name: str, works: bool) -> None:
        """One that has it is enough."""
        self.found[name] = works or self.found.get(name, False)

    def _worst(self, name: str, works: bool, *, shown: bool) -> None:
        """One that lacks it is enough, among those that could show it."""
        if shown or not works:
            self.found[name] = works and self.found.get(name, True)
