"""A candidate beside the inventory: gathers what a preflight stands on, in one read transaction, and answers."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy import and_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.looking import Look, take_look
from app.drains.preflight import Change, ChangeKind, Deployed, compare
from app.drains.preflight_answers import (
    EXIT_CODES,
    ChangeAnswer,
    PreflightAnswer,
    PreflightReason,
    by_weight,
    headline,
    sentence,
    verdict_of,
)
from app.drains.preflight_drains import drains_for
from app.drains.preflight_outcomes import Outcome, is_witnessed, outcome_of
from app.drains.preflight_reasons import freshness
from app.drains.spec import DrainSpec, to_json
from app.errors import BadRequest, NotFound
from app.facts.candidates import Candidate, drawn_hash
from app.facts.topology import UNREADABLE
from app.facts.types import Condition, FieldType
from app.inventory import reads, register, subjects
from app.inventory.freshness import read_polls, threads_source
from app.inventory.origin import other_server_at
from app.inventory.store import Store
from app.inventory.subjects import SubjectKey
from app.inventory.topologies import Declared, list_declared, list_pushed
from app.inventory.views import RevisionSummary
from app.settings import DeploymentSettings, Settings

EXAMPLES = 10
_ELSEWHERE = "{n:,} idle threads last ran under another graph, and their work may be of `{graph}`: open a drain, so that a poll reads them."
WITHHOLD = ("mass_disappearance", "canary_missing")


@dataclass(frozen=True, slots=True)
class _NoDrain:
    """What a look needs of a drain, where there is none."""

    deployment_id: int
    spec: Mapping[str, Any]
    id: int = 0
    observing_since: datetime | None = None
    holds_since: datetime | None = None
    sweeps: int = 0
    regressed_since: datetime | None = None
    drained_at: datetime | None = None
    removed: Mapping[str, str] = field(default_factory=dict)
    fell_at: datetime | None = None
    leaking_since: datetime | None = None


class Preflights:
    """Compares candidates with what is deployed. Every method opens its own short transaction."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store

    async def ask(
        self, deployment: str, candidates: Mapping[str, Candidate], *, is_whole: bool, now: datetime
    ) -> PreflightAnswer:
        """Would this candidate break a live thread? Raises ``NotFound`` and ``BadRequest``."""
        settings = self._settings.deployment(deployment)
        if settings is None:
            known = ", ".join(each.name for each in self._settings.deployments) or "none"
            raise NotFound(f"There is no deployment with the name {deployment[:100]!r}. Known: {known}.")
        async with self._store.database.read() as connection:
            row = await reads.find_deployment(connection, deployment)
            if row is None:
                raise NotFound(f"The deployment {deployment} was not looked at yet. `drainboard poll` does it now.")
            before = await read_deployed(connection, row.id)
            _check_known(before, candidates, is_whole=is_whole)
            changes = compare(before, candidates, is_whole=is_whole)
            found, elsewhere = await weigh(connection, self._store, row.id, settings, changes, now=now)
            reasons = [*await self._freshness(connection, row, settings, now), *elsewhere]
            polls = await read_polls(connection, row.id)
        verdict = verdict_of(found, reasons)
        return PreflightAnswer(
            deployment=deployment,
            environment=settings.environment,
            verdict=verdict,
            exit_code=EXIT_CODES[verdict],
            headline=headline(verdict, found, reasons),
            as_of=polls.complete_scan.started_at if polls.complete_scan else None,
            evaluated_at=now,
            changes=found,
            reasons=tuple(reasons),
            drains=drains_for(deployment, changes, found),
        )

    async def _freshness(
        self, connection: AsyncConnection, row: Any, settings: DeploymentSettings, now: datetime
    ) -> list[PreflightReason]:
        polls = await read_polls(connection, row.id)
        source = threads_source(row, polls, poll_interval=settings.poll_interval, now=now)
        alarms = await reads.list_alarms(connection, row.id, settings.name)
        codes = await register.acknowledged_codes(connection, row.id, drain_id=None, now=now)
        standing = [alarm for alarm in alarms if alarm.code in WITHHOLD and not alarm.is_explained(codes)]
        seen = freshness(
            polls,
            is_failing=source.status == "failed",
            erased_poll=row.erased_poll_id or 0,
            other_server_at=other_server_at(row.source, settings, self._store.hash_key),
            now=now,
        )
        return [
            *seen,
            *(PreflightReason(alarm.code, alarm.sentence, alarm.count) for alarm in standing),
        ]


