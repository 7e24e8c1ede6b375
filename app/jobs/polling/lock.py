"""One poll at a time for each deployment, by a lock in the database that a dead holder loses."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from app.clock import utc_now
from app.errors import StoreError
from app.inventory import writes
from app.inventory.store import Store
from app.logs import get_logger

LEASE = timedelta(seconds=60)
HEARTBEAT = 15.0

log = get_logger("poll")


class PollLock:
    """The right to poll a deployment, and to write what the poll finds."""

    def __init__(self, deployment: str, store: Store) -> None:
        self._deployment = deployment
        self._store = store
        self._holder = secrets.token_hex(8)
        self._deployment_id: int | None = None

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[int]:
        """The deployment's id, while the lock is ours; waits while another has it, and renews itself."""
        async with self._store.database.write() as connection:
            found = await writes.ensure_deployment(connection, self._deployment, utc_now())
        self._deployment_id = found
        while not await self._take(found):  # noqa: ASYNC110 - the other holder may be another process
            await asyncio.sleep(0.5)
        beat = asyncio.create_task(self._beat(found, asyncio.current_task()))
        try:
            yield found
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
            await self._release(found)

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction of the holder: only while the lock is ours, so that a poller that hung writes nothing stale."""
        async with self._store.database.write() as connection:
            if self._deployment_id is None or not await self._renew(connection, self._deployment_id):
                raise StoreError("Another process took over the poll.", code="lease_lost")
            yield connection

    async def _take(self, deployment_id: int) -> bool:
        async with self._store.database.write() as connection:
            return await self._renew(connection, deployment_id)

    async def _renew(self, connection: AsyncConnection, deployment_id: int) -> bool:
        left = self._store.left_locks.get(deployment_id, ())
        until = await writes.take_lock(
            connection, deployment_id, holder=self._holder, now=utc_now(), lease=LEASE, left=left
        )
        return until is not None

    async def _release(self, deployment_id: int) -> None:
        """Give the lock back, or leave it to whoever wants it next in this process."""
        left = self._store.left_locks.setdefault(deployment_id, set())
        left.add(self._holder)
        with contextlib.suppress(StoreError):
            async with self._store.database.write() as connection:
                await writes.release_lock(connection, deployment_id, holder=self._holder)
            left.discard(self._holder)

    async def _beat(self, deployment_id: int, owner: "asyncio.Task[object] | None") -> None:
        """Renew the lock while the poll runs; if another has it, this poll must stop."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            try:
                is_ours = await self._take(deployment_id)
            except StoreError:
                continue  # what the poll writes next renews it as well, or finds that it is lost
            if not is_ours:
                log.warning("poll.lease_lost", deployment=self._deployment)
                if owner is not None:
                    owner.cancel()
                return
