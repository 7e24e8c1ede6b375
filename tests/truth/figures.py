"""What the machine counts: how much it did, what the product said, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


def _words(text: str) -> list[str]:
    return text.split()


DISPOSITIONS = _words("""
    gone waived acknowledged retention graph_missing unreadable stranded lost parked_at_target
    failed_at_target running_at_target scheduled_at_target conflict holds_old_field wrong_kind bad_version
    old_version future_version unread unplaced may_hold_target running_unseen presumed migrated passed
    neither_field unaffected
""")
"""Of design §4.2, in its order; an answer must have every key."""

CONDITIONS = _words("""
    gone graph_missing unreadable unread running scheduled never_ran lost stranded unplaced failed parked
    half_step presumed_settled settled
""")
DEPARTURES = _words("""
    deleted forked abandoned overridden completed lost unexplained
""")
CLEAR = ("migrated", "passed", "neither_field", "unaffected")
AT_TARGET = ("stranded", "lost", "parked_at_target", "failed_at_target", "running_at_target", "scheduled_at_target")

REASONS = [*DISPOSITIONS[4:18]]
REASONS += _words("""
    leaking regressed node_still_entered never_swept sweep_incomplete sweep_stale scan_stale source_failed
    threads_unread threads_unplaced idle_unverified half_step_unseen deferred_unseen running_unseen
    mass_disappearance canary_missing empty_population target_not_deployed fell_at_deploy traces_silent
    traces_sampled traces_window_short traces_incomplete traces_stale index_only index_stale intake_unseen
    history_unseen attestation_missing phase_not_observing drain_closed soaking not_evaluated
""")
"""Of design §4.4, in its order."""

_NO_TRACES = "the machine's product has no tracing project"
_NO_INDEX = "the machine's product has no thread index"
CANNOT_BE_MADE: Mapping[str, str] = {
    "canary_missing": "a server in memory lists every thread that it answers by id",
    "node_still_entered": _NO_TRACES,
    **dict.fromkeys((name for name in REASONS if name.startswith("traces_")), _NO_TRACES),
    **dict.fromkeys((name for name in REASONS if name.startswith("index_")), _NO_INDEX),
    "not_evaluated": "no source is asked for that is not there",
}
"""What the machine does not do, and why."""


@dataclass(frozen=True)
class Lie:
    """Something that the product said and that is not so."""

    kind: str
    history: str
    what: str


@dataclass
class Figures:
    """Of one run of the machine, over all its sessions."""

    histories: int = 0
    steps: int = 0
    polls: int = 0
    incomplete: int = 0
    deploys: int = 0
    kills: int = 0
    forgotten: int = 0
    restarts: int = 0
    threads: int = 0
    checks: int = 0
    drained_answers: int = 0
    drains: int = 0
    drains_needed: int = 0
    drains_drained: int = 0
    needed_and_drained: int = 0
    histories_needed: set[str] = field(default_factory=set)
    histories_drained: set[str] = field(default_factory=set)
    lies: list[Lie] = field(default_factory=list)
    conditions: Counter[str] = field(default_factory=Counter)
    departures: Counter[str] = field(default_factory=Counter)
    dispositions: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    alarms: Counter[str] = field(default_factory=Counter)
    held_back: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)
    steps_by: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    caught: dict[str, set[str]] = field(default_factory=dict)

    @property
    def false_drained(self) -> int:
        """How often it said `drained` although something would be lost."""
        return sum(lie.kind == "false drained" for lie in self.lies)

    def never_seen(self) -> list[str]:
        """What can be made and did not occur."""
        wanted = (
            (CONDITIONS, self.conditions),
            (DEPARTURES, self.departures),
            (DISPOSITIONS, self.dispositions),
            (REASONS, self.reasons),
        )
        return sorted({name for names, seen in wanted for name in names if not seen[name]} - set(CANNOT_BE_MADE))

    def report(self) -> str:
        """The figures and the table, for people."""
        shown = {
            "histories": self.histories,
            "in which a thread needed the target of a drain": len(self.histories_needed),
            "that ended with a drain drained, of a target that a thread had needed": len(self.histories_drained),
            "threads": self.threads,
            "steps": self.steps,
            "deploys": self.deploys,
            "kills of the server": self.kills,
            "threads of which a killed server forgot something": self.forgotten,
            "restarts of the product": self.restarts,
            "polls": self.polls,
            "of them incomplete": self.incomplete,
            "answers checked": self.checks,
            "answers `drained`": self.drained_answers,
            "drains": self.drains,
            "drains whose target a thread had needed": self.drains_needed,
            "of them drained at the end": self.needed_and_drained,
            "all drains drained at the end": self.drains_drained,
            "false drained": self.false_drained,
            "other lies": len(self.lies) - self.false_drained,
        }
        lines = [f"{value:>8,}  {name}" for name, value in shown.items()]
        for title, names, seen in (
            ("Conditions (threads after a poll)", CONDITIONS, self.conditions),
            ("Departures", DEPARTURES, self.departures),
            ("Dispositions (threads in an answer)", DISPOSITIONS, self.dispositions),
            ("Reasons (answers)", [*REASONS, *sorted(set(self.reasons) - set(REASONS))], self.reasons),
            ("Alarms (after a poll)", sorted(self.alarms), self.alarms),
            ("What held a drain that nothing needed, at the end", sorted(self.held_back), self.held_back),
            ("Shapes", sorted(self.shapes), self.shapes),
            ("Steps", sorted(self.steps_by), self.steps_by),
            ("Deeds", sorted(self.deeds), self.deeds),
            ("What people said", sorted(self.said), self.said),
        ):
            lines += ["", title, *_rows(names, seen)]
        lines += ["", f"Never seen: {', '.join(self.never_seen()) or 'nothing that can be made'}"]
        for name, histories in sorted(self.caught.items()):
            lines.append(f"Mutation {name!r} caught in {len(histories)} histories")
        return "\n".join(lines)


def _rows(names: Iterable[str], seen: Counter[str]) -> list[str]:
    return [f"{seen[name]:>8,}  {name}{_why_never(name)}" for name in names]


def _why_never(name: str) -> str:
    return f"  (cannot be made: {CANNOT_BE_MADE[name]})" if name in CANNOT_BE_MADE else ""
