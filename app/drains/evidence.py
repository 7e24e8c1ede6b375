"""The evidence report of one thread: what is known, what is the matter, what to do. Pure; no value can be in it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from app.drains.diagnosis import Patient, diagnose, unknown_thread
from app.drains.jsonable import to_jsonable
from app.drains.reported_steps import for_reported
from app.facts.privacy import Names, is_hashed
from app.facts.types import (
    CheckpointFacts,
    FieldFact,
    Leaf,
    LeafSource,
    Reading,
    Shape,
    ThreadFacts,
    VersionReading,
)
from app.inventory.current import Current
from app.inventory.tables import NEVER
from app.inventory.views import (
    CheckpointEvidence,
    Deploy,
    Diagnosis,
    DrainMention,
    Evidence,
    FieldEvidence,
    LineageStep,
    Observation,
    PendingEvidence,
    Provenance,
    RevisionSummary,
)


@dataclass(frozen=True, slots=True)
class Background:
    """What a report needs beside the thread itself."""

    deployment: str
    environment: str | None
    names: Names
    version_key: str
    declared_fields: tuple[str, ...]
    revisions: Mapping[int, RevisionSummary]
    schema_revision: str
    server_version: str | None
    drainboard_version: str
    live: bool
    observations: tuple[Observation, ...] = ()
    current: Current | None = None
    deploys: tuple[Deploy, ...] = ()
    lineage: tuple[CheckpointFacts, ...] | None = None
    saver: str | None = None
    is_reported: bool = False


def not_found(thread_id: str, background: Background) -> Evidence:
    """The report of a thread that nobody has seen."""
    return Evidence(
        found=False,
        deployment=background.deployment,
        environment=background.environment,
        thread_id=thread_id,
        diagnosis=_unknown(thread_id, background),
        provenance=_provenance(None, background),
    )


def report(facts: ThreadFacts, mentions: tuple[DrainMention, ...], background: Background) -> Evidence:
    """The report of a thread that was seen, tombstones included."""
    row, state = facts.row, facts.state
    shape = row.shape or (state.shape if state else None)
    pending = tuple(_pending(facts, background))
    return Evidence(
        found=True,
        deployment=background.deployment,
        environment=background.environment,
        thread_id=row.thread_id,
        graph_id=row.graph_id,
        head_graph_id=state.graph_id if state else None,
        assistant_id=row.assistant_id,
        status=row.status.value,
        condition=facts.condition.value,
        stuck=facts.stuck,
        created_at=row.created_at,
        updated_at=row.updated_at,
        checkpoint=_checkpoint(facts),
        history=_history(facts, background),
        pending=pending if state is not None or pending else None,
        unapplied=state.unapplied if state else None,
        fields=_fields(facts, background),
        undeclared_fields=_undeclared(shape, background),
        conflicts={label: found.value for label, found in shape.conflicts.items()} if shape else None,
        state_version=_version(shape, background.version_key),
        departures=tuple(_departures(background)),
        last_run=_last_run(facts),
        deploys=tuple(_deploys(facts, background)),
        drains=mentions,
        lineage=_lineage(facts, background),
        diagnosis=_diagnosis(
            Patient(background.deployment, facts, pending, shape, _declared(facts, background), mentions), background
        ),
        provenance=_provenance(facts, background),
    )


def _diagnosis(patient: Patient, background: Background) -> Diagnosis:
    if not background.is_reported:
        return diagnose(patient)
    row = patient.facts.row
    return _unknown(row.thread_id, background) if row.updated_at == NEVER else for_reported(diagnose(patient))


def _unknown(thread_id: str, background: Background) -> Diagnosis:
    found = unknown_thread(background.deployment, thread_id)
    return for_reported(found) if background.is_reported else found


def _pending(facts: ThreadFacts, background: Background) -> Iterator[PendingEvidence]:
    """Pending leaves, those of one node, namespace and source together."""
    groups: dict[tuple[str, str, LeafSource], list[Leaf]] = {}
    for leaf in facts.leaves:
        groups.setdefault((leaf.node, leaf.ns, leaf.source), []).append(leaf)
    for (node, ns, source), leaves in sorted(groups.items()):
        causes = Counter(leaf.cause for leaf in leaves)
        failed = next((leaf.error_class for leaf in leaves if leaf.error_class is not None), None)
        yield PendingEvidence(
            node=node,
            ns=ns,
            tasks=len(leaves),
            interrupts=sum(leaf.interrupts for leaf in leaves),
            cause=causes.most_common(1)[0][0].value,
            error_class=failed,
            deployed=_is_deployed(node, facts, background),
            source=source.value,
        )


def _is_deployed(node: str, facts: ThreadFacts, background: Background) -> bool | None:
    """Whether a graph of the thread has a node now, as the thread's own configuration draws it. None: nobody knows how that
    draws it, or none of the graphs was ever drawn."""
    graphs = {facts.row.graph_id, facts.state.graph_id if facts.state else None, facts.head_graph} - {None}
    known = [revision for revision in background.revisions.values() if revision.graph in graphs]
    if not known:
        return None
    if not any(node in revision.nodes for revision in known if revision.vanished_at is None):
        return False
    if background.current is None:
        return True
    own = [background.current.of(graph, facts.row.config) for graph in graphs]
    if any(node in revision.nodes for revision in own if revision is not None):
        return True
    return None if None in own else False


def _declared(facts: ThreadFacts, background: Background) -> frozenset[str] | None:
    """The state fields that the thread's graph has, now or when its head was written, as they are kept; None: not known."""
    graph = facts.row.graph_id
    own = [revision.fields for revision in background.revisions.values() if revision.graph == graph]
    names = {name for fields in own for name in fields}
    return frozenset(background.names.kept(name) for name in names) or None


