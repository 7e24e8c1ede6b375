"""Writes what receivers of webhooks are to be told, in the transaction that makes it so. Sending is the schedule's work."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.answers import Answer
from app.drains.events import (
    THREADS_TOLD,
    Event,
    alarm_body,
    drain_body,
    grown,
    told_by,
    transitions,
)
from app.facts.privacy import pseudonym
from app.inventory import outbox, reads, tables
from app.settings import Settings


class Announcer:
    """Knows which webhook wants what. Without webhooks nothing is written."""

    def __init__(self, settings: Settings, hash_key: bytes) -> None:
        self._settings = settings
        self._key = hash_key

    def listens(self, deployment: str) -> bool:
        """Whether any webhook is told of a deployment."""
        return any(deployment in (each.deployments or (deployment,)) for each in self._settings.webhooks)

    async def drain(self, connection: AsyncConnection, row: Any, answer: Answer, now: datetime) -> tuple[Event, ...]:
        """Tell what is new in the answer of a drain, whose row is locked; what was new."""
        deployment = self._settings.deployment(answer.deployment)
        if deployment is None or not self.listens(deployment.name):
            return ()
        before, after = await outbox.find_told(connection, row.id), told_by(answer)
        events = transitions(before, after)
        if before != after:
            await outbox.keep_told(connection, row.id, after, now)
        for event in events:
            body = drain_body(event, answer, deployment.environment, now)
            await self._add(connection, row.deployment_id, body, subject=answer.drain, now=now)
        return events

    async def is_news(self, connection: AsyncConnection, row: Any, answer: Answer) -> bool:
        """Whether ``drain`` would write anything."""
        return self.listens(answer.deployment) and await outbox.find_told(connection, row.id) != told_by(answer)

    async def alarms(
        self,
        connection: AsyncConnection,
        deployment_id: int,
        name: str,
        found: Mapping[str, tuple[str, int | None]],
        now: datetime,
    ) -> None:
        """Tell which alarms begin or grow, before they are kept."""
        deployment = self._settings.deployment(name)
        if deployment is None or not self.listens(name):
            return
        before = await outbox.count_alarmed(connection, deployment_id)
        for event, count in grown(before, found).items():
            where = tables.thread.c.condition == event.value
            ids = await reads.list_ids(connection, deployment_id, where=where, after="", limit=THREADS_TOLD)
            pseudonyms = [pseudonym(self._key, name, thread_id) for thread_id in ids]
            body = alarm_body(event, name, deployment.environment, count=count, pseudonyms=pseudonyms, now=now)
            await self._add(connection, deployment_id, body, subject=name, now=now)

    async def _add(
        self,
        connection: AsyncConnection,
        deployment_id: int,
        body: Mapping[str, Any],
        *,
        subject: str,
        now: datetime,
    ) -> None:
        event = str(body["type"])
        for webhook in self._settings.webhooks:
            if webhook.wants(event, body["data"]["deployment"]):
                new = new_delivery(webhook.name, event, subject, body)
                await outbox.add_delivery(connection, deployment_id, new, now)


def new_delivery(webhook: str, event: str, subject: str, body: Mapping[str, Any]) -> outbox.NewDelivery:
    """One message to one receiver, with the id that it has at every attempt."""
    return outbox.NewDelivery(f"msg_{secrets.token_hex(16)}", webhook, event, subject, orjson.dumps(body).decode())
