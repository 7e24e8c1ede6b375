"""A dashboard without a database: realistic answers, counted and filtered from a list of threads."""

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from app.drains.answers import (
    Actor,
    Answer,
    BlockingThread,
    Check,
    MustAct,
    MustActFor,
    OldestBlocker,
    Population,
    Reason,
    Soak,
    TargetAnswer,
    Verdict,
)
from app.drains.burndown import BurnDown, BurnPoint, DeployMark, FlowCount, Gap
from app.drains.jsonable import to_jsonable
from app.drains.preflight_answers import ChangeAnswer, PreflightAnswer, PreflightReason
from app.drains.register import By, DrainDetail, Written
from app.drains.statements import Owned
from app.drains.trends import Trend
from app.errors import BadRequest, Conflict, DrainboardError, NotFound
from app.facts.types import Kind, Reading, VersionReading
from app.inventory.evaluations import HeldAnswer, StoredAnswer
from app.inventory.finding import Found, Hit, HitKind, Looked
from app.inventory.views import (
    Activity,
    Alarm,
    CheckpointEvidence,
    Deploy,
    DeploymentStatus,
    DeployPage,
    DeployReport,
    DeployThread,
    Diagnosis,
    DrainMention,
    Evidence,
    FieldEvidence,
    GraphChange,
    Inventory,
    NextStep,
    NodeDay,
    NodeEntry,
    NodeTraces,
    PendingEvidence,
    PollReason,
    PollSummary,
    Provenance,
    RevisionSummary,
    Said,
    SourceStatus,
    ThreadItem,
    ThreadPage,
    Waiter,
)
from app.inventory.waiting_at import WaitingAt
from app.jobs.who_works import Work
from app.rights import Caller
from app.settings import DrainSettings, PolicySettings, RenameSettings

NOW = datetime(2026, 5, 20, 14, 20, 30, tzinfo=UTC)
ENTERED = "00000000-0000-4000-8000-0000000000e1"
HOSTILE_NODE = 'ask<script>alert("x")</script>&`node`'
HOSTILE_ID = 'order/7 <b>"quoted"</b>&x'
LONG_NAME = "drop-the-very-old-approval-step-that-nobody-remembers-and-that-was-renamed-three-times-since-2024"
LONG_NODE = "nested/collect_every_signature_that_the_compliance_team_has_ever_asked_for_since_the_beginning"

Filters = Mapping[str, tuple[str, ...]]


def before(**parts: float) -> datetime:
    return NOW - timedelta(**parts)


def thread_id(number: int) -> str:
    return str(uuid.UUID(int=0x01A22BE7D505_7000_8000_000000000000 + number * 7919 * 65537))


def thread(number: int, condition: str, *pending: str, **override: object) -> ThreadItem:
    status = {"parked": "interrupted", "stranded": "interrupted", "failed": "error", "running": "busy"}
    item = ThreadItem(
        thread_id=thread_id(number),
        graph_id="support",
        status=status.get(condition, "idle"),
        condition=condition,
        pending=pending,
        state_version=VersionReading(Reading.INTEGER, 1 + number % 2),
        created_at=before(days=number % 40, hours=3),
        updated_at=before(minutes=17 * number + 1),
        seen_at=before(seconds=14),
        assistant_id="refunds",
    )
    return replace(item, **override)  # type: ignore[arg-type]


def sixty_threads() -> tuple[ThreadItem, ...]:
    items = [thread(n, "parked", "await_approval") for n in range(9)]
    items += [thread(n, "stranded", "legacy_triage") for n in range(9, 12)]
    items += [thread(n, "failed", "collect_payment") for n in range(12, 15)]
    items += [thread(n, "running", "triage", stuck=n == 16) for n in range(15, 18)]
    items += [thread(18, "parked", HOSTILE_NODE, thread_id=HOSTILE_ID, graph_id=None)]
    items += [thread(19, "parked", LONG_NODE, "nested/sub_wait", "await_approval", "refund", graph_id="orders")]
    items += [thread(20, "unread", state_version=VersionReading(Reading.UNKNOWN))]
    items += [thread(21, "settled", state_version=VersionReading(Reading.MALFORMED, kind=Kind.TEXT))]
    items += [thread(22, "settled", state_version=VersionReading(Reading.MISSING))]
    items += [thread(n, "settled" if n % 3 else "presumed_settled") for n in range(23, 60)]
    return tuple(items)


def source(name: str, status: str = "complete", **override: object) -> SourceStatus:
    base = SourceStatus(name=name, status="complete", as_of=before(seconds=14), age_seconds=14, expected=60, seen=60)
    return replace(base, status=status, **override)  # type: ignore[arg-type]


