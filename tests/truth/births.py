"""How threads begin: every shape that a thread can have, done on the real server, with the truth about it."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient

from tests.agent.situations import Bench
from tests.truth.lives import SECRET, Life
from tests.truth.world import World

A_DAY = 86_400


@dataclass
class Maker:
    """Makes threads for one history. `states` are what a `support` thread of it may hold, dealt out so that what its drains are
    about comes first: `dealt` counts, by the place in `states`."""

    history: str
    client: LangGraphClient
    world: World
    dice: random.Random
    states: tuple[Mapping[str, object], ...]
    dealt: Counter[int] = field(default_factory=Counter)
    held: list[Life] = field(default_factory=list)

    def rolling(self, dice: random.Random) -> Maker:
        """The same with other dice: what happens at the same time must not take each other's chances."""
        return replace(self, dice=dice)

    @property
    def bench(self) -> Bench:
        """The verbs of `tests/agent`."""
        return Bench(self.client, self.world.folder)

    @property
    def metadata(self) -> dict[str, str]:
        """What makes a thread one of this history."""
        return {"history": self.history}

    def life(self, thread_id: str, graph: str, shape: str) -> Life:
        """The truth about a new thread."""
        return Life(thread_id, self.history, graph, graph, shape, deeds=[shape])

    async def thread(self, **options: Any) -> str:
        """A new thread of this history. A connection may be one to a server that was killed: then it is asked for once more."""
        options |= {"metadata": self.metadata, "thread_id": str(uuid.uuid4()), "if_exists": "do_nothing"}
        try:
            return await self.bench.thread(**options)
        except httpx.ReadError:
            return await self.bench.thread(**options)

    def state(self) -> dict[str, object]:
        """What a new `support` thread holds, of what the deployed graph declares."""
        places = range(len(self.states))
        place = min(self.dice.sample(places, len(places)), key=lambda one: self.dealt[one])
        self.dealt[place] += 1
        return {name: value for name, value in self.states[place].items() if self.world.declares(name)}

    async def ran(self, graph: str, shape: str, state: Mapping[str, Any] | None = None, **options: Any) -> Life:
        """A thread after one run."""
        life = self.life(await self.thread(), graph, shape)
        await self.bench.run(life.thread_id, graph, input={"note": "n", **(state or {})}, **options)
        return life

    async def support(self, shape: str, case: str, *leaves: str, graph: str = "support", **options: Any) -> Life:
        """A thread of the ordinary agent after one run."""
        state = self.state()
        life = await self.ran(graph, shape, {"case": case, **state}, **options)
        life.keeps(state)
        return life.waits(*leaves) if leaves else life.is_settled()

    def secret(self) -> dict[str, object]:
        """What a state that is any dict may hold beside its note, of what a new `support` thread holds."""
        return {name: value for name, value in self.state().items() if name == SECRET}

    def asking(self, graph: str = "support") -> str:
        """The name that the asking node has now."""
        return self.world.named(graph, "await_approval") or ""


Birth = Callable[[Maker], Awaitable[Life]]
BIRTHS: dict[str, dict[str, Birth]] = {}
HELD = frozenset({"running_sync", "running_async", "running_exit", "running_inside"})
"""Shapes that hold one of the server's ten workers."""


def birth(graph: str) -> Callable[[Birth], Birth]:
    """Register a shape of a graph by the function's name."""

    def register(build: Birth) -> Birth:
        BIRTHS.setdefault(graph, {})[build.__name__] = build
        return build

    return register


# -- the ordinary agent ----------------------------------------------------------------------------------------------


@birth("support")
async def finished(maker: Maker) -> Life:
    """Ran to its end."""
    return await maker.support("finished", "finish")


@birth("support")
async def parked_by_interrupt(maker: Maker) -> Life:
    """Asks a human."""
    life = await maker.support("parked_by_interrupt", "ask", maker.asking())
    life.asks = True
    return life


