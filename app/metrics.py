"""What Prometheus reads: explicit zeros, no thread ids. Made anew at each scrape from what pages show; only what this process has
done itself (requests that it made and answered) is counted as it happens.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.drains.answers import Answer, Verdict
from app.drains.events import REGRESSED, STALE
from app.facts.types import Condition
from app.inventory.outbox import STATES, WebhookStatus
from app.inventory.views import DeploymentStatus, PollSummary

STATUSES = ("idle", "busy", "interrupted", "error")
POLL_STATES = ("complete", "incomplete", "failed")
ALARMS = ("stranded", "lost", "unreadable", "graph_missing", "unplaced", "mass_disappearance", "canary_missing")
FLAGS = {"stale": STALE, "regressed": {REGRESSED}, "leaking": {"leaking"}, "soaking": {"soaking"}}
SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


@dataclass(frozen=True, slots=True)
class Asked:
    """What this process has asked of a deployment's server: requests, and answers that told it to slow down."""

    deployment: str
    requests: int
    throttled: int


@dataclass(frozen=True, slots=True, eq=False)  # a registry wants to hash it
class Snapshot:
    """One look at everything that the caller may see."""

    now: datetime
    deployments: Sequence[DeploymentStatus] = ()
    drains: Sequence[Answer] = ()
    webhooks: Sequence[WebhookStatus] = ()
    asked: Sequence[Asked] = ()
    schedule: Mapping[str, int] = field(default_factory=dict)
    workers: int = 0

    def collect(self) -> Iterable[Metric]:
        """The metrics."""
        yield from _of_drains(self.drains)
        yield from _of_threads(self.deployments)
        yield from _of_sources(self.deployments)
        yield from _of_polls(self.deployments, self.now)
        yield from _of_requests(self.deployments, self.asked)
        yield from _of_webhooks(self.webhooks, self.now)
        tasks = _gauge("schedule_tasks", "Parts of this process's schedule by whether they go on", "state")
        for state, count in self.schedule.items():
            tasks.add_metric([state], count)
        yield tasks
        yield GaugeMetricFamily("drainboard_workers", "Workers that are there", value=self.workers)