def sources() -> tuple[SourceStatus, ...]:
    return (
        source("threads"),
        source("sweep", as_of=before(minutes=22)),
        source(
            "traces", "stale", as_of=before(hours=3), sentence="LangSmith answered 429 since 11:40; it is asked again."
        ),
        source("index", "not_configured", as_of=None, age_seconds=None, expected=None, seen=None),
    )


def poll(number: int, **override: object) -> PollSummary:
    base = PollSummary(
        id=number,
        kind="scan",
        state="complete",
        started_at=before(minutes=number),
        finished_at=before(minutes=number) + timedelta(seconds=2),
        threads_seen=60,
        threads_expected=60,
        states_read=3,
        states_wanted=3,
        requests=6,
    )
    return replace(base, **override)  # type: ignore[arg-type]


RUNNING_POLL = poll(
    44, kind="sweep", state="running", started_at=before(seconds=20), finished_at=None, threads_seen=40, states_read=12,
    states_wanted=31, requests=41,
)  # fmt: skip
FAILED_POLL = poll(
    43, state="incomplete", threads_seen=22, reasons=(PollReason("throttled", "The server answered `429` for 40 s."),)
)


def revision(number: int, graph: str = "support", **override: object) -> RevisionSummary:
    base = RevisionSummary(
        id=number,
        graph=graph,
        assistant_id="2b4e7b16-5bb4-5ea6-9fe4-5d1b2a11d1c1",
        hash=f"7f3a{number}c9d2e11b{number}",
        xray_hash=f"91bc{number}",
        first_seen_at=before(minutes=18),
        last_seen_at=before(seconds=14),
        vanished_at=None,
        nodes=(
            "__start__",
            "intake",
            "triage",
            "await_approval",
            "refund",
            "lookup_order",
            "collect_payment",
            "respond",
        ),
        joins=("collect_payment",),
        deferred=("respond",),
        fields=("amount", "customer_name", "display_name", "messages", "state_version"),
        edges=(
            ("__start__", "intake", False),
            ("intake", "triage", False),
            ("triage", "await_approval", True),
            ("triage", "lookup_order", True),
            ("await_approval", "refund", True),
            ("refund", "collect_payment", False),
            ("lookup_order", "collect_payment", False),
            ("collect_payment", "respond", False),
            ("respond", "triage", True),
            ("respond", "__end__", True),
        ),
    )
    return replace(base, **override)  # type: ignore[arg-type]


ALARMS = (
    Alarm(
        id=1,
        deployment="support-prod",
        code="stranded_by_deploy",
        sentence="3 threads stranded at `legacy_triage` by the deploy of 14:02. Put the node back before anyone answers.",
        count=3,
        first_seen_at=before(minutes=18),
        last_seen_at=before(seconds=14),
        threads="/api/v1/deployments/support-prod/threads?condition=stranded&pending=legacy_triage",
    ),
    Alarm(
        id=2,
        deployment="support-prod",
        code="baseline",
        sentence=f"1 thread waits at `{HOSTILE_NODE.replace('`', '')}`, which no graph has ever had.",
        count=None,
        first_seen_at=before(days=3),
        last_seen_at=before(seconds=14),
    ),
)


def deployment(name: str = "support-prod", **override: object) -> DeploymentStatus:
    items = sixty_threads()
    base = DeploymentStatus(
        name=name,
        environment="production",
        url="http://agent-server.support.internal:8123",
        as_of=before(seconds=14),
        total=len(items),
        statuses={
            status: sum(item.status == status for item in items) for status in ("idle", "interrupted", "error", "busy")
        },
        conditions=dict(Counter(item.condition for item in items)),
        sources=sources(),
        current_poll=RUNNING_POLL,
        last_sweep=poll(42, kind="sweep"),
        last_scan=poll(43),
        polls=(RUNNING_POLL, FAILED_POLL, poll(42, kind="sweep"), poll(41)),
        revisions=(
            revision(3),
            revision(
                2,
                "orders",
                nodes=("receive", LONG_NODE, "nested/sub_wait", "close_order"),
                joins=(),
                deferred=(),
                edges=(("receive", LONG_NODE, False), (LONG_NODE, "nested/sub_wait", True)),
            ),
            revision(1, vanished_at=before(minutes=18), nodes=("intake", "legacy_triage"), edges=()),
        ),
        capabilities={"select": True, "storage": False, "version": "0.4.46", "count": None},
        alarms=ALARMS,
        unverified_idle=12,
        requests_per_minute=1200,
    )
    return replace(base, **override)  # type: ignore[arg-type]


def unseen_deployment(name: str = "fresh") -> DeploymentStatus:
    """Configured, and not asked yet."""
    return deployment(
        name, environment=None, as_of=None, total=0, statuses={}, conditions={}, current_poll=None, last_sweep=None,
        last_scan=None, polls=(), revisions=(), capabilities={}, alarms=(), unverified_idle=0,
        sources=(source("threads", "not_evaluated", as_of=None, age_seconds=None, expected=None, seen=None),),
    )  # fmt: skip


