"""How Alembic reaches the database: the URL comes from the program, or from the settings when run by hand."""

import asyncio
from datetime import timedelta

from sqlalchemy import Connection, pool
from sqlalchemy.ext.asyncio import create_async_engine

from alembic import context
from app.inventory.queue_schema import is_ours
from app.inventory.tables import UtcDateTime, metadata
from app.settings import load_settings

ONE_AT_A_TIME = 714_225_001  # any number that is ours


def _render(kind: str, item: object, _context: object) -> str | bool:
    """Write our column types as plain ones, so that a migration never depends on today's code."""
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(item, UtcDateTime) else False


def _migrate(connection: Connection) -> None:
    """On PostgreSQL give up soon when somebody else holds a table: whoever waits for a lock makes all others wait behind.
    Several processes may start at once: one migrates, and the others find it done."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,
        render_item=_render,
        include_name=is_ours,
    )
    with context.begin_transaction():
        if connection.dialect.name == "postgresql":
            patience = int(context.config.attributes.get("lock_timeout", timedelta(seconds=10)).total_seconds() * 1000)
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ONE_AT_A_TIME})")
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {patience}")
        context.run_migrations()


async def _run() -> None:
    url = context.config.attributes.get("url") or load_settings().resolved_database_url
    engine = create_async_engine(url, poolclass=pool.NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(_migrate)
    await engine.dispose()


if (given := context.config.attributes.get("connection")) is not None:
    _migrate(given)
else:
    asyncio.run(_run())
