"""What is done with threads later on the real server, and what is true of them afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tests.truth.births import A_DAY, BIRTHS, Maker
from tests.truth.lives import COUNT, NEW, OLD, VERSION, Life

Deed = Callable[[Maker, Life], Awaitable[Life | None]]
May = Callable[[Maker, Life], bool]
DEEDS: dict[str, tuple[May, Deed]] = {}
KINDS: dict[str, list[str]] = {}
"""Deeds of a kind are done at once, with different threads."""

CAN_BE_COPIED = frozenset(
    {"support", "functional", "freeform", "fan_out", "beside", "half_step", "goto", "join", "deferred"}
)
"""A copy of a thread with a subgraph cannot be read with its subgraphs: the server answers 500, and its runs fail."""

WAIT_BESIDE = frozenset({"half_step", "goto", "join", "deferred"})
STAYS_PENDING = frozenset({"support", "fan_out"})
"""Graphs in which a run that finds nothing of its own to do writes nothing: the wait comes back with the node."""


def deed(kind: str, may: May) -> Callable[[Deed], Deed]:
    """Register something that can be done with a thread where `may` says so. It answers with a new thread, if it made one."""

    def register(act: Deed) -> Deed:
        DEEDS[act.__name__] = (may, act)
        KINDS.setdefault(kind, []).append(act.__name__)
        return act

    return register


def _rests(maker: Maker, life: Life) -> bool:
    return not life.is_busy and not life.never_ran and maker.world.has_graph(life.graph)


def _is_at_home(maker: Maker, life: Life) -> bool:
    """Nothing is unclear about what a run of its own graph would do now."""
    readable = not life.is_text_amount or maker.world.parts["strict.py"] == "before"
    return _rests(maker, life) and life.row_graph == life.graph and not life.unsure and readable


def _all_there(maker: Maker, life: Life) -> bool:
    return all(maker.world.has(life.graph, leaf) for leaf in life.at)


def _none_there(maker: Maker, life: Life) -> bool:
    return bool(life.at) and not any(maker.world.has(life.graph, leaf) for leaf in life.at)


async def _questions(maker: Maker, life: Life) -> list[str]:
    """The ids of what it asks, as an application knows them that kept them: from the row, or from the state of a copy."""
    row: Any = await maker.client.threads.get(life.thread_id)
    asked = [one["id"] for interrupts in (row.get("interrupts") or {}).values() for one in interrupts]
    if not asked:
        state: Any = await maker.client.threads.get_state(life.thread_id)
        asked = [one["id"] for one in state["interrupts"]]
    return [str(one) for one in asked]


async def _resume(maker: Maker, life: Life, *questions: str, **options: Any) -> None:
    answers = dict.fromkeys(questions, "yes") if len(questions) > 1 else "yes"
    command = {"resume": answers} if questions else None
    config = {"recursion_limit": 8}
    await maker.bench.run(life.thread_id, life.graph, input=None, command=command, config=config, **options)


def _wrote(maker: Maker, life: Life) -> None:
    """A run of `support` without a field may drop it from the state: no claim any more."""
    if life.graph in ("support", "dropped") and not all(maker.world.declares(name) for name in life.holds or ()):
        life.holds = None
    life.run_deleted, life.finishing_run = False, None


# -- answers ---------------------------------------------------------------------------------------------------------


def _may_answer(maker: Maker, life: Life) -> bool:
    return life.asks and _is_at_home(maker, life) and (_all_there(maker, life) or _may_throw_away(maker, life))


def _may_throw_away(maker: Maker, life: Life) -> bool:
    if life.graph in WAIT_BESIDE:
        return life.at[:1] == ("b",)
    if life.graph == "beside":
        return set(life.at) == {"b", "c"}
    return _none_there(maker, life)


@deed("answers", _may_answer)
async def answer(maker: Maker, life: Life) -> None:
    """Somebody answers all questions; under a graph without the node the answers are lost."""
    gone = [leaf for leaf in life.at if not maker.world.has(life.graph, leaf)]
    questions = await _questions(maker, life)
    await _resume(maker, life, *questions)
    _wrote(maker, life)
    if gone:
        life.threw_away(*gone)
        if life.graph in STAYS_PENDING:
            life.asks, life.shows_in_row = False, False
            return
        life.unsure |= set(gone)
        life.is_settled()
    elif life.twice:
        life.twice = False
        life.waits(*life.at, asks=True)
    else:
        life.was_done()
        life.finishing_run = life.at[0] if life.graph == "support" else None
        life.is_settled()


@deed(
    "answers",
    lambda maker, life: life.asks and life.graph == "support" and _is_at_home(maker, life) and _all_there(maker, life),
)
async def answer_and_write_at_the_end(maker: Maker, life: Life) -> None:
    """Somebody answers, and the run writes nothing until it ends."""
    await _resume(maker, life, *await _questions(maker, life), durability="exit")
    _wrote(maker, life)
    if life.twice:
        life.twice = False
        life.waits(*life.at, asks=True)
    else:
        life.is_settled()


@deed(
    "answers",
    lambda maker, life: (
        _may_answer(maker, life) and life.graph == "fan_out" and len(life.at) > 1 and _all_there(maker, life)
    ),
)
async def answer_one_of_several(maker: Maker, life: Life) -> None:
    """One of the parallel questions is answered."""
    questions = await _questions(maker, life)
    await maker.bench.answer(life.thread_id, life.graph, {questions[0]: "yes"})
    life.waits(*life.at[1:], asks=True)


@deed(
    "answers",
    lambda maker, life: (
        not life.asks and bool(life.at) and not life.lost and _is_at_home(maker, life) and _can_continue(maker, life)
    ),
)
async def go_on(maker: Maker, life: Life) -> None:
    """A run without an input: what is pending runs."""
    questions = await _questions(maker, life)
    if life.shape in ("cancelled", *_GATED):
        maker.bench.open(life.thread_id)
    await _resume(maker, life, *questions)
    _wrote(maker, life)
    if life.at in (("fail",), ("spin",)):
        return
    if questions or life.at == ("hold",):
        life.is_settled()
    elif life.at == ("desk",):
        life.waits(maker.world.named("nested", "desk/sub_wait") or "", asks=True)
    else:
        life.waits(*life.at, asks=True)


_GATED = ("running_sync", "running_async", "running_exit", "running_inside", "resume_rolled_back")


def _can_continue(maker: Maker, life: Life) -> bool:
    simple = life.graph == "support" or life.at == ("desk",)
    return simple and life.result_of is None and _all_there(maker, life) and not life.twice


# -- other ways on ---------------------------------------------------------------------------------------------------


def _may_take_input(maker: Maker, life: Life) -> bool:
    return _is_at_home(maker, life) and life.graph in BIRTHS and life.graph not in ("strict", "functional", "dropped")


@deed("other ways", _may_take_input)
async def new_input(maker: Maker, life: Life) -> None:
    """Something else is asked of the thread: what was pending is dropped."""
    await _asked_anew(maker, life, finishes=False)


@deed("other ways", lambda maker, life: _may_take_input(maker, life) and life.graph == "support")
async def finish_by_input(maker: Maker, life: Life) -> None:
    """Something else is asked that is done at once: what was pending is dropped."""
    await _asked_anew(maker, life, finishes=True)


async def _asked_anew(maker: Maker, life: Life, *, finishes: bool) -> None:
    gone = {leaf for leaf in life.at if not maker.world.has(life.graph, leaf)}
    if life.graph in WAIT_BESIDE or life.graph in ("remembering", "beside", "fan_out"):
        life.unsure |= gone
    life.outdated |= gone
    state: dict[str, Any] = {"note": "again"}
    if life.graph == "support":
        state["case"] = "finish" if finishes else "ask"
    if life.graph == "fan_out":
        state["documents"] = ["four"]
    if life.graph == "beside":
        state["fail"] = False
    await maker.bench.run(life.thread_id, life.graph, input=state)
    _wrote(maker, life)
    life.twice = life.was_refused = False
    if finishes:
        life.is_settled()
    else:
        _asks_anew(maker, life)


def _asks_anew(maker: Maker, life: Life) -> None:
    leaves = {
        "support": ("await_approval",),
        "nested": ("desk/sub_wait",),
        "remembering": ("desk/sub_wait",),
        "deep": ("office/desk/sub_wait",),
        "freeform": ("wait",),
        "fan_out": ("review",),
        "beside": ("b", "c"),
    }.get(life.graph, ("b", "t"))
    now = [maker.world.named(life.graph, leaf) for leaf in leaves]
    there = [leaf for leaf in now if leaf is not None]
    life.outdated -= set(there)
    life.waits(*there, asks=True, hidden=there[1:] if life.graph in WAIT_BESIDE else ())


@deed(
    "other ways",
    lambda maker, life: (
        life.graph == "support"
        and life.asks
        and life.at == ("await_approval",)
        and _is_at_home(maker, life)
        and _all_there(maker, life)
        and not life.twice
        and not life.lost
    ),
)
async def update_a_field(maker: Maker, life: Life) -> None:
    """A field is changed: the same node is pending, without its question."""
    await maker.client.threads.update_state(life.thread_id, {"note": "u"})
    _wrote(maker, life)
    life.waits(*life.at)


def _may_migrate(maker: Maker, life: Life) -> bool:
    rests = not life.at and not life.outdated and not life.lost and _is_at_home(maker, life)
    known = life.graph == "support" and life.holds is not None and not life.run_deleted
    return rests and known and all(maker.world.declares(name) for name in life.holds or ())


@deed("other ways", _may_migrate)
async def migrate(maker: Maker, life: Life) -> None:
    """Somebody writes the new form of a finished thread's fields beside the old one."""
    holds = dict(life.holds or {})
    new: dict[str, object] = {VERSION: 2, COUNT: 1} if COUNT in holds else {VERSION: 2}
    if OLD in holds:
        new[NEW] = holds[OLD]
    await maker.client.threads.update_state(life.thread_id, new, as_node="notify")
    life.keeps(holds | new)
    life.finishing_run = None


