"""Whether what is deployed is still what it was: before states are read, and after."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import utc_now
from app.facts.topology import UNREADABLE
from app.inventory import deploys, reads, writes
from app.inventory.revisions import keep_drawings, keep_revisions, list_drawings
from app.inventory.views import Drawing, RevisionSummary
from app.jobs.comparing import compare_deploy
from app.jobs.deployed import MAX_NEW_DRAWINGS, draw_all, drawings_of, looks_the_same, restarted, unchanged
from app.jobs.polling.work import Work, log
from app.jobs.readings import gather
from app.sources.agent_server.client import Assistant, Deployed


async def notice_deploys(work: Work, deployed: Deployed) -> None:
    """Compare what is deployed with the last revisions; a deploy turns a scan into a sweep."""
    poll = work.poll
    revisions, drawings = await stored_graphs(work)
    if poll.kind == "scan" and await _nothing_new(work, deployed, revisions, drawings):
        return
    drawn, hashes = await draw_all(work.server, deployed, drawings, revisions)
    broken = sorted({each.topology.graph_id for each in drawn if each.topology.xray_hash == UNREADABLE})
    if broken:
        sentence = f"The drawing of {', '.join(broken)} cannot be read, so its nodes are not known."
        poll.alarms["graph_unreadable"] = (sentence[:500], len(broken))
    now = utc_now()
    async with work.reading() as connection:
        comparison = await compare_deploy(connection, work.store, poll.deployment_id, work.settings, drawn, now=now)
    async with work.writing() as connection:
        changes = await keep_revisions(connection, poll.deployment_id, drawn, now=now)
        if changes:
            await deploys.keep_deploy(
                connection, poll.deployment_id, changes, poll_id=poll.id, now=now, comparison=comparison
            )
            poll.kind = "sweep"
            await writes.update_deployment(connection, poll.deployment_id, sweep_mark=None)
            await writes.update_poll(connection, poll.id, kind="sweep")
        await _keep_drawings(connection, work, deployed, hashes, forget={change.graph for change in changes})
    if changes:
        log.info("deploy.noticed", deployment=work.settings.name, poll=poll.id)


async def check_no_deploy(work: Work, deployed: Deployed) -> bool:
    """Readings are tied to the revision they were made under: if it changed meanwhile, they are not trusted. Whether none
    did."""
    again = await work.server.deployed()
    revisions, drawings = await stored_graphs(work)
    same = set(again.graphs) == set(deployed.graphs) and unchanged(again, revisions)
    graphs = {found.graph_id for found in again.graphs}
    if same and await looks_the_same(work.server, again, revisions, drawings, graphs=graphs):
        return True
    work.poll.miss("deployed_meanwhile")
    async with work.writing() as connection:
        await writes.distrust_readings(connection, work.deployment_id, since=work.poll.unsure_since)
        await writes.update_deployment(connection, work.deployment_id, sweep_mark=None)
    return False


async def _nothing_new(
    work: Work, deployed: Deployed, revisions: Sequence[RevisionSummary], drawings: Sequence[Drawing]
) -> bool:
    """Whether a scan sees what was there before. A configuration that is new is drawn once."""
    graphs = await _watched_graphs(work)
    if not unchanged(deployed, revisions) or restarted(deployed, drawings):
        return False
    if not await looks_the_same(work.server, deployed, revisions, drawings, graphs=graphs):
        return False
    known = {(found.graph, found.config) for found in drawings if found.revision_id is not None}
    new = [found for found in deployed.others if (found.graph_id, found.config) not in known][:MAX_NEW_DRAWINGS]
    hashes = dict(zip(new, await gather(work.server.drawing_hash(each) for each in new), strict=True))
    alive = {(found.graph, found.xray_hash) for found in revisions if found.vanished_at is None}
    if any((each.graph_id, found) not in alive for each, found in hashes.items()):
        return False
    async with work.writing() as connection:
        await _keep_drawings(connection, work, deployed, hashes, forget=())
    return True


async def _keep_drawings(
    connection: AsyncConnection,
    work: Work,
    deployed: Deployed,
    hashes: Mapping[Assistant, str],
    *,
    forget: Collection[str],
) -> None:
    known = await list_drawings(connection, work.deployment_id)
    revisions = await reads.list_revisions(connection, work.deployment_id)
    found = drawings_of(deployed, hashes, revisions, known, forget=forget, now=utc_now())
    graphs = {assistant.graph_id for assistant in deployed.graphs}
    await keep_drawings(connection, work.deployment_id, found, graphs=graphs)


async def stored_graphs(work: Work) -> tuple[tuple[RevisionSummary, ...], tuple[Drawing, ...]]:
    """What the last look at the graphs has left."""
    async with work.reading() as connection:
        return (
            await reads.list_revisions(connection, work.deployment_id),
            await list_drawings(connection, work.deployment_id),
        )


async def _watched_graphs(work: Work) -> set[str]:
    """The graphs with an open drain: a scan compares only these."""
    async with work.reading() as connection:
        return {
            row.spec["graph"]
            for row in await reads.list_drains(connection)
            if row.deployment_id == work.deployment_id and row.closed_at is None
        }
