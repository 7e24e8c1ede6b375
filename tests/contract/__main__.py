"""``./scripts/fuzz-api``: many requests by the description, open and with a token. Exit code 1: something was wrong."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.contract.asking import Asked, ask
from tests.contract.board import opened


async def _run(examples: int, number: int, *, signs_in: bool) -> Asked:
    with tempfile.TemporaryDirectory() as home:
        async with opened(Path(home), f"sqlite+aiosqlite:///{home}/board.db", signs_in=signs_in) as board:
            return await ask(board, examples=examples, number=number, negative=True)


def main() -> int:
    """Run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    wrong = 0
    for signs_in in (False, True):
        found = asyncio.run(_run(asked.examples, asked.seed, signs_in=signs_in))
        answers = ", ".join(f"{count:,} x {status}" for status, count in sorted(found.answers.items()))
        lines = [
            f"{'with a token' if signs_in else 'open'}: {found.cases:,} requests: {answers}; wrong: {len(found.wrong)}"
        ]
        print("\n\n".join(lines + found.wrong[:20]))  # noqa: T201
        wrong += len(found.wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
