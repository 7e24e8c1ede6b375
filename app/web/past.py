"""Stored answers as the pages show them. An answer of an older version may lack parts: what it lacks is left out."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from app.drains.answers import Check, Reason, TargetAnswer, Verdict
from app.inventory.evaluations import StoredAnswer
from app.inventory.views import SourceStatus


@dataclass(frozen=True, slots=True)
class PastAnswer:
    """What a drain answered before: its first reason, or the headline when there was none."""

    number: int
    at: datetime
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class PastDetail:
    """All that was stored of one answer."""

    at: datetime
    verdict: Verdict
    headline: str
    next_step: str | None
    reasons: tuple[Reason, ...]
    checks: tuple[Check, ...]
    targets: tuple[TargetAnswer, ...]
    sources: tuple[SourceStatus, ...]
    dispositions: Mapping[str, int]
    size: int
    oldest: str | None
    criteria_version: int


_CHECKED = re.compile(r" Checked [^.]* ago\.")
_AGO = re.compile(r"(\d+ (?:s|min|h|d)(?: \d+ (?:min|h))?) ago\b")


def _then(sentence: str, found: StoredAnswer) -> str:
    """A sentence of an old answer: its ages were of then, and "2 s ago" would be read as of now."""
    utc = (_time((found.answer.get("population") or {}).get("as_of")) or found.at).astimezone(UTC)
    sentence = _CHECKED.sub(f" Checked on {utc.day} {utc:%b %Y at %H:%M:%S} UTC.", sentence)
    return _AGO.sub(r"\1 earlier", sentence)


def past_answers(found: Iterable[StoredAnswer]) -> tuple[PastAnswer, ...]:
    """Stored answers in short, in their order."""
    return tuple(
        PastAnswer(each.number, each.at, Verdict(each.verdict), _then(_sentence(each.answer), each))
        for each in found
        if each.verdict in set(Verdict)
    )


def past_detail(found: StoredAnswer) -> PastDetail:
    """One stored answer."""
    raw = found.answer
    oldest = raw.get("oldest")
    return PastDetail(
        at=found.at,
        verdict=Verdict(found.verdict),
        headline=_then(_text(raw.get("headline")) or _sentence(raw), found),
        next_step=_then(_text(raw.get("next_step")) or "", found) or None,
        reasons=tuple(replace(each, sentence=_then(each.sentence, found)) for each in _reasons(raw)),
        checks=tuple(replace(each, sentence=_then(each.sentence, found)) for each in _checks(raw)),
        targets=tuple(_targets(raw)),
        sources=tuple(replace(each, sentence=each.sentence and _then(each.sentence, found)) for each in _sources(raw)),
        dispositions={str(name): int(count) for name, count in (raw.get("dispositions") or {}).items()},
        size=int((raw.get("population") or {}).get("size") or 0),
        oldest=_text(oldest.get("thread_id")) if isinstance(oldest, Mapping) else None,
        criteria_version=found.criteria_version,
    )


def _reasons(raw: Mapping[str, Any]) -> Iterator[Reason]:
    for each in _list(raw, "reasons"):
        verdict = each.get("verdict")
        if verdict in set(Verdict):
            yield Reason(
                str(each.get("code")),
                Verdict(verdict),
                each.get("count"),
                str(each.get("source") or "threads"),
                _time(each.get("as_of")),
                str(each.get("sentence") or each.get("code")),
            )


def _checks(raw: Mapping[str, Any]) -> Iterator[Check]:
    for each in _list(raw, "checks"):
        if each.get("status") in ("pass", "fail", "unknown", "not_needed"):
            yield Check(
                str(each.get("name")), each["status"], str(each.get("sentence") or ""), _time(each.get("as_of"))
            )


def _targets(raw: Mapping[str, Any]) -> Iterator[TargetAnswer]:
    for each in _list(raw, "targets"):
        blocking = {str(name): int(count) for name, count in (each.get("dispositions") or {}).items()}
        kind, deployed = each.get("kind"), each.get("deployed")
        if kind in ("node", "rename", "kind", "remove", "erase", "version"):
            yield TargetAnswer(kind, str(each.get("name")), deployed, int(each.get("blocking") or 0), blocking)


def _sources(raw: Mapping[str, Any]) -> Iterator[SourceStatus]:
    for each in _list(raw, "sources"):
        yield SourceStatus(
            str(each.get("name")),
            each.get("status") or "not_evaluated",
            as_of=_time(each.get("as_of")),
            expected=each.get("expected"),
            seen=each.get("seen"),
            since=_time(each.get("since")),
            sentence=_text(each.get("sentence")),
        )


def _sentence(raw: Mapping[str, Any]) -> str:
    first = next(iter(_list(raw, "reasons")), {})
    return str(first.get("sentence") or raw.get("headline") or "No reason was stored.")


def _list(raw: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = raw.get(key)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
