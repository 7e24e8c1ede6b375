"""Which node raised an interrupt, proved by hashes alone: of the row, and of the checkpoints that the state still shows.

An interrupt's id is the ``xxh3_128`` of the namespace that raised it, so a name is proved or not by one hash. The namespace
of an inner task needs that task's id, which the row does not have; but the id is itself a hash, of the checkpoint that
scheduled the task, and the inner checkpoint is still shown after its node is gone. So it can be made anew and tried.

A match proves which node asked. No match, and a full set of matches, prove nothing about others.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import unquote

from xxhash import xxh3_128_hexdigest

from app.facts.privacy import node_name
from app.facts.types import Interrupt

MAX_PER_TASK = 32
MAX_SENDS = 32


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint that can schedule tasks: its namespace as ``Leaf.ns`` has it (the root's is ``""``), id and step."""

    ns: str
    checkpoint_id: str
    step: int | None


@dataclass(frozen=True, slots=True)
class Proof:
    """A task that asked. ``interrupts``: how many of the row's are its own. ``inside``: it asked, or what is inside it did;
    which of them cannot be told."""

    node: str
    ns: str
    task_id: str
    interrupts: int
    inside: bool = False


Task = tuple[str, str, str, bool]
"""Path, namespace, task id, inside: a proof without its count."""


def prove(
    interrupts: Iterable[Interrupt], candidates: Collection[str], places: Collection[Place] = ()
) -> tuple[Proof, ...]:
    """The tasks that raised the row's interrupts, as far as they are proved.

    ``candidates`` are paths. ``places`` are the checkpoints that the state shows; without them only nodes of the root are
    proved, by the row alone: ``NODE:TASK``, with ``|1``, ``|2`` … for later interrupts of the same task.
    """
    asked = tuple(interrupts)
    tasks = {interrupt.task_id for interrupt in asked}
    found = _matched(asked, [*_by_the_row(tasks, candidates), *_by_inner_checkpoints(tasks, candidates, places)])
    named = _by_the_root({one.task_id for at, one in enumerate(asked) if at not in found}, candidates, places)
    found |= {at: named[one.task_id] for at, one in enumerate(asked) if at not in found and one.task_id in named}
    return tuple(
        Proof(node, ns, task, count, inside) for (node, ns, task, inside), count in Counter(found.values()).items()
    )


def _matched(asked: Sequence[Interrupt], possible: Collection[tuple[str, Task]]) -> dict[int, Task]:
    """The interrupts, by their place in ``asked``, whose id is that of a namespace: its first question, its second …"""
    found: dict[int, Task] = {}
    for number in range(MAX_PER_TASK):
        left = {one.interrupt_id for at, one in enumerate(asked) if at not in found}
        if not left:
            break
        ids = {}
        for namespace, task in possible:
            asks = xxh3_128_hexdigest((f"{namespace}|{number}" if number else namespace).encode())
            if asks in left:
                ids[asks] = task
        found |= {
            at: ids[one.interrupt_id] for at, one in enumerate(asked) if at not in found and one.interrupt_id in ids
        }
    return found


def _by_the_row(tasks: Collection[str], candidates: Collection[str]) -> Iterator[tuple[str, Task]]:
    for path, name in _directly_below("", candidates):
        for task in tasks:
            yield f"{name}:{task}", (path, "", task, False)


def _by_inner_checkpoints(
    tasks: Collection[str], candidates: Collection[str], places: Collection[Place]
) -> Iterator[tuple[str, Task]]:
    """``OUTER:TASK|INNER:TASK``, or ``OUTER|INNER:TASK`` where the subgraph keeps one history for the thread."""
    for place in places:
        if not place.ns or place.ns.partition("|")[0].rpartition(":")[2] not in tasks:
            continue
        for path, name in _directly_below(path_of(place.ns), candidates):
            for namespace in namespaces(place.ns):
                for task in _task_ids(place, namespace, name):
                    yield f"{namespace}|{name}:{task}", (path, place.ns, task, False)


def _by_the_root(tasks: Collection[str], candidates: Collection[str], places: Collection[Place]) -> dict[str, Task]:
    """The task that the row files an interrupt under is one of the head checkpoint's, whatever inside it asked."""
    roots = [place for place in places if not place.ns] if tasks else []
    return {
        task: (path, "", task, True)
        for place in roots
        for path, name in _directly_below("", candidates)
        for task in _task_ids(place, "", name)
        if task in tasks
    }


def _directly_below(above: str, candidates: Collection[str]) -> Iterator[tuple[str, str]]:
    """The candidates one step below a path, each with the node's own name."""
    for path in candidates:
        parent, _, last = path.rpartition("/")
        if parent == above:
            yield path, unquote(last)


@cache
def _trigger_forms(name: str) -> tuple[str, ...]:
    """How a task of a node is told from others: by the channel that pulls it, or by its number among those sent."""
    pulled = ("__pregel_pull" + trigger for trigger in (f"branch:to:{name}", "__start__"))
    return (*pulled, *(f"__pregel_push{number}" for number in range(MAX_SENDS)))


def _task_ids(place: Place, namespace: str, name: str) -> Iterator[str]:
    """The ids that tasks of a node can have at a checkpoint. A join's other triggers are not known here: no id then."""
    if place.step is None:
        return
    try:
        head = bytes.fromhex(place.checkpoint_id.replace("-", ""))
    except ValueError:
        return
    inside = f"{namespace}|{name}" if namespace else name
    for form in _trigger_forms(name):
        digest = xxh3_128_hexdigest(head + f"{inside}{place.step + 1}{name}{form}".encode())
        yield "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))


def path_of(ns: str) -> str:
    """The path of the node whose subgraph a namespace is: ``desk:TASK|sub:TASK`` -> ``desk/sub``."""
    return "/".join(node_name(step.rpartition(":")[0] or step) for step in ns.split("|") if step)


def namespaces(ns: str) -> Iterator[str]:
    """What the server may call a namespace. A subgraph with ``checkpointer=True`` drops the task ids down to its own step:
    ``desk:TASK|sub:TASK`` is that, ``desk|sub:TASK`` or ``desk|sub``."""
    steps = ns.split("|")
    bare = [step.rpartition(":")[0] or step for step in steps]
    return ("|".join(bare[:depth] + steps[depth:]) for depth in range(len(steps) + 1))


def places_of(heads: Mapping[str, str], steps: Mapping[str, int]) -> tuple[Place, ...]:
    """The checkpoints that a state shows, from its heads and their steps by namespace."""
    return tuple(Place(ns, checkpoint, steps.get(ns)) for ns, checkpoint in heads.items())
