"""Whether threads entered a target since intake closed: what shows it, and what shows that they did not."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, and_, false, or_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.entered import entered, shown_not_entered
from app.drains.looking import Look
from app.facts.traces import run_name
from app.inventory import reads, subjects, tables, traces
from app.inventory.encode import Json


async def count_intake(connection: AsyncConnection, look: Look) -> tuple[int, int]:
    """Of the threads created after intake closed: those that entered and are not recorded yet (a poll is running), and
    those of which nothing shows whether they did."""
    if look.closed_at is None or not look.spec.nodes:
        return 0, 0
    since_then = and_(look.population, tables.thread.c.created_at > look.closed_at)
    came_in, unseen = [], 0
    for found in await subjects.count_subjects(connection, look.deployment_id, since_then, lens=look.lens):
        subject = look.subject(found.key)
        if any(entered(subject, node) for node in look.spec.nodes):
            came_in.append(found.key)
        elif not shown_not_entered(subject, look.spec.nodes):
            unseen += found.count
    came = [_was_traced(look, look.spec.nodes)]
    if came_in:
        came.append(subjects.looks_like(came_in, lens=look.lens))
    fresh = and_(since_then, or_(*came), reads.has_not_arrived(look.row.id))
    return await reads.count_threads(connection, look.deployment_id, fresh), unseen


def _was_traced(look: Look, nodes: Collection[str]) -> ColumnElement[bool]:
    """Threads that entered by their traces, where there are any: also those that passed through between two polls."""
    if look.deployment.langsmith is None:
        return false()
    return traces.has_entered(look.deployment_id, {run_name(node) for node in nodes})


async def list_arrivals(connection: AsyncConnection, look: Look) -> list[Json]:
    """Threads created after intake closed that are at a target, or that their storage or their traces show to have been, and
    that are not recorded there yet. One that both show may be in it twice."""
    if look.closed_at is None:
        return []
    since_then = and_(look.population, tables.thread.c.created_at > look.closed_at)
    arrivals = []
    for node in look.spec.nodes:
        new_here = and_(since_then, reads.has_not_arrived(look.row.id, node))
        for found in await subjects.count_subjects(connection, look.deployment_id, new_here, lens=look.lens):
            if entered(look.subject(found.key), node):
                where = and_(new_here, subjects.looks_like([found.key], lens=look.lens))
                arrivals += await _every(connection, look, where, node)
        if look.deployment.langsmith is not None:
            arrivals += await _every(connection, look, and_(new_here, _was_traced(look, [node])), node)
    return arrivals


async def _every(connection: AsyncConnection, look: Look, where: ColumnElement[bool], node: str) -> list[Json]:
    found: list[Json] = []
    cursor = None
    while True:
        rows, cursor = await subjects.list_subject_threads(
            connection, look.deployment_id, where, lens=look.lens, cursor=cursor, limit=reads.MAX_LIMIT
        )
        found += [_arrival(look, row, node) for row in rows]
        if cursor is None:
            return found


def _arrival(look: Look, thread: subjects.SubjectThread, node: str) -> Json:
    return {
        "deployment_id": look.deployment_id,
        "drain_id": look.row.id,
        "thread_id": thread.thread_id,
        "target": node,
        "seen_at": look.now,
        "created_at": thread.created_at,
    }
