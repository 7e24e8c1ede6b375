"""Which node raised an interrupt, proved from its id alone (``xxh3_128`` of the checkpoint namespace).

A match proves that the node is pending. No match, and a full set of matches, prove nothing about others.
"""

from collections.abc import Collection, Iterable
from urllib.parse import unquote

from xxhash import xxh3_128_hexdigest

from app.facts.types import Interrupt

MAX_PER_TASK = 32


def prove(interrupts: Iterable[Interrupt], candidates: Collection[str]) -> dict[str, str]:
    """Map the row's interrupts to the nodes that raised them: ``{task_id: node}``, only what is proved.

    The namespace of a root task is ``NODE:TASK``, with ``|1``, ``|2`` … for later interrupts of the same task. Names with
    a path below the root need the inner task's id, which the row does not have; they are proved from the state.
    """
    names = [name for name in candidates if "/" not in name]
    proved = {}
    for interrupt in interrupts:
        for name in names:
            if _raised(interrupt, unquote(name)):
                proved[interrupt.task_id] = name
                break
    return proved


def _raised(interrupt: Interrupt, node: str) -> bool:
    root = f"{node}:{interrupt.task_id}"
    if xxh3_128_hexdigest(root.encode()) == interrupt.interrupt_id:
        return True
    return any(xxh3_128_hexdigest(f"{root}|{n}".encode()) == interrupt.interrupt_id for n in range(1, MAX_PER_TASK))
