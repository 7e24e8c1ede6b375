"""The demo: a real Agent Server on this machine with the example graphs, and the two drains to look at.

The server keeps its threads in its folder, so the demo goes on where it was left; delete the folder to start anew.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.demo.agent_server import LocalAgentServer

DEPLOYMENT = "demo"

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
        "policy": {"soak_sweeps": 1, "soak_hold": "5s"},
    },
]


@contextmanager
def demo_server(home: Path) -> Iterator[str]:
    """Run the Agent Server in `home` and give its address; it is stopped at the end. Seeding it is `app.demo.seed`.

    The graphs are copied each time, so a newer version of the demo is a deploy over the threads that are there.
    Raises AgentServerFailed.
    """
    home.mkdir(parents=True, exist_ok=True)
    for source in _AGENT.iterdir():
        if source.is_file():
            shutil.copyfile(source, home / source.name)
    with LocalAgentServer(home) as server:
        yield server.url
