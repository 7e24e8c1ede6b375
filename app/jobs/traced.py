"""Questions about traces and thread index for pages and reports, each answered with one value."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import at
from app.facts.traces import run_name
from app.inventory import index, traces
from app.inventory.freshness import index_source, traces_source
from app.inventory.views import Coverage, Evidence, NodeActivity, NodeDay, NodeEntry, NodeTraces, SourceStatus
from app.settings import DeploymentSettings

DAYS = 30
ALIVE = timedelta(days=7)  # a project without a run for so long says nothing of a node
READ = timedelta(days=1)


async def other_sources(
    connection: AsyncConnection, deployment_id: int, settings: DeploymentSettings, *, now: datetime
) -> tuple[SourceStatus, SourceStatus]:
    """How fresh traces and thread index are."""
    covered = await traces.list_coverage(connection, deployment_id) if settings.langsmith is not None else {}
    known = await traces.find_source(connection, deployment_id) if settings.langsmith is not None else None
    until = min((found.covered_until for found in covered.values()), default=None)
    listed = await index.find_source(connection, deployment_id)
    return (
        traces_source(known, until, is_configured=settings.langsmith is not None, now=now),
        index_source(listed, is_configured=settings.thread_index is not None, now=now),
    )


async def list_nodes(
    connection: AsyncConnection,
    deployment_id: int,
    paths: Collection[str],
    *,
    is_sampled: bool,
    now: datetime,
) -> tuple[NodeTraces, ...]:
    """What the traces of the last 30 days say of these nodes, in their order; empty where no traces were ever read. No node is
    quiet where an entry may have left no trace: they are sampled, not read any more, or the project is silent."""
    source = await traces.find_source(connection, deployment_id)
    if source is None:
        return ()
    names = {path: run_name(path) for path in paths}
    covered = await traces.list_coverage(connection, deployment_id)
    last = await traces.list_last_entered(connection, deployment_id)
    activity = await traces.list_activity(connection, deployment_id, since=_first_day(now))
    is_telling = not is_sampled and any(each.entered and each.day >= now - ALIVE for each in activity)
    return tuple(
        _node(
            path,
            {each.day: each for each in activity if each.node == name},
            last.get(name),
            _watched_since(covered.get(name), source.project_began_at),
            now,
            is_telling=is_telling and name in covered and now - covered[name].covered_until < READ,
        )
        for path, name in names.items()
    )


def _first_day(now: datetime) -> datetime:
    return traces.midnight(now) - timedelta(days=DAYS - 1)


def _node(
    path: str,
    by_day: Mapping[datetime, NodeActivity],
    last: datetime | None,
    watched_since: datetime | None,
    now: datetime,
    *,
    is_telling: bool,
) -> NodeTraces:
    entered = sum(each.entered for each in by_day.values())
    days = [_first_day(now) + timedelta(days=number) for number in range(DAYS)]
    is_watched = watched_since is not None and now - watched_since >= timedelta(days=DAYS)
    return NodeTraces(
        node=path,
        last_entered=last or max((day for day, each in by_day.items() if each.entered), default=None),
        entered=entered,
        left=sum(each.finished for each in by_day.values()),
        errored=sum(each.errored for each in by_day.values()),
        joined=sum(each.joined for each in by_day.values()),
        days=tuple(_day(day, by_day.get(day)) for day in days),
        watched_since=watched_since,
        is_quiet=not entered and is_watched and is_telling,
    )


def _day(day: datetime, found: NodeActivity | None) -> NodeDay:
    return NodeDay(day) if found is None else NodeDay(day, found.entered, found.finished, found.errored)


async def list_entries(
    connection: AsyncConnection, deployment_id: int, paths: Collection[str], *, limit: int
) -> tuple[NodeEntry, ...]:
    """The newest runs of these nodes, with the way to their threads and traces."""
    source = await traces.find_source(connection, deployment_id)
    names = {run_name(path) for path in paths}
    if source is None or not names:
        return ()
    rows = await traces.list_newest_entries(connection, deployment_id, names, limit=limit)
    return tuple(
        NodeEntry(row.node, row.started_at, row.end, row.thread_id, _trace_url(source, row.trace_id)) for row in rows
    )


def _trace_url(source: Any, trace_id: str | None) -> str | None:
    return f"{source.project_url}/r/{trace_id}" if source.project_url and trace_id else None


def _watched_since(covered: Coverage | None, began_at: datetime | None) -> datetime | None:
    """Since when every run was read; a project cannot have runs from before it began."""
    if covered is None:
        return None
    return covered.covered_from if began_at is None else max(covered.covered_from, began_at)


async def with_traces(
    connection: AsyncConnection, deployment_id: int, settings: DeploymentSettings, report: Evidence
) -> Evidence:
    """A thread's report with what the traces and the application's list say of it. None: they cannot tell."""
    return replace(
        report,
        traces=await _traces(connection, deployment_id, settings, report.thread_id),
        index=await _index(connection, deployment_id, report.thread_id),
    )


async def _traces(
    connection: AsyncConnection, deployment_id: int, settings: DeploymentSettings, thread_id: str
) -> Mapping[str, str | None] | None:
    known = await traces.find_source(connection, deployment_id)
    covered = await traces.list_coverage(connection, deployment_id)
    if known is None or settings.langsmith is None or not covered:
        return None
    visits = await traces.list_visits(connection, deployment_id, thread_id, limit=1)
    newest = visits[0] if visits else None
    url = _trace_url(known, newest.trace_id) if newest else None
    return {
        "window": at(max(found.covered_from for found in covered.values())),
        "last_entered": at(newest.at) if newest else None,
        "node": newest.node if newest else None,
        "trace": url,
    }


async def _index(connection: AsyncConnection, deployment_id: int, thread_id: str) -> Mapping[str, bool] | None:
    if await index.find_source(connection, deployment_id) is None:
        return None
    entry = await index.find_entry(connection, deployment_id, thread_id)
    return {"listed": entry is not None, "closed": entry is not None and entry.closed_at is not None}
