"""The application's thread index: the same list from SQLite, PostgreSQL, a file and a push, and both differences."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from app.clock import utc_now
from app.drains.answers import Verdict
from app.drains.index import IndexEvidence
from app.drains.verdicts import decide
from app.errors import BadRequest, SourceError
from app.facts.index import IndexEntry
from app.inventory import index, writes
from app.inventory.db import Database
from app.inventory.store import Store
from app.inventory.views import Comparison, SourceStatus
from app.inventory.writes import Dictionaries
from app.jobs.index import IndexReader, Push, take
from app.settings import ThreadIndexSettings
from app.sources.thread_index.query import read_index
from app.sources.thread_index.reduce import Malformed, reduce_entry
from tests.unit.builders import HOUR, NOW, evidence, facts, row, uuid_of

SECRET = "canary-in-a-row"
MINUTES_5 = timedelta(minutes=5)
OLD = NOW - timedelta(days=400)


# -- rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "entry"),
    [
        ({"thread_id": "a"}, IndexEntry("a")),
        ({"thread_id": uuid.UUID(int=5)}, IndexEntry(str(uuid.UUID(int=5)))),
        ({"thread_id": " A0000000000040008000000000000001 "}, IndexEntry("a0000000-0000-4000-8000-000000000001")),
        ({"thread_id": "a", "closed_at": "2026-01-02 03:04:05"}, IndexEntry("a", closed_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))),
        ({"thread_id": "a", "created_at": "2026-01-02T03:00:00+02:00"}, IndexEntry("a", created_at=datetime(2026, 1, 2, 1, tzinfo=UTC))),
        ({"thread_id": "a", "state_version": "2", "state": "retry"}, IndexEntry("a", state_version=2, state="retry")),
        ({"thread_id": "a", "email": SECRET, "closed_at": ""}, IndexEntry("a")),
    ],
)  # fmt: skip
def test_a_row_is_reduced_to_what_is_on_the_list(raw: Mapping[str, Any], entry: IndexEntry) -> None:
    assert reduce_entry(raw) == (entry, ())


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("closed_at", "yesterday"),
        ("closed_at", 1_700_000_000),
        ("created_at", "0000"),
        ("state_version", True),
        ("state_version", -1),
        ("state_version", 10_000),
        ("state", "x" * 101),
        ("state", 5),
        ("graph_id", "a\nb"),
    ],
)
def test_a_value_that_cannot_be_used_is_left_out_and_named(column: str, value: object) -> None:
    """Left out it counts against a drain: a thread that may be closed is open."""
    entry, bad = reduce_entry({"thread_id": "a", column: value})

    assert (entry, bad) == (IndexEntry("a"), (column,))


@pytest.mark.parametrize("thread_id", [None, "", "  ", 5, "x" * 256, "a\x00b", ["a"]])
def test_a_row_without_a_usable_id_is_malformed(thread_id: object) -> None:
    with pytest.raises(Malformed) as raised:
        reduce_entry({"thread_id": thread_id, "email": SECRET})

    assert SECRET not in str(raised.value)


# -- the query -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def application(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The application's own database, with a table of conversations."""
    is_sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/application.db" if is_sqlite else str(request.getfixturevalue("empty_postgres"))
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            text("create table conversation (id varchar(300), ended timestamp, email varchar(99), word varchar(20))")
        )
        connection.execute(
            text("insert into conversation values (:id, :ended, :email, :word)"),
            [
                {"id": uuid_of(1), "ended": None, "email": SECRET, "word": "open"},
                {"id": uuid_of(2), "ended": datetime(2026, 1, 2), "email": SECRET, "word": "quarantine"},  # noqa: DTZ001
                {"id": None, "ended": None, "email": SECRET, "word": None},
            ],
        )
    engine.dispose()
    return url


QUERY = "select id as thread_id, ended as closed_at, email, word as state from conversation"


async def _read(url: str, query: str, longest: timedelta = MINUTES_5) -> tuple[list[IndexEntry], int]:
    entries: list[IndexEntry] = []
    malformed = 0
    async for batch in read_index(deployment="d", url=url, query=query, longest=longest):
        entries += batch.entries
        malformed += batch.malformed
    return entries, malformed


