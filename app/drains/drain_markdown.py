"""A drain's answer as Markdown, for a ticket or a change request. Pure."""

from collections.abc import Iterator
from datetime import datetime

from app.drains.answers import Answer, MustAct
from app.drains.jsonable import to_jsonable
from app.drains.next_steps import next_step_of
from app.durations import span
from app.inventory.views import Said

_MARKS = {"pass": "✓", "fail": "✕", "unknown": "?", "not_needed": "-"}


def to_markdown(answer: Answer, now: datetime) -> str:
    """The verdict first, then what is left and what was checked."""
    return "\n".join([*_head(answer), *_left(answer), *_evidence(answer), *_said(answer), _foot(answer, now), ""])


def _head(answer: Answer) -> Iterator[str]:
    yield f"## Drain `{answer.drain}`: {answer.verdict.value}"
    yield ""
    yield f"**{answer.headline}**"
    if answer.next_step:
        yield ""
        yield f"Next: {answer.next_step}"
    yield ""
    facts = [
        ("deployment", f"`{answer.deployment}`"),
        ("graph", f"`{answer.graph}`"),
        ("owner", answer.owner or "none"),
        ("phase", answer.phase),
        ("threads", f"{answer.population.size:,}, of which {answer.population.live:,} are not gone"),
        ("seen", _time(answer.population.as_of)),
        ("oldest", _oldest(answer)),
        ("who must act", ", ".join(_who(each) for each in answer.must_act) or "nobody"),
        ("accepting", ", ".join(answer.accepting) or "nothing"),
    ]
    if answer.valid_until:
        facts.append(("goes stale", _time(answer.valid_until)))
    yield from _table(["", ""], [list(fact) for fact in facts])


def _left(answer: Answer) -> Iterator[str]:
    yield ""
    yield "### What is left"
    yield ""
    rows = [
        [f"`{target.name}`", found.replace("_", " "), f"{count:,}", next_step_of(target, found)]
        for target in answer.targets
        for found, count in target.dispositions.items()
    ]
    if rows:
        yield from _table(["target", "why", "threads", "next step"], rows)
    else:
        yield f"Nothing blocks, of {answer.population.size:,} threads."
    others = [reason for reason in answer.reasons if reason.code not in answer.dispositions]
    if others:
        yield ""
        yield from (f"- {reason.code.replace('_', ' ')}: {reason.sentence}" for reason in others)


def _evidence(answer: Answer) -> Iterator[str]:
    yield ""
    yield "### Checks"
    yield ""
    checks = [[_MARKS[each.status], each.name, each.sentence, _time(each.as_of)] for each in answer.checks]
    yield from _table(["", "check", "", "as of"], checks)
    yield ""
    yield "### Sources"
    yield ""
    sources = [[each.name, each.status.replace("_", " "), _time(each.as_of)] for each in answer.sources]
    yield from _table(["source", "state", "as of"], sources)


def _said(answer: Answer) -> Iterator[str]:
    if answer.waivers:
        yield ""
        yield "### What people said"
        yield ""
        yield from (f"- {_statement(each)}" for each in answer.waivers)


def _statement(said: Said) -> str:
    about = ", ".join(said.names) or f"{said.count:,} threads"
    until = f" until {_time(said.until)}" if said.until else ""
    return f"{said.kind} of {about} by {_cell(said.owner)}{until}: {_cell(said.reason or 'no reason given')}"


def _foot(answer: Answer, now: datetime) -> str:
    soak = f"{answer.soak.sweeps} of {answer.soak.required_sweeps} sweeps"
    held = f", held {span(now - answer.soak.holds_since)}" if answer.soak.holds_since else ""
    return (
        f"\n_Decided {_time(answer.evaluated_at)}, criteria version {answer.criteria_version}, soak {soak}{held}; "
        f"`drainboard gate {answer.drain}` exits {answer.exit_code}. No state values._"
    )


def _oldest(answer: Answer) -> str:
    if answer.oldest is None:
        return "none"
    return f"`{answer.oldest.thread_id}` since {_time(answer.oldest.since)}"


def _who(group: MustAct) -> str:
    return f"{_cell(group.name or group.assistant or 'no assistant')} ({group.count:,})"


def _time(moment: datetime | None) -> str:
    return str(to_jsonable(moment)) if moment else "never"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in (head, ["---"] * len(head), *rows)]


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")
