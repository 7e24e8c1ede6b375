"""The reference of the evidence report, from the dataclasses that it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, get_args, get_type_hints

from app.drains.dispositions import Disposition
from app.facts.types import Cause, Condition, Departure, Kind, LeafSource, Presence, Reading
from app.inventory import views
from tests.docs.tables import below, code, table

INTRODUCTION = """\
# Evidence report (`drainboard.evidence/1`)

What is known of one thread, without a single state value: `drainboard evidence DEPLOYMENT THREAD --format json`, and
`GET /deployments/{deployment}/threads/{thread_id}/evidence`. `--live` (`live=true`) reads the server now. Without `json` the
same comes as Markdown, for a ticket.

`null` always means that it cannot be told, never that there is none. Times are RFC 3339 in UTC. What is not here is not
kept: [what is stored, and what never](../explanation/privacy.md).

This page is written by `./scripts/reference` from `app/inventory/views.py`. Do not edit it.
"""

PARTS = {
    views.Evidence: "The report",
    views.Diagnosis: "`diagnosis`",
    views.NextStep: "`diagnosis.next_steps`",
    views.CheckpointEvidence: "`checkpoint`",
    views.LineageStep: "`lineage`",
    views.PendingEvidence: "`pending`",
    views.FieldEvidence: "`fields`",
    views.DrainMention: "`drains`",
    views.Provenance: "`provenance`",
}

WORDS: dict[str, type[StrEnum]] = {
    "condition": Condition,
    "pending[].cause": Cause,
    "pending[].source": LeafSource,
    "fields.*.row, fields.*.state": Presence,
    "fields.*.kind": Kind,
    "state_version.reading": Reading,
    "departures[].departure": Departure,
    "drains[].disposition": Disposition,
}


def page() -> str:
    """The whole page."""
    lines = INTRODUCTION.splitlines()
    for part, title in PARTS.items():
        lines += ["", f"## {title}", "", *table(("key", "", ""), keys(part))[:-1]]
    rows = [(code(key), ", ".join(code(word.value) for word in words)) for key, words in WORDS.items()]
    lines += ["", "## Words", "", *table(("key", "one of"), rows)[:-1]]
    return "\n".join(lines) + "\n"


def keys(part: type) -> Iterator[tuple[str, str, str]]:
    """Each key of a part with its type, and what is said of it."""
    said = below(views.CheckpointEvidence) | below(part) if part is views.LineageStep else below(part)
    hints = get_type_hints(part)
    for found in fields(part):  # type: ignore[arg-type]
        yield code(found.name), _type(hints[found.name]), said[found.name]


def _type(hint: Any) -> str:
    inner = [one for one in get_args(hint) if one is not type(None)]
    may_be_null = type(None) in get_args(hint)
    [only] = inner if may_be_null else [hint]
    return _plain(only) + (" or null" if may_be_null else "")


def _plain(hint: Any) -> str:
    names = {"str": "text", "int": "number", "bool": "boolean", "datetime": "time"}
    origin = getattr(hint, "__origin__", None)
    if origin is tuple:
        return "list"
    if origin is not None or is_dataclass(hint):
        return "object"
    return names[hint.__name__]
