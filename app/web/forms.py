"""Forms: what a browser sent, kept as it was typed, with what is wrong beside each field. No request, no SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from pydantic import ValidationError

from app.durations import duration_text
from app.errors import BadRequest
from app.settings import DrainSettings

MAX_BODY = 256 * 1024
MAX_FIELDS = 2000
BLANKS = 2
GENERAL = ""  # what is wrong with no field of its own

Typed = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Form:
    """What was typed, by field, and what is wrong with it, by field."""

    typed: Typed = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)

    def one(self, key: str) -> str:
        """The value of a field that is there once."""
        return next(iter(self.typed.get(key, ())), "")

    def many(self, key: str) -> list[str]:
        """The values of a repeated field, and some room for more."""
        given = [value for value in self.typed.get(key, ()) if value.strip()]
        return given + [""] * BLANKS

    def pairs(self, first: str, second: str) -> list[tuple[str, str]]:
        """The rows of two fields that go together, and room for one more."""
        return [*self.rows(first, second), ("", "")]

    def rows(self, first: str, second: str) -> list[tuple[str, str]]:
        """The rows of two fields that go together, without the empty ones."""
        both = zip(self.typed.get(first, ()), self.typed.get(second, ()), strict=False)
        return [(one.strip(), other.strip()) for one, other in both if one.strip()]

    def lines(self, key: str) -> list[str]:
        """What is given in the values of a field, one in each line, without empty ones."""
        return [line.strip() for value in self.typed.get(key, ()) for line in value.splitlines() if line.strip()]

    def has(self, key: str, value: str) -> bool:
        """Whether a box is ticked, or an entry chosen."""
        return value in self.typed.get(key, ())

    def with_wrong(self, wrong: Mapping[str, str]) -> "Form":
        """The same, with what is wrong."""
        return Form(self.typed, wrong)


def read_form(body: bytes) -> Form:
    """A form as browsers send it (``application/x-www-form-urlencoded``). Raises ``BadRequest``."""
    if len(body) > MAX_BODY:
        raise BadRequest("The form is too large. Use the API for that many.")
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise BadRequest("The form cannot be read. Open it again and repeat it there.") from None
    if any("\x00" in value for values in found.values() for value in values):
        raise BadRequest("The form holds the character NUL, which cannot be stored. Take it out.")
    return Form({key: tuple(values) for key, values in found.items()})


def time_of(typed: str) -> str | None:
    """A time as ``<input type="datetime-local">`` gives it, which is UTC here; None when nothing was typed."""
    found = typed.strip()
    return f"{found}Z" if found and found[-1] not in "Zz" and "+" not in found else found or None


def read_time(typed: str) -> datetime | None:
    """The same as a value; None when it is none, or names a moment that cannot be."""
    try:
        found = datetime.fromisoformat(time_of(typed) or "")
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def complaints(error: ValidationError, places: Mapping[str, str]) -> dict[str, str]:
    """What is wrong, by field of the form. ``places``: where a key's complaints stand when not at a field of its name."""
    wrong: dict[str, str] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        path = [str(part) for part in each["loc"] if part not in ("policy", "population")]
        key = "_".join(path[:2]) if path[:1] == ["retention"] else path[0] if path else GENERAL
        empty = each["type"] in ("string_too_short", "too_short", "string_type")
        message = "this must be filled in" if empty else each["msg"].removeprefix("Value error, ")
        wrong.setdefault(places.get(key, key), f"{message[0].upper()}{message[1:]}.")
    return wrong


# -- a drain -------------------------------------------------------------------------------------------------------

DRAIN_PLACES = {GENERAL: "targets", "minimum_state_version": "minimum_versions"}


