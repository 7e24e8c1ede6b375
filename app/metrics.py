"""What Prometheus reads: explicit zeros, no thread ids. Made anew at each scrape from what pages show."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from app.drains.answers import Answer, Verdict
from app.inventory.views import DeploymentStatus


class _Snapshot:
    """A collector over one look at everything."""

    def __init__(self, deployments: Iterable[DeploymentStatus], drains: Iterable[Answer], workers: int) -> None:
        self._deployments = tuple(deployments)
        self._drains = tuple(drains)
        self._workers = workers

    def collect(self) -> Iterable[Metric]:
        """The metrics."""
        verdict = GaugeMetricFamily(
            "drainboard_drain_verdict", "1 for the verdict of a drain", labels=["drain", "verdict"]
        )
        threads = GaugeMetricFamily(
            "drainboard_drain_threads", "Threads of a drain by disposition", labels=["drain", "disposition"]
        )
        for answer in self._drains:
            for found in Verdict:
                verdict.add_metric([answer.drain, found.value], float(answer.verdict is found))
            for name, count in answer.dispositions.items():
                threads.add_metric([answer.drain, name], count)
        yield from (verdict, threads)
        total = GaugeMetricFamily("drainboard_threads", "Live threads by status", labels=["deployment", "status"])
        age = GaugeMetricFamily(
            "drainboard_source_age_seconds", "Age of what is known", labels=["deployment", "source"]
        )
        fails = GaugeMetricFamily(
            "drainboard_source_failing", "1 while a source cannot be asked", labels=["deployment", "source"]
        )
        alarms = GaugeMetricFamily("drainboard_alarms", "Open alarms", labels=["deployment"])
        for deployment in self._deployments:
            for status in ("idle", "busy", "interrupted", "error"):
                total.add_metric([deployment.name, status], deployment.statuses.get(status, 0))
            for source in deployment.sources:
                if source.age_seconds is not None:
                    age.add_metric([deployment.name, source.name], source.age_seconds)
                if source.status != "not_configured":
                    fails.add_metric([deployment.name, source.name], float(source.status == "failed"))
            alarms.add_metric([deployment.name], len(deployment.alarms))
        yield from (total, age, fails, alarms)
        yield GaugeMetricFamily("drainboard_workers", "Workers that are there", value=self._workers)


def render(deployments: Iterable[DeploymentStatus], drains: Iterable[Answer], *, workers: int = 0) -> bytes:
    """The text that a scrape gets."""
    registry = CollectorRegistry()
    registry.register(_Snapshot(deployments, drains, workers))
    return generate_latest(registry)