def _checkpoint(facts: ThreadFacts) -> CheckpointEvidence | None:
    state = facts.state
    if state is None or state.checkpoint_id is None:
        return None
    return CheckpointEvidence(state.checkpoint_id, state.parent_id, "", state.created_at, state.source, state.step)


def _fields(facts: ThreadFacts, background: Background) -> dict[str, FieldEvidence]:
    """Every field with a name in clear, in row and state. None: that source cannot tell."""
    row = _clear(facts.row.shape, background)
    state = _clear(facts.state.shape if facts.state else None, background)
    stored = facts.storage.versions if facts.storage else {}  # all of it, or not read just now
    names = sorted({*background.declared_fields, *(row or {}), *(state or {})})
    found = {}
    for name in names:
        in_row, in_state = _presence(row, name), _presence(state, name)
        fact = (row or {}).get(name) or (state or {}).get(name)
        versions = stored.get(name, 0) if stored else None
        found[name] = FieldEvidence(in_row, in_state, fact.kind.value if fact and fact.kind else None, versions)
    return found


def _clear(shape: Shape | None, background: Background) -> dict[str, FieldFact] | None:
    if shape is None:
        return None
    return {name: fact for name, fact in background.names.in_clear(shape.fields).items() if not is_hashed(name)}


def _presence(fields: Mapping[str, FieldFact] | None, name: str) -> str | None:
    if fields is None:
        return None
    return fields[name].presence.value if name in fields else "absent"


def _undeclared(shape: Shape | None, background: Background) -> int | None:
    if shape is None:
        return None
    return sum(1 for name in background.names.in_clear(shape.fields) if is_hashed(name))


def _version(shape: Shape | None, key: str) -> VersionReading:
    found = shape.versions.get(key) if shape else None
    return found or VersionReading(Reading.UNKNOWN)


def _history(facts: ThreadFacts, background: Background) -> dict[str, int | bool] | None:
    """How many checkpoints are stored: by storage, which counts inner ones too, else as far as the history was read."""
    if facts.storage is not None and facts.storage.checkpoints is not None:
        return {"depth": facts.storage.checkpoints, "truncated": False}
    if background.lineage is None:
        return None
    seen = background.lineage
    return {"depth": len(seen), "truncated": bool(seen) and seen[-1].parent_id is not None}


