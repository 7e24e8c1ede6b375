"""Gathers what a verdict stands on, in one read transaction."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.answers import MustAct, MustActFor, OldestBlocker
from app.drains.beside import count_untraced, gather_index, gather_traces
from app.drains.deployed import deployed_targets
from app.drains.dispositions import Disposition
from app.drains.entered import entered, shown_not_entered
from app.drains.intake import count_intake
from app.drains.looking import Look, blocks
from app.drains.verdicts import Evidence
from app.facts.types import Condition
from app.inventory import cube, reads, register, subjects
from app.inventory.freshness import read_polls, threads_source
from app.inventory.origin import other_server_at
from app.inventory.traces import find_source
from app.inventory.views import Alarm, Said

MOST_GROUPS = 20
STILL_WANTED = timedelta(days=1)  # traces, after their section was taken out of the settings
ALARMS_THAT_WITHHOLD = ("mass_disappearance", "canary_missing")


async def gather_evidence(connection: AsyncConnection, look: Look, *, max_age: timedelta | None = None) -> Evidence:
    """Everything that is known for a drain's verdict at the moment of the look."""
    row, spec, now, deployment_id = look.row, look.spec, look.now, look.deployment_id
    polls = await read_polls(connection, deployment_id)
    stored = await reads.find_deployment(connection, spec.deployment)
    alarms = await reads.list_alarms(connection, deployment_id, spec.deployment)
    fresh_leaks, intake_unseen = await count_intake(connection, look)
    looked_at = polls.complete_scan.started_at if polls.complete_scan else None
    traces = await gather_traces(connection, look, looked_at=looked_at, max_age=max_age)
    if intake_unseen and look.closed_at is not None and traces is not None and traces.is_trusted(now, look.closed_at):
        intake_unseen = await count_untraced(connection, look, look.closed_at)
    return Evidence(
        spec=replace(spec, phase="closed") if row.closed_at is not None else spec,
        criteria_version=row.criteria_version,
        soak=look.soak,
        source=threads_source(
            stored,
            polls,
            poll_interval=look.deployment.poll_interval,
            now=now,
            is_reported=look.deployment.reported,
        ),
        last_sweep=polls.last_sweep,
        complete_sweep=polls.complete_sweep,
        complete_scan=polls.complete_scan,
        dispositions=_dispositions(look),
        by_target=_by_target(look),
        unknowns=_unknowns(look),
        deployed=deployed_targets(spec, look.revisions),
        leaks=await _count_leaks(connection, look),
        fresh_leaks=fresh_leaks,
        intake_is_open=look.closed_at is not None and look.closed_at > now,
        graph_was_seen=any(found.graph == spec.graph for found in look.revisions),
        of_graph=await _count_of_graph(connection, look),
        intake_unseen=intake_unseen,
        unread_elsewhere=await _count_unread_elsewhere(connection, look),
        unsettled=len(await register.list_expired(connection, deployment_id, now)),
        attested=await _attested(connection, look),
        alarms=await _standing_alarms(connection, look, alarms),
        oldest=await _oldest(connection, look),
        must_act=_must_act(look, stored.assistants if stored is not None else {}),
        said=await _said(connection, look),
        configured=await _configured(connection, look),
        poll_interval=look.deployment.poll_interval,
        sweep_interval=look.deployment.sweep_interval,
        requests_per_minute=look.deployment.requests_per_minute,
        max_age=max_age,
        traces=traces,
        index=await gather_index(connection, look),
        other_server_at=other_server_at(stored.source if stored is not None else None, look.deployment, look.hash_key),
        erased_poll=(stored.erased_poll_id if stored is not None else None) or 0,
    )


async def _count_of_graph(connection: AsyncConnection, look: Look) -> int:
    """Threads of the population that are there and name a graph."""
    mine = look.in_cells
    if mine is None:
        where = and_(look.population, reads.is_alive(), reads.has_graph())
        return await reads.count_threads(connection, look.deployment_id, where)
    return await cube.count(
        connection, look.deployment_id, lambda of: and_(mine(of), reads.is_alive(of), reads.has_graph(of))
    )


async def _standing_alarms(connection: AsyncConnection, look: Look, alarms: Iterable[Alarm]) -> dict[str, int | None]:
    """Alarms that withhold a verdict and that nobody has acknowledged since they were last seen."""
    codes = await register.acknowledged_codes(connection, look.deployment_id, drain_id=None, now=look.now)
    return {
        alarm.code: alarm.count
        for alarm in alarms
        if alarm.code in ALARMS_THAT_WITHHOLD and not alarm.is_explained(codes)
    }


async def _said(connection: AsyncConnection, look: Look) -> tuple[Said, ...]:
    """Waivers and acknowledgements of the drain, and the deployment's acknowledgements, that count now; and where a thread
    does not count because of what was said about another drain, that too."""
    mine, theirs = look.row.id, None
    found = await register.active_waivers(connection, mine, look.now)
    for drain_id in (mine, theirs):
        found += await register.active_acknowledgements(connection, look.deployment_id, drain_id=drain_id, now=look.now)
    if any(standing.overall.disposition is Disposition.ACKNOWLEDGED for standing in look.standings.values()):
        found += await register.other_acknowledgements(connection, look.deployment_id, drain_id=mine, now=look.now)
    return found


