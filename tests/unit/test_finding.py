"""The search: what a text is read as, and threads by the beginning of their id on SQLite and on PostgreSQL."""

import pytest

from app.facts.types import Condition
from app.inventory import finding, writes
from app.inventory.db import Database
from app.inventory.finding import Found, Hit, HitKind
from app.inventory.writes import Dictionaries
from app.jobs.finding import read_thread_id
from tests.unit.builders import NOW, facts, row

ID = "0190a3c2-7d11-7c33-a0f0-2b8f6c1d9e55"


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (ID, ID),
        (ID.upper(), ID),
        (ID.replace("-", ""), ID),
        (f'  "{ID}" ', ID),
        ("0190a3c2 7d11 7c33 a0f0 2b8f6c1d9e55", ID),
        (f"https://smith.langchain.com/studio/thread/{ID}?baseUrl=x", ID),
        (f"run failed thread_id={ID.upper()} attempt=2", ID),
        ("0190A3C2", "0190a3c2"),
        ("0190a3c27d", "0190a3c2-7d"),
        ("0190a3c2-", "0190a3c2"),
        ("0190a3c2-7d11-7c33-a", "0190a3c2-7d11-7c33-a"),
        ("cafe", "cafe"),
        ("caf", None),
        ("await_approval", None),
        ("", None),
        (ID + "00", None),
    ],
)
def test_an_id_is_read_however_it_was_pasted(typed: str, read: str | None) -> None:
    assert read_thread_id(typed) == read


async def test_threads_are_found_by_how_their_id_begins(database: Database) -> None:
    ids = [ID, "0190a3c2-7d12-7c33-a0f0-2b8f6c1d9e55", "0190a3c3-7d11-7c33-a0f0-2b8f6c1d9e55"]
    async with database.write() as connection:
        mine, other = [await writes.ensure_deployment(connection, name, NOW) for name in ("mine", "other")]
        for deployment_id, thread_ids in ((mine, ids), (other, [ids[0]])):
            dictionaries = Dictionaries(deployment_id)
            await dictionaries.load(connection)
            found = [facts(row(thread_id)) for thread_id in thread_ids]
            await writes.upsert_threads(connection, dictionaries, found, poll_id=1)

    async def begins(with_: str, limit: int = 10) -> list[str]:
        async with database.read() as connection:
            rows = await finding.list_beginning(connection, mine, with_, limit=limit)
            assert {each.condition for each in rows} <= {Condition.SETTLED.value}
            return [each.thread_id for each in rows]

    assert await begins("0190a3c2") == ids[:2]
    assert await begins("0190a3c2-7d1") == ids[:2]
    assert await begins("0190a3c2-7d11") == ids[:1]
    assert await begins(ID) == ids[:1]
    assert await begins("0190", limit=1) == ids[:1]
    assert await begins("0190a3c4") == []
    assert await begins("%") == []
    assert await begins("0190a3c2-7d1_") == []
    assert await begins("\ud7ff") == []


def test_what_must_have_been_meant_is_the_only_hit_or_the_only_one_of_that_name() -> None:
    def only(*hits: Hit, cut: tuple[HitKind, ...] = ()) -> Hit | None:
        return Found("x", None, False, hits, cut, ()).only

    thread, other = Hit(HitKind.THREAD, "1", "a", False), Hit(HitKind.THREAD, "2", "a", False)
    exact = Hit(HitKind.DRAIN, "x", "a", True)
    node, naming = Hit(HitKind.NODE, "x", "a", True), Hit(HitKind.DRAIN, "drop-x", "a", False)
    assert only() is None
    assert only(thread) is thread
    assert only(thread, cut=(HitKind.THREAD,)) is None
    assert only(thread, other) is None
    assert only(thread, exact) is exact
    assert only(exact, Hit(HitKind.DEPLOYMENT, "x", "x", True)) is None
    assert only(node) is node
    assert only(node, naming) is None
