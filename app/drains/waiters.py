"""Waiting on a gate: who does, and that anybody can end it. A gate that is armed where nobody sees it opens at night."""

import secrets
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.register import By
from app.drains.service import Drains
from app.errors import BadRequest, Conflict, NotFound
from app.inventory import reads, register, waiters
from app.inventory.store import Store
from app.inventory.views import Waiter

LONGEST = timedelta(days=7)
SHOWN_AFTER = timedelta(hours=1)
MOST = 100


class Waiters:
    """All who wait. Every method opens its own short transactions."""

    def __init__(self, store: Store, drains: Drains) -> None:
        self._store = store
        self._drains = drains

    async def begin(self, drain: str, caller: str, wait: timedelta, by: By) -> Waiter:
        """Somebody waits from now on, at most so long. Raises ``NotFound`` and ``BadRequest``."""
        if not timedelta(0) < wait <= LONGEST:
            raise BadRequest(f"Wait for a time of at most {LONGEST.days} days.")
        answer = await self._drains.answer(drain, now=by.now)
        waiter_id = secrets.token_hex(8)
        async with self._store.database.write() as connection:
            row = await self._row(connection, drain)
            if await waiters.count_waiting(connection, row.id, now=by.now) >= MOST:
                raise Conflict(
                    f"{MOST} wait on the drain {drain} already. Cancel those that nobody needs.", code="too_many"
                )
            await waiters.add_waiter(
                connection,
                row,
                waiter_id=waiter_id,
                caller=caller,
                until=by.now + wait,
                verdict=answer.verdict.value,
                now=by.now,
            )
            await self._note(connection, row, by, "wait.begun", caller)
            return await self._found(connection, row, waiter_id, by)

    async def touch(self, drain: str, waiter: str, verdict: str, outcome: str | None, by: By) -> Waiter:
        """It asked again, or has its ``outcome``. The answer says whether somebody has cancelled it. Raises ``NotFound``."""
        async with self._store.database.write() as connection:
            row = await self._row(connection, drain)
            await self._found(connection, row, waiter, by)
            await waiters.touch_waiter(connection, row.id, waiter, verdict=verdict, now=by.now)
            if outcome is not None:
                await waiters.end_waiter(connection, row.id, waiter, outcome=outcome, by=by.actor, now=by.now)
            return await self._found(connection, row, waiter, by)

    async def cancel(self, drain: str, waiter: str, by: By) -> Waiter:
        """End a wait: whoever waits is told when it asks next. Cancelling twice is harmless. Raises ``NotFound``."""
        async with self._store.database.write() as connection:
            row = await self._row(connection, drain)
            found = await self._found(connection, row, waiter, by)
            if await waiters.end_waiter(connection, row.id, waiter, outcome="cancelled", by=by.actor, now=by.now):
                await self._note(connection, row, by, "wait.cancelled", found.caller)
            return await self._found(connection, row, waiter, by)

    async def list(self, drain: str, by: By) -> tuple[Waiter, ...]:
        """Who waits, and who ended within the last hour, newest first. Raises ``NotFound``."""
        async with self._store.database.read() as connection:
            row = await self._row(connection, drain)
            return await waiters.list_waiters(connection, row, now=by.now, ended_since=by.now - SHOWN_AFTER)

    async def _row(self, connection: AsyncConnection, drain: str) -> Any:
        row = await reads.find_drain(connection, drain)
        if row is None:
            raise NotFound(f"There is no drain with the name {drain[:100]!r}. `drainboard drains list` shows all.")
        return row

    async def _found(self, connection: AsyncConnection, row: Any, waiter: str, by: By) -> Waiter:
        found = await waiters.find_waiter(connection, row, waiter, now=by.now)
        if found is None:
            raise NotFound(f"Nobody waits on the drain {row.name} under that id.")
        return found

    async def _note(self, connection: AsyncConnection, row: Any, by: By, action: str, caller: str) -> None:
        await register.add_activity(
            connection,
            row.deployment_id,
            now=by.now,
            actor=by.actor,
            action=action,
            subject=row.name,
            detail={"caller": caller},
        )
