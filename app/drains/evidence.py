"""The evidence report of one thread: what is known, what is the matter, what to do. Pure; no value can be in it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from app.drains.jsonable import to_jsonable
from app.facts.privacy import Names, is_hashed
from app.facts.types import (
    Agreement,
    Condition,
    FieldFact,
    Leaf,
    LeafSource,
    Reading,
    Shape,
    ThreadFacts,
    VersionReading,
)
from app.inventory.views import (
    CheckpointEvidence,
    Diagnosis,
    DrainMention,
    Evidence,
    FieldEvidence,
    NextStep,
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


def not_found(thread_id: str, background: Background) -> Evidence:
    """The report of a thread that nobody has seen."""
    steps = (
        NextStep("Check the whole id, and whether your application adds a prefix or a suffix to it.", None, True),
        NextStep(
            f"Check the deployment: this is {background.deployment}. Other environments have other threads.", None, True
        ),
        NextStep(
            "Ask the server now: it may have been made since the last poll.",
            f"drainboard evidence {background.deployment} {thread_id} --live",
            True,
        ),
    )
    return Evidence(
        found=False,
        deployment=background.deployment,
        environment=background.environment,
        thread_id=thread_id,
        diagnosis=Diagnosis("not_found", "No poll has seen this thread here.", steps),
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
        history=_history(facts),
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
        diagnosis=diagnose(facts, pending, shape, mentions, background),
        provenance=_provenance(facts, background),
    )


def _pending(facts: ThreadFacts, background: Background) -> Iterator[PendingEvidence]:
    """Pending leaves, those of one node, namespace and source together."""
    groups: dict[tuple[str, str, LeafSource], list[Leaf]] = {}
    for leaf in facts.leaves:
        groups.setdefault((leaf.node, leaf.ns, leaf.source), []).append(leaf)
    deployed = _deployed_nodes(facts, background)
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
            deployed=None if deployed is None else node in deployed,
            source=source.value,
        )


def _deployed_nodes(facts: ThreadFacts, background: Background) -> frozenset[str] | None:
    """The nodes of the thread's graphs as deployed now; None when none of them was ever drawn."""
    graphs = {facts.row.graph_id, facts.state.graph_id if facts.state else None} - {None}
    known = [revision for revision in background.revisions.values() if revision.graph in graphs]
    if not known:
        return None
    return frozenset(node for revision in known if revision.vanished_at is None for node in revision.nodes)


def _checkpoint(facts: ThreadFacts) -> CheckpointEvidence | None:
    state = facts.state
    if state is None or state.checkpoint_id is None:
        return None
    return CheckpointEvidence(state.checkpoint_id, state.parent_id, state.created_at, state.source, state.step)


def _fields(facts: ThreadFacts, background: Background) -> dict[str, FieldEvidence]:
    """Every field with a name in clear, in row and state. None: that source cannot tell."""
    row = _clear(facts.row.shape, background)
    state = _clear(facts.state.shape if facts.state else None, background)
    names = sorted({*background.declared_fields, *(row or {}), *(state or {})})
    found = {}
    for name in names:
        in_row, in_state = _presence(row, name), _presence(state, name)
        fact = (row or {}).get(name) or (state or {}).get(name)
        versions = facts.storage.versions.get(name) if facts.storage else None
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


def _history(facts: ThreadFacts) -> dict[str, int | bool] | None:
    """How many checkpoints are stored, inner ones included, where storage was asked."""
    if facts.storage is None or facts.storage.checkpoints is None:
        return None
    return {"depth": facts.storage.checkpoints, "truncated": False}


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


def _deploys(facts: ThreadFacts, background: Background) -> Iterator[dict[str, str]]:
    """Deploys of the thread's graphs since its head was written, newest first. The first revision seen is no deploy."""
    wrote = facts.state.created_at if facts.state else None
    graphs = {facts.row.graph_id, facts.state.graph_id if facts.state else None} - {None}
    for graph in sorted(graphs, key=str):
        mine = sorted((r for r in background.revisions.values() if r.graph == graph), key=lambda r: r.id)
        for revision in reversed(mine[1:]):
            if wrote is not None and revision.first_seen_at > wrote:
                yield {
                    "at": str(to_jsonable(revision.first_seen_at)),
                    "graph": revision.graph,
                    "revision": revision.hash,
                }


