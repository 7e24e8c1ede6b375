"""What the end of a poll means for a drain: its soak moves on, arrivals are kept, its answer is stored."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import is_too_old
from app.drains.answers import Answer, Verdict
from app.drains.deployed import deployed_targets, removed_targets, touched_at
from app.drains.dispositions import Disposition
from app.drains.gathering import gather_evidence
from app.drains.intake import list_arrivals
from app.drains.jsonable import to_jsonable
from app.drains.judging import judge
from app.drains.looking import Look, soak_of
from app.drains.verdicts import SoakState, advance, after_a_hit, decide
from app.inventory import erasing, reads, subjects, tables, writes

STORE_AT_LEAST_EVERY = timedelta(hours=1)
NEEDS = "node_needs"  # in a stored answer: how many threads needed a node target


@dataclass(frozen=True, slots=True)
class Round:
    """The poll that just ended, as a drain sees it. ``as_of``: when it began. ``watermark``: the newest change, in the
    server's time, that the complete poll before it had seen."""

    poll_id: int
    is_sweep: bool
    is_complete: bool
    as_of: datetime
    watermark: datetime | None


async def end_round(connection: AsyncConnection, look: Look, round_: Round) -> Answer:
    """Move a drain on and store its answer, in the transaction that ends the poll."""
    last = await _last_evaluation(connection, look)
    arrivals = await writes.keep_arrivals(connection, await list_arrivals(connection, look))
    evidence = await gather_evidence(connection, look)
    is_entered = evidence.traces is not None and evidence.traces.entries.unexplained > 0
    after = _advance(look, round_, blocked=look.is_blocked or is_entered, arrivals=arrivals > 0)
    if await _fell_at_deploy(connection, look, last):
        after = replace(after, fell_at=look.now, holds_since=None, sweeps=0)
    was_drained = await _was_drained(connection, look, round_, last)
    stored = soak_of(look.row).removed  # one that is void now counts again once its thread is gone or waived anew
    removed = removed_targets(look.spec, look.revisions, stored, was_drained=was_drained, now=look.now)
    counts = {key: when for key, when in removed.items() if key not in look.void}
    answer = decide(replace(evidence, soak=replace(after, removed=counts)), look.now)
    after = replace(after, removed=removed)
    if answer.verdict is Verdict.DRAINED and after.drained_at is None:
        after = replace(after, drained_at=look.now)
    await _remember(connection, look, after)
    await _store_answer(connection, look, answer, last, round_.poll_id)
    return answer


def _advance(look: Look, round_: Round, *, blocked: bool, arrivals: bool) -> SoakState:
    before = look.soak
    if (
        before.holds_since is not None and before.holds_since > look.now
    ):  # a clock was put back: nobody waits until then
        before = replace(before, holds_since=None, sweeps=0)
    if not round_.is_complete:
        hit = blocked or arrivals
        return after_a_hit(before, arrivals=arrivals, as_of=round_.as_of) if hit else before
    return advance(
        before,
        blocked=blocked,
        arrivals=arrivals,
        # The graphs that the first poll of all finds were noticed a moment after it began.
        touched_at=touched_at(look.spec, look.revisions, since=before.holds_since or round_.as_of),
        is_sweep=round_.is_sweep,
        as_of=round_.as_of,
        policy_soak=(look.spec.policy.soak_sweeps, look.spec.policy.soak_hold),
    )


async def _last_evaluation(connection: AsyncConnection, look: Look) -> Any | None:
    """The newest stored answer to the criteria of today, or None."""
    found = await reads.list_evaluations(connection, look.row.id, limit=1)
    return found[0] if found and found[0].criteria_version == look.row.criteria_version else None


# -- falls at a deploy ---------------------------------------------------------------------------------------------


async def _fell_at_deploy(connection: AsyncConnection, look: Look, last: Any | None) -> bool:
    """Whether fewer threads need a node target than when it was last looked at, while a deploy touched the target or it
    was not deployed, and more of them than are known to have left it: the rest may have been lost, not finished."""
    if not look.spec.nodes or last is None:
        return False
    fewer = _needed_then(last.answer) - _node_needs(look)
    if fewer <= 0:
        return False
    is_touched = touched_at(look.spec, look.revisions, since=last.evaluated_at) is not None
    deployed = deployed_targets(look.spec, look.revisions)
    if not is_touched and all(deployed[target.key] for target in look.spec.targets if target.kind == "node"):
        return False
    known = await subjects.count_departed(connection, look.deployment_id, look.spec.nodes, since=last.evaluated_at)
    return fewer > known


