"""From evidence to a verdict (design §4.3). Pure: the same evidence and the same ``now`` give the same answer.

Anything that blocks: ``blocked``. Otherwise any proof that is missing: ``unknown``. Otherwise ``drained``. What an
implementation cannot check yet is ``not_evaluated``, which is unknown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from app.clock import is_too_old
from app.drains.answers import Answer, Check, MustAct, OldestBlocker, Population, Reason, Soak, TargetAnswer, Verdict
from app.drains.dispositions import Disposition
from app.drains.index import IndexEvidence
from app.drains.sentences import blocked_sentence, headline, names, next_step, threads, unknown_sentence
from app.drains.spec import DrainSpec, Target
from app.drains.traces import TraceEvidence
from app.durations import span
from app.inventory.views import PollSummary, Said, SourceStatus


@dataclass(frozen=True, slots=True)
class SoakState:
    """What is remembered of a drain between polls.

    ``holds_since``: since when nothing has blocked, been entered, or been touched by a deploy. ``sweeps``: complete sweeps
    since then. ``regressed_since``: a hit after a verdict of drained, until it has soaked again. ``removed``: when each
    target, by its key, was removed while the drain was drained. ``fell_at``: when threads stopped needing the target while a deploy
    touched it or it was not deployed, which is no progress until somebody explains it. ``leaking_since``: when a thread that
    was created after intake closed entered, until it has soaked without another.
    """

    holds_since: datetime | None = None
    sweeps: int = 0
    regressed_since: datetime | None = None
    drained_at: datetime | None = None
    removed: Mapping[str, datetime] = field(default_factory=dict)
    fell_at: datetime | None = None
    leaking_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a verdict stands on.

    ``last_sweep`` is the newest finished sweep, ``complete_sweep`` the newest complete one, ``complete_scan`` the newest
    complete poll of either kind. ``dispositions`` add up to the population; ``by_target`` counts blocking ones only;
    ``unknowns`` counts unknown threads by reason code. ``deployed``: per target, by its key. ``leaks``: threads created after
    intake closed that entered a target since ``leaking_since``; ``fresh_leaks``: those that no poll has recorded yet.
    ``intake_is_open``: it closes in the future only. ``graph_was_seen``: some revision of the graph is known.
    ``of_graph``: live threads that name a graph. ``intake_unseen``: threads created since then that nothing
    shows not to have entered. ``unread_elsewhere``: idle threads that last ran under another graph, whose head, which may
    be this graph's, was not read yet. ``unsettled``: threads whose acknowledgement has run out since the last poll.
    ``other_server_at``: when another server, or key, began to be asked than before (in the future: it was not yet).
    ``erased_poll``: the newest poll when a thread was last erased, which a sweep must follow; 0: none was.
    ``attested``: the attestations that somebody has ticked. ``said``: waivers and acknowledgements that count now.
    """

    spec: DrainSpec
    criteria_version: int
    soak: SoakState
    source: SourceStatus
    last_sweep: PollSummary | None
    complete_sweep: PollSummary | None
    complete_scan: PollSummary | None
    dispositions: Mapping[Disposition, int]
    by_target: Mapping[str, Mapping[Disposition, int]]
    unknowns: Mapping[str, int]
    deployed: Mapping[str, bool | None]
    leaks: int
    fresh_leaks: int
    intake_is_open: bool
    intake_unseen: int
    graph_was_seen: bool
    of_graph: int
    unread_elsewhere: int
    unsettled: int
    attested: Mapping[str, datetime | None]
    said: tuple[Said, ...]
    alarms: Mapping[str, int | None]
    oldest: OldestBlocker | None
    must_act: tuple[MustAct, ...]
    configured: frozenset[str]
    poll_interval: timedelta
    sweep_interval: timedelta
    requests_per_minute: int
    max_age: timedelta | None = None
    traces: TraceEvidence | None = None
    index: IndexEvidence | None = None
    other_server_at: datetime | None = None
    erased_poll: int = 0

    @property
    def effective_max_age(self) -> timedelta:
        """The policy's, or what the caller asked for if that is tighter."""
        policy = self.spec.policy.max_age
        return policy if self.max_age is None else min(policy, self.max_age)

    @property
    def not_attested(self) -> tuple[str, ...]:
        """Attestations that the policy asks for and nobody has ticked."""
        return tuple(name for name in self.spec.policy.attestations if name not in self.attested)

    @property
    def missing(self) -> tuple[Target, ...]:
        """Targets that are not deployed and were not removed while the drain was drained, so that nobody sees who still
        needs them. A field that is to be stored nowhere may still be sent after it was removed."""
        return tuple(
            target
            for target in self.spec.targets
            if self.deployed.get(target.key) is not True
            and (target.key not in self.soak.removed or target.kind == "erase")
        )

    @property
    def size(self) -> int:
        """All threads of the population, excluded ones included."""
        return sum(self.dispositions.values())

    @property
    def blocking(self) -> int:
        """Threads that block."""
        return sum(count for found, count in self.dispositions.items() if found.group == "blocking")

    @property
    def as_of(self) -> datetime | None:
        """How old the newest complete look is."""
        return self.complete_scan.started_at if self.complete_scan else None


