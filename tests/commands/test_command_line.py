"""Every command in good and in bad use: one sentence that says what to do, the right exit code, and never `drained` by mistake.

Most run in this process (`tests.flows.in_process`); a few are real processes, where starting, stopping or signals matter.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina
from langgraph_sdk import get_client

from tests.agent.fixtures import FreshServer
from tests.agent.situations import revision
from tests.commands.stand_ins import CANARY, WRONG, Answer, StandIn, answering, stand_in
from tests.flows.in_process import Ran, command
from tests.flows.product import DEPLOYMENT, Product, free_port, node_drain, one_deployment, to_toml, wait_until

DRAINBOARD = Path(sys.executable).with_name("drainboard")
NO_THREAD = "00000000-0000-4000-8000-000000000000"
SECRET = "secret-8e2d-must-not-leak"
LONGEST_END = 5.0


@pytest.fixture(autouse=True)
def _quick_retries() -> Iterator[None]:
    stamina.set_testing(True, attempts=2, cap=True)
    yield
    stamina.set_testing(False)


@dataclass(frozen=True)
class Installed:
    """An installation whose commands run in this process."""

    product: Product

    def __call__(self, *arguments: str, **environment: str) -> Ran:
        return self.product.ask(*arguments, **environment)


def installed(folder: Path, settings: Any) -> Installed:
    product = Product(folder)
    product.configure(settings)
    return Installed(product)


def says_why(ran: Ran, *words: str) -> None:
    """Exit 3 with one line on stderr, nothing on stdout, no traceback, nobody asked to report a mistake of their own."""
    assert ran.code == 3, ran.said
    assert ran.out == ""
    said = [line for line in ran.err.splitlines() if not line.startswith("20")]  # without the log
    assert len(said) == 1, said
    assert said[0].startswith("drainboard: ")
    for never in ("Traceback", "went wrong", CANARY, SECRET):
        assert never not in ran.err
    for word in words:
        assert word in ran.err


def says_why_in_json(ran: Ran, *, internal: bool = False) -> dict[str, Any]:
    """Exit 3 with the API's error body on stdout; `internal`: a crash of ours is what is asked for."""
    assert ran.code == 3, ran.said
    assert CANARY not in ran.said
    assert SECRET not in ran.said
    body = ran.json
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["message"]
    assert internal or body["error"]["code"] != "internal"
    return dict(body["error"])


# --- A real Agent Server -------------------------------------------------------------------------------------------------------------

EMPTY, BLOCKED, GREEN, NOBODY = "drop-hold-of-nobody", "drop-await-approval", "drop-hold", "drop-desk"
DRAINS = [
    node_drain(BLOCKED, "support", "await_approval"),
    node_drain(GREEN, "support", "hold"),
    node_drain(NOBODY, "nested", "desk"),
    {
        "name": "impatient",
        "deployment": DEPLOYMENT,
        "graph": "support",
        "remove_nodes": ["hold"],
        "policy": {"soak_sweeps": 1, "soak_hold": "0s", "max_age": "1s"},
    },
]


@dataclass
class Real:
    """An installation on a real Agent Server with one finished and one parked thread; and what it said before they were."""

    run: Installed
    url: str
    finished: str
    parked: str
    when_empty: dict[str, Ran]


