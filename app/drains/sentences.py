"""What a verdict says to a person: what is, in the reader's terms, then what to do. Pure.

A name between backticks is shown in monospace. Nothing of a thread's content can be in a sentence: only names of
nodes and fields, counts and times.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from app.drains.answers import Answer, Soak, Verdict
from app.drains.dispositions import Disposition
from app.durations import span
from app.inventory.views import SourceStatus

_BLOCKED = {
    Disposition.GRAPH_MISSING: "{n} belong to a graph that is not deployed. Deploy it again, or take them over by hand.",
    Disposition.UNREADABLE: "{n} cannot be read under the deployed graph's own schema. Loosen the schema, or repair them.",
    Disposition.STRANDED: "{n} waited at {targets} when it was removed. If anyone answers them now, the answer is lost. "
    "Put the node back, or take them over by hand.",
    Disposition.LOST: "{n} waited at {targets} and a run went past without doing it. Look at each.",
    Disposition.PARKED_AT_TARGET: "{n} still wait at {targets}.",
    Disposition.FAILED_AT_TARGET: "{n} failed at {targets} and would go on there when retried.",
    Disposition.RUNNING_AT_TARGET: "{n} are running in {targets} now.",
    Disposition.SCHEDULED_AT_TARGET: "{n} wait at {targets} with a run that is scheduled.",
    Disposition.CONFLICT: "{n} hold different values in both fields of {targets}. Decide which is right.",
    Disposition.HOLDS_OLD_FIELD: "{n} still hold the old form of {targets}.",
    Disposition.WRONG_KIND: "{n} hold another kind of value than {targets} asks for.",
    Disposition.BAD_VERSION: "{n} declare a version that is no number, for {targets}.",
    Disposition.OLD_VERSION: "{n} are older than {targets} asks for.",
    Disposition.FUTURE_VERSION: "{n} declare a newer version than the drain knows, for {targets}.",
}

# What changes where there is just one thread.
_ONE = (
    ("threads ", "thread "),
    (" still wait ", " still waits "),
    (" still hold ", " still holds "),
    (" failed or wait ", " failed or waits "),
    (" where they wait", " where it waits"),
    (" wait ", " waits "),
    (" belong ", " belongs "),
    (" are ", " is "),
    (" were ", " was "),
    (" hold ", " holds "),
    (" declare ", " declares "),
    ("answers them", "answers it"),
    ("take them", "take it"),
    ("repair them", "repair it"),
    ("Let them finish", "Let it finish"),
    ("Look at each.", "Look at it."),
    ("They show when they stop", "It shows when it stops"),
    (" they did not enter", " it did not enter"),
)


def _of_one(sentence: str) -> str:
    for many, one in _ONE:
        sentence = sentence.replace(many, one)
    return sentence


def threads(count: int) -> str:
    """``1 thread``, ``1,234 threads``."""
    return f"{count:,} thread" if count == 1 else f"{count:,} threads"


def names(labels: Collection[str]) -> str:
    """``a``, ``b`` and ``c``, each in backticks; arrows and comparisons written out."""
    shown = [f"`{label.replace('->', '` → `').replace('>=', '` ≥ `')}`" for label in labels]
    if len(shown) <= 1:
        return "".join(shown) or "the target"
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def since(moment: datetime, now: datetime) -> str:
    """What follows "since": ``14:02 UTC`` today, ``3 May``, ``3 May 2025``."""
    moment, now = moment.astimezone(UTC), now.astimezone(UTC)
    if moment.date() == now.date():
        return f"{moment:%H:%M} UTC"
    return f"{moment.day} {moment:%b}" if moment.year == now.year else f"{moment.day} {moment:%b %Y}"


def blocked_sentence(found: Disposition, count: int, targets: Collection[str]) -> str:
    """Why threads with a blocking disposition block, and what to do."""
    sentence = _BLOCKED[found].format(n=threads(count), targets=names(targets))
    if found is Disposition.HOLDS_OLD_FIELD and not any("->" in target for target in targets):
        sentence = sentence.replace("the old form of ", "")  # a field that goes has no new form
    return _of_one(sentence) if count == 1 else sentence


def unknown_sentence(code: str, *, count: int | None, part: str = "", **details: Any) -> str:
    """What is not known, or held against a drain as a whole, and what to do about it."""
    match code:
        case "source_failed":
            return _failed(details["source"], details["deployment"])
        case "target_not_deployed" if part == "field":
            hidden = names(details["targets"])
            return (
                f"{hidden} is not in the deployed graph's state, so threads that hold it do not show. "
                "Deploy it again until the drain is finished."
            )
        case "threads_unread" if part == "acknowledged":
            return f"What was acknowledged of {threads(count or 0)} has run out. The next poll judges anew."
        case "attestation_missing":
            return f"Nobody has confirmed yet: {', '.join(details['names'])}."
        case "phase_not_observing" if part == "future":
            return "Intake closes at a later time only; until then new threads may enter the target."
        case "idle_unverified" if part == "elsewhere":
            n = threads(count or 0)
            return f"{n} idle under another graph and not looked at yet; work of this graph may wait there."
        case "idle_unverified":
            return _unverified(count or 0, details["requests_per_minute"])
        case "soaking":
            return _soaking(details["soak"])
        case "not_evaluated":
            return _PARTS.get(part, "This drain asks for something that this version of Drainboard cannot check yet.")
        case _:
            shown = {
                "n": threads(count or 0),
                "targets": names(details.get("targets", ())),
                "max_age": span(details.get("max_age", timedelta(0))),
                "sweep_max_age": span(details.get("sweep_max_age", timedelta(0))),
            }
            sentence = _UNKNOWN.get(f"{code}:{part}", _UNKNOWN[code]).format(**shown)
            return _of_one(sentence) if count == 1 else sentence


_UNKNOWN = {
    "never_swept": "Nobody has looked at all threads yet. The first complete sweep comes by itself; "
    "`drainboard poll` hurries it.",
    "sweep_incomplete": "The last sweep did not see everything. Its reasons are on the deployment's page.",
    "sweep_incomplete:server": "Another server, key or set of keys to read is asked for than before, and everything was not looked "
    "at since. What is known is of before.",
    "sweep_incomplete:erased": "A thread was erased here, and everything was not looked at since: the server may still have it. The next "
    "sweep tells.",
    "sweep_stale": "The last complete sweep is older than the {sweep_max_age} that the drain asks for.",
    "scan_stale": "The last look is older than the {max_age} that is asked for. Is the poller running?",
    "threads_unread": "{n} could not be read, or not under a graph that has the target. The next sweep tries again.",
    "threads_unplaced": "{n} failed or wait where no node can be named. Look at each.",
    "half_step_unseen": "{n} stopped half-way through a parallel step, and what comes next shows nowhere. "
    "Let them finish.",
    "deferred_unseen": "{n} may hold the target where no view shows it: a waiting join, a deferred node or a subgraph.",
    "running_unseen": "{n} running, and where is not current. They show when they stop.",
    "mass_disappearance": "{n} that were not settled vanished between two sweeps. "
    "Is it still the same server, key and store?",
    "canary_missing": "{n} can be read by id but not listed. Does the key see every thread?",
    "empty_population": "No live thread of this graph was seen. Zero of nothing proves nothing: "
    "check the graph's name and the key.",
    "history_unseen": "{n} whose stored history could not be looked at; it may hold {targets}.",
    "target_not_deployed": "{targets} is not deployed, so threads that wait there do not show. "
    "Deploy it again until the drain is finished.",
    "intake_unseen": "{n} created since intake closed, and nothing shows that they did not enter the target.",
    "leaking": "{n} created after intake was closed entered {targets}. Something still sends work there.",
    "regressed": "It was drained, and then something entered again. It has to hold anew.",
    "fell_at_deploy": "Fewer threads need {targets} since a deploy that touched it, and nothing shows that they finished. "
    "Look at the threads that were there before; a drain whose criteria change starts anew.",
    "phase_not_observing": "The drain's phase is additive: old and new still exist on purpose. Set it to observing.",
    "drain_closed": "The drain is closed. Open it again to ask.",
}

_PARTS = {
    "traces": "Traces count here, and the settings of this process name none. Give the deployment a langsmith section; one that was "
    "taken out on purpose counts for a day.",
    "index": "The thread index counts here, and none was configured or pushed yet.",
}


def _failed(source: SourceStatus, deployment: str) -> str:
    since = f" since {source.since:%Y-%m-%d %H:%M} UTC" if source.since else ""
    return f"{deployment} could not be asked{since}. {source.sentence or ''}".strip()


def _unverified(count: int, requests_per_minute: int) -> str:
    minutes = max(1, round(count / max(1, requests_per_minute)))
    return f"{threads(count)} idle and not looked at yet. About {minutes} min at {requests_per_minute:,} requests a minute."


def _soaking(soak: Soak) -> str:
    if soak.holds_since is None:
        return "The soak starts with the next complete poll."
    parts = []
    if soak.sweeps < soak.required_sweeps:
        parts.append(f"{soak.sweeps} of {soak.required_sweeps} complete sweeps")
    parts.append(f"nothing blocks since {soak.holds_since:%H:%M:%S} UTC")
    return f"It has to hold for {span(timedelta(seconds=soak.required_hold_seconds))}: {', '.join(parts)}."


def headline(answer: Answer, now: datetime) -> str:
    """The one sentence that a tired person reads."""
    if answer.verdict is Verdict.DRAINED:
        held = f" Held for {span(now - answer.soak.holds_since)}" if answer.soak.holds_since else ""
        sweeps = f" over {answer.soak.sweeps} complete sweep{'s' if answer.soak.sweeps != 1 else ''}" if held else ""
        looked = f" Checked {span(now - answer.population.as_of)} ago." if answer.population.as_of else ""
        accepting = f" Accepting: {', '.join(answer.accepting)}." if answer.accepting else ""
        return f"Nothing needs {_subject(answer)}.{held}{sweeps}{'.' if held else ''}{looked}{accepting}"
    reasons = [reason for reason in answer.reasons if reason.verdict is answer.verdict]
    reasons = [reason for reason in reasons if reason.code not in answer.accepting]
    if answer.verdict is Verdict.BLOCKED:
        more = _others(answer, reasons[0].code)
        oldest = f" The oldest since {since(answer.oldest.since, now)}." if answer.oldest else ""
        return f"{reasons[0].sentence}{more}{oldest}"
    if {reason.code for reason in reasons} == {"soaking"}:
        start = f" since {answer.soak.holds_since:%H:%M:%S} UTC" if answer.soak.holds_since else ""
        return f"Nothing needs {_subject(answer)}{start}. {_until_drained(answer, now)}"
    return f"Not known yet. {reasons[0].sentence}"


def _until_drained(answer: Answer, now: datetime) -> str:
    """When a drain that only soaks can be drained."""
    if answer.soak.holds_since is None or answer.retry_after_seconds is None:
        return "The soak starts with the next complete poll."
    when = now + timedelta(seconds=answer.retry_after_seconds)
    shown = f"{when:%H:%M}" if when.date() == now.date() else f"{when:%Y-%m-%d %H:%M}"
    return f"Drained at about {shown} UTC if it stays so."


def _others(answer: Answer, first: str) -> str:
    """The threads that block for another reason than the first. What else is counted, runs in traces, are no threads."""
    count = sum(answer.dispositions.get(found.value, 0) for found in _BLOCKED if found.value != first)
    if not count:
        return ""
    verb = "block" if count > 1 else "blocks"
    return (
        f" {count:,} more {verb} for other reasons."
        if first in answer.dispositions
        else f" {threads(count)} {verb} too."
    )


def _subject(answer: Answer) -> str:
    return names([target.name for target in answer.targets])


def next_step(answer: Answer) -> str | None:
    """What to do next, or None when there is nothing to do but to go on."""
    if answer.verdict is Verdict.DRAINED:
        return f"Remove {_subject(answer)}, and keep this drain until the deploy is through."
    if answer.verdict is Verdict.BLOCKED:
        if any(reason.code == Disposition.STRANDED.value for reason in answer.reasons):
            return "Put the node back and deploy, before anybody answers: each thread then waits there again."
        return _who_acts(answer.must_act)
    missing = {reason.code for reason in answer.reasons} - set(answer.accepting)
    if answer.retry_after_seconds is not None and missing == {"soaking"}:
        return f"Nothing to do: ask again in {span(timedelta(seconds=answer.retry_after_seconds))}."
    return None


def _of_assistant(name: str | None) -> str:
    return "without an assistant" if name is None else f"of assistant `{name}`"


def _who_acts(groups: Sequence[Any]) -> str | None:
    if not groups:
        return None
    shown = [f"{threads(group.count)} {_of_assistant(group.name or group.assistant)}" for group in groups[:3]]
    more = "" if len(groups) <= 3 else f" and of {len(groups) - 3} more assistants"
    return f"Answer, finish or migrate what is left: {', '.join(shown)}{more}."
