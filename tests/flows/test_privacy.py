"""No value, no personal key, no secret: not in the database, an output, a page or an answer, whatever was asked for.

Everything that can be asked of a Drainboard is asked, at debug level, with the real server's every situation behind it, and
searched for what the server's own answers hold.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import json
import re
import secrets
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import httpx
import psycopg
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from app.main import create_app
from app.settings import Settings
from tests.agent.fixtures import SituationsServer
from tests.agent.situations import CANARY, CANARY_KEY
from tests.flows.product import (
    COMMAND,
    DEPLOYMENT,
    Product,
    node_drain,
    ok,
    one_deployment,
    poll_over_http,
    wait_until,
)

API_KEY = "api-key-6c2b-of-the-server"
PASSWORD = "password-6c2b-of-the-address"
TOKEN = "token-6c2b-of-the-caller"
SECRET = f"whsec_{base64.b64encode(b'secret-6c2b-of-the-webhook').decode()}"
MOST_LIVE_AT_ONCE = 8
WEBHOOK = {"name": "ops", "url": "http://127.0.0.1:9/hook", "secret_env": "HOOK_SECRET"}
"""Nobody listens there; what is to be sent waits in the database."""

CANDIDATE = {
    "schema": "drainboard.topology/1",
    "graphs": {"support": {"kind": "graph", "nodes": ["intake", "finish"], "edges": [], "fields": {}}},
    "whole": False,
}
"""What a preflight would find threads at."""

DRAINS: tuple[dict[str, Any], ...] = (
    node_drain("drop-await-approval", "support", "await_approval"),
    node_drain("drop-intake", "support", "intake"),
    node_drain("drop-desk", "nested", "desk/sub_wait"),
    node_drain("drop-begin", "nested", "begin"),
    node_drain("drop-plan", "fan_out", "plan"),
    node_drain("drop-wait", "freeform", "wait"),
    node_drain("drop-functional", "functional", "nowhere"),
    {
        "name": "rename-the-customer",
        "deployment": DEPLOYMENT,
        "graph": "support",
        "owner": "payments team",
        "rename_fields": [{"old": "customer_name", "new": "display_name"}],
    },
    {
        "name": "rename-in-freeform",
        "deployment": DEPLOYMENT,
        "graph": "freeform",
        "rename_fields": [{"old": "customer_name", "new": "display_name"}],
    },
    {
        "name": "everybody-on-2",
        "deployment": DEPLOYMENT,
        "graph": "support",
        "minimum_versions": {"state_version": 2},
    },
)

NOT_TELLING = frozenset({"case", "gate", "answer_gate"})
"""Fields whose values are words of the graphs or thread ids, so that finding them says nothing."""

OWN_METADATA = frozenset({"graph_id", "assistant_id", "situation"})
"""The thread metadata that may be kept."""

FIELDS = frozenset(
    [
        "case",
        "gate",
        "answer_gate",
        "note",
        "decision",
        "outcome",
        "customer_name",
        "display_name",
        "retry_count",
        "legacy_notes",
        "passport_number",
        "state_version",
        "documents",
        "verdicts",
        "ran",
        "fail",
        "inner_field",
        "amount",
        "ask",
        "name",
    ]
)
"""The top-level names that the graphs, or the tests' inputs, declare. Any other name of a state is personal."""


@dataclass(frozen=True)
class Where:
    """One thing that somebody can get to see, and its bytes."""

    name: str
    content: bytes


@dataclass
class Everything:
    """All that was asked and found, and what must not be in it."""

    forbidden: frozenset[str]
    server_said: bytes
    hash_key: str
    found: list[Where] = field(default_factory=list)

    def add(self, name: str, content: bytes | str) -> None:
        """Keep one more."""
        self.found.append(Where(name, content.encode() if isinstance(content, str) else content))

    def leaks(self, texts: Iterable[str]) -> list[tuple[str, str]]:
        """Where one of these is, in any of its spellings."""
        wanted = {spelling: text for text in texts for spelling in spellings(text)}
        pattern = re.compile(b"|".join(re.escape(one) for one in sorted(wanted, key=len, reverse=True)))
        hits = {(where.name, match.decode()) for where in self.found for match in pattern.findall(where.content)}
        return sorted(hits)