@deed(
    "other ways",
    lambda maker, life: (
        life.graph == "support"
        and life.at == ("await_approval",)
        and _is_at_home(maker, life)
        and _all_there(maker, life)
        and not life.lost
    ),
)
async def answer_by_update(maker: Maker, life: Life) -> None:
    """Somebody answers for the node with update_state(as_node=…)."""
    await maker.client.threads.update_state(life.thread_id, {"decision": "u"}, as_node=life.at[0])
    _wrote(maker, life)
    life.twice = False
    life.waits("hold")


@deed(
    "checkpoints",
    lambda maker, life: (
        life.graph == "support"
        and _is_at_home(maker, life)
        and life.asks
        and life.at == ("await_approval",)
        and _all_there(maker, life)
    ),
)
async def travel_in_time(maker: Maker, life: Life) -> None:
    """Forked from before the question, and finished on the other branch."""
    state: Any = await maker.client.threads.get_state(life.thread_id)
    await maker.client.threads.update_state(
        life.thread_id, {"case": "finish"}, as_node="intake", checkpoint=state["parent_checkpoint"]
    )
    await maker.bench.run(life.thread_id, "support", input=None)
    _wrote(maker, life)
    life.twice = False
    life.is_settled()


@deed(
    "another graph",
    lambda maker, life: (
        life.graph == "support"
        and _is_at_home(maker, life)
        and life.asks
        and life.at == ("await_approval",)
        and not life.twice
    ),
)
async def answer_under_another_graph(maker: Maker, life: Life) -> None:
    """The answer goes to `nested`, which has no such node: nothing is written, and no view shows what is pending."""
    await maker.bench.answer(life.thread_id, "nested", "yes")
    life.row_graph = "nested"
    life.asks = False
    life.hidden = set(life.at)
    life.shows_in_row = False


