"""``drainboard index import``: a CSV or JSONL file, sent in batches as one list."""

import csv
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from app.cli.connection import Api
from app.errors import SettingsError

BATCH = 2000
MAX_PROBLEMS = 1000  # that are named; all are counted
COLUMNS = ("thread_id", "graph_id", "created_at", "closed_at", "state_version", "state")


async def import_file(
    api: Api, deployment: str, file: Path, *, tell: Callable[[str], object] = lambda _: None
) -> Mapping[str, Any]:
    """Send the file; what became of the whole list, with the problems by line of the file. ``tell``: how far it has come."""
    rows = _rows(file)
    snapshot, sent = secrets.token_hex(8), 0
    problems: list[dict[str, Any]] = []
    batch = list(islice(rows, BATCH))
    if not batch:
        raise SettingsError(f"{file.name} lists no thread. An empty list proves nothing, so it is not imported.")
    while True:
        following = list(islice(rows, BATCH))
        body = {"threads": batch, "snapshot": snapshot, "begin": sent == 0, "done": not following, "kind": "file"}
        taken: dict[str, Any] = await api.put("deployments", deployment, "index", body=body)
        room = MAX_PROBLEMS - len(problems)
        problems += [{**found, "line": found["line"] + sent} for found in taken["problems"][:room]]
        sent += len(batch)
        tell(f"{file.name}: {sent:,} rows taken")
        if not following:
            return {**taken, "accepted": sent - taken["rejected"], "problems": problems}
        batch = following


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """The file's rows with the known columns only: nothing else of it is sent."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            first = next((line for line in lines if line.strip()), "")
            read = _jsonl if first.lstrip().startswith("{") else _csv
            for row in read(chain([first], lines), file.name):
                yield {column: row[column] for column in COLUMNS if column in row}
    except OSError as error:
        raise SettingsError(f"{file.name} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file.name} is not text in UTF-8.") from None


def _csv(lines: Iterator[str], name: str) -> Iterator[Mapping[str, Any]]:
    found = csv.DictReader(lines)
    try:
        if "thread_id" not in (found.fieldnames or ()):
            raise SettingsError(
                f"The first line of {name} names no column thread_id. It is the header, like {','.join(COLUMNS)}."
            )
        yield from found
    except csv.Error:
        raise SettingsError(f"Line {found.line_num} of {name} is no CSV.") from None


def _jsonl(lines: Iterator[str], name: str) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise SettingsError(f"Line {number} of {name} is no JSON object. Write one object a line.")
        yield found