@pytest.fixture(scope="module")
def real(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> Real:
    server = module_agent_server(revision("before"))
    run = installed(tmp_path_factory.mktemp("real"), one_deployment(server.url, *DRAINS))
    when_empty = {"poll": run("poll", "--full", "--json")}
    when_empty |= {drain: run("gate", drain, "--json") for drain in (BLOCKED, GREEN, NOBODY)}
    when_empty["list"] = run("drains", "list")
    finished, parked = asyncio.run(_two_threads(server.url))
    ran = run("poll", "--full")
    assert ran.code == 0, ran.said
    return Real(run, server.url, finished, parked, when_empty)


async def _two_threads(url: str) -> tuple[str, str]:
    async with get_client(url=url) as client:
        made = []
        for case in ("finish", "ask"):
            thread = await client.threads.create()
            await client.runs.wait(thread["thread_id"], "support", input={"case": case, "note": CANARY})
            made.append(str(thread["thread_id"]))
    return made[0], made[1]


def test_an_empty_agent_server_is_unknown_and_never_drained(real: Real) -> None:
    assert (real.when_empty["poll"].code, real.when_empty["list"].code) == (0, 0)
    for drain in (BLOCKED, GREEN, NOBODY):
        ran = real.when_empty[drain]
        assert (ran.code, ran.json["verdict"]) == (2, "unknown")
        assert "empty_population" in {reason["code"] for reason in ran.json["reasons"]}
    assert "✓" not in real.when_empty["list"].out


@pytest.mark.parametrize(
    ("drain", "code", "verdict"), [(GREEN, 0, "drained"), (BLOCKED, 1, "blocked"), (NOBODY, 2, "unknown")]
)
def test_the_exit_code_of_gate_is_its_verdict(real: Real, drain: str, code: int, verdict: str) -> None:
    real.run("poll")
    ran, told = real.run("gate", drain, "--json"), real.run("gate", drain)
    assert (ran.code, ran.json["verdict"], ran.json["exit_code"]) == (code, verdict, code)
    assert told.code == code
    assert verdict in told.out


@pytest.mark.parametrize("full", [True, False])
def test_poll_exits_0_after_a_complete_round(real: Real, full: bool) -> None:
    ran = real.run("poll", DEPLOYMENT, *(["--full"] if full else []), "--json")
    [summary] = ran.json["polls"]
    assert (ran.code, summary["state"], summary["kind"]) == (0, "complete", "sweep" if full else "scan")
    assert real.run("poll").code == 0


@pytest.mark.parametrize("live", [(), ("--live",)])
def test_evidence_exits_0_found_2_not_found_3_not_asked(real: Real, live: tuple[str, ...]) -> None:
    said = [real.run("evidence", DEPLOYMENT, thread, *live) for thread in (real.parked, NO_THREAD, "malformed")]
    assert [ran.code for ran in said] == [0, 2, 3]
    assert "await_approval" in said[0].out
    assert NO_THREAD in said[1].out
    says_why(said[2], "UUID")
    assert real.run("evidence", DEPLOYMENT, NO_THREAD, "--json", *live).json["found"] is False
    assert real.run("threads", "show", DEPLOYMENT, NO_THREAD).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("poll",),
        ("gate", BLOCKED),
        ("drains", "list"),
        ("drains", "show", BLOCKED),
        ("threads", "list", DEPLOYMENT, "--status", "interrupted", "--status", "idle", "--pending", "await_approval"),
        ("threads", "show", DEPLOYMENT, "PARKED"),
        ("evidence", DEPLOYMENT, "PARKED", "--live"),
        ("db", "check"),
    ],
    ids=" ".join,
)
def test_good_use_prints_text_or_one_json_document(real: Real, arguments: tuple[str, ...]) -> None:
    asked = [real.parked if argument == "PARKED" else argument for argument in arguments]
    text, data = real.run(*asked), real.run(*asked, "--json")
    expected = 1 if arguments[0] == "gate" else 0
    assert (text.code, data.code) == (expected, expected), text.said
    assert isinstance(data.json, dict)
    assert text.out.strip()
    assert CANARY not in text.said + data.said
    with pytest.raises(ValueError, match=r"Expecting|Extra"):
        json.loads(text.out)


def test_evidence_as_json_is_the_same_by_format_and_by_option(real: Real) -> None:
    assert real.run("evidence", DEPLOYMENT, real.parked, "--format", "json").json["thread_id"] == real.parked
    for arguments in (("--format", "markdown"), ()):
        assert real.run("evidence", DEPLOYMENT, real.parked, *arguments).out.startswith("## Thread")


def test_threads_list_filters_pages_and_says_where_it_goes_on(real: Real) -> None:
    listed = real.run("threads", "list", DEPLOYMENT, "--limit", "1", "--json").json
    assert (len(listed["items"]), listed["total"]) == (1, 2)
    rest = real.run("threads", "list", DEPLOYMENT, "--cursor", listed["next_cursor"], "--json").json
    assert {item["thread_id"] for item in (*listed["items"], *rest["items"])} == {real.finished, real.parked}
    parked = real.run("threads", "list", DEPLOYMENT, "--condition", "parked", "--json").json
    assert [item["thread_id"] for item in parked["items"]] == [real.parked]


def test_a_row_of_a_table_stays_a_line_in_a_pipe_and_no_row_is_said(real: Real) -> None:
    listed = real.run("threads", "list", DEPLOYMENT).out.splitlines()
    assert [line.split()[:2] for line in listed if real.parked in line] == [[real.parked, "interrupted"]]
    assert (len(listed), listed[-1]) == (4, "2 of 2 threads")
    assert real.run("threads", "list", DEPLOYMENT, "--pending", "nobody").out == "No thread matches these filters.\n"


def test_max_age_cannot_loosen_the_policy(real: Real) -> None:
    real.run("poll")
    time.sleep(1.1)
    for arguments in ((), ("--max-age", "1d"), ("--max-age", "36500d")):
        ran = real.run("gate", "impatient", "--json", *arguments)
        assert (ran.code, [reason["code"] for reason in ran.json["reasons"]]) == (2, ["scan_stale"])


def test_max_age_tightens_the_policy(real: Real) -> None:
    real.run("poll", "--full")
    assert real.run("gate", GREEN).code == 0
    time.sleep(0.1)
    assert real.run("gate", GREEN, "--max-age", "0s").code == 2


def test_gate_that_waits_returns_at_the_end_of_the_wait_with_the_current_code(real: Real) -> None:
    began = time.monotonic()
    assert real.run("gate", BLOCKED, "--wait", "1500ms").code == 3
    assert real.run("gate", BLOCKED, "--wait", "1.5s").code == 1
    assert 1.5 <= time.monotonic() - began < 6


def test_gate_that_waits_returns_at_once_when_drained(real: Real) -> None:
    real.run("poll", "--full")
    began = time.monotonic()
    assert real.run("gate", GREEN, "--wait", "60s").code == 0
    assert time.monotonic() - began < 5


