"""One drain, looked at: its classes of threads, what each means, and how many threads are in it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, and_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.criteria import as_asked
from app.drains.deployed import fields_by_revision, nodes_by_revision
from app.drains.dispositions import Disposition, Finding, Standing
from app.drains.judging import judge
from app.drains.spec import DrainSpec, from_json
from app.drains.subjects import Routes, Rules, Subject, Work, WorkLeaf
from app.drains.verdicts import SoakState
from app.facts.topology import at_or_below
from app.facts.types import Condition
from app.inventory import cube, reads, register, subjects
from app.inventory.encode import Json, is_nameless, waits_for_of
from app.inventory.index import Comparisons
from app.inventory.store import Store
from app.inventory.subjects import Lens, SubjectCount, SubjectKey
from app.inventory.views import RevisionSummary
from app.inventory.writes import Dictionaries
from app.settings import DeploymentSettings

MOST_SORTED = 20_000


@dataclass
class Look:
    """One drain at one moment: its row, its spec, its classes of threads, what each means and how many threads it has.

    ``in_cells``: the population as cells of the cube; None where it cannot tell its threads apart.
    ``codes``: what was acknowledged for the drain as a whole, and when. ``passed``: how many threads of a class were seen at a
    node target and completed it. ``assistants``: the threads of a class by the assistant that ran them. ``void``: targets whose
    removal counts no more as one of a drained drain.
    """

    row: Any
    spec: DrainSpec
    deployment: DeploymentSettings
    revisions: Sequence[RevisionSummary]
    population: ColumnElement[bool]
    in_cells: cube.Where | None
    rules: Rules
    lens: Lens
    dictionaries: Dictionaries
    comparisons: Comparisons
    codes: Mapping[str, datetime]
    void: frozenset[str]
    hash_key: bytes
    now: datetime
    standings: dict[SubjectKey, Standing] = field(default_factory=dict)
    counts: list[SubjectCount] = field(default_factory=list)
    passed: Mapping[SubjectKey, int] = field(default_factory=dict)
    assistants: Mapping[SubjectKey, Mapping[str | None, int]] = field(default_factory=dict)

    @property
    def deployment_id(self) -> int:
        """The deployment's key."""
        return int(self.row.deployment_id)

    @property
    def soak(self) -> SoakState:
        """What is remembered of the drain and counts. A fall at a deploy that somebody has acknowledged since is none."""
        found, said = soak_of(self.row), self.codes.get("fell_at_deploy")
        found = replace(found, removed={key: when for key, when in found.removed.items() if key not in self.void})
        is_dealt_with = found.fell_at is not None and said is not None and said >= found.fell_at
        return replace(found, fell_at=None) if is_dealt_with else found

    @property
    def closed_at(self) -> datetime | None:
        """When intake closed: from then on nobody should take the old way."""
        closed: datetime | None = self.spec.intake_closed_at or self.row.observing_since
        return closed

    @property
    def is_blocked(self) -> bool:
        """Whether any thread blocks."""
        return any(blocks(standing) for standing in self.standings.values())

    def keys(
        self, wanted: Collection[Disposition] | None = None, *, reason: str | None = None, target: str | None = None
    ) -> list[SubjectKey]:
        """Classes with one of these dispositions (for one target, by its key), or that count under a reason."""
        return [
            key
            for key, standing in self.standings.items()
            if (wanted is None or _for(standing, target).disposition in wanted)
            and (reason is None or reason in standing.reasons)
        ]

    def of(self, keys: Collection[SubjectKey]) -> ColumnElement[bool]:
        """The threads of these classes."""
        return and_(self.population, subjects.looks_like(keys, lens=self.lens))

    def has_completed(self) -> ColumnElement[bool]:
        """Threads that were seen at a node target, or below it, and went on when it was done."""
        return subjects.has_completed(self.deployment_id, self.nodes_seen())

    def nodes_seen(self) -> set[str]:
        """The node targets and what is below them, where a thread was ever seen: the dictionary of pending work has all."""
        seen = {leaf[0] for work in self.dictionaries.works.values() for leaf in work["leaves"]}
        return {node for node in seen if any(at_or_below(node, target) for target in self.spec.nodes)}

    def are_many(self, keys: Collection[SubjectKey]) -> bool:
        """Whether there are too many threads like these, by condition and work, to sort them all."""
        pairs = {(key.condition, key.work_id) for key in keys}
        alike = sum(found.count for found in self.counts if (found.key.condition, found.key.work_id) in pairs)
        return alike > MOST_SORTED

    def subject(self, key: SubjectKey) -> Subject:
        """A class of threads as the rules see it."""
        known = self.dictionaries
        work = known.works[key.work_id]
        return Subject(
            condition=Condition(key.condition),
            work=Work(tuple(WorkLeaf(*leaf) for leaf in work["leaves"]), work["half_step"]),
            shape=None if key.shape_id is None else known.shapes.get(key.shape_id),
            state_shape=None if key.state_shape_id is None else known.shapes.get(key.state_shape_id),
            revision_id=key.revision_id,
            reading_is_current=key.is_current,
            routes=_routes(None if key.routes_id is None else known.routes.get(key.routes_id)),
            is_waived=key.is_waived,
            is_past_retention=key.is_past_retention,
        )

    def judge(self, key: SubjectKey) -> Standing:
        """What a class of threads means for the drain."""
        return judge(self.subject(key), self.spec.targets, self.rules)


def _for(standing: Standing, target: str | None) -> Finding:
    """What threads of this standing mean, as a whole or for one target."""
    return standing.overall if target is None else standing.by_target[target]


