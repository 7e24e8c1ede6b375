"""The command line: one pass, or one on every interval. Exits 0 after a whole pass, 2 when a pass does not count, 3 when nothing
could be told."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from drainboard_reporter.dashboard import ReporterError
from drainboard_reporter.loading import open_graph
from drainboard_reporter.passes import Options, Summary, areport

COULD_NOT, NOT_WHOLE = 3, 2
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A wrong option ends like everything that keeps facts from being told."""
        print(f"drainboard_reporter: {message}. --help lists the options.", file=sys.stderr)
        raise SystemExit(COULD_NOT)


def main(arguments: Sequence[str]) -> int:
    """Run it; the exit code."""
    options = _parsed(arguments)
    try:
        return asyncio.run(_run(options))
    except ReporterError as error:
        print(error, file=sys.stderr)
        return COULD_NOT
    except KeyboardInterrupt:
        return COULD_NOT


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="python -m drainboard_reporter", description=__doc__)
    parser.add_argument("--graph", required=True, help="module:name of a compiled graph, or of what makes one")
    parser.add_argument("--graph-id", help="the name that drains give the graph; by default the name after the colon")
    parser.add_argument("--deployment", required=True, help="its name in the dashboard's settings")
    parser.add_argument("--server", required=True, help="the dashboard, like http://127.0.0.1:8400")
    ids = parser.add_mutually_exclusive_group(required=True)
    ids.add_argument("--ids", help="a file with one thread id a line; - is standard input")
    ids.add_argument("--index", action="store_true", help="the ids that the dashboard's thread index lists")
    parser.add_argument("--once", action="store_true", help="one pass, and then end")
    parser.add_argument("--interval", type=_seconds, default=60.0, help="from the end of a pass to the next: 30s, 5m")
    parser.add_argument("--rate", type=_rate, default=500.0, help="threads a second, at most (500)")
    parser.add_argument("--concurrency", type=int, default=4, choices=range(1, 65), metavar="1…64")
    return parser.parse_args(arguments)


def _seconds(raw: str) -> float:
    unit = _UNITS.get(raw[-1:])
    try:
        found = float(raw[:-1]) * unit if unit else float(raw)
    except ValueError:
        found = 0.0
    if not 1 <= found <= 86400:
        raise argparse.ArgumentTypeError("write an interval like 30s, 5m or 1h")
    return found


def _rate(raw: str) -> float:
    try:
        found = float(raw)
    except ValueError:
        found = 0.0
    if not 0 < found <= 100_000:
        raise argparse.ArgumentTypeError("write a rate as a number of threads a second")
    return found


async def _run(options: argparse.Namespace) -> int:
    async with open_graph(options.graph) as graph:
        code = await _pass(graph, options, is_first=True)
        while not options.once:
            await asyncio.sleep(options.interval)
            code = await _pass(graph, options, is_first=False)
        return code


async def _pass(graph: Any, options: argparse.Namespace, *, is_first: bool) -> int:
    """One pass. What may be over by the next one ends only the first, which shows whether anything works at all."""
    try:
        summary = await areport(
            graph,
            None if options.index else _ids(options.ids),
            server=options.server,
            deployment=options.deployment,
            token=os.environ.get("DRAINBOARD_TOKEN") or None,
            graph_id=options.graph_id or options.graph.rpartition(":")[2],
            options=Options(rate=options.rate, concurrency=options.concurrency),
        )
    except ReporterError as error:
        if is_first or not (error.passes or error.code == "pass_ended"):
            raise
        print(error, file=sys.stderr)
        return COULD_NOT
    _say(summary)
    return 0 if summary.complete else NOT_WHOLE


def _ids(place: str) -> Iterator[str]:
    """One id a line; blank lines are none."""
    try:
        if place == "-":
            lines: Any = sys.stdin
            yield from (line.rstrip("\r\n") for line in lines if line.strip())
            return
        with Path(place).open(encoding="utf-8") as file:
            yield from (line.rstrip("\r\n") for line in file if line.strip())
    except (OSError, UnicodeDecodeError):
        raise ReporterError(
            f"The file {place} cannot be read as text. Give --ids a file with one thread id a line."
        ) from None


def _say(summary: Summary) -> None:
    earlier = f", {summary.earlier:,} in an earlier run of the same pass" if summary.earlier else ""
    print(
        f"{summary.reported:,} threads reported{earlier}; {summary.unreadable:,} unreadable, {summary.nothing:,} not found."
    )
    for sentence in (*summary.problems, *summary.reasons):
        print(sentence, file=sys.stderr)
    if not summary.complete:
        print("The pass does not count: not every thread was told of.", file=sys.stderr)