def drain_of(form: Form) -> dict[str, Any]:
    """What the form of a drain asks for, as ``DrainSettings`` reads it."""
    policy: dict[str, Any] = {
        key: form.one(key).strip()
        for key in (
            "max_age",
            "sweep_max_age",
            "trace_window",
            "soak_sweeps",
            "soak_hold",
            "missing_version",
            "neither",
        )
        if form.one(key).strip()
    }
    if "soak_sweeps" in policy:
        policy["soak_sweeps"] = _number(policy["soak_sweeps"])
    policy |= {key: form.lines(key) for key in ("require", "accept", "attestations") if form.lines(key)}
    if form.one("retention_idle_for").strip() or form.one("retention_reason").strip():
        policy["retention"] = {
            "idle_for": form.one("retention_idle_for").strip(),
            "reason": form.one("retention_reason").strip(),
        }
    return {
        "name": form.one("name").strip(),
        "deployment": form.one("deployment"),
        "graph": form.one("graph").strip(),
        "owner": form.one("owner").strip() or None,
        "phase": form.one("phase") or "observing",
        "remove_nodes": form.lines("remove_nodes"),
        "rename_fields": [{"old": old, "new": new} for old, new in form.rows("rename_old", "rename_new")],
        "require_kinds": dict(form.rows("kind_field", "kind")),
        "remove_fields": form.lines("remove_fields"),
        "erase_fields": form.lines("erase_fields"),
        "minimum_versions": {key: _number(typed) for key, typed in form.rows("minimum_key", "minimum")},
        "newest_versions": {key: _number(typed) for key, typed in form.rows("newest_key", "newest")},
        "intake_closed_at": time_of(form.one("intake_closed_at")),
        "population": {
            "metadata": dict(form.rows("metadata_key", "metadata")),
            "created_before": time_of(form.one("created_before")),
        },
        "policy": policy,
    }


def form_of(drain: DrainSettings) -> Form:
    """The reverse: a drain as the form shows it."""
    policy, population = drain.policy, drain.population
    typed: dict[str, Sequence[str]] = {
        "name": [drain.name],
        "deployment": [drain.deployment],
        "graph": [drain.graph],
        "owner": [drain.owner or ""],
        "phase": [drain.phase],
        "remove_nodes": drain.remove_nodes,
        "rename_old": [each.old for each in drain.rename_fields],
        "rename_new": [each.new for each in drain.rename_fields],
        "kind_field": list(drain.require_kinds),
        "kind": list(drain.require_kinds.values()),
        "remove_fields": drain.remove_fields,
        "erase_fields": drain.erase_fields,
        "minimum_key": list(drain.minimum_versions),
        "minimum": [str(each) for each in drain.minimum_versions.values()],
        "newest_key": list(drain.newest_versions),
        "newest": [str(each) for each in drain.newest_versions.values()],
        "intake_closed_at": [_local(drain.intake_closed_at)],
        "metadata_key": list(population.metadata),
        "metadata": list(population.metadata.values()),
        "created_before": [_local(population.created_before)],
        "max_age": [duration_text(policy.max_age)],
        "sweep_max_age": [duration_text(policy.sweep_max_age)],
        "trace_window": [duration_text(policy.trace_window)],
        "soak_sweeps": [str(policy.soak_sweeps)],
        "soak_hold": [duration_text(policy.soak_hold)],
        "require": policy.require or (),
        "retention_idle_for": [duration_text(policy.retention.idle_for) if policy.retention else ""],
        "retention_reason": [policy.retention.reason if policy.retention else ""],
        "missing_version": [policy.missing_version],
        "neither": [policy.neither],
        "accept": policy.accept,
        "attestations": policy.attestations,
    }
    return Form({key: tuple(values) for key, values in typed.items()})


def _number(typed: str) -> int | str:
    """A number, or what else was typed, to be complained about."""
    return int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 19 else typed


def differences(stored: DrainSettings, typed: DrainSettings) -> dict[str, str]:
    """What is stored, as the form writes it, of the fields in which something else was typed."""
    mine, theirs = form_of(typed).typed, form_of(stored).typed
    return {key: ", ".join(theirs[key]) or "nothing" for key in theirs if theirs[key] != mine[key]}


def _local(when: datetime | None) -> str:
    return "" if when is None else when.astimezone(UTC).replace(tzinfo=None).isoformat()
