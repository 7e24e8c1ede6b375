"""Things that really happen to threads, done on a real Agent Server, with the truth about each.

What is said here is what was *done*; what a view shows of it is asserted in `test_situations_are_real.py` with the raw SDK. Nothing here
uses the product.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError

CANARY = "canary-4d1f-must-not-leak"
"""A value in every place that may hold one: state, interrupt payload, exception, thread and run metadata, config."""

CANARY_KEY = "canary.key+4d1f@must-not.leak"
"""A top-level key of a free-form state, as personal as a value."""

GRAPHS = Path(__file__).parent / "graphs"
A_DAY = 86_400
MOST_SECONDS = 120
MOST_AT_ONCE = 24  # more requests at once than a loaded machine answers within the client's patience fail


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One thread, what was done with it, and what is true of it now.

    `pending` are the leaves that would really run, as paths, one per task. `unseen` are those of them that no state view names.
    `outdated` are leaves that the state view names and that would not run. `stranded` are leaves that wait for a node which the deployed
    graph does not have: with the node back they run. `lost` are stranded leaves whose answer was taken by a run that did nothing.

    `status`, `next`, `interrupts` and `values` are what the server answers: the row's status (None: there is no row), the root's `next`
    (None: the state call fails), the number of interrupts in the row, and its values: `present`, `null`, or `absent` as a key. `graph` is
    the row's. `more` has what else a test may want: checkpoint, run, other threads.
    """

    name: str
    thread_id: str
    graph: str
    description: str
    status: str | None = "idle"
    pending: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    stranded: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    next: tuple[str, ...] | None = ()
    interrupts: int = 0
    values: str = "present"
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def seen(self) -> tuple[str, ...]:
        """The leaves that the state view names."""
        left = list(self.pending)
        for leaf in self.unseen:
            left.remove(leaf)
        return (*left, *self.outdated)


@dataclass(frozen=True)
class Bench:
    """What a builder works with: a client, and the server's folder for the gates of held nodes."""

    client: LangGraphClient
    folder: Path

    async def thread(self, **options: Any) -> str:
        """A new thread that has a canary in its metadata."""
        options.setdefault("metadata", {"customer": CANARY})
        return str((await self.client.threads.create(**options))["thread_id"])

    async def run(self, thread_id: str, graph: str, **options: Any) -> None:
        """Run to the end of the run, whatever that end is."""
        await self.client.runs.wait(thread_id, graph, raise_error=False, **_with_canaries(options))

    async def start(self, thread_id: str, graph: str, **options: Any) -> str:
        """Create a run and do not wait for it; its id."""
        return str((await self.client.runs.create(thread_id, graph, **_with_canaries(options)))["run_id"])

    async def ran(self, graph: str, state: Mapping[str, Any] | None = None, **options: Any) -> str:
        """A new thread after one run."""
        thread_id = await self.thread()
        await self.run(thread_id, graph, input={"note": CANARY, **(state or {})}, **options)
        return thread_id

    async def held(self, graph: str, state: Mapping[str, Any], **options: Any) -> tuple[str, str]:
        """A new thread with a run that is inside the node that waits at the gate of the thread's name; thread and run."""
        thread_id = await self.thread()
        run_id = await self.start(thread_id, graph, input={"note": CANARY, "gate": thread_id, **state}, **options)
        await self.reached(thread_id)
        return thread_id, run_id

    async def reached(self, gate: str) -> None:
        """Return when a node waits at the gate."""
        while not (self.folder / "gates" / f"{gate}.reached").exists():
            await asyncio.sleep(0.02)

    def open(self, gate: str) -> None:
        """Let the node at the gate go on."""
        (self.folder / "gates" / f"{gate}.open").touch()

    async def answer(self, thread_id: str, graph: str, answer: Any = CANARY, **options: Any) -> None:
        """Resume a parked thread and wait for the end of the run."""
        await self.run(thread_id, graph, command={"resume": answer}, **options)

    async def head(self, thread_id: str) -> str:
        """The id of the head checkpoint."""
        return str((await self.client.threads.get_state(thread_id))["checkpoint"]["checkpoint_id"])


Made = str | tuple[str, dict[str, str]]
"""A builder's answer: the thread, and what else a test may want."""

Builder = Callable[[Bench], Awaitable[Made]]


@dataclass(frozen=True)
class Recipe:
    """A builder and what is true afterwards."""

    build: Builder
    truth: Mapping[str, Any]

    async def make(self, bench: Bench) -> Situation:
        """Do it on the server."""
        made = await self.build(bench)
        thread_id, more = made if isinstance(made, tuple) else (made, {})
        description = " ".join((self.build.__doc__ or "").split())
        return Situation(
            name=self.build.__name__, description=description, thread_id=thread_id, more=more, **self.truth
        )


RECIPES: list[Recipe] = []


