"""Candidates of every kind, good and bad, read as a pipeline would: by a process of their own, without our secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.candidate.running import SCRIPT, CandidateError, Source, read_candidate, scrubbed
from app.demo.agent_server import write_files
from app.facts.candidates import BadTopology, from_json, read_topology, to_json
from app.facts.types import Kind
from tests.flows.product import Product

STATE = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    note: str

builder = StateGraph(State)
builder.add_node("ask", lambda state: {})
builder.add_edge(START, "ask")
builder.add_edge("ask", END)
"""
GRAPH = STATE + "graph = builder.compile()\n"
BAD: dict[str, tuple[str, str]] = {
    "does_not_import": ("import nothing_like_this\n", "there is no module 'nothing_like_this'"),
    "syntax": ("def (:\n", "SyntaxError"),
    "raises": ("raise ValueError('secret of the value')\n", "ValueError in"),
    "exits": ("import sys\nsys.exit(0)\n", "ended the process"),
    "ends_hard": ("import os\nos._exit(0)\n", "without a topology"),
    "closes_its_outputs": ("import os\nos.closerange(0, 256)\n", "without a topology"),
    "is_no_graph": ("graph = 7\n", "is no graph"),
    "has_no_such_name": ("other = 7\n", "has no `graph`"),
    "needs_arguments": (
        STATE + "def graph(config, *, tenant): return builder.compile()\n",
        "needs arguments (config, tenant)",
    ),
    "factory_fails": ("def graph(): raise KeyError('secret of the value')\n", "KeyError in"),
    "factory_makes_nothing": ("def graph(): return 7\n", "is no graph"),
}
GOOD: dict[str, str] = {
    "compiled": GRAPH,
    "builder": STATE + "graph = builder\n",
    "factory": STATE + "def graph(limit=3, **more): return builder.compile()\n",
    "async_factory": STATE + "async def graph(): return builder.compile()\n",
    "factory_of_a_builder": STATE + "def graph(): return builder\n",
    "context": STATE
    + "import contextlib\n@contextlib.asynccontextmanager\nasync def graph():\n    yield builder.compile()\n",
    "inside_an_object": GRAPH + "class Home: pass\nhome = Home()\nhome.graph = graph\ngraph = None\n",
    "prints": "import os, sys\nprint('noise')\nsys.stdout.write('more')\nos.system('echo louder')\nos.write(1, b'raw')\n"
    + GRAPH,
    "leaves_a_thread_running": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    + GRAPH,
    "registers_an_exit": "import atexit\natexit.register(print, 'bye')\n" + GRAPH,
}


