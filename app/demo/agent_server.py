"""A real Agent Server on this machine, for the demo and for the tests.

It is `langgraph dev` in a process of its own. Nothing of LangGraph's server is imported here: it is under another licence and no
dependency of the product. No fact about a thread is read or decided here either.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

HOST = "127.0.0.1"
LOG_NAME = "agent_server.log"
STOP_TIMEOUT = 15.0  # the server gives its running nodes 5 seconds to end
_LOOK_EVERY = 0.02

# Outside the range that Linux and macOS hand out to outgoing connections: a deploy gives the port up for a second and wants it back.
_PORTS = range(20_000, 30_000)

# `langgraph dev`, ending with whoever started it: our end of its standard input closes however we end, even by SIGKILL.
_PROGRAM = """
import os, runpy, signal, sys, threading

def end_with_the_parent():
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_the_parent, daemon=True).start()
sys.argv[0] = "langgraph"
runpy.run_module("langgraph_cli", run_name="__main__", alter_sys=True)
"""

_PACKAGES = ("langgraph_cli", "langgraph_api", "langgraph_runtime_inmem")

_ENVIRONMENT = {
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "1",
    "LOG_JSON": "true",
    # Two deploys of one file in the same second and of the same size would run the first one's bytecode.
    "PYTHONDONTWRITEBYTECODE": "1",
}

# With a key of LangSmith in the caller's environment the server traces, and reports its usage.
_NOT_INHERITED = ("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "DRAINBOARD_")


class AgentServerFailed(RuntimeError):
    """The server did not do what was asked; the message says what happened and what to do."""


class LocalAgentServer:
    """One `langgraph dev` on one folder and one port, with its threads in the folder's `.langgraph_api/`.

    The folder holds `langgraph.json` and the graphs. `env` is added to the server's environment.
    """

    def __init__(self, folder: Path, *, port: int | None = None, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = _free_port() if port is None else port
        self.url = f"http://{HOST}:{self.port}"
        self.log = folder / LOG_NAME
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process that runs, which leads its own process group."""
        return None if self._process is None else self._process.pid

    def start(self, *, timeout: float = 60) -> None:
        """Start the server and return when it answers; about one second.

        Raises AgentServerFailed if it cannot be started, ends, or does not answer on its own port within `timeout` seconds.
        """
        if self._process is not None:
            return
        _require_packages()
        _require_configuration(self.folder)
        log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = self._launch()
        atexit.register(self._kill)
        try:
            self._wait_until_it_serves(self._process, log_start, time.monotonic() + timeout)
        except BaseException:
            self._kill()
            raise

    def stop(self, *, kill: bool = False) -> None:
        """Stop the server, so that its threads are on disk; with `kill` at once, as a crash would. Harmless when stopped.

        Raises AgentServerFailed if it had to be killed although nobody asked for that.
        """
        process = self._process
        if process is None:
            return
        if not kill:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT)
        killed = process.poll() is None
        self._kill()
        if killed and not kill:
            raise AgentServerFailed(
                f"The Agent Server on {self.url} did not stop within {STOP_TIMEOUT:.0f} seconds and was killed, so its "
                f"latest threads may be lost; look at the end of {self.log} for the node that does not let go."
            )

    def deploy(self, files: Mapping[str, str]) -> None:
        """Stop, write `files` (path in the folder: text) and start on the same threads and port: a real deploy."""
        self.stop()
        write_files(self.folder, files)
        self.start()

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-c", _PROGRAM, "dev", "--host", HOST, "--port", str(self.port)]
        options = ["--no-browser", "--no-reload", "--n-jobs-per-worker", "10", "--server-log-level", "info"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*command, *options],
                cwd=self.folder,
                env=_environment(self._env),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_until_it_serves(self, process: subprocess.Popen[bytes], log_start: int, deadline: float) -> None:
        # The log is the proof that it is ours: uvicorn writes the line once it holds the port, and `langgraph dev` takes
        # another port without failing when somebody else holds this one.
        ours = f"Uvicorn running on {self.url} ".encode()
        while ours not in (written := _tail(self.log, log_start)):
            if b"is already in use, using port" in written:
                raise AgentServerFailed(
                    f"Port {self.port} is taken by another program, so the Agent Server was not kept; stop that program "
                    f"or choose another port (log: {self.log})."
                )
            if process.poll() is not None:
                raise AgentServerFailed(
                    f"The Agent Server ended with exit code {process.returncode} before it answered; read {self.log}, "
                    f"usually a graph in its folder cannot be imported. It ends with:\n{_last_lines(written)}"
                )
            if time.monotonic() > deadline:
                raise AgentServerFailed(
                    f"The Agent Server did not answer on {self.url} in time and was stopped; read {self.log}, "
                    "or allow it more time."
                )
            time.sleep(_LOOK_EVERY)
        self._require_ok()

    def _require_ok(self) -> None:
        try:
            answer = httpx.get(f"{self.url}/ok", timeout=10, trust_env=False)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise AgentServerFailed(
                f"The Agent Server holds {self.url} but /ok failed ({type(error).__name__}); read {self.log}."
            ) from error

    def _kill(self) -> None:
        process, self._process = self._process, None
        atexit.unregister(self._kill)
        if process is None:
            return
        # The group, not only the leader: whatever a graph started goes too. A group that is gone already is fine.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts below `folder`, making the folders that are missing."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _require_packages() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise AgentServerFailed(
            f"The Agent Server cannot start because {', '.join(missing)} is not installed for {sys.executable}; "
            "install it with: pip install 'langgraph-cli[inmem]'"
        )


def _require_configuration(folder: Path) -> None:
    if not (folder / "langgraph.json").is_file():
        raise AgentServerFailed(f"There is no langgraph.json in {folder}; write the graphs there before the start.")


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    return {**inherited, **_ENVIRONMENT, **extra}


def _tail(log: Path, start: int) -> bytes:
    with log.open("rb") as file:
        file.seek(start)
        return file.read()


def _last_lines(written: bytes) -> str:
    return "\n".join(written.decode(errors="replace").splitlines()[-8:])


def _free_port() -> int:
    for port in random.sample(_PORTS, 100):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise AgentServerFailed(f"No port between {_PORTS.start} and {_PORTS.stop} is free; name one.")
