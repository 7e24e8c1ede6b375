"""Rules of the product, broken on purpose: what the truth machine is for must notice each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from app.drains import dispositions, service
from app.drains.dispositions import Disposition, Finding, Work
from app.facts import conditions
from app.facts.types import Condition, Status
from app.jobs import readings
from tests.truth.machine import Mutant


@contextlib.contextmanager
def ignores_half_steps() -> Iterator[None]:
    """What a half-done parallel step has scheduled is forgotten."""
    original: Callable[..., Any] = service.Drains._subject

    def blind(self: Any, *arguments: Any) -> Any:
        subject = original(self, *arguments)
        return replace(subject, work=Work(subject.work.leaves, half_step=False))

    with patch.object(service.Drains, "_subject", blind):
        yield


@contextlib.contextmanager
def ignores_joins() -> Iterator[None]:
    """What waits at a join, or for the end, is forgotten."""
    with patch.object(dispositions, "_may_wait", lambda *_: False):
        yield


@contextlib.contextmanager
def ignores_the_old_field() -> Iterator[None]:
    """Every thread counts as migrated."""
    with patch.object(dispositions, "_rename", lambda *_: Finding(Disposition.MIGRATED)):
        yield


@contextlib.contextmanager
def idle_is_settled() -> Iterator[None]:
    """An idle row has nothing pending, so nobody reads its state."""
    may_hold_work = conditions.may_hold_work
    judge_unread, read_with = conditions.judge_unread, dispositions._read_with

    def only_others(row: Any, known: Any) -> bool:
        return row.status is not Status.IDLE and may_hold_work(row, known)

    def settled(row: Any, known: Any) -> Any:
        found = judge_unread(row, known)
        return found if row.status is not Status.IDLE else replace(found, condition=Condition.SETTLED, leaves=())

    def believed(subject: Any, node: str, rules: Any) -> bool:
        return subject.condition is Condition.SETTLED or bool(read_with(subject, node, rules))

    def need(*arguments: Any) -> Any:
        return replace(_need(*arguments), idle_heads=None, recheck=None)

    _need = service._need
    with (
        patch.object(conditions, "may_hold_work", only_others),
        patch.object(readings, "may_hold_work", only_others),
        patch.object(readings, "judge_unread", settled),
        patch.object(dispositions, "_read_with", believed),
        patch.object(service, "_need", need),
    ):
        yield


@contextlib.contextmanager
def next_without_the_node_is_believed() -> Iterator[None]:
    """A state that was read under a graph without the node counts, and so does a removal that nobody allowed."""

    def deployed(spec: Any, revisions: Any) -> dict[str, bool]:
        return dict.fromkeys(spec.nodes, True)

    with (
        patch.object(dispositions, "_read_with", lambda *_: True),
        patch.object(service, "_deployed", deployed),
        patch.object(readings, "judge_state", _as_the_state_says),
    ):
        yield


def _as_the_state_says(row: Any, state: Any, **more: Any) -> Any:
    found = conditions.judge_state(row, state, **more)
    if found.condition not in (Condition.STRANDED, Condition.LOST, Condition.UNPLACED):
        return found
    return replace(found, condition=Condition.PARKED if state.leaves else Condition.SETTLED, leaves=state.leaves)


ASKED: Mapping[str, Mutant] = {
    "half steps": ignores_half_steps,
    "joins": ignores_joins,
}
"""Rules that matter when a drain is asked: broken for one more question after each poll."""

LIVED: Mapping[str, Mutant] = {
    "idle": idle_is_settled,
    "stranded": next_without_the_node_is_believed,
    "old field": ignores_the_old_field,
    **ASKED,
}
"""Rules that are broken for a whole session."""
