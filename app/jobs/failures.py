"""One piece of work that fails must not end all that would follow."""

from dataclasses import dataclass
from types import TracebackType

import structlog

from app.errors import DrainboardError


@dataclass(frozen=True, slots=True)
class Guarded:
    """``with Guarded(log, "poll", deployment)``: a failure goes into the log, a fault of ours by its kind alone, and no further."""

    log: structlog.typing.FilteringBoundLogger
    what: str
    deployment: str

    def __enter__(self) -> None:
        """Nothing has to be done before."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        if isinstance(error, DrainboardError):
            self.log.warning(f"{self.what}.failed", deployment=self.deployment, code=error.code, message=error.message)
        else:
            self.log.error(f"{self.what}.crashed", deployment=self.deployment, kind=type(error).__name__)
        return True
