"""The server that is looked at, in this process: what it holds is the truth, and nothing of the product says it."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from tests.faults.fake_server import FakeAgentServer, Thread, ok

NODES = ("intake", "old_step", "await_approval", "finish")
REMOVED = "long_gone"
"""A node that no graph has any more: threads that wait there are stranded."""


MOST_THREADS = 48
MOST_DELETED = 3  # in a round; two rounds together are fewer than a disappearance


class Now:
    """The real clock, as the server reads it: it never jumps."""

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)


class Server(FakeAgentServer):
    """The stand-in with the history of what its threads did: which tasks were finished at which checkpoint."""

    def __init__(self) -> None:
        super().__init__(Now())  # type: ignore[arg-type]
        self.done: dict[tuple[str, int], list[tuple[str, str]]] = {}

    def finish(self, thread: Thread) -> None:
        self.done[thread.id, thread.checkpoint] = list(thread.pending)
        super().finish(thread)

    def _route(self, request: httpx.Request) -> httpx.Response:
        parts = request.url.path.strip("/").split("/")
        if request.method == "POST" and parts[-1] == "history" and (thread := self.threads.get(parts[1])):
            return ok(self._history(thread))
        return super()._route(request)

    def _history(self, thread: Thread) -> list[dict[str, Any]]:
        found = []
        for number in range(thread.checkpoint, max(0, thread.checkpoint - 9), -1):
            done = self.done.get((thread.id, number), [])
            found.append(
                {
                    "checkpoint": {"checkpoint_id": f"1f1ecba7-{number:04}"},
                    "parent_checkpoint": {"checkpoint_id": f"1f1ecba7-{number - 1:04}"},
                    "metadata": {"graph_id": thread.head_graph, "source": "loop", "step": number},
                    "created_at": thread.updated_at.isoformat(),
                    "tasks": [{"id": task, "name": node, "result": {"x": 1}} for node, task in done],
                }
            )
        return found


@dataclass(frozen=True)
class Target:
    """What a drain removes, and whether a thread needs it."""

    drain: str
    graph: str = "support"
    node: str | None = None
    field: str | None = None

    def settings(self, deployment: str, policy: dict[str, Any]) -> dict[str, Any]:
        what = (
            {"remove_nodes": [self.node]}
            if self.node
            else {"rename_fields": [{"old": self.field, "new": "display_name"}]}
        )
        return {"name": self.drain, "deployment": deployment, "graph": self.graph, "policy": policy} | what

    def is_needed_by(self, thread: Thread) -> bool:
        if self.node is not None:
            return any(node == self.node for node, _ in thread.pending)
        return self.field in (thread.values or {})


TARGETS = (
    Target("approvals", node="await_approval"),
    Target("old-steps", node="old_step"),
    Target("names", field="customer_name"),
    Target("gone-nodes", graph="archive", node=REMOVED),
)


@dataclass
class World:
    """``needed``: of each drain, since when (on a clock that never jumps) each thread needs its target without a break.
    ``may_delete``: how many threads may still vanish in this round: never so many that a person would have to explain it."""

    server: Server = field(default_factory=Server)
    needed: dict[str, dict[str, float]] = field(default_factory=dict)
    may_delete: int = 0

    def fill(self, threads: int) -> None:
        self.server.graphs = {"support": list(NODES), "archive": ["finish"]}
        for number in range(threads):
            self._make(number)
        self.server.parked(REMOVED, graph="archive", head_graph="archive")
        self.note()

    def _make(self, number: int) -> Thread:
        match number % 6:
            case 0:
                return self.server.parked("await_approval")
            case 1:
                return self.server.parked("old_step")
            case 2:
                return self.server.thread(values={"state_version": 2, "customer_name": "somebody"})
        return self.server.thread()

    # -- what happens ------------------------------------------------------------------------------------------------

    def move(self, chance: random.Random) -> None:
        """One thread goes on, as threads do."""
        deed = chance.choice((self.park, self.park_silently, self.finish, self.finish, self.rename, self.write_old))
        deed(chance)
        if chance.random() < 0.1 and len(self.server.threads) < MOST_THREADS:
            self.bear(chance)
        if chance.random() < 0.05 and len(self.server.threads) > 12 and self.may_delete:
            self.may_delete -= 1
            self.delete(chance)
        self.note()

    def empty(self, drain: str) -> None:
        """Nobody needs the target any more."""
        for thread in self.needing(drain):
            self._end(thread)
        self.note()

    def park(self, chance: random.Random) -> None:
        if idle := [thread for thread in self._live() if not thread.pending]:
            self.server.park(chance.choice(idle), chance.choice(("await_approval", "old_step")))

    def park_silently(self, chance: random.Random) -> None:
        """It waits, and its row is idle: a copy of a parked thread looks so."""
        if idle := [thread for thread in self._live() if not thread.pending]:
            thread = chance.choice(idle)
            self.server.park(thread, chance.choice(("await_approval", "old_step")))
            thread.status = "idle"

    def finish(self, chance: random.Random) -> None:
        if waiting := [thread for thread in self._live() if thread.pending]:
            self.server.finish(chance.choice(waiting))

    def rename(self, chance: random.Random) -> None:
        if old := self.needing("names"):
            self._end(chance.choice(old))

    def write_old(self, chance: random.Random) -> None:
        thread = chance.choice(self._live())
        thread.values = {"state_version": 2, "customer_name": "somebody"}
        self._moved(thread)

    def bear(self, chance: random.Random) -> None:
        self.server.thread(created_at=datetime.now(UTC), updated_at=datetime.now(UTC))

    def delete(self, chance: random.Random) -> None:
        del self.server.threads[chance.choice(self._live()).id]

    def _live(self) -> list[Thread]:
        return [thread for thread in self.server.threads.values() if (REMOVED not in dict(thread.pending))]

    def _end(self, thread: Thread) -> None:
        if thread.pending and REMOVED not in dict(thread.pending):
            self.server.finish(thread)
        if "customer_name" in (thread.values or {}):
            thread.values = {"state_version": 2, "display_name": "somebody"}
            self._moved(thread)

    def _moved(self, thread: Thread) -> None:
        thread.checkpoint += 1
        thread.updated_at = thread.head_at = datetime.now(UTC)

    # -- what is so --------------------------------------------------------------------------------------------------

    def needing(self, drain: str) -> list[Thread]:
        target = next(found for found in TARGETS if found.drain == drain)
        return [thread for thread in self.server.threads.values() if target.is_needed_by(thread)]

    def note(self) -> None:
        """Keep since when each thread needs what it needs. Call it after everything that happens."""
        now = time.monotonic()
        for target in TARGETS:
            before = self.needed.get(target.drain, {})
            self.needed[target.drain] = {thread.id: before.get(thread.id, now) for thread in self.needing(target.drain)}

    def counts(self) -> dict[str, dict[str, int]]:
        """What an inventory must say: of every row; of what waits, where the row shows that something does."""
        threads = list(self.server.threads.values())
        shown = [one for one in threads if one.status != "idle"]
        found = {
            "status": Counter(one.status for one in threads),
            "old": Counter("present" if "customer_name" in (one.values or {}) else "absent" for one in threads),
            "pending": Counter(node for one in shown for node, _ in one.pending),
        }
        return {name: dict(each) for name, each in found.items()}

    def hidden(self) -> Counter[str]:
        """How many wait at a node although their row is idle: seen when somebody needs to know."""
        return Counter(node for one in self.server.threads.values() if one.status == "idle" for node, _ in one.pending)

    def ids(self) -> set[str]:
        return set(self.server.threads)