@birth("support")
async def asks_twice(maker: Maker) -> Life:
    """Asks, and will ask again."""
    life = await maker.support("asks_twice", "ask_twice", maker.asking())
    life.asks = life.twice = True
    return life


@birth("support")
async def breakpoint_before(maker: Maker) -> Life:
    """Stopped by interrupt_before."""
    return await maker.support("breakpoint_before", "ask", maker.asking(), interrupt_before=[maker.asking()])


@birth("support")
async def breakpoint_after(maker: Maker) -> Life:
    """Stopped by interrupt_after of the node before."""
    return await maker.support("breakpoint_after", "ask", maker.asking(), interrupt_after=["intake"])


@birth("support")
async def failed(maker: Maker) -> Life:
    """A node raised."""
    return await maker.support("failed", "fail", "fail")


@birth("support")
async def recursion_limit(maker: Maker) -> Life:
    """Looped until the recursion limit."""
    return await maker.support("recursion_limit", "spin", "spin", config={"recursion_limit": 5})


@birth("support")
async def bulk(maker: Maker) -> Life:
    """Made by supersteps, parked before a node that never began."""
    state, asking = maker.state(), maker.asking()
    steps = [{"updates": [{"values": {"case": "ask", "note": "n", **state}, "as_node": "intake"}]}]
    life = maker.life(await maker.thread(graph_id="support", supersteps=steps), "support", "bulk")
    life.keeps(state)
    return life.waits(asking)


@birth("support")
async def bulk_finished(maker: Maker) -> Life:
    """Made by supersteps, finished."""
    state = maker.state()
    steps = [{"updates": [{"values": {"note": "n", **state}, "as_node": "notify"}]}]
    life = maker.life(await maker.thread(graph_id="support", supersteps=steps), "support", "bulk_finished")
    life.keeps(state)
    return life.is_settled()


@birth("support")
async def never_ran(maker: Maker) -> Life:
    """Created and never run."""
    life = maker.life(await maker.thread(graph_id="support"), "support", "never_ran")
    life.never_ran, life.holds = True, None
    return life.is_settled()


@birth("support")
async def delayed_on_new(maker: Maker) -> Life:
    """A new thread with a run that is due tomorrow."""
    life = maker.life(await maker.thread(), "support", "delayed_on_new")
    life.run = await maker.bench.start(life.thread_id, "support", input={"case": "ask"}, after_seconds=A_DAY)
    life.is_delayed = life.never_ran = True
    life.holds = None
    return life.is_settled()


@birth("support")
async def delayed_on_parked(maker: Maker) -> Life:
    """Asks, and its answer is due tomorrow."""
    life = await maker.support("delayed_on_parked", "ask", maker.asking())
    command: Any = {"resume": "later"}
    life.run = await maker.bench.start(life.thread_id, "support", input=None, command=command, after_seconds=A_DAY)
    life.asks = life.is_delayed = True
    return life


async def _held(maker: Maker, durability: str) -> Life:
    life = maker.life(await maker.thread(), "support", f"running_{durability}")
    state = {"case": "hold", "note": "n", "gate": life.thread_id}
    life.run = await maker.bench.start(life.thread_id, "support", input=state, durability=durability)
    await maker.bench.reached(life.thread_id)
    life.is_held, life.holds = True, None
    maker.held.append(life)
    return life.waits("hold", hidden=("hold",) if durability == "exit" else ())


@birth("support")
async def running_sync(maker: Maker) -> Life:
    """A node runs, written as it goes."""
    return await _held(maker, "sync")


@birth("support")
async def running_async(maker: Maker) -> Life:
    """A node runs, written a little later."""
    return await _held(maker, "async")


@birth("support")
async def running_exit(maker: Maker) -> Life:
    """A node runs, written at the end."""
    return await _held(maker, "exit")


