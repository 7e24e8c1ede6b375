"""Logs: a constant event name and fields; ids, never objects, payloads, tokens or an upstream's words."""

import logging
import sys
from contextlib import AbstractContextManager

import stamina.instrumentation
import structlog

# Libraries that would write an upstream's answer, an address with secrets or a statement with its parameters.
_QUIET = (
    *("langgraph_sdk", "langsmith", "httpx", "httpcore", "urllib3", "stamina"),
    *("sqlalchemy", "aiosqlite", "alembic", "psycopg", "procrastinate"),
)


def configure(level: str = "info", *, as_json: bool = False) -> None:
    """Set up logging for the process, to stderr."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer()
            if as_json
            else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # the stream of now, not of when this was called
        cache_logger_on_first_use=False,
    )
    stamina.instrumentation.set_on_retry_hooks([])  # they would log beside us, with an exception's text
    for name in _QUIET:
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False


def job(name: str) -> AbstractContextManager[None]:
    """While it lasts every line names the job that it is about; also those of tasks that it begins."""
    found: AbstractContextManager[None] = structlog.contextvars.bound_contextvars(job=name)
    return found


def get_logger(area: str) -> structlog.typing.FilteringBoundLogger:
    """A logger; ``area`` is a field of every line."""
    found: structlog.typing.FilteringBoundLogger = structlog.get_logger(area=area)
    return found
