"""Tries what a poll may need and has not tried yet, on one thread: a handful of requests in a sweep.

What the poll itself asks for (pages, states, counts, drawings, schemas) is observed as it comes back and costs nothing here.
"""

import contextlib

from app.errors import SourceError
from app.sources.agent_server.client import AgentServer

_NOWHERE = "drainboard:00000000-0000-0000-0000-000000000000"


async def probe(server: AgentServer, thread_id: str) -> None:
    """Fill ``server.observed``. What fails stays unknown: one bad thread stops no poll."""
    with contextlib.suppress(SourceError):
        await server.thread(thread_id)
        await server.storage(thread_id)
        await server.runs(thread_id, active=False)
        await _history(server, thread_id)


async def _history(server: AgentServer, thread_id: str) -> None:
    """Whether history answers, and whether it keeps to a namespace: one that does not exist has no checkpoints."""
    root = await server.history(thread_id, ns="", down_to="", limit=1)
    server.observed.note("history", root is not None)
    if root:
        inner = await server.history(thread_id, ns=_NOWHERE, down_to="", limit=1)
        server.observed.note("history_namespaces", inner is not None and not inner)
