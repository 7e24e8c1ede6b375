"""Runs the topology script with the application's interpreter, in a process that has none of our secrets.

It runs the code of a pull request: what that prints goes to standard error, which is thrown away but for the script's own
sentence, and it is ended when it takes too long.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from app.errors import DrainboardError

SCRIPT = Path(__file__).with_name("topology.py")
DEFAULT_TIMEOUT = 120.0
_PREFIXES = ("DRAINBOARD_", "LANGSMITH_", "LANGCHAIN_")
_LIKE_A_SECRET = re.compile("KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_OURS = "topology: "
_TAIL = 8_000


class CandidateError(DrainboardError):
    """The candidate's topology could not be read. The message says why."""

    code = "candidate"


@dataclass(frozen=True, slots=True)
class Source:
    """Which graphs: ``graph`` (and ``graph_id``), or the ``langgraph_json``; read by ``python``."""

    graph: str | None = None
    graph_id: str | None = None
    langgraph_json: Path | None = None
    python: str | None = None
    timeout: float = DEFAULT_TIMEOUT

    @property
    def arguments(self) -> list[str]:
        """What the script is called with."""
        if self.langgraph_json is not None:
            return ["--langgraph-json", str(self.langgraph_json)]
        return ["--graph", self.graph or "", *(["--graph-id", self.graph_id] if self.graph_id else [])]


def scrubbed(environment: Mapping[str, str], secrets: Collection[str]) -> dict[str, str]:
    """An environment without ours and without what is, or looks like, a secret. ``secrets``: names that the settings use."""
    return {
        name: value
        for name, value in environment.items()
        if not name.upper().startswith(_PREFIXES) and name not in secrets and not _LIKE_A_SECRET.search(name)
    }


def read_candidate(source: Source, *, secrets: Collection[str] = ()) -> dict[str, Any]:
    """The topology file of a candidate. Raises ``CandidateError``."""
    command = [_interpreter(source.python), str(SCRIPT), *source.arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _run(command, source.timeout, scrubbed(os.environ, secrets), out, err)
        said = _said(err)
        if code == 0 and (found := _document(out)) is not None:
            return found
    if said is not None:
        raise CandidateError(said)
    raise CandidateError(
        f"The process that reads the candidate ended (exit code {code}) without a topology. Importing the graph must neither "
        "end the process nor close its outputs."
    )


def _run(command: Sequence[str], timeout: float, environment: dict[str, str], out: IO[bytes], err: IO[bytes]) -> int:
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, start_new_session=True
        )
    except OSError:
        raise CandidateError(f"{command[0]} cannot be started. Is --python a Python interpreter?") from None
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise CandidateError(
            f"Importing the candidate took longer than {timeout:.0f} s and was ended. Does it wait for something at import?"
        ) from None
    finally:
        # The group, not only the process: whatever the candidate started ends with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _interpreter(python: str | None) -> str:
    if python is None:
        return sys.executable
    found = shutil.which(python)
    if found is None:
        raise CandidateError(f"There is no interpreter {python}. Name the application's own with --python.")
    return found


def _said(err: IO[bytes]) -> str | None:
    """The script's own sentence, the last thing that it writes."""
    size = err.seek(0, os.SEEK_END)
    err.seek(max(0, size - _TAIL))
    lines = err.read().decode(errors="replace").splitlines()
    return next((line.removeprefix(_OURS) for line in reversed(lines) if line.startswith(_OURS)), None)


def _document(out: IO[bytes]) -> dict[str, Any] | None:
    out.seek(0)
    try:
        found = orjson.loads(out.read())
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
