"""One list of threads by every way in, into both kinds of database: the same answer, and the same refusals."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text

from app import logs
from app.cli.connection import Api
from app.cli.index import import_file
from app.inventory import writes
from app.inventory.db import Database
from app.inventory.store import Store
from app.inventory.writes import Dictionaries
from app.jobs.index import IndexReader
from app.main import create_app
from app.settings import DeploymentSettings, DrainSettings, PolicySettings, Settings, ThreadIndexSettings
from tests.unit.builders import HOUR, facts, row, uuid_of

SECRET = "canary-in-a-row"
NOW = datetime.now(UTC).replace(microsecond=0)
OLD = NOW - timedelta(days=400)
PATH = "/api/v1/deployments/d/index"
QUERY = "select thread_id, graph_id, created_at, closed_at, state_version, state, email from conversation"
COLUMNS = ("thread_id", "graph_id", "created_at", "closed_at", "state_version", "state", "email")


def _row(thread_id: str | None, **more: Any) -> dict[str, Any]:
    return dict.fromkeys(COLUMNS) | {"thread_id": thread_id, "email": SECRET} | more


ROWS = [
    _row(uuid_of(1), graph_id="support", state="open", state_version=2),
    _row(uuid_of(2).upper(), closed_at=NOW),  # seen, in capitals
    _row(uuid_of(3), state="open"),
    _row(uuid_of(3), closed_at=NOW),  # twice: the open one counts
    _row(uuid_of(11), closed_at=NOW),
    _row(uuid_of(12), created_at=OLD),  # the server has it no more: expired
    _row(uuid_of(13), created_at=NOW),  # nobody knows it
    _row(uuid_of(14), state="retry"),  # the server has it and does not list it
    _row(f"tenant-7:{uuid_of(1)}"),
    _row(f"{uuid_of(2)}.archived"),
    _row("ticket 4711"),
    _row(None),
    _row("x" * 256),
]
EXPECTED = {
    "listed": 10,
    "closed": 2,
    "by_word": {
        "seen": 3,
        "closed": 1,
        "expired": 1,
        "unknown": 1,
        "hidden": 1,
        "other_form": 2,
        "no_id": 1,
    },
    "only_on_server": 1,
    "malformed": 2,
    "duplicates": 1,
    "states": {"open": 2, "retry": 1},
}


@dataclass
class Server:
    """Which threads the server has when it is asked by id."""

    ids: set[str] = field(default_factory=set)

    async def thread(self, thread_id: str) -> Any:
        return row(thread_id) if thread_id in self.ids else None


@dataclass
class Place:
    """A Drainboard whose polls saw the threads 1 to 4, and the way in."""

    store: Store
    deployment_id: int
    http: httpx.AsyncClient
    folder: Path

    async def check(self, settings: ThreadIndexSettings | None = None) -> None:
        """What is done beside a poll."""
        reader = IndexReader("d", settings, HOUR, self.store, Server({uuid_of(14)}))
        await reader.read(self.deployment_id)

    async def report(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get(PATH)).json()
        return found

    async def put(self, **body: Any) -> httpx.Response:
        return await self.http.put(PATH, json=body)


@pytest.fixture
async def place(address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Place]:
    caplog.set_level(logging.DEBUG)
    logs.configure("debug", as_json=True)
    settings = Settings(
        database_url=address,
        key_file=tmp_path / "key",
        home=tmp_path,
        deployments=(DeploymentSettings(name="d", url="http://127.0.0.1:1"),),
        drains=(
            DrainSettings(
                name="drop",
                deployment="d",
                graph="support",
                remove_nodes=("await_approval",),
                policy=PolicySettings(soak_sweeps=1, soak_hold=timedelta(0)),
            ),
        ),
    )
    database = Database(address)
    application = create_app(settings, schedule=False)
    async with application.router.lifespan_context(application):
        async with database.write() as connection:
            found = await writes.ensure_deployment(connection, "d", NOW)
            poll = await writes.begin_poll(connection, found, kind="sweep", now=NOW)
            seen = [facts(row(uuid_of(number))) for number in (1, 2, 3, 4)]
            await writes.upsert_threads(connection, Dictionaries(found), seen, poll_id=poll)
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test") as http:
            yield Place(Store(database, b"0" * 64), found, http, tmp_path)
    await database.close()


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


async def _take(place: Place, way: str, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [{key: _text(value) for key, value in each.items()} for each in ROWS]
    match way:
        case "sqlite" | "postgresql":
            is_sqlite = way == "sqlite"
            url = f"sqlite:///{place.folder}/app.db" if is_sqlite else postgres
            _fill(url, plain if is_sqlite else ROWS)
            monkeypatch.setenv("APPLICATION", url)
            await place.check(ThreadIndexSettings(url_env="APPLICATION", query=QUERY))
        case "csv":
            lines = io.StringIO()
            writer = csv.DictWriter(lines, COLUMNS)
            writer.writeheader()
            writer.writerows(plain)
            (place.folder / "list.csv").write_text(lines.getvalue(), encoding="utf-8")
            await import_file(Api(place.http), "d", place.folder / "list.csv")
        case "jsonl":
            (place.folder / "list").write_text("\n".join(map(json.dumps, plain)), encoding="utf-8")
            await import_file(Api(place.http), "d", place.folder / "list")
        case "push":
            half = len(plain) // 3  # what is there twice comes in two batches
            await place.put(threads=plain[:half], snapshot="s", begin=True)
            await place.put(threads=plain[half:], snapshot="s", done=True)
    if way not in ("sqlite", "postgresql"):
        await place.check()


def _fill(url: str, rows: list[dict[str, Any]]) -> None:
    time = "text" if url.startswith("sqlite") else "timestamptz"
    engine = create_engine(url)
    with engine.begin() as connection:
        columns = f"thread_id text, graph_id text, created_at {time}, closed_at {time}, state_version int, state text"
        connection.execute(text(f"create table conversation ({columns}, email text)"))
        values = ", ".join(f":{column}" for column in COLUMNS)
        connection.execute(text(f"insert into conversation values ({values})"), rows)
    engine.dispose()


@pytest.mark.parametrize("way", ["sqlite", "postgresql", "csv", "jsonl", "push"])
async def test_a_list_gives_the_same_answer_by_every_way_in(
    *,
    place: Place,
    way: str,
    empty_postgres: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await _take(place, way, empty_postgres, monkeypatch)

    report = await place.report()
    gate = (await place.http.get("/api/v1/drains/drop/gate")).text
    said = capsys.readouterr()

    assert {key: report[key] for key in EXPECTED} == EXPECTED
    assert {line["thread_id"]: line["why"] for line in report["only_in_index"]} == {
        uuid_of(13): "unknown",
        uuid_of(14): "hidden",
        f"tenant-7:{uuid_of(1)}": "other_form",
        f"{uuid_of(2)}.archived": "other_form",
        "ticket 4711": "no_id",
    }
    assert report["source"]["status"] == "incomplete"
    assert "2 rows have no usable thread id" in report["source"]["sentence"]
    assert "5 ids are in the thread index, and no such thread was seen" in gate
    for text_ in (json.dumps(report), gate, said.out, said.err, caplog.text):
        assert SECRET not in text_
    file = place.folder / "board.db"
    assert not file.exists() or SECRET.encode() not in file.read_bytes() + _wal(file)


def _wal(file: Path) -> bytes:
    wal = file.with_name(f"{file.name}-wal")
    return wal.read_bytes() if wal.exists() else b""


async def test_what_cannot_be_stored_is_a_line_or_a_refusal_and_never_an_error_of_the_database(place: Place) -> None:
    """PostgreSQL stores no NUL."""
    lines = [
        {"thread_id": "a\x00b"},
        {"thread_id": uuid_of(1), "state": "x\x00"},
        {"thread_id": uuid_of(2), "graph_id": "\x00"},
        {"thread_id": uuid_of(3), "closed_at": "\x00", "state_version": "\x00", "\x00": "\x00"},
        {"thread_id": uuid_of(4), "state_version": 10**30, "created_at": "0001-01-01T00:00:00+14:00"},
        {"thread_id": "\x7f"},
    ]
    taken = await place.put(threads=lines)
    refused = [await place.put(threads=[], snapshot=odd, begin=True) for odd in ("\x00", "a\x00b", "\n")]
    raw = [await place.http.put(PATH, content=body) for body in (b'{"threads":[{"thread_id":"\\ud800"}]}', b"\x00")]
    elsewhere = await place.http.put("/api/v1/deployments/%00/index", json={"threads": []})

    assert taken.status_code == 200, taken.text
    assert (taken.json()["accepted"], taken.json()["rejected"]) == (4, 2)
    assert [problem["line"] for problem in taken.json()["problems"]] == [1, 2, 3, 4, 5, 6]
    assert [answer.status_code for answer in (*refused, *raw)] == [422] * 5
    assert elsewhere.status_code == 422
    assert (await place.report())["listed"] == 4


async def test_an_imported_file_with_a_nul_names_the_line(place: Place) -> None:
    (place.folder / "list").write_text(
        '{"thread_id": "a\\u0000"}\n' + json.dumps({"thread_id": uuid_of(1), "state": "\x00"}) + "\n"
    )
    found = await import_file(Api(place.http), "d", place.folder / "list")

    assert [(each["line"], "thread_id" in each["message"]) for each in found["problems"]] == [(1, True), (2, False)]


async def test_ids_that_expired_long_ago_keep_no_drain_from_finishing(place: Place) -> None:
    """Nine hundred threads of last year that the server has deleted, and one that is there."""
    rows = [{"thread_id": uuid_of(1000 + number), "created_at": OLD.isoformat()} for number in range(900)]
    await place.put(threads=[*rows, {"thread_id": uuid_of(1)}], snapshot="s", begin=True, done=True)
    before = await _reasons(place)
    for _ in range(5):  # each asks the server for two hundred ids
        await place.check()
    after = await _reasons(place)

    assert "index_only" in before
    assert not {code for code in after if code.startswith("index") or code == "source_failed:index"}
    assert (await place.report())["by_word"] == {"seen": 1, "expired": 900}


async def _reasons(place: Place) -> set[str]:
    answer = (await place.http.get("/api/v1/drains/drop/gate")).json()
    return {found["code"] for found in answer["reasons"] if found["source"] == "index"}