def situation(graph: str, **truth: Any) -> Callable[[Builder], Builder]:
    """Register a builder: its name, its docstring and `truth` make the Situation."""

    def register(build: Builder) -> Builder:
        RECIPES.append(Recipe(build, {"graph": graph, **truth}))
        return build

    return register


def parked(*leaves: str, **truth: Any) -> dict[str, Any]:
    """The usual look of a thread that asks: interrupted, one interrupt per leaf, `next` has their first parts."""
    roots = tuple(leaf.split("/")[0] for leaf in leaves)
    return {"status": "interrupted", "pending": leaves, "next": roots, "interrupts": len(leaves), **truth}


def idle_but_pending(*leaves: str, **truth: Any) -> dict[str, Any]:
    """The look of the rows that lie: idle, without an interrupt, with work pending."""
    return {**parked(*leaves), "status": "idle", "interrupts": 0, **truth}


async def make_situations(url: str, folder: Path, recipes: Sequence[Recipe] = RECIPES) -> list[Situation]:
    """Make all of them on the server at `url`, which runs in `folder`, many at once."""
    (folder / "gates").mkdir(exist_ok=True)
    at_once = asyncio.Semaphore(MOST_AT_ONCE)

    async def make(recipe: Recipe) -> Situation:
        async with at_once:
            return await recipe.make(bench)

    async with get_client(url=url) as client, asyncio.timeout(MOST_SECONDS):
        bench = Bench(client, folder)
        return list(await asyncio.gather(*map(make, recipes)))


def revision(*names: str) -> dict[str, str]:
    """The files of a deployed revision: those of the first folder of `graphs/`, with those of the others on top."""
    files: dict[str, str] = {}
    for name in names:
        root = GRAPHS / name
        files |= {
            str(path.relative_to(root)): path.read_text(encoding="utf-8")
            for path in sorted(root.rglob("*"))
            if path.suffix in {".py", ".json"}
        }
    return files


def _with_canaries(options: dict[str, Any]) -> dict[str, Any]:
    config = {"configurable": {"customer": CANARY}, **options.pop("config", {})}
    return {"metadata": {"customer": CANARY}, "config": config, **options}


# --- Ordinary lives ------------------------------------------------------------------------------------------------------------------


@situation("support", values="null")
async def never_ran(bench: Bench) -> str:
    """Created with its graph's name, never run."""
    return await bench.thread(graph_id="support", metadata={"customer": CANARY})


@situation("none", values="null")
async def never_ran_without_a_graph(bench: Bench) -> str:
    """Created without naming a graph, never run."""
    return await bench.thread()


@situation("support")
async def finished(bench: Bench) -> Made:
    """Ran to its end."""
    return await bench.ran("support", {"case": "finish"})


@situation("support", **parked("await_approval"))
async def parked_by_interrupt(bench: Bench) -> Made:
    """Asks a human."""
    return await bench.ran("support", {"case": "ask"})


@situation("support", **parked("await_approval"))
async def parked_at_second_question(bench: Bench) -> str:
    """Asks a human for the second time inside the same node."""
    thread_id = await bench.ran("support", {"case": "ask_twice"})
    await bench.answer(thread_id, "support")
    return thread_id


@situation("support")
async def answered(bench: Bench) -> Made:
    """Asked, was answered, ran to its end."""
    thread_id = await bench.ran("support", {"case": "ask"})
    parked_at = await bench.head(thread_id)
    await bench.answer(thread_id, "support")
    return thread_id, {"parked_checkpoint": parked_at}


@situation("support")
async def dropped_by_a_new_input(bench: Bench) -> Made:
    """Asked, and a new input took its place: the question is abandoned."""
    thread_id = await bench.ran("support", {"case": "ask"})
    parked_at = await bench.head(thread_id)
    await bench.run(thread_id, "support", input={"case": "finish"})
    return thread_id, {"parked_checkpoint": parked_at}


@situation("support", status="interrupted", pending=("await_approval",), next=("await_approval",))
async def breakpoint_before(bench: Bench) -> Made:
    """Stopped by the run's interrupt_before."""
    return await bench.ran("support", {"case": "ask"}, interrupt_before=["await_approval"])


@situation("support", status="interrupted", pending=("await_approval",), next=("await_approval",))
async def breakpoint_after(bench: Bench) -> Made:
    """Stopped by the run's interrupt_after of the node before."""
    return await bench.ran("support", {"case": "ask"}, interrupt_after=["intake"])


@situation("support", status="error", pending=("fail",), next=("fail",))
async def node_failed(bench: Bench) -> Made:
    """A node raised."""
    return await bench.ran("support", {"case": "fail"})


@situation("support", status="error", pending=("spin",), next=("spin",))
async def recursion_limit(bench: Bench) -> Made:
    """A node that loops met the recursion limit: pending without an error of its own."""
    return await bench.ran("support", {"case": "spin"}, config={"recursion_limit": 5})