async def read_deployed(connection: AsyncConnection, deployment_id: int) -> dict[str, Deployed]:
    """Every graph that is deployed now, over all configurations that draw it."""
    revisions = [one for one in await reads.list_revisions(connection, deployment_id) if one.vanished_at is None]
    declared, pushed = await list_declared(connection, deployment_id), await list_pushed(connection, deployment_id)
    found: dict[str, Deployed] = {}
    for graph in sorted({one.graph for one in revisions}):
        own = sorted((one for one in revisions if one.graph == graph), key=lambda one: one.variant or "")
        said = [pushed.get((graph, drawn_hash(one.nodes, one.edges))) for one in own]
        primary = declared.get(own[0].id)
        found[graph] = Deployed(
            graph=graph,
            nodes=frozenset(node for one in own for node in one.nodes),
            edges=frozenset(edge for one in own for edge in one.edges),
            deferred=frozenset(node for one in own for node in one.deferred),
            fields=_fields(own),
            types=primary.types if primary is not None else {},
            required=primary.required if primary is not None else frozenset(),
            inner_types=_inner_types([declared.get(one.id) for one in own]),
            pushed=said[0].candidate if len(own) == 1 and said[0] is not None else None,
            is_readable=all(one.xray_hash != UNREADABLE for one in own),
        )
    return found


def _inner_types(told: Sequence[Declared | None]) -> Mapping[str, Mapping[str, FieldType]] | None:
    """What the fields of each subgraph take, if the server tells it of all configurations, and the same."""
    found = [one.inner_types if one is not None else None for one in told]
    return found[0] if all(one == found[0] for one in found) else None


def _fields(own: Sequence[RevisionSummary]) -> frozenset[str]:
    """The fields that it declares, LangGraph's own channels left out; none where a configuration declares none: that one shows
    all that is stored."""
    declared = [{name for name in one.fields if not name.startswith("__")} for one in own]
    return frozenset(name for names in declared for name in names) if all(declared) else frozenset()


def _check_known(before: Mapping[str, Deployed], candidates: Mapping[str, Candidate], *, is_whole: bool) -> None:
    """A single graph that is not deployed under its name would compare with nothing, and look safe."""
    unknown = sorted(set(candidates) - set(before))
    if before and unknown and (not is_whole or len(unknown) == len(candidates)):
        raise BadRequest(
            f"No graph {unknown[0][:100]!r} is deployed. Deployed: {', '.join(sorted(before))}. Say which it is with --graph-id.",
            code="graph_unknown",
        )


