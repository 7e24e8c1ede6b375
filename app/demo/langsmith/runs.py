"""The runs that the stand-in keeps: what a tracer posts, without inputs, outputs, errors or metadata beyond an allow-list."""

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

METADATA = ("thread_id", "session_id", "conversation_id", "langgraph_node", "langgraph_step", "langgraph_checkpoint_ns")
THREAD_KEYS = ("thread_id", "session_id", "conversation_id")
_NAMESPACE = uuid.UUID("0c1f2b0a-52a8-5f51-8a41-7f0a4b1c9d20")


@dataclass
class Run:
    """One run. ``status``: pending, success or error. ``raw``: what was posted, only where a test asks to keep it."""

    id: str
    name: str = ""
    run_type: str = "chain"
    project: str = "default"
    trace_id: str = ""
    parent_run_id: str | None = None
    start_time: datetime = field(default_factory=lambda: datetime.min.replace(tzinfo=UTC))
    end_time: datetime | None = None
    status: str = "pending"
    metadata: dict[str, str] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def thread_id(self) -> str | None:
        """The thread, by any of the keys that LangSmith knows."""
        return next((self.metadata[key] for key in THREAD_KEYS if key in self.metadata), None)


class Runs:
    """All runs, by project. With a file they outlive the process; ``keep_raw`` is for tests that plant canaries."""

    def __init__(self, file: Path | None = None, *, keep_raw: bool = False) -> None:
        self._file = file
        self._keep_raw = keep_raw
        self._runs: dict[str, Run] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                run = _from_line(line)
                self._runs[run.id] = run

    def take(self, raw: Mapping[str, Any]) -> None:
        """A run as posted at its start, or the patch at its end: only what is on the list is kept."""
        if not isinstance(found := raw.get("id"), str):
            return
        run = self._runs.setdefault(found, Run(found))
        for key in ("name", "run_type", "trace_id", "parent_run_id"):
            if isinstance(value := raw.get(key), str):
                setattr(run, key, value)
        run.project = raw.get("session_name") or run.project
        run.start_time = _time(raw.get("start_time")) or run.start_time
        run.end_time = _time(raw.get("end_time")) or run.end_time
        run.metadata |= _metadata(raw.get("extra"))
        if run.end_time is not None:
            run.status = "error" if raw.get("error") else run.status if run.status == "error" else "success"
        if self._keep_raw:
            run.raw |= raw
        self._write(run)

    def projects(self) -> dict[str, datetime]:
        """Each project with the time of its first run."""
        found: dict[str, datetime] = {}
        for run in self._runs.values():
            found[run.project] = min(found.get(run.project, run.start_time), run.start_time)
        return found

    def age(self, thread_id: str | None, *, by: timedelta) -> None:
        """Make a thread's runs older: time passes quicker in a test."""
        for run in self.all():
            if run.thread_id == thread_id:
                run.start_time -= by
                run.end_time = run.end_time and run.end_time - by

    def all(self) -> list[Run]:
        """Every run."""
        return list(self._runs.values())

    def of_project(self, project_id: str) -> list[Run]:
        """The runs of a project, newest first."""
        mine = [run for run in self.all() if project_uuid(run.project) == project_id]
        return sorted(mine, key=lambda run: (run.start_time, run.id), reverse=True)

    def _write(self, run: Run) -> None:
        if self._file is None:
            return
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**asdict(run), "raw": {}}, default=_iso) + "\n")


def project_uuid(name: str) -> str:
    """The same project has the same id after a restart."""
    return str(uuid.uuid5(_NAMESPACE, name))


def _metadata(extra: object) -> dict[str, str]:
    metadata = extra.get("metadata") if isinstance(extra, Mapping) else None
    return dict(_allowed(metadata)) if isinstance(metadata, Mapping) else {}


def _allowed(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in METADATA:
        if key in metadata and metadata[key] is not None:
            yield key, str(metadata[key])


def _time(raw: object) -> datetime | None:
    if not isinstance(raw, str):
        return None
    found = datetime.fromisoformat(raw)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _iso(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _from_line(line: str) -> Run:
    raw = json.loads(line)
    times = {key: _time(raw[key]) for key in ("start_time", "end_time")}
    return Run(**{field.name: raw[field.name] for field in fields(Run)} | times)
