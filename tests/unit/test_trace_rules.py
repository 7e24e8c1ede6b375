"""What traces prove: rules as tables, and that losing evidence never makes a verdict greener."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.drains.answers import Verdict
from app.drains.dispositions import Disposition
from app.drains.traces import Entries, Reading, TraceEvidence, sort_entries
from app.drains.verdicts import decide
from app.facts.traces import written_at
from app.inventory.views import Liveness, Stay, TracedEntry
from tests.unit.builders import HOUR, MINUTE, NODE, NOW, evidence, uuid_of

WINDOW = timedelta(hours=72)
START = NOW - WINDOW


def reading(**changes: Any) -> Reading:
    made = Reading(
        status="complete",
        code=None,
        sentence=None,
        since=None,
        covered_from=START - HOUR,
        covered_until=NOW - MINUTE,
        sampling_rate=1.0,
        retention=None,
        project_began_at=START - 10 * HOUR,
    )
    return replace(made, **changes)


def quiet(**changes: Any) -> TraceEvidence:
    """Nobody entered, and the project is alive."""
    made = TraceEvidence(
        nodes=(NODE,),
        window=WINDOW,
        starts_at=START,
        max_age=15 * MINUTE,
        reading=reading(),
        entries=Entries(),
        liveness=Liveness(40, NOW - 2 * MINUTE),
        moved_at=NOW - 2 * MINUTE,
        is_cut=False,
    )
    return replace(made, **changes)


def codes(found: TraceEvidence) -> list[str]:
    return [reason.code for reason in found.reasons(NOW)]


LOSSES: dict[str, tuple[TraceEvidence, list[str]]] = {
    "nothing": (quiet(), []),
    "a drain without nodes": (quiet(nodes=(), reading=reading(covered_from=None)), []),
    "never read": (quiet(reading=reading(status=None, covered_from=None, covered_until=None)), ["traces_incomplete"]),
    "never read, since it fails": (
        quiet(reading=reading(status="failed", covered_from=None, covered_until=None)),
        ["source_failed"],
    ),
    "read long ago": (quiet(reading=reading(covered_until=NOW - HOUR)), ["traces_stale"]),
    "failing for long": (
        quiet(reading=reading(status="failed", covered_until=NOW - HOUR)),
        ["source_failed", "traces_stale"],
    ),
    "cut short for long": (
        quiet(reading=reading(status="incomplete", covered_until=NOW - HOUR)),
        ["traces_incomplete", "traces_stale"],
    ),
    "one failure after a good reading": (quiet(reading=reading(status="failed")), []),
    "part of the window": (quiet(reading=reading(covered_from=NOW - HOUR)), ["traces_window_short"]),
    "a project younger than the window": (
        quiet(reading=reading(project_began_at=NOW - HOUR)),
        ["traces_window_short"],
    ),
    "a project as young as the first thread": (
        quiet(starts_at=NOW - HOUR, reading=reading(project_began_at=NOW - HOUR)),
        [],
    ),
    "a retention below the window": (quiet(reading=reading(retention=timedelta(days=1))), ["traces_window_short"]),
    "sampling": (quiet(reading=reading(sampling_rate=0.25)), ["traces_sampled"]),
    "silence": (quiet(liveness=Liveness(0, None)), ["traces_silent"]),
    "only the target's own runs": (quiet(liveness=Liveness(0, NOW - MINUTE)), ["traces_silent"]),
    "tracing that stopped": (quiet(liveness=Liveness(40, NOW - 3 * HOUR)), ["traces_silent"]),
    "a system that stands still": (quiet(liveness=Liveness(40, NOW - 3 * HOUR), moved_at=NOW - 3 * HOUR), []),
    "part of the window, and the rest comes": (
        quiet(reading=reading(status="incomplete", covered_from=NOW - HOUR, is_under_way=True)),
        ["traces_incomplete"],
    ),
    "part of the window, and the rest has expired": (
        quiet(reading=reading(covered_from=NOW - HOUR, is_under_way=True, retention=timedelta(days=1))),
        ["traces_window_short"],
    ),
    "an entry that the threads were not asked about since": (
        quiet(entries=Entries(1, 0, 0, 1, 0, NOW - MINUTE)),
        ["traces_incomplete"],
    ),
    "more entries than are looked at": (quiet(is_cut=True), ["traces_incomplete"]),
    "an entry that nothing explains": (quiet(entries=Entries(1, 0, 1, 0, 0, NOW - HOUR)), ["node_still_entered"]),
    "an entry that is explained": (quiet(entries=Entries(2, 2, 0, 0, 0, NOW - HOUR)), []),
}


@pytest.mark.parametrize("what", LOSSES)
def test_what_is_lost_has_its_own_reason(what: str) -> None:
    found, expected = LOSSES[what]

    assert codes(found) == expected


def test_entries_from_before_the_first_look_are_not_said_to_go_on() -> None:
    """Somebody answered a waiting thread since, which is explained; what nobody saw is older."""
    seen = Entries(3, 1, 2, 0, 0, NOW - MINUTE, NOW - 2 * HOUR)
    before = next(quiet(entries=seen, looked_since=NOW - HOUR).reasons(NOW))
    assert (before.code, before.verdict, before.count) == ("node_still_entered", Verdict.BLOCKED, 2)
    assert "the last one 2 h ago, all before the threads were first looked at" in before.sentence
    assert "Something still sends work there" not in before.sentence
    for looked_since in (NOW - 3 * HOUR, None):
        sentence = next(quiet(entries=seen, looked_since=looked_since).reasons(NOW)).sentence
        assert "Something still sends work there" in sentence


def test_every_reason_reads_as_a_sentence() -> None:
    for found, _ in LOSSES.values():
        for reason in found.reasons(NOW):
            assert reason.sentence.endswith((".", "?")), reason.sentence
            assert reason.source == "traces"


def test_quiet_traces_alone_make_nothing_green() -> None:
    answer = decide(evidence(traces=quiet(), complete_sweep=None, last_sweep=None), NOW)

    assert answer.verdict is Verdict.UNKNOWN


def test_an_unexplained_entry_blocks_whatever_the_threads_say() -> None:
    entered = quiet(entries=Entries(3, 1, 2, 0, 0, NOW - HOUR))
    answer = decide(evidence(traces=entered), NOW)

    assert decide(evidence(traces=quiet()), NOW).verdict is Verdict.DRAINED
    assert answer.verdict is Verdict.BLOCKED
    assert [found.status for found in answer.checks if found.name == "traces"] == ["fail"]


def test_the_headline_counts_threads_and_no_runs() -> None:
    entered = quiet(entries=Entries(8, 0, 8, 0, 0, NOW - HOUR))
    blocked = {Disposition.PARKED_AT_TARGET: 2, Disposition.CONFLICT: 1, Disposition.UNAFFECTED: 5}
    answer = decide(evidence(traces=entered, dispositions=blocked), NOW)

    assert "2 threads still wait" in answer.headline
    assert "1 more blocks for other reasons" in answer.headline


def test_sampling_can_be_accepted_by_a_person() -> None:
    made = evidence(traces=quiet(reading=reading(sampling_rate=0.5)))
    policy = replace(made.spec.policy, accept=("traces_sampled",))
    answer = decide(replace(made, spec=replace(made.spec, policy=policy)), NOW)

    assert (answer.verdict, answer.accepting) == (Verdict.DRAINED, ("traces_sampled",))


def test_a_verdict_gets_stale_with_its_traces() -> None:
    answer = decide(evidence(traces=quiet(reading=reading(covered_until=NOW - 14 * MINUTE))), NOW)

    assert answer.verdict is Verdict.DRAINED
    assert answer.valid_until is not None
    assert answer.valid_until <= NOW + MINUTE


# -- which entries are explained -------------------------------------------------------------------------------------


def entry(minutes_ago: int, thread: int | None = 1, node: str = NODE) -> TracedEntry:
    return TracedEntry(node, None if thread is None else uuid_of(thread), "t", NOW - minutes_ago * MINUTE)


def stay(
    left_minutes_ago: int | None,
    departure: str | None = "completed",
    thread: int = 1,
    node: str = NODE,
    came_minutes_ago: int | None = None,
    *,
    ended_minutes_ago: int | None = None,
) -> Stay:
    left = None if left_minutes_ago is None else NOW - left_minutes_ago * MINUTE
    came = None if came_minutes_ago is None else NOW - came_minutes_ago * MINUTE
    ended = None if ended_minutes_ago is None else NOW - ended_minutes_ago * MINUTE
    return Stay(uuid_of(thread), node, left, departure if left else None, came, ended)


EXPLAINED: dict[str, tuple[TracedEntry, list[Stay], bool]] = {
    "it stayed, and left in order later": (entry(30), [stay(10)], True),
    "it left before": (entry(5), [stay(10)], False),
    "it was done before anybody saw it leave": (entry(30), [stay(10, ended_minutes_ago=20)], True),
    "it was done, and came again before anybody looked": (entry(15), [stay(10, ended_minutes_ago=20)], False),
    "it came again, and stays": (entry(15), [stay(10, ended_minutes_ago=20), stay(None)], True),
    "what it stayed below was done before the outer run": (
        entry(15),
        [stay(10, node=f"{NODE}/inner", ended_minutes_ago=20)],
        True,
    ),
    "another thread did": (entry(30, thread=2), [stay(10)], False),
    "nobody knows which thread": (entry(30, thread=None), [stay(10)], False),
    "no stay was seen": (entry(30), [], False),
    "its question was dropped": (entry(30), [stay(10, "abandoned")], False),
    "it was lost": (entry(30), [stay(10, "lost")], False),
    "the thread was deleted": (entry(30), [stay(10, "deleted")], False),
    "it is still there, and counts among the threads": (entry(30), [stay(None)], True),
    "it was lost first, and came again": (entry(30), [stay(20, "lost"), stay(10)], False),
    "it came again after a loss": (entry(15), [stay(20, "lost"), stay(10)], True),
    "it stayed at another node": (entry(30), [stay(10, node="other")], False),
    "it stayed below": (entry(30), [stay(10, node=f"{NODE}/inner")], True),
    "it stayed below, where it came long after the outer run began": (
        entry(30), [stay(10, node=f"{NODE}/inner", came_minutes_ago=20)], True
    ),
    "it began with the stay": (entry(30), [stay(10, came_minutes_ago=30)], True),
    "it was answered during the stay": (entry(15), [stay(10, came_minutes_ago=30)], True),
    "it passed through before it came to stay": (entry(40), [stay(10, came_minutes_ago=30)], False),
    "it passed through before it came to stay, and still waits": (entry(40), [stay(None, came_minutes_ago=30)], False),
    "it passed through between two stays": (
        entry(40), [stay(50, came_minutes_ago=60), stay(10, came_minutes_ago=30)], False
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", EXPLAINED)
def test_an_entry_belongs_to_the_stay_that_ended_next(what: str) -> None:
    run, stays, is_explained = EXPLAINED[what]

    found = sort_entries([run], stays, [NODE], judged_until=NOW)

    assert (found.explained, found.unexplained) == ((1, 0) if is_explained else (0, 1))


def test_a_checkpoint_says_when_it_was_written() -> None:
    """The id and the time of one checkpoint of a real server."""
    assert written_at("1f0c2b9e-4b0a-6c50-8001-0123456789ab") is not None
    when = written_at(uuid6_at(NOW))
    assert when is not None
    assert abs(when - NOW) < timedelta(microseconds=2)
    assert [written_at(odd) for odd in (None, "", "1f1ecba7-0001", str(uuid.uuid4()), "x" * 36)] == [None] * 5


def uuid6_at(when: datetime) -> str:
    """An id as LangGraph makes it at this time."""
    ticks = int((when - datetime(1582, 10, 15, tzinfo=UTC)) / timedelta(microseconds=1)) * 10
    return str(uuid.UUID(int=ticks >> 12 << 80 | 6 << 76 | (ticks & 0xFFF) << 64 | 2 << 62 | 5))


def test_an_inner_target_is_found_by_its_own_name() -> None:
    run = entry(30, node="inner")

    assert sort_entries([run], [stay(10, node="outer/inner")], ["outer/inner"], judged_until=NOW).explained == 1


def test_an_entry_after_the_last_look_at_the_threads_waits_for_the_next() -> None:
    found = sort_entries([entry(1)], [], [NODE], judged_until=NOW - 2 * MINUTE)

    assert (found.later, found.unexplained, found.last_at) == (1, 0, NOW - MINUTE)


# -- properties --------------------------------------------------------------------------------------------------------

RANK = {Verdict.DRAINED: 0, Verdict.UNKNOWN: 1, Verdict.BLOCKED: 2}
times = st.integers(0, 200).map(lambda hours: NOW - hours * HOUR)
readings = st.builds(
    reading,
    status=st.sampled_from(["complete", "incomplete", "failed", None]),
    covered_from=st.none() | times,
    covered_until=st.none() | st.integers(0, 60).map(lambda minutes: NOW - minutes * MINUTE),
    sampling_rate=st.sampled_from([0.1, 1.0]),
    retention=st.none() | st.integers(1, 200).map(lambda hours: hours * HOUR),
    project_began_at=st.none() | times,
)
evidences = st.builds(
    quiet,
    reading=readings,
    entries=st.builds(Entries, unexplained=st.integers(0, 3), total=st.integers(3, 9)),
    liveness=st.builds(Liveness, st.integers(0, 3), st.none() | times),
    moved_at=st.none() | times,
    is_cut=st.booleans(),
)


def _verdict(found: TraceEvidence, later: timedelta = timedelta(0)) -> int:
    made = evidence(traces=found)
    return RANK[decide(made, NOW + later).verdict]


@settings(deadline=None)
@given(evidences, st.integers(0, 100))
def test_ageing_never_makes_a_verdict_greener(found: TraceEvidence, minutes: int) -> None:
    if found.reading.covered_until is not None:
        older = replace(found.reading, covered_until=found.reading.covered_until - minutes * MINUTE)
        assert _verdict(replace(found, reading=older)) >= _verdict(found)


@settings(deadline=None)
@given(evidences)
def test_a_page_less_never_makes_a_verdict_green(found: TraceEvidence) -> None:
    """A page that was lost leaves its time uncovered, whatever it held."""
    lost = replace(found, reading=replace(found.reading, covered_from=None), entries=Entries())

    assert _verdict(lost) >= RANK[Verdict.UNKNOWN]


@settings(deadline=None)
@given(evidences)
def test_fewer_traces_of_other_nodes_never_make_a_verdict_greener(found: TraceEvidence) -> None:
    assert _verdict(replace(found, liveness=Liveness(0, None))) >= _verdict(found)


@settings(deadline=None)
@given(evidences, st.integers(0, 5))
def test_an_entry_more_never_makes_a_verdict_greener(found: TraceEvidence, more: int) -> None:
    entries = replace(found.entries, unexplained=found.entries.unexplained + more)

    assert _verdict(replace(found, entries=entries)) >= _verdict(found)


runs = st.lists(st.builds(entry, st.integers(0, 90), st.none() | st.integers(1, 3)), max_size=6)
stays = st.lists(
    st.builds(
        stay, st.none() | st.integers(0, 90), st.sampled_from(["completed", "lost", "abandoned"]), st.integers(1, 3)
    ),
    max_size=6,
)


@settings(deadline=None)
@given(runs, stays)
def test_every_entry_is_counted_once(found: list[TracedEntry], seen: list[Stay]) -> None:
    sorted_ = sort_entries(found, seen, [NODE], judged_until=NOW - 10 * MINUTE)

    assert sorted_.explained + sorted_.unexplained + sorted_.later == sorted_.total == len(found)


@settings(deadline=None)
@given(runs, stays)
def test_a_stay_less_explains_no_more(found: list[TracedEntry], seen: list[Stay]) -> None:
    """Losing what completed stays were seen cannot turn an unexplained run into an explained one."""
    ended_badly = [each for each in seen if each.departure != "completed" and each.left_at is not None]

    assert sort_entries(found, ended_badly, [NODE], judged_until=None).explained == 0
