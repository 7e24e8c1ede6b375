"""Questions about traces and thread index for pages and reports, each answered with one value."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import at
from app.facts.traces import run_name
from app.inventory import index, traces
from app.inventory.freshness import index_source, traces_source
from app.inventory.views import Coverage, Evidence, NodeTraces, SourceStatus
from app.settings import DeploymentSettings

DAYS = 30


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
    connection: AsyncConnection, deployment_id: int, paths: Collection[str], *, now: datetime
) -> tuple[NodeTraces, ...]:
    """What the traces of the last 30 days say of these nodes, in their order; empty where no traces were ever read."""
    source = await traces.find_source(connection, deployment_id)
    if source is None:
        return ()
    names = {path: run_name(path) for path in paths}
    covered = await traces.list_coverage(connection, deployment_id)
    last = await traces.list_last_entered(connection, deployment_id)
    start = traces.midnight(now) - timedelta(days=DAYS - 1)
    activity = await traces.list_activity(connection, deployment_id, since=start, nodes=set(names.values()))
    found = []
    for path, name in names.items():
        mine = {each.day: each for each in activity if each.node == name}
        days = [start + timedelta(days=number) for number in range(DAYS)]
        entered_on = [day for day, each in mine.items() if each.entered]
        found.append(
            NodeTraces(
                node=path,
                last_entered=last.get(name) or max(entered_on, default=None),
                entered=sum(each.entered for each in mine.values()),
                joined=sum(each.joined for each in mine.values()),
                errored=sum(each.errored for each in mine.values()),
                days=tuple(mine[day].entered if day in mine else 0 for day in days),
                watched_since=_watched_since(covered.get(name), source.project_began_at),
            )
        )
    return tuple(found)


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
    url = f"{known.project_url}/r/{newest.trace_id}" if newest and newest.trace_id and known.project_url else None
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
