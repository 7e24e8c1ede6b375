"""Graphs without a server: run in a process of their own with a checkpointer, and reported from one more.

    python -m tests.reporter.library make   FOLDER GRAPHS SAVER   # the situations and stories, all in one store
    python -m tests.reporter.library act    FOLDER GRAPHS SAVER   # what the stories do after the deploy
    python -m tests.reporter.library report FOLDER GRAPHS SAVER SERVER

`GRAPHS` is a folder of `tests/agent/graphs`, as the code is now; `SAVER` is `sqlite` or an address of PostgreSQL. `FOLDER` keeps which
thread is which, and every request of the reporter.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command

from tests.agent import deploys
from tests.agent.situations import CANARY, RECIPES, Bench, Recipe

NEED_A_SERVER = frozenset(
    {
        # A thread is nothing but its checkpoints: without one there is none.
        "never_ran",
        "never_ran_without_a_graph",
        "first_run_rolled_back",
        # Runs are the server's: cancelled, delayed, rolled back, refused, second ones, running ones.
        "cancelled_run",
        "cancelled_with_nothing_pending",
        "cancelled_inside",
        "resume_rolled_back",
        "resume_rolled_back_later",
        "new_input_rolled_back",
        "delayed_run_cancelled_over_parked",
        "delayed_on_never_ran",
        "delayed_on_finished",
        "delayed_over_parked",
        "delayed_run_rolled_back",
        "refused_by_recursion_limit",
        "refused_by_unknown_checkpoint",
        "running_sync",
        "running_async",
        "running_exit",
        "running_exit_after_parked",
        "running_inside",
        "running_where_it_was_sent",
        "second_run_interrupted_the_first",
        "second_run_rolled_the_first_back",
        "second_run_was_rejected",
        "sent_there_and_rolled_back",
        "sent_from_where_it_asked_and_rolled_back",
        "sent_there_and_cancelled",
        "run_that_had_nothing_to_do",
        "finishing_run_deleted",
        # Copies and metadata are the server's, and so is running one thread under two graphs.
        "copy_of_parked",
        "copy_of_finished",
        "copy_of_inner_parked",
        "copy_of_half_step",
        "metadata_patched",
        "answered_under_another_graph",
        "new_input_under_another_graph",
        "answered_under_its_twin",
        "deleted",
    }
)
MADE = [recipe for recipe in RECIPES if recipe.build.__name__ not in NEED_A_SERVER]
STORIES = [story for story in deploys.STORIES if story.graph != "dropped"]
"""A graph that is dropped from a server has no like: its reporter is simply not started any more."""


class Library:
    """The graphs of a folder with one checkpointer. Has the calls of the server's client that the builders use."""

    def __init__(self, graphs: Path, saver: BaseCheckpointSaver[Any]) -> None:
        sys.path.insert(0, str(graphs))
        self._places: Mapping[str, str] = json.loads((graphs / "langgraph.json").read_text())["graphs"]
        self._saver = saver
        self._of: dict[str, str] = {}
        self.threads = self

    def graph(self, name: str) -> Any:
        """The graph as an application compiles it."""
        module, _, attribute = self._places[name].removeprefix("./").partition(".py:")
        return getattr(importlib.import_module(module), attribute).copy(update={"checkpointer": self._saver})

    def names(self) -> list[str]:
        """Every graph."""
        return list(self._places)

    def remember(self, thread_id: str, graph: str) -> None:
        """Which graph a thread is of."""
        self._of[thread_id] = graph

    async def get_state(self, thread_id: str) -> dict[str, Any]:
        """The parts that the builders look at."""
        found = await self.graph(self._of[thread_id]).aget_state(_config(thread_id))
        tasks = [{"name": task.name, "interrupts": [{"id": one.id} for one in task.interrupts]} for task in found.tasks]
        parent = found.parent_config["configurable"] if found.parent_config else None
        return {"checkpoint": found.config["configurable"], "parent_checkpoint": parent, "tasks": tasks}

    async def get(self, thread_id: str) -> dict[str, Any]:
        """The questions that are stored, as an application has them that kept their ids."""
        saved = await self._saver.aget_tuple(_config(thread_id))
        assert saved is not None
        asked: dict[str, list[dict[str, str]]] = {}
        for task, channel, value in saved.pending_writes or ():
            if channel == "__interrupt__":
                asked[task] = [{"id": one.id} for one in value]
        return {"interrupts": asked}

    async def update_state(
        self, thread_id: str, values: Any, *, as_node: str | None = None, checkpoint: Mapping[str, str] | None = None
    ) -> None:
        """Write to the state by hand."""
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **_only_place(checkpoint)}}
        await self.graph(self._of[thread_id]).aupdate_state(config, values, as_node=as_node)


