"""What is left of a drain: by target and reason, with the threads behind each number and what to do about them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.drains.answers import TargetAnswer
from app.drains.next_steps import next_step_of
from app.web import paths, words


@dataclass(frozen=True, slots=True)
class LeftLine:
    """Threads that block for one target in one way. ``href``: the list of them, on the page of a drain that is asked now."""

    disposition: str
    meaning: str
    count: int
    step: str
    href: str | None


@dataclass(frozen=True, slots=True)
class LeftTarget:
    """One thing to remove, and what is in its way."""

    target: TargetAnswer
    lines: tuple[LeftLine, ...]


def what_is_left(targets: Iterable[TargetAnswer], drain: str | None) -> tuple[LeftTarget, ...]:
    """Targets in their order, the most threads first. ``drain`` None: an answer of the past, whose threads are not listed."""
    return tuple(LeftTarget(target, tuple(_lines(target, drain))) for target in targets)


def _lines(target: TargetAnswer, drain: str | None) -> list[LeftLine]:
    key = f"{target.kind}:{target.name}"
    return [
        LeftLine(
            name,
            words.disposition_meaning(name),
            count,
            next_step_of(target, name),
            paths.drain_threads_path(drain, name, target=key) if drain is not None else None,
        )
        for name, count in sorted(target.dispositions.items(), key=lambda item: (-item[1], item[0]))
    ]
