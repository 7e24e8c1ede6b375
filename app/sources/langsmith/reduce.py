"""From a run as LangSmith answers it to a fact. Pure; whatever else came along is dropped here."""

import re
import uuid
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from app.facts.raw import in_utc
from app.facts.traces import RunEnd, TracedRun

_ID = re.compile(r"[0-9a-fA-F-]{8,64}")
_ENDS = {"success": RunEnd.SUCCESS, "error": RunEnd.ERROR}


class Malformed(ValueError):
    """A run without an id, a name or a time."""


def reduce_run(raw: Mapping[str, Any], names: Collection[str]) -> TracedRun | None:
    """A run of one of these nodes; None for any other, since a server may ignore a filter. Raises ``Malformed``."""
    run_id, name, started = _identifier(raw.get("id")), raw.get("name"), _time(raw.get("start_time"))
    if run_id is None or not isinstance(name, str) or started is None:
        raise Malformed
    if name not in names:
        return None
    return TracedRun(
        run_id=run_id,
        node=name,
        thread_id=_thread(raw.get("thread_id")),
        trace_id=_identifier(raw.get("trace_id")),
        started_at=started,
        ended_at=_time(raw.get("end_time")),
        end=_ENDS.get(str(raw.get("status")).lower(), RunEnd.PENDING),
    )


def filter_of(names: Collection[str], *, exact: bool) -> str:
    """The expression for runs of nodes. ``exact``: of this one node itself, not of what runs inside it or elsewhere."""
    first, *more = [_quoted(name) for name in sorted(names)]
    if exact:
        return f'and(eq(name, {first}), eq(metadata_key, "langgraph_node"), eq(metadata_value, {first}))'
    return f'and(in(name, [{", ".join([first, *more])}]), eq(metadata_key, "langgraph_node"))'


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _identifier(raw: object) -> str | None:
    text = str(raw) if isinstance(raw, str | uuid.UUID) else ""
    return text if _ID.fullmatch(text) else None


def _thread(raw: object) -> str | None:
    """A thread's id as the Agent Server has it. Anything else that an application calls a thread may name a person."""
    try:
        return str(uuid.UUID(raw)) if isinstance(raw, str) else None
    except ValueError:
        return None


def _time(raw: object) -> datetime | None:
    if isinstance(raw, str):
        try:
            raw = datetime.fromisoformat(raw)
        except ValueError:
            return None
    return in_utc(raw) if isinstance(raw, datetime) else None