def test_a_server_is_asked_by_option_or_environment_and_a_waiting_gate_ends_when_it_is_drained(
    real: Real, tmp_path: Path
) -> None:
    """The one story that goes through real processes: the server, a gate that waits, and the answer of a person meanwhile."""
    [thread, *_] = asyncio.run(_two_threads(real.url))[1:]
    asyncio.run(_label(real.url, thread))
    elsewhere = Product(tmp_path)
    drain = node_drain("one-thread", "support", "await_approval", situation="waited for")
    elsewhere.configure(one_deployment(real.url, drain))
    with elsewhere.serve() as client:
        server = str(client.base_url)
        assert real.run("gate", "one-thread", "--server", server).code == 1
        assert real.run("gate", "one-thread", DRAINBOARD_SERVER=server).code == 1
        assert real.run("gate", BLOCKED, DRAINBOARD_SERVER=server).code == 3
        began = time.monotonic()
        waiting = _start("gate", "one-thread", "--wait", "60s", "--server", server, folder=tmp_path)
        asyncio.run(_answer(real.url, thread))
        assert real.run("poll", "--full", "--server", server).code == 0
        assert waiting.wait(30) == 0
        assert time.monotonic() - began < 30


async def _label(url: str, thread: str) -> None:
    async with get_client(url=url) as client:
        await client.threads.update(thread, metadata={"situation": "waited for"})


async def _answer(url: str, thread: str) -> None:
    async with get_client(url=url) as client:
        await client.runs.wait(thread, "support", command={"resume": "yes"})


def _start(*arguments: str, folder: Path, mark: str = "", **environment: str) -> subprocess.Popen[bytes]:
    """The installed command as a process of its own; what it says is in `said.log` of the folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DRAINBOARD_")}
    with (folder / "said.log").open("ab") as said:
        return subprocess.Popen(
            [DRAINBOARD, *arguments],
            cwd=folder,
            env={**inherited, "NO_COLOR": "1", "COLUMNS": "400", "TESTED_BY": mark, **environment},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )


# --- Wrong use -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unpolled(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A deployment where nobody answers, with a drain."""
    url = f"http://127.0.0.1:{free_port()}"
    return installed(
        tmp_path_factory.mktemp("unpolled"),
        one_deployment(url, node_drain("drop-it", "support", "hold")),
    )


UNKNOWN = [
    ("gate", "nowhere"),
    ("gate", ".."),
    ("gate", "a/b"),
    ("gate", ""),
    ("gate", "?"),
    ("drains", "show", "nowhere"),
    ("drains", "show", "."),
    ("poll", "nowhere"),
    ("threads", "list", "nowhere"),
    ("threads", "show", "nowhere", NO_THREAD),
    ("threads", "show", DEPLOYMENT, "malformed"),
    ("threads", "show", DEPLOYMENT, "../../drains"),
    ("threads", "show", DEPLOYMENT, ""),
    ("evidence", "nowhere", NO_THREAD),
    ("evidence", DEPLOYMENT, "malformed"),
    ("evidence", DEPLOYMENT, f"{NO_THREAD}0"),
    ("evidence", DEPLOYMENT, f"{NO_THREAD}\n"),
    ("evidence", DEPLOYMENT, "\x1b[31m"),
    ("threads", "list", DEPLOYMENT, "--sort", "nonsense"),
    ("threads", "list", DEPLOYMENT, "--fields", "customer_name"),
    ("threads", "list", DEPLOYMENT, "--cursor", "nonsense"),
]


@pytest.mark.parametrize("arguments", UNKNOWN, ids=repr)
def test_what_is_unknown_or_malformed_exits_3_with_a_sentence(unpolled: Installed, arguments: tuple[str, ...]) -> None:
    says_why_in_json(unpolled(*arguments, "--json"))


@pytest.mark.parametrize("arguments", UNKNOWN[::6], ids=repr)
def test_without_json_it_is_one_line(unpolled: Installed, arguments: tuple[str, ...]) -> None:
    says_why(unpolled(*arguments))


WRONG_USE = [
    ("nonsense",),
    ("gate",),
    ("gate", "drop-it", "more"),
    ("gate", "drop-it", "--nonsense"),
    ("gate", "drop-it", "--wait", "soon"),
    ("gate", "drop-it", "--wait", "5"),
    ("gate", "drop-it", "--wait", "-5s"),
    ("gate", "drop-it", "--wait", "99999999999999999999d"),
    ("gate", "drop-it", "--max-age", "fresh"),
    ("gate", "drop-it", "--max-age"),
    ("poll", "a", "b"),
    ("drains", "nonsense"),
    ("drains", "show"),
    ("threads", "list"),
    ("threads", "list", DEPLOYMENT, "--limit", "0"),
    ("threads", "list", DEPLOYMENT, "--limit", "many"),
    ("threads", "list", DEPLOYMENT, "--colour", "red"),
    ("threads", "show", DEPLOYMENT),
    ("evidence", DEPLOYMENT),
    ("evidence", DEPLOYMENT, NO_THREAD, "--format", "html"),
    ("db", "nonsense"),
    ("db", "check", "more"),
]
WRONG_SERVE = [
    ("serve", "more"),
    ("serve", "--port", "many"),
    ("serve", "--port", "70000"),
    ("serve", "--port", "-1"),
    ("serve", "--host"),
    ("serve", "--host", "no.such.host.invalid"),
    ("serve", "--host", "0.0.0.0"),
    ("serve", "--host", "::"),
    ("serve", "--url", "http://127.0.0.1:1", "--demo"),
    ("serve", "--url", "http://127.0.0.1:1"),
    ("serve", "--demo"),
    ("worker",),  # on SQLite
    ("worker", "--concurrency", "0"),
]