@situation("support", status="interrupted", pending=("await_approval",), next=("await_approval",))
async def bulk_parked(bench: Bench) -> str:
    """Made by `supersteps`, so parked before a node that never began."""
    updates = [{"values": {"case": "ask", "note": CANARY}, "as_node": "intake"}]
    return await bench.thread(graph_id="support", metadata={"customer": CANARY}, supersteps=[{"updates": updates}])


# --- Cancelled, copied, updated, deleted ---------------------------------------------------------------------------------------------


@situation("support", status="interrupted", pending=("hold",), next=("hold",))
async def cancelled_run(bench: Bench) -> str:
    """A run was cancelled while a node ran."""
    thread_id, run_id = await bench.held("support", {"case": "hold"})
    await bench.client.runs.cancel(thread_id, run_id, wait=True)
    return thread_id


@situation("support")
async def cancelled_with_nothing_pending(bench: Bench) -> str:
    """A delayed run on a finished thread was cancelled before it began."""
    thread_id = await bench.ran("support", {"case": "finish"})
    run_id = await bench.start(thread_id, "support", input={"case": "ask"}, after_seconds=A_DAY)
    await bench.client.runs.cancel(thread_id, run_id, wait=True)
    return thread_id


@situation("support", **idle_but_pending("await_approval", interrupts=1))
async def resume_rolled_back(bench: Bench) -> str:
    """The run that resumed it was cancelled with rollback while the node that had asked still ran."""
    thread_id, run_id = await _resumed_and_held(bench, "answer_gate")
    await bench.client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    return thread_id


@situation("support", interrupts=1, pending=("hold",), unseen=("hold",))
async def resume_rolled_back_later(bench: Bench) -> str:
    """The run that resumed it was cancelled with rollback after the node that had asked was done.

    Half a step: the answer's result stays beside the head and is applied by the next run, so the node does not run again although the
    row still has its interrupt; what it scheduled is in no view.
    """
    thread_id, run_id = await _resumed_and_held(bench, "gate")
    await bench.client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    return thread_id


async def _resumed_and_held(bench: Bench, gate: str, **options: Any) -> tuple[str, str]:
    thread_id = await bench.thread()
    await bench.run(thread_id, "support", input={"note": CANARY, "case": "ask", gate: thread_id})
    run_id = await bench.start(thread_id, "support", command={"resume": CANARY}, **options)
    await bench.reached(thread_id)
    return thread_id, run_id


@situation("support", **idle_but_pending("await_approval", interrupts=1))
async def new_input_rolled_back(bench: Bench) -> str:
    """It asked, a new input took its place, and that run was cancelled with rollback: it asks again."""
    thread_id = await bench.ran("support", {"case": "ask"})
    run_id = await bench.start(thread_id, "support", input={"case": "hold", "gate": thread_id})
    await bench.reached(thread_id)
    await bench.client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    return thread_id


@situation("support", values="null")
async def first_run_rolled_back(bench: Bench) -> str:
    """Its only run was cancelled with rollback: no checkpoint is left, but storage has its channels."""
    thread_id, run_id = await bench.held("support", {"case": "hold"})
    await bench.client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    return thread_id


@situation("support", **idle_but_pending("await_approval", interrupts=1))
async def delayed_run_cancelled_over_parked(bench: Bench) -> str:
    """A delayed run was put on a parked thread, and cancelled."""
    thread_id = await bench.ran("support", {"case": "ask"})
    run_id = await bench.start(thread_id, "support", command={"resume": CANARY}, after_seconds=A_DAY)
    await bench.client.runs.cancel(thread_id, run_id, wait=True)
    return thread_id


@situation("support", status="interrupted", pending=("hold",), next=("hold",))
async def update_on_finished(bench: Bench) -> str:
    """Somebody put a finished thread back with update_state(as_node=…)."""
    thread_id = await bench.ran("support", {"case": "finish"})
    await bench.client.threads.update_state(thread_id, {"note": CANARY}, as_node="await_approval")
    return thread_id


@situation("support", status="interrupted", pending=("await_approval",), next=("await_approval",))
async def update_while_parked(bench: Bench) -> str:
    """A field was changed while it asked: the same node is pending, without its interrupt."""
    thread_id = await bench.ran("support", {"case": "ask"})
    await bench.client.threads.update_state(thread_id, {"note": CANARY + " changed"})
    return thread_id


@situation("support", status="interrupted", pending=("hold",), next=("hold",))
async def answered_by_update(bench: Bench) -> Made:
    """Somebody answered for the node with update_state(as_node=the node): overridden."""
    thread_id = await bench.ran("support", {"case": "ask"})
    parked_at = await bench.head(thread_id)
    await bench.client.threads.update_state(thread_id, {"decision": CANARY}, as_node="await_approval")
    return thread_id, {"parked_checkpoint": parked_at}


