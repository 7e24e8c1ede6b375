"""One frozen dataclass for each page: exactly what its template gets.

Besides these a template has ``ui`` (the macros), ``now``, ``url``, ``version``, ``open_notice``, ``caller`` (who is signed in, or
None), ``shows_places`` (not to who has yet to sign in), and the filters and paths that ``render.py`` registers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from app.drains.answers import Actor, Answer, BlockingThread, Verdict
from app.drains.preflight_answers import PreflightAnswer
from app.drains.register import DrainDetail
from app.inventory.evaluations import HeldAnswer
from app.inventory.finding import Found, Hit
from app.inventory.outbox import Delivery, WebhookStatus
from app.inventory.views import (
    Activity,
    Alarm,
    Deploy,
    DeploymentStatus,
    DeployThread,
    Evidence,
    Inventory,
    NodeEntry,
    NodeTraces,
    PollSummary,
    SourceStatus,
    ThreadPage,
    Token,
    Waiter,
)
from app.inventory.waiting_at import WaitingAt
from app.jobs.who_works import Work
from app.rights import Right
from app.web import paths, words
from app.web.burndown_picture import BurnPicture
from app.web.deploys import Said
from app.web.filters import Chip, Facet, ThreadQuery
from app.web.forms import Form
from app.web.graph_picture import GraphPicture, NodeTotals
from app.web.left import LeftTarget
from app.web.past import PastAnswer, PastDetail
from app.web.timeline import Moment
from app.web.trend_picture import TrendPicture


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """Alarms first, then drains, then deployments."""

    template: ClassVar[str] = "overview.html"
    alarms: tuple[Alarm, ...]
    drains: tuple[Answer, ...]
    trends: Mapping[str, TrendPicture]
    deployments: tuple[DeploymentStatus, ...]
    work: Work


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """A node and the threads that are pending there. ``graphs``: which deployed graphs have it; empty: none has.

    ``by_condition`` has the conditions that were asked for; a thread may be counted at several nodes.
    """

    node: str
    graphs: tuple[str, ...]
    join: bool
    deferred: bool
    total: int
    by_condition: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TracedNode:
    """A node in the traces. ``strip``: a block for each of the last days, the busiest the highest; a day without an entry
    is a dot. ``is_quiet``: watched for 30 days, and nobody entered. ``waiting``: threads that block a drain there."""

    node: str
    last_entered: datetime | None
    entered: int
    left: int
    errored: int
    joined_share: int | None
    strip: str
    watched_since: datetime | None
    is_quiet: bool
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class DeploymentPage:
    """The inventory of one deployment. ``nodes`` and ``pictures`` are empty when no graph was ever seen. ``say``: what was
    typed to acknowledge something, when it could not be taken."""

    template: ClassVar[str] = "deployment.html"
    deployment: DeploymentStatus
    inventory: Inventory
    threads: ThreadPage
    nodes: tuple[NodeCounts, ...]
    pictures: tuple[GraphPicture, ...]
    asked: ThreadQuery
    facets: tuple[Facet, ...]
    fields: tuple[Facet, ...]
    chips: tuple[Chip, ...]
    deploys: tuple[Deploy, ...]
    say: Form
    traces: tuple[TracedNode, ...] = ()
    quiet: tuple[TracedNode, ...] = ()


@dataclass(frozen=True, slots=True)
class DeployView:
    """What one deploy did. ``said`` comes first; ``threads`` are a page of those that it met, maybe of one fate."""

    template: ClassVar[str] = "deploy.html"
    deployment: DeploymentStatus
    deploy: Deploy
    said: Said
    pictures: tuple[GraphPicture, ...]
    threads: tuple[DeployThread, ...]
    next_cursor: str | None
    cursor: str | None
    fate: str | None
    fates: Mapping[str, str]
    tones: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ThreadsPage:
    """The threads of one deployment, filtered, by page."""

    template: ClassVar[str] = "threads.html"
    deployment: DeploymentStatus
    inventory: Inventory
    threads: ThreadPage
    asked: ThreadQuery
    facets: tuple[Facet, ...]
    fields: tuple[Facet, ...]
    chips: tuple[Chip, ...]


@dataclass(frozen=True, slots=True)
class EvidencePage:
    """One thread, or what was looked at when it was not found. ``live``: the server was read for this page; ``assistant``: the
    name of the one that ran it, where it is known."""

    template: ClassVar[str] = "thread.html"
    deployment: DeploymentStatus
    evidence: Evidence
    live: bool
    timeline: tuple[Moment, ...]
    assistant: str | None = None


@dataclass(frozen=True, slots=True)
class DrainsPage:
    """All drains, the urgent ones first."""

    template: ClassVar[str] = "drains.html"
    drains: tuple[Answer, ...]
    trends: Mapping[str, TrendPicture]


@dataclass(frozen=True, slots=True)
class DispositionCount:
    """A disposition and how many threads have it."""

    name: str
    meaning: str
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class DispositionGroup:
    """Blocking, unknown, clear or excluded, with its dispositions, zeros too."""

    name: words.Group
    title: str
    total: int
    dispositions: tuple[DispositionCount, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which threads of a drain are listed: of a disposition (for the target, by its key) or a reason, or all that block; of
    them, those that ``actor`` must act on."""

    disposition: str | None = None
    target: str | None = None
    reason: str | None = None
    actor: Actor | None = None

    @property
    def name(self) -> str | None:
        """What they have in common, by its code."""
        return self.disposition or self.reason

    def href(self, drain: str, cursor: str | None = None) -> str:
        """The list of them, from a place on."""
        return paths.drain_threads_path(
            drain, self.disposition, cursor, reason=self.reason, target=self.target, actor=self.actor
        )