@pytest.mark.parametrize("arguments", [*WRONG_USE, *WRONG_SERVE], ids=repr)
def test_wrong_use_exits_3_with_a_sentence(unpolled: Installed, arguments: tuple[str, ...]) -> None:
    says_why(unpolled(*arguments))


@pytest.mark.parametrize("arguments", WRONG_USE, ids=repr)
def test_wrong_use_with_json_has_the_body_of_an_error(unpolled: Installed, arguments: tuple[str, ...]) -> None:
    at = 1 if arguments[0] in ("gate", "poll", "evidence") else 2
    says_why_in_json(unpolled(*arguments[:at], "--json", *arguments[at:]))


@pytest.mark.parametrize("arguments", [(), ("drains",), ("threads",), ("db",)], ids=repr)
def test_a_command_that_is_not_given_is_never_a_verdict(unpolled: Installed, arguments: tuple[str, ...]) -> None:
    assert unpolled(*arguments).code in (0, 3)


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("gate", "--help"), ("drains", "--help")], ids=repr)
def test_help_and_version_exit_0(unpolled: Installed, arguments: tuple[str, ...]) -> None:
    ran = unpolled(*arguments)
    assert ran.code == 0
    assert ran.out.strip()


def test_the_installed_command_gives_the_same_exit_codes(unpolled: Installed) -> None:
    """Two real processes: whoever calls sees what `SystemExit` says here."""
    folder, config = unpolled.product.folder, str(unpolled.product.config)
    unpolled("db", "upgrade")
    running = [
        _start(*arguments, folder=folder, DRAINBOARD_CONFIG=config)
        for arguments in (("gate", "drop-it"), ("gate", "--nonsense"))
    ]
    assert [process.wait(30) for process in running] == [2, 3]


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_answer_that_nobody_reads_is_not_blocked(unpolled: Installed, more: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [DRAINBOARD, "gate", "drop-it", *more],
        env={**os.environ, "DRAINBOARD_CONFIG": str(unpolled.product.config)},
        cwd=unpolled.product.folder,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (ran.returncode, b"Traceback" in ran.stderr, b"Exception ignored" in ran.stderr) == (3, False, False)


def test_before_the_first_poll_the_gate_is_unknown(unpolled: Installed) -> None:
    ran = unpolled("gate", "drop-it", "--json")
    assert (ran.code, [reason["code"] for reason in ran.json["reasons"]][:1]) == (2, ["never_swept"])


def test_poll_without_a_deployment_says_where_to_add_one(tmp_path: Path) -> None:
    run = installed(tmp_path, "")
    says_why(run("poll"), "[[deployments]]")
    assert run("drains", "list").code == 0


def test_a_crash_exits_3_with_and_without_json(unpolled: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr("app.drains.service.gather_evidence", crash)
    for arguments in (("gate", "drop-it"), ("drains", "show", "drop-it")):
        ran = unpolled(*arguments)
        assert (ran.code, SECRET in ran.said, "Traceback" in ran.said) == (3, False, False)
        says_why_in_json(unpolled(*arguments, "--json"), internal=True)
    monkeypatch.setattr("app.cli.main.connect", crash)
    ran = unpolled("gate", "drop-it")
    assert (ran.code, SECRET in ran.said, "Traceback" in ran.said) == (3, False, False)
    says_why_in_json(unpolled("gate", "drop-it", "--json"), internal=True)


# --- Settings ------------------------------------------------------------------------------------------------------------------------

ASKING = (("gate", "drop-it"), ("poll",), ("drains", "list"), ("threads", "list", DEPLOYMENT), ("db", "check"))
ONE = '[[deployments]]\nname = "real"\nurl = "http://127.0.0.1:1"\n'
WRONG_SETTINGS = {
    "unknown key": (f'api_key = "{SECRET}"\n{ONE}', "api_key"),
    "unknown key in a table": (f'{ONE}password = "{SECRET}"\n', "password"),
    "unknown table": (f'[secrets]\nkey = "{SECRET}"\n', "secrets"),
    "wrong kind": (f'{ONE}page_size = "{SECRET}"\n', "page_size"),
    "wrong duration": (f'{ONE}poll_interval = "{SECRET}"\n', "poll_interval"),
    "wrong word": (f'log_level = "{SECRET}"\n', "log_level"),
    "wrong address": (f'[[deployments]]\nname = "real"\nurl = "ftp://reader:{SECRET}@host"\n', "url"),
    "no address": ('[[deployments]]\nname = "real"\n', "url"),
    "wrong name": (f'[[deployments]]\nname = "a b"\nurl = "http://x:{SECRET}@h"\n', "name"),
    "twice": (f"{ONE}{ONE}", "real"),
    "a drain without a deployment": (
        '[[drains]]\nname = "a"\ndeployment = "b"\ngraph = "c"\nremove_nodes = ["d"]\n',
        "deployment",
    ),
    "a drain without a target": (f'{ONE}[[drains]]\nname = "a"\ndeployment = "real"\ngraph = "c"\n', "remove"),
    "not TOML": (f'key_file = "{SECRET}\n', "line 1"),
    "half a table": (f'[[deployments\nname = "{SECRET}"\n', "TOML"),
    "no database's address": (f'database_url = "{SECRET}"\n', "database_url"),
    "no driver of ours": (f'database_url = "mysql://reader:{SECRET}@127.0.0.1/x"\n', "database_url"),
    "a driver that cannot wait": ('database_url = "sqlite:///drainboard.db"\n', "database_url"),
    "the plain postgresql": (f'database_url = "postgresql://reader:{SECRET}@127.0.0.1:1/x"\n', "database_url"),
    "a database that is down": (
        f'database_url = "postgresql+psycopg://reader:{SECRET}@127.0.0.1:1/x"\n',
        "database_url",
    ),
    "a key file that is a folder": ('key_file = "."\n', "key_file"),
    "a key file that cannot be made": ('key_file = "/proc/drainboard.key"\n', "key_file"),
    "a key file that is too short": ('key_file = "drainboard.toml"\n', "key file"),
}


@pytest.mark.parametrize("what", WRONG_SETTINGS)
def test_wrong_settings_exit_3_with_a_sentence_that_names_the_key(tmp_path: Path, what: str) -> None:
    text, word = WRONG_SETTINGS[what]
    run = installed(tmp_path, text)
    says_why(run("drains", "list"), word)
    assert says_why_in_json(run("drains", "list", "--json"))["code"] in ("settings", "database")
    says_why(run("serve", "--port", "0"), word)


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_every_command_says_what_is_wrong_with_the_settings(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    run = installed(tmp_path, "nonsense = 1\n")
    says_why(run(*arguments), "nonsense")
    says_why_in_json(run(*arguments, "--json"))


def test_bytes_that_are_no_text_are_not_a_crash(tmp_path: Path) -> None:
    run = installed(tmp_path, ONE)
    (tmp_path / "bad").write_bytes(b"\xff\xfe" * 40)
    says_why(run("drains", "list", DRAINBOARD_KEY_FILE="bad"), "bad")
    run.product.configure(f'{ONE}api_key_file = "{tmp_path}/bad"\n')
    says_why(run("poll"), "bad")
    (tmp_path / "drainboard.toml").write_bytes(b"\xff\xfe")
    says_why(run("drains", "list"), "drainboard.toml")


def test_a_settings_file_that_is_missing_is_not_an_empty_one(tmp_path: Path) -> None:
    for place in (tmp_path / "missing.toml", tmp_path):
        ran = command("gate", "drop-it", folder=tmp_path, DRAINBOARD_CONFIG=str(place))
        says_why(ran, "DRAINBOARD_CONFIG", str(place))


def test_wrong_values_of_the_environment_are_named(tmp_path: Path) -> None:
    run = installed(tmp_path, ONE)
    says_why(run("drains", "list", DRAINBOARD_LOG_LEVEL=SECRET), "log_level")
    says_why(run("drains", "list", DRAINBOARD_DATABASE_URL=SECRET), "database_url")


@pytest.mark.parametrize("settings", ['api_key_env = "NOT_SET"', 'api_key_file = "/nowhere/key"'])
def test_a_key_that_is_not_there_is_said_and_does_not_stop_the_gate(tmp_path: Path, settings: str) -> None:
    drain = to_toml({"drains": [node_drain("drop-it", "support", "hold")]})
    run = installed(tmp_path, f"{ONE}{settings}\n{drain}")
    name = settings.split('"')[1]
    says_why(run("poll"), name)
    assert says_why_in_json(run("poll", "--json"))["code"] == "settings"
    says_why(run("evidence", DEPLOYMENT, NO_THREAD, "--live"), name)
    assert run("gate", "drop-it").code == 2


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines", f"{SECRET} \U0001f511"])
def test_a_key_that_no_header_can_hold_is_said(tmp_path: Path, key: str) -> None:
    run = installed(tmp_path, f'{ONE}api_key_env = "THE_KEY"\n')
    ran = run("poll", "--json", THE_KEY=key)
    assert ran.code == 3
    assert "went wrong" not in ran.said
    assert SECRET not in ran.said
    assert "THE_KEY" in ran.said


# --- The database --------------------------------------------------------------------------------------------------------------------


def _below_a_file(folder: Path) -> Path:
    (folder / "file").write_text("", encoding="utf-8")
    return folder / "file" / "drainboard.db"


def _a_folder(folder: Path) -> Path:
    (folder / "drainboard.db").mkdir()
    return folder / "drainboard.db"


def _no_database(folder: Path) -> Path:
    (folder / "drainboard.db").write_bytes(CANARY.encode() * 400)
    return folder / "drainboard.db"


def _half_a_database(folder: Path) -> Path:
    (folder / "drainboard.db").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    return folder / "drainboard.db"


def _of_somebody_else(folder: Path) -> Path:
    import sqlite3

    with sqlite3.connect(folder / "drainboard.db") as connection:
        connection.execute("create table alembic_version (version_num varchar(32) not null)")
        connection.execute("insert into alembic_version values ('ffff')")
    connection.close()
    return folder / "drainboard.db"


DATABASES: dict[str, Callable[[Path], Path]] = {
    "below a file": _below_a_file,
    "in a folder that is not there": lambda folder: folder / "no" / "such" / "drainboard.db",
    "where nobody may write": lambda _: Path("/proc/drainboard.db"),
    "a folder": _a_folder,
    "no database": _no_database,
    "half a database": _half_a_database,
    "of somebody else": _of_somebody_else,
}


@pytest.mark.parametrize("what", DATABASES)
def test_a_database_that_cannot_be_used_exits_3_with_a_sentence(tmp_path: Path, what: str) -> None:
    url = f"sqlite+aiosqlite:///{DATABASES[what](tmp_path)}"
    run = installed(tmp_path, f'database_url = "{url}"\n')
    for arguments in (("db", "upgrade"), ("serve", "--port", "0")):
        says_why(run(*arguments), "database")
    assert says_why_in_json(run("gate", "drop-it", "--json"))["code"] == "database"
    assert run("db", "check").code in (2, 3)


def test_db_check_exits_2_until_the_schema_is_there(tmp_path: Path) -> None:
    run = installed(tmp_path, "")
    before = run("db", "check", "--json")
    assert (before.code, before.json["ok"], before.json["revision"]) == (2, False, None)
    assert "There is no schema yet" in run("db", "check").out
    assert [run("db", "upgrade").code, run("db", "upgrade").code, run("db", "check").code] == [0, 0, 0]
    assert run("db", "check", "--json").json["ok"] is True


# --- An Agent Server that answers wrongly --------------------------------------------------------------------------------------------


def _could_not_be_asked(run: Installed) -> None:
    """Poll there: exit 3 and why. Then the gate is unknown; and neither the answer nor the key is told or stored."""
    ran = run("poll", "--full", "--json", THE_KEY=SECRET)
    [summary] = ran.json["polls"]
    assert (ran.code, summary["state"]) == (3, "failed"), ran.said
    assert DEPLOYMENT in summary["reasons"][0]["sentence"]
    gate = run("gate", "drop-it", "--json")
    assert (gate.code, gate.json["verdict"]) == (2, "unknown")
    live = run("evidence", DEPLOYMENT, NO_THREAD, "--live", THE_KEY=SECRET)
    assert live.code in (2, 3)
    assert "went wrong" not in live.said
    _tells_nothing(run, ran.said + gate.said + live.said)


def _tells_nothing(run: Installed, said: str) -> None:
    files = [path for path in run.product.folder.iterdir() if path.is_file() and path != run.product.config]
    stored = b"".join(path.read_bytes() for path in files)
    assert b"drop-it" in stored
    for never in (CANARY, SECRET):
        assert never not in said
        assert never.encode() not in stored


def _keyed(folder: Path, url: str) -> Installed:
    return installed(
        folder, one_deployment(url, node_drain("drop-it", "support", "hold"), api_key_env="THE_KEY", page_size=5)
    )


@pytest.fixture(scope="module")
def wronged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Installed, StandIn]]:
    """An installation whose Agent Server answers whatever the test sets."""
    with stand_in(WRONG["html"]) as server:
        yield _keyed(tmp_path_factory.mktemp("wronged"), server.url), server


@pytest.mark.parametrize("what", [name for name in WRONG if name not in ("null", "list")])
def test_an_agent_server_that_answers_wrongly_could_not_be_asked(wronged: tuple[Installed, StandIn], what: str) -> None:
    run, server = wronged
    server.answer, server.asked = WRONG[what], []
    _could_not_be_asked(run)
    assert any(SECRET in request for request in server.asked)


def test_after_failures_everything_else_still_answers_without_quoting_them(
    wronged: tuple[Installed, StandIn],
) -> None:
    run, server = wronged
    server.answer = WRONG["failed"]
    said = [run("poll", THE_KEY=SECRET), run("drains", "list"), run("drains", "show", "drop-it")]
    assert [ran.code for ran in said] == [3, 0, 0]
    _tells_nothing(run, " ".join(ran.said for ran in said))


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid"])
def test_an_agent_server_that_is_not_there_could_not_be_asked(tmp_path: Path, host: str) -> None:
    _could_not_be_asked(_keyed(tmp_path, f"http://{host}:{free_port()}"))


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_not_followed_and_takes_no_key_along(tmp_path: Path, status: int) -> None:
    with stand_in(Answer(200, b"[]")) as elsewhere:
        there = f"{elsewhere.url.replace('127.0.0.1', 'localhost')}/{CANARY}"
        with stand_in(Answer(status, CANARY.encode(), "text/plain", {"Location": there})) as server:
            _could_not_be_asked(_keyed(tmp_path, server.url))
            assert any(SECRET in request for request in server.asked)
        assert elsewhere.asked == []


def test_the_worst_of_several_deployments_is_the_exit_code_and_all_are_polled(real: Real, tmp_path: Path) -> None:
    settings = one_deployment(real.url)
    down = {"name": "down", "url": f"http://127.0.0.1:{free_port()}"}
    keyless = {"name": "keyless", "url": real.url, "api_key_env": "NOT_SET"}
    for others in ([down], [keyless]):
        run = installed(
            tmp_path / str(others[0]["name"]), settings | {"deployments": [*others, *settings["deployments"]]}
        )
        assert run("poll", "--full").code == 3
        listed = run("threads", "list", DEPLOYMENT, "--json")
        assert (others[0]["name"], listed.json["total"] > 0) == (others[0]["name"], True)


# --- A Drainboard that is none -------------------------------------------------------------------------------------------------------

QUESTIONS = (
    ("gate", "drop-it"),
    ("poll",),
    ("drains", "list"),
    ("drains", "show", "drop-it"),
    ("threads", "list", DEPLOYMENT),
    ("evidence", DEPLOYMENT, NO_THREAD),
)


def _ask(folder: Path, server: str, *arguments: str) -> tuple[Ran, Ran]:
    token = {"DRAINBOARD_TOKEN": SECRET}
    text = command(*arguments, "--server", server, folder=folder, **token)
    return text, command(*arguments, "--server", server, "--json", folder=folder, **token)


@pytest.mark.parametrize("what", WRONG)
def test_a_server_that_is_not_drainboard_exits_3_and_is_not_quoted(tmp_path: Path, what: str) -> None:
    with answering(what) as server:
        for arguments in QUESTIONS[:2]:
            text, data = _ask(tmp_path, server.url, *arguments)
            says_why(text, server.url)
            says_why_in_json(data)
        for arguments in (QUESTIONS[2], QUESTIONS[-1]):
            says_why_in_json(command(*arguments, "--server", server.url, "--json", folder=tmp_path))
        assert server.asked


@pytest.mark.parametrize(
    "server",
    [
        "http://127.0.0.1:{port}",
        "http://no.such.host.invalid",
        "127.0.0.1:{port}",
        "localhost",
        "ftp://127.0.0.1:{port}",
        "http://127.0.0.1:99999999",
        "http://[::1",
        "http://\x00",
        f"http://reader:{SECRET}@127.0.0.1:{{port}}",
        f"http://reader:{SECRET}@127.0.0.1:99999999",
    ],
    ids=repr,
)
def test_a_server_that_is_not_there_exits_3(tmp_path: Path, server: str) -> None:
    text, data = _ask(tmp_path, server.format(port=free_port()), "gate", "drop-it")
    says_why(text, "--server")
    says_why_in_json(data)


def test_a_redirect_of_the_server_is_not_followed_and_takes_no_token_along(tmp_path: Path) -> None:
    verdict = {"verdict": "drained", "exit_code": 0, "retry_after_seconds": None}
    with stand_in(Answer(200, json.dumps(verdict).encode())) as elsewhere:
        there = elsewhere.url.replace("127.0.0.1", "localhost")
        with stand_in(Answer(307, b"", headers={"Location": f"{there}/{CANARY}"})) as server:
            for arguments in QUESTIONS:
                text, data = _ask(tmp_path, server.url, *arguments)
                says_why(text)
                says_why_in_json(data)
        assert elsewhere.asked == []


NO_VERDICT: list[dict[str, Any]] = [
    {"verdict": "nonsense", "exit_code": 0},
    {"verdict": None, "exit_code": 0},
    {"verdict": "blocked", "exit_code": 0},
    {"verdict": "unknown", "exit_code": 256},
    {"verdict": "unknown", "exit_code": 0},
    {"exit_code": 0},
    {"verdict": "drained"},
]


@pytest.mark.parametrize("body", NO_VERDICT, ids=repr)
def test_only_an_answer_that_says_drained_exits_0(tmp_path: Path, body: dict[str, Any]) -> None:
    """A gate trusts its exit code: an answer that contradicts itself, or is of another program, is no `drained`."""
    with stand_in(Answer(200, json.dumps({"retry_after_seconds": None, **body}).encode())) as server:
        for ran in _ask(tmp_path, server.url, "gate", "drop-it"):
            assert ran.code % 256 in (1, 2, 3)


def test_rows_that_are_no_threads_are_incomplete_and_no_verdict(tmp_path: Path) -> None:
    with stand_in(lambda asked: WRONG["list"] if "/threads" in asked else Answer(200, b"[]")) as server:
        run = installed(tmp_path, one_deployment(server.url, node_drain("drop-it", "support", "hold")))
        assert [run("poll", "--full").code, run("gate", "drop-it").code] == [2, 2]


def test_a_poll_of_a_server_that_forgets_it_ends(tmp_path: Path) -> None:
    ours = {"x-drainboard": "0"}

    def answer(request: str) -> Answer:
        if request.startswith("POST"):
            return Answer(202, b'{"poll": 7}', headers=ours)
        if "/polls/" in request:
            return Answer(404, b'{"error": {"code": "not_found", "message": "There is no poll 7."}}', headers=ours)
        return Answer(200, b'{"items": [{"name": "real"}]}', headers=ours)

    with stand_in(answer) as server:
        text, data = _ask(tmp_path, server.url, "poll")
        says_why(text, "no poll 7")
        assert says_why_in_json(data)["code"] == "not_found"


# --- serve ---------------------------------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_said(unpolled: Installed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        says_why(unpolled("serve", "--port", port), port, "--port")


def test_serve_beyond_this_machine_needs_a_word(unpolled: Installed) -> None:
    says_why(unpolled("serve", "--host", "0.0.0.0", "--port", "0"), "--allow-open")


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1", f"http://a:{SECRET}@", "http://127.0.0.1:x"])
def test_serve_with_a_wrong_url_says_so(tmp_path: Path, url: str) -> None:
    says_why(command("serve", "--port", "0", "--url", url, folder=tmp_path), "http://127.0.0.1:8123")


@dataclass
class Served:
    """A server that was started, and how to end it."""

    name: str
    process: subprocess.Popen[bytes]
    signal: signal.Signals
    mark: str
    said: Path
    url: str
    took: float = 0.0

    def children(self) -> list[int]:
        """Every process that has this one's mark in its environment."""
        found = []
        for place in Path("/proc").iterdir():
            try:
                if place.name.isdigit() and f"TESTED_BY={self.mark}".encode() in (place / "environ").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    """Four servers at once: plain, open to all, one whose Agent Server never answers, and the demo with its child."""
    found: dict[str, Served] = {}
    with ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=50))
        hanging = f"http://127.0.0.1:{silent.getsockname()[1]}"
        down = f"http://127.0.0.1:{free_port()}"
        for name, arguments, ends in (
            ("plain", ("--url", down), signal.SIGTERM),
            ("open", ("--host", "0.0.0.0", "--allow-open", "--url", down), signal.SIGINT),
            ("hanging", ("--url", hanging), signal.SIGINT),
            ("demo", ("--demo",), signal.SIGINT),
        ):
            folder, port, mark = tmp_path_factory.mktemp(name), free_port(), uuid.uuid4().hex
            process = _start("serve", "--port", str(port), *arguments, folder=folder, mark=mark)
            one = Served(name, process, ends, mark, folder / "said.log", f"http://127.0.0.1:{port}")
            found[name] = one
            stack.callback(_kill_all, one)
        for one in found.values():
            wait_until(lambda one=one: _answers(one), seconds=90)
        yield found