def _last_run(facts: ThreadFacts) -> dict[str, str] | None:
    if not facts.runs:
        return None
    newest = max(facts.runs, key=lambda run: run.created_at)
    return {"id": newest.run_id, "status": newest.status, "at": str(to_jsonable(newest.created_at))}


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
        source="live" if background.live else "stored",
        read_at=(facts.state_read_at or facts.seen_at) if facts else None,
        graph_revision=revision.hash if revision else None,
        revision_assumed=assumed,
        schema_revision=background.schema_revision,
        saver=None,
        server_version=background.server_version,
        drainboard_version=background.drainboard_version,
    )


# -- diagnosis -----------------------------------------------------------------------------------------------------


def diagnose(
    facts: ThreadFacts,
    pending: tuple[PendingEvidence, ...],
    shape: Shape | None,
    mentions: tuple[DrainMention, ...],
    background: Background,
) -> Diagnosis:
    """Walk the tree that an engineer would, and stop at the first thing that is the matter."""
    where = _where(pending)
    undeployed = [found.node for found in pending if found.deployed is False]
    look = f"drainboard evidence {background.deployment} {facts.row.thread_id} --live"
    again = NextStep("Look again now.", look, True)
    match facts.condition:
        case Condition.STRANDED:
            return _stranded(where, again)
        case Condition.LOST:
            steps = (NextStep("Decide by hand what the lost step should have done, and do it.", None, False), again)
            return Diagnosis(
                "lost", f"It waited{where}, and a run went past without doing it: its answer is lost.", steps
            )
        case _ if undeployed:
            return Diagnosis(
                "parked_at_undeployed", f"It waits at `{undeployed[0]}`, which is not deployed.", _put_back()
            )
        case Condition.RUNNING if facts.stuck:
            steps = (NextStep("Look at the run in the server's log; cancel it if it hangs.", None, False), again)
            return Diagnosis("no_progress", "It runs, and has written no checkpoint for too long.", steps)
        case _:
            return _by_condition(facts, where, shape, mentions, again)


def _by_condition(
    facts: ThreadFacts, where: str, shape: Shape | None, mentions: tuple[DrainMention, ...], again: NextStep
) -> Diagnosis:
    sentence, steps = _CONDITIONS[facts.condition]
    found = Diagnosis(facts.condition.value, sentence.format(where=where), (*steps, again))
    if facts.condition is Condition.PARKED:
        return found
    if shape is not None and Agreement.DISAGREE in shape.conflicts.values():
        label = next(label for label, value in shape.conflicts.items() if value is Agreement.DISAGREE)
        names = label.replace("->", "` and `")
        step = NextStep("Decide which of the two is right, and write it to both.", None, False)
        return Diagnosis("conflict", f"`{names}` are both present and differ.", (step, again))
    if shape is not None and any(v.reading is Reading.MALFORMED for v in shape.versions.values()):
        key = next(key for key, v in shape.versions.items() if v.reading is Reading.MALFORMED)
        step = NextStep("Write the version as a number, or fix what writes it.", None, True)
        return Diagnosis("bad_version", f"`{key}` is no number from 0 to 9999.", (step, again))
    old = [m.name for m in mentions if m.disposition in ("holds_old_field", "old_version")]
    if old and facts.condition in (Condition.SETTLED, Condition.PRESUMED_SETTLED):
        step = NextStep("Migrate its state, or finish it with code that still knows the old form.", None, True)
        return Diagnosis(
            "unmigrated", f"Nothing waits, but it is in the old form that `{old[0]}` removes.", (step, again)
        )
    return found


