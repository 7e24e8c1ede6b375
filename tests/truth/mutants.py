"""Rules of the product, broken on purpose: what the truth machine is for must notice each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from app.drains import fields, gathering, judging, needs, rounds, service
from app.drains.dispositions import Disposition, Finding
from app.drains.needs import GreenNeed
from app.drains.subjects import Work
from app.facts import conditions
from app.facts.types import Condition, Status
from app.jobs import readings
from tests.truth.histories import Mutant, Size
from tests.truth.world import AFTER


@contextlib.contextmanager
def ignores_half_steps() -> Iterator[None]:
    """What a half-done parallel step has scheduled is forgotten."""
    judge_node = judging._node

    def blind(subject: Any, node: str, rules: Any) -> Any:
        return judge_node(replace(subject, work=Work(subject.work.leaves, half_step=False)), node, rules)

    with patch.object(judging, "_node", blind):
        yield


@contextlib.contextmanager
def ignores_joins() -> Iterator[None]:
    """What waits at a join, or for the end, is forgotten."""
    with patch.object(judging, "_may_wait", lambda *_: False):
        yield


@contextlib.contextmanager
def ignores_the_old_field() -> Iterator[None]:
    """Every thread counts as migrated."""
    with patch.object(fields, "_rename", lambda *_: Finding(Disposition.MIGRATED)):
        yield


@contextlib.contextmanager
def idle_is_settled() -> Iterator[None]:
    """An idle row has nothing pending, so nobody reads its state."""
    may_hold_work, judge_unread, read_with = conditions.may_hold_work, conditions.judge_unread, judging._read_with

    def only_others(row: Any, known: Any) -> bool:
        return row.status is not Status.IDLE and may_hold_work(row, known)

    def settled(row: Any, known: Any) -> Any:
        found = judge_unread(row, known)
        return found if row.status is not Status.IDLE else replace(found, condition=Condition.SETTLED, leaves=())

    def believed(subject: Any, node: str, rules: Any) -> bool:
        return subject.condition is Condition.SETTLED or bool(read_with(subject, node, rules))

    def need(look: Any) -> GreenNeed:
        return replace(needs.green_need(look), idle_heads=None, recheck=None, storage=None, stored_again=None)

    with (
        patch.object(conditions, "may_hold_work", only_others),
        patch.object(readings, "may_hold_work", only_others),
        patch.object(readings, "judge_unread", settled),
        patch.object(judging, "_read_with", believed),
        patch.object(service, "green_need", need),
    ):
        yield


@contextlib.contextmanager
def a_state_without_the_node_is_believed() -> Iterator[None]:
    """A state that was read under a graph without the node counts, and what was seen before is forgotten."""
    deployed_targets = rounds.deployed_targets

    def deployed(*arguments: Any) -> dict[Any, bool]:
        return dict.fromkeys(deployed_targets(*arguments), True)

    with (
        patch.object(judging, "_read_with", lambda *_: True),
        patch.object(rounds, "deployed_targets", deployed),
        patch.object(gathering, "deployed_targets", deployed),
        patch.object(readings, "judge_state", _as_the_state_says),
    ):
        yield


def _as_the_state_says(row: Any, state: Any, **more: Any) -> Any:
    found = conditions.judge_state(row, state, **more)
    if found.condition not in (Condition.STRANDED, Condition.LOST, Condition.UNPLACED):
        return found
    return replace(found, condition=Condition.PARKED if state.leaves else Condition.SETTLED, leaves=state.leaves)


ASKED: Mapping[str, Mutant] = {"half steps": ignores_half_steps, "joins": ignores_joins}
"""Rules that matter when a drain is asked: broken for one more question after each poll."""

LIVED: Mapping[str, Mutant] = {
    "idle": idle_is_settled,
    "no node": a_state_without_the_node_is_believed,
    "old field": ignores_the_old_field,
    **ASKED,
}
"""Rules that are broken for a whole session."""

_APPROVAL = {"nodes": ("await_approval",)}
_T = {"nodes": ("t",)}
_RENAME = {"fields": ("rename",)}
WHERE_IT_SHOWS: Mapping[str, Size] = {
    "idle": Size(
        histories=8,
        threads=0,
        steps=8,
        first=(
            ("support", _APPROVAL, "resume_rolled_back"),
            ("support", _APPROVAL, "parked_by_interrupt"),
            ("support", {"nodes": ("hold",)}, "put_back_by_update"),
            ("support", {"nodes": ("hold",)}, "finished"),
        )
        * 2,
    ),
    "no node": Size(
        histories=8,
        threads=0,
        steps=8,
        deploy={"support.py": AFTER, "nested.py": AFTER, "fan_out.py": AFTER, "scheduled.py": AFTER},
        first=(
            ("support", _APPROVAL, "parked_by_interrupt"),
            ("support", _APPROVAL, "breakpoint_before"),
            ("nested", {"nodes": ("desk/sub_wait",)}, "inner"),
            ("fan_out", {"nodes": ("review",)}, "fan_out"),
        )
        * 2,
    ),
    "old field": Size(histories=8, threads=2, steps=8, first=(("support", _RENAME, "bulk_finished"),) * 8),
    "half steps": Size(
        histories=8,
        threads=0,
        steps=8,
        first=(("half_step", _T, "half_step_waiting"), ("goto", _T, "goto_waiting")) * 4,
    ),
    "joins": Size(
        histories=8, threads=0, steps=8, first=(("join", _T, "join_waiting"), ("deferred", _T, "deferred_waiting")) * 4
    ),
}
"""Sessions of eight histories in which the broken rule is often the one that matters."""
