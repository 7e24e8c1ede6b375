"""The other sources of a deployment, read beside each poll of its threads. What fails here never fails the poll."""

from dataclasses import dataclass

from app.errors import StoreError
from app.inventory.store import Store
from app.jobs.index import IndexReader
from app.jobs.traces import TraceReader
from app.logs import get_logger
from app.settings import DeploymentSettings
from app.sources.agent_server.client import AgentServer

log = get_logger("beside")


@dataclass
class OtherSources:
    """Traces and thread index of one deployment. An index that is pushed needs no settings."""

    deployment: DeploymentSettings
    store: Store
    server: AgentServer | None
    _traces: TraceReader | None = None

    def __post_init__(self) -> None:
        self._index = IndexReader(
            self.deployment.name,
            self.deployment.thread_index,
            self.deployment.sweep_interval,
            self.store,
            self.server,
        )
        if self.deployment.langsmith is not None:
            self._traces = TraceReader(self.deployment.name, self.deployment.langsmith, self.store)

    async def read(self, deployment_id: int) -> None:
        """Read what is new; each source remembers how that went."""
        try:
            await self._index.read(deployment_id)
            if self._traces is not None:
                await self._traces.read(deployment_id)
        except StoreError as error:
            log.warning("sources.not_remembered", deployment=self.deployment.name, message=error.message)

    async def aclose(self) -> None:
        """Close what is open."""
        if self._traces is not None:
            await self._traces.aclose()