class HttpMetrics:
    """How long this process takes to answer, by route: never by address, which may name a thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "drainboard_http_request_duration_seconds",
            "Time to answer by route and status class",
            ["method", "route", "status"],
            buckets=SECONDS,
            registry=self.registry,
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self._seconds.labels(method, route, f"{status // 100}xx").observe(seconds)


def render(snapshot: Snapshot, http: HttpMetrics) -> bytes:
    """The text that a scrape gets."""
    registry = CollectorRegistry()
    registry.register(snapshot)
    return generate_latest(registry) + generate_latest(http.registry)


def _of_drains(drains: Iterable[Answer]) -> Iterable[Metric]:
    verdict = _gauge("drain_verdict", "1 for the verdict of a drain", "deployment", "drain", "verdict")
    threads = _gauge("drain_threads", "Threads of a drain by disposition", "deployment", "drain", "disposition")
    flags = _gauge(
        "drain_flag", "1 while a drain is stale, regressed, leaking or soaking", "deployment", "drain", "flag"
    )
    for answer in drains:
        codes = {reason.code for reason in answer.reasons}
        for found in Verdict:
            verdict.add_metric([answer.deployment, answer.drain, found.value], float(answer.verdict is found))
        for name, count in answer.dispositions.items():
            threads.add_metric([answer.deployment, answer.drain, name], count)
        for flag, meant in FLAGS.items():
            flags.add_metric([answer.deployment, answer.drain, flag], float(bool(codes & meant)))
    yield from (verdict, threads, flags)


def _of_threads(deployments: Iterable[DeploymentStatus]) -> Iterable[Metric]:
    statuses = _gauge("threads", "Live threads by status", "deployment", "status")
    conditions = _gauge("thread_conditions", "Threads by condition", "deployment", "condition")
    unverified = _gauge("idle_unverified", "Idle threads whose head was not read since they moved", "deployment")
    for each in deployments:
        for status in STATUSES:
            statuses.add_metric([each.name, status], each.statuses.get(status, 0))
        for condition in Condition:
            conditions.add_metric([each.name, condition.value], each.conditions.get(condition.value, 0))
        unverified.add_metric([each.name], each.unverified_idle)
    yield from (statuses, conditions, unverified)


def _of_sources(deployments: Iterable[DeploymentStatus]) -> Iterable[Metric]:
    age = _gauge("source_age_seconds", "Age of what is known", "deployment", "source")
    fails = _gauge("source_failing", "1 while a source cannot be asked", "deployment", "source")
    alarms = _gauge("alarms", "Open alarms", "deployment")
    alarmed = _gauge(
        "alarm_threads", "Threads that an open alarm is about, at least 1 while it stands", "deployment", "code"
    )
    for each in deployments:
        for source in each.sources:
            if source.age_seconds is not None:
                age.add_metric([each.name, source.name], source.age_seconds)
            if source.status != "not_configured":
                fails.add_metric([each.name, source.name], float(source.status == "failed"))
        alarms.add_metric([each.name], len(each.alarms))
        counts = dict.fromkeys(ALARMS, 0) | {alarm.code: max(alarm.count or 0, 1) for alarm in each.alarms}
        for code, count in counts.items():
            alarmed.add_metric([each.name, code], count)
    yield from (age, fails, alarms, alarmed)


def _of_polls(deployments: Iterable[DeploymentStatus], now: datetime) -> Iterable[Metric]:
    age = _gauge("poll_age_seconds", "Time since the last complete poll began", "deployment", "kind")
    ended = _gauge("poll_state", "1 for how the last poll that ended did end", "deployment", "state")
    seconds = _gauge("poll_duration_seconds", "How long the last complete poll took", "deployment", "kind")
    requests = _gauge("poll_requests", "Requests of the last complete poll", "deployment", "kind")
    running = _gauge("poll_running_seconds", "How long the poll that runs has been running; 0: none runs", "deployment")
    for each in deployments:
        for kind, poll in _last(each):
            age.add_metric([each.name, kind], _seconds(now, poll.started_at))
            requests.add_metric([each.name, kind], poll.requests)
            if poll.finished_at is not None:
                seconds.add_metric([each.name, kind], _seconds(poll.finished_at, poll.started_at))
        last = next((poll.state for poll in each.polls if poll.finished_at is not None), None)
        for state in POLL_STATES:
            ended.add_metric([each.name, state], float(state == last))
        running.add_metric([each.name], _seconds(now, each.current_poll.started_at) if each.current_poll else 0)
    yield from (age, ended, seconds, requests, running)


def _of_requests(deployments: Iterable[DeploymentStatus], asked: Iterable[Asked]) -> Iterable[Metric]:
    budget = _gauge("request_budget_per_minute", "Requests that the settings allow", "deployment")
    pace = _gauge("request_pace_per_minute", "Requests that are made at most now", "deployment")
    for each in deployments:
        budget.add_metric([each.name], each.requests_per_minute)
        pace.add_metric([each.name], each.pace.requests_per_minute if each.pace else each.requests_per_minute)
    requests = CounterMetricFamily(
        "drainboard_source_requests", "Requests of this process to a deployment's server", labels=["deployment"]
    )
    throttled = CounterMetricFamily(
        "drainboard_source_throttled", "Answers that told this process to slow down", labels=["deployment"]
    )
    for found in asked:
        requests.add_metric([found.deployment], found.requests)
        throttled.add_metric([found.deployment], found.throttled)
    yield from (budget, pace, requests, throttled)


def _of_webhooks(webhooks: Iterable[WebhookStatus], now: datetime) -> Iterable[Metric]:
    messages = _gauge("webhook_messages", "Messages by what became of them; dead: given up", "webhook", "state")
    oldest = _gauge("webhook_oldest_waiting_seconds", "Age of the oldest message that waits; 0: none does", "webhook")
    for each in webhooks:
        for state in STATES:
            messages.add_metric([each.name, state], getattr(each, state))
        oldest.add_metric([each.name], _seconds(now, each.oldest_waiting) if each.oldest_waiting else 0)
    yield from (messages, oldest)


def _last(status: DeploymentStatus) -> Iterable[tuple[str, PollSummary]]:
    for kind, poll in (("sweep", status.last_sweep), ("scan", status.last_scan)):
        if poll is not None:
            yield kind, poll


def _seconds(later: datetime, earlier: datetime) -> float:
    return max(0.0, (later - earlier).total_seconds())


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"drainboard_{name}", meaning, labels=labels)
