"""The other sources of a deployment, read beside each poll of its threads. What fails here never fails the poll."""

from dataclasses import dataclass

from app.errors import StoreError
from app.inventory.store import Store
from app.jobs.traces import TraceReader
from app.logs import get_logger
from app.settings import DeploymentSettings

log = get_logger("beside")


@dataclass
class OtherSources:
    """Traces of one deployment, where they are configured."""

    deployment: DeploymentSettings
    store: Store
    _traces: TraceReader | None = None

    def __post_init__(self) -> None:
        if self.deployment.langsmith is not None:
            self._traces = TraceReader(self.deployment.name, self.deployment.langsmith, self.store)

    async def read(self, deployment_id: int) -> None:
        """Read what is new; each source remembers how that went."""
        try:
            if self._traces is not None:
                await self._traces.read(deployment_id)
        except StoreError as error:
            log.warning("sources.not_remembered", deployment=self.deployment.name, message=error.message)

    async def aclose(self) -> None:
        """Close what is open."""
        if self._traces is not None:
            await self._traces.aclose()