def silent_deployment(name: str = "support-stage") -> DeploymentStatus:
    failed = source(
        "threads", "failed", as_of=before(hours=3), since=before(hours=2, minutes=40),
        sentence="It answers `401`: check the key in `SUPPORT_STAGE_KEY`.",
    )  # fmt: skip
    return deployment(name, environment="staging", current_poll=None, alarms=(), sources=(failed, *sources()[1:]))


def answer(name: str, verdict: Verdict, headline: str, **override: object) -> Answer:
    base = Answer(
        drain=name,
        deployment="support-prod",
        graph="support",
        owner="payments team",
        phase="observing",
        verdict=verdict,
        exit_code=verdict.exit_code,
        headline=headline,
        next_step=None,
        accepting=(),
        reasons=(),
        checks=(),
        population=Population(
            definition={"deployment": "support-prod", "graph": "support", "metadata": {"region": "eu"}},
            size=60, live=59, as_of=before(seconds=14), poll=43,
        ),
        dispositions={"unaffected": 59, "gone": 1},
        targets=(TargetAnswer("node", "await_approval", deployed=True, blocking=0),),
        sources=sources(),
        soak=Soak(sweeps=0, required_sweeps=2, holds_since=None, required_hold_seconds=3600),
        retry_after_seconds=None,
        valid_until=None,
        oldest=None,
        must_act=(),
        waivers=(),
        criteria_version=3,
        evaluated_at=before(seconds=2),
    )  # fmt: skip
    return replace(base, **override)  # type: ignore[arg-type]


SAID = Said(
    id="0a1b2c",
    kind="waiver",
    owner="Ana <b>",
    reason="called the customer",
    until=NOW + timedelta(days=12),
    created_at=before(hours=5),
    actor="browser",
    ended_at=None,
    count=7,
    thread_ids=(HOSTILE_ID, *(thread_id(number) for number in range(6))),
)


def blocked() -> Answer:
    return answer(
        "drop-await-approval",
        Verdict.BLOCKED,
        "12 threads still wait at `await_approval`. The oldest since 3 May; 9 belong to assistant `refunds`.",
        next_step="Ask the owners of `refunds` to answer 9 of them; put the node back for the 3 that are stranded.",
        reasons=(
            Reason("parked_at_target", Verdict.BLOCKED, 9, "threads", before(seconds=14),
                   "9 threads wait at `await_approval`.",
                   "/api/v1/drains/drop-await-approval/threads?disposition=parked_at_target"),
            Reason("stranded", Verdict.BLOCKED, 3, "threads", before(seconds=14),
                   "3 threads waited at `await_approval` when it was removed by the deploy of 14:02.",
                   "/api/v1/drains/drop-await-approval/threads?disposition=stranded"),
            Reason("traces_stale", Verdict.UNKNOWN, None, "traces", before(hours=3),
                   "The traces were last read 3 h ago; LangSmith answers `429`."),
        ),
        checks=(
            Check("complete sweep", "pass", "Everything was seen 22 min ago, 60 of 60 threads.", before(minutes=22)),
            Check("nothing blocks", "fail", "12 threads block.", before(seconds=14)),
            Check("target deployed", "pass", "`await_approval` is in revision `7f3a3c9`.", before(seconds=14)),
            Check("traces quiet", "unknown", "The traces are 3 h old.", before(hours=3)),
            Check("index agrees", "not_needed", "No thread index is configured."),
            Check("soak", "not_needed", "Starts when nothing blocks."),
        ),
        dispositions={
            "parked_at_target": 9, "stranded": 3, "holds_old_field": 14, "unread": 1, "unaffected": 30, "gone": 1,
            "waived": 2,
        },
        targets=(
            TargetAnswer("node", "await_approval", True, 12, {"parked_at_target": 9, "stranded": 3}),
            TargetAnswer("node", HOSTILE_NODE, deployed=False, blocking=0),
            TargetAnswer("rename", "customer_name->display_name", None, 14, {"holds_old_field": 14}),
            TargetAnswer("version", "state_version", deployed=None, blocking=0),
        ),
        oldest=OldestBlocker(thread_id(4), "parked_at_target", datetime(2026, 5, 3, 9, 12, tzinfo=UTC)),
        must_act=(MustAct("0655a30a-059d-5391-9c1a-825bfd029f25", "refunds", 9), MustAct(None, None, 3)),
        waivers=(
            SAID,
            replace(SAID, kind="acknowledgement", names=("fell_at_deploy",), until=None),
            replace(SAID, id="3d", kind="acknowledgement", names=("baseline",), of_deployment=True),
        ),
    )  # fmt: skip


