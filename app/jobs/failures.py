"""One piece of work that fails must not end all that would follow."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from app.errors import DrainboardError


@contextmanager
def told(log: structlog.typing.FilteringBoundLogger, what: str, deployment: str) -> Iterator[None]:
    """A failure goes into the log, a fault of ours by its kind alone, and no further."""
    try:
        yield
    except DrainboardError as error:
        log.warning(f"{what}.failed", deployment=deployment, code=error.code, message=error.message)
    except Exception as error:  # noqa: BLE001 - whatever it was, the next piece of work comes all the same
        log.error(f"{what}.crashed", deployment=deployment, kind=type(error).__name__)
