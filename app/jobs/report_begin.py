"""A reporter's pass begins: a poll, the graph as the reporter has it, and threads for what is listed."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import Conflict
from app.facts.types import Topology
from app.inventory import deploys, reads, register, reporters, writes
from app.inventory.origin import keep_origin
from app.inventory.reporters import ReportedPass
from app.inventory.revisions import Drawn, keep_revisions
from app.inventory.store import Store
from app.jobs.comparing import compare_deploy
from app.jobs.lines import read_topology
from app.jobs.told import Begin, FactsTaken, HowToRead
from app.settings import DeploymentSettings, ThreadIndexSettings

RESUME_WITHIN = timedelta(minutes=15)  # since its last message
LONGEST_PASS = timedelta(hours=6)


@dataclass
class Work:
    """One message being taken, and its answer so far."""

    store: Store
    settings: DeploymentSettings
    deployment_id: int
    now: datetime
    answer: FactsTaken = field(default_factory=lambda: FactsTaken(""))

    @property
    def expired_before(self) -> datetime:
        """Listed ids that are older, and of which nothing is stored, are not looked for any more."""
        return self.now - (self.settings.thread_index or ThreadIndexSettings()).expires_after


async def begin_pass(work: Work, known: ReportedPass | None, pass_id: str, begin: Begin) -> ReportedPass:
    """The pass to go on with, or a new one. Raises ``BadRequest`` and ``Conflict``."""
    topology, hashed = read_topology(begin.topology)
    if known is not None and known.graph_id != topology.graph_id:
        raise Conflict(
            f"The deployment {work.settings.name} is reported for the graph {known.graph_id}. A graph of another name needs "
            "a deployment of its own; the option --graph-id names it.",
            code="other_graph",
        )
    goes_on = known is not None and _goes_on(known, pass_id, hashed, begin, work.now)
    async with work.store.database.write() as connection:
        await register.lock_places(connection, deployments=[work.settings.name])
        if known is not None and goes_on:
            found = replace(known, told_at=work.now)
        else:
            found = await _begin_anew(connection, work, pass_id, begin=begin, topology=topology, hashed=hashed)
        await reporters.keep_pass(connection, work.deployment_id, found)
        told = await reads.count_threads(connection, work.deployment_id, reporters.is_told_in(found))
        reading = await _how_to_read(connection, work)
    work.answer = replace(work.answer, reported=told, reading=reading)
    return found


async def _begin_anew(
    connection: AsyncConnection, work: Work, pass_id: str, *, begin: Begin, topology: Topology, hashed: str
) -> ReportedPass:
    """A new pass: a poll, the graph as the reporter has it, and threads for what is listed."""
    now = work.now
    swept = await reads.find_latest_poll(connection, work.deployment_id, kinds=("sweep",), states=("complete",))
    await keep_origin(connection, work.settings, work.store.hash_key, was_swept=swept is not None, now=now)
    poll_id = await writes.begin_poll(connection, work.deployment_id, kind="sweep", now=now)
    drawn = [Drawn(topology)]
    comparison = await compare_deploy(connection, work.store, work.deployment_id, work.settings, drawn, now=now)
    changes = await keep_revisions(connection, work.deployment_id, drawn, now=now)
    if changes:
        await deploys.keep_deploy(
            connection, work.deployment_id, changes, poll_id=poll_id, now=now, comparison=comparison
        )
    revisions = await reads.list_revisions(connection, work.deployment_id)
    deployed = next(one for one in revisions if one.vanished_at is None and one.graph == topology.graph_id)
    await add_listed(connection, work, topology.graph_id)
    return ReportedPass(
        pass_id=pass_id,
        poll_id=poll_id,
        graph_id=topology.graph_id,
        topology_hash=hashed,
        revision_id=deployed.id,
        saver=begin.saver,
        langgraph_version=begin.langgraph,
        lists=begin.ids,
        began_at=now,
        told_at=now,
        ended_at=None,
        watermark=await reporters.newest_change(connection, work.deployment_id),
    )


async def add_listed(connection: AsyncConnection, work: Work, graph_id: str | None) -> None:
    """Threads for what the index lists by now: unread, until a reporter tells of them."""
    await reporters.add_listed(
        connection,
        work.store.dictionaries(work.deployment_id),
        graph_id,
        expired_before=work.expired_before,
        now=work.now,
    )


async def _how_to_read(connection: AsyncConnection, work: Work) -> HowToRead:
    settings = work.settings
    declared = await reads.list_declared_fields(connection, work.deployment_id)
    renames = {
        (target["name"], target["new"])
        for row in await reads.list_drains(connection)
        if row.deployment_id == work.deployment_id and row.closed_at is None
        for target in row.spec["targets"]
        if target["kind"] == "rename"
    }
    return HowToRead(
        names=tuple(sorted(declared | set(settings.all_version_keys))),
        key=work.store.key_of(settings).hex(),
        version_keys=settings.all_version_keys,
        renames=tuple(sorted(renames)),
        metadata_keys=settings.metadata_keys,
    )


def _goes_on(known: ReportedPass, pass_id: str, hashed: str, begin: Begin, now: datetime) -> bool:
    """Whether a reporter that begins goes on with the pass under way: the same message again, or another process with the same
    code, soon after the one before stopped."""
    if known.ended_at is not None or known.topology_hash != hashed:
        return False
    same_store = (known.saver, known.lists) == (begin.saver, begin.ids)
    is_recent = now - known.told_at <= RESUME_WITHIN and now - known.began_at <= LONGEST_PASS
    return known.pass_id == pass_id or (same_store and is_recent)