def spellings(text: str) -> set[bytes]:
    """How a text may be written: as it is, for HTML, JSON, SQL and addresses, encoded, and hashed without a key."""
    raw = text.encode()
    written = {text, html.escape(text), quote(text, safe=""), quote_plus(text), quote(text), text.replace("'", "''")}
    written |= {json.dumps(text)[1:-1], json.dumps(html.escape(text))[1:-1], repr(text)[1:-1], raw.hex()}
    found = {one.encode() for one in written}
    if len(raw) >= 12:
        # The part of a base64 that does not depend on what is around it, at each of the three places it may begin.
        for shift in range(3):
            cut = base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 :]
            found.add(cut.rstrip(b"=")[:-2])
        for algorithm in ("md5", "sha1", "sha256", "blake2b"):
            found.add(hashlib.new(algorithm, raw).hexdigest()[:16].encode())
    return found


# --- Everything that can be asked ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything(situations_server: SituationsServer, tmp_path_factory: pytest.TempPathFactory) -> Everything:
    """The product with a secret in its environment and one in its address, asked for everything."""
    raw = asyncio.run(_raw_answers(situations_server.url))
    product = Product(
        tmp_path_factory.mktemp("private"),
        {
            "SITUATIONS_KEY": API_KEY,
            "DRAINBOARD_TOKEN": TOKEN,
            "HOOK_SECRET": SECRET,
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    product.configure(_settings(situations_server))
    (product.folder / "candidate.json").write_text(json.dumps(CANDIDATE), encoding="utf-8")
    asked = Everything(forbidden_strings(raw), json.dumps(raw).encode(), "")
    _use_the_command_line(product, asked, "drop-await-approval", situations_server)
    with product.serve() as client:
        for full in (True, False):
            asked.add("poll", json.dumps(poll_over_http(client, full=full)))
        asked.hash_key = (product.folder / "drainboard.key").read_text(encoding="utf-8").strip()
        asyncio.run(_ask_for_all(str(client.base_url), asked, situations_server))
        _add_files(product, asked, "while it serves")
        server = str(client.base_url)
        ids = [situations_server[name].thread_id for name in ("personal_keys_parked", "node_failed")]
        for arguments in (*(("evidence", DEPLOYMENT, one, "--live") for one in ids), ("drains", "list"), ("poll",)):
            _command(product, asked, *arguments, "--server", server)
    _command(product, asked, "db", "backup", str(product.folder / "copy.db"))
    _add_files(product, asked, "afterwards")
    return asked


def _settings(server: SituationsServer, **more: Any) -> dict[str, Any]:
    address = server.url.replace("http://", f"http://reader:{PASSWORD}@")
    settings = one_deployment(address, *DRAINS, api_key_env="SITUATIONS_KEY", environment="test")
    return settings | {"webhooks": [WEBHOOK], **more}


def _use_the_command_line(product: Product, asked: Everything, drain: str, server: SituationsServer) -> None:
    """Every command, directly on the database, with and without `--json`."""
    ran = product.ask("poll", "--full")
    assert ran.code == 0, ran.said
    asked.add("command: poll --full", ran.out + ran.err)
    parked = server["personal_keys_parked"].thread_id
    failed = server["failed_beside_parked"].thread_id
    for arguments in (
        ("gate", drain),
        ("gate", "rename-the-customer", "--json"),
        ("gate", "everybody-on-2"),
        ("drains", "list"),
        ("drains", "list", "--json"),
        ("drains", "show", "rename-the-customer"),
        ("drains", "show", drain, "--json"),
        ("threads", "list", DEPLOYMENT, "--limit", "500"),
        ("threads", "list", DEPLOYMENT, "--limit", "500", "--json"),
        ("threads", "show", DEPLOYMENT, failed),
        ("evidence", DEPLOYMENT, parked, "--json"),
        ("evidence", DEPLOYMENT, failed, "--live"),
        ("evidence", DEPLOYMENT, "00000000-0000-4000-8000-000000000000"),
        ("evidence", DEPLOYMENT, "malformed", "--json"),
        ("preflight", DEPLOYMENT, "--topology", "candidate.json", "--markdown"),
        ("preflight", DEPLOYMENT, "--topology", "candidate.json", "--json"),
        ("db", "check", "--json"),
        ("db", "upgrade"),
    ):
        _command(product, asked, *arguments)


def _command(product: Product, asked: Everything, *arguments: str) -> None:
    ran = product.ask(*arguments)
    asked.add(f"command: {' '.join(arguments)}", ran.out + ran.err)


async def _ask_for_all(address: str, asked: Everything, server: SituationsServer) -> None:
    """Every route of the API and every page, with the threads and polls that there are."""
    async with httpx.AsyncClient(base_url=address, timeout=60, trust_env=False) as client:
        at_once = asyncio.Semaphore(MOST_LIVE_AT_ONCE)

        async def get(path: str, **options: Any) -> httpx.Response:
            async with at_once:
                answer = await client.get(path, **options)
            assert answer.status_code < 500, (path, answer.text)
            asked.add(f"{answer.request.method} {path}", f"{answer.headers}\n".encode() + answer.content)
            return answer

        threads = [one.thread_id for one in server.situations]
        await asyncio.gather(*(get(path) for path in _paths(threads)))
        deployment = ok(await get(f"/api/v1/deployments/{DEPLOYMENT}"))
        polls = [f"/api/v1/deployments/{DEPLOYMENT}/polls/{poll['id']}" for poll in deployment["polls"]]
        await asyncio.gather(*(get(path) for path in polls))
        for wanted in ("HX-Request", "HX-Request-Type"):
            await get(f"/deployments/{DEPLOYMENT}", headers={"HX-Request": "true", wanted: "partial"})
        for form in ("json", "markdown"):
            path = f"/api/v1/deployments/{DEPLOYMENT}/preflight?format={form}"
            answer = await client.post(path, json={"topology": CANDIDATE})
            assert answer.status_code == 200, answer.text
            assert b"await_approval" in answer.content
            asked.add(f"POST {path}", answer.content)
        for bad in ({"full": "canary"}, {"fool": True}, [1]):
            answer = await client.post(f"/api/v1/deployments/{DEPLOYMENT}/poll", json=bad)
            assert answer.status_code == 422
            asked.add("POST poll", answer.content)


def _paths(threads: list[str]) -> Iterator[str]:
    api, page = f"/api/v1/deployments/{DEPLOYMENT}", f"/deployments/{DEPLOYMENT}"
    yield from ("/", "/drains", page, f"{page}/threads", f"{page}/threads?sort=thread_id", "/search?q=x")
    yield from ("/healthz", "/readyz", "/metrics", "/api/v1/openapi.json", "/api/v1/deployments", "/api/v1/drains")
    yield from (api, f"{api}/inventory", f"{api}/threads?limit=500", f"{api}/threads?limit=5&sort=created_at")
    yield from (f"{api}/inventory?condition=parked&pending=await_approval", f"{page}?fields=customer_name:present")
    for drain in (one["name"] for one in DRAINS):
        yield from (f"/drains/{drain}", f"/api/v1/drains/{drain}", f"/api/v1/drains/{drain}/evaluations")
        yield from (f"/api/v1/drains/{drain}/gate", f"/api/v1/drains/{drain}/gate?max_age=5m")
        yield from (f"/api/v1/drains/{drain}/threads", f"/api/v1/drains/{drain}/threads?disposition=conflict")
        yield f"/api/v1/drains/{drain}?format=markdown"
    one = DRAINS[0]["name"]
    more = ("history", "versions", "waivers", "acknowledgements", "attestations", "waiters")
    yield from (f"/api/v1/drains/{one}/{what}" for what in more)
    yield from (f"/drains/{one}/answers", f"/drains/{one}/answers/1", f"/drains/{one}/edit")
    yield from ("/drains/new", "/activity", "/settings", "/sign-in")
    yield from ("/api/v1/activity", "/api/v1/webhooks", "/api/v1/deliveries", "/api/v1/search?q=await_approval")
    yield from (f"{api}/deploys", f"{api}/deploys/1", f"{api}/nodes", f"{api}/nodes/entries?node=intake")
    yield from (f"{api}/acknowledgements", f"{api}/index", f"{page}/preflight", f"{page}/deploys/1")
    for thread in threads:
        evidence = f"{api}/threads/{thread}/evidence"
        yield from (f"{page}/threads/{thread}", evidence, f"{evidence}?live=true", f"{evidence}?format=markdown")
    for thread in threads[:: len(threads) // 6]:
        evidence = f"{api}/threads/{thread}/evidence?live=true&format=markdown"
        yield from (f"{api}/threads/{thread}", f"{page}/threads/{thread}?live=true", evidence)
    yield from ("/nowhere", "/drains/nowhere", "/deployments/nowhere", f"{page}/threads/malformed", f"{page}?x=y")
    yield from ("/api/v1/nowhere", "/api/v1/drains/nowhere", f"{api}/threads/malformed", f"{api}/threads?sort=x")
    yield from (f"{api}/polls/9999999", f"{api}/polls/x", f"/api/v1/drains/{DRAINS[0]['name']}/gate?max_age=x")


def _add_files(product: Product, asked: Everything, when: str) -> None:
    """Every file of the installation, but the settings (which name the address) and the key itself."""
    for path in sorted(product.folder.rglob("*")):
        if path.is_file() and path != product.config and path.suffix != ".key":
            asked.add(f"{path.name} {when}", path.read_bytes())


# --- What must not be found ----------------------------------------------------------------------------------------------------------


async def _raw_answers(url: str) -> list[Mapping[str, Any]]:
    """What the server itself tells of every thread: row, state, history and runs."""
    async with get_client(url=url) as client:
        rows = await client.threads.search(limit=1000)
        return list(await asyncio.gather(*(_raw_answer(client, row) for row in rows)))


async def _raw_answer(client: LangGraphClient, row: Any) -> Mapping[str, Any]:
    thread = row["thread_id"]
    state = await client.threads.get_state(thread, subgraphs=True) if row["metadata"].get("graph_id") else {}
    history = await client.threads.get_history(thread, limit=20) if row["metadata"].get("graph_id") else []
    return {"row": row, "state": state, "history": history, "runs": await client.runs.list(thread)}


def forbidden_strings(raw: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Every string of the answers that is a state's value, an interrupt's payload, an error, metadata or a personal key."""
    found: set[str] = set()
    for answer in raw:
        row, runs = answer["row"], answer["runs"]
        for state in (row, answer["state"], *answer["history"]):
            _collect_state(state, found)
        found |= set(_strings({k: v for k, v in (row["metadata"] or {}).items() if k not in OWN_METADATA}))
        found |= set(_strings((row.get("config") or {}).get("configurable") or {}))
        for run in runs:
            kwargs = run.get("kwargs") or {}
            found |= set(_strings(kwargs.get("command"))) | set(_values(kwargs.get("input")))
    return frozenset(text for text in found if _tells(text))


def _collect_state(state: Mapping[str, Any], found: set[str]) -> None:
    found |= set(_values(state.get("values")))
    found |= set(_strings([*_named(state.get("interrupts"), "value")]))
    found |= {text for text in _strings(state.get("error")) if not text.isidentifier()}  # a class's name may be told
    for task in state.get("tasks") or ():
        found |= set(_strings([*_named(task.get("interrupts"), "value")])) | set(_strings(task.get("error")))
        found |= set(_values(task.get("result")))
        if isinstance(task.get("state"), Mapping):
            _collect_state(task["state"], found)


def _values(values: object) -> Iterator[str]:
    """The strings of a state, and its keys that nobody declared."""
    if not isinstance(values, Mapping):
        yield from _strings(values)
        return
    for name, value in values.items():
        if name not in FIELDS:
            yield name
        if name not in NOT_TELLING:
            yield from _strings(value)


def _named(value: object, name: str) -> Iterator[object]:
    """Everything below that has this key."""
    if isinstance(value, Mapping):
        if name in value:
            yield value[name]
        for inner in value.values():
            yield from _named(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, name)


def _strings(value: object) -> Iterator[str]:
    """Every string below, keys aside from those that are declared."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (key for key in value if key not in FIELDS and len(key) > 8)
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _tells(text: str) -> bool:
    """Whether finding it would say something: no word that the product and its ids may have by themselves."""
    is_word = re.fullmatch(r"\w+", text) is not None
    return len(text) > (8 if is_word else 4) and re.fullmatch(r"[0-9a-f-]{32,36}", text) is None


# --- The tests -----------------------------------------------------------------------------------------------------------------------


def test_the_server_itself_tells_what_must_not_be_found(everything: Everything) -> None:
    for canary in (CANARY, CANARY_KEY, f"could not handle {CANARY}", f"{CANARY} other", "May we?", "Sure?"):
        assert json.dumps(canary)[1:-1].encode() in everything.server_said, canary
        assert canary in everything.forbidden or canary == f"could not handle {CANARY}"
    assert any("could not handle" in text for text in everything.forbidden)


@pytest.mark.parametrize("where", ["drainboard.db", "serve.log", "GET /metrics", "GET /", "command: gate", "GET /api"])
def test_the_search_finds_what_is_planted(everything: Everything, where: str) -> None:
    planted = f"planted-{secrets.token_hex(8)}&<x> 'y'"
    there = next(one for one in everything.found if one.name.startswith(where))
    for spelling in sorted(spellings(planted)):
        middle = len(there.content) // 2
        copy = Where(there.name, there.content[:middle] + spelling + there.content[middle:])
        with_it = Everything(frozenset(), b"", "", [copy])
        assert with_it.leaks([planted]), spelling


def test_everything_was_asked_and_has_something_to_say(everything: Everything) -> None:
    names = [where.name for where in everything.found]
    assert len(names) > 400
    for file in ("drainboard.db", "drainboard.db-wal", "drainboard.db-shm", "serve.log"):
        assert f"{file} while it serves" in names
    assert "copy.db afterwards" in names
    database = b"".join(one.content for one in everything.found if one.name.startswith("drainboard.db"))
    assert b"customer_name" in database
    assert b"await_approval" in database
    # A debug log that says nothing would hide nothing either.
    assert b"poll" in next(one.content for one in everything.found if one.name == "serve.log afterwards")


def test_every_route_that_tells_something_was_asked(everything: Everything) -> None:
    app = create_app(Settings(), schedule=False)
    asked = {where.name.removeprefix("GET ").partition("?")[0] for where in everything.found}
    routes = [route for route in _routes(app.routes) if "GET" in (route.methods or ())]
    assert len(routes) > 40
    missed = {route.path for route in routes if not any(route.path_regex.match(path) for path in asked)}
    assert missed == {"/sign-in/start", "/sign-in/callback"}, "these two only send to a provider and back"


def _routes(routes: Iterable[Any]) -> Iterator[Any]:
    for route in routes:
        yield from (
            _routes(route.routes) if hasattr(route, "routes") else [route] if hasattr(route, "path_regex") else []
        )


def test_nothing_is_in_a_dump_of_postgresql_or_in_the_log_of_a_worker(
    everything: Everything, situations_server: SituationsServer, empty_postgres: str, tmp_path: Path
) -> None:
    """The worker's own tables too, while it works."""
    product = Product(tmp_path, {"SITUATIONS_KEY": API_KEY, "HOOK_SECRET": SECRET})
    product.configure(_settings(situations_server, database_url=empty_postgres, work="workers"))
    log = tmp_path / "worker.log"
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [*COMMAND, "worker"], cwd=tmp_path, env=product._environment({}), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            wait_until(lambda: b"poll.finished" in log.read_bytes())
            dump = _dump(empty_postgres)
        finally:
            worker.terminate()
            worker.wait(20)
    for table in ("thread", "evaluation", "delivery", "procrastinate_workers", "procrastinate_periodic_defers"):
        assert f"COPY public.{table}\n".encode() in dump, table
    key = (tmp_path / "drainboard.key").read_text(encoding="utf-8").strip()
    found = [Where("dump", dump), Where("worker.log", log.read_bytes())]
    searched = Everything(everything.forbidden, everything.server_said, key, found)
    assert searched.leaks([*everything.forbidden, API_KEY, PASSWORD, SECRET, key]) == []


def _dump(address: str) -> bytes:
    """Every row of every table that is not the server's own, as `pg_dump` writes them; tables that are empty are left out."""
    found = b""
    with psycopg.connect(address.replace("+psycopg", "")) as connection:
        names = (
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        for schema, table in connection.execute(names).fetchall():
            with connection.cursor().copy(f'COPY "{schema}"."{table}" TO STDOUT') as rows:
                content = b"".join(bytes(row) for row in rows)
            found += f"COPY {schema}.{table}\n".encode() + content if content else b""
    return found


def test_nothing_of_any_payload_is_anywhere(everything: Everything) -> None:
    assert everything.leaks(everything.forbidden) == []


def test_no_part_of_a_canary_is_anywhere(everything: Everything) -> None:
    """Cut short is told, too."""
    parts = {text[start : start + 9] for text in (CANARY, CANARY_KEY) for start in range(len(text) - 8)}
    assert everything.leaks(parts) == []


def test_no_metadata_key_that_is_not_listed_is_anywhere(everything: Everything) -> None:
    names = ['"customer"', "'customer'", ">customer<", "`customer`"]
    assert everything.leaks(names) == []


@pytest.mark.parametrize("secret", [API_KEY, TOKEN, SECRET], ids=["key", "token", "webhook"])
def test_no_key_from_the_environment_is_anywhere(everything: Everything, secret: str) -> None:
    assert everything.leaks([secret]) == []


def test_the_password_of_an_address_is_nowhere(everything: Everything) -> None:
    assert everything.leaks([PASSWORD]) == []


def test_the_key_of_the_hashes_is_nowhere_but_in_its_file(everything: Everything) -> None:
    assert len(everything.hash_key) >= 32
    assert everything.leaks([everything.hash_key]) == []
