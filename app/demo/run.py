"""The demo: a real Agent Server on this machine with the example graphs, its traces, and the two drains to look at.

The server keeps its threads in its folder, so the demo goes on where it was left; delete the folder to start anew.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.demo.agent_server import LocalAgentServer
from app.demo.langsmith.runs import Runs
from app.demo.langsmith.standin import make_standin, serve_standin

DEPLOYMENT = "demo"
PROJECT = "demo"

_AGENT = Path(__file__).parent / "agent"

# As `[[drains]]` of the settings has them.
DEMO_DRAINS: list[dict[str, Any]] = [
    {
        # Blocked: people still have to answer there, and most threads know their customer by the old name.
        "name": "drop-await-approval",
        "deployment": DEPLOYMENT,
        "graph": "support",
        "owner": "payments team",
        "remove_nodes": ["await_approval"],
        "rename_fields": [{"old": "customer_name", "new": "display_name"}],
    },
    {
        # Drained, with every proof and nothing accepted; only the soak is short, so that it can be watched.
        "name": "drop-legacy-triage",
        "deployment": DEPLOYMENT,
        "graph": "support",
        "owner": "support team",
        "remove_nodes": ["legacy_triage"],
        # No trace of it in a month, while other nodes left some; the window begins with the first thread.
        "policy": {"soak_sweeps": 1, "soak_hold": "5s", "trace_window": "30d"},
    },
]


@dataclass(frozen=True)
class DemoServers:
    """Where the Agent Server answers, and the stand-in for LangSmith that it traces into."""

    url: str
    langsmith: str


@contextmanager
def demo_servers(home: Path) -> Iterator[DemoServers]:
    """Run both in `home` and give their addresses; they are stopped at the end. Seeding is `app.demo.seed`.

    The graphs are copied each time, so a newer version of the demo is a deploy over the threads that are there.
    Raises AgentServerFailed.
    """
    home.mkdir(parents=True, exist_ok=True)
    for source in _AGENT.iterdir():
        if source.is_file():
            shutil.copyfile(source, home / source.name)
    with serve_standin(make_standin(Runs(home / "traces.jsonl"))) as langsmith:
        tracing = {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": langsmith,
            "LANGSMITH_API_KEY": "demo",
            "LANGSMITH_PROJECT": PROJECT,
        }
        with LocalAgentServer(home, env=tracing) as server:
            yield DemoServers(server.url, langsmith)
