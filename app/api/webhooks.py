"""Webhooks over HTTP: which there are, what became of messages, a test, and sending again."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request

from app.api.routes import DEFAULT_LIMIT, ERRORS, GUARDS, Limit, Who
from app.inventory.outbox import Delivery, WebhookStatus
from app.jobs.webhooks import Webhooks

router = APIRouter(prefix="/api/v1", responses=ERRORS, dependencies=GUARDS)


@dataclass(frozen=True, slots=True)
class WebhookList:
    """The receivers of the settings."""

    items: tuple[WebhookStatus, ...]


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Messages, newest first. ``next_cursor`` None: the end."""

    items: tuple[Delivery, ...]
    next_cursor: str | None


def _webhooks(request: Request) -> Webhooks:
    found: Webhooks = request.app.state.webhooks
    return found


Ask = Annotated[Webhooks, Depends(_webhooks)]
Id = Annotated[str, Query(max_length=100)]


@router.get("/webhooks")
async def list_webhooks(webhooks: Ask, by: Who) -> WebhookList:
    """The receivers that are told of anything that you may see, and how many messages to them wait, arrived or were given up."""
    return WebhookList(await webhooks.all(by.caller))


@router.post("/webhooks/{webhook}/test", status_code=202)
async def test_webhook(webhook: str, webhooks: Ask, by: Who) -> Delivery:
    """Send a message of the type ``test``; the list of deliveries says what became of it."""
    return await webhooks.test(webhook, by)


@router.get("/deliveries")
async def list_deliveries(
    webhooks: Ask,
    by: Who,
    *,
    webhook: Id | None = None,
    state: Literal["waiting", "delivered", "dead"] | None = None,
    cursor: str | None = None,
    limit: Limit = DEFAULT_LIMIT,
) -> DeliveryPage:
    """What became of messages to webhooks, newest first. ``dead`` ones were given up."""
    return DeliveryPage(*await webhooks.deliveries(by.caller, webhook=webhook, state=state, cursor=cursor, limit=limit))


@router.post("/deliveries/{delivery}/send", status_code=202)
async def send_again(delivery: str, webhooks: Ask, by: Who) -> Delivery:
    """Send a message once more that was given up, under the same id."""
    return await webhooks.send_again(delivery, by)
