"""Gathers what traces and thread index say of one drain. Reads only; what it means is decided in ``traces`` and ``index``."""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.index import IndexEvidence
from app.drains.spec import DrainSpec
from app.drains.traces import SLACK, Reading, TraceEvidence, sort_entries
from app.facts.traces import run_name
from app.inventory import index, traces
from app.inventory.freshness import index_source
from app.settings import DeploymentSettings, LangSmithSettings, ThreadIndexSettings

MAX_ENTRIES = 20_000


async def gather_traces(
    connection: AsyncConnection,
    deployment_id: int,
    spec: DrainSpec,
    settings: DeploymentSettings,
    *,
    population: ColumnElement[bool],
    looked_at: datetime | None,
    max_age: timedelta,
    now: datetime,
) -> TraceEvidence | None:
    """The traces' evidence; None where no traces are configured. ``looked_at``: when the threads were last seen whole."""
    if settings.langsmith is None:
        return None
    window = spec.policy.trace_window
    created_at, moved_at = await traces.find_movement(connection, deployment_id, population)
    starts_at = now - window if created_at is None else max(now - window, created_at - SLACK)
    reading = await _reading(connection, deployment_id, spec, settings.langsmith)
    targets = {run_name(node) for node in spec.nodes}
    runs = await traces.list_entries(
        connection, deployment_id, spec.graph, targets, since=now - window, limit=MAX_ENTRIES
    )
    threads = {run.thread_id for run in runs if run.thread_id is not None}
    stays = await traces.list_stays(connection, deployment_id, threads, spec.nodes)
    return TraceEvidence(
        nodes=spec.nodes,
        window=window,
        starts_at=starts_at,
        max_age=max_age,
        reading=reading,
        entries=sort_entries(runs, stays, spec.nodes, judged_until=looked_at),
        liveness=await traces.find_liveness(connection, deployment_id, spec.graph, but=targets, since=now - window),
        moved_at=moved_at,
        is_cut=len(runs) >= MAX_ENTRIES,
    )


async def _reading(
    connection: AsyncConnection, deployment_id: int, spec: DrainSpec, settings: LangSmithSettings
) -> Reading:
    source = await traces.find_source(connection, deployment_id)
    covered = await traces.list_coverage(connection, deployment_id)
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
    )
    if not is_read or not known:
        return reading
    return replace(
        reading,
        covered_from=max(each.covered_from for each in known),
        covered_until=min(each.covered_until for each in known),
    )


async def count_untraced(
    connection: AsyncConnection,
    deployment_id: int,
    threads: dict[str, datetime],
) -> int:
    """Of these threads (id, last movement): those whose traces do not reach their last movement, so that an entry may have
    left none."""
    newest = await traces.list_newest_run(connection, deployment_id, threads)
    return sum(1 for thread_id, moved in threads.items() if not _is_traced(newest.get(thread_id), moved))


def _is_traced(newest: datetime | None, moved: datetime) -> bool:
    return newest is not None and newest >= moved - SLACK


async def gather_index(
    connection: AsyncConnection, deployment_id: int, spec: DrainSpec, settings: DeploymentSettings, *, now: datetime
) -> IndexEvidence | None:
    """The thread index's evidence; None where there is none: neither configured nor ever pushed."""
    source = await index.find_source(connection, deployment_id)
    if source is None and settings.thread_index is None:
        return None
    expired_before = now - (settings.thread_index or ThreadIndexSettings()).expires_after
    mine = index.of_population(spec.graph, spec.created_before)
    return IndexEvidence(
        source=index_source(source, is_configured=True, now=now),
        comparison=await index.compare(connection, deployment_id, mine, expired_before=expired_before),
        max_age=spec.policy.sweep_max_age,
    )