def _lineage(facts: ThreadFacts, background: Background) -> tuple[LineageStep, ...] | None:
    """The checkpoints of the root, newest first, where they were read now. What came next is told of those that were written
    since the last deploy: of others the server answers with what today's graph would do."""
    if background.lineage is None:
        return None
    graphs = {facts.row.graph_id, facts.state.graph_id if facts.state else None}
    deployed = max(
        (deploy.noticed_at for deploy in background.deploys if any(each.graph in graphs for each in deploy.changes)),
        default=None,
    )

    def following(found: CheckpointFacts) -> tuple[str, ...] | None:
        is_since = deployed is None or (found.created_at is not None and found.created_at > deployed)
        return tuple(sorted(found.tasks)) if is_since else None

    return tuple(
        LineageStep(found.id, found.parent_id, "", found.created_at, found.source, found.step, following(found))
        for found in background.lineage
    )


def _departures(background: Background) -> Iterator[dict[str, str | None]]:
    """How leaves left, newest first."""
    for found in background.observations:
        if found.left_at is not None and found.departure is not None:
            yield {
                "at": str(to_jsonable(found.left_at)),
                "node": found.node,
                "ns": found.ns,
                "checkpoint_id": found.checkpoint_id or None,
                "departure": found.departure,
                "arrived_at": str(to_jsonable(found.arrived_at)),
            }


def _deploys(facts: ThreadFacts, background: Background) -> Iterator[dict[str, str | None]]:
    """Deploys of the thread's graphs since its head was written, newest first. The first revision seen is no deploy."""
    wrote = facts.state.created_at if facts.state else None
    graphs = {facts.row.graph_id, facts.state.graph_id if facts.state else None} - {None}
    found: list[tuple[datetime, dict[str, str | None]]] = []
    stored = {(deploy.noticed_at, change.graph) for deploy in background.deploys for change in deploy.changes}
    for deploy in background.deploys:
        for change in deploy.changes:
            if change.graph in graphs:
                about = {"graph": change.graph, "revision": change.after, "kind": change.kind, "id": str(deploy.id)}
                found.append((deploy.noticed_at, about))
    for graph in graphs:  # noticed before deploys were stored
        line = sorted((r for r in background.revisions.values() if (r.graph, r.variant) == (graph, None)), key=_id)
        found += [
            (r.first_seen_at, {"graph": r.graph, "revision": r.hash, "kind": "changed", "id": None})
            for r in line[1:]
            if (r.first_seen_at, r.graph) not in stored
        ]
    for at, about in sorted(found, key=lambda pair: pair[0], reverse=True):
        if wrote is not None and at > wrote:
            yield {"at": str(to_jsonable(at)), **about}


def _id(revision: RevisionSummary) -> int:
    return revision.id


def _last_run(facts: ThreadFacts) -> dict[str, str | None] | None:
    """The newest run, where somebody asked; else the one that wrote the head, of which only the id is known."""
    newest = facts.last_run or max(facts.runs or (), key=lambda run: run.created_at, default=None)
    if newest is not None:
        return {"id": newest.run_id, "status": newest.status, "at": str(to_jsonable(newest.created_at))}
    wrote = facts.state.run_id if facts.state is not None else None
    return {"id": wrote, "status": None, "at": None} if wrote is not None else None


def _provenance(facts: ThreadFacts | None, background: Background) -> Provenance:
    revision = background.revisions.get(facts.revision_id) if facts and facts.revision_id is not None else None
    wrote = facts.state.created_at if facts and facts.state else None
    line = [
        r
        for r in background.revisions.values()
        if revision and (r.graph, r.variant) == (revision.graph, revision.variant)
    ]
    first = min((r.id for r in line), default=None)
    assumed = None
    if revision is not None and wrote is not None:
        assumed = revision.id == first and wrote < revision.first_seen_at
    return Provenance(
        source="reported" if background.is_reported else "live" if background.live else "stored",
        read_at=(facts.state_read_at or facts.seen_at) if facts else None,
        graph_revision=revision.hash if revision else None,
        revision_assumed=assumed,
        schema_revision=background.schema_revision,
        saver=background.saver,
        server_version=background.server_version,
        drainboard_version=background.drainboard_version,
        ttl_expires_at=facts.expires_at if facts else None,
    )
