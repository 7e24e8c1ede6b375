"""The drains that a candidate needs first, filled in. Pure."""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from app.drains.preflight import Change, ChangeKind
from app.drains.preflight_answers import ChangeAnswer
from app.facts.types import Kind


def drains_for(
    deployment: str, changes: Iterable[Change], weighed: Iterable[ChangeAnswer]
) -> tuple[dict[str, Any], ...]:
    """One drain for each graph of which a change is not safe, that asks for what the change would break."""
    open_changes = {(one.graph, one.kind, one.name) for one in weighed if one.outcome != "safe"}
    drains: dict[str, dict[str, Any]] = {}
    for change in changes:
        if (change.graph, change.kind.value, change.name) in open_changes:
            _add(drains.setdefault(change.graph, {}), change)
    return tuple(
        {"name": _name(graph, targets), "deployment": deployment, "graph": graph, **targets}
        for graph, targets in sorted(drains.items())
        if targets
    )


def _add(targets: dict[str, Any], change: Change) -> None:
    match change.kind:
        case (
            ChangeKind.NODE_REMOVED | ChangeKind.JOIN_CHANGED | ChangeKind.NODE_DEFERRED | ChangeKind.NODE_NOT_DEFERRED
        ):
            _append(targets, "remove_nodes", change.name)
        case ChangeKind.FIELD_REMOVED if change.renamed_to is not None:
            _append(targets, "rename_fields", {"old": change.name, "new": change.renamed_to})
        case ChangeKind.FIELD_REMOVED:
            _append(targets, "remove_fields", change.name)
        case ChangeKind.FIELD_RETYPED:
            kinds = (change.field.type.kinds if change.field else None) or frozenset()
            wanted = sorted(kinds - {Kind.NULL})
            if Kind.NUMBER in wanted and Kind.INTEGER in wanted:
                wanted.remove(Kind.INTEGER)
            if len(wanted) == 1:
                targets.setdefault("require_kinds", {})[change.name] = wanted[0].value
        case _:
            pass


def _append(targets: dict[str, Any], key: str, value: Any) -> None:
    found = targets.setdefault(key, [])
    if value not in found:
        found.append(value)


def _name(graph: str, targets: dict[str, Any]) -> str:
    """The same for the same targets, so that asking twice opens one drain."""
    digest = hashlib.sha256(repr(sorted(targets.items())).encode()).hexdigest()[:8]
    return f"preflight-{re.sub(r'[^a-z0-9]+', '-', graph.lower()).strip('-')[:60] or 'graph'}-{digest}"
