"""A drain as if it had been written: for the preview of a form. Nothing here is stored."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.drains.spec import DrainSpec, to_json

NOBODY = 0  # no drain has this id: nothing was said of it, and nothing entered


@dataclass(frozen=True, slots=True)
class AsIfWritten:
    """What a look needs of a drain's row."""

    id: int
    deployment_id: int
    spec: dict[str, Any]
    criteria_version: int
    observing_since: datetime | None
    closed_at: datetime | None
    holds_since: datetime | None = None
    sweeps: int = 0
    regressed_since: datetime | None = None
    drained_at: datetime | None = None
    removed: dict[str, str] | None = None
    fell_at: datetime | None = None
    leaking_since: datetime | None = None


def as_if_written(known: Any | None, spec: DrainSpec, deployment_id: int, now: datetime) -> Any:
    """The row that the drain of this name would have. What was proved, and said, of the same criteria still counts."""
    digest = spec.criteria_digest()
    observes = spec.phase not in ("additive", "closed")
    closed_at = now if spec.phase == "closed" else None
    if known is None or known.deployment_id != deployment_id:
        return AsIfWritten(NOBODY, deployment_id, to_json(spec), 1, now if observes else None, closed_at, removed={})
    starts = observes and (known.closed_at is not None or known.observing_since is None)
    since = now if starts else known.observing_since if observes else None
    is_same = known.criteria_digest == digest and not starts
    version = known.criteria_version + (known.criteria_digest != digest)
    proved = {}
    if is_same:
        names = ("holds_since", "sweeps", "regressed_since", "drained_at", "removed", "fell_at", "leaking_since")
        proved = {name: getattr(known, name) for name in names}
    return AsIfWritten(known.id, deployment_id, to_json(spec), version, since, closed_at, **({"removed": {}} | proved))
