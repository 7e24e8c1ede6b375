"""Cases that Hypothesis draws for a test that has to await: always the same ones."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy


def drawn(strategy: SearchStrategy[Any], many: int, *, number: int = 1) -> list[Any]:
    """``many`` cases of a strategy, of the series with this number."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=many,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def draw(case: Any) -> None:
        found.append(case)

    draw()
    return found