_NODE_NEEDS = frozenset(
    {
        Disposition.STRANDED,
        Disposition.LOST,
        Disposition.PARKED_AT_TARGET,
        Disposition.FAILED_AT_TARGET,
        Disposition.RUNNING_AT_TARGET,
        Disposition.SCHEDULED_AT_TARGET,
        Disposition.MAY_HOLD_TARGET,
        Disposition.ACKNOWLEDGED,
    }
)


def _needed_then(answer: Mapping[str, Any]) -> int:
    """The same of a stored answer; one of an earlier version has the dispositions alone."""
    told: int = answer.get(NEEDS) or sum(answer["dispositions"].get(found.value, 0) for found in _NODE_NEEDS)
    return told


def _node_needs(look: Look) -> int:
    """Threads that need, or may need, a node target, whatever people say of them."""
    nodes = [target for target in look.spec.targets if target.kind == "node"]
    count = 0
    for found in look.counts:
        standing = judge(replace(look.subject(found.key), is_waived=False), nodes, look.rules)
        count += found.count if standing.overall.disposition in _NODE_NEEDS else 0
    return count


# -- removals ------------------------------------------------------------------------------------------------------


async def _was_drained(connection: AsyncConnection, look: Look, round_: Round, last: Any | None) -> bool:
    """Whether the drain was drained until the target went: by its last answer, on evidence still fresh, and with no
    thread that moved since, which may have entered before it went."""
    if last is None or last.verdict != Verdict.DRAINED.value or round_.watermark is None:
        return False
    if (last.poll_id or 0) <= await erasing.find_erased_poll(connection, look.deployment_id):
        return False  # that answer may have counted on what people said of a thread that is forgotten now
    seen = await reads.find_complete_before(connection, look.deployment_id, round_.poll_id)
    if seen is None or is_too_old(seen.started_at, look.spec.policy.max_age, look.now):
        return False
    moved = and_(look.population, reads.is_alive(), tables.thread.c.updated_at > round_.watermark)
    return await reads.count_threads(connection, look.deployment_id, moved) == 0


# -- storing -------------------------------------------------------------------------------------------------------


async def _remember(connection: AsyncConnection, look: Look, after: SoakState) -> None:
    await writes.update_drain(
        connection,
        look.row.id,
        holds_since=after.holds_since,
        sweeps=after.sweeps,
        regressed_since=after.regressed_since,
        drained_at=after.drained_at,
        removed={key: when.isoformat() for key, when in after.removed.items()},
        fell_at=after.fell_at or look.row.fell_at,  # an acknowledgement of it may end, or be taken back
        leaking_since=after.leaking_since,
    )


async def _store_answer(
    connection: AsyncConnection, look: Look, answer: Answer, last: Any | None, poll_id: int
) -> None:
    content = to_jsonable(answer) | {NEEDS: _node_needs(look) if look.spec.nodes else 0}
    is_fresh = last is not None and answer.evaluated_at - last.evaluated_at < STORE_AT_LEAST_EVERY
    if last is not None and is_fresh and _essence(last.answer) == _essence(content):
        return
    await writes.add_evaluation(
        connection,
        {
            "deployment_id": look.deployment_id,
            "drain_id": look.row.id,
            "poll_id": poll_id,
            "evaluated_at": answer.evaluated_at,
            "criteria_version": look.row.criteria_version,
            "verdict": answer.verdict.value,
            "answer": content,
        },
    )


def _essence(answer: Mapping[str, Any]) -> str:
    """What of an answer makes it worth storing again."""
    reasons = [(reason["code"], reason["count"]) for reason in answer["reasons"]]
    parts = [answer["verdict"], reasons, answer["dispositions"], answer["criteria_version"], answer.get(NEEDS)]
    return json.dumps(parts, sort_keys=True)