def unknown() -> Answer:
    return answer(
        LONG_NAME,
        Verdict.UNKNOWN,
        "Not known yet: 2,400 idle threads have not been looked at. About 2 minutes at 1,200 requests a minute.",
        retry_after_seconds=120,
        owner=None,
        checks=(Check("idle_verified", "unknown", "2,400 idle threads were not read since they moved."),),
        dispositions={"presumed": 30, "unaffected": 30},
    )


def drained() -> Answer:
    return answer(
        "drop-legacy-triage",
        Verdict.DRAINED,
        "Nothing needs `legacy_triage`. Held for 2 d 4 h over 2 complete sweeps; checked 14 s ago.",
        next_step="Remove `legacy_triage` from the graph, then set the phase to `removing`.",
        accepting=("idle_unverified",),
        checks=(Check("nothing blocks", "pass", "Nothing blocks.", before(seconds=14)),),
        soak=Soak(sweeps=2, required_sweeps=2, holds_since=before(days=2, hours=4), required_hold_seconds=3600),
        valid_until=NOW + timedelta(minutes=15),
    )


def evidence(item_id: str, **override: object) -> Evidence:
    base = Evidence(
        found=True,
        deployment="support-prod",
        environment="production",
        thread_id=item_id,
        diagnosis=Diagnosis(
            "stranded",
            "It waited at `legacy_triage` until the deploy of 14:02 removed that node. Its interrupt is intact.",
            (
                NextStep("Put `legacy_triage` back: it then waits there again.", None, safe_to_repeat=True),
                NextStep("Read it again after the deploy.", f"drainboard evidence support-prod {item_id} --live", True),
                NextStep("Or take it over by hand and record that as a waiver.", None, safe_to_repeat=False),
            ),
        ),
        provenance=Provenance(
            source="agent server", read_at=before(seconds=14), graph_revision="7f3a3c9d2e11b3", revision_assumed=True,
            schema_revision="1", saver="postgres", server_version="0.4.46", drainboard_version="0.1.0",
        ),
        graph_id="support",
        head_graph_id="support",
        assistant_id="2b4e7b16-5bb4-5ea6-9fe4-5d1b2a11d1c1",
        status="interrupted",
        condition="stranded",
        stuck=False,
        created_at=before(days=17),
        updated_at=before(days=16),
        checkpoint=CheckpointEvidence(thread_id(900), thread_id(899), "", before(days=16), "loop", 1),
        history={"depth": 3, "truncated": False},
        pending=(
            PendingEvidence("legacy_triage", "", 1, 1, "dynamic", None, deployed=False, source="interrupt_id"),
            PendingEvidence(HOSTILE_NODE, "nested:1", 2, 0, "unknown", "ValueError", deployed=None, source="state"),
        ),
        unapplied=("lookup_order",),
        fields={
            "customer_name": FieldEvidence("present", "absent", "text", 2),
            "display_name": FieldEvidence("absent", "absent", None),
            "<i>odd</i>": FieldEvidence(None, "null", "null"),
        },
        undeclared_fields=2,
        conflicts={"customer_name->display_name": "disagree"},
        state_version=VersionReading(Reading.MISSING),
        departures=({"at": "2026-05-20T14:02:00Z", "node": "intake", "departure": "completed"},),
        last_run={"id": thread_id(1000), "status": "interrupted", "at": "2026-05-04T09:00:00Z"},
        deploys=({"at": "2026-05-20T14:02:00Z", "revision": "7f3a"},),
        traces={
            "window": "2026-11-27T12:00:00Z",
            "last_entered": "2026-11-30T11:00:00Z",
            "node": "await_approval",
            "trace": "https://smith.example/o/1/projects/p/2/r/3",
        },
        index={"listed": True, "closed": False},
        drains=(DrainMention("drop-await-approval", "stranded"), DrainMention("rename-customer", "holds_old_field")),
    )  # fmt: skip
    return replace(base, **override)  # type: ignore[arg-type]


def _stored(hours: int, verdict: str, sentence: str | None) -> StoredAnswer:
    reasons = [{"code": "some_code", "sentence": sentence}] if sentence else []
    said = {"verdict": verdict, "reasons": reasons, "headline": "Nothing needs `await_approval`."}
    return StoredAnswer(1000 - hours, before(hours=hours), verdict, 3, said)


def _whole() -> StoredAnswer:
    found = to_jsonable(blocked())
    return StoredAnswer(999, before(hours=1), "blocked", 2, found)


def past() -> tuple[StoredAnswer, ...]:
    return (
        _whole(),
        _stored(3, "unknown", f"1 thread at `{HOSTILE_NODE.replace('`', '')}` was not read."),
        _stored(4, "of an older version", None),
        _stored(30, "drained", None),
        *(_stored(40 + n, "blocked", f"{n} threads waited.") for n in range(20)),
    )


