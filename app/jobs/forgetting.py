"""Forgets what is over (``[keep]`` of the settings), a few rows in each transaction, so that nobody waits for it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.spec import DrainSpec, from_json
from app.facts.topology import at_or_below
from app.inventory import forgetting, reads, register
from app.inventory.store import Store
from app.jobs.delivering import forget_old
from app.logs import get_logger
from app.settings import KeepSettings

BATCH = 500
MOST_BATCHES = 200  # of one kind at a time; the rest is for the next time
PAUSE = 0.02  # seconds between two transactions, in which others write
SLACK = timedelta(days=1)  # beyond the longest time that a drain's traces go back

Step = Callable[[AsyncConnection], Awaitable[int]]
log = get_logger("forgetting")


@dataclass(frozen=True, slots=True)
class Horizon:
    """Before when each kind is forgotten."""

    tombstones: datetime
    history: datetime
    deploys: datetime
    audit: datetime


def horizon(keep: KeepSettings, specs: Collection[DrainSpec], now: datetime) -> Horizon:
    """What the settings say, but never less than the traces of a drain go back: they are explained by how threads left."""
    longest = max((spec.policy.trace_window for spec in specs), default=timedelta(0)) + SLACK
    return Horizon(
        tombstones=now - max(keep.tombstones, longest),
        history=now - max(keep.history, longest),
        deploys=now - max(keep.deploys, longest),
        audit=now - keep.audit,
    )


async def forget_over(store: Store, keep: KeepSettings, name: str, now: datetime) -> Mapping[str, int]:
    """Forget what is over in a deployment, and in the audit: how many rows of each kind. May run at any time, and twice."""
    async with store.database.read() as connection:
        row = await reads.find_deployment(connection, name)
        drains = [drain for drain in await reads.list_drains(connection) if row and drain.deployment_id == row.id]
    found: Counter[str] = Counter()
    await forget_old(store, now)
    before = horizon(keep, [from_json(drain.spec) for drain in drains], now)
    if row is not None:
        found += await _of_deployment(store, row.id, name, drains, before)
    found["audit"] += await _in_batches(store, partial(forgetting.forget_audit, before=before.audit, limit=BATCH))
    told = {kind: count for kind, count in found.items() if count}
    if told:
        log.info("forgetting.done", deployment=name, **told)
    return told


async def _of_deployment(
    store: Store, deployment_id: int, name: str, drains: Collection[Any], before: Horizon
) -> Counter[str]:
    async def of_tombstones(connection: AsyncConnection) -> int:
        """The drains are looked at in the same transaction: nobody opens one meanwhile."""
        await register.lock_places(connection, deployments=[name])
        rows = await reads.list_drains(connection)
        open_ = [drain for drain in rows if drain.deployment_id == deployment_id and drain.closed_at is None]
        works = await _waited_at(connection, store, deployment_id, [from_json(drain.spec) for drain in open_])
        return await forgetting.forget_tombstones(
            connection, deployment_id, before=before.tombstones, works=works, limit=BATCH
        )

    def step(forget: Any, when: datetime) -> Step:
        return partial(forget, deployment_id=deployment_id, before=when, limit=BATCH)

    found: Counter[str] = Counter()
    found["tombstones"] = await _in_batches(store, of_tombstones)
    found["deploys"] = await _in_batches(store, step(forgetting.forget_deploys, before.deploys))
    found["departures"] = await _in_batches(store, step(forgetting.forget_departures, before.history))
    for drain in drains:
        of_drain = partial(forgetting.forget_answers, drain=drain, before=before.history, limit=BATCH)
        found["answers"] += await _in_batches(store, of_drain)
    found["polls"] = await _in_batches(store, step(forgetting.forget_polls, before.history))
    found["asides"] = await _in_batches(store, step(forgetting.forget_asides, before.history))
    return found


async def _waited_at(
    connection: AsyncConnection, store: Store, deployment_id: int, open_drains: Collection[DrainSpec]
) -> list[int]:
    """The entries of pending work with a node that an open drain names, or that is above or below it."""
    dictionaries = store.dictionaries(deployment_id)
    await dictionaries.load(connection)
    nodes = {node for spec in open_drains for node in spec.nodes}
    return [one for one, work in dictionaries.works.items() if any(_touches(leaf, nodes) for leaf in work["leaves"])]


def _touches(leaf: list[Any], nodes: Collection[str]) -> bool:
    place: str = leaf[0]
    return any(at_or_below(place, node) or at_or_below(node, place) for node in nodes)


async def _in_batches(store: Store, step: Step) -> int:
    """Run a step until there is nothing left for it, or it is enough for now."""
    found = 0
    for _ in range(MOST_BATCHES):
        async with store.database.write() as connection:
            count = await step(connection)
        found += count
        if not count:
            break
        await asyncio.sleep(PAUSE)
    return found