def decide(evidence: Evidence, now: datetime) -> Answer:
    """The verdict now, with its reasons, checks and sentences."""
    spec = evidence.spec
    reasons = _closed(evidence) if spec.phase == "closed" else _all_reasons(evidence, now)
    accepted = {reason.code for reason in reasons if _is_accepted(reason, spec)}
    standing = [reason for reason in reasons if reason.code not in accepted]
    verdict = _verdict(standing)
    soaking = any(reason.code in ("soaking", "leaking", "regressed") for reason in standing)
    answer = Answer(
        drain=spec.name,
        deployment=spec.deployment,
        graph=spec.graph,
        owner=spec.owner,
        phase=spec.phase,
        verdict=verdict,
        exit_code=verdict.exit_code,
        headline="",
        next_step=None,
        accepting=tuple(sorted(accepted)),
        reasons=tuple(reasons),
        checks=(),
        population=_population(evidence),
        dispositions={found.value: evidence.dispositions.get(found, 0) for found in Disposition},
        targets=tuple(_targets(evidence)),
        sources=(_threads_source(evidence, now), *_other_sources(evidence, now)),
        soak=_soak(evidence),
        retry_after_seconds=_retry_after(evidence) if soaking and not evidence.blocking else None,
        valid_until=_valid_until(evidence) if verdict is Verdict.DRAINED else None,
        oldest=evidence.oldest,
        must_act=evidence.must_act,
        waivers=evidence.said,
        criteria_version=evidence.criteria_version,
        evaluated_at=now,
    )
    answer = replace(answer, checks=tuple(_checks(evidence, standing, now)))
    return replace(answer, headline=headline(answer, now), next_step=next_step(answer))


def _closed(evidence: Evidence) -> list[Reason]:
    """A closed drain is not asked any more, whatever is known of its threads."""
    sentence = unknown_sentence("drain_closed", count=None)
    return [Reason("drain_closed", Verdict.UNKNOWN, None, "threads", evidence.as_of, sentence)]


def _all_reasons(evidence: Evidence, now: datetime) -> list[Reason]:
    beside = list(_beside(evidence, now))
    return [
        *_blocked(evidence),
        *(reason for reason in beside if reason.verdict is Verdict.BLOCKED),
        *_unknown(evidence, now),
        *(reason for reason in beside if reason.verdict is Verdict.UNKNOWN),
    ]


def _verdict(standing: list[Reason]) -> Verdict:
    found = {reason.verdict for reason in standing}
    if Verdict.BLOCKED in found:
        return Verdict.BLOCKED
    return Verdict.UNKNOWN if Verdict.UNKNOWN in found else Verdict.DRAINED


ACCEPTABLE = frozenset(
    {"idle_unverified", "intake_unseen", "half_step_unseen", "deferred_unseen", "traces_sampled", "history_unseen"}
)


def _is_accepted(reason: Reason, spec: DrainSpec) -> bool:
    return reason.verdict is Verdict.UNKNOWN and reason.code in ACCEPTABLE and reason.code in spec.policy.accept


# -- what blocks ---------------------------------------------------------------------------------------------------


def _blocked(evidence: Evidence) -> Iterator[Reason]:
    for found in Disposition:
        count = evidence.dispositions.get(found, 0)
        if found.group == "blocking" and count:
            targets = [
                target.label for target in evidence.spec.targets if evidence.by_target.get(target.key, {}).get(found)
            ]
            yield Reason(
                code=found.value,
                verdict=Verdict.BLOCKED,
                count=count,
                source="threads",
                as_of=evidence.as_of,
                sentence=blocked_sentence(found, count, targets),
                threads=f"/api/v1/drains/{evidence.spec.name}/threads?disposition={found.value}",
            )
    soaked = _hold_reached(evidence) and evidence.soak.sweeps >= evidence.spec.policy.soak_sweeps
    if evidence.fresh_leaks or (evidence.leaks and not soaked):
        yield _block(evidence, "leaking", evidence.leaks + evidence.fresh_leaks)
    if evidence.soak.regressed_since is not None and not soaked:
        yield _block(evidence, "regressed", None)