async def test_a_query_gives_the_known_columns_of_every_row(application: str) -> None:
    entries, malformed = await _read(application, QUERY)

    assert sorted(entries, key=lambda entry: entry.thread_id) == [
        IndexEntry(uuid_of(1), state="open"),
        IndexEntry(uuid_of(2), closed_at=datetime(2026, 1, 2, tzinfo=UTC), state="quarantine"),
    ]
    assert malformed == 1
    assert SECRET not in repr(entries)


@pytest.mark.parametrize(
    "query",
    [
        "select id from conversation",
        "select thread_id from nowhere",
        "this is no sql",
        "delete from conversation returning id as thread_id",
        "drop table conversation",
        f"select '{SECRET}' / 'x' as thread_id from conversation where cast(id as integer) = 5 and nothing = 1",
    ],
)
async def test_a_wrong_query_is_a_sentence_and_changes_nothing(application: str, query: str) -> None:
    with pytest.raises(SourceError) as raised:
        await _read(application, query)

    assert SECRET not in raised.value.message
    assert "thread index" in raised.value.message
    assert len((await _read(application, QUERY))[0]) == 2


async def test_a_query_that_takes_too_long_is_stopped(application: str) -> None:
    numbers = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 90000000)"
    slow = f"select 'a' as thread_id from ({numbers} select count(*) as c from n) m"

    with pytest.raises(SourceError, match="took too long"):
        await _read(application, slow, timedelta(milliseconds=300))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no address",
        "nosuch+driver://x/y",
        "sqlite:////no/such/folder/x.db",
        "postgresql://nobody:secret-word@127.0.0.1:9/x",
    ],
)
async def test_an_address_that_leads_nowhere_is_a_sentence(url: str) -> None:
    with pytest.raises(SourceError) as raised:
        await _read(url, QUERY)

    assert "secret-word" not in raised.value.message


# -- remembering and comparing ---------------------------------------------------------------------------------------


@dataclass
class Server:
    """Which threads the server has when it is asked by id."""

    ids: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    fails: str | None = None

    async def thread(self, thread_id: str) -> Any:
        self.asked.append(thread_id)
        if self.fails:
            raise SourceError("it is down", code=self.fails)
        return row(thread_id) if thread_id in self.ids else None


@pytest.fixture
async def store(database: Database) -> Store:
    return Store(database, b"0" * 64)


@pytest.fixture
async def deployment_id(store: Store) -> int:
    """A deployment whose poll saw the threads 1, 2 and 3."""
    async with store.database.write() as connection:
        found = await writes.ensure_deployment(connection, "d", NOW)
        poll = await writes.begin_poll(connection, found, kind="sweep", now=NOW)
        seen = [facts(row(uuid_of(number))) for number in (1, 2, 3)]
        await writes.upsert_threads(connection, Dictionaries(found), seen, poll_id=poll)
    return found


def _push(*rows: Mapping[str, Any], snapshot: str | None = "s", begin: bool = True, done: bool = True) -> Push:
    return Push(rows, snapshot, begin, done, "push")


def _reader(store: Store, server: Server, settings: ThreadIndexSettings | None = None) -> IndexReader:
    return IndexReader("d", settings, HOUR, store, server)


async def _compare(store: Store, deployment_id: int) -> Mapping[str, int]:
    async with store.database.read() as connection:
        found = await index.compare(connection, deployment_id, None, expired_before=NOW - timedelta(days=90))
    return found.by_word