async def _attested(connection: AsyncConnection, look: Look) -> dict[str, datetime | None]:
    """What somebody has attested for the criteria of today, and until when."""
    found = await register.active_attestations(
        connection, look.row.id, criteria_version=look.row.criteria_version, now=look.now
    )
    return {name: said.until for said in reversed(found) for name in said.names}


def _dispositions(look: Look) -> Counter[Disposition]:
    found: Counter[Disposition] = Counter()
    for one in look.counts:
        passed = look.passed.get(one.key, 0)
        found[look.standings[one.key].overall.disposition] += one.count - passed
        found[Disposition.PASSED] += passed
    return found


def _by_target(look: Look) -> dict[str, Counter[Disposition]]:
    found: dict[str, Counter[Disposition]] = {target.key: Counter() for target in look.spec.targets}
    for one in look.counts:
        for key, finding in look.standings[one.key].by_target.items():
            if finding.disposition.group == "blocking":
                found[key][finding.disposition] += one.count
    return found


def _unknowns(look: Look) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in look.counts:
        for reason in look.standings[one.key].reasons:
            found[reason] += one.count
    return found


async def _count_leaks(connection: AsyncConnection, look: Look) -> int:
    since: datetime | None = look.row.leaking_since
    if look.closed_at is None or not look.spec.nodes or since is None:
        return 0
    return await reads.count_leaks(connection, look.row.id, closed_at=look.closed_at, since=since)


async def _count_unread_elsewhere(connection: AsyncConnection, look: Look) -> int:
    """Threads that last ran under another graph and may hold work of this one, where nobody has looked."""
    if not look.spec.nodes:
        return 0
    count = 0
    counted = await subjects.count_population(
        connection, look.deployment_id, elsewhere(look), _elsewhere_in_cells(look), lens=look.lens
    )
    for key, found in counted.items():
        subject = look.subject(key)
        routes_tell = subject.condition is Condition.GRAPH_MISSING and shown_not_entered(subject, look.spec.nodes)
        if not routes_tell or any(entered(subject, node) for node in look.spec.nodes):
            count += sum(found.values())
    return count


def elsewhere(look: Look) -> ColumnElement[bool]:
    """Threads that last ran under another graph and whose head, which may be this graph's, nobody has read."""
    spec = look.spec
    return reads.may_belong(spec.graph, metadata=spec.metadata, created_before=spec.created_before)


def _elsewhere_in_cells(look: Look) -> cube.Where | None:
    if look.in_cells is None:
        return None
    return lambda of: reads.may_belong(look.spec.graph, metadata={}, created_before=None, of=of)


async def _oldest(connection: AsyncConnection, look: Look) -> OldestBlocker | None:
    blocking = [found for found in look.counts if blocks(look.standings[found.key])]
    if not blocking:
        return None
    keys = [found.key for found in blocking]
    where = and_(look.of(keys), ~reads.was_never_told())  # of the others nobody knows since when
    rows, _ = await subjects.list_subject_threads(
        connection, look.deployment_id, where, lens=look.lens, cursor=None, limit=1, many=look.are_many(keys)
    )
    if not rows:
        return None
    return OldestBlocker(rows[0].thread_id, look.standings[rows[0].key].overall.disposition.value, rows[0].since)


async def must_act_by(connection: AsyncConnection, look: Look) -> dict[str, tuple[MustActFor, ...]]:
    """Threads that block, grouped by each metadata key that the deployment keeps and that tells them apart."""
    keys = [key for key, standing in look.standings.items() if blocks(standing)]
    found = {}
    for name in look.deployment.metadata_keys if keys else ():
        if name not in look.spec.metadata:
            groups = await subjects.count_by_metadata(
                connection, look.deployment_id, look.of(keys), key=name, limit=MOST_GROUPS
            )
            if any(value is not None for value, _ in groups):
                found[name] = tuple(MustActFor(value, count) for value, count in groups)
    return found


def _must_act(look: Look, names: Mapping[str, str]) -> tuple[MustAct, ...]:
    """Threads that block, by the assistant that ran them, most first."""
    found: Counter[str | None] = Counter()
    for key, by_assistant in look.assistants.items():
        if blocks(look.standings[key]):
            found.update(by_assistant)
    most = sorted(found.items(), key=lambda one: (-one[1], one[0] is None, one[0] or ""))[:MOST_GROUPS]
    return tuple(MustAct(assistant, names.get(assistant or ""), count) for assistant, count in most)


async def _configured(connection: AsyncConnection, look: Look) -> frozenset[str]:
    """The sources that must say something. Traces that somebody read within the day are wanted by a process without them in its
    settings too: several work on one database, and one that lacks them may not decide alone."""
    found = {"threads"}
    known = await find_source(connection, look.deployment_id)
    if look.deployment.langsmith is not None or (known is not None and look.now - known.tried_at < STILL_WANTED):
        found.add("traces")
    if look.deployment.thread_index is not None:
        found.add("index")
    return frozenset(found)
