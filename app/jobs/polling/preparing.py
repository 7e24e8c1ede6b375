"""What a poll must know before it reads: how names are kept, and under which revisions states are read."""

from app.inventory import reads
from app.inventory.current import current_of
from app.inventory.revisions import list_drawings
from app.jobs.polling.work import Work
from app.jobs.readings import Readings
from app.sources.agent_server.reduce import Reading


async def prepare_reading(work: Work) -> None:
    """Names that are kept in clear and renames to compare may have changed since the last poll."""
    settings = work.settings
    async with work.reading() as connection:
        names = await work.store.names(connection, work.deployment_id, settings)
        renames = {
            (target["name"], target["new"])
            for row in await reads.list_drains(connection)
            if row.deployment_id == work.deployment_id and row.closed_at is None
            for target in row.spec["targets"]
            if target["kind"] == "rename"
        }
    work.server.reading = Reading(
        names=names,
        version_keys=settings.all_version_keys,
        renames=tuple(sorted(renames)),
        metadata_keys=settings.metadata_keys,
    )


async def readings_of(work: Work) -> Readings:
    """What is read in this poll, under what is deployed now."""
    async with work.reading() as connection:
        revisions = await reads.list_revisions(connection, work.deployment_id)
        drawings = await list_drawings(connection, work.deployment_id)
        drains = await reads.list_drains(connection)
    candidates = {node for revision in revisions for node in revision.nodes}
    for row in drains:
        if row.deployment_id == work.deployment_id:
            candidates |= {target["name"] for target in row.spec["targets"] if target["kind"] == "node"}
    return Readings(
        server=work.server,
        revisions={revision.id: revision for revision in revisions},
        current=current_of(revisions, drawings),
        candidates=candidates,
        stuck_after=work.settings.stuck_after,
    )
