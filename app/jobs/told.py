"""The messages between a reporter and Drainboard. One class for each part; the lines of threads are in ``lines``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Begin:
    """A reporter begins. ``topology`` is what its graph looks like; ``ids``: who names the threads, a file or the index."""

    topology: Mapping[str, Any]
    saver: str
    langgraph: str
    ids: str


@dataclass(frozen=True, slots=True)
class AskLeft:
    """Which threads are left: of these ``ids``, or of all after one."""

    ids: Sequence[str] | None
    after: str
    limit: int


@dataclass(frozen=True, slots=True)
class End:
    """The pass is over, the reporter thinks: of how many ids it was given it told, and how many it could not tell."""

    ids: int
    problems: int


@dataclass(frozen=True, slots=True)
class Message:
    """What a reporter sends at once; each part may be missing."""

    pass_id: str
    begin: Begin | None
    threads: Sequence[Mapping[str, Any]]
    left: AskLeft | None
    end: End | None


@dataclass(frozen=True, slots=True)
class LineProblem:
    """A line that was not taken."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class HowToRead:
    """What a reporter must know to reduce a state: which names are kept in clear, and the key of the others' hashes."""

    names: tuple[str, ...]
    key: str
    version_keys: tuple[str, ...]
    renames: tuple[tuple[str, str], ...]
    metadata_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """A thread to tell of. ``waits``: task, namespace and checkpoint of what was seen waiting there; of those that left, the
    history of the namespace is wanted too. ``head``: the head that was told last; under the same one the thread began when it
    did."""

    thread_id: str
    waits: tuple[tuple[str, str, str], ...] = ()
    head: str | None = None


@dataclass(frozen=True, slots=True)
class FactsTaken:
    """The answer. ``pass_id``: the pass to go on with, ``reported``: threads told of in it; ``again``: lines to send once
    more, with histories; ``ended``: the pass is over, ``complete``: and counts."""

    pass_id: str
    reported: int = 0
    reading: HowToRead | None = None
    taken: int = 0
    problems: tuple[LineProblem, ...] = ()
    again: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    ended: bool = False
    complete: bool = False
    reasons: tuple[str, ...] = ()
