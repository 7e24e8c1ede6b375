"""What an older version proved by rules that were weaker than today's proves nothing. It is proved anew."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.facts.types import Condition
from app.inventory import erasing, tables
from app.inventory.writes import RULES, update_deployment


async def distrust_other_rules(connection: AsyncConnection, deployments: Collection[str], now: datetime) -> None:
    """Of deployments whose threads were judged by the rules of another version, and that are locked: every soak begins anew, a
    sweep is wanted, heads that were read as settled are read again, and no removal counts as one of a drained drain. What blocks
    stays, and so does all that explains the past."""
    table = tables.deployment
    others = or_(table.c.rules.is_(None), table.c.rules != RULES)
    query = select(table.c.id).where(table.c.name.in_(deployments), others).order_by(table.c.id)
    for deployment_id in (await connection.execute(query)).scalars().all():
        await erasing.want_everything_again(connection, deployment_id, {"sweep_wanted_at": now})
        await _unsettle(connection, deployment_id)
        drain = tables.drain
        await connection.execute(update(drain).where(drain.c.deployment_id == deployment_id).values(removed={}))
        await update_deployment(connection, deployment_id, rules=RULES)


async def _unsettle(connection: AsyncConnection, deployment_id: int) -> None:
    """Settled heads are presumed to be so until they were read again, as far as a drain needs it."""
    table = tables.thread
    settled = and_(table.c.deployment_id == deployment_id, table.c.condition == Condition.SETTLED.value)
    await connection.execute(update(table).where(settled).values(condition=Condition.PRESUMED_SETTLED.value))
