"""The truth machine, a short run: the product never says `drained` when something would be lost, and it can be reached.

The long run is `scripts/truth-machine`; its figures are kept in `benchmarks/README.md`.
"""

from __future__ import annotations

import pytest

from tests.truth.births import BIRTHS
from tests.truth.drains import Watched
from tests.truth.figures import Figures
from tests.truth.histories import Size
from tests.truth.lives import Life
from tests.truth.machine import run_session
from tests.truth.mutants import ASKED

SEED = "suite-1"
SHORT = Size(
    histories=5,
    threads=3,
    steps=10,
    may_kill=False,
    first=(
        ("half_step", {"nodes": ("t",)}, "half_step_waiting"),
        ("join", {"nodes": ("t",)}, "join_waiting"),
        ("support", {"nodes": ("await_approval",), "fields": ("rename",)}, "parked_by_interrupt"),
        ("nested", {"nodes": ("desk",)}, "inner"),
    ),
)


@pytest.fixture(scope="module")
def figures() -> Figures:
    found = Figures()
    run_session(SEED, found, SHORT, mutants=ASKED, stops_at_a_lie=True)
    return found


def test_the_product_says_nothing_that_is_not_so(figures: Figures) -> None:
    assert figures.lies == []
    assert figures.checks > 0


def test_drained_is_reached_for_targets_that_threads_had_needed(figures: Figures) -> None:
    assert figures.histories_drained, figures.report()


@pytest.mark.parametrize("mutant", sorted(ASKED))
def test_a_product_with_a_broken_rule_is_caught(figures: Figures, mutant: str) -> None:
    assert figures.caught.get(mutant), figures.report()


def test_every_graph_of_the_machine_has_a_shape_that_needs_a_node() -> None:
    assert all(len(shapes) > 1 for shapes in BIRTHS.values())


def test_the_truth_knows_a_need_inside_a_node_and_a_wait_that_was_thrown_away() -> None:
    drain = Watched("h", "nested", ("desk",))
    life = Life("t", "h", "nested", "nested", "inner").waits("desk/sub_wait", asks=True)
    assert drain.needed_by([life]) == [life]
    life.was_polled(lambda graph, leaf: True)
    life.threw_away("desk/sub_wait")
    life.is_settled()
    assert not drain.was_lost_by(life), "no poll could miss it yet"
    life.was_polled(lambda graph, leaf: False)
    assert drain.was_lost_by(life)
