"""Reads how a drain went: stored answers, what came and left, when nobody looked, deploys."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.burndown import BurnDown, DeployMark, FlowCount, burn_point, find_gaps, sum_flow
from app.drains.spec import from_json
from app.inventory import deploys, reads
from app.inventory.flow import flow
from app.settings import DeploymentSettings

LEAST_GAP = timedelta(minutes=2)
INTERVALS = 3


async def read_burndown(
    connection: AsyncConnection, row: Any, deployment: DeploymentSettings, *, since: datetime, until: datetime
) -> BurnDown:
    """The series of a drain between two times."""
    spec, mine = from_json(row.spec), row.deployment_id
    answers = await reads.list_evaluations_between(connection, row.id, since=since, until=until)
    looks = await reads.list_looks(connection, mine, since=since, until=until)
    seen = await flow(connection, mine, spec.nodes, since=since, until=until) if spec.nodes else ()
    marks = await deploys.list_deploy_times(connection, mine, spec.graph, since=since, until=until)
    begins = bool(answers) and answers[0].evaluated_at >= since
    first = (answers[0].poll_id or 0) if begins else 0  # what the first look found did not come just then
    return BurnDown(
        drain=row.name,
        since=since,
        until=until,
        points=tuple(burn_point(found.answer, max(found.evaluated_at, since)) for found in answers),
        flow=sum_flow(
            FlowCount(one.at, one.poll_id, one.arrived if one.poll_id > first else 0, one.left, one.complete)
            for one in seen
        ),
        gaps=find_gaps(looks, since=since, until=until, longest=max(LEAST_GAP, INTERVALS * deployment.poll_interval)),
        deploys=tuple(DeployMark(at, deploy_id) for at, deploy_id in marks),
    )
