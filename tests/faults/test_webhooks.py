"""Webhooks: what is told and when, to whom it goes, and what becomes of it when the receiver is slow, dead or gone."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app.drains.register import By
from app.inventory import outbox
from app.inventory.db import Database
from app.inventory.outbox import Claimed, NewDelivery
from app.inventory.store import Store
from app.jobs.delivering import KEPT, STEPS, Courier, Outcome, after_attempt, forget_old, judged, signed
from app.main import create_app
from app.settings import Settings, WebhookSettings
from tests.faults.conftest import DRAIN, NAME
from tests.faults.fake_server import CANARY, Clock, FakeAgentServer

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SECRET = "whsec_" + "c2VjcmV0" * 6
DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "webhooks.md"
HOOKS = [
    {"name": "all", "url": "https://hooks.test/all/private-part", "secret_env": "HOOK_SECRET"},
    {"name": "few", "url": "https://hooks.test/few", "secret_env": "HOOK_SECRET", "events": ["stranded"]},
]


@dataclass
class Receiver:
    """What was sent, and how it is answered."""

    answers: list[httpx.Response | Exception] = field(default_factory=list)
    got: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.got.append(request)
        answer = self.answers.pop(0) if self.answers else httpx.Response(204)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Place:
    app: FastAPI
    http: httpx.AsyncClient
    clock: Clock
    receiver: Receiver

    def courier(self, name: str = "all") -> Courier:
        runtime = self.app.state.runtime
        return Courier(runtime.settings.webhook(name), runtime.store, lambda _: httpx.MockTransport(self.receiver))

    async def poll(self, **more: Any) -> None:
        self.clock.tick(seconds=30)
        await self.app.state.runtime.poll(NAME, **({"full": False} | more))

    async def listed(self, **query: str) -> list[dict[str, Any]]:
        answer = await self.http.get("/api/v1/deliveries", params=query)
        return list(reversed(answer.json()["items"]))

    async def told(self, webhook: str = "all") -> list[str]:
        return [each["event"] for each in await self.listed(webhook=webhook)]

    async def deliver(self, name: str = "all") -> None:
        courier = self.courier(name)
        while await courier.deliver_one(self.clock()):
            pass
        await courier.aclose()


Enter = Callable[..., AbstractAsyncContextManager[Place]]


@pytest.fixture
def place(
    tmp_path: Path, migrated_sqlite: Path, server: FakeAgentServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Enter:
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    @asynccontextmanager
    async def opened(**more: Any) -> AsyncIterator[Place]:
        if not (tmp_path / "board.db").exists():
            shutil.copy(migrated_sqlite, tmp_path / "board.db")
        settings = Settings(
            database_url=f"sqlite+aiosqlite:///{tmp_path}/board.db",
            key_file=tmp_path / "board.key",
            home=tmp_path,
            deployments=[{"name": NAME, "url": "http://agent.test", "requests_per_minute": 600_000}],
            drains=[DRAIN],
            webhooks=HOOKS,
            **more,
        )
        app = create_app(settings, schedule=False, transport=lambda _: server.transport)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://drainboard.test") as http:
                yield Place(app, http, clock, Receiver())

    return opened


async def test_each_transition_is_told_once_and_holds_nothing_of_a_thread(
    place: Enter, server: FakeAgentServer
) -> None:
    """A drain goes from blocked to drained, is hit again, its threads are stranded, and then nobody looks any more."""
    thread = server.parked()
    async with place() as it:
        await it.poll(full=True)
        assert await it.told() == []
        server.finish(thread)
        for _ in range(3):
            await it.poll(full=True)
        assert await it.told() == ["drained"]
        server.park(thread)
        await it.poll()
        await it.poll()
        assert Counter(await it.told()) == Counter(["drained", "withdrawn", "regressed"])
        server.deploy("support", "intake", "finish")
        await it.poll(full=True)
        await it.poll(full=True)
        assert (await it.told())[3:] == ["stranded"]
        it.clock.tick(minutes=20)
        for _ in range(2):
            await it.app.state.runtime.drains.announce(it.clock())
        assert (await it.told())[4:] == ["evidence_stale"]
        assert await it.told("few") == ["stranded"]
        await it.deliver()
        bodies = [request.read().decode() for request in it.receiver.got]
        sent = ["withdrawn", "regressed", "stranded", "evidence_stale"]  # that it was drained is not so any more
        assert Counter(json.loads(body)["type"] for body in bodies) == Counter(sent)
        given_up = (await it.http.get("/api/v1/deliveries?state=dead")).json()["items"]
        assert [(each["event"], each["problem"]) for each in given_up] == [("drained", "overtaken")]
        for body in bodies:
            assert thread.id not in body
            assert CANARY not in body
        (stranded,) = [found for found in map(json.loads, bodies) if found["type"] == "stranded"]
        assert stranded["data"]["count"] == 1
        assert re.fullmatch(r"th_[0-9a-f]{24}", stranded["data"]["threads"][0])


async def test_what_is_stale_while_it_was_drained_is_withdrawn_and_told_again_when_it_is_fresh(
    place: Enter, server: FakeAgentServer
) -> None:
    server.finish(server.parked())
    async with place() as it:
        for _ in range(3):
            await it.poll(full=True)
        assert await it.told() == ["drained"]
        it.clock.tick(minutes=20)
        await it.app.state.runtime.drains.announce(it.clock())
        await it.poll(full=True)
        assert Counter((await it.told())[1:3]) == Counter(["evidence_stale", "withdrawn"])
        assert (await it.told())[3:] == ["drained"]


async def test_a_message_is_written_with_what_it_tells_of_or_not_at_all(
    place: Enter, server: FakeAgentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies in the transaction that ends the poll: neither the alarm nor the message is there, and then both."""
    server.parked()
    async with place() as it:
        await it.poll(full=True)
        server.deploy("support", "intake", "finish")
        drains = it.app.state.runtime.drains

        async def dies(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(drains, "after_poll", dies)
            with pytest.raises(KeyboardInterrupt):
                await it.poll(full=True)
        assert await it.told() == []
    async with place() as it:
        assert (await it.http.get(f"/api/v1/deployments/{NAME}")).json()["alarms"] == []
        await it.poll(full=True)
        assert await it.told() == ["stranded"]
        assert "stranded" in [
            each["code"] for each in (await it.http.get(f"/api/v1/deployments/{NAME}")).json()["alarms"]
        ]


async def test_a_poll_does_not_wait_for_a_receiver_that_never_answers(place: Enter, server: FakeAgentServer) -> None:
    server.parked()
    async with place() as it:
        asked = asyncio.Event()

        async def never(_: httpx.Request) -> httpx.Response:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        await it.http.post("/api/v1/webhooks/all/test")
        runtime = it.app.state.runtime
        courier = Courier(runtime.settings.webhook("all"), runtime.store, lambda _: httpx.MockTransport(never))
        sending = asyncio.create_task(courier.deliver_one(it.clock()))
        await asked.wait()
        await it.poll(full=True)
        assert not sending.done()
        assert (await it.http.get(f"/api/v1/deployments/{NAME}")).json()["last_sweep"]["state"] == "complete"
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await courier.aclose()
        assert (await it.listed())[0]["state"] == "waiting"
        await it.deliver()  # another process holds it, as far as anybody knows
        assert it.receiver.got == []
        it.clock.tick(minutes=3)
        await it.deliver()
        assert [each["state"] for each in await it.listed()] == ["delivered"]


async def test_a_message_is_sent_with_one_id_until_it_is_given_up_and_then_again_when_somebody_asks(
    place: Enter,
) -> None:
    async with place() as it:
        made = (await it.http.post("/api/v1/webhooks/all/test")).json()
        path = f"/api/v1/deliveries/{made['id']}/send"
        assert (await it.http.post(path)).status_code == 409
        it.receiver.answers = [
            httpx.ConnectError("no"),
            httpx.ReadTimeout("slow"),
            httpx.Response(302, headers={"location": "https://elsewhere.test/"}),
            *[httpx.Response(500, text=CANARY)] * 5,
        ]
        problems, waited = [], []
        for _ in range(8):
            await it.deliver()
            (found,) = await it.listed()
            problems.append(found["problem"])
            if found["next_at"]:
                waited.append(datetime.fromisoformat(found["next_at"]) - it.clock())
                it.clock.tick(seconds=waited[-1].total_seconds())
        assert problems == ["unreachable", "timeout", "redirected", *["refused"] * 5]
        assert all(step <= found <= step * 1.1 for step, found in zip(STEPS, waited, strict=True))
        assert (found["state"], found["attempts"], found["status"]) == ("dead", 8, 500)
        assert {request.headers["webhook-id"] for request in it.receiver.got} == {made["id"]}
        assert {request.url.host for request in it.receiver.got} == {"hooks.test"}
        page = (await it.http.get("/settings")).text
        assert "Messages that were given up" in page
        assert f"/settings/{path.removeprefix('/api/v1/')}" in page
        assert "private-part" not in page + (await it.http.get("/api/v1/webhooks")).text
        cross = await it.http.post(f"/settings/deliveries/{made['id']}/send", headers={"sec-fetch-site": "cross-site"})
        assert cross.status_code == 403
        assert (await it.http.post(f"/settings/deliveries/{made['id']}/send")).status_code == 303
        it.clock.now = datetime.now(UTC)  # as a page has it
        await it.deliver()
        assert [each["state"] for each in await it.listed()] == ["delivered"]
        assert {request.headers["webhook-id"] for request in it.receiver.got} == {made["id"]}
        done = [each["action"] for each in (await it.http.get("/api/v1/activity")).json()["items"]]
        assert {"webhook.tested", "webhook.sent_again"} <= set(done)


async def test_without_its_secret_a_message_waits(place: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place() as it:
        await it.http.post("/api/v1/webhooks/all/test")
        for wrong in ("", "whsec_", "whsec_c2hvcnQ=", "not-one", "whsec_" + "é" * 40):
            monkeypatch.setenv("HOOK_SECRET", wrong)
            await it.deliver()
            assert (await it.listed())[0]["problem"] == "no_secret", wrong
            it.clock.tick(hours=1)
        assert it.receiver.got == []
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        it.clock.tick(hours=3)
        await it.deliver()
        assert (await it.listed())[0]["state"] == "delivered"


async def test_who_sees_one_deployment_is_shown_no_message_about_another(place: Enter, server: FakeAgentServer) -> None:
    server.parked()
    server.deploy("support", "intake", "finish")
    async with place() as it:
        await it.poll(full=True)
        await it.http.post("/api/v1/webhooks/all/test")
        (about,) = [each for each in await it.listed(webhook="all") if each["event"] == "stranded"]
        tokens, made = it.app.state.tokens, {}
        it.app.state.runtime.settings.__dict__["deployments"] += (
            it.app.state.runtime.settings.deployments[0].model_copy(update={"name": "other"}),
        )
        for who, rights, over in (("reader", ["read"], [NAME]), ("other", ["read", "operate"], ["other"])):
            made[who], _ = await tokens.create(
                who, rights, deployments=over, expires_in=None, by=By("test", it.clock())
            )

        async def ask(who: str, method: str, path: str) -> httpx.Response:
            return await it.http.request(method, path, headers={"Authorization": f"Bearer {made[who]}"})

        listed = (await ask("reader", "GET", "/api/v1/deliveries")).json()["items"]
        assert {each["event"] for each in listed} == {"stranded"}
        assert (await ask("other", "GET", "/api/v1/deliveries")).json()["items"] == []
        assert [each["waiting"] for each in (await ask("other", "GET", "/api/v1/webhooks")).json()["items"]] == [0, 0]
        send = f"/api/v1/deliveries/{about['id']}/send"
        assert [(await ask(who, "POST", send)).status_code for who in made] == [403, 404]
        assert (await ask("other", "POST", "/api/v1/webhooks/all/test")).status_code == 403


@pytest.mark.parametrize(
    ("code", "after", "problem", "wait"),
    [
        (200, None, None, 0),
        (299, None, None, 0),
        (301, None, "redirected", 0),
        (410, "5", "gone", 0),
        (429, "120", "refused", 120),
        (503, "Mon, 30 Nov 2026 12:01:00 GMT", "refused", 60),
        (503, "-5", "refused", 0),
        (503, "9" * 5000, "refused", 0),
        (503, "999999999", "refused", 86400),
        (503, "Mon, 30 Nov 2026 12:01:00", "refused", 0),
        (404, "soon", "refused", 0),
    ],
)
def test_an_answer_means_this(code: int, after: str | None, problem: str | None, wait: int) -> None:
    assert judged(code, after, NOW) == Outcome(problem, code, timedelta(seconds=wait))


def test_who_wants_no_more_is_not_asked_again_and_who_asks_for_time_gets_it() -> None:
    assert after_attempt(Outcome("gone", 410), 1, NOW)["state"] == "dead"
    later = after_attempt(Outcome("refused", 429, timedelta(hours=5)), 1, NOW)
    assert (later["state"], later["next_at"]) == ("waiting", NOW + timedelta(hours=5))


async def test_what_ended_long_ago_is_forgotten_and_what_waits_is_not(address: str) -> None:
    database = Database(address)
    store = Store(database, b"k" * 32)
    ended = {"old": NOW - KEPT - timedelta(seconds=1), "new": NOW - KEPT + timedelta(seconds=1), "waiting": None}
    async with database.write() as connection:
        for name, at in ended.items():
            made = NOW - timedelta(days=90)
            await outbox.add_delivery(connection, None, NewDelivery(name, "all", "test", "all", "{}"), made)
            claimed = await outbox.claim(connection, "all", now=NOW, lease=timedelta(days=1))
            assert claimed is not None
            if at is not None:
                await outbox.settle(connection, claimed, {"state": "dead", "ended_at": at})
    await forget_old(store, NOW)
    async with database.read() as connection:
        left, _ = await outbox.list_deliveries(connection, deployments=None, limit=9)
    assert {each.id for each in left} == {"new", "waiting"}
    await database.close()


async def test_of_two_that_send_at_once_one_gets_the_message(address: str) -> None:
    database = Database(address)
    async with database.write() as connection:
        await outbox.add_delivery(connection, None, NewDelivery("m1", "all", "test", "all", "{}"), NOW)
    lease = timedelta(minutes=2)

    async def claim(at: datetime) -> Claimed | None:
        async with database.write() as connection:
            return await outbox.claim(connection, "all", now=at, lease=lease)

    first, second = await asyncio.gather(claim(NOW), claim(NOW))
    assert [found is None for found in (first, second)].count(True) == 1
    late = first or second
    assert late is not None
    again = await claim(NOW + lease)
    assert again is not None
    async with database.write() as connection:
        await outbox.settle(connection, late, {"state": "dead"})  # its time was over: another has it
        assert (await outbox.find_delivery(connection, "m1")).state == "waiting"  # type: ignore[union-attr]
        await outbox.settle(connection, again, {"state": "delivered"})
        assert (await outbox.find_delivery(connection, "m1")).state == "delivered"  # type: ignore[union-attr]
        assert not await outbox.revive(connection, "m1", NOW)
    pages = []
    async with database.write() as connection:
        for number in range(2, 5):
            await outbox.add_delivery(connection, None, NewDelivery(f"m{number}", "all", "test", "all", "{}"), NOW)
        cursor = None
        while True:
            page, cursor = await outbox.list_deliveries(connection, deployments=None, cursor=cursor, limit=3)
            pages.append([each.id for each in page])
            if cursor is None:
                break
    assert pages == [["m4", "m3", "m2"], ["m1"]]
    await database.close()


async def test_the_receiver_of_the_documentation_takes_what_is_signed_and_nothing_else(
    tmp_path: Path, migrated_sqlite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real time and a real connection; the library of the standard agrees."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    shutil.copy(migrated_sqlite, tmp_path / "board.db")
    (tmp_path / "secret").write_text(SECRET + "\n")
    store = Store(Database(f"sqlite+aiosqlite:///{tmp_path}/board.db"), b"k" * 32)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", code, "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | {"WEBHOOK_SECRET": SECRET},
    )
    assert process.stdout is not None
    port = int((await process.stdout.readline()).split()[-1])
    async with store.database.write() as connection:
        await outbox.add_delivery(
            connection, None, NewDelivery("m1", "real", "test", "x", '{"type": "test"}'), datetime.now(UTC)
        )
    try:
        for place, expected in (("env", "waiting"), ("file", "delivered")):
            monkeypatch.setenv("WRONG", SECRET[:-4] + "AAAA")
            source = {"secret_env": "WRONG"} if place == "env" else {"secret_file": tmp_path / "secret"}
            courier = Courier(WebhookSettings(name="real", url=f"http://127.0.0.1:{port}", **source), store)  # type: ignore[arg-type]
            assert await courier.deliver_one(datetime.now(UTC) + timedelta(seconds=10 if place == "file" else 0))
            await courier.aclose()
            async with store.database.read() as connection:
                found = await outbox.find_delivery(connection, "m1")
            assert found is not None
            assert (found.state, found.status) == (expected, 401 if place == "env" else 204)
        assert await process.stdout.readline() == b"test\n"
    finally:
        process.kill()
        await process.wait()
        await store.database.close()
    headers = signed(SECRET, Claimed("m2", "test", '{"type": "test"}', 1), datetime.now(UTC))
    assert Webhook(SECRET).verify('{"type": "test"}', headers) == {"type": "test"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify('{"type": "tset"}', headers)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"secret_env": None}, "secret_env or from secret_file"),
        ({"secret_file": "x"}, "secret_env or from secret_file"),
        ({"events": ["drain"]}, "events"),
        ({"events": []}, "events"),
        ({"url": "ftp://x"}, "address like"),
        ({"timeout": "31s"}, "30s"),
        ({"deployments": ["nowhere"]}, "which is not there"),
    ],
)
def test_a_webhook_that_cannot_work_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Settings(webhooks=[HOOKS[0] | changes])
