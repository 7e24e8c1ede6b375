"""The truth machine, a short run: the product never says `drained` when something would be lost, and it can be reached.

The long run is `scripts/truth-machine`; its figures are kept in `benchmarks/README.md`.
"""

from __future__ import annotations

import pytest

from tests.truth.births import BIRTHS
from tests.truth.deeds import DEEDS, KINDS
from tests.truth.drains import Watched
from tests.truth.figures import CANNOT_BE_MADE, CONDITIONS, DEPARTURES, DISPOSITIONS, REASONS, Figures
from tests.truth.histories import Size
from tests.truth.lives import Life
from tests.truth.machine import TruthMachine, run_session
from tests.truth.mutants import ASKED

SEED = "suite-1"
MOST_SESSIONS = 4
SHORT = Size(
    histories=5,
    threads=3,
    steps=6,
    may_kill=False,
    may_wipe=False,
    first=(
        ("half_step", {"nodes": ("t",)}, "half_step_waiting"),
        ("join", {"nodes": ("t",)}, "join_waiting"),
        ("support", {"nodes": ("await_approval",), "fields": ("rename",)}, "parked_by_interrupt"),
        ("nested", {"nodes": ("desk",)}, "inner"),
    ),
)

_T = {"nodes": ("t",)}
BARE = Size(
    histories=4,
    threads=0,
    steps=4,
    may_kill=False,
    may_wipe=False,
    first=(
        ("half_step", _T, "half_step_waiting"),
        ("join", _T, "join_waiting"),
        ("goto", _T, "goto_waiting"),
        ("deferred", _T, "deferred_waiting"),
    ),
)
"""Nothing else blocks, so that it is the broken rule on which the answer stands."""


@pytest.fixture(scope="module")
def figures() -> Figures:
    found = Figures()
    run_session(SEED, found, SHORT, stops_at_a_lie=True)
    return found


@pytest.fixture(scope="module")
def broken() -> Figures:
    """Whether a broken rule matters in a session depends on what happens to its few threads: so up to four are played."""
    found = Figures()
    for number in range(MOST_SESSIONS):
        run_session(f"m{number + 1}", found, BARE, mutants=ASKED, stops_at_a_lie=True)
        if all(found.caught.get(mutant) for mutant in ASKED):
            break
    return found


def test_the_product_says_nothing_that_is_not_so(figures: Figures) -> None:
    assert figures.lies == []
    assert figures.checks > 0


def test_drained_is_reached_for_targets_that_threads_had_needed(figures: Figures) -> None:
    assert figures.histories_drained, figures.report()


@pytest.mark.parametrize("mutant", sorted(ASKED))
def test_a_product_with_a_broken_rule_is_caught(broken: Figures, mutant: str) -> None:
    assert broken.caught.get(mutant), broken.report()
    assert broken.lies == []


def test_every_kind_of_deed_is_a_rule() -> None:
    names = {found.function.__name__ for found in TruthMachine.setup_state().rules}
    assert names >= {kind.replace(" ", "_") for kind in KINDS}
    assert {name for kind in KINDS.values() for name in kind} == set(DEEDS)


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


def test_the_truth_knows_what_a_person_has_dealt_with_and_until_when() -> None:
    drain = Watched("h", "support", ("await_approval",))
    life = Life("t", "h", "support", "support", "parked").waits("await_approval", "hold", asks=True)
    life.was_polled(lambda graph, leaf: True)
    without, back = (lambda graph, leaf: leaf != "await_approval"), (lambda graph, leaf: True)
    life.was_dealt_with(without)
    assert not drain.needed_by([life])
    assert Watched("h", "support", ("hold",)).needed_by([life]) == [life], "only what is stranded is dealt with"
    life.was_deployed(back)
    assert drain.needed_by([life]) == [life], "the node is back, and waits again"
    drain.excused.add("t")
    assert not drain.needed_by([life]), "somebody took it over"


def test_the_truth_does_not_take_a_person_to_have_seen_what_no_poll_could_show() -> None:
    life = Life("t", "h", "join", "join", "join_waiting").waits("b", "t", asks=True, hidden=["t"])
    life.was_polled(lambda graph, leaf: True)
    life.was_dealt_with(lambda graph, leaf: leaf != "t")
    assert Watched("h", "join", ("t",)).needed_by([life]) == [life]


def test_a_row_that_cannot_be_made_says_why() -> None:
    assert all(CANNOT_BE_MADE.values())
    assert set(CANNOT_BE_MADE) <= {*CONDITIONS, *DEPARTURES, *DISPOSITIONS, *REASONS}
