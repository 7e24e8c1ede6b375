"""Webhooks as people see them: which there are, what became of what they were sent, a test, and sending again."""

from collections.abc import Sequence
from typing import NoReturn
from urllib.parse import urlsplit

from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.announcing import new_delivery
from app.drains.events import TEST, test_body
from app.drains.register import By
from app.errors import Conflict, Forbidden, NotFound
from app.inventory import outbox, register
from app.inventory.outbox import STATES, Delivery, State, WebhookStatus
from app.inventory.store import Store
from app.rights import Caller, Right
from app.settings import Settings, WebhookSettings

MAX_LIMIT = 500


class Webhooks:
    """Raises ``NotFound``, ``Conflict`` and ``Forbidden``."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store

    async def all(self, caller: Caller) -> tuple[WebhookStatus, ...]:
        """The receivers that are told of anything that the caller may see."""
        seen = self._seen(caller)
        async with self._store.database.read() as connection:
            counts = await outbox.count_deliveries(connection, deployments=self._scope(caller))
            oldest = await outbox.find_oldest_waiting(connection, deployments=self._scope(caller))
        found = []
        for webhook in self._settings.webhooks:
            over = tuple(name for name in seen if webhook.deployments is None or name in webhook.deployments)
            if over or caller.may_everywhere(Right.READ):
                by_state = {state: counts.get((webhook.name, state), 0) for state in STATES}
                since = oldest.get(webhook.name)
                found.append(WebhookStatus(webhook.name, _host(webhook), webhook.events, over, since, **by_state))
        return tuple(found)

    async def deliveries(
        self, caller: Caller, *, webhook: str | None, state: State | None, cursor: str | None, limit: int
    ) -> tuple[tuple[Delivery, ...], str | None]:
        """What became of messages about what the caller may see, newest first, and the cursor of the next page."""
        async with self._store.database.read() as connection:
            return await outbox.list_deliveries(
                connection,
                deployments=self._scope(caller),
                webhook=webhook,
                state=state,
                cursor=cursor,
                limit=min(limit, MAX_LIMIT),
            )

    async def send_again(self, delivery_id: str, by: By) -> Delivery:
        """Send a message once more that was given up, under the same id."""
        async with self._store.database.write() as connection:
            found = await outbox.find_delivery(connection, delivery_id)
            if found is None or not self._may(by.caller, Right.READ, found):
                _not_found(delivery_id)
            if not self._may(by.caller, Right.OPERATE, found):
                raise Forbidden("This needs the right operate over the deployment that the message is about.")
            if not await outbox.revive(connection, delivery_id, by.now):
                raise Conflict("Only a message that was given up is sent again. This one waits, or has arrived.")
            await self._note(connection, by, "webhook.sent_again", found.webhook, delivery_id)
            again = await outbox.find_delivery(connection, delivery_id)
        return again or found

    async def test(self, name: str, by: By) -> Delivery:
        """Send a receiver a message of the type ``test``."""
        if not by.caller.may_everywhere(Right.OPERATE):
            raise Forbidden("This needs the right operate over everything, since a receiver may be told of everything.")
        if self._settings.webhook(name) is None:
            known = ", ".join(each.name for each in self._settings.webhooks) or "none"
            raise NotFound(f"There is no webhook with the name {name[:100]!r}. Known: {known}.")
        new = new_delivery(name, TEST, name, test_body(name, by.now))
        async with self._store.database.write() as connection:
            await outbox.add_delivery(connection, None, new, by.now)
            await self._note(connection, by, "webhook.tested", name, new.id)
            found = await outbox.find_delivery(connection, new.id)
        return found or _not_found(new.id)

    async def _note(self, connection: AsyncConnection, by: By, action: str, subject: str, message: str) -> None:
        await register.add_activity(
            connection,
            None,
            now=by.now,
            actor=by.actor,
            action=action,
            subject=subject,
            detail={"message": message},
        )

    def _seen(self, caller: Caller) -> Sequence[str]:
        return [each.name for each in self._settings.deployments if caller.may(Right.READ, each.name, each.environment)]

    def _scope(self, caller: Caller) -> Sequence[str] | None:
        return None if caller.may_everywhere(Right.READ) else self._seen(caller)

    def _may(self, caller: Caller, right: Right, found: Delivery) -> bool:
        if found.deployment is None:
            return caller.may_everywhere(right)
        deployment = self._settings.deployment(found.deployment)
        return caller.may(right, found.deployment, deployment.environment if deployment else None)


def _host(webhook: WebhookSettings) -> str:
    return urlsplit(webhook.url).hostname or ""


def _not_found(delivery_id: str) -> NoReturn:
    raise NotFound(f"There is no message {delivery_id[:40]!r}, or it is not yours to see.")