@dataclass(frozen=True, slots=True)
class DrainPage:
    """One drain, with the ``threads`` that are ``chosen``.

    ``assistants``: the names that are known, by id. ``past``: newest first. ``say`` and ``attest``: what was typed into
    the forms, when it could not be taken. ``poll``: the one that runs now.
    """

    template: ClassVar[str] = "drain.html"
    answer: DrainDetail
    groups: tuple[DispositionGroup, ...]
    threads: tuple[BlockingThread, ...]
    total: int
    next_cursor: str | None
    cursor: str | None
    chosen: Chosen
    left: tuple[LeftTarget, ...]
    assistants: Mapping[str, str]
    past: tuple[PastAnswer, ...]
    say: Form
    attest: Form
    poll: PollSummary | None
    burndown: BurnPicture | None = None
    traces: tuple[TracedNode, ...] = ()
    entries: tuple[NodeEntry, ...] = ()
    waiters: tuple[Waiter, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswersPage:
    """What a drain said before, newest first. ``older``: where the next page begins; ``at``: a time that was asked for and is
    none."""

    template: ClassVar[str] = "answers.html"
    drain: str
    items: tuple[PastAnswer, ...]
    older: int | None
    before: int | None
    at: Form


@dataclass(frozen=True, slots=True)
class AnswerPage:
    """One answer of the past. ``held``: how long it held, and what came before and after it; ``criteria_today``: the
    version of the criteria that count now."""

    template: ClassVar[str] = "answer.html"
    drain: str
    deployment: str
    held: HeldAnswer
    past: PastDetail
    left: tuple[LeftTarget, ...]
    groups: tuple[DispositionGroup, ...]
    criteria_today: int


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Names that were seen in the graphs of a deployment, for a form to offer."""

    graphs: tuple[str, ...]
    nodes: tuple[str, ...]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreflightPage:
    """A candidate beside what is deployed. ``typed``: the topology as it was given; ``wrong``: why it could not be taken."""

    template: ClassVar[str] = "preflight.html"
    deployment: DeploymentStatus
    typed: str = ""
    wrong: str | None = None
    answer: PreflightAnswer | None = None


@dataclass(frozen=True, slots=True)
class DrainFormPage:
    """The form of a drain. ``name``: the drain that is changed; None: a new one. ``seen``: the digest of what is stored of it;
    ``differs``: where that is not what was typed, when somebody was faster; ``preview``: what the drain would say now."""

    template: ClassVar[str] = "drain_form.html"
    form: Form
    name: str | None
    deployments: tuple[str, ...]
    known: Suggestions
    seen: str
    differs: Mapping[str, str]
    preview: Answer | None


@dataclass(frozen=True, slots=True)
class SearchPage:
    """What a search found. ``groups``: the hits by kind, each with its page; ``ask``: by deployment, where its server can be
    asked for the thread whose id was typed and that nobody has seen; ``answers``: what the first drains say now."""

    template: ClassVar[str] = "search.html"
    found: Found
    groups: Mapping[str, tuple[tuple[Hit, str], ...]]
    ask: Mapping[str, str]
    answers: Mapping[str, Answer]


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """The audit, newest first; of one deployment, or of all."""

    template: ClassVar[str] = "activity.html"
    items: tuple[Activity, ...]
    next_cursor: str | None
    cursor: str | None
    deployment: str | None


@dataclass(frozen=True, slots=True)
class SignInPage:
    """How one signs in here. ``next``: where one goes then; ``wrong``: why it did not work."""

    template: ClassVar[str] = "sign_in.html"
    mode: str
    next: str
    wrong: str | None


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """API tokens and webhooks. ``made``: the name of a token that was made this moment, and what is to be sent, which is shown
    once. ``dead``: messages that were given up; ``deliveries``: the newest of the others."""

    template: ClassVar[str] = "settings.html"
    mode: str
    tokens: tuple[Token, ...]
    form: Form
    made: tuple[str, str] | None
    rights: tuple[Right, ...]
    deployments: tuple[str, ...]
    work: Work
    webhooks: tuple[WebhookStatus, ...] = ()
    dead: tuple[Delivery, ...] = ()
    deliveries: tuple[Delivery, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """What happened and what to do."""

    template: ClassVar[str] = "error.html"
    status: int
    code: str
    title: str
    message: str
    advice: str


Page = (
    OverviewPage
    | DeploymentPage
    | DeployView
    | ThreadsPage
    | EvidencePage
    | DrainsPage
    | DrainPage
    | AnswersPage
    | AnswerPage
    | DrainFormPage
    | SearchPage
    | PreflightPage
    | ActivityPage
    | SignInPage
    | SettingsPage
    | ErrorPage
)

_URGENCY = {Verdict.BLOCKED: 0, Verdict.UNKNOWN: 1, Verdict.DRAINED: 2}


def by_urgency(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Blocked, unknown, drained; closed drains last."""
    return tuple(sorted(answers, key=lambda each: (each.phase == "closed", _URGENCY[each.verdict], each.drain)))


def disposition_groups(counts: Mapping[str, int]) -> tuple[DispositionGroup, ...]:
    """Every disposition in its group. Together they add up to the population."""
    size = sum(counts.values())
    strange = {name: words.plain(name) for name in counts if not _is_known(name)}
    groups = []
    for group, known in words.DISPOSITIONS.items():
        members = {**known, **strange} if group == "unknown" else known
        lines = tuple(
            DispositionCount(name, meaning, counts.get(name, 0), 100 * counts.get(name, 0) / size if size else 0)
            for name, meaning in members.items()
        )
        groups.append(DispositionGroup(group, words.GROUP_TITLES[group], sum(line.count for line in lines), lines))
    return tuple(groups)


def assistant_names(answer: Answer) -> dict[str, str]:
    return {each.assistant: each.name for each in answer.must_act if each.assistant and each.name}


def node_totals(waiting: Iterable[WaitingAt], conditions: Iterable[str]) -> NodeTotals:
    """Threads at each node: all, and those of each of the conditions."""
    totals: Counter[str] = Counter()
    by_condition: dict[str, Counter[str]] = {each: Counter() for each in conditions}
    for each in waiting:
        totals[each.node] += each.count
        if each.condition in by_condition:
            by_condition[each.condition][each.node] += each.count
    return NodeTotals(totals, by_condition)


def node_counts(deployment: DeploymentStatus, counts: NodeTotals) -> tuple[NodeCounts, ...]:
    """The deployed nodes in their order, then those that hold threads and are deployed no more."""
    deployed = [each for each in deployment.revisions if each.vanished_at is None]
    names = [node for each in deployed for node in each.nodes if not node.startswith("__")]
    if deployed:
        names += sorted(counts.totals)
    return tuple(
        NodeCounts(
            node,
            tuple(dict.fromkeys(each.graph for each in deployed if node in each.nodes)),
            any(node in each.joins for each in deployed),
            any(node in each.deferred for each in deployed),
            counts.totals.get(node, 0),
            {condition: totals.get(node, 0) for condition, totals in counts.by_condition.items()},
        )
        for node in dict.fromkeys(names)
    )


def suggestions(deployments: Iterable[DeploymentStatus], chosen: str) -> Suggestions:
    """What the graphs of the chosen deployment have or had; of all deployments while none is chosen."""
    revisions = [revision for each in deployments if not chosen or each.name == chosen for revision in each.revisions]
    return Suggestions(
        graphs=tuple(sorted({each.graph for each in revisions})),
        nodes=tuple(sorted({node for each in revisions for node in each.nodes if not node.startswith("__")})),
        fields=tuple(sorted({name for each in revisions for name in each.fields})),
    )


def deployed_nodes(deployment: DeploymentStatus) -> tuple[str, ...]:
    """The nodes of all deployed graphs, each once."""
    deployed = [each for each in deployment.revisions if each.vanished_at is None]
    return tuple(dict.fromkeys(node for each in deployed for node in each.nodes if not node.startswith("__")))


def traced_nodes(found: Iterable[NodeTraces], waiting: Mapping[str, int] | None = None) -> tuple[TracedNode, ...]:
    """Nodes as the pages show them, in their order; ``waiting``: threads that a drain's target still holds."""
    return tuple(
        TracedNode(
            node=each.node,
            last_entered=each.last_entered,
            entered=each.entered,
            left=each.left,
            errored=each.errored,
            joined_share=round(100 * each.joined / each.entered) if each.entered else None,
            strip=_strip(day.entered for day in each.days),
            watched_since=each.watched_since,
            is_quiet=each.is_quiet,
            waiting=None if waiting is None else waiting.get(each.node, 0),
        )
        for each in found
    )


def entered_by_day(found: Iterable[NodeTraces]) -> dict[str, tuple[int, ...]]:
    """Entries on each of the last days, of the nodes that are watched: for the others no trace says nothing."""
    return {each.node: tuple(day.entered for day in each.days) for each in found if each.watched_since}


_BLOCKS = "▁▂▃▄▅▆▇█"


def _strip(days: Iterable[int]) -> str:
    counts = tuple(days)
    most = max(counts, default=0)
    return "".join(_BLOCKS[(len(_BLOCKS) - 1) * count // most] if count else "·" for count in counts)


def silent_source(sources: Iterable[SourceStatus]) -> SourceStatus | None:
    """The source of threads, when it fails or nobody asks it: then nothing on the page is newer than its ``as_of``."""
    return next((each for each in sources if each.name == "threads" and each.status in ("failed", "stale")), None)


def _is_known(disposition: str) -> bool:
    return any(disposition in members for members in words.DISPOSITIONS.values())