@situation("support", **idle_but_pending("await_approval"), values="absent")
async def copy_of_parked(bench: Bench) -> Made:
    """A copy of a thread that asks."""
    original = await bench.ran("support", {"case": "ask"})
    return await _copy(bench, original), {"original": original}


@situation("support", values="absent")
async def copy_of_finished(bench: Bench) -> Made:
    """A copy of a finished thread that has the old field: an idle row without values."""
    return await _copy(bench, await bench.ran("support", {"customer_name": CANARY}))


async def _copy(bench: Bench, thread_id: str) -> str:
    copied: dict[str, Any] = await bench.client.http.post(f"/threads/{thread_id}/copy", json=None)
    return str(copied["thread_id"])


@situation("support", pending=("hold",), unseen=("hold",))
async def finishing_run_deleted(bench: Bench) -> str:
    """The run that answered and finished it was deleted with its checkpoints, but not the result of the node that had asked.

    Half a step: the next run applies it and goes on behind the node.
    """
    thread_id = await bench.ran("support", {"case": "ask"})
    await bench.answer(thread_id, "support")
    newest = (await bench.client.runs.list(thread_id, limit=1))[0]
    await bench.client.runs.delete(thread_id, newest["run_id"])
    return thread_id


@situation("support", status=None, next=None)
async def deleted(bench: Bench) -> str:
    """Asked, then deleted."""
    thread_id = await bench.ran("support", {"case": "ask"})
    await bench.client.threads.delete(thread_id)
    return thread_id


@situation("support")
async def time_travelled(bench: Bench) -> Made:
    """Asked; then forked from before the question and finished on the other branch."""
    thread_id = await bench.ran("support", {"case": "ask"})
    state = await bench.client.threads.get_state(thread_id)
    await bench.client.threads.update_state(
        thread_id, {"case": "finish"}, as_node="intake", checkpoint=state["parent_checkpoint"]
    )
    await bench.run(thread_id, "support", input=None)
    return thread_id, {"parked_checkpoint": str(state["checkpoint"]["checkpoint_id"])}


@situation("support", **parked("await_approval"))
async def metadata_patched(bench: Bench) -> str:
    """Asks, and its metadata was patched: only updated_at moved."""
    thread_id = await bench.ran("support", {"case": "ask"})
    await bench.client.threads.update(thread_id, metadata={"patched": CANARY})
    return thread_id


@situation("support", status="error")
async def refused_by_recursion_limit(bench: Bench) -> str:
    """Finished; a later run was refused for its recursion limit of 0."""
    thread_id = await bench.ran("support", {"case": "finish"})
    await bench.run(thread_id, "support", input=None, config={"recursion_limit": 0})
    return thread_id


@situation("support", status="error")
async def refused_by_unknown_checkpoint(bench: Bench) -> str:
    """Finished; a later run was refused because its checkpoint does not exist."""
    thread_id = await bench.ran("support", {"case": "finish"})
    await bench.run(thread_id, "support", input=None, checkpoint_id=str(uuid.uuid4()))
    return thread_id


@situation("nested", status="idle", pending=("await_approval",), unseen=("await_approval",))
async def answered_under_another_graph(bench: Bench) -> Made:
    """Asks under `support`; the answer went to `nested`, which has no such node. A run under `support` takes the answer and goes on."""
    thread_id = await bench.ran("support", {"case": "ask"})
    await bench.answer(thread_id, "nested")
    return thread_id, {"graph_of_the_head": "support"}


@situation("nested", **parked("desk/sub_wait"))
async def new_input_under_another_graph(bench: Bench) -> Made:
    """Asked under `support`; a new input under `nested` took its place."""
    thread_id = await bench.ran("support", {"case": "ask"})
    parked_at = await bench.head(thread_id)
    await bench.run(thread_id, "nested", input={"note": CANARY})
    return thread_id, {"parked_checkpoint": parked_at}


@situation("twin")
async def answered_under_its_twin(bench: Bench) -> str:
    """Asked under `support`, answered under `twin`, another name of the same graph."""
    thread_id = await bench.ran("support", {"case": "ask"})
    await bench.answer(thread_id, "twin")
    return thread_id


# --- Busy ----------------------------------------------------------------------------------------------------------------------------


@situation("support", status="busy", values="null")
async def delayed_on_never_ran(bench: Bench) -> Made:
    """A new thread whose only run is due tomorrow."""
    thread_id = await bench.thread()
    return thread_id, {"run": await bench.start(thread_id, "support", input={"case": "ask"}, after_seconds=A_DAY)}


@situation("support", status="busy")
async def delayed_on_finished(bench: Bench) -> Made:
    """A finished thread with a run that is due tomorrow."""
    thread_id = await bench.ran("support", {"case": "finish"})
    return thread_id, {"run": await bench.start(thread_id, "support", input={"case": "ask"}, after_seconds=A_DAY)}


