"""From evidence to a verdict: anything that blocks, else anything that is missing, else drained."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.drains.answers import OldestBlocker, Reason, Verdict
from app.drains.dispositions import Disposition
from app.drains.sentences import blocked_sentence, headline, names, unknown_sentence
from app.drains.spec import from_json, to_json
from app.drains.verdicts import Evidence, SoakState, advance, decide
from app.durations import span
from app.inventory.views import SourceStatus
from tests.unit.builders import (
    HOUR,
    MINUTE,
    NODE,
    NODE_KEY,
    NOW,
    RENAME_TARGET,
    VERSION_TARGET,
    evidence,
    poll,
    spec,
    target,
)

D, V = Disposition, Verdict
BLOCKING = [found for found in Disposition if found.group == "blocking"]
UNKNOWN_REASONS = [
    "threads_unread",
    "threads_unplaced",
    "idle_unverified",
    "half_step_unseen",
    "deferred_unseen",
    "running_unseen",
]
ACCEPTABLE = {
    "idle_unverified",
    "intake_unseen",
    "half_step_unseen",
    "deferred_unseen",
    "traces_sampled",
    "history_unseen",
}
FAILED = SourceStatus("threads", "failed", NOW - HOUR, 3600, sentence="It cannot be reached.")


def verdict_of(found: Evidence, now: datetime = NOW) -> Verdict:
    return decide(found, now).verdict


def codes_of(found: Evidence, now: datetime = NOW) -> set[str]:
    return {reason.code for reason in decide(found, now).reasons}


def unknown(code: str, count: int = 1) -> dict[str, Any]:
    return {"unknowns": {code: count}, "dispositions": {D.UNREAD: count, D.UNAFFECTED: 38}}


def test_evidence_without_a_gap_is_drained() -> None:
    answer = decide(evidence(), NOW)
    assert (answer.verdict, answer.exit_code, answer.reasons, answer.accepting) == (V.DRAINED, 0, (), ())
    assert {check.status for check in answer.checks} <= {"pass", "not_needed"}
    assert answer.retry_after_seconds is None
    assert answer.valid_until == NOW - MINUTE + timedelta(minutes=15)


def test_headline_and_checklist_count_the_same_sweeps() -> None:
    """More sweeps than were asked for have come since."""
    answer = decide(evidence(soak=SoakState(NOW - 5 * HOUR, 9)), NOW)
    [soak] = [check.sentence for check in answer.checks if check.name == "soak"]
    assert soak.endswith(" over 2 complete sweeps.")
    assert " over 2 complete sweeps." in headline(answer, NOW)


# -- each proof that is missing -----------------------------------------------------------------------------------------

MISSING: dict[str, tuple[Evidence, set[str]]] = {
    "never swept": (evidence(last_sweep=None, complete_sweep=None, complete_scan=None), {"never_swept"}),
    "first sweep incomplete": (
        evidence(last_sweep=poll(3, state="incomplete"), complete_sweep=None, complete_scan=None),
        {"sweep_incomplete"},
    ),
    "last sweep incomplete": (evidence(last_sweep=poll(9, state="incomplete")), {"sweep_incomplete"}),
    "last sweep failed": (evidence(last_sweep=poll(9, state="failed")), {"sweep_incomplete"}),
    "sweep stale": (evidence(complete_sweep=poll(started_at=NOW - 25 * HOUR)), {"sweep_stale"}),
    "scan stale": (evidence(complete_scan=poll(started_at=NOW - 16 * MINUTE)), {"scan_stale"}),
    "a scan in the future": (evidence(complete_scan=poll(started_at=NOW + MINUTE)), {"scan_stale"}),
    "a sweep in the future": (evidence(complete_sweep=poll(started_at=NOW + MINUTE)), {"sweep_stale"}),
    "no scan": (evidence(complete_scan=None), {"scan_stale"}),
    "source failed": (evidence(source=FAILED), {"source_failed"}),
    "nobody there": (evidence(dispositions={}), {"empty_population"}),
    "all gone": (evidence(dispositions={D.GONE: 4}), {"empty_population"}),
    "not deployed": (evidence(deployed={NODE_KEY: False}), {"target_not_deployed"}),
    "never drawn": (evidence(deployed={NODE_KEY: None}), {"target_not_deployed"}),
    "mass disappearance": (evidence(alarms={"mass_disappearance": 30}), {"mass_disappearance"}),
    "canary missing": (evidence(alarms={"canary_missing": 1}), {"canary_missing"}),
    "intake unseen": (evidence(intake_unseen=3), {"intake_unseen"}),
    "unread elsewhere": (evidence(unread_elsewhere=2), {"idle_unverified"}),
    "fell at a deploy": (evidence(soak=SoakState(NOW - 5 * HOUR, 5, fell_at=NOW - 6 * HOUR)), {"fell_at_deploy"}),
    "too few sweeps": (evidence(soak=SoakState(NOW - 5 * HOUR, 1)), {"soaking"}),
    "held too short": (evidence(soak=SoakState(NOW - 30 * MINUTE, 5)), {"soaking"}),
    "nothing held": (evidence(soak=SoakState()), {"soaking"}),
    "additive": (evidence(spec=spec(phase="additive")), {"phase_not_observing"}),
    "closed": (evidence(spec=spec(phase="closed")), {"drain_closed"}),
    "traces configured": (evidence(configured=frozenset({"threads", "traces"})), {"not_evaluated"}),
    "index configured": (evidence(configured=frozenset({"threads", "index"})), {"not_evaluated"}),
    "traces required": (evidence(spec=spec(policy={"require": ("threads", "traces")})), {"not_evaluated"}),
    "traces configured and not required": (
        evidence(spec=spec(policy={"require": ("threads",)}), configured=frozenset({"threads", "traces"})),
        {"not_evaluated"},
    ),
    "attestations": (evidence(spec=spec(policy={"attestations": ("replicas",)})), {"attestation_missing"}),
    "one of two attestations": (
        evidence(spec=spec(policy={"attestations": ("replicas", "queues")}), attested={"queues": None}),
        {"attestation_missing"},
    ),
    **{
        f"{kind} not deployed": (
            evidence(spec=spec(target(kind, "x", required_kind="text")), deployed={}),
            {"target_not_deployed"},
        )
        for kind in ("kind", "remove", "version", "rename", "erase")
    },
    "one of two targets not deployed": (
        evidence(spec=spec(target(), target("remove", "x")), deployed={NODE_KEY: True, "remove:x": False}),
        {"target_not_deployed"},
    ),
    "one of two removed while drained": (
        evidence(
            spec=spec(target(), target(name="finish")),
            deployed={NODE_KEY: False, "node:finish": False},
            soak=SoakState(NOW - 5 * HOUR, 5, removed={NODE_KEY: NOW - 6 * HOUR}),
        ),
        {"target_not_deployed"},
    ),
    "an erased field removed while drained": (
        evidence(
            spec=spec(target("erase", "x")),
            deployed={"erase:x": False},
            soak=SoakState(NOW - 5 * HOUR, 5, removed={"erase:x": NOW - 6 * HOUR}),
        ),
        {"target_not_deployed"},
    ),
    "an acknowledgement ran out": (evidence(unsettled=1), {"threads_unread"}),
    **{code: (evidence(**unknown(code)), {code}) for code in UNKNOWN_REASONS},
}


@pytest.mark.parametrize("what", MISSING)
def test_one_proof_that_is_missing_is_unknown(what: str) -> None:
    found, codes = MISSING[what]
    answer = decide(found, NOW)
    assert (answer.verdict, answer.exit_code) == (V.UNKNOWN, 2)
    found_codes = {reason.code for reason in answer.reasons}
    assert found_codes == codes or (found.complete_scan is None and found_codes == codes | {"soaking"})
    assert answer.valid_until is None
    assert any(check.status == "unknown" for check in answer.checks) or what in (
        "additive",
        "closed",
        "traces configured and not required",
    )


@pytest.mark.parametrize("found", BLOCKING)
def test_one_thread_that_blocks_is_blocked_whatever_else_is_missing(found: Disposition) -> None:
    hit = {"dispositions": {found: 1, D.UNAFFECTED: 9}, "by_target": {NODE_KEY: {found: 1}}}
    for what, (base, _) in MISSING.items():
        if what == "closed":
            continue
        answer = decide(replace(base, **hit), NOW)
        assert (answer.verdict, answer.exit_code) == (V.BLOCKED, 1)
        assert found.value in {reason.code for reason in answer.reasons}
        assert "soaking" not in {reason.code for reason in answer.reasons}


def test_a_closed_drain_is_not_asked_whatever_blocks() -> None:
    hit = {"dispositions": {D.PARKED_AT_TARGET: 1}, "by_target": {NODE_KEY: {D.PARKED_AT_TARGET: 1}}}
    answer = decide(replace(evidence(spec=spec(phase="closed")), **hit), NOW)
    assert (answer.verdict, [reason.code for reason in answer.reasons]) == (V.UNKNOWN, ["drain_closed"])


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"leaks": 2}, "leaking"), ({"soak": SoakState(NOW - MINUTE, 0, regressed_since=NOW - MINUTE)}, "regressed")],
)
def test_leaks_and_regressions_block_until_it_has_soaked(changes: dict[str, Any], code: str) -> None:
    fresh = evidence(**{"soak": SoakState(NOW - MINUTE, 0), **changes})
    assert verdict_of(fresh) is V.BLOCKED
    assert code in codes_of(fresh)
    soaked = replace(fresh, soak=replace(fresh.soak, holds_since=NOW - 5 * HOUR, sweeps=5))
    assert verdict_of(soaked) is V.DRAINED


def test_a_target_that_was_removed_while_drained_may_be_missing() -> None:
    removed = evidence(
        deployed={NODE_KEY: False}, soak=SoakState(NOW - 5 * HOUR, 5, removed={NODE_KEY: NOW - 6 * HOUR})
    )
    assert verdict_of(removed) is V.DRAINED


def test_exit_codes_and_statuses() -> None:
    assert {found.value: (found.exit_code, found.http_status) for found in Verdict} == {
        "drained": (0, 200),
        "blocked": (1, 409),
        "unknown": (2, 503),
    }


# -- accepting ------------------------------------------------------------------------------------------------------------

ALL_CODES = [
    "source_failed",
    "never_swept",
    "sweep_incomplete",
    "sweep_stale",
    "scan_stale",
    "mass_disappearance",
    "canary_missing",
    "empty_population",
    "threads_unread",
    "threads_unplaced",
    "running_unseen",
    "target_not_deployed",
    "not_evaluated",
    "soaking",
    "phase_not_observing",
    "drain_closed",
    "leaking",
    "regressed",
    *(found.value for found in BLOCKING),
    *sorted(ACCEPTABLE),
]


@pytest.mark.parametrize("what", MISSING)
def test_only_the_named_limits_can_be_accepted_and_the_verdict_says_so(what: str) -> None:
    found, codes = MISSING[what]
    accepting = replace(found, spec=replace(found.spec, policy=replace(found.spec.policy, accept=tuple(ALL_CODES))))
    answer = decide(accepting, NOW)
    if codes <= ACCEPTABLE:
        assert (answer.verdict, set(answer.accepting)) == (V.DRAINED, codes)
        assert all(code in answer.headline for code in codes)
        assert {reason.code for reason in answer.reasons} == codes, "what is accepted stays listed"
    else:
        assert answer.verdict is V.UNKNOWN
        assert set(answer.accepting) <= ACCEPTABLE


def test_accepting_one_limit_accepts_no_other() -> None:
    found = evidence(
        spec=spec(policy={"accept": ("idle_unverified",)}), unknowns={"idle_unverified": 1, "half_step_unseen": 1}
    )
    assert verdict_of(found) is V.UNKNOWN


@pytest.mark.parametrize("found", BLOCKING)
def test_what_blocks_cannot_be_accepted(found: Disposition) -> None:
    blocked = evidence(spec=spec(policy={"accept": tuple(ALL_CODES)}), dispositions={found: 1})
    assert verdict_of(blocked) is V.BLOCKED


# -- properties -----------------------------------------------------------------------------------------------------------

COUNTS = st.dictionaries(st.sampled_from(list(Disposition)), st.integers(0, 5), max_size=6)
AGES = st.sampled_from([timedelta(0), MINUTE, 14 * MINUTE, 16 * MINUTE, 2 * HOUR, 25 * HOUR])
EVIDENCE = st.builds(
    lambda counts, reasons, scan, sweep, soak, alarms, deployed, last, accept, leaks, unseen, configured: evidence(
        dispositions=counts,
        by_target={NODE_KEY: {found: n for found, n in counts.items() if found.group == "blocking" and n}},
        unknowns=reasons,
        complete_scan=poll(8, started_at=NOW - scan),
        complete_sweep=poll(7, started_at=NOW - sweep),
        last_sweep=poll(last, started_at=NOW - sweep),
        soak=soak,
        alarms=alarms,
        deployed={NODE_KEY: deployed},
        leaks=leaks,
        intake_unseen=unseen,
        configured=frozenset(configured),
        spec=spec(policy={"accept": tuple(accept)}),
    ),
    COUNTS,
    st.dictionaries(st.sampled_from(UNKNOWN_REASONS), st.integers(0, 3), max_size=2),
    AGES,
    AGES,
    st.builds(
        SoakState,
        st.sampled_from([None, NOW - MINUTE, NOW - 5 * HOUR]),
        st.integers(0, 4),
        st.sampled_from([None, NOW]),
        st.sampled_from([None, NOW]),
        st.sampled_from([{}, {NODE_KEY: NOW}]),
    ),
    st.sampled_from([{}, {}, {"mass_disappearance": 30}]),
    st.sampled_from([True, True, False, None]),
    st.sampled_from([7, 7, 9]),
    st.lists(st.sampled_from(sorted(ACCEPTABLE)), max_size=3),
    st.sampled_from([0, 0, 2]),
    st.sampled_from([0, 0, 2]),
    st.sampled_from([("threads",), ("threads",), ("threads", "traces")]),
)
MANY = settings(max_examples=150, deadline=None)


@MANY
@given(EVIDENCE)
def test_dispositions_add_up_and_every_key_is_there(found: Evidence) -> None:
    answer = decide(found, NOW)
    assert set(answer.dispositions) == {one.value for one in Disposition}
    assert sum(answer.dispositions.values()) == answer.population.size
    assert answer.population.live == answer.population.size - answer.dispositions["gone"]


@MANY
@given(EVIDENCE)
def test_the_verdict_follows_from_the_reasons_in_the_order_of_precedence(found: Evidence) -> None:
    answer = decide(found, NOW)
    standing = {reason.verdict for reason in answer.reasons if reason.code not in answer.accepting}
    expected = V.BLOCKED if V.BLOCKED in standing else V.UNKNOWN if V.UNKNOWN in standing else V.DRAINED
    assert answer.verdict is expected
    assert answer.exit_code == expected.exit_code
    if expected is V.DRAINED:
        assert not found.blocking
        assert answer.population.live > 0
        assert answer.valid_until is not None
        assert answer.valid_until >= NOW


def not_greener(before: Evidence, after: Evidence, later: timedelta = timedelta(0)) -> None:
    if verdict_of(before) is not V.DRAINED:
        assert verdict_of(after, NOW + later) is not V.DRAINED


@MANY
@given(EVIDENCE, st.sampled_from(BLOCKING))
def test_another_thread_that_needs_the_target_never_makes_it_drained(found: Evidence, blocking: Disposition) -> None:
    more = dict(found.dispositions) | {blocking: found.dispositions.get(blocking, 0) + 1}
    assert verdict_of(replace(found, dispositions=more)) is V.BLOCKED


@MANY
@given(EVIDENCE, AGES)
def test_time_alone_never_makes_it_drained(found: Evidence, later: timedelta) -> None:
    not_greener(found, found, later)


@MANY
@given(EVIDENCE, AGES)
def test_older_evidence_never_makes_it_drained(found: Evidence, older: timedelta) -> None:
    scan, sweep = found.complete_scan, found.complete_sweep
    assert scan is not None
    assert sweep is not None
    aged = replace(
        found,
        complete_scan=replace(scan, started_at=scan.started_at - older),
        complete_sweep=replace(sweep, started_at=sweep.started_at - older),
    )
    not_greener(found, aged)


@MANY
@given(EVIDENCE)
def test_a_sweep_that_did_not_see_everything_never_makes_it_drained(found: Evidence) -> None:
    assert verdict_of(replace(found, last_sweep=poll(99, state="incomplete"))) is not V.DRAINED
    assert verdict_of(replace(found, complete_scan=None)) is not V.DRAINED
    assert verdict_of(replace(found, complete_sweep=None)) is not V.DRAINED


@MANY
@given(EVIDENCE, st.sampled_from(["traces", "index"]))
def test_one_more_source_or_attestation_never_makes_it_drained(found: Evidence, source: str) -> None:
    assert verdict_of(replace(found, configured=found.configured | {source})) is not V.DRAINED
    policy = replace(found.spec.policy, attestations=("x",))
    assert verdict_of(replace(found, spec=replace(found.spec, policy=policy))) is not V.DRAINED
    assert verdict_of(replace(found, source=FAILED)) is not V.DRAINED


@MANY
@given(EVIDENCE, st.sampled_from(["traces", "index"]), st.booleans())
def test_a_source_that_is_taken_away_never_makes_it_drained(found: Evidence, source: str, required: bool) -> None:
    """Asked for by the settings or by the policy, and read no more."""
    with_it = found if required else replace(found, configured=found.configured | {source})
    policy = replace(found.spec.policy, require=("threads", source) if required else None)
    asked = replace(with_it, spec=replace(found.spec, policy=policy))
    assert verdict_of(replace(asked, traces=None, index=None)) is not V.DRAINED


@MANY
@given(EVIDENCE, AGES)
def test_max_age_can_only_tighten(found: Evidence, age: timedelta) -> None:
    not_greener(found, replace(found, max_age=age))


# -- soak -----------------------------------------------------------------------------------------------------------------


def advanced(before: SoakState, *, as_of: datetime = NOW, is_sweep: bool = True, **hits: bool) -> SoakState:
    deploy = hits.pop("deploy", False)
    flags = {"blocked": False, "arrivals": False} | hits
    touched_at = as_of if deploy else None
    return advance(before, touched_at=touched_at, is_sweep=is_sweep, as_of=as_of, policy_soak=(2, HOUR), **flags)


def test_the_first_sweep_that_finds_nothing_counts() -> None:
    assert advanced(SoakState()) == SoakState(NOW, 1)
    assert advanced(SoakState(), is_sweep=False) == SoakState(NOW, 0)


def test_sweeps_add_up_and_scans_do_not() -> None:
    assert advanced(SoakState(NOW - HOUR, 1)).sweeps == 2
    assert advanced(SoakState(NOW - HOUR, 1), is_sweep=False).sweeps == 1


def test_a_blocker_an_arrival_and_a_deploy_start_the_soak_anew() -> None:
    held = SoakState(NOW - 5 * HOUR, 5)
    assert advanced(held, blocked=True) == SoakState(None, 0)
    assert advanced(held, arrivals=True) == SoakState(NOW, 0, leaking_since=NOW)
    assert advanced(held, deploy=True) == SoakState(NOW, 1)


@pytest.mark.parametrize("hit", ["blocked", "arrivals"])
def test_a_hit_after_drained_is_a_regression_until_it_has_soaked_again(hit: str) -> None:
    state = advanced(SoakState(NOW - 5 * HOUR, 5, drained_at=NOW - HOUR), **{hit: True})
    assert state.regressed_since == NOW
    assert state.drained_at is None
    state = advanced(state, as_of=NOW + MINUTE)
    assert state.regressed_since == NOW
    state = advanced(state, as_of=NOW + 3 * HOUR)
    assert state.regressed_since is None


def test_a_deploy_alone_is_no_regression() -> None:
    assert advanced(SoakState(NOW - 5 * HOUR, 5, drained_at=NOW), deploy=True).regressed_since is None


@MANY
@given(
    st.lists(
        st.tuples(st.sampled_from(["", "blocked", "arrivals", "deploy"]), st.booleans(), st.integers(1, 90)),
        max_size=12,
    )
)
def test_nothing_is_drained_within_the_hold_of_the_last_hit(steps: list[tuple[str, bool, int]]) -> None:
    state, now, last_hit = SoakState(), NOW, NOW
    for hit, is_sweep, minutes in steps:
        now += minutes * MINUTE
        state = advanced(state, as_of=now, is_sweep=is_sweep, **({hit: True} if hit else {}))
        last_hit = now if hit else last_hit
        counts = {D.PARKED_AT_TARGET: 1} if hit == "blocked" else {D.UNAFFECTED: 1}
        seen = poll(started_at=now)
        found = evidence(soak=state, dispositions=counts, complete_scan=seen, complete_sweep=seen, last_sweep=seen)
        if verdict_of(found, now) is V.DRAINED:
            assert now - last_hit >= HOUR
            assert hit == ""


# -- sentences ------------------------------------------------------------------------------------------------------------

LEFTOVERS = re.compile(r"[{}]|None|\bnan\b|  |\.\.|timedelta|Disposition")
DETAILS: dict[str, Any] = {
    "targets": (NODE,),
    "max_age": 15 * MINUTE,
    "sweep_max_age": 24 * HOUR,
    "requests_per_minute": 1200,
    "source": FAILED,
    "deployment": "prod",
    "hold": HOUR,
    "soak": decide(evidence(), NOW).soak,
    "retry_after": 90,
    "now": NOW,
}
SPECIFIED = [
    "leaking",
    "regressed",
    "node_still_entered",
    "never_swept",
    "sweep_incomplete",
    "sweep_stale",
    "scan_stale",
    "source_failed",
    "threads_unread",
    "threads_unplaced",
    "idle_unverified",
    "half_step_unseen",
    "deferred_unseen",
    "running_unseen",
    "mass_disappearance",
    "canary_missing",
    "empty_population",
    "target_not_deployed",
    "fell_at_deploy",
    "traces_silent",
    "traces_sampled",
    "traces_window_short",
    "traces_incomplete",
    "traces_stale",
    "index_only",
    "index_stale",
    "intake_unseen",
    "history_unseen",
    "attestation_missing",
    "phase_not_observing",
    "drain_closed",
    "soaking",
    "not_evaluated",
]
NOT_YET = {
    "node_still_entered",
    "traces_silent",
    "traces_sampled",
    "traces_window_short",
    "traces_incomplete",
    "traces_stale",
    "index_only",
    "index_stale",
    "history_unseen",
    "attestation_missing",
}
ONE = re.compile(r"\b1 thread (still |that )?(are|wait|hold|have|belong|declare|were|fail)\b")
PLURAL_LEFT = re.compile(r"\b(1 (complete )?(threads|sweeps|polls)|[02-9] thread\b)")
IT_AND_THEM = re.compile(r"^1 thread .*\b(them|they|They|each)\b")


def is_a_sentence(text: str) -> None:
    assert text
    assert not LEFTOVERS.search(text), text
    assert text[-1] in ".?!", text
    assert not PLURAL_LEFT.search(text), text


@pytest.mark.parametrize(
    ("found", "count", "targets"),
    list(product(BLOCKING, [1, 2, 1234], [[], [NODE], [NODE, "a->b"], ["a", "b", "v>=2"]])),
)
def test_every_blocking_disposition_has_a_sentence(found: Disposition, count: int, targets: list[str]) -> None:
    text = blocked_sentence(found, count, targets)
    is_a_sentence(text)
    assert text.startswith("1 thread " if count == 1 else f"{count:,} threads ")
    if count == 1:
        assert not ONE.search(text), text


@pytest.mark.parametrize("count", [None, 0, 1, 2])
@pytest.mark.parametrize("code", [code for code in SPECIFIED if code not in NOT_YET])
def test_every_reason_code_has_a_sentence(code: str, count: int | None) -> None:
    text = unknown_sentence(code, count=count, part="traces", **DETAILS)
    is_a_sentence(text)
    assert not text.startswith("Not known")
    if count == 1:
        assert not ONE.search(text), text


def test_one_thread_is_it_and_not_them() -> None:
    said = [blocked_sentence(found, 1, [NODE]) for found in BLOCKING]
    said += [unknown_sentence(code, count=1, **DETAILS) for code in SPECIFIED if code not in NOT_YET]
    assert [text for text in said if IT_AND_THEM.search(text)] == []


def test_one_thread_waits() -> None:
    assert blocked_sentence(D.PARKED_AT_TARGET, 1, [NODE]) == "1 thread still waits at `await_approval`."
    assert blocked_sentence(D.PARKED_AT_TARGET, 2, [NODE]) == "2 threads still wait at `await_approval`."


@MANY
@given(
    EVIDENCE,
    st.sampled_from(["observing", "additive", "closed", "removing"]),
    st.booleans(),
    st.sampled_from([(target(),), (RENAME_TARGET, VERSION_TARGET), (target(), target("erase", "x"))]),
)
def test_every_answer_can_be_said(found: Evidence, phase: str, blockers: bool, targets: Any) -> None:
    oldest = OldestBlocker("t", "parked_at_target", NOW - 30 * HOUR) if blockers else None
    found = replace(found, spec=replace(found.spec, phase=phase, targets=targets), oldest=oldest)
    answer = decide(found, NOW)
    said = [
        answer.headline,
        answer.next_step,
        *(reason.sentence for reason in answer.reasons),
        *(check.sentence for check in answer.checks),
    ]
    for text in said:
        if text:
            is_a_sentence(text)
    assert all(isinstance(reason, Reason) and reason.sentence for reason in answer.reasons)
    assert all(check.sentence for check in answer.checks)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(minutes=1), "1 min"),
        (timedelta(minutes=80), "1 h 20 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(hours=52), "2 d 4 h"),
        (timedelta(days=3), "3 d"),
        (timedelta(seconds=-5), "0 s"),
    ],
)
def test_spans(length: timedelta, text: str) -> None:
    assert span(length) == text


def test_names_are_listed_as_people_do() -> None:
    assert names([]) == "the target"
    assert names(["a"]) == "`a`"
    assert names(["a", "b", "c"]) == "`a`, `b` and `c`"
    assert names(["old->new"]) == "`old` → `new`"
    assert names(["v>=2"]) == "`v` ≥ `2`"


def test_a_spec_survives_json_and_asks_for_the_same() -> None:
    made = spec(
        target(),
        RENAME_TARGET,
        VERSION_TARGET,
        policy={"accept": ("idle_unverified",), "retention_idle_for": 90 * HOUR, "require": ("threads",)},
        created_before=NOW,
        intake_closed_at=NOW,
        metadata={"region": "eu"},
        newest_versions={"v": 3},
    )
    again = from_json(to_json(made))
    assert again == made
    assert again.criteria_digest() == made.criteria_digest()


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"owner": "x"}, True),
        ({"phase": "removing"}, True),
        ({"graph": "x"}, False),
        ({"targets": (RENAME_TARGET,)}, False),
        ({"metadata": {"a": "b"}}, False),
    ],
)
def test_owner_and_phase_change_no_criterion(change: dict[str, Any], same: bool) -> None:
    assert (replace(spec(), **change).criteria_digest() == spec().criteria_digest()) is same
