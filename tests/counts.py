"""Whether the counts that are kept are those of the threads: asked after every scenario."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from app.inventory.cube import Checked, check_counts
from app.inventory.db import Database, head_revision


async def check_kept(url: str) -> None:
    """Fail when a count differs. A database of another schema has none of them."""
    database = Database(url)
    try:
        if await database.revision() == head_revision():
            checked: Checked = await check_counts(database)
            assert checked.differences == ()
    finally:
        await database.close()


def check_kept_now(url: str) -> None:
    """The same where a loop may be running already."""
    with ThreadPoolExecutor(1) as beside:
        beside.submit(asyncio.run, check_kept(url)).result()