@situation("support", **parked("await_approval", status="busy"))
async def delayed_over_parked(bench: Bench) -> Made:
    """Asks, and will be answered by a run that is due tomorrow."""
    thread_id = await bench.ran("support", {"case": "ask"})
    run_id = await bench.start(thread_id, "support", command={"resume": CANARY}, after_seconds=A_DAY)
    return thread_id, {"run": run_id}


@situation("support", **parked("await_approval", status="busy"))
async def delayed_run_rolled_back(bench: Bench) -> str:
    """A delayed run on a parked thread was cancelled with rollback, and nobody waited for it: busy for ever, without a run."""
    thread_id = await bench.ran("support", {"case": "ask"})
    run_id = await bench.start(thread_id, "support", command={"resume": CANARY}, after_seconds=A_DAY)
    await bench.client.runs.cancel(thread_id, run_id, action="rollback")
    return thread_id


@situation("support", status="busy", pending=("hold",), next=("hold",), values="null")
async def running_sync(bench: Bench) -> Made:
    """A node runs, with durability sync."""
    return (await bench.held("support", {"case": "hold"}, durability="sync"))[0]


@situation("support", status="busy", pending=("hold",), next=("hold",), values="null")
async def running_async(bench: Bench) -> Made:
    """A node runs, with durability async; another run waits behind it."""
    thread_id, _ = await bench.held("support", {"case": "hold"}, durability="async")
    behind = await bench.start(thread_id, "support", input={"case": "ask"}, multitask_strategy="enqueue")
    return thread_id, {"enqueued_run": behind}


@situation("support", status="busy", pending=("hold",), unseen=("hold",), values="null")
async def running_exit(bench: Bench) -> Made:
    """A node runs, with durability exit: nothing is written until the end."""
    return (await bench.held("support", {"case": "hold"}, durability="exit"))[0]


@situation(
    "support",
    **parked("await_approval", status="busy", pending=("hold",), unseen=("hold",), outdated=("await_approval",)),
)
async def running_exit_after_parked(bench: Bench) -> str:
    """Was answered with durability exit and runs on elsewhere; its state still shows the question."""
    return (await _resumed_and_held(bench, "gate", durability="exit"))[0]


@situation("nested", status="busy", pending=("desk/sub_start",), next=("desk",), values="null")
async def running_inside(bench: Bench) -> str:
    """An inner node runs."""
    return (await bench.held("nested", {}, durability="sync"))[0]


# --- Several at once, and inside -----------------------------------------------------------------------------------------------------


@situation("fan_out", **parked("review", "review", "review"))
async def fan_out_parked(bench: Bench) -> Made:
    """Three parallel Send tasks ask."""
    return await bench.ran("fan_out", {"documents": ["one", "two", "three"]})


@situation("fan_out", **parked("review", "review", next=("review", "review")))
async def fan_out_partly_answered(bench: Bench) -> str:
    """Three parallel Send tasks asked, one was answered: listed still, with a result."""
    thread_id = await bench.ran("fan_out", {"documents": ["one", "two", "three"]})
    state = await bench.client.threads.get_state(thread_id)
    await bench.answer(thread_id, "fan_out", {state["tasks"][1]["interrupts"][0]["id"]: "fine"})
    return thread_id


@situation("nested", **parked("desk/sub_wait"))
async def inner_parked(bench: Bench) -> str:
    """Asks inside a subgraph."""
    return await bench.ran("nested")


@situation("remembering", **parked("desk/sub_wait"))
async def inner_with_memory_parked(bench: Bench) -> str:
    """Asks inside a subgraph that was compiled with checkpointer=True."""
    return await bench.ran("remembering")


@situation("deep", **parked("office/desk/sub_wait"))
async def two_deep_parked(bench: Bench) -> str:
    """Asks inside a subgraph of a subgraph."""
    return await bench.ran("deep")


@situation("nested", status="interrupted", pending=("desk",), next=("desk",))
async def breakpoint_before_subgraph(bench: Bench) -> str:
    """Stopped before a node that is a subgraph, which has not begun."""
    return await bench.ran("nested", interrupt_before=["desk"])


@situation("half_step", **parked("b", pending=("b", "t"), unseen=("t",)))
async def half_step(bench: Bench) -> str:
    """Branch a finished and scheduled t by an edge, b asks."""
    return await bench.ran("half_step")


@situation("goto", **parked("b", pending=("b", "t"), unseen=("t",)))
async def goto_half_step(bench: Bench) -> str:
    """Branch a finished and scheduled t by Command(goto), b asks."""
    return await bench.ran("goto")


@situation("join", **parked("b", pending=("b", "t"), unseen=("t",)))
async def join_waiting(bench: Bench) -> str:
    """t waits for a, which finished three steps ago, and for b, which asks."""
    return await bench.ran("join")


@situation("deferred", **parked("b", pending=("b", "t"), unseen=("t",)))
async def deferred_waiting(bench: Bench) -> str:
    """Deferred t was scheduled by a steps ago, b asks."""
    return await bench.ran("deferred")