def _block(evidence: Evidence, code: str, count: int | None) -> Reason:
    sentence = unknown_sentence(code, count=count, targets=evidence.spec.nodes)
    return Reason(code, Verdict.BLOCKED, count, "threads", evidence.as_of, sentence)


# -- what is not known ---------------------------------------------------------------------------------------------


def _unknown(evidence: Evidence, now: datetime) -> Iterator[Reason]:
    details = {
        "targets": [target.label for target in evidence.missing or evidence.spec.targets],
        "names": evidence.not_attested,
        "max_age": evidence.effective_max_age,
        "sweep_max_age": evidence.spec.policy.sweep_max_age,
        "requests_per_minute": evidence.requests_per_minute,
        "source": evidence.source,
        "deployment": evidence.spec.deployment,
        "hold": evidence.spec.policy.soak_hold,
        "soak": _soak(evidence),
        "now": now,
    }
    for code, count in (*_phase(evidence), *_proofs(evidence, now)):
        sentence = unknown_sentence(code.partition(":")[0], count=count, part=code.partition(":")[2], **details)
        link = f"/api/v1/drains/{evidence.spec.name}/threads?reason={code}" if code in evidence.unknowns else None
        yield Reason(code.partition(":")[0], Verdict.UNKNOWN, count, "threads", evidence.as_of, sentence, link)


def _beside(evidence: Evidence, now: datetime) -> Iterator[Reason]:
    """What the other sources say. Their silence alone never makes a verdict green."""
    if evidence.traces is not None:
        yield from evidence.traces.reasons(now)
    if evidence.index is not None:
        yield from evidence.index.reasons(now)


def _phase(evidence: Evidence) -> Iterator[tuple[str, int | None]]:
    if evidence.spec.phase == "additive":
        yield "phase_not_observing", None


def _proofs(evidence: Evidence, now: datetime) -> Iterator[tuple[str, int | None]]:
    """Reason codes of what is missing, each with its count. ``not_evaluated:PART`` names the part."""
    yield from _freshness(evidence, now)
    for code in ("mass_disappearance", "canary_missing"):
        if code in evidence.alarms:
            yield code, evidence.alarms[code]
    live = evidence.size - evidence.dispositions.get(Disposition.GONE, 0)
    if evidence.complete_sweep is not None and min(live, evidence.of_graph) <= 0:
        yield "empty_population", evidence.size
    yield from _unknown_threads(evidence)
    yield from _unseen_targets(evidence)
    if evidence.soak.fell_at is not None:
        yield "fell_at_deploy", None
    for part in sorted(_not_evaluated(evidence)):
        yield f"not_evaluated:{part}", None
    if evidence.not_attested:
        yield "attestation_missing", len(evidence.not_attested)
    if evidence.intake_unseen:
        yield "intake_unseen", evidence.intake_unseen
    if not evidence.blocking and not (
        _hold_reached(evidence) and evidence.soak.sweeps >= evidence.spec.policy.soak_sweeps
    ):
        yield "soaking", None


def _unknown_threads(evidence: Evidence) -> Iterator[tuple[str, int | None]]:
    yield from sorted((code, count) for code, count in evidence.unknowns.items() if count)
    if evidence.unsettled:
        yield "threads_unread:acknowledged", evidence.unsettled
    if evidence.unread_elsewhere:
        yield "idle_unverified:elsewhere", evidence.unread_elsewhere


def _unseen_targets(evidence: Evidence) -> Iterator[tuple[str, int | None]]:
    if evidence.missing or not evidence.graph_was_seen:
        is_field = bool(evidence.missing) and all(target.kind != "node" for target in evidence.missing)
        yield ("target_not_deployed:field" if is_field else "target_not_deployed"), None
    if evidence.intake_is_open:
        yield "phase_not_observing:future", None


