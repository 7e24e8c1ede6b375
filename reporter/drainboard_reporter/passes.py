"""All threads once: ask the dashboard which ones are left, read them, send what was found, until none is left.

The dashboard keeps how far a pass got, so a reporter that was killed goes on where it stopped, and two of the same code
share a pass. Nothing is kept here but the threads of one batch.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import httpx

from drainboard_reporter import wire
from drainboard_reporter.dashboard import Dashboard, Json, ReporterError, pairs
from drainboard_reporter.drawing import draw
from drainboard_reporter.facts.privacy import Names
from drainboard_reporter.facts.reading import Reading
from drainboard_reporter.loading import check_saver
from drainboard_reporter.reader import Reader, Wanted

BATCH = 200
MOST_ROUNDS = 20  # of looking for what was listed meanwhile
MOST_TRIES = 3
FAILED_IN_A_ROW = 20  # then it is the store, and not the threads
LONGEST_ID = 255


@dataclass
class Summary:
    """One pass. ``reported``: threads that were told in it by this process; ``earlier``: before, by one that was stopped."""

    reported: int = 0
    earlier: int = 0
    unreadable: int = 0
    nothing: int = 0
    problems: list[str] = field(default_factory=list)
    complete: bool = False
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """How to go about it. ``rate``: threads a second; ``concurrency``: threads that are read at once by a saver that can."""

    rate: float = 500.0
    concurrency: int = 4
    tell: Callable[[str], None] = lambda _: None


def report(graph: Any, thread_ids: Iterable[str] | None = None, **options: Any) -> Summary:
    """One pass, from an application without an event loop: ``areport`` has the arguments."""
    return asyncio.run(areport(graph, thread_ids, **options))


async def areport(
    graph: Any,
    thread_ids: Iterable[str] | None = None,
    *,
    server: str,
    deployment: str,
    token: str | None = None,
    graph_id: str | None = None,
    options: Options = Options(),
    transport: httpx.AsyncBaseTransport | None = None,
) -> Summary:
    """Tell the dashboard of these threads, and of all that it knows or that its thread index lists.

    ``thread_ids`` None: only those. ``graph_id``: the name that drains give the graph, by default its own. Raises
    ``ReporterError`` with one sentence.
    """
    name = graph_id or str(getattr(graph, "name", "") or "graph")
    check_saver(graph, name)
    async with Dashboard(server, deployment, token, transport=transport) as dashboard:
        return await _Pass(graph, name, dashboard, options).run(thread_ids)


class _Pass:
    """One pass under way."""

    def __init__(self, graph: Any, graph_id: str, dashboard: Dashboard, options: Options) -> None:
        self._graph = graph
        self._topology = draw(graph, graph_id)
        self._dashboard = dashboard
        self._options = options
        self._summary = Summary()
        self._id = uuid.uuid4().hex
        self._reader: Reader | None = None
        self._tried: dict[str, int] = {}
        self._given: set[int] = set()
        self._next = 0.0

    async def run(self, thread_ids: Iterable[str] | None) -> Summary:
        """To its end."""
        reader = self._reader = await self._begin(is_file=thread_ids is not None)
        for ids in _batches(self._fit(thread_ids or ()), BATCH):
            await self._work(reader, await self._left(ids=ids))
        for _ in range(MOST_ROUNDS):
            async for wanted in self._all_left():
                await self._work(reader, wanted)
            answer = await self._dashboard.send(
                **{"pass": self._id}, end=True, ids=len(self._given), problems=len(self._summary.problems)
            )
            self._summary.complete = bool(answer.get("complete"))
            self._summary.reasons = [str(one) for one in answer.get("reasons", ())]
            if answer.get("ended") or self._summary.problems:
                break
        return self._summary

    async def _begin(self, *, is_file: bool) -> Reader:
        saver = type(self._graph.checkpointer).__name__
        topology = {"graph_id": self._topology.graph_id, **wire.topology_json(self._topology)}
        begin = {
            "topology": topology,
            "saver": saver,
            "langgraph": _version("langgraph"),
            "ids": "file" if is_file else "index",
        }
        answer = await self._dashboard.send(**{"pass": self._id}, begin=begin)
        self._id = str(answer["pass_id"])
        self._summary.earlier = int(answer.get("reported") or 0)
        told = answer["reading"]
        names = Names(told["names"], key=bytes.fromhex(told["key"]))
        reading = Reading(names, tuple(told["version_keys"]), pairs(told["renames"]), tuple(told["metadata_keys"]))
        return Reader(self._graph, self._topology, reading)

    def _fit(self, thread_ids: Iterable[str]) -> Iterator[str]:
        """The ids that can be ids, each once."""
        for raw in thread_ids:
            found = str(raw)
            if not found or len(found) > LONGEST_ID or "\0" in found:
                self._problem("An id is longer than 255 characters, or holds the character NUL, and was left out.")
            elif hash(found) not in self._given:
                self._given.add(hash(found))
                yield found

    async def _left(self, ids: Sequence[str]) -> list[Wanted]:
        answer = await self._dashboard.send(**{"pass": self._id}, left={"ids": list(ids), "limit": len(ids)})
        return _wanted(answer)

    async def _all_left(self) -> AsyncIterator[list[Wanted]]:
        """What the dashboard knows or lists and was not told of yet, a batch at a time."""
        found: list[Wanted] = []
        while True:
            after, before = (found[-1].thread_id if found else ""), found
            answer = await self._dashboard.send(**{"pass": self._id}, left={"after": after, "limit": BATCH})
            found = _wanted(answer)
            if not found or found == before:  # the same again: it was not taken
                return
            yield found

    async def _work(self, reader: Reader, wanted: Sequence[Wanted]) -> None:
        """Read threads and send what was found."""
        if not wanted:
            return
        lines = await self._read(reader, wanted)
        if reader.failed_in_a_row >= FAILED_IN_A_ROW:
            raise ReporterError(
                f"The checkpointer could not be asked for {reader.failed_in_a_row} threads in a row. Is its database there?",
                passes=True,
            )
        answer = await self._dashboard.send(**{"pass": self._id}, threads=lines)
        self._count(lines, answer)

    def _count(self, lines: Sequence[Json], answer: Json) -> None:
        self._summary.reported += int(answer.get("taken", 0))
        self._summary.unreadable += sum(line["found"] in ("unreadable", "not_now") for line in lines)
        self._summary.nothing += sum(line["found"] == "nothing" for line in lines)
        for found in answer.get("problems", ()):
            self._problem(f"{lines[found['line'] - 1]['thread_id']}: {found['message']}")
        again = answer.get("again", ())
        for one in again:
            self._tried[one] = self._tried.get(one, 0) + 1
        done = self._summary.reported + self._summary.earlier
        self._options.tell(f"{done:,} threads reported")

    async def _read(self, reader: Reader, wanted: Sequence[Wanted]) -> list[Json]:
        gate = asyncio.Semaphore(self._options.concurrency)

        async def one(each: Wanted) -> Json:
            async with gate:
                await self._pace()
                if self._tried.get(each.thread_id, 0) >= MOST_TRIES:
                    return {"thread_id": each.thread_id, "found": "not_now"}  # it moves faster than it can be read
                return await reader.line(each)

        return list(await asyncio.gather(*(one(each) for each in wanted)))

    async def _pace(self) -> None:
        """No faster than the rate."""
        now = time.monotonic()
        self._next = max(self._next, now) + 1 / self._options.rate
        await asyncio.sleep(max(0.0, self._next - now - 1 / self._options.rate))

    def _problem(self, sentence: str) -> None:
        if len(self._summary.problems) < 100:
            self._summary.problems.append(sentence)


def _wanted(answer: Json) -> list[Wanted]:
    return [
        Wanted(
            str(one["thread_id"]), tuple((str(a), str(b), str(c)) for a, b, c in one.get("waits", ())), one.get("head")
        )
        for one in answer.get("left", ())
    ]


def _batches(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    source = iter(ids)
    while batch := list(islice(source, size)):
        yield batch


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