async def test_every_listed_id_is_one_thing(store: Store, deployment_id: int) -> None:
    listed = [
        {"thread_id": uuid_of(1)},
        {"thread_id": uuid_of(2), "closed_at": NOW.isoformat()},
        {"thread_id": uuid_of(11), "closed_at": NOW.isoformat()},
        {"thread_id": uuid_of(12), "created_at": OLD.isoformat()},
        {"thread_id": uuid_of(13), "created_at": NOW.isoformat()},
        {"thread_id": uuid_of(14)},
        {"thread_id": uuid_of(15)},
        {"thread_id": f"tenant-7:{uuid_of(3)}"},
        {"thread_id": "ticket 4711"},
    ]
    await take(store, deployment_id, _push(*listed), now=NOW)
    assert (await _compare(store, deployment_id))["unchecked"] == 6

    await _reader(store, Server({uuid_of(15)})).read(deployment_id)

    assert await _compare(store, deployment_id) == {
        "seen": 2,
        "closed": 1,
        "expired": 1,
        "unknown": 2,
        "hidden": 1,
        "other_form": 1,
        "no_id": 1,
    }
    async with store.database.read() as connection:
        assert await index.count_only_on_server(connection, deployment_id) == 1


async def test_the_server_is_asked_for_a_bounded_number_of_ids_and_not_at_once_again(
    store: Store, deployment_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.jobs.index.CHECKS", 3)
    await take(store, deployment_id, _push(*({"thread_id": uuid_of(number)} for number in range(20, 25))), now=NOW)
    server = Server()

    for _ in range(3):
        await _reader(store, server).read(deployment_id)

    assert sorted(server.asked) == [uuid_of(number) for number in range(20, 25)]


@pytest.mark.parametrize(("code", "asked"), [("unreachable", 1), ("throttled", 1), ("source_failed", 20)])
async def test_a_server_that_is_down_is_not_asked_for_every_id(
    store: Store, deployment_id: int, code: str, asked: int
) -> None:
    """One that breaks over an id is asked for the others."""
    await take(store, deployment_id, _push(*({"thread_id": uuid_of(number)} for number in range(20, 40))), now=NOW)
    server = Server(fails=code)

    await _reader(store, server).read(deployment_id)

    assert len(server.asked) == asked
    assert await _compare(store, deployment_id) == {"unchecked": 20}


async def test_the_same_batch_twice_is_the_same_as_once(store: Store, deployment_id: int) -> None:
    batch = _push({"thread_id": uuid_of(1)}, {"thread_id": uuid_of(9)}, snapshot=None)

    first = await take(store, deployment_id, batch, now=NOW)
    second = await take(store, deployment_id, batch, now=NOW)

    assert first == second
    assert first.listed == 2


async def test_the_last_batch_of_a_list_may_come_twice(store: Store, deployment_id: int) -> None:
    """Its answer was lost on the way, and the sender tries again. Another list's last batch is refused all the same."""
    await take(store, deployment_id, _push({"thread_id": uuid_of(1)}, {"thread_id": ""}, done=False), now=NOW)
    last = _push({"thread_id": uuid_of(2)}, {"thread_id": uuid_of(9)}, begin=False)

    first = await take(store, deployment_id, last, now=NOW)
    assert await take(store, deployment_id, last, now=NOW + HOUR) == first
    for rows in ([{"thread_id": uuid_of(2)}, {"thread_id": uuid_of(7)}], [{"thread_id": ""}]):
        with pytest.raises(BadRequest):
            await take(store, deployment_id, _push(*rows, begin=False), now=NOW)

    async with store.database.read() as connection:
        source = await index.find_source(connection, deployment_id)
    assert source is not None
    assert (source.as_of, source.malformed) == (NOW, 1)


async def test_a_later_push_closes_a_thread(store: Store, deployment_id: int) -> None:
    await take(store, deployment_id, _push({"thread_id": uuid_of(9)}, snapshot=None), now=NOW)
    closed = {"thread_id": uuid_of(9), "closed_at": NOW.isoformat()}
    await take(store, deployment_id, _push(closed, snapshot=None), now=NOW)

    assert await _compare(store, deployment_id) == {"closed": 1}


async def test_of_one_id_twice_in_a_list_the_open_one_counts(store: Store, deployment_id: int) -> None:
    closed = {"thread_id": uuid_of(9), "closed_at": NOW.isoformat()}
    opened = {"thread_id": uuid_of(9)}
    for first, second in ((closed, opened), (opened, closed)):
        await take(store, deployment_id, _push(first, snapshot="a", done=False), now=NOW)
        taken = await take(store, deployment_id, _push(second, snapshot="a", begin=False), now=NOW)

        assert await _compare(store, deployment_id) == {"unchecked": 1}
        assert taken.duplicates == 1


async def test_a_bad_line_is_named_and_keeps_no_other_out(store: Store, deployment_id: int) -> None:
    rows = ({"thread_id": uuid_of(1)}, {"thread_id": ""}, {"thread_id": uuid_of(2), "closed_at": SECRET})
    taken = await take(store, deployment_id, _push(*rows), now=NOW)

    assert (taken.accepted, taken.rejected) == (2, 1)
    assert [problem.line for problem in taken.problems] == [2, 3]
    assert SECRET not in repr(taken)


async def test_a_whole_list_forgets_what_it_no_longer_has_and_a_part_does_not(store: Store, deployment_id: int) -> None:
    await take(store, deployment_id, _push({"thread_id": uuid_of(8)}, {"thread_id": uuid_of(9)}), now=NOW)
    await take(store, deployment_id, _push({"thread_id": uuid_of(9)}, snapshot="next", done=False), now=NOW + HOUR)
    async with store.database.read() as connection:
        assert await index.count_entries(connection, deployment_id) == 2
        source = await index.find_source(connection, deployment_id)
    assert source is not None
    assert source.as_of == NOW

    await take(store, deployment_id, _push(snapshot="next", begin=False), now=NOW + HOUR)
    async with store.database.read() as connection:
        assert await index.count_entries(connection, deployment_id) == 1


@pytest.mark.parametrize("before", ["half a list", "a list with a bad row", "a query that failed"])
async def test_what_is_added_never_makes_a_list_whole_that_is_not(
    store: Store, deployment_id: int, before: str
) -> None:
    """Otherwise one new thread would prove that every thread of the application was seen."""
    if before == "half a list":
        await take(store, deployment_id, _push({"thread_id": uuid_of(8)}, done=False), now=NOW)
    elif before == "a list with a bad row":
        await take(store, deployment_id, _push({"thread_id": uuid_of(8)}, {"thread_id": ""}), now=NOW)
    else:
        async with store.database.write() as connection:
            failed = {"kind": "query", "reading": 3, "status": "failed", "malformed": 0, "duplicates": 0}
            await index.set_source(connection, deployment_id, **failed, as_of=NOW - HOUR, tried_at=NOW)
    async with store.database.read() as connection:
        known = await index.find_source(connection, deployment_id)

    await take(store, deployment_id, _push({"thread_id": uuid_of(9)}, snapshot=None), now=NOW + HOUR)

    async with store.database.read() as connection:
        after = await index.find_source(connection, deployment_id)
    assert known is not None
    assert after is not None
    assert (after.status, after.kind, after.snapshot) == (known.status, known.kind, known.snapshot)
    assert after.status != "complete"
    assert after.as_of == (NOW + HOUR if before == "a list with a bad row" else known.as_of)


async def test_a_batch_of_a_list_that_was_overtaken_is_refused(store: Store, deployment_id: int) -> None:
    """Its end would forget what the other list has."""
    await take(store, deployment_id, _push({"thread_id": uuid_of(8)}, snapshot="first", done=False), now=NOW)
    await take(store, deployment_id, _push({"thread_id": uuid_of(9)}, snapshot="other", done=False), now=NOW)

    with pytest.raises(BadRequest):
        await take(store, deployment_id, _push({"thread_id": uuid_of(7)}, snapshot="first", begin=False), now=NOW)


async def test_a_query_that_fails_keeps_the_list_and_its_age(
    store: Store, deployment_id: int, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPLICATION", application)
    good = ThreadIndexSettings(url_env="APPLICATION", query=QUERY)
    await _reader(store, Server(), good).read(deployment_id)
    async with store.database.read() as connection:
        before = await index.find_source(connection, deployment_id)

    bad = ThreadIndexSettings(url_env="APPLICATION", query="select thread_id from nowhere")
    await replace(_reader(store, Server(), bad), interval=timedelta(0)).read(deployment_id)

    async with store.database.read() as connection:
        after = await index.find_source(connection, deployment_id)
        assert await index.count_entries(connection, deployment_id) == 2
    assert before is not None
    assert after is not None
    assert (after.status, after.as_of) == ("failed", before.as_of)
    assert (before.malformed, before.status) == (1, "incomplete")


async def test_a_list_that_is_not_whole_is_read_again_after_some_minutes(
    store: Store, deployment_id: int, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt reads the application's whole table, and polls come every half minute."""
    monkeypatch.setenv("APPLICATION", application)
    reader = _reader(store, Server(), ThreadIndexSettings(url_env="APPLICATION", query=QUERY))
    tried = []
    for minutes in (0, 1, 4, 6):
        now = NOW + timedelta(minutes=minutes)
        monkeypatch.setattr("app.jobs.index.utc_now", lambda now=now: now)
        await reader.read(deployment_id)
        async with store.database.read() as connection:
            source = await index.find_source(connection, deployment_id)
        assert source is not None
        tried.append((source.tried_at - NOW, source.status))

    assert tried == [(timedelta(minutes=each), "incomplete") for each in (0, 0, 0, 6)]


async def test_a_long_list_is_taken_in_batches(
    store: Store, deployment_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/long.db"
    monkeypatch.setenv("APPLICATION", url)
    numbers = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 10000)"
    query = f"select printf('00000000-0000-7000-8000-%012x', x) as thread_id from ({numbers} select x from n)"

    await _reader(store, Server(), ThreadIndexSettings(url_env="APPLICATION", query=query)).read(deployment_id)

    async with store.database.read() as connection:
        assert await index.count_entries(connection, deployment_id) == 10_000
    assert (await _compare(store, deployment_id))["seen"] == 3


async def _kept(store: Store, deployment_id: int) -> Mapping[str, int]:
    async with store.database.read() as connection:
        found = await store.comparisons(deployment_id).of(
            connection, ("support", None), expired_before=NOW - timedelta(days=90), now=NOW
        )
    return found.by_word


async def test_a_comparison_that_is_kept_never_hides_what_got_worse(store: Store, deployment_id: int) -> None:
    old = {"thread_id": uuid_of(12), "created_at": OLD.isoformat()}
    await take(store, deployment_id, _push({"thread_id": uuid_of(1)}, old), now=NOW)
    await _reader(store, Server()).read(deployment_id)
    assert await _kept(store, deployment_id) == {"seen": 1, "expired": 1}

    async with store.database.write() as connection:  # the server has it all the same
        await index.set_found(connection, deployment_id, {uuid_of(12): index.HIDDEN}, now=utc_now())
    assert await _kept(store, deployment_id) == {"seen": 1, "hidden": 1}

    await take(store, deployment_id, _push({"thread_id": uuid_of(9)}, snapshot=None), now=utc_now())
    assert await _kept(store, deployment_id) == {"seen": 1, "hidden": 1, "unchecked": 1}

    async with store.database.write() as connection:
        poll = await writes.begin_poll(connection, deployment_id, kind="scan", now=NOW)
        seen = [facts(row(uuid_of(9)))]
        await writes.upsert_threads(connection, Dictionaries(deployment_id), seen, poll_id=poll)
    assert await _kept(store, deployment_id) == {"seen": 2, "hidden": 1}


async def test_a_comparison_is_not_made_anew_while_nothing_changed(
    store: Store, deployment_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await take(store, deployment_id, _push({"thread_id": uuid_of(1)}), now=NOW)
    first = await _kept(store, deployment_id)
    monkeypatch.setattr(index, "compare", None)
    async with store.database.write() as connection:
        await writes.begin_poll(connection, deployment_id, kind="scan", now=NOW)

    assert await _kept(store, deployment_id) == first


async def test_the_time_of_a_query_is_that_of_the_database_and_not_of_who_takes_its_rows(application: str) -> None:
    """A million rows are written for longer than the query takes."""
    engine = create_engine(application)
    with engine.begin() as connection:
        rows = [{"id": uuid_of(100 + number)} for number in range(8000)]
        connection.execute(text("insert into conversation (id) values (:id)"), rows)
    engine.dispose()
    taken = 0
    async for batch in read_index(deployment="d", url=application, query=QUERY, longest=timedelta(seconds=1)):
        taken += len(batch.entries)
        await asyncio.sleep(0.4)

    assert taken == 8002


# -- the verdict -------------------------------------------------------------------------------------------------------


def listed(source: SourceStatus | None = None, **by_word: int) -> IndexEvidence:
    fresh = SourceStatus("index", "complete", NOW - HOUR)
    return IndexEvidence(source or fresh, Comparison(by_word or {"seen": 38}, 0), timedelta(hours=24))


VERDICTS: dict[str, tuple[IndexEvidence, list[str]]] = {
    "all seen": (listed(), []),
    "some closed, some expired": (listed(seen=30, closed=5, expired=9), []),
    "one the server does not know": (listed(seen=38, unknown=1), ["index_only"]),
    "one that is hidden": (listed(seen=38, hidden=1), ["index_only"]),
    "one not asked for yet": (listed(seen=38, unchecked=1), ["index_only"]),
    "one with a prefix": (listed(seen=38, other_form=1), ["index_only"]),
    "nothing listed": (IndexEvidence(SourceStatus("index", "complete", NOW), Comparison({}, 0), HOUR), ["source_failed"]),
    "never read": (listed(SourceStatus("index", "not_evaluated")), ["index_stale"]),
    "never read, since it fails": (listed(SourceStatus("index", "failed")), ["source_failed"]),
    "rows without an id": (listed(SourceStatus("index", "incomplete", NOW)), ["source_failed"]),
    "two days old": (listed(SourceStatus("index", "complete", NOW - 48 * HOUR)), ["index_stale"]),
    "failing for two days": (
        listed(SourceStatus("index", "failed", NOW - 48 * HOUR)), ["source_failed", "index_stale"]
    ),
    "failing for an hour": (listed(SourceStatus("index", "failed", NOW - HOUR)), []),
}  # fmt: skip


@pytest.mark.parametrize("what", VERDICTS)
def test_what_the_index_withholds_has_its_reason(what: str) -> None:
    found, codes = VERDICTS[what]
    answer = decide(evidence(index=found), NOW)

    assert [reason.code for reason in answer.reasons] == codes
    assert answer.verdict is (Verdict.UNKNOWN if codes else Verdict.DRAINED)
    assert all(reason.sentence.endswith((".", "?")) for reason in answer.reasons)


def test_a_list_without_a_thread_of_the_graph_is_shown_as_incomplete_with_its_sentence() -> None:
    found = IndexEvidence(SourceStatus("index", "complete", NOW), Comparison({}, 0), HOUR).status(NOW)

    assert (found.status, found.expected, found.seen) == ("incomplete", 0, 0)
    assert found.sentence is not None
    assert "lists no thread of this graph" in found.sentence


def test_what_withholds_is_never_shown_as_complete() -> None:
    for evidence_, codes in VERDICTS.values():
        if {"source_failed", "index_stale"} & set(codes):
            assert evidence_.status(NOW).status != "complete"


words = st.dictionaries(
    st.sampled_from(["seen", "closed", "expired", "unknown", "hidden", "other_form", "no_id", "unchecked"]),
    st.integers(0, 5),
)


@settings(deadline=None)
@given(words, words)
def test_more_that_nobody_has_seen_never_makes_a_verdict_greener(before: dict[str, int], more: dict[str, int]) -> None:
    unseen = {word: count for word, count in more.items() if word not in ("seen", "closed", "expired")}
    both = {word: before.get(word, 0) + unseen.get(word, 0) for word in {*before, *unseen}}

    def is_green(by_word: dict[str, int]) -> bool:
        found = IndexEvidence(SourceStatus("index", "complete", NOW), Comparison({"seen": 1, **by_word}, 0), HOUR)
        return decide(evidence(index=found), NOW).verdict is Verdict.DRAINED

    assert is_green(before) or not is_green(both)