async def weigh(
    connection: AsyncConnection,
    store: Store,
    deployment_id: int,
    settings: DeploymentSettings,
    changes: Iterable[Change],
    *,
    now: datetime,
) -> tuple[tuple[ChangeAnswer, ...], list[PreflightReason]]:
    """What each change means for the threads of its graph, and what is not known of threads that may be of the graph."""
    found: list[ChangeAnswer] = []
    reasons = []
    by_graph: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_graph[change.graph].append(change)
    for graph, of_graph in sorted(by_graph.items()):
        if all(change.is_addition for change in of_graph):
            found += [_answer(change, settings.name, Outcome.SAFE, 0, ()) for change in of_graph]
            continue
        spec = DrainSpec(name="preflight", deployment=settings.name, graph=graph, targets=())
        row = _NoDrain(deployment_id, to_json(spec))
        look = await take_look(connection, store, row, settings, now=now, count=False)
        if any(change.kind is ChangeKind.GRAPH_REMOVED for change in of_graph):
            look.population = and_(look.population, reads.has_graph())  # a thread of no graph loses none
        look.counts = await subjects.count_subjects(connection, deployment_id, look.population, lens=look.lens)
        witnessed = [_witnessed(look, change) for change in of_graph]
        for change in witnessed:
            found += await _weighed(connection, look, change)
        if not any(change.may_touch_unread for change in witnessed):
            continue
        moved = reads.may_belong(graph, metadata={}, created_before=None)
        if elsewhere := await reads.count_threads(connection, deployment_id, and_(moved, reads.is_alive())):
            reasons.append(PreflightReason("idle_unverified", _ELSEWHERE.format(n=elsewhere, graph=graph), elsewhere))
    return by_weight(found), reasons


def _witnessed(look: Look, change: Change) -> Change:
    if change.kind is not ChangeKind.JOIN_UNSEEN:
        return change
    return replace(change, is_witnessed=is_witnessed(change, [look.subject(one.key) for one in look.counts]))


async def _weighed(connection: AsyncConnection, look: Look, change: Change) -> list[ChangeAnswer]:
    keys: dict[Outcome, list[SubjectKey]] = defaultdict(list)
    counts: dict[Outcome, int] = defaultdict(int)
    hidden = 0
    for one in look.counts:
        subject = look.subject(one.key)
        outcome = outcome_of(change, subject, look.rules)
        keys[outcome].append(one.key)
        counts[outcome] += one.count
        if change.kind is ChangeKind.FIELD_REMOVED and subject.condition is Condition.SETTLED:
            shapes = [shape for shape in (subject.shape, subject.state_shape) if shape is not None]
            hidden += one.count if any(look.rules.find(shape.fields, change.name) for shape in shapes) else 0
    said = []
    for outcome in Outcome:
        if outcome is Outcome.SAFE or not counts[outcome]:
            continue
        examples, _ = await subjects.list_subject_threads(
            connection, look.deployment_id, look.of(keys[outcome]), lens=look.lens, cursor=None, limit=EXAMPLES
        )
        ids = tuple(one.thread_id for one in examples)
        said.append(_answer(change, look.deployment.name, outcome, counts[outcome], ids))
    if not said and not change.is_suspected:
        return [_answer(change, look.deployment.name, Outcome.SAFE, 0, (), hidden=hidden)]
    return said


def _answer(
    change: Change, deployment: str, outcome: Outcome, count: int, examples: tuple[str, ...], *, hidden: int = 0
) -> ChangeAnswer:
    return ChangeAnswer(
        kind=change.kind.value,
        graph=change.graph,
        name=change.name,
        outcome=outcome.value,
        count=count,
        sentence=sentence(change, outcome, count, hidden=hidden),
        renamed_to=change.renamed_to,
        threads=_threads(change, deployment, outcome) if count else None,
        examples=examples,
    )


def _threads(change: Change, deployment: str, outcome: Outcome) -> str:
    """A list that has all threads of an answer; of what no view names it has more."""
    filters: list[tuple[str, str]] = [("graph", change.graph)]
    if outcome in (Outcome.WOULD_STRAND, Outcome.WOULD_DROP_SEND) and change.kind is ChangeKind.NODE_REMOVED:
        filters.append(("pending", change.name))
    elif outcome is Outcome.WOULD_HIDE:
        filters += [("fields", f"{change.name}:{presence}") for presence in ("present", "empty", "null")]
    elif outcome is Outcome.MAY_STRAND:
        filters += [("condition", one) for one in ("parked", "half_step", "running", "failed", "stranded")]
    return f"/api/v1/deployments/{quote(deployment)}/threads?{urlencode(filters)}"
