"""The short version of ``./scripts/kill-workers``."""

from __future__ import annotations

from pathlib import Path

from tests.kills.killing import Plan, kill_workers


async def test_workers_that_are_killed_lose_nothing_and_never_lie(empty_postgres: str, tmp_path: Path) -> None:
    plan = Plan(empty_postgres, tmp_path, kills=3, deployments=2, threads=60, lease=3.0, pause=1.5)
    seen = await kill_workers(plan)
    assert seen.lies == []
    assert seen.answers["empties drained"]
    assert seen.answers["held blocked"]