@situation("join")
async def join_passed(bench: Bench) -> str:
    """The join ran: its channel is in storage, nothing waits."""
    thread_id = await bench.ran("join")
    await bench.answer(thread_id, "join")
    return thread_id


@situation("beside", **parked("b", "c"))
async def two_parked_beside(bench: Bench) -> str:
    """b and c ask beside each other, a finished."""
    return await bench.ran("beside")


@situation("beside", **parked("a", "b", "c", status="error", interrupts=2))
async def failed_beside_parked(bench: Bench) -> Made:
    """a failed beside b and c, which ask."""
    return await bench.ran("beside", {"fail": True})


@situation("functional", **parked("functional", values="null"))
async def functional_parked(bench: Bench) -> Made:
    """An entrypoint of the functional API asks inside a task."""
    return await bench.ran("functional", {"ask": True})


@situation("functional")
async def functional_finished(bench: Bench) -> str:
    """An entrypoint of the functional API returned."""
    return await bench.ran("functional")


# --- Other ways to get there ---------------------------------------------------------------------------------------------------------


@situation("moves", **parked("ask"))
async def sent_there_by_a_command(bench: Bench) -> str:
    """A node said where to go with Command(goto=…), to a node that no edge leads to."""
    return await bench.ran("moves", {"case": "goto"})


# A run's own goto is written beside the head, where no view shows it: the node runs, and `next` is empty.
@situation("moves", status="interrupted", interrupts=1, pending=("ask",), unseen=("ask",))
async def sent_there_by_the_run(bench: Bench) -> str:
    """Finished; then a run with the command goto sent it to a node that asks."""
    thread_id = await bench.ran("moves", {"case": "end"})
    await bench.run(thread_id, "moves", command={"goto": "ask"})
    return thread_id


@situation("support", pending=("hold",), unseen=("hold",))
async def sent_there_and_rolled_back(bench: Bench) -> str:
    """Finished; then a run with the command goto was cancelled with rollback while the node ran."""
    thread_id, run_id = await _sent_and_held(bench)
    await asyncio.sleep(1)  # the head is older than the roll-back by more than a run takes to end
    await bench.client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    return thread_id


@situation("support", interrupts=1, pending=("await_approval", "hold"), unseen=("hold",), next=("await_approval",))
async def sent_from_where_it_asked_and_rolled_back(bench: Bench) -> str:
    """It asks; a run with the command goto to another node was cancelled with rollback while that node ran."""
    thread_id = await bench.thread()
    await bench.run(thread_id, "support", input={"note": CANARY, "case": "ask", "gate": thread_id})
    run_id = await bench.start(thread_id, "support", command={"goto": "hold"})
    await bench.reached(thread_id)
    await asyncio.sleep(1)
    await bench.client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    return thread_id


@situation("support", status="interrupted", pending=("hold",), unseen=("hold",))
async def sent_there_and_cancelled(bench: Bench) -> str:
    """Finished; then a run with the command goto was cancelled while the node ran."""
    thread_id, run_id = await _sent_and_held(bench)
    await bench.client.runs.cancel(thread_id, run_id, wait=True)
    return thread_id


@situation("support", status="busy", pending=("hold",), unseen=("hold",))
async def running_where_it_was_sent(bench: Bench) -> str:
    """Finished; now a run with the command goto runs a node."""
    return (await _sent_and_held(bench))[0]


async def _sent_and_held(bench: Bench) -> tuple[str, str]:
    thread_id = await bench.thread()
    await bench.run(thread_id, "support", input={"note": CANARY, "case": "finish", "gate": thread_id})
    run_id = await bench.start(thread_id, "support", command={"goto": "hold"})
    await bench.reached(thread_id)
    return thread_id, run_id


@situation("support")
async def run_that_had_nothing_to_do(bench: Bench) -> str:
    """Finished; then a run without an input did nothing."""
    thread_id = await bench.ran("support", {"case": "finish"})
    await asyncio.sleep(1)
    await bench.run(thread_id, "support", input=None)
    return thread_id


@situation("moves", **parked("ask"))
async def asked_again_in_a_loop(bench: Bench) -> Made:
    """Asked, was answered, and came around to the same node, which asks again in a new task."""
    thread_id = await bench.ran("moves", {"case": "goto", "rounds": 2})
    parked_at = await bench.head(thread_id)
    await bench.answer(thread_id, "moves")
    return thread_id, {"parked_checkpoint": parked_at}


@situation("leaving", **parked("ask"))
async def sent_there_out_of_a_subgraph(bench: Bench) -> str:
    """An inner node left its subgraph with Command(graph=PARENT) for a node that asks."""
    return await bench.ran("leaving")


@situation("stops", status="interrupted", pending=("ask",), next=("ask",))
async def breakpoint_of_the_graph(bench: Bench) -> str:
    """Stopped by an interrupt_before that the graph was compiled with."""
    return await bench.ran("stops", {"case": "goto"})