def _freshness(evidence: Evidence, now: datetime) -> Iterator[tuple[str, int | None]]:
    if evidence.source.status == "failed":
        yield "source_failed", None
    if evidence.complete_sweep is None:
        yield ("never_swept" if evidence.last_sweep is None else "sweep_incomplete"), None
        return
    if evidence.last_sweep is not None and evidence.last_sweep.id != evidence.complete_sweep.id:
        yield "sweep_incomplete", None
    elif evidence.other_server_at is not None and evidence.complete_sweep.started_at < evidence.other_server_at:
        yield "sweep_incomplete:server", None
    elif evidence.complete_sweep.id <= evidence.erased_poll:
        yield "sweep_incomplete:erased", None
    if is_too_old(evidence.complete_sweep.started_at, evidence.spec.policy.sweep_max_age, now):
        yield "sweep_stale", None
    if evidence.complete_scan is None or is_too_old(evidence.complete_scan.started_at, evidence.effective_max_age, now):
        yield "scan_stale", None


def _not_evaluated(evidence: Evidence) -> set[str]:
    """Proofs that this drain asks for and this version cannot check."""
    required = evidence.spec.policy.require
    asked = evidence.configured if required is None else evidence.configured | set(required)
    read = {"traces": evidence.traces, "index": evidence.index}
    return {source for source, found in read.items() if source in asked and found is None}


# -- the rest of the answer ----------------------------------------------------------------------------------------


def _population(evidence: Evidence) -> Population:
    return Population(
        definition=evidence.spec.definition,
        size=evidence.size,
        live=evidence.size - evidence.dispositions.get(Disposition.GONE, 0),
        as_of=evidence.as_of,
        poll=evidence.complete_scan.id if evidence.complete_scan else None,
    )


def _targets(evidence: Evidence) -> Iterator[TargetAnswer]:
    for target in evidence.spec.targets:
        counts: Mapping[Disposition, int] = evidence.by_target.get(target.key, {})
        blocking = {found.value: counts[found] for found in Disposition if counts.get(found)}
        deployed = evidence.deployed.get(target.key)
        yield TargetAnswer(target.kind, target.label, deployed, sum(blocking.values()), blocking)


def _threads_source(evidence: Evidence, now: datetime) -> SourceStatus:
    """The source as this drain sees it: stale by its own policy."""
    stale = {"sweep_stale", "scan_stale"} & {code for code, _ in _freshness(evidence, now)}
    if evidence.source.status == "complete" and stale:
        return replace(evidence.source, status="stale")
    return evidence.source


def _other_sources(evidence: Evidence, now: datetime) -> Iterator[SourceStatus]:
    missing = _not_evaluated(evidence)
    for name, found in (("traces", evidence.traces), ("index", evidence.index)):
        unread = SourceStatus(name, "not_evaluated" if name in missing else "not_configured")
        yield unread if found is None else found.status(now)


def _soak(evidence: Evidence) -> Soak:
    policy = evidence.spec.policy
    return Soak(
        sweeps=min(evidence.soak.sweeps, policy.soak_sweeps),
        required_sweeps=policy.soak_sweeps,
        holds_since=None if evidence.blocking else evidence.soak.holds_since,
        required_hold_seconds=int(policy.soak_hold.total_seconds()),
    )


def _held(evidence: Evidence) -> timedelta:
    """How long it has held, as far as anybody has looked."""
    if evidence.blocking or evidence.soak.holds_since is None or evidence.as_of is None:
        return timedelta(0)
    return max(timedelta(0), evidence.as_of - evidence.soak.holds_since)


def _hold_reached(evidence: Evidence) -> bool:
    holds = not evidence.blocking and evidence.soak.holds_since is not None
    return holds and _held(evidence) >= evidence.spec.policy.soak_hold


def _retry_after(evidence: Evidence) -> int:
    """Seconds after which asking again makes sense: the rest of the hold and of the sweeps, and a poll to see it."""
    hold = evidence.spec.policy.soak_hold - _held(evidence)
    sweeps = evidence.spec.policy.soak_sweeps - evidence.soak.sweeps
    wait = max(hold, sweeps * evidence.sweep_interval, timedelta(0)) + evidence.poll_interval
    return max(1, int(wait.total_seconds()))


def _valid_until(evidence: Evidence) -> datetime | None:
    """When the verdict would end by itself: evidence that grows old, or something that a person said until then."""
    if evidence.complete_sweep is None or evidence.complete_scan is None:
        return None
    ends = [said.until for said in evidence.said] + list(evidence.attested.values())
    ends += [found.valid_until for found in (evidence.traces, evidence.index) if found is not None]
    return min(
        evidence.complete_sweep.started_at + evidence.spec.policy.sweep_max_age,
        evidence.complete_scan.started_at + evidence.effective_max_age,
        *(end for end in ends if end is not None),
    )