_CONDITIONS: dict[Condition, tuple[str, tuple[NextStep, ...]]] = {
    Condition.GONE: (
        "The server says that this thread does not exist any more. Below is what was last known.",
        (NextStep("Check whether it was deleted on purpose, or the server's store was changed.", None, True),),
    ),
    Condition.GRAPH_MISSING: (
        "Its graph is not deployed, so nobody can go on with it.",
        (NextStep("Deploy the graph again; the thread is untouched.", None, True),),
    ),
    Condition.UNREADABLE: (
        "Its state cannot be read under the deployed graph: most likely the state schema became stricter.",
        (NextStep("Loosen the schema so that the old state is valid.", None, True),),
    ),
    Condition.UNREAD: (
        "Its state was not read yet, or cannot be trusted as current.",
        (NextStep("Wait for the next poll.", "drainboard poll", True),),
    ),
    Condition.RUNNING: ("A run is active{where}.", (NextStep("Wait until it stops.", None, True),)),
    Condition.SCHEDULED: ("A run is waiting to start.", (NextStep("Wait, or cancel the run.", None, True),)),
    Condition.NEVER_RAN: ("It was created and never ran.", ()),
    Condition.UNPLACED: (
        "Its row says that it failed or waits, but nothing is pending and no node can be named.",
        (NextStep("Look at its last run in the server's log: it may have been refused.", None, True),),
    ),
    Condition.FAILED: (
        "It failed{where} and goes on there when it is retried.",
        (NextStep("Fix the cause, then run it again without input: it repeats the failed step.", None, False),),
    ),
    Condition.PARKED: (
        "It waits{where}.",
        (NextStep("Whoever answers it should do so; the answer goes on from here.", None, False),),
    ),
    Condition.HALF_STEP: (
        "A parallel step is half done: finished parts wait to be applied.",
        (NextStep("Run it again without input, so that the step ends.", None, True),),
    ),
    Condition.PRESUMED_SETTLED: ("It is idle; its head was not looked at since it last moved.", ()),
    Condition.SETTLED: ("Nothing is pending.", ()),
}


def _stranded(where: str, again: NextStep) -> Diagnosis:
    sentence = f"It waits{where}, but the deployed graph does not schedule that. Its interrupt is intact."
    return Diagnosis("stranded", sentence, (*_put_back(), again))


def _put_back() -> tuple[NextStep, ...]:
    return (
        NextStep("Put the node back and deploy: the thread waits there again.", None, True),
        NextStep("Or finish it on the old revision.", None, False),
        NextStep("Do not answer it now: the run would succeed and the answer would be lost.", None, False),
    )


def _where(pending: tuple[PendingEvidence, ...]) -> str:
    nodes = sorted({found.node for found in pending})
    return f" at {', '.join(f'`{node}`' for node in nodes)}" if nodes else ""


# -- Markdown ------------------------------------------------------------------------------------------------------


def to_markdown(evidence: Evidence, now: datetime) -> str:
    """The report to paste into a ticket."""
    raw = to_jsonable(evidence)
    lines = [
        f"## Thread `{evidence.thread_id}`",
        "",
        f"**{evidence.diagnosis.sentence}**",
        "",
        *(f"{index}. {_step(step)}" for index, step in enumerate(evidence.diagnosis.next_steps, 1)),
        "",
        *_table(["", ""], [[key, _cell(raw[key])] for key in _SUMMARY if raw.get(key) is not None]),
    ]
    if evidence.pending:
        rows = [
            [f"`{p.node}`", str(p.tasks), p.cause, _yes(p.deployed), p.source.replace("_", " ")]
            for p in evidence.pending
        ]
        lines += ["", "### Where", "", *_table(["node", "tasks", "cause", "deployed", "known from"], rows)]
    if evidence.fields:
        rows = [[f"`{name}`", f.row or "?", f.state or "?", f.kind or ""] for name, f in evidence.fields.items()]
        lines += ["", "### Fields", "", *_table(["field", "row", "state", "kind"], rows)]
    if evidence.drains:
        rows = [[f"`{drain.name}`", drain.disposition.replace("_", " ")] for drain in evidence.drains]
        lines += ["", "### Drains", "", *_table(["drain", "this thread"], rows)]
    source = evidence.provenance
    lines += [
        "",
        f"_{evidence.schema}, {source.source}, read {_cell(to_jsonable(source.read_at))}, "
        f"written {_cell(to_jsonable(now))} by Drainboard {source.drainboard_version}. No state values._",
        "",
    ]
    return "\n".join(lines)


_SUMMARY = ("deployment", "environment", "graph_id", "assistant_id", "status", "condition", "created_at", "updated_at")


def _step(step: NextStep) -> str:
    command = f" `{step.command}`" if step.command else ""
    return f"{step.text}{command} ({'safe' if step.safe_to_repeat else 'not safe'} to repeat)"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|")


def _yes(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "no"
