"""The lines of a reporter: parsed, judged as a poll judges, and written in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.types import StateFailure, ThreadFacts
from app.inventory import index, reads, register, reporters, writes
from app.inventory.current import current_of
from app.inventory.reporters import ReportedPass
from app.inventory.revisions import list_drawings
from app.inventory.tables import NEVER
from app.jobs.lines import told_of
from app.jobs.pushed import HistoryWanted, Told, Under, judge_told
from app.jobs.report_begin import Work
from app.jobs.told import LineProblem


async def take_threads(work: Work, found: ReportedPass, lines: Sequence[Mapping[str, Any]]) -> None:
    """Take the lines of a message; its answer says which were not taken, and which are wanted again with a history."""
    told, problems = await _parsed(work, found, lines)
    dictionaries = work.store.dictionaries(work.deployment_id)
    async with work.store.database.read() as connection:
        known = await reads.known_threads(connection, dictionaries, list(told))
        entries = await reporters.find_entries(connection, work.deployment_id, list(told))
        under = await _under(connection, work, found)
    expired_before = work.expired_before
    threads, again, expired = [], [], []
    for thread_id, one in told.items():
        before = known.get(thread_id)
        if _has_expired(one, before, entries.get(thread_id), expired_before):
            expired.append(thread_id)
            continue
        try:
            threads.append(await judge_told(one, before, under, work.now))
        except HistoryWanted:
            again.append(thread_id)
    async with work.store.database.write() as connection:
        await register.lock_places(connection, deployments=[work.settings.name])
        await writes.upsert_threads(connection, dictionaries, threads, poll_id=found.poll_id)
        await reporters.drop_expired(connection, work.deployment_id, expired)
        missing = [one for one in told if told[one].state is StateFailure.THREAD_MISSING and one in entries]
        await index.set_found(connection, work.deployment_id, dict.fromkeys(missing, index.MISSING), now=work.now)
        await _progress(connection, work, found)
    taken = len(threads) + len(expired)
    work.answer = replace(work.answer, taken=taken, problems=tuple(problems), again=tuple(again))


async def _parsed(
    work: Work, found: ReportedPass, lines: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Told], list[LineProblem]]:
    """What the lines say, by thread; a bad line does not keep the others out."""
    settings = work.settings
    async with work.store.database.read() as connection:
        names = await work.store.names(connection, work.deployment_id, settings)
    told: dict[str, Told] = {}
    problems = []
    for number, line in enumerate(lines, 1):
        try:
            one = told_of(orjson.dumps(line), names, settings.all_version_keys, settings.metadata_keys, found.graph_id)
            told[one.thread_id] = one
        except (ValueError, TypeError) as error:
            sentence = str(error) if isinstance(error, ValueError) else "it is no thread"
            problems.append(LineProblem(number, sentence))
    return told, problems


async def _under(connection: AsyncConnection, work: Work, found: ReportedPass) -> Under:
    revisions = await reads.list_revisions(connection, work.deployment_id)
    drains = await reads.list_drains(connection)
    candidates = {node for revision in revisions for node in revision.nodes}
    for row in drains:
        if row.deployment_id == work.deployment_id:
            candidates |= {target["name"] for target in row.spec["targets"] if target["kind"] == "node"}
    return Under(
        graph_id=found.graph_id,
        revisions={revision.id: revision for revision in revisions},
        current=current_of(revisions, await list_drawings(connection, work.deployment_id)),
        candidates=candidates,
        stuck_after=work.settings.stuck_after,
    )


async def _progress(connection: AsyncConnection, work: Work, found: ReportedPass) -> None:
    seen = await reads.count_threads(connection, work.deployment_id, reporters.is_told_in(found))
    await writes.update_poll(connection, found.poll_id, threads_seen=seen, states_read=seen, states_wanted=seen)


def _has_expired(told: Told, known: ThreadFacts | None, entry: Any | None, expired_before: datetime) -> bool:
    """Whether a listed id of which nothing is stored, and never was as far as anybody knows, is too old to look for."""
    if told.state is not StateFailure.THREAD_MISSING or entry is None or entry.created_at is None:
        return False
    return (known is None or known.row.updated_at == NEVER) and entry.created_at < expired_before
