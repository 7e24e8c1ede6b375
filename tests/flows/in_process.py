"""A command run in this process: the same way in, arguments, outputs and exit code, without a second to start Python."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from app.command import run

WIDE = {"COLUMNS": "400", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def said(self) -> str:
        """Both outputs, with line ends of the terminal's width undone."""
        return " ".join(f"{self.out} {self.err}".split())


def command(*arguments: str, folder: Path, **environment: str) -> Ran:
    """Run `drainboard` with these arguments in a folder, to its `SystemExit`. Only `environment` names `DRAINBOARD_*`."""
    out, err = io.StringIO(), io.StringIO()
    with (
        _as_a_process(arguments, folder, environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            run()
        except SystemExit as ended:
            code = ended.code
        else:  # pragma: no cover - `run` never returns
            code = None
    assert isinstance(code, int), code
    return Ran(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _as_a_process(arguments: tuple[str, ...], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Arguments, folder and environment of a process; what a command configures for its process is undone."""
    argv, home, before = sys.argv, Path.cwd(), dict(os.environ)
    logs, levels = structlog.get_config(), _loggers()
    sys.argv = ["drainboard", *arguments]
    os.chdir(folder)
    for name in before:
        if name.startswith("DRAINBOARD_"):
            del os.environ[name]
    os.environ |= {**WIDE, **environment}
    try:
        yield
    finally:
        sys.argv = argv
        os.chdir(home)
        os.environ.clear()
        os.environ |= before
        structlog.configure(**logs)
        for logger, (propagate, handlers) in levels.items():
            logger.propagate, logger.handlers = propagate, handlers


def _loggers() -> dict[logging.Logger, tuple[bool, list[logging.Handler]]]:
    found = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    return {logger: (logger.propagate, list(logger.handlers)) for logger in found}