@birth("support")
async def cancelled(maker: Maker) -> Life:
    """A run was cancelled inside a node."""
    life = await _held(maker, "async")
    await maker.client.runs.cancel(life.thread_id, str(life.run), wait=True)
    maker.held.remove(life)
    maker.bench.open(life.thread_id)
    life.is_held, life.run, life.shape, life.deeds = False, None, "cancelled", ["cancelled"]
    return life.waits("hold")


async def _rolled_back(maker: Maker, shape: str, gate: str) -> Life:
    """Asks; the run that answered it was cancelled with rollback at a gate."""
    life = maker.life(await maker.thread(), "support", shape)
    await maker.bench.run(life.thread_id, "support", input={"case": "ask", "note": "n", gate: life.thread_id})
    run = await maker.bench.start(life.thread_id, "support", command={"resume": "yes"})
    await maker.bench.reached(life.thread_id)
    await maker.client.runs.cancel(life.thread_id, run, wait=True, action="rollback")
    maker.bench.open(life.thread_id)
    life.holds = None
    return life


@birth("support")
async def resume_rolled_back(maker: Maker) -> Life:
    """Rolled back while the node that had asked still ran: an idle row that asks."""
    life = await _rolled_back(maker, "resume_rolled_back", "answer_gate")
    return life.waits(maker.asking(), asks=True)


@birth("support")
async def resume_rolled_back_later(maker: Maker) -> Life:
    """Rolled back in the node behind: the result of the one that had asked stays, and what it scheduled is in no view."""
    life = await _rolled_back(maker, "resume_rolled_back_later", "gate")
    life.waits("hold", hidden=["hold"])
    life.result_of = maker.asking()
    return life


@birth("support")
async def refused(maker: Maker) -> Life:
    """Finished; a later run was refused."""
    life = await maker.support("refused", "finish")
    await maker.bench.run(life.thread_id, "support", input=None, config={"recursion_limit": 0})
    life.was_refused = True
    return life


@birth("support")
async def put_back_by_update(maker: Maker) -> Life:
    """Finished; somebody put it back with update_state."""
    life = await maker.support("put_back_by_update", "finish")
    await maker.client.threads.update_state(life.thread_id, {"note": "u"}, as_node=maker.asking())
    return life.waits("hold")


@birth("dropped")
async def of_a_graph_that_goes(maker: Maker) -> Life:
    """Asks, under a graph that a deploy may drop."""
    life = await maker.support("of_a_graph_that_goes", "ask", maker.asking("dropped"), graph="dropped")
    life.asks = True
    return life


@birth("dropped")
async def finished_in_a_graph_that_goes(maker: Maker) -> Life:
    """Finished, under a graph that a deploy may drop."""
    return await maker.support("finished_in_a_graph_that_goes", "finish", graph="dropped")


# -- several at once, and inside -------------------------------------------------------------------------------------


def _asks_at(graph: str, leaf: str, shape: str) -> None:
    async def build(maker: Maker) -> Life:
        life = await maker.ran(graph, shape)
        return life.waits(maker.world.named(graph, leaf) or "", asks=True)

    BIRTHS.setdefault(graph, {})[shape] = build


_asks_at("nested", "desk/sub_wait", "inner")
_asks_at("remembering", "desk/sub_wait", "inner_with_memory")
_asks_at("deep", "office/desk/sub_wait", "two_deep")


@birth("nested")
async def breakpoint_before_subgraph(maker: Maker) -> Life:
    """Stopped before a subgraph that has not begun."""
    return (await maker.ran("nested", "breakpoint_before_subgraph", interrupt_before=["desk"])).waits("desk")


@birth("nested")
async def running_inside(maker: Maker) -> Life:
    """An inner node runs."""
    life = maker.life(await maker.thread(), "nested", "running_inside")
    state = {"note": "n", "gate": life.thread_id}
    life.run = await maker.bench.start(life.thread_id, "nested", input=state, durability="sync")
    await maker.bench.reached(life.thread_id)
    life.is_held = True
    maker.held.append(life)
    return life.waits("desk/sub_start")