@deed(
    "another graph",
    lambda maker, life: (
        life.graph == "support"
        and life.row_graph == "nested"
        and _rests(maker, life)
        and _all_there(maker, life)
        and life.at == ("await_approval",)
    ),
)
async def go_on_at_home(maker: Maker, life: Life) -> None:
    """A run under its own graph takes the answer that another graph was given, and goes on."""
    await maker.bench.run(life.thread_id, "support", input=None)
    life.row_graph = "support"
    _wrote(maker, life)
    life.is_settled()


@deed(
    "another graph",
    lambda maker, life: life.graph == "support" and _is_at_home(maker, life) and not (life.lost or life.is_copy),
)
async def new_input_under_another_graph(maker: Maker, life: Life) -> None:
    """A new input under `nested` takes the place of whatever was pending."""
    life.unsure |= {leaf for leaf in life.at if not maker.world.has("support", leaf)}
    await maker.bench.run(life.thread_id, "nested", input={"note": "other"})
    life.graph = life.row_graph = "nested"
    life.holds, life.twice = None, False
    life.run_deleted, life.finishing_run = False, None
    life.unsure |= life.outdated
    life.waits(maker.world.named("nested", "desk/sub_wait") or "", asks=True)


def _may_be_undone(maker: Maker, life: Life) -> bool:
    answered = life.finishing_run
    rests = answered is not None and _is_at_home(maker, life) and not life.at
    return rests and maker.world.has("support", str(answered))


@deed("checkpoints", _may_be_undone)
async def delete_the_run_that_finished_it(maker: Maker, life: Life) -> None:
    """Checkpoints go, the result of the node that had asked stays: half a step, and the row does not move."""
    newest = (await maker.client.runs.list(life.thread_id, limit=1))[0]
    await maker.client.runs.delete(life.thread_id, newest["run_id"])
    life.waits("hold", hidden=["hold"], in_row=False)
    life.result_of, life.finishing_run, life.run_deleted = life.finishing_run, None, True