def missing(item_id: str) -> Evidence:
    return Evidence(
        found=False,
        deployment="support-prod",
        environment="production",
        thread_id=item_id,
        diagnosis=Diagnosis(
            "not_found",
            "Neither the inventory nor the server has this thread.",
            (NextStep("Check the whole id.", None, safe_to_repeat=True),),
        ),
        provenance=Provenance("inventory", before(seconds=14), None, None, "1", None, None, "0.1.0"),
    )


def deploy(number: int = 7, **override: object) -> Deploy:
    change = GraphChange(
        graph="support", kind="changed", variant=None, before="0a1b2c3d4e5f6071", after="7f3a3c9d2e11b3",
        nodes_added=("triage",), nodes_removed=("legacy_triage", HOSTILE_NODE), nodes_kept=7, fields_added=(),
        fields_removed=("<i>odd</i>",),
    )  # fmt: skip
    fates = {"stranded": 2, "lost": 1, "not_read": 0, "waiting": 0, "completed": 4}
    base = Deploy(
        id=number, deployment="support-prod", noticed_at=before(minutes=18), poll=42, changes=(change,), threads=7,
        fates=fates, latest=True, comparison=tuple(asdict(each) for each in COMPARED),
    )  # fmt: skip
    return replace(base, **override)  # type: ignore[arg-type]


MET = tuple(
    DeployThread(thread_id(n), node, "support", fate, condition, before(days=2))
    for n, (node, fate, condition) in enumerate(
        [
            ("legacy_triage", "stranded", "stranded"),
            (HOSTILE_NODE, "lost", "lost"),
            ("legacy_triage", "completed", "settled"),
            ("legacy_triage", "gone", None),
        ]
    )
)


def traced(node: str, *days: int, watched_days: int = 40) -> NodeTraces:
    """A node in the traces of the last days."""
    entered = sum(days)
    last = before(hours=2) if entered else None
    by_day = tuple(NodeDay(before(days=len(days) - number), count, count) for number, count in enumerate(days))
    is_quiet = not entered and watched_days >= 30
    joined = entered - entered // 4
    return NodeTraces(node, last, entered, entered, 0, joined, by_day, before(days=watched_days), is_quiet)