def _waits_beside(graph: str) -> None:
    async def build(maker: Maker) -> Life:
        target = maker.world.named(graph, "t") or ""
        return (await maker.ran(graph, f"{graph}_waiting")).waits("b", target, asks=True, hidden=[target])

    BIRTHS.setdefault(graph, {})[f"{graph}_waiting"] = build


for _graph in ("half_step", "goto", "join", "deferred"):
    _waits_beside(_graph)


@birth("beside")
async def two_beside(maker: Maker) -> Life:
    """Two ask beside each other, where both are deployed."""
    leaves = [leaf for leaf in ("b", "c") if maker.world.has("beside", leaf)]
    return (await maker.ran("beside", "two_beside")).waits(*leaves, asks=True)


@birth("beside")
async def failed_beside(maker: Maker) -> Life:
    """One failed beside those that ask."""
    leaves = [leaf for leaf in ("a", "b", "c") if maker.world.has("beside", leaf)]
    return (await maker.ran("beside", "failed_beside", {"fail": True})).waits(*leaves)


@birth("fan_out")
async def fan_out(maker: Maker) -> Life:
    """Parallel `Send` tasks ask."""
    documents = ["one", "two", "three"][: maker.dice.randint(2, 3)]
    review = maker.world.named("fan_out", "review") or ""
    return (await maker.ran("fan_out", "fan_out", {"documents": documents})).waits(
        *[review] * len(documents), asks=True
    )


async def _of_any_dict(maker: Maker, graph: str, shape: str, **more: Any) -> Life:
    secret = maker.secret()
    life = await maker.ran(graph, shape, {**secret, **more})
    life.keeps(secret)
    return life


@birth("freeform")
async def freeform(maker: Maker) -> Life:
    """Asks; its state is any dict."""
    return (await _of_any_dict(maker, "freeform", "freeform")).waits("wait", asks=True)


@birth("functional")
async def functional(maker: Maker) -> Life:
    """An entrypoint of the functional API asks."""
    return (await _of_any_dict(maker, "functional", "functional", ask=True)).waits("functional", asks=True)


@birth("functional")
async def functional_finished(maker: Maker) -> Life:
    """An entrypoint of the functional API returned."""
    return (await _of_any_dict(maker, "functional", "functional_finished")).is_settled()


@birth("strict")
async def strict_text(maker: Maker) -> Life:
    """Asks, with a state that a stricter schema does not accept."""
    amount = "seven" if maker.world.parts["strict.py"] == "before" else 7
    life = await maker.ran("strict", "strict_text", {"amount": amount})
    life.is_text_amount = amount == "seven"
    return life.waits("await_amount", asks=True)


LAST_NODE = {
    "dropped": "notify",
    "fan_out": "publish",
    "nested": "finish",
    "remembering": "finish",
    "deep": "finish",
    "half_step": "t",
    "goto": "t",
    "join": "t",
    "deferred": "t",
    "beside": "a",
    "freeform": "wait",
    "strict": "await_amount",
}


def _done(graph: str, node: str) -> None:
    async def build(maker: Maker) -> Life:
        steps = [{"updates": [{"values": {"note": "n"}, "as_node": maker.world.named(graph, node)}]}]
        return maker.life(await maker.thread(graph_id=graph, supersteps=steps), graph, f"{graph}_done").is_settled()

    BIRTHS.setdefault(graph, {})[f"{graph}_done"] = build


for _graph, _node in LAST_NODE.items():
    _done(_graph, _node)

COMES_TO: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("support", "await_approval"): (
        "parked_by_interrupt",
        "asks_twice",
        "breakpoint_before",
        "breakpoint_after",
        "bulk",
        "delayed_on_parked",
        "resume_rolled_back",
    ),
    ("support", "hold"): ("running_sync", "cancelled", "put_back_by_update", "resume_rolled_back_later"),
    ("support", "fail"): ("failed",),
    ("support", "spin"): ("recursion_limit",),
    ("beside", "a"): ("failed_beside",),
}
"""Shapes that wait at a node that few shapes of its graph wait at."""