class LibraryBench(Bench):
    """The builders' bench, without a server."""

    async def thread(self, **options: Any) -> str:
        """A new thread; with `supersteps` they are written to it."""
        thread_id = str(uuid.uuid4())
        library = _library(self)
        if "graph_id" in options:
            library.remember(thread_id, options["graph_id"])
        for step in options.get("supersteps", ()):
            for update in step["updates"]:
                await library.update_state(thread_id, update["values"], as_node=update["as_node"])
        return thread_id

    async def run(self, thread_id: str, graph: str, **options: Any) -> None:
        """Run to the end of the run, whatever that end is."""
        library = _library(self)
        library.remember(thread_id, graph)
        command = options.pop("command", None)
        given = Command(**command) if command is not None else options.pop("input", None)
        config = {**_config(thread_id), "metadata": {"customer": CANARY}, **options.pop("config", {})}
        config["configurable"] |= {"customer": CANARY, **_only_place(options.pop("checkpoint", None))}
        with contextlib.suppress(Exception):
            await library.graph(graph).ainvoke(given, config, **options)


def _library(bench: Bench) -> Library:
    found: Any = bench.client
    assert isinstance(found, Library)
    return found


def _config(thread_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}}


def _only_place(checkpoint: Mapping[str, str] | None) -> dict[str, str]:
    return {key: checkpoint[key] for key in ("checkpoint_id", "checkpoint_ns")} if checkpoint else {}


@contextlib.asynccontextmanager
async def open_saver(address: str, folder: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """The checkpointer."""
    if address == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
            yield saver
        return
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    async with AsyncPostgresSaver.from_conn_string(address) as saver:
        await saver.setup()
        yield saver


async def make(folder: Path, graphs: Path, address: str) -> None:
    """Every situation and every story's first act."""
    async with open_saver(address, folder) as saver:
        bench = LibraryBench(Library(graphs, saver), folder)  # type: ignore[arg-type]
        situations = [await _made(recipe, bench) for recipe in MADE]
        stories = [await _made(story.recipe, bench) for story in STORIES]
    (folder / "made.json").write_text(json.dumps({"situations": situations, "stories": stories}))


async def _made(recipe: Recipe, bench: Bench) -> dict[str, str]:
    situation = await recipe.make(bench)
    graph = recipe.truth["graph"]
    return {"name": recipe.build.__name__, "thread_id": situation.thread_id, "graph": graph}


async def act(folder: Path, graphs: Path, address: str) -> None:
    """What the stories do once the code has changed."""
    stories = {story.name: story for story in STORIES}
    async with open_saver(address, folder) as saver:
        library = Library(graphs, saver)
        bench = LibraryBench(library, folder)  # type: ignore[arg-type]
        for made in json.loads((folder / "made.json").read_text())["stories"]:
            story = stories[made["name"]]
            library.remember(made["thread_id"], made["graph"])
            if story.act is not None:
                recipe = story.recipe
                situation = await Recipe(_of(made["thread_id"], recipe.build), recipe.truth).make(bench)
                await story.act(bench, situation)


def _of(thread_id: str, build: Any) -> Any:
    async def found(bench: Bench) -> str:
        return thread_id

    found.__name__, found.__doc__ = build.__name__, build.__doc__
    return found


async def report(folder: Path, graphs: Path, address: str, server: str) -> None:
    """One pass for each graph, each a deployment of its own. Every request is kept."""
    from drainboard_reporter import areport

    made = json.loads((folder / "made.json").read_text())
    threads = [*made["situations"], *made["stories"]]
    async with open_saver(address, folder) as saver:
        library = Library(graphs, saver)
        for name in sorted({one["graph"] for one in threads}):
            ids = [one["thread_id"] for one in threads if one["graph"] == name]
            with (folder / "requests.bin").open("ab") as file:
                summary = await areport(
                    library.graph(name),
                    ids,
                    server=server,
                    deployment=name,
                    graph_id=name,
                    transport=_Recorded(file),
                )
            assert summary.complete, (name, summary)


class _Recorded(httpx.AsyncHTTPTransport):
    """Sends, and keeps what was sent: address, headers and body."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Keep it, then send it."""
        self._file.write(str(request.url).encode() + b"\n" + repr(request.headers.raw).encode() + b"\n")
        self._file.write(request.content + b"\n")
        return await super().handle_async_request(request)


if __name__ == "__main__":
    what, folder_, graphs_, *more = sys.argv[1:]
    (Path(folder_) / "gates").mkdir(exist_ok=True)
    asyncio.run({"make": make, "act": act, "report": report}[what](Path(folder_), Path(graphs_), *more))