@dataclass
class FakeDashboard:
    """Answers like the real one; ``threads_of`` are the threads of every deployment that was looked at."""

    known: tuple[DeploymentStatus, ...] = ()
    answers: tuple[Answer, ...] = ()
    open_alarms: tuple[Alarm, ...] = ()
    works: Work = field(default_factory=lambda: Work("here"))
    threads_of: tuple[ThreadItem, ...] = ()
    past: tuple[StoredAnswer, ...] = ()
    traced: tuple[NodeTraces, ...] = ()
    entered: tuple[NodeEntry, ...] = ()
    polls_started: list[tuple[str, bool]] = field(default_factory=list)
    live_reads: list[str] = field(default_factory=list)

    def seen_by(self, caller: Caller) -> "FakeDashboard":
        return self

    async def work(self) -> Work:
        return self.works

    async def deployments(self) -> tuple[DeploymentStatus, ...]:
        return self.known

    async def deployment(self, name: str) -> DeploymentStatus:
        for each in self.known:
            if each.name == name:
                return each
        raise NotFound(f"There is no deployment `{name}`. Deployments are named in `drainboard.toml`.")

    async def deploys(self, name: str, cursor: str | None, limit: int) -> DeployPage:
        await self.deployment(name)
        return DeployPage((deploy(),), None)

    async def deploy_threads(
        self, name: str, deploy_id: int, fate: str | None, cursor: str | None, limit: int
    ) -> DeployReport:
        await self.deployment(name)
        if deploy_id != deploy().id:
            raise NotFound(f"The deployment {name} has no deploy {deploy_id}.")
        return DeployReport(deploy(), tuple(each for each in MET if fate in (None, each.fate)), None)

    async def inventory(self, name: str, filters: Filters) -> Inventory:
        status = await self.deployment(name)
        found = self._matching(filters)
        return Inventory(
            deployment=name,
            as_of=status.as_of,
            poll=43 if status.as_of else None,
            complete=True,
            total=len(found),
            filters=filters,
            facets={
                "status": Counter(item.status for item in found),
                "condition": Counter(item.condition for item in found),
                "pending": Counter(node for item in found for node in item.pending),
                "state_version": Counter(_version(item) for item in found),
                "graph": Counter(item.graph_id or "none" for item in found),
                "age": Counter("1d" if item.updated_at > before(days=1) else "7d" for item in found),
                "fields": {
                    name: {"absent": 2, "null": 1, "empty": 0, "present": max(len(found) - 3, 0), "unknown": 0}
                    for name in ("customer_name", "display_name", "<i>odd</i>")
                    if found
                },
            },
        )

    async def waiting(self, name: str, filters: Filters) -> tuple[WaitingAt, ...]:
        return tuple(
            WaitingAt(node, item.condition, frozenset({item.graph_id} - {None}), 1)
            for item in self._matching(filters)
            for node in item.pending
        )

    async def threads(self, name: str, filters: Filters, cursor: str | None, limit: int, sort: str) -> ThreadPage:
        await self.deployment(name)
        found = self._matching(filters)
        start = _offset(cursor)
        following = start + limit
        return ThreadPage(found[start:following], str(following) if following < len(found) else None, len(found))

    async def nodes(self, name: str, nodes: Collection[str]) -> tuple[NodeTraces, ...]:
        return tuple(each for each in self.traced if each.node in nodes)

    async def assistant_name(self, name: str, assistant_id: str) -> str | None:
        return {"0655a30a-059d-5391-9c1a-825bfd029f25": "refunds"}.get(assistant_id)

    async def entries(self, name: str, nodes: Collection[str], limit: int) -> tuple[NodeEntry, ...]:
        return tuple(each for each in self.entered if each.node in nodes)[:limit]

    async def evidence(self, name: str, thread_id: str, live: bool) -> Evidence:
        await self.deployment(name)
        if live:
            self.live_reads.append(thread_id)
        if any(item.thread_id == thread_id for item in self.threads_of):
            return evidence(thread_id)
        return missing(thread_id)

    async def drains(self) -> tuple[Answer, ...]:
        return self.answers

    async def drain(self, name: str) -> Answer:
        for each in self.answers:
            if each.drain == name:
                return each
        raise NotFound(f"There is no drain `{name}`.")

    async def drain_threads(
        self,
        name: str,
        disposition: str | None,
        cursor: str | None,
        limit: int,
        *,
        reason: str | None = None,
        target: str | None = None,
        actor: Actor | None = None,
    ) -> tuple[tuple[BlockingThread, ...], str | None, int]:
        if (await self.drain(name)).verdict is not Verdict.BLOCKED:
            return (), None, 0
        found = [
            BlockingThread(
                item.thread_id,
                "stranded" if item.condition == "stranded" else "parked_at_target",
                ("await_approval", HOSTILE_NODE),
                item.pending,
                item.status,
                item.condition,
                item.assistant_id,
                item.updated_at,
            )
            for item in self.threads_of
            if item.condition in {"parked", "stranded"}
        ]
        found = [each for each in found if disposition in (None, each.disposition)]
        if actor is not None and actor.key is None:
            found = [each for each in found if each.assistant_id == actor.name]
        start = _offset(cursor)
        return tuple(found[start : start + 10]), str(start + 10) if start + 10 < len(found) else None, len(found)

    async def history(self, name: str) -> BurnDown:
        found = await self.drain(name)
        points = tuple(
            BurnPoint(before(hours=hours), "blocked", left, 4, 1234, 1)
            for hours, left in ((160, 30), (90, 22), (20, 12))
        )
        flow = (
            FlowCount(before(hours=100), 3, 2, {"completed": 9}, True),
            FlowCount(before(hours=30), 4, 1, {"completed": 8, "abandoned": 3}, True),
        )
        gaps = (Gap(before(hours=70), before(hours=60)),)
        deploys = (DeployMark(before(hours=40), 7),)
        start = before(hours=168)
        return BurnDown(found.drain, start, NOW, points if found.population.as_of else (), flow, gaps, deploys)

    async def trends(self) -> tuple[Trend, ...]:
        return tuple(
            Trend(each.drain, each.deployment, before(days=17), timedelta(days=14), (None, 60, 41, *range(40, 27, -1)))
            for each in self.answers[:2]
        )

    async def past_answers(
        self, name: str, before: int | None, limit: int
    ) -> tuple[tuple[StoredAnswer, ...], int | None]:
        await self.drain(name)
        found = [each for each in self.past if before is None or each.number < before]
        return tuple(found[:limit]), found[limit - 1].number if len(found) > limit else None

    async def past_answer(self, name: str, *, at: datetime | None = None, number: int | None = None) -> HeldAnswer:
        await self.drain(name)
        for place, each in enumerate(self.past):
            if number in (None, each.number) and (at is None or each.at <= at):
                later = self.past[place - 1] if place else None
                earlier = self.past[place + 1].number if place + 1 < len(self.past) else None
                return HeldAnswer(each, later.at if later else None, earlier, later.number if later else None)
        raise NotFound("It had not answered yet.")

    async def alarms(self) -> tuple[Alarm, ...]:
        return self.open_alarms

    async def find(self, text: str) -> Found:
        looked = tuple(Looked(each.name, each.as_of, each.total if each.as_of else None) for each in self.known)
        threads = [item.thread_id for item in self.threads_of if text and item.thread_id.startswith(text)]
        hits = [Hit(HitKind.THREAD, each, "support-prod", each == text, ("parked",)) for each in threads[:20]]
        if text == "await_approval":
            hits += [
                Hit(HitKind.DRAIN, "drop-await-approval", "support-prod", False, (text, HOSTILE_NODE)),
                Hit(HitKind.NODE, text, "support-prod", True, ("support",), deployed=False),
                Hit(HitKind.FIELD, text, "support-stage", True, ("support", "<i>odd</i>"), deployed=True),
                Hit(HitKind.DEPLOYMENT, text, text, False),
            ]
        cut = (HitKind.THREAD,) if len(threads) > 20 else ()
        return Found(text, text or None, len(text) == 36, tuple(hits), cut, looked)

    async def running_poll(self, name: str) -> PollSummary | None:
        return next((each.current_poll for each in self.known if each.name == name), None)

    async def start_poll(self, name: str, full: bool) -> PollSummary:
        await self.deployment(name)
        self.polls_started.append((name, full))
        return RUNNING_POLL

    def _matching(self, filters: Filters) -> tuple[ThreadItem, ...]:
        return tuple(item for item in self.threads_of if all(_matches(item, k, v) for k, v in filters.items()))


