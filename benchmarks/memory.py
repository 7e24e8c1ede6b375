"""Memory while a first sweep goes through many threads: peak, and whether it stays flat.

    python -m benchmarks.memory [--threads 1000000] --bench FOLDER

Prints the resident memory of this process, which holds Drainboard and nothing else, over time.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.ground import NAME, drainboard, options, run, say, settings, stand_in

EVERY = 10.0


def resident() -> float:
    """MiB that this process has in memory now; its peak where the system does not say."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.read_text().split()[1]) * resource.getpagesize() / 2**20


async def sweep(given: argparse.Namespace) -> None:
    """One first sweep, watched."""
    with stand_in(given) as server, tempfile.TemporaryDirectory() as folder:
        async with drainboard(settings(Path(folder), server.url, given)) as runtime:
            started = time.perf_counter()
            say(f"{given.threads:,} threads of {given.value_bytes} bytes; {resident():.0f} MiB before")
            task = asyncio.create_task(runtime.poll(NAME, full=True))
            while not task.done():
                await asyncio.wait([task], timeout=EVERY)
                say(f"  {time.perf_counter() - started:>7.0f} s  {resident():>6.0f} MiB")
            poll = task.result()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            say(f"peak {peak:.0f} MiB; {poll.threads_seen:,} threads, {poll.requests:,} requests, {poll.state}")


def main() -> None:
    """The command line."""
    run(sweep(options(__doc__.splitlines()[0], threads=1_000_000).parse_args()))


if __name__ == "__main__":
    main()