def _answers(one: Served) -> bool:
    assert one.process.poll() is None, one.said.read_text(encoding="utf-8")
    try:
        return httpx.get(f"{one.url}/readyz", trust_env=False, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def _kill_all(one: Served) -> None:
    for process in one.children():
        os.kill(process, signal.SIGKILL)
    one.process.wait()


NOTICE = "sign-in"


def test_serve_says_where_it_is_and_open_to_all_is_said_on_every_page(served: dict[str, Served]) -> None:
    for name in ("plain", "open"):
        one = served[name]
        assert one.url in one.said.read_text(encoding="utf-8")
    for path in ("/", "/drains", "/deployments/local", "/nowhere"):
        page = httpx.get(served["open"].url + path, trust_env=False).text
        assert NOTICE in page.lower(), path


def test_a_server_whose_agent_server_is_down_says_so_and_stays_up(served: dict[str, Served]) -> None:
    wait_until(lambda: _source(served["plain"])["status"] == "failed")
    assert "local" in _source(served["plain"])["sentence"]


def _source(one: Served) -> Any:
    [found] = httpx.get(f"{one.url}/api/v1/deployments", trust_env=False).json()["items"]
    return found["sources"][0]


def test_the_demo_has_its_deployment_and_drains(served: dict[str, Served]) -> None:
    items = httpx.get(f"{served['demo'].url}/api/v1/drains", trust_env=False, timeout=30).json()["items"]
    assert {item["drain"] for item in items} == {"drop-await-approval", "drop-legacy-triage"}
    assert len(served["demo"].children()) >= 2


@pytest.mark.parametrize("name", ["plain", "open", "hanging", "demo"])
def test_ctrl_c_and_sigterm_end_it_soon_with_no_child_left(served: dict[str, Served], name: str) -> None:
    one = served[name]
    began = time.monotonic()
    one.process.send_signal(one.signal)
    one.process.wait(30)
    took = time.monotonic() - began
    wait_until(lambda: not one.children(), seconds=max(0.1, LONGEST_END - took))
    said = one.said.read_text(encoding="utf-8")
    assert "Traceback" not in said, said[-2000:]
    assert took < LONGEST_END
    assert one.process.returncode in (0, 130, -one.signal)
