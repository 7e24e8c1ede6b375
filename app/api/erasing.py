"""Erasing over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from app.api.routes import ERRORS, GUARDS, Ask, Who
from app.drains.erasing import Erased, Erasure

router = APIRouter(prefix="/api/v1", responses=ERRORS, dependencies=GUARDS)


def _erasure(request: Request) -> Erasure:
    found: Erasure = request.app.state.erasure
    return found


@router.delete("/deployments/{deployment}/threads/{thread_id:path}")
async def erase_thread(
    deployment: str, thread_id: str, ask: Ask, erasure: Annotated[Erasure, Depends(_erasure)], by: Who
) -> Erased:
    """Forget one thread here; the server keeps it. It comes back with the next sweep if the server still has it, and until that
    sweep nothing in the deployment is drained."""
    settings, found = ask.thread_id(deployment, thread_id)
    return await erasure.erase(settings, found, by)
