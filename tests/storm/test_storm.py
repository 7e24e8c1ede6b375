"""A short storm: faults over the network, of the database and of the clock, while threads move and people act.

The long one is `scripts/fault-storm`; its figures are kept in `benchmarks/README.md`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storm.mutants import MUTANTS, WHERE_IT_SHOWS
from tests.storm.storm import Plan, ride

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
"""A request that is cancelled at an unlucky moment leaves its socket to the garbage collector."""


@pytest.fixture(autouse=True)
def _sockets_are_collected_here() -> Iterator[None]:
    yield
    gc.collect()


def _plan(home: Path, migrated: Path, **more: object) -> Plan:
    (home / "board.db").write_bytes(migrated.read_bytes())
    return Plan(f"sqlite+aiosqlite:///{home}/board.db", home, threads=10, polls=(3, 8), **more)  # type: ignore[arg-type]


async def test_nothing_is_said_wrongly_or_lost_in_a_storm_and_all_is_right_after_it(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    seen = await ride(_plan(tmp_path, migrated_sqlite, seed=1, rounds=3))
    assert seen.lies == []
    assert seen.met > 20, seen.faults


@pytest.mark.parametrize("mutant", ["audit", "old"])
async def test_a_product_with_a_broken_rule_is_caught(tmp_path: Path, migrated_sqlite: Path, mutant: str) -> None:
    """It shows in the first round or two. What happens depends on what is quicker too, so it may take some more."""
    seen = await ride(_plan(tmp_path, migrated_sqlite, seed=1, rounds=40, mutate=mutant, stops_at_a_lie=True))
    assert seen.lies, seen


def test_every_broken_rule_has_its_weather() -> None:
    assert set(MUTANTS) == set(WHERE_IT_SHOWS)
