"""What a preflight answers: frozen dataclasses, the same for page, JSON and command line. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.drains.preflight import Change, ChangeKind
from app.drains.preflight_outcomes import Outcome
from app.drains.sentences import threads

EXIT_CODES: Mapping[str, int] = {"safe": 0, "blocked": 1, "unknown": 2}
_ORDER = tuple(Outcome)


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """One change with one outcome. ``count``: the threads that it touches so; ``threads``: the API path of them, or of a list
    that has them all; ``examples``: some of their ids. ``renamed_to``: a suggestion."""

    kind: str
    graph: str
    name: str
    outcome: str
    count: int
    sentence: str
    renamed_to: str | None = None
    threads: str | None = None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreflightReason:
    """Why it is not known, beside what the changes say."""

    code: str
    sentence: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class PreflightAnswer:
    """Would this candidate break a live thread? ``verdict``: safe, blocked or unknown. ``changes``: the worst first.
    ``drains``: what to drain first, as one would write it."""

    deployment: str
    environment: str | None
    verdict: str
    exit_code: int
    headline: str
    as_of: datetime | None
    evaluated_at: datetime
    changes: tuple[ChangeAnswer, ...]
    reasons: tuple[PreflightReason, ...]
    drains: tuple[dict[str, Any], ...]
    opened: tuple[str, ...] = ()


def verdict_of(changes: Iterable[ChangeAnswer], reasons: Sequence[PreflightReason]) -> str:
    """Whatever is known to break: blocked. Otherwise whatever is not known: unknown."""
    outcomes = {Outcome(change.outcome) for change in changes}
    if any(outcome.breaks for outcome in outcomes):
        return "blocked"
    return "unknown" if reasons or outcomes - {Outcome.SAFE} else "safe"


def by_weight(changes: Iterable[ChangeAnswer]) -> tuple[ChangeAnswer, ...]:
    """The worst first."""
    return tuple(sorted(changes, key=lambda one: (_ORDER.index(Outcome(one.outcome)), one.graph, one.name, one.kind)))


def headline(verdict: str, changes: Sequence[ChangeAnswer], reasons: Sequence[PreflightReason]) -> str:
    """One sentence."""
    if verdict == "safe":
        listed = (
            f"{len(changes)} change{'s' if len(changes) != 1 else ''}, none of which" if changes else "Nothing that"
        )
        return f"{listed} touches a live thread."
    if verdict == "blocked":
        worst = [change for change in changes if Outcome(change.outcome).breaks]
        more = f" And {len(worst) - 1} more." if len(worst) > 1 else ""
        return worst[0].sentence + more
    return reasons[0].sentence if reasons else next(one.sentence for one in changes if one.outcome != Outcome.SAFE)


# -- sentences -------------------------------------------------------------------------------------------------------

_WHAT: Mapping[ChangeKind, str] = {
    ChangeKind.GRAPH_REMOVED: "The graph `{name}` is not in the candidate",
    ChangeKind.GRAPH_ADDED: "The graph `{name}` is new",
    ChangeKind.NODE_REMOVED: "The node `{name}` is not in the candidate",
    ChangeKind.NODE_ADDED: "The node `{name}` is new",
    ChangeKind.NODE_DEFERRED: "The node `{name}` becomes deferred, which stores its trigger in another form",
    ChangeKind.NODE_NOT_DEFERRED: "The node `{name}` is deferred no more",
    ChangeKind.JOIN_CHANGED: "The node `{name}` waits for other nodes than before",
    ChangeKind.JOIN_UNSEEN: "Whether the deployed node `{name}` waits for all that lead to it is not known",
    ChangeKind.FIELD_REMOVED: "The field `{name}` is not in the candidate",
    ChangeKind.FIELD_ADDED: "The field `{name}` is new",
    ChangeKind.FIELD_REQUIRED: "The field `{name}` is required",
    ChangeKind.FIELD_RETYPED: "The field `{name}` takes other values than before",
    ChangeKind.INNER_FIELD_CHANGED: "The field `{name}` of a subgraph is another in the candidate, or not there",
    ChangeKind.INNER_FIELDS_UNSEEN: "The fields of the deployed subgraph `{name}` are not known",
    ChangeKind.INNER_CHECKS_UNSEEN: "Which nodes of the deployed subgraph `{name}` check what they are given is not known",
    ChangeKind.BREAKPOINT_CHANGED: "The graph stops at `{name}` where it did not, or no more",
    ChangeKind.TASKS_CHANGED: "The entrypoint `{name}` calls other tasks, or in another order",
    ChangeKind.TASKS_UNSEEN: "What the entrypoint `{name}` calls is not known of the deployed one",
    ChangeKind.GRAPH_UNREADABLE: "The deployed graph `{name}` cannot be drawn",
}
_SAFE = "no live thread needs what changes."
_SO: Mapping[Outcome, str] = {
    Outcome.WOULD_STRAND: "{n} waiting there would be stranded: an answer given after the deploy is lost.",
    Outcome.WOULD_DROP_SEND: "{n} with tasks sent there would lose them: the server ignores a `Send` to a node that it lacks.",
    Outcome.WOULD_FAIL_TO_LOAD: "{n} could not be read or resumed.",
    Outcome.WOULD_HIDE: "{n} would go on without what the field holds: it stays stored, where no node sees it.",
    Outcome.MAY_STRAND: "{n} may have a step scheduled there that no view shows; it would never run.",
    Outcome.UNKNOWN: "of {n} it cannot be told.",
    Outcome.SAFE: _SAFE,
}
_PUSH = "Push the topology of what is deployed, after each deploy, and it can be compared."
_UNSEEN: Mapping[ChangeKind, str] = {
    ChangeKind.FIELD_RETYPED: "{n} hold it, or may, and what the code makes of their values cannot be told from here.",
    ChangeKind.TASKS_CHANGED: "{n} wait inside, and where is not shown: results of finished tasks may be thrown away.",
    ChangeKind.TASKS_UNSEEN: f"{{n}} wait inside. {_PUSH}",
    ChangeKind.JOIN_UNSEEN: f"{{n}} may be on their way there. {_PUSH}",
    ChangeKind.INNER_FIELDS_UNSEEN: f"{{n}} wait inside. {_PUSH}",
    ChangeKind.INNER_CHECKS_UNSEEN: f"{{n}} wait inside. {_PUSH}",
    ChangeKind.INNER_FIELD_CHANGED: "{n} wait inside that subgraph, whose fields nobody lists.",
}


def sentence(change: Change, outcome: Outcome, count: int, *, hidden: int = 0) -> str:
    """What changes and what that means. ``hidden``: settled threads that hold a removed field."""
    what = _WHAT[change.kind].format(name=change.name)
    if change.renamed_to is not None:
        what += f" (it looks renamed to `{change.renamed_to}`; LangGraph knows no renames)"
    if change.is_addition:
        return f"{what}."
    so = _UNSEEN.get(change.kind, _SO[outcome]) if outcome is Outcome.UNKNOWN else _SO[outcome]
    also = f" {threads(hidden)} that are done keep it stored, unseen." if hidden and outcome is Outcome.SAFE else ""
    return f"{what}: {_agreeing(so, count)}{also}"


def _agreeing(so: str, count: int) -> str:
    shown = so.format(n=threads(count))
    if count == 1:
        for many, one in (
            (" hold it,", " holds it,"),
            (" wait inside", " waits inside"),
            (" have a step", " have a step"),
        ):
            shown = shown.replace(many, one)
    return shown
