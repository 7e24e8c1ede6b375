"""What a drain says: targets, population, policy, phase. Pure."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

TargetKind = Literal["node", "rename", "kind", "remove", "erase", "version"]


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to remove. ``name`` is a node's path or a field; ``new`` is set for renames, ``minimum`` for versions."""

    kind: TargetKind
    name: str
    new: str | None = None
    minimum: int | None = None
    required_kind: str | None = None

    @property
    def key(self) -> str:
        """What tells it from the other targets of its drain: a node and a field may have the same name."""
        return f"{self.kind}:{self.label}"

    @property
    def label(self) -> str:
        """How the target is named to people and in JSON."""
        match self.kind:
            case "rename":
                return f"{self.name}->{self.new}"
            case "version":
                return f"{self.name}>={self.minimum}"
            case "kind":
                return f"{self.name}:{self.required_kind}"
            case _:
                return self.name


NONE_WRITES_AT_ITS_END = 'no run is under way with durability="exit"'
"""Asked for of every drain of a reported deployment: until such a run ends nothing of it is stored, so no reporter sees it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a drain asks of its evidence. ``require`` None: every configured source."""

    max_age: timedelta = timedelta(minutes=15)
    sweep_max_age: timedelta = timedelta(hours=24)
    trace_window: timedelta = timedelta(hours=72)
    soak_sweeps: int = 2
    soak_hold: timedelta = timedelta(hours=1)
    require: tuple[str, ...] | None = None
    retention_idle_for: timedelta | None = None
    retention_reason: str | None = None
    missing_version: str = "old"
    neither: str = "clear"
    accept: tuple[str, ...] = ()
    attestations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DrainSpec:
    """One tracked removal. Two specs with the same ``criteria_digest`` ask for the same thing."""

    name: str
    deployment: str
    graph: str
    targets: tuple[Target, ...]
    owner: str | None = None
    phase: str = "observing"
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_before: datetime | None = None
    intake_closed_at: datetime | None = None
    newest_versions: Mapping[str, int] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The paths of the node targets."""
        return tuple(target.name for target in self.targets if target.kind == "node")

    @property
    def renames(self) -> tuple[tuple[str, str], ...]:
        """The rename targets, old and new."""
        return tuple((t.name, t.new) for t in self.targets if t.kind == "rename" and t.new is not None)

    @property
    def fields(self) -> Iterator[str]:
        """Every state field that a target names."""
        for target in self.targets:
            if target.kind != "node":
                yield target.name
            if target.new is not None:
                yield target.new

    @property
    def definition(self) -> dict[str, object]:
        """The population, as people and JSON see it."""
        found: dict[str, object] = {"deployment": self.deployment, "graph": self.graph}
        if self.metadata:
            found["metadata"] = dict(self.metadata)
        if self.created_before is not None:
            found["created_before"] = self.created_before
        return found

    def criteria_digest(self) -> str:
        """A hash over everything that a verdict depends on; not over owner and phase."""
        criteria = {key: value for key, value in to_json(self).items() if key not in ("owner", "phase", "name")}
        return hashlib.sha256(json.dumps(criteria, sort_keys=True).encode()).hexdigest()[:24]


def to_json(spec: DrainSpec) -> dict[str, Any]:
    """The spec as JSON: times as RFC 3339, durations in seconds."""
    found: dict[str, Any] = _plain(asdict(spec))
    return found


def from_json(raw: Mapping[str, Any]) -> DrainSpec:
    """The reverse of ``to_json``."""
    policy = dict(raw["policy"])
    for key in ("max_age", "sweep_max_age", "trace_window", "soak_hold", "retention_idle_for"):
        policy[key] = None if policy[key] is None else timedelta(seconds=policy[key])
    for key in ("require", "accept", "attestations"):
        policy[key] = None if policy[key] is None else tuple(policy[key])
    times = {key: _time(raw[key]) for key in ("created_before", "intake_closed_at")}
    targets = tuple(Target(**target) for target in raw["targets"])
    return DrainSpec(**{**raw, **times, "targets": targets, "policy": Policy(**policy)})


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case timedelta():
            return value.total_seconds()
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def _time(raw: str | None) -> datetime | None:
    return None if raw is None else datetime.fromisoformat(raw)
