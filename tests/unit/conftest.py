"""A database of one's own, on both kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.inventory.db import Database
from tests.counts import check_kept


@pytest.fixture
async def database(address: str) -> AsyncIterator[Database]:
    made = Database(address)
    yield made
    await made.close()
    await check_kept(address)