@dataclass
class FakeRegister:
    """The register over a fake dashboard. ``written`` has what was asked for; ``refusal`` is raised instead."""

    dashboard: FakeDashboard
    managed_by_file: bool = False
    written: list[tuple[str, object]] = field(default_factory=list)
    refusal: DrainboardError | None = None
    entries: tuple[Activity, ...] = ()

    async def detail(self, name: str, *, now: datetime) -> DrainDetail:
        found = await self.dashboard.drain(name)
        settings = DrainSettings(
            name=found.drain,
            deployment=found.deployment,
            graph=found.graph,
            owner=found.owner,
            remove_nodes=("await_approval", HOSTILE_NODE),
            rename_fields=(RenameSettings(old="customer_name", new="display_name"),),
            minimum_versions={"state_version": 2},
            policy=PolicySettings(attestations=("export queues", "recovery <replicas>")),
        )
        blocked = found.verdict is Verdict.BLOCKED
        return DrainDetail(
            **{each.name: getattr(found, each.name) for each in fields(found)},
            settings=settings,
            managed_by_file=self.managed_by_file,
            closed_at=before(days=1) if found.phase == "closed" else None,
            versions=found.criteria_version,
            attested=(replace(SAID, id="7", kind="attestation", names=("export queues",), count=0, thread_ids=()),)
            if blocked
            else (),
            must_act_by={"region": (MustActFor("eu", 8), MustActFor("<us>", 3), MustActFor(None, 1))}
            if blocked
            else {},
        )

    def managed(self, name: str) -> Conflict:
        return Conflict(f"The drain {name} is written in drainboard.toml.", code="managed_by_file")

    async def create(self, drain: DrainSettings, by: By) -> Written:
        await self._write("created", drain)
        return Written(drain.name, "created", 1, drain.phase)

    async def replace(self, drain: DrainSettings, by: By, *, seen: str | None = None) -> None:
        await self._write("replaced", drain)

    async def preview(self, drain: DrainSettings, by: By) -> Answer:
        await self._write("previewed", drain)
        return replace(blocked(), drain=drain.name)

    async def close(self, name: str, by: By) -> None:
        await self._write("closed", name)

    async def opened(self, deployment: str, thread_id: str, by: By, *, live: bool, found: bool) -> None:
        await self._write("opened", thread_id)

    async def activity(
        self, *, deployment: str | None, cursor: str | None, limit: int, caller: Caller
    ) -> tuple[tuple[Activity, ...], str | None]:
        return self.entries, "next" if self.entries and cursor is None else None

    async def _write(self, what: str, value: object) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.written.append((what, value))


@dataclass
class FakeStatements:
    """What people said, as it was asked for; ``refusal`` is raised instead."""

    said: list[tuple[object, ...]] = field(default_factory=list)
    refusal: DrainboardError | None = None

    async def waive(self, drain: str, thread_ids: list[str], owned: Owned, by: By) -> None:
        self._say("waive", drain, tuple(thread_ids), owned)

    async def acknowledge(self, drain: str, thread_ids: list[str], codes: list[str], owned: Owned, by: By) -> None:
        self._say("acknowledge", drain, tuple(thread_ids), tuple(codes), owned)

    async def acknowledge_deployment(
        self, name: str, thread_ids: list[str], codes: list[str], owned: Owned, by: By
    ) -> None:
        self._say("acknowledge deployment", name, tuple(codes), owned)

    async def attest(self, drain: str, names: list[str], owned: Owned, by: By) -> None:
        self._say("attest", drain, tuple(names), owned)

    async def end_waiver(self, drain: str, said: str, by: By) -> None:
        self._say("end waiver", drain, said)

    async def end_acknowledgement(self, drain: str, said: str, by: By) -> None:
        self._say("end acknowledgement", drain, said)

    async def end_deployment_acknowledgement(self, name: str, said: str, by: By) -> None:
        self._say("end deployment acknowledgement", name, said)

    async def end_attestation(self, drain: str, said: str, by: By) -> None:
        self._say("end attestation", drain, said)

    def _say(self, *what: object) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.said.append(what)