def _checks(evidence: Evidence, standing: list[Reason], now: datetime) -> Iterator[Check]:
    """The checklist, in the order in which a person would ask."""
    codes = {reason.code: reason for reason in standing if reason.source == "threads"}

    def check(name: str, among: tuple[str, ...], passed: str, as_of: datetime | None = evidence.as_of) -> Check:
        hits = [codes[code] for code in among if code in codes]
        if not hits:
            return Check(name, "pass", passed, as_of)
        blocks = any(hit.verdict is Verdict.BLOCKED for hit in hits)
        return Check(name, "fail" if blocks else "unknown", " ".join(hit.sentence for hit in hits), as_of)

    sweep = evidence.complete_sweep
    looked = (
        f"{threads(evidence.size)} looked at, the last complete sweep {span(now - sweep.started_at)} ago."
        if sweep
        else ""
    )
    fresh = ("source_failed", "never_swept", "sweep_incomplete", "sweep_stale", "scan_stale")
    yield check("complete sweep", (*fresh, "mass_disappearance", "canary_missing"), looked)
    how_many = f"{evidence.blocking:,} of {threads(evidence.size)} block."
    yield Check("nothing blocks", "fail" if evidence.blocking else "pass", how_many, evidence.as_of)
    unknown = (*sorted({*evidence.unknowns, "idle_unverified", "threads_unread"}), "empty_population")
    yield check("nothing unknown", unknown, "Every thread could be judged.")
    yield check("target deployed", ("target_not_deployed",), _deployed_sentence(evidence))
    for source, found in (("traces", evidence.traces), ("index", evidence.index)):
        if found is not None:
            yield found.check(now)
        elif source in _not_evaluated(evidence):
            yield Check(source, "unknown", unknown_sentence("not_evaluated", count=None, part=source))
        else:
            yield Check(source, "not_needed", "Not configured for this deployment.")
    yield check("intake closed", ("leaking", "intake_unseen", "phase_not_observing"), "No new thread entered.")
    yield (
        check("soak", ("soaking", "regressed", "fell_at_deploy"), _soak_sentence(evidence))
        if not evidence.blocking
        else Check("soak", "not_needed", "Starts when nothing blocks.")
    )
    if evidence.spec.policy.attestations:
        yield check(
            "attestations", ("attestation_missing",), f"Ticked: {', '.join(evidence.spec.policy.attestations)}."
        )


def _deployed_sentence(evidence: Evidence) -> str:
    gone = [target.label for target in evidence.spec.targets if target.key in evidence.soak.removed]
    if gone:
        return f"{names(gone)} went while this drain was drained."
    return "Deployed now, so that pending work shows."


def _soak_sentence(evidence: Evidence) -> str:
    """Counts the sweeps that were asked for, as the headline does, and not those that came after."""
    sweeps = min(evidence.soak.sweeps, evidence.spec.policy.soak_sweeps)
    return f"Held for {span(_held(evidence))} over {sweeps} complete sweep{'' if sweeps == 1 else 's'}."


def advance(
    before: SoakState,
    *,
    blocked: bool,
    arrivals: bool,
    touched_at: datetime | None,
    is_sweep: bool,
    as_of: datetime,
    policy_soak: tuple[int, timedelta],
) -> SoakState:
    """The soak after one complete poll. A blocker, an arrival or a deploy that touches the target starts it anew."""
    if blocked or arrivals:
        hit = after_a_hit(before, arrivals=arrivals, as_of=as_of)
        return hit if blocked else replace(hit, holds_since=as_of)  # the sweep that finds a leak found something
    if before.holds_since is None or touched_at is not None:
        start = as_of if touched_at is None else max(as_of, touched_at)
        return replace(before, holds_since=start, sweeps=int(is_sweep))
    after = replace(before, sweeps=before.sweeps + int(is_sweep))
    required, hold = policy_soak
    if after.sweeps >= required and as_of - before.holds_since >= hold:
        return replace(after, regressed_since=None, leaking_since=None)
    return after


def after_a_hit(before: SoakState, *, arrivals: bool, as_of: datetime) -> SoakState:
    """The soak after something that blocks, or a new thread that entered, was seen: by any poll, complete or not. A hit
    after a verdict of drained is a regression."""
    return replace(
        before,
        holds_since=None,
        sweeps=0,
        regressed_since=as_of if before.drained_at is not None else before.regressed_since,
        drained_at=None,
        leaking_since=(before.leaking_since or as_of) if arrivals else before.leaking_since,
    )
