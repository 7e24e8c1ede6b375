"""Where nobody pushed what is deployed: what threads have stored tells which of the nodes that several edges lead into are joins.

One request for each thread at which work waits, once after it has moved. Without such nodes, or after a push, none.
"""

from collections.abc import Iterable, Mapping

from app.drains.preflight import drawn_joins
from app.inventory import reads
from app.inventory.routes import are_shown, is_under_way_untold, list_newest_idle
from app.inventory.views import RevisionSummary
from app.jobs.polling.again import by_condition
from app.jobs.polling.taking_in import write_threads
from app.jobs.polling.work import Work
from app.jobs.readings import Readings, gather

WITNESSES = 10


async def read_routes(work: Work, readings: Readings) -> None:
    """The stored channels of threads at which work waits, as many as one poll may; and in a sweep of a few idle ones, where none
    of those shows how its graph leads to these nodes."""
    for graph, targets in _drawn_only(readings.revisions.values()).items():
        if work.server.has_storage is False:
            return
        async with work.reading() as connection:
            await work.dictionaries.load(connection)
        where = is_under_way_untold(graph, work.dictionaries.routes)
        async for known in by_condition(work, where, limit=work.settings.verify_idle_per_sweep):
            await write_threads(work, readings, await gather(readings.read_routes(facts) for facts in known))
        if work.poll.kind == "sweep":
            await _read_witnesses(work, readings, graph, targets)


async def _read_witnesses(work: Work, readings: Readings, graph: str, targets: Iterable[str]) -> None:
    routes = work.dictionaries.routes
    async with work.reading() as connection:
        if await are_shown(connection, work.deployment_id, graph, targets, routes):
            return
        ids = await list_newest_idle(connection, work.deployment_id, graph, limit=WITNESSES)
        known = await reads.known_threads(connection, work.dictionaries, ids)
    if known:
        await write_threads(work, readings, await gather(readings.read_routes(facts) for facts in known.values()))


def _drawn_only(revisions: Iterable[RevisionSummary]) -> Mapping[str, set[str]]:
    """The graphs of whose deployed form only drawings are known, with the nodes that may be joins."""
    deployed: dict[str, list[RevisionSummary]] = {}
    for one in revisions:
        if one.vanished_at is None:
            deployed.setdefault(one.graph, []).append(one)
    found = {
        graph: {target for each in own for _, target in drawn_joins(each.edges)}
        for graph, own in deployed.items()
        if len(own) > 1 or own[0].topology_pushed_at is None
    }
    return {graph: targets for graph, targets in sorted(found.items()) if targets}
