"""What a poll costs when 0 %, 0.1 % and 1 % of the threads have moved, and what a green verdict costs.

    python -m benchmarks.steady_state [--threads 100000] [--slope 10000,100000,1000000] [--polite] --bench FOLDER

First with a blocked drain only, then with two drains of which one is not blocked, and default verification. ``--polite``
keeps the default budget of 1,200 requests a minute and pages of 200 rows.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from app.jobs.runtime import Runtime
from benchmarks.ground import NAME, Measured, StandIn, drainboard, measured, options, run, say, settings, stand_in

SHARES = (0.0, 0.001, 0.01)
HANDFULS = 20


async def steady(given: argparse.Namespace, threads: int) -> None:
    """One size."""
    say(f"{threads:,} threads")
    for both in (False, True):
        with stand_in(given, threads=threads) as server, tempfile.TemporaryDirectory() as folder:
            found = settings(Path(folder), server.url, given, both=both, **_budget(given))
            async with drainboard(found) as runtime:
                say("  two drains, one of them not blocked" if both else "  a blocked drain only")
                first = await measured(runtime, full=True)
                _row("first sweep", first, first)
                if both:
                    await _verify(runtime)
                for share in SHARES:
                    await _moved(runtime, server, round(threads * share), first)


def _budget(given: argparse.Namespace) -> dict[str, Any]:
    return {"requests_per_minute": 1200, "page_size": 200} if given.polite else {}


async def _moved(runtime: Runtime, server: StandIn, count: int, first: Measured) -> None:
    if count:
        await server.do("touch", count)
    _row(f"scan, {count:,} moved", await measured(runtime, full=False), first)


async def _verify(runtime: Runtime) -> None:
    """What the background does between two polls, as far as some handfuls go: the price of a green verdict."""
    server = await runtime.server(NAME)
    before, read = server.requests, 0
    for _ in range(HANDFULS):
        read += await runtime.verify(NAME)
    per_head = (server.requests - before) / max(1, read)
    say(f"    {'verifying idle heads':<24} {read:>8,} heads {per_head:>6.2f} requests each")


def _row(name: str, found: Measured, first: Measured) -> None:
    share = first.poll.requests / max(1, found.poll.requests)
    say(
        f"    {name:<24} {found.seconds:>8.2f} s {found.processor:>7.2f} s processor {found.poll.requests:>7,} requests"
        f" {found.poll.states_read:>7,} states   {share:>8,.0f} times fewer than the first   {found.poll.state}"
    )


async def all_sizes(given: argparse.Namespace) -> None:
    """Every size that was asked for."""
    for threads in given.slope or [given.threads]:
        await steady(given, threads)


def main() -> None:
    """The command line."""
    parser = options(__doc__.splitlines()[0], threads=100_000)
    parser.add_argument("--slope", type=lambda raw: [int(one) for one in raw.split(",")])
    parser.add_argument("--polite", action="store_true")
    run(all_sizes(parser.parse_args()))


if __name__ == "__main__":
    main()
