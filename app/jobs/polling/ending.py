"""The end of a poll, in one transaction: alarms, the outcome, and what it means for the drains."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import and_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import utc_now
from app.drains.rounds import Round
from app.errors import SourceError, StoreError
from app.facts.capabilities import SHOWN
from app.facts.types import Condition
from app.inventory import reads, tables, writes
from app.inventory.encode import is_dealt_with
from app.inventory.views import PollSummary
from app.jobs.polling.work import Work, log, threads
from app.sources.agent_server.client import STOPPED

ALARM_CONDITIONS = {
    Condition.STRANDED: "{n} stranded: the deployed graph does not schedule the node where work waits. An answer given now is "
    "lost.",
    Condition.LOST: "{n} lost: a run went past the node where work waited without doing it.",
    Condition.UNREADABLE: "{n} cannot be read under the deployed graph's own schema.",
    Condition.GRAPH_MISSING: "{n} of a graph that is not deployed.",
    Condition.UNPLACED: "{n} not finished, and no node can be named.",
}
SWEEP_ALARMS = ("canary_missing", "graph_unreadable", "count_differs", "removed_while_waiting", "deploy_broke")

Failure = SourceError | StoreError | None


async def finish(work: Work, failure: Failure, *, requests: int) -> PollSummary:
    """Write how the poll ended, and move the drains on."""
    poll, now = work.poll, utc_now()
    is_complete = not poll.reasons
    state = "complete" if is_complete else "incomplete" if poll.asked else "failed"
    async with work.writing() as connection:
        if not poll.revision_held:
            await writes.distrust_readings(connection, poll.deployment_id, since=poll.unsure_since)
        await _raise_alarms(connection, work, now)
        await _keep_deployment(connection, work, failure, now)
        await writes.update_poll(
            connection,
            poll.id,
            state=state,
            finished_at=now,
            requests=requests,
            threads_seen=poll.seen,
            threads_expected=poll.expected,
            reasons=_reasons(work, failure),
        )
        round_ = Round(
            poll.id,
            is_sweep=poll.kind == "sweep",
            is_complete=is_complete,
            as_of=poll.started_at,
            watermark=poll.began_from,
        )
        await work.drains.after_poll(connection, poll.deployment_id, round_, now)
    log.info(
        "poll.finished",
        deployment=work.settings.name,
        poll=poll.id,
        kind=poll.kind,
        state=state,
        seen=poll.seen,
        requests=requests,
        reasons=sorted(poll.reasons),
    )
    async with work.reading() as connection:
        found = await reads.find_poll(connection, poll.deployment_id, poll.id)
    if found is None:
        raise StoreError("The poll that just ran is not in the database. Was it replaced meanwhile?")
    return found


def _reasons(work: Work, failure: Failure) -> list[list[str]]:
    """Why the poll is not complete: codes with sentences, a failure in its own words."""
    own_words = ("throttled", "source_failed", "database")
    return [
        [code, failure.message if failure and code in own_words else sentence]
        for code, sentence in work.poll.reasons.items()
    ]


async def _keep_deployment(connection: AsyncConnection, work: Work, failure: Failure, now: datetime) -> None:
    """What the poll learnt of its deployment."""
    poll = work.poll
    changes = await _health(connection, work, failure, now)
    if poll.asked:
        changes |= {"assistants": poll.assistants}
    if not poll.reasons:
        changes |= {"watermark": poll.watermark}
        if poll.kind == "sweep":
            changes |= {"capabilities": _capabilities(work)}
            changes |= {"sweep_mark": None}
            await writes.sweep_done(connection, poll.deployment_id, started_at=poll.started_at)
    if "deployed_meanwhile" in poll.reasons:
        changes |= {"sweep_wanted_at": now}
    await writes.update_deployment(connection, poll.deployment_id, **changes)


async def _health(connection: AsyncConnection, work: Work, failure: Failure, now: datetime) -> dict[str, object]:
    """Since when the server cannot be asked, and why."""
    if failure is None:
        return {"failing_since": None, "failing_sentence": None}
    if not isinstance(failure, SourceError) or failure.code == STOPPED:
        return {}
    row = await reads.find_deployment(connection, work.settings.name)
    since = (row.failing_since if row else None) or now
    return {"failing_since": since, "failing_sentence": failure.message[:500]}


def _capabilities(work: Work) -> dict[str, bool | str | None]:
    server = work.server
    asked = {"storage": server.has_storage, "count": server.has_count}
    return work.poll.capabilities | dict.fromkeys(SHOWN) | server.observed.found | asked


async def _raise_alarms(connection: AsyncConnection, work: Work, now: datetime) -> None:
    poll = work.poll
    counts = await reads.count_by(connection, poll.deployment_id, "condition")
    dealt_with = await _count_dealt_with(connection, work)
    found = dict(poll.alarms)
    for condition, sentence in ALARM_CONDITIONS.items():
        if count := counts.get(condition.value, 0) - dealt_with.get(condition.value, 0):
            n = f"{count:,} thread is" if count == 1 and "{n} stranded" in sentence else threads(count)
            found[condition.value] = (sentence.format(n=n), count)
    clear: Iterable[str] = ()
    if not poll.reasons:
        clear = [condition.value for condition in ALARM_CONDITIONS]
        clear += SWEEP_ALARMS if poll.kind == "sweep" else ()
    await work.drains.announcer.alarms(connection, poll.deployment_id, work.settings.name, found, now)
    await writes.keep_alarms(connection, poll.deployment_id, found, clear=list(clear), now=now)


async def _count_dealt_with(connection: AsyncConnection, work: Work) -> dict[str, int]:
    """Stranded threads of which somebody has acknowledged everything that the deployed graph does not schedule."""
    dictionaries = work.dictionaries
    await dictionaries.load(connection)
    works = [one for one, entry in dictionaries.works.items() if is_dealt_with(entry)]
    stranded = tables.thread.c.condition == Condition.STRANDED.value
    where = and_(stranded, tables.thread.c.work_id.in_(works))
    return {Condition.STRANDED.value: await reads.count_threads(connection, work.deployment_id, where) if works else 0}
