"""A first inventory against the naive script: requests, time and memory on the same server, one after the other.

    python -m benchmarks.against_naive [--threads 100000] [--rounds 1] --bench FOLDER

Drainboard runs in a process of its own, like the script, so that memory is comparable. Ratios are what counts.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.ground import StandIn, drainboard, measured, options, run, say, settings, stand_in


async def poll_once(given: argparse.Namespace) -> None:
    """What the child does: one first sweep."""
    with tempfile.TemporaryDirectory() as folder:
        async with drainboard(settings(Path(folder), given.url, given)) as runtime:
            found = await measured(runtime, full=True)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            told = {"seconds": found.seconds, "requests": found.poll.requests}
            say(json.dumps(told | {"peak_mib": round(peak, 1), "state": found.poll.state}))


async def compare(given: argparse.Namespace) -> None:
    """Both, in turn, on one server."""
    with stand_in(given) as server:
        for number in range(given.rounds):
            await _compare_once(server, given, number)


async def _compare_once(server: StandIn, given: argparse.Namespace, number: int) -> None:
    await server.do("reset_stats")
    script = [sys.executable, str(server.folder / "naive_inventory.py"), server.url, "--page", str(given.page_size)]
    naive = _json_of(script)
    asked = await server.do("stats")
    naive["requests"] = asked["search"] + asked["state"]
    child = [sys.executable, "-m", "benchmarks.against_naive", "--url", server.url, "--page-size", str(given.page_size)]
    ours = _json_of(child)
    say(f"round {number + 1}: {given.threads:,} threads, {given.value_bytes} bytes of state, {given.latency_ms} ms")
    for name in ("seconds", "processor", "requests", "peak_mib"):
        say(
            f"  {name:<9} naive {naive[name]:>10,.1f}  drainboard {ours[name]:>10,.1f}  {ours[name] / naive[name]:.2f}x"
        )
    say(f"  the poll is {ours['state']}")


def _json_of(command: list[str]) -> dict[str, float]:
    before = _processor()
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"processor": _processor() - before} | dict(json.loads(found.stdout.splitlines()[-1]))


def _processor() -> float:
    """Seconds of processor time that children took which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """The command line."""
    parser = options(__doc__.splitlines()[0], threads=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--url", help=argparse.SUPPRESS)  # what the child polls
    given = parser.parse_args()
    run(poll_once(given) if given.url else compare(given))


if __name__ == "__main__":
    main()