@deed("checkpoints", lambda maker, life: life.result_of is not None and _is_at_home(maker, life))
async def finish_again(maker: Maker, life: Life) -> None:
    """The next run applies the result that stayed, and goes on behind the node."""
    await maker.bench.run(life.thread_id, "support", input=None)
    _wrote(maker, life)
    life.is_settled()


# -- runs that are active or due -------------------------------------------------------------------------------------


@deed("runs", lambda maker, life: life.is_held)
async def let_it_go_on(maker: Maker, life: Life) -> None:
    """The node that runs may end."""
    maker.bench.open(life.thread_id)
    await maker.client.runs.join(life.thread_id, str(life.run))
    maker.held.remove(life)
    life.is_held, life.run = False, None
    if life.graph == "nested":
        life.waits(maker.world.named("nested", "desk/sub_wait") or "", asks=True)
    else:
        life.is_settled()


@deed("runs", lambda maker, life: life.is_held and life.shape != "running_exit")
async def cancel(maker: Maker, life: Life) -> None:
    """The run is cancelled inside a node."""
    await maker.client.runs.cancel(life.thread_id, str(life.run), wait=True)
    maker.bench.open(life.thread_id)
    maker.held.remove(life)
    life.is_held, life.run = False, None
    life.waits(*life.at)


@deed("runs", lambda maker, life: life.is_held)
async def cancel_with_rollback(maker: Maker, life: Life) -> None:
    """The only run is cancelled with rollback: no checkpoint is left."""
    await maker.client.runs.cancel(life.thread_id, str(life.run), wait=True, action="rollback")
    maker.bench.open(life.thread_id)
    maker.held.remove(life)
    life.is_held, life.run, life.never_ran = False, None, True
    life.is_settled()


@deed(
    "runs",
    lambda maker, life: _is_at_home(maker, life) and life.graph == "support" and maker.world.has_graph("support"),
)
async def delay_a_run(maker: Maker, life: Life) -> None:
    """A run is put on it that is due tomorrow."""
    command: Any = {"resume": "later"} if life.asks else None
    life.run = await maker.bench.start(life.thread_id, "support", input=None, command=command, after_seconds=A_DAY)
    life.is_delayed = True


@deed("runs", lambda maker, life: life.is_delayed)
async def cancel_the_delayed_run(maker: Maker, life: Life) -> None:
    """It is taken off again: an idle row, whatever is pending."""
    await maker.client.runs.cancel(life.thread_id, str(life.run), wait=True)
    life.is_delayed, life.run = False, None


# -- whole threads ---------------------------------------------------------------------------------------------------


@deed(
    "whole threads",
    lambda maker, life: _is_at_home(maker, life) and life.graph in CAN_BE_COPIED and life.result_of is None,
)
async def copy(maker: Maker, life: Life) -> Life:
    """The same again under another id: an idle row without values."""
    copied: Any = await maker.client.http.post(f"/threads/{life.thread_id}/copy", json=None)
    other = maker.life(str(copied["thread_id"]), life.graph, f"copy of {life.shape}")
    other.is_copy = True
    other.unsure, other.outdated = set(life.unsure), set(life.outdated)
    other.holds = None if life.holds is None else dict(life.holds)
    other.stores = set(life.stores)
    state: Any = await maker.client.threads.get_state(other.thread_id)
    assert state["checkpoint"], "a copy without a checkpoint"
    other.waits(*life.at, hidden=life.hidden)
    other.unsure |= life.lost
    other.twice = life.twice
    return other


@deed("deletions", lambda maker, life: not life.is_held and not maker.world.restarts_later)
async def delete(maker: Maker, life: Life) -> None:
    """It is deleted.

    A server in memory that has deleted a thread writes no results and questions of any thread to its disk until it ends (it replaces
    its persistent store of writes by a plain one): only where no restart follows is the truth known.
    """
    await maker.client.threads.delete(life.thread_id)
    life.is_gone = True


@deed("whole threads", lambda maker, life: not life.is_busy)
async def patch_metadata(maker: Maker, life: Life) -> None:
    """Only `updated_at` moves."""
    await maker.client.threads.update(life.thread_id, metadata={"patched": "yes"})


async def do(name: str, maker: Maker, life: Life) -> Life | None:
    """Do it, and write it down."""
    _, act = DEEDS[name]
    made = await act(maker, life)
    life.deeds.append(name)
    return made


def possible(maker: Maker, life: Life, among: Iterable[str] = DEEDS) -> list[str]:
    """What can be done with a thread now, of what this model knows the outcome."""
    return [] if life.is_gone else [name for name in among if DEEDS[name][0](maker, life)]
