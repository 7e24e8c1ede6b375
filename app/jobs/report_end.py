"""The end of a reporter's pass, in the transaction that ends it: alarms, the outcome, and what it means for the drains."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import and_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.rounds import Round
from app.drains.service import Drains
from app.facts.types import Condition
from app.inventory import deploys, reads, register, reporters, tables, writes
from app.inventory.encode import is_dealt_with
from app.inventory.reporters import ReportedPass
from app.inventory.store import Store
from app.jobs.polling.ending import ALARM_CONDITIONS
from app.jobs.polling.reconciling import ALL_SHARE, LEAST_ALL, LEAST_MASS, MASS_SHARE
from app.logs import get_logger

Alarms = dict[str, tuple[str, int | None]]
log = get_logger("report")


async def end_pass(
    store: Store,
    drains: Drains,
    connection: AsyncConnection,
    deployment: str,
    found: ReportedPass,
    *,
    reasons: Sequence[tuple[str, str]],
    seen: int,
    now: datetime,
) -> None:
    """Write how a pass ended, and move the drains on."""
    row = await reads.find_deployment(connection, deployment)
    if row is None:
        return
    is_complete = not reasons
    alarms = await _alarms(store, connection, row.id, found)
    clear: list[str] = []
    if is_complete:
        clear = [*(one.value for one in ALARM_CONDITIONS), "removed_while_waiting"]
        await reporters.drop_unlisted(connection, row.id, found)
        await writes.sweep_done(connection, row.id, started_at=found.began_at)
        await writes.update_deployment(connection, row.id, watermark=found.watermark)
    await drains.announcer.alarms(connection, row.id, deployment, alarms, now)
    await writes.keep_alarms(connection, row.id, alarms, clear=clear, now=now)
    await writes.update_poll(
        connection,
        found.poll_id,
        state="complete" if is_complete else "incomplete",
        finished_at=now,
        threads_seen=seen,
        threads_expected=seen if is_complete else None,
        reasons=[list(reason) for reason in reasons],
    )
    await reporters.keep_pass(connection, row.id, replace(found, ended_at=now, told_at=now))
    round_ = Round(found.poll_id, is_sweep=True, is_complete=is_complete, as_of=found.began_at, watermark=row.watermark)
    await drains.after_poll(connection, row.id, round_, now)
    codes = sorted(code for code, _ in reasons)
    log.info("report.ended", deployment=deployment, poll=found.poll_id, seen=seen, reasons=codes)


async def _alarms(store: Store, connection: AsyncConnection, deployment_id: int, found: ReportedPass) -> Alarms:
    alarms: Alarms = {}
    counts = await reads.count_by(connection, deployment_id, "condition")
    counts[Condition.STRANDED.value] = counts.get(Condition.STRANDED.value, 0) - await _count_dealt_with(
        store, connection, deployment_id
    )
    for condition, sentence in ALARM_CONDITIONS.items():
        if (count := counts.get(condition.value, 0)) > 0:
            n = f"{count:,} thread is" if count == 1 and "{n} stranded" in sentence else _threads(count)
            alarms[condition.value] = (sentence.format(n=n), count)
    alarms |= await _disappearance(connection, deployment_id, found)
    unfinished = await deploys.find_unfinished(connection, deployment_id)
    if unfinished is not None:
        nodes = ", ".join(f"`{node}`" for node in unfinished.nodes[:5])
        sentence = (
            f"The deploy of {unfinished.noticed_at:%-d %b, %H:%M} UTC removed {nodes} from {unfinished.graph}, where "
            f"{_threads(unfinished.threads)} waited. Put back what it removed, or take over by hand what waited."
        )
        alarms["removed_while_waiting"] = (sentence[:500], unfinished.threads)
    return alarms


async def _disappearance(connection: AsyncConnection, deployment_id: int, found: ReportedPass) -> Alarms:
    """Many threads without a checkpoint at once: another store, or a wiped one."""
    swept = await reads.find_latest_poll(connection, deployment_id, kinds=("sweep",), states=("complete",))
    if swept is None or swept.id >= found.poll_id:
        return {}
    explained = await register.explained_disappearance(connection, deployment_id, found.told_at)
    gone = await reads.count_threads(connection, deployment_id, reads.vanished_since(swept, explained))
    left = await reads.count_threads(connection, deployment_id, and_(reads.was_not_settled(), ~reads.was_never_told()))
    many = gone > max(LEAST_MASS, MASS_SHARE * (gone + left))
    nearly_all = gone >= LEAST_ALL and gone >= ALL_SHARE * (gone + left)
    if not many and not nearly_all:
        return {}
    sentence = (
        f"{gone} of {gone + left} threads that were not settled vanished between two passes of the reporter. Does it still "
        "read the same store?"
    )
    return {"mass_disappearance": (sentence, gone)}


async def _count_dealt_with(store: Store, connection: AsyncConnection, deployment_id: int) -> int:
    """Stranded threads of which somebody has acknowledged everything that the deployed graph does not schedule."""
    dictionaries = store.dictionaries(deployment_id)
    await dictionaries.load(connection)
    works = [one for one, work in dictionaries.works.items() if is_dealt_with(work)]
    if not works:
        return 0
    thread = tables.thread
    where = and_(thread.c.condition == Condition.STRANDED.value, thread.c.work_id.in_(works))
    return await reads.count_threads(connection, deployment_id, where)


def _threads(count: int) -> str:
    return f"{count:,} thread" if count == 1 else f"{count:,} threads"