def entries() -> tuple[Activity, ...]:
    made = ("drain.changed", "threads.waived", "evidence.opened", "drain.created", "something.new")
    subjects = ("drop-await-approval", "drop-await-approval", HOSTILE_ID, LONG_NAME, "support-prod")
    detail = {"criteria_version": 3, "changed": ["remove_nodes", "policy"], "owner": "<b>Ana</b>", "live": False}
    return tuple(
        Activity(9 - place, before(minutes=place), "browser", action, subject, "support-prod", detail)
        for place, (action, subject) in enumerate(zip(made, subjects, strict=True))
    )


def full_dashboard() -> FakeDashboard:
    return FakeDashboard(
        known=(deployment(), silent_deployment(), unseen_deployment()),
        answers=(drained(), unknown(), blocked()),
        open_alarms=ALARMS,
        threads_of=sixty_threads(),
        past=past(),
        entered=(
            NodeEntry("await_approval", before(hours=2), "success", ENTERED, "https://smith.example/r/9"),
            NodeEntry("await_approval", before(hours=3), "error", None, None),
        ),
        traced=(traced("await_approval", 0, 3, 8), traced(HOSTILE_NODE, 1), traced("legacy_triage", 0, 0, 0)),
    )


def _matches(item: ThreadItem, key: str, values: tuple[str, ...]) -> bool:
    has = {
        "status": {item.status},
        "condition": {item.condition},
        "pending": set(item.pending),
        "state_version": {_version(item)},
        "graph": {item.graph_id or "none"},
    }
    return key not in has or bool(has[key] & set(values))


def _version(item: ThreadItem) -> str:
    reading = item.state_version
    return str(reading.value) if reading.reading is Reading.INTEGER else reading.reading.value


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdigit():
        raise BadRequest("This page of threads is not known any more. Start again from the first page.")
    return int(cursor)


def waiter(caller: str, **override: object) -> Waiter:
    """Somebody who waits on a gate."""
    base = Waiter(
        id="w1", drain="drop-await-approval", caller=caller, since=before(minutes=9), until=before(minutes=-21),
        seen_at=before(seconds=4), asked=41, verdict="blocked", outcome=None, ended_at=None, ended_by=None, is_silent=False,
    )  # fmt: skip
    return replace(base, **override)  # type: ignore[arg-type]


@dataclass
class FakeWaiters:
    """Who waits on the blocked drain; ``cancelled`` has what was asked for."""

    cancelled: list[tuple[str, str]] = field(default_factory=list)

    async def list(self, drain: str, by: By) -> tuple[Waiter, ...]:
        if drain != "drop-await-approval":
            return ()
        ended = {"outcome": "ran_out", "ended_at": before(minutes=2)}
        return (
            waiter(f"GitHub {HOSTILE_NODE}"),
            waiter("cron", id="w2", is_silent=True),
            waiter("ci", id="w3", **ended),
        )

    async def cancel(self, drain: str, waiter: str, by: By) -> None:
        self.cancelled.append((drain, waiter))


COMPARED = tuple(
    ChangeAnswer("node_removed", "support", HOSTILE_NODE, outcome, count, f"The node `{HOSTILE_NODE}` goes.",
                 threads=f"/api/v1/deployments/support-prod/threads?graph=support&pending={quote(HOSTILE_NODE)}" if count else None)
    for outcome, count in (("would_strand", 11), ("may_strand", 2), ("safe", 0))
)  # fmt: skip


@dataclass
class FakePreflights:
    """Answers blocked to everything."""

    async def ask(self, deployment: str, candidates: object, *, is_whole: bool, now: datetime) -> PreflightAnswer:
        drain = {"name": "preflight-support-1", "deployment": deployment, "graph": "support", "remove_nodes": ["ask"]}
        return PreflightAnswer(
            deployment=deployment, environment="production", verdict="blocked", exit_code=1, headline=COMPARED[0].sentence,
            as_of=before(minutes=1), evaluated_at=now, changes=COMPARED,
            reasons=(PreflightReason("scan_stale", "The last complete poll is old."),),
            drains=(drain,),
        )  # fmt: skip