@situation("support", status="interrupted", pending=("hold",), next=("hold",))
async def breakpoint_after_the_answer(bench: Bench) -> str:
    """Was answered, and stopped by the run's interrupt_after of the node that had asked."""
    thread_id = await bench.ran("support", {"case": "ask"})
    await bench.answer(thread_id, "support", interrupt_after=["await_approval"])
    return thread_id


@situation("support", **parked("await_approval"))
async def replayed_from_before(bench: Bench) -> str:
    """Finished after an answer; then a run from the checkpoint before the question asked it again."""
    thread_id = await bench.ran("support", {"case": "ask"})
    before = (await bench.client.threads.get_state(thread_id))["parent_checkpoint"]
    await bench.answer(thread_id, "support")
    await bench.run(thread_id, "support", input=None, checkpoint=before)
    return thread_id


@situation("support", **parked("await_approval"))
async def travelled_back_to_the_question(bench: Bench) -> str:
    """Finished after an answer; then an update forked from where it had asked."""
    thread_id = await bench.ran("support", {"case": "ask"})
    asked = (await bench.client.threads.get_state(thread_id))["checkpoint"]
    await bench.answer(thread_id, "support")
    await bench.client.threads.update_state(thread_id, {"note": CANARY}, checkpoint=asked)
    return thread_id


@situation("support")
async def ended_by_update(bench: Bench) -> Made:
    """Asked, and somebody ended it with update_state(as_node="__end__")."""
    thread_id = await bench.ran("support", {"case": "ask"})
    parked_at = await bench.head(thread_id)
    await bench.client.threads.update_state(thread_id, None, as_node="__end__")
    return thread_id, {"parked_checkpoint": parked_at}


@situation("support", status="interrupted", pending=("await_approval",), next=("await_approval",))
async def updated_before_it_ever_ran(bench: Bench) -> str:
    """Never run; somebody put it before a question with update_state(as_node=…)."""
    thread_id = await bench.thread(graph_id="support", metadata={"customer": CANARY})
    await bench.client.threads.update_state(thread_id, {"case": "ask", "note": CANARY}, as_node="intake")
    return thread_id


@situation("support", **parked("await_approval"))
async def second_run_interrupted_the_first(bench: Bench) -> str:
    """While a node ran, a second run came with multitask_strategy interrupt, and asks."""
    return await _second_run(bench, "interrupt")


@situation("support", **parked("await_approval"))
async def second_run_rolled_the_first_back(bench: Bench) -> str:
    """While a node ran, a second run came with multitask_strategy rollback, and asks."""
    return await _second_run(bench, "rollback")


@situation("support", status="busy", pending=("hold",), next=("hold",), values="null")
async def second_run_was_rejected(bench: Bench) -> str:
    """While a node runs, a second run with multitask_strategy reject was refused."""
    thread_id, _ = await bench.held("support", {"case": "hold"})
    with contextlib.suppress(ConflictError):
        await bench.start(thread_id, "support", input={"case": "ask"}, multitask_strategy="reject")
        raise AssertionError("the second run was not refused")
    return thread_id


async def _second_run(bench: Bench, strategy: Literal["interrupt", "rollback"]) -> str:
    thread_id, _ = await bench.held("support", {"case": "hold"})
    await bench.run(thread_id, "support", input={"case": "ask", "gate": ""}, multitask_strategy=strategy)
    return thread_id


@situation("nested", status="interrupted", pending=("desk/sub_start",), next=("desk",))
async def cancelled_inside(bench: Bench) -> str:
    """A run was cancelled while an inner node ran."""
    thread_id, run_id = await bench.held("nested", {}, durability="sync")
    await bench.client.runs.cancel(thread_id, run_id, wait=True)
    return thread_id


@situation("support")
async def answered_and_written_at_the_end(bench: Bench) -> Made:
    """Asked, was answered by a run with durability exit, ran to its end."""
    thread_id = await bench.ran("support", {"case": "ask"})
    parked_at = await bench.head(thread_id)
    await bench.answer(thread_id, "support", durability="exit")
    return thread_id, {"parked_checkpoint": parked_at}


@situation("nested", **idle_but_pending("desk/sub_wait"), values="absent")
async def copy_of_inner_parked(bench: Bench) -> str:
    """A copy of a thread that asks inside a subgraph."""
    return await _copy(bench, await bench.ran("nested"))


@situation("half_step", **idle_but_pending("b", pending=("b", "t"), unseen=("t",)), values="absent")
async def copy_of_half_step(bench: Bench) -> str:
    """A copy of a thread with half a step."""
    return await _copy(bench, await bench.ran("half_step"))