def read(folder: Path, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, **more: Any) -> dict[str, Any]:
    write_files(folder, files)
    monkeypatch.chdir(folder)
    return read_candidate(Source(**{"graph": "agent:graph", "timeout": 60.0, **more}))


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_graph_is_read_however_it_is_offered(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = "agent:home.graph" if name == "inside_an_object" else "agent:graph"
    found = read(tmp_path, {"agent.py": GOOD[name]}, monkeypatch, graph=place, graph_id="support")
    assert found["graphs"]["support"]["nodes"] == ["ask"]
    assert found["graphs"]["support"]["fields"]["note"]["schema"] == {"type": "string"}


@pytest.mark.parametrize("name", sorted(BAD))
def test_what_cannot_be_read_gives_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, expected = BAD[name]
    with pytest.raises(CandidateError) as refused:
        read(tmp_path, {"agent.py": code}, monkeypatch)
    assert expected in refused.value.message
    assert refused.value.message.endswith(".")
    assert "\n" not in refused.value.message
    assert "secret of the value" not in refused.value.message


def test_a_candidate_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\npathlib.Path('pid').write_text(str(child.pid))\ntime.sleep(600)\n"
    )
    with pytest.raises(CandidateError, match="took longer than 3 s"):
        read(tmp_path, {"agent.py": code}, monkeypatch, timeout=3.0)
    deadline = time.monotonic() + 10
    while _runs(int((tmp_path / "pid").read_text())):
        assert time.monotonic() < deadline


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_modules_of_the_application_win_over_ours_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package named `app`, and modules named as the script and what is beside it are."""
    files = {
        "app/__init__.py": "",
        "app/facts.py": "NODE = 'theirs'\n",
        "topology.py": "NODE = 'also_theirs'\n",
        "running.py": "NODE = 'theirs_too'\n",
        "app/agent.py": (
            "import running, topology\nfrom app.facts import NODE\n"
            + STATE
            + "builder.add_node(NODE, lambda state: {})\n"
            "builder.add_node(topology.NODE, lambda state: {})\nbuilder.add_node(running.NODE, lambda state: {})\n"
            "graph = builder.compile()\n"
        ),
    }
    found = read(tmp_path, files, monkeypatch, graph="app.agent:graph")
    assert found["graphs"]["graph"]["nodes"] == ["also_theirs", "ask", "theirs", "theirs_too"]


# --- langgraph.json --------------------------------------------------------------------------------------------------


def test_all_graphs_of_a_langgraph_json_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = {
        "dependencies": ["./library", "a-package"],
        "graphs": {
            "file": "./src/agent.py:graph",
            "module": "helper:graph",
            "described": {"path": "./src/agent.py:graph", "description": "the same"},
        },
        "env": ".env",
    }
    files = {
        "langgraph.json": json.dumps(configuration),
        "src/agent.py": "from helper import graph\n",
        "library/helper.py": GRAPH,
    }
    write_files(tmp_path, files)
    monkeypatch.chdir("/")
    found = read_candidate(Source(langgraph_json=tmp_path / "langgraph.json"))
    assert set(found["graphs"]) == {"file", "module", "described"}
    assert found["whole"] is True


@pytest.mark.parametrize(("graphs", "expected"), [
    ({"web": "./src/agent.ts:graph"}, "The graph `web` is JavaScript"),
    ({"web": {"path": "./agent.mjs:graph"}}, "The graph `web` is JavaScript"),
    ({"web": 7}, "does not say where it is"),
    ({"web": "./nowhere.py:graph"}, "There is no file ./nowhere.py"),
    ({}, "has no table `graphs`"),
])  # fmt: skip
def test_a_langgraph_json_that_cannot_be_read_gives_one_sentence(tmp_path: Path, graphs: Any, expected: str) -> None:
    write_files(tmp_path, {"langgraph.json": json.dumps({"dependencies": ["."], "graphs": graphs})})
    with pytest.raises(CandidateError) as refused:
        read_candidate(Source(langgraph_json=tmp_path / "langgraph.json"))
    assert expected in refused.value.message


def test_a_langgraph_json_that_is_not_there_or_no_json(tmp_path: Path) -> None:
    with pytest.raises(CandidateError, match="There is no file"):
        read_candidate(Source(langgraph_json=tmp_path / "langgraph.json"))
    (tmp_path / "langgraph.json").write_text("{")
    with pytest.raises(CandidateError, match="is not JSON"):
        read_candidate(Source(langgraph_json=tmp_path / "langgraph.json"))


# --- Secrets ---------------------------------------------------------------------------------------------------------


def test_what_is_or_looks_like_a_secret_is_kept_back() -> None:
    environment = {
        "DRAINBOARD_CONFIG": "x", "LANGSMITH_PROJECT": "x", "LANGCHAIN_ENDPOINT": "x", "OPENAI_API_KEY": "x",
        "GITHUB_TOKEN": "x", "db_password": "x", "CLIENT_SECRET": "x", "APP_DATABASE_URL": "x", "PATH": "kept",
    }  # fmt: skip
    assert scrubbed(environment, {"APP_DATABASE_URL"}) == {"PATH": "kept"}


def test_a_candidate_sees_none_of_the_secrets_that_the_settings_name(tmp_path: Path) -> None:
    write_files(tmp_path, {"agent.py": f"import os\nfor name in os.environ: pass\n{STATE}\n" + (
        "for name in os.environ:\n    builder.add_node('env_' + name, lambda state: {})\ngraph = builder.compile()\n"
    )})  # fmt: skip
    product = Product(tmp_path)
    product.configure(
        '[[deployments]]\nname = "support"\nurl = "http://127.0.0.1:9"\napi_key_env = "PLAIN_NAME"\n'
        '[deployments.thread_index]\nurl_env = "APP_DATABASE"\nquery = "select 1"\n'
    )
    secrets = {"PLAIN_NAME": "x", "APP_DATABASE": "x", "LANGSMITH_PROJECT": "x", "SOME_TOKEN": "x"}
    ran = product.run("topology", "--graph", "agent:graph", **secrets, HARMLESS="y")
    assert ran.code == 0, ran.said
    names = {node.removeprefix("env_") for node in ran.json["graphs"]["graph"]["nodes"]}
    assert "HARMLESS" in names
    assert not names & {*secrets, "DRAINBOARD_CONFIG"}


# --- Alone -----------------------------------------------------------------------------------------------------------


def test_the_script_runs_alone_wherever_it_is_copied(tmp_path: Path) -> None:
    write_files(tmp_path, {"elsewhere/look.py": SCRIPT.read_text(), "application/agent.py": "print('noise')\n" + GRAPH})
    command = [sys.executable, "-S", str(tmp_path / "elsewhere" / "look.py"), "--graph", "agent:graph"]
    site = next(path for path in sys.path if path.endswith("site-packages"))
    ran = subprocess.run(
        command, cwd=tmp_path / "application", capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": site},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["schema"] == "drainboard.topology/1"
    assert "noise" in ran.stderr


@pytest.mark.parametrize("arguments", [(), ("--graph",), ("--graph", "a:b", "--langgraph-json", "x"), ("--odd",)])
def test_a_wrong_use_of_the_script_ends_with_3(arguments: tuple[str, ...]) -> None:
    ran = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, timeout=60, check=False)
    assert ran.returncode == 3


# --- On the command line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [
    ("topology",),
    ("topology", "--graph", "no_colon"),
    ("topology", "--graph", "a:b", "--langgraph-json", "x.json"),
    ("topology", "--graph", "nowhere.at.all:graph"),
    ("topology", "--graph", "agent:graph", "--python", "/nowhere/python"),
    ("topology", "--graph", "agent:graph", "--timeout", "soon"),
    ("preflight", "support"),
    ("preflight", "support", "--topology", "nowhere.json"),
    ("preflight", "support", "--topology", "bad.json"),
    ("preflight", "support", "--topology", "other.json"),
    ("preflight", "nobody", "--topology", "good.json"),
])  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True])
def test_whatever_cannot_be_asked_exits_with_3(tmp_path: Path, arguments: tuple[str, ...], as_json: bool) -> None:
    good = {"kind": "graph", "nodes": ["a"], "edges": []}
    write_files(tmp_path, {
        "bad.json": "{",
        "other.json": '{"schema": "another/1", "graphs": {}}',
        "good.json": json.dumps({"schema": "drainboard.topology/1", "graphs": {"g": good}}),
    })  # fmt: skip
    product = Product(tmp_path)
    product.configure('[[deployments]]\nname = "support"\nurl = "http://127.0.0.1:9"\n')
    ran = product.ask(*arguments, *(["--json"] if as_json else []))
    assert ran.code == 3, ran.said
    if as_json:
        assert ran.json["error"]["message"].endswith(".")
    else:
        assert ran.out == ""


# --- What is kept of it ----------------------------------------------------------------------------------------------


def test_of_a_field_only_its_kinds_are_kept() -> None:
    schema = {"anyOf": [{"type": "string", "enum": ["alpha", "beta"]}, {"type": "null"}]}
    raw = {
        "schema": "drainboard.topology/1",
        "graphs": {
            "g": {
                "kind": "graph",
                "nodes": ["a"],
                "edges": [["__start__", "a", False]],
                "fields": {"f": {"schema": schema}},
            }
        },
    }
    candidate = read_topology(raw)["g"]
    assert candidate.fields["f"].type.kinds == {Kind.TEXT, Kind.NULL}
    assert not candidate.fields["f"].type.is_loose
    stored = json.dumps(to_json(candidate))
    assert "alpha" not in stored
    assert from_json("g", json.loads(stored)) == candidate


@pytest.mark.parametrize("raw", [
    None, [], {}, {"schema": "drainboard.topology/2", "graphs": {"g": {}}},
    {"schema": "drainboard.topology/1"},
    {"schema": "drainboard.topology/1", "graphs": {}},
    {"schema": "drainboard.topology/1", "graphs": {"g": 7}},
    {"schema": "drainboard.topology/1", "graphs": {"g": {"kind": "tree", "nodes": [], "edges": []}}},
    {"schema": "drainboard.topology/1", "graphs": {"g": {"kind": "graph", "nodes": "ab", "edges": []}}},
    {"schema": "drainboard.topology/1", "graphs": {"g": {"kind": "graph", "nodes": [7], "edges": []}}},
    {"schema": "drainboard.topology/1", "graphs": {"g": {"kind": "graph", "nodes": [], "edges": [["a", "b"]]}}},
    {"schema": "drainboard.topology/1", "graphs": {"g": {"kind": "graph", "nodes": [], "edges": [], "joins": ["a"]}}},
    {"schema": "drainboard.topology/1", "graphs": {"g": {"kind": "graph", "nodes": ["x" * 501], "edges": []}}},
])  # fmt: skip
def test_what_is_no_topology_is_refused_with_a_sentence(raw: object) -> None:
    with pytest.raises(BadTopology, match=r"\.$"):
        read_topology(raw)
