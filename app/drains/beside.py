"""Gathers what traces and thread index say of one drain. Reads only; what it means is decided in ``traces`` and ``index``."""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import and_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.entered import entered, shown_not_entered
from app.drains.index import IndexEvidence
from app.drains.looking import Look
from app.drains.spec import DrainSpec
from app.drains.traces import SLACK, Reading, TraceEvidence, sort_entries
from app.facts.traces import run_name
from app.inventory import index, reads, subjects, tables, traces
from app.inventory.freshness import index_source
from app.settings import LangSmithSettings, ThreadIndexSettings

MAX_ENTRIES = 20_000


async def gather_traces(
    connection: AsyncConnection, look: Look, *, looked_at: datetime | None, max_age: timedelta | None
) -> TraceEvidence | None:
    """The traces' evidence; None where no traces are configured. ``looked_at``: when the threads were last seen whole."""
    if look.deployment.langsmith is None:
        return None
    spec, deployment_id, now = look.spec, look.deployment_id, look.now
    window = spec.policy.trace_window
    created_at, moved_at = await traces.find_movement(connection, deployment_id, look.population)
    starts_at = now - window if created_at is None else max(now - window, created_at)
    reading = await _reading(connection, deployment_id, spec, look.deployment.langsmith)
    targets = {run_name(node): _elsewhere(look, run_name(node)) for node in spec.nodes}
    runs = await traces.list_entries(
        connection, deployment_id, spec.graph, targets, since=now - window, limit=MAX_ENTRIES
    )
    threads = {run.thread_id for run in runs if run.thread_id is not None}
    stays = await traces.list_stays(connection, deployment_id, threads, spec.nodes)
    return TraceEvidence(
        nodes=spec.nodes,
        window=window,
        starts_at=starts_at,
        max_age=spec.policy.max_age if max_age is None else min(spec.policy.max_age, max_age),
        reading=reading,
        entries=sort_entries(runs, stays, spec.nodes, judged_until=looked_at),
        liveness=await traces.find_liveness(connection, deployment_id, spec.graph, but=targets, since=now - window),
        moved_at=moved_at,
        is_cut=len(runs) >= MAX_ENTRIES,
        looked_since=min((found.first_seen_at for found in look.revisions if found.graph == spec.graph), default=None),
    )


def _elsewhere(look: Look, name: str) -> frozenset[str]:
    """Other graphs that ever had a node whose runs have this name."""
    others = (found for found in look.revisions if found.graph != look.spec.graph)
    return frozenset(found.graph for found in others if any(run_name(node) == name for node in found.nodes))


async def _reading(
    connection: AsyncConnection, deployment_id: int, spec: DrainSpec, settings: LangSmithSettings
) -> Reading:
    source = await traces.find_source(connection, deployment_id)
    covered = await traces.list_coverage(connection, deployment_id)
    under_way = await traces.list_under_way(connection, deployment_id)
    found = [covered.get(run_name(node)) for node in spec.nodes]
    known = [each for each in found if each is not None and each.exact]
    is_read = len(known) == len(found) and source is not None and source.project == settings.project
    reading = Reading(
        status=source.status if source else None,
        code=source.code if source else None,
        sentence=source.sentence if source else None,
        since=source.failing_since if source else None,
        covered_from=None,
        covered_until=None,
        sampling_rate=settings.sampling_rate,
        retention=settings.retention,
        project_began_at=source.project_began_at if source else None,
        is_under_way=any(run_name(node) in under_way for node in spec.nodes),
    )
    if not is_read or not known:
        return reading
    return replace(
        reading,
        covered_from=max(each.covered_from for each in known),
        covered_until=min(each.covered_until for each in known),
    )


async def count_untraced(connection: AsyncConnection, look: Look, closed_at: datetime) -> int:
    """Of the threads created after intake closed of which storage shows nothing: those whose traces do not reach their last
    movement. Of the others the traces show whether they entered."""
    since_then = and_(look.population, tables.thread.c.created_at > closed_at)
    count = 0
    for found in await subjects.count_subjects(connection, look.deployment_id, since_then, lens=look.lens):
        subject = look.subject(found.key)
        if shown_not_entered(subject, look.spec.nodes) or any(entered(subject, node) for node in look.spec.nodes):
            continue
        where, cursor = and_(since_then, subjects.looks_like([found.key], lens=look.lens)), None
        while True:
            rows, cursor = await subjects.list_subject_threads(
                connection, look.deployment_id, where, lens=look.lens, cursor=cursor, limit=reads.MAX_LIMIT
            )
            moved = {row.thread_id: row.since for row in rows}
            newest = await traces.list_newest_run(connection, look.deployment_id, moved)
            count += sum(not _is_traced(newest.get(thread_id), when) for thread_id, when in moved.items())
            if cursor is None:
                break
    return count


def _is_traced(newest: datetime | None, moved: datetime) -> bool:
    return newest is not None and newest >= moved - SLACK


async def gather_index(connection: AsyncConnection, look: Look) -> IndexEvidence | None:
    """The thread index's evidence; None where there is none: neither configured nor ever pushed."""
    settings = look.deployment.thread_index
    source = await index.find_source(connection, look.deployment_id)
    if source is None and settings is None:
        return None
    expired_before = look.now - (settings or ThreadIndexSettings()).expires_after
    mine = (look.spec.graph, look.spec.created_before)
    return IndexEvidence(
        source=index_source(source, is_configured=True, now=look.now),
        comparison=await look.comparisons.of(connection, mine, expired_before=expired_before, now=look.now),
        max_age=look.spec.policy.sweep_max_age,
    )