@situation("beside", **parked("c"))
async def one_of_two_answered(bench: Bench) -> str:
    """b and c asked beside each other; b was answered."""
    thread_id = await bench.ran("beside")
    state = await bench.client.threads.get_state(thread_id)
    [asked] = [task["interrupts"][0]["id"] for task in state["tasks"] if task["name"] == "b"]
    await bench.answer(thread_id, "beside", {asked: "fine"})
    return thread_id


@situation("half_inside", **parked("office/b", pending=("office/b", "office/t"), unseen=("office/t",)))
async def half_step_inside(bench: Bench) -> str:
    """Half a step inside a subgraph: a finished and scheduled t, b asks."""
    return await bench.ran("half_inside")


@situation("join_inside", **parked("office/b", pending=("office/b", "office/t"), unseen=("office/t",)))
async def join_waiting_inside(bench: Bench) -> str:
    """A join inside a subgraph waits for b, which asks."""
    return await bench.ran("join_inside")


@situation("sent_inside", **parked("desk/sub_wait", "desk/sub_wait"))
async def sent_to_a_subgraph(bench: Bench) -> str:
    """Two Send tasks ask, each inside a subgraph of its own."""
    return await bench.ran("sent_inside")


@situation("two_desks", **parked("left/sub_wait", "right/sub_wait"))
async def two_subgraphs_beside(bench: Bench) -> str:
    """Two subgraphs ask beside each other."""
    return await bench.ran("two_desks")


@situation("remembering_deep", **parked("office/desk/sub_wait"))
async def two_deep_with_memory(bench: Bench) -> str:
    """Asks two levels down, in a subgraph with checkpointer=True inside an ordinary one."""
    return await bench.ran("remembering_deep")


@situation("calling", **parked("call/sub_wait"))
async def called_subgraph_parked(bench: Bench) -> str:
    """Asks inside a graph that a node calls in its code."""
    return await bench.ran("calling")


@situation("two_tasks", **parked("two_tasks", values="null"))
async def functional_second_task_parked(bench: Bench) -> str:
    """An entrypoint of the functional API asks inside its second task, the first is done."""
    return await bench.ran("two_tasks", {"ask": True})


@situation("two_tasks", status="error", pending=("two_tasks",), next=("two_tasks",), values="null")
async def functional_failed(bench: Bench) -> str:
    """An entrypoint of the functional API raised."""
    return await bench.ran("two_tasks", {"fail": True})


@situation("deferred")
async def deferred_passed(bench: Bench) -> str:
    """The deferred node ran: its channel is in storage, nothing waits."""
    thread_id = await bench.ran("deferred")
    await bench.answer(thread_id, "deferred")
    return thread_id


# --- What a state holds --------------------------------------------------------------------------------------------------------------


@situation("freeform", **parked("wait"))
async def personal_keys_parked(bench: Bench) -> str:
    """A free-form state with a personal top-level key asks."""
    return await bench.ran("freeform", {CANARY_KEY: CANARY, "customer_name": CANARY})


@situation("functional")
async def personal_keys_finished(bench: Bench) -> Made:
    """A functional thread returned a dict with a personal top-level key."""
    return await bench.ran("functional", {CANARY_KEY: CANARY})


STATES: Mapping[str, Mapping[str, Any]] = {
    "version_1": {"state_version": 1},
    "version_2": {"state_version": 2},
    "version_missing": {},
    "version_true": {"state_version": True},
    "version_float": {"state_version": 1.0},
    "version_text": {"state_version": "2"},
    "version_null": {"state_version": None},
    "version_negative": {"state_version": -1},
    "old_field_null": {"customer_name": None},
    "old_field_empty": {"customer_name": ""},
    "old_field_empty_list": {"customer_name": []},
    "old_field_present": {"customer_name": CANARY},
    "old_field_false": {"customer_name": False},
    "old_field_zero": {"customer_name": 0},
    "old_field_number": {"customer_name": 1.5},
    "old_field_object": {"customer_name": {CANARY_KEY: CANARY}},
    "new_field_only": {"display_name": CANARY},
    "rename_agrees": {"customer_name": CANARY, "display_name": CANARY},
    "rename_disagrees": {"customer_name": CANARY, "display_name": CANARY + " other"},
    "old_null_new_present": {"customer_name": None, "display_name": CANARY},
    "old_present_new_empty": {"customer_name": CANARY, "display_name": ""},
    "kind_text": {"retry_count": "3"},
    "kind_integer": {"retry_count": 3},
    "to_erase": {"passport_number": CANARY, "legacy_notes": CANARY},
}
"""Finished `support` threads by name, with the fields that they hold besides `case`, `note` and `outcome`."""


def _holding(name: str, state: Mapping[str, Any]) -> Builder:
    async def build(bench: Bench) -> str:
        return await bench.ran("support", {"case": "finish", **state})

    build.__name__ = name
    build.__doc__ = f"Finished, holding {', '.join(state) or 'none of the fields that matter'}."
    return build


for _name, _state in STATES.items():
    situation("support")(_holding(_name, _state))
