"""Questions about the application's thread index to a running Drainboard, and what is pushed into it."""

from app.clock import utc_now
from app.errors import NotFound
from app.inventory import index, reads, writes
from app.inventory.freshness import index_source
from app.inventory.views import IndexReport, IndexTaken
from app.jobs.index import Push, take
from app.jobs.runtime import Runtime
from app.settings import ThreadIndexSettings

LINES = 200
STATES = 20


class Listed:
    """Answers and takes the thread index of a deployment. Raises ``NotFound`` and ``BadRequest``."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def report(self, name: str) -> IndexReport:
        """The list beside the threads that were seen."""
        settings, now = self._runtime.deployment(name), utc_now()
        expired_before = now - (settings.thread_index or ThreadIndexSettings()).expires_after
        async with self._runtime.store.database.read() as connection:
            row = await reads.find_deployment(connection, name)
            if row is None:
                raise NotFound(f"The deployment {name} was not taken up yet. Is the database the right one?")
            known = await index.find_source(connection, row.id)
            found = await index.compare(connection, row.id, None, expired_before=expired_before)
            return IndexReport(
                deployment=name,
                kind=known.kind if known else None,
                source=index_source(known, is_configured=settings.thread_index is not None, now=now),
                listed=found.listed,
                closed=found.closed,
                by_word=found.by_word,
                only_on_server=await index.count_only_on_server(connection, row.id) if known else 0,
                malformed=known.malformed if known else 0,
                duplicates=known.duplicates if known else 0,
                states=await index.count_states(connection, row.id, limit=STATES),
                only_in_index=await index.list_only_in_index(
                    connection, row.id, expired_before=expired_before, limit=LINES
                ),
            )

    async def take(self, name: str, push: Push) -> IndexTaken:
        """Keep a batch."""
        settings = self._runtime.deployment(name)
        now = utc_now()
        async with self._runtime.store.database.write() as connection:
            deployment_id = await writes.ensure_deployment(connection, name, now)
        return await take(self._runtime.store, deployment_id, push, now=now, as_is=settings.reported)

    async def forget(self, name: str) -> None:
        """Forget a list that nobody pushes any more: until then a drain waits for a newer one."""
        self._runtime.deployment(name)
        async with self._runtime.store.database.write() as connection:
            row = await reads.find_deployment(connection, name)
            if row is not None:
                await index.forget(connection, row.id)