def blocks(standing: Standing) -> bool:
    """Whether threads of this standing block."""
    return standing.overall.disposition.group == "blocking"


def soak_of(row: Any) -> SoakState:
    """What the drain's row remembers."""
    return SoakState(
        holds_since=row.holds_since,
        sweeps=row.sweeps,
        regressed_since=row.regressed_since,
        drained_at=row.drained_at,
        removed={key: datetime.fromisoformat(when) for key, when in row.removed.items()},
        fell_at=row.fell_at,
        leaking_since=row.leaking_since,
    )


async def take_look(
    connection: AsyncConnection,
    store: Store,
    row: Any,
    deployment: DeploymentSettings,
    *,
    now: datetime,
    max_age: timedelta | None = None,
    count: bool = True,
) -> Look:
    """Look at a drain; without ``count`` its threads are not counted."""
    spec = as_asked(from_json(row.spec), deployment)
    revisions = await reads.list_revisions(connection, row.deployment_id)
    names = await store.names(connection, row.deployment_id, deployment)
    soak = soak_of(row)
    void = await _void_removals(connection, row.id, soak.removed, slack=spec.policy.max_age, now=now)
    removed = {key: when for key, when in soak.removed.items() if key not in void}
    dictionaries = store.dictionaries(row.deployment_id)
    await dictionaries.load(connection)
    look = Look(
        row=row,
        spec=spec,
        deployment=deployment,
        revisions=revisions,
        population=reads.in_population(spec.graph, metadata=spec.metadata, created_before=spec.created_before),
        in_cells=partial(reads.is_of_graph, spec.graph)
        if reads.is_told_by_cells(spec.metadata, spec.created_before)
        else None,
        rules=Rules(
            revision_nodes=nodes_by_revision(spec, revisions, removed),
            revision_fields=fields_by_revision(spec, revisions, removed),
            joins=_ever(spec, revisions, "joins") | _stored_joins(spec, revisions, dictionaries),
            deferred=_ever(spec, revisions, "deferred"),
            find=names.find,
            policy=spec.policy,
            newest_versions=spec.newest_versions,
            varies=any(found.graph == spec.graph and found.variant is not None for found in revisions),
            sees_history=not deployment.reported,
        ),
        lens=await _lens(connection, row, spec, now, max_age),
        dictionaries=dictionaries,
        comparisons=store.comparisons(row.deployment_id),
        codes=await register.acknowledged_codes(connection, row.deployment_id, drain_id=row.id, now=now),
        void=void,
        hash_key=store.hash_key,
        now=now,
    )
    if count:
        await _count(connection, look)
    return look


async def _void_removals(
    connection: AsyncConnection, drain_id: int, removed: Mapping[str, datetime], *, slack: timedelta, now: datetime
) -> frozenset[str]:
    """Removals at which a thread was waived that is not waived any more: nobody asked then whether it needed the target.
    ``slack``: how old the answer may be on which a target was removed."""
    found = set()
    for key, when in removed.items():
        if await register.has_outlived_waiver(connection, drain_id, since=when - slack, until=when, now=now):
            found.add(key)
    return frozenset(found)


async def _lens(
    connection: AsyncConnection, row: Any, spec: DrainSpec, now: datetime, max_age: timedelta | None
) -> Lens:
    allowed = spec.policy.max_age if max_age is None else min(spec.policy.max_age, max_age)
    idle_for = spec.policy.retention_idle_for
    has_waivers = await register.has_waivers(connection, row.id, now)
    return Lens(
        cutoff=now - allowed,
        waived=register.is_waived(row.id, now) if has_waivers else None,
        changed_before=None if idle_for is None else now - idle_for,
    )


async def _count(connection: AsyncConnection, look: Look) -> None:
    look.assistants = await subjects.count_population(
        connection, look.deployment_id, look.population, look.in_cells, lens=look.lens
    )
    look.counts = [SubjectCount(key, sum(found.values())) for key, found in look.assistants.items()]
    look.standings = {found.key: look.judge(found.key) for found in look.counts}
    clear = [key for key, standing in look.standings.items() if standing.overall == Finding(Disposition.UNAFFECTED)]
    if look.spec.nodes and clear:
        found = await subjects.count_completed(
            connection, look.deployment_id, look.nodes_seen(), look.population, lens=look.lens
        )
        wanted = set(clear)
        look.passed = {key: count for key, count in found.items() if key in wanted}


def _ever(spec: DrainSpec, revisions: Iterable[RevisionSummary], kind: str) -> frozenset[str]:
    """Nodes that were a join, or deferred, in any revision of the drain's graph."""
    return frozenset(node for found in revisions if found.graph == spec.graph for node in getattr(found, kind))


def _stored_joins(spec: DrainSpec, revisions: Iterable[RevisionSummary], dictionaries: Dictionaries) -> frozenset[str]:
    """Nodes at which some thread's storage has a join. One that waits for a single node is drawn as any other edge."""
    names = {name for raw in dictionaries.routes.values() for name in raw["joins"]}
    of_graph = (found for found in revisions if found.graph == spec.graph)
    return frozenset(node for found in of_graph for node in found.nodes if node.rpartition("/")[2] in names)


def _routes(raw: Json | None) -> Routes | None:
    if raw is None:
        return None
    return Routes(
        frozenset(raw["branches"]),
        frozenset(raw["joins"]),
        raw["sends"],
        frozenset(raw["fields"]),
        frozenset(raw.get("empty", ())),
        is_nameless(raw),
        waits_for_of(raw),
    )
