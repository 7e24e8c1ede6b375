"""The world of the truth machine: a real Agent Server, and which revision of which graphs is deployed on it.

A revision is put together from the parts of `tests/agent/graphs`: each part is deployed as it was `before` or as it is `after`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from app.demo.agent_server import LocalAgentServer, write_files
from tests.agent.situations import revision

BEFORE, AFTER, NO_FIELD = "before", "after", "no field"

PARTS: Mapping[str, tuple[str, ...]] = {
    "support.py": (BEFORE, AFTER, NO_FIELD),
    "fan_out.py": (BEFORE, AFTER),
    "nested.py": (BEFORE, AFTER),
    "scheduled.py": (BEFORE, AFTER),
    "strict.py": (BEFORE, AFTER),
    "langgraph.json": (BEFORE, AFTER),
}
"""What can be deployed by itself. `no field`: the node is there, the old field is not. `langgraph.json` after: one graph less."""

FILES: Mapping[str, str] = {
    "support": "support.py",
    "dropped": "support.py",
    "fan_out": "fan_out.py",
    "nested": "nested.py",
    "remembering": "nested.py",
    "deep": "nested.py",
    "half_step": "scheduled.py",
    "goto": "scheduled.py",
    "join": "scheduled.py",
    "deferred": "scheduled.py",
    "beside": "scheduled.py",
    "functional": "functional.py",
    "freeform": "functional.py",
    "strict": "strict.py",
}
"""The file of each graph."""

RENAMED: Mapping[str, tuple[str, str | None]] = {
    "support": ("await_approval", "await_signoff"),
    "dropped": ("await_approval", "await_signoff"),
    "fan_out": ("review", "check"),
    "nested": ("desk/sub_wait", "desk/sub_hold"),
    "remembering": ("desk/sub_wait", "desk/sub_hold"),
    "deep": ("office/desk/sub_wait", "office/desk/sub_hold"),
    "half_step": ("t", "t2"),
    "goto": ("t", "t2"),
    "join": ("t", "t2"),
    "deferred": ("t", "t2"),
    "beside": ("c", None),
}
"""The node of each graph that is renamed, or removed, by the next revision."""


class World:
    """One server with its folder. `parts` says what is deployed of each; `restarts_later`: it will be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.parts = dict.fromkeys(PARTS, BEFORE)
        self.restarts_later = True
        self.kills = 0
        write_files(folder, self._files())
        (folder / "gates").mkdir()
        self.server = LocalAgentServer(folder)

    @property
    def url(self) -> str:
        """Where the server answers."""
        return self.server.url

    @property
    def folder(self) -> Path:
        """Where it keeps its threads, and the gates of held nodes."""
        return self.server.folder

    async def start(self) -> None:
        """Start the server."""
        await asyncio.to_thread(self.server.start)

    async def deploy(self, parts: Mapping[str, str]) -> None:
        """Another revision on the same folder."""
        self.parts.update(parts)
        await asyncio.to_thread(self.server.deploy, self._files())

    async def without(self, meanwhile: Callable[[], Awaitable[object]]) -> None:
        """The server is away while something else is done."""
        await asyncio.to_thread(self.server.stop)
        await meanwhile()
        await asyncio.to_thread(self.server.start)

    async def kill(self, meanwhile: Awaitable[object] | None, *, after: float) -> None:
        """SIGKILL, so many seconds after a restart, and start again. `meanwhile` begins with the restart.

        A server in memory writes its checkpoints when it ends, not before: what has happened since its last start dies with it.
        So it ends first, and is killed before anything else happens.
        """
        await asyncio.to_thread(self.server.stop)
        await asyncio.to_thread(self.server.start)
        going = asyncio.ensure_future(meanwhile) if meanwhile is not None else None
        await asyncio.sleep(after)
        self.kills += 1
        await asyncio.to_thread(self.server.stop, kill=True)
        await asyncio.to_thread(self.server.start)
        if going is not None:
            await going

    def stop(self) -> None:
        """End it for good."""
        self.server.stop(kill=True)

    # -- what is deployed ----------------------------------------------------------------------------------------

    def has_graph(self, graph: str) -> bool:
        """Whether a graph is deployed."""
        return graph != "dropped" or self.parts["langgraph.json"] == BEFORE

    def has(self, graph: str, leaf: str) -> bool:
        """Whether a graph is deployed with this node."""
        old, new = RENAMED.get(graph, (None, None))
        after = self.parts.get(FILES[graph]) == AFTER
        return self.has_graph(graph) and leaf != (old if after else new)

    def named(self, graph: str, leaf: str) -> str | None:
        """What a node of the first revision is called now; None: it is not there."""
        old, new = RENAMED.get(graph, (None, None))
        return new if leaf == old and self.parts.get(FILES[graph]) == AFTER else leaf

    def declares(self, field: str) -> bool:
        """Whether the deployed `support` has this field."""
        gone = {BEFORE: (), NO_FIELD: ("customer_name",), AFTER: ("customer_name", "legacy_notes")}
        return field not in gone[self.parts["support.py"]]

    def _files(self) -> dict[str, str]:
        before, after = revision("before"), revision("after")
        files = dict(before)
        for part, chosen in self.parts.items():
            if chosen == AFTER:
                files[part] = after[part]
            if chosen == NO_FIELD:
                files[part] = before[part].replace("    customer_name: Any\n", "")
        return files
