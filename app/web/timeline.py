"""What happened to one thread, newest first: checkpoints, deploys, and how it came to nodes and left them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from app.inventory.views import Deploy, Evidence, LineageStep

_SOURCES = {
    "input": "new input",
    "loop": "a step of a run",
    "update": "state update by hand",
    "fork": "copied from an earlier checkpoint",
}
_START = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """One line. ``id``: of the checkpoint or deploy; ``node``: where a leaf was; ``off``: a checkpoint on another branch."""

    at: datetime | None
    kind: Literal["checkpoint", "deploy", "departure"]
    text: str
    id: str | None = None
    node: str | None = None
    detail: str | None = None
    head: bool = False
    off: bool = False
    next: tuple[str, ...] | None = None
    parent: str | None = None


def timeline(evidence: Evidence, deploys: Iterable[Deploy] = ()) -> tuple[Moment, ...]:
    """Everything in one order. Without the lineage, which only a live look has, the head stands alone. ``deploys``: those of
    the deployment, of which some came between the checkpoints."""
    found = [*_deploys(evidence), *_between(evidence, deploys), *_departures(evidence), *_checkpoints(evidence)]
    return tuple(sorted(found, key=lambda moment: moment.at or _START, reverse=True))


def _checkpoints(evidence: Evidence) -> Iterator[Moment]:
    lineage = evidence.lineage or ((evidence.checkpoint,) if evidence.checkpoint else ())
    ancestors, following = set(), evidence.checkpoint.id if evidence.checkpoint else None
    parents = {found.id: found.parent_id for found in lineage}
    while following is not None and following not in ancestors:
        ancestors.add(following)
        following = parents.get(following)
    for found in lineage:
        step = f"step {found.step}" if found.step is not None else None
        text = _SOURCES.get(found.source or "", "a checkpoint")
        is_head = evidence.checkpoint is not None and found.id == evidence.checkpoint.id
        yield Moment(
            found.created_at,
            "checkpoint",
            text,
            id=found.id,
            detail=step,
            head=is_head,
            off=found.id not in ancestors,
            next=found.next if isinstance(found, LineageStep) else None,
            parent=found.parent_id,
        )


def _deploys(evidence: Evidence) -> Iterator[Moment]:
    for found in evidence.deploys or ():
        after = found.get("revision")
        revision = f"revision {after[:7]}" if after else None
        kind = "deploy" if found.get("kind", "changed") == "changed" else f"graph {found.get('kind')}"
        yield Moment(_time(found.get("at")), "deploy", kind, id=found.get("id"), detail=revision)


def _between(evidence: Evidence, deploys: Iterable[Deploy]) -> Iterator[Moment]:
    """Deploys of the thread's graphs since its first known checkpoint; those since its head are among the evidence."""
    times = [found.created_at for found in evidence.lineage or () if found.created_at is not None]
    told = {found.get("id") for found in evidence.deploys or ()}
    graphs = {evidence.graph_id, evidence.head_graph_id}
    for deploy in deploys:
        changes = [change for change in deploy.changes if change.graph in graphs]
        if changes and str(deploy.id) not in told and times and deploy.noticed_at >= min(times):
            kind = "deploy" if changes[0].kind == "changed" else f"graph {changes[0].kind}"
            after = changes[0].after
            detail = f"revision {after[:7]}" if after else None
            yield Moment(deploy.noticed_at, "deploy", kind, id=str(deploy.id), detail=detail)


def _departures(evidence: Evidence) -> Iterator[Moment]:
    for found in evidence.departures or ():
        yield Moment(
            _time(found.get("at")),
            "departure",
            str(found.get("departure")),
            node=found.get("node"),
            detail="as the next poll saw it",
        )


def _time(raw: str | None) -> datetime | None:
    return datetime.fromisoformat(raw) if raw else None
