"""Who waits on a gate, over HTTP."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from app.api.routes import ERRORS, GUARDS, Who
from app.drains.waiters import Waiters
from app.inventory.views import Waiter
from app.settings import Duration

router = APIRouter(prefix="/api/v1", responses=ERRORS, dependencies=GUARDS)


@dataclass(frozen=True, slots=True)
class WaiterList:
    """Who waits on a drain's gate, and who ended within the last hour, newest first."""

    items: tuple[Waiter, ...]


class WaitRequest(BaseModel):
    """``caller``: who waits, in its own words. ``wait``: how long at most, like ``30m``."""

    model_config = ConfigDict(extra="forbid")
    caller: str = Field(min_length=1, max_length=200)
    wait: Duration


class WaitReport(BaseModel):
    """What the gate said last; with an ``outcome`` the wait is over."""

    model_config = ConfigDict(extra="forbid")
    verdict: Literal["drained", "blocked", "unknown"]
    outcome: Literal["drained", "ran_out"] | None = None


def _waiters(request: Request) -> Waiters:
    found: Waiters = request.app.state.waiters
    return found


Waiting = Annotated[Waiters, Depends(_waiters)]


@router.get("/drains/{drain}/waiters")
async def list_waiters(drain: str, waiters: Waiting, by: Who) -> WaiterList:
    """Who waits, and who ended within the last hour."""
    return WaiterList(await waiters.list(drain, by))


@router.post("/drains/{drain}/waiters", status_code=201)
async def begin_waiting(drain: str, body: WaitRequest, waiters: Waiting, by: Who) -> Waiter:
    """Say that somebody waits from now on."""
    return await waiters.begin(drain, body.caller, body.wait, by)


@router.put("/drains/{drain}/waiters/{waiter}")
async def report_waiting(drain: str, waiter: str, body: WaitReport, waiters: Waiting, by: Who) -> Waiter:
    """Say what the gate answered. The answer has ``outcome: cancelled`` where somebody has ended the wait."""
    return await waiters.touch(drain, waiter, body.verdict, body.outcome, by)


@router.delete("/drains/{drain}/waiters/{waiter}")
async def cancel_waiting(drain: str, waiter: str, waiters: Waiting, by: Who) -> Waiter:
    """End a wait: the command that waits returns with the verdict of now."""
    return await waiters.cancel(drain, waiter, by)
