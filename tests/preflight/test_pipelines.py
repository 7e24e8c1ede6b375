"""The action and the examples for pipelines, run as their runners would: bash, variables, exit codes, against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from app.demo.agent_server import write_files
from tests.agent.fixtures import FreshServer
from tests.flows.product import DEPLOYMENT, ROOT, Product, node_drain, ok, one_deployment, poll_over_http, wait_until
from tests.preflight.lives import Life, park

ACTION = ROOT / "action"
EXAMPLES = ROOT / "docs" / "how-to" / "pipelines"
GRAPH = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

class State(TypedDict, total=False):
    note: str

def ask(state: State) -> State:
    return {"note": str(interrupt("sure?"))}

builder = StateGraph(State)
builder.add_node("NODE", ask)
builder.add_node("end", lambda state: {})
builder.add_edge(START, "NODE")
builder.add_edge("NODE", "end")
builder.add_edge("end", END)
graph = builder.compile()
"""
CONFIGURATION = json.dumps({"dependencies": ["."], "graphs": {"support": "./agent.py:graph"}})


def files(node: str) -> dict[str, str]:
    return {"agent.py": GRAPH.replace("NODE", node), "langgraph.json": CONFIGURATION}


@dataclass
class Pipeline:
    """A runner: a folder with the application, and a Drainboard that watches its server, where one thread is parked."""

    http: httpx.Client
    folder: Path
    bin: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a runner gives to its steps."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("DRAINBOARD_", "GITHUB_"))
        }
        return {
            **inherited,
            "PATH": f"{self.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DRAINBOARD_SERVER": str(self.http.base_url),
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "GITHUB_ACTION_PATH": str(ACTION),
            "COLUMNS": "400",
        }

    def bash(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a step."""
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def outputs(self) -> dict[str, str]:
        """What the steps have set, the last word counts."""
        lines = (self.folder / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture(scope="module")
def served(module_agent_server: FreshServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    server = module_agent_server(files("await_approval"))
    asyncio.run(park(server.url, [Life("support")]))
    product = Product(tmp_path_factory.mktemp("product"))
    product.configure(one_deployment(server.url, node_drain("drop-await-approval", "support", "await_approval")))
    with product.serve() as client:
        assert poll_over_http(client)["state"] == "complete"
        yield client


@pytest.fixture
def pipeline(served: httpx.Client, tmp_path: Path) -> Pipeline:
    write_files(tmp_path / "work", files("await_approval"))
    command = tmp_path / "bin" / "drainboard"
    command.parent.mkdir()
    code = f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c 'from app.command import run; run()' \"$@\"\n"
    command.write_text(code)
    command.chmod(0o755)
    return Pipeline(served, tmp_path / "work", command.parent)


def document(name: str) -> Any:
    return yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))


# --- The action ------------------------------------------------------------------------------------------------------


def steps(**given: str) -> list[tuple[str, str, dict[str, str]]]:
    """The action's own steps: name, script, and environment, with the inputs put in."""
    action = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))
    values = {name: str(one.get("default", "")) for name, one in action["inputs"].items()}
    assert set(given) <= set(values)
    values |= given
    found = []
    for step in action["runs"]["steps"]:
        environment = {
            key: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: values[match[1]], value)
            for key, value in step.get("env", {}).items()
        }
        found.append((step["name"], step["run"], environment))
    return found


def act(pipeline: Pipeline, **given: str) -> tuple[int, str]:
    """Ask and decide, as the action does; the exit code of the last step that ran, and all that was printed."""
    inputs = {"server": str(pipeline.http.base_url), "drainboard": "drainboard", "python": sys.executable, **given}
    printed = ""
    for name, script, environment in steps(**inputs):
        if name not in ("Ask Drainboard", "Decide"):
            continue
        if name == "Decide":
            environment["CODE"] = pipeline.outputs["exit-code"]
        ran = pipeline.bash(script, **environment)
        printed += ran.stdout + ran.stderr
        if ran.returncode:
            return ran.returncode, printed
    return 0, printed


def test_every_script_of_the_action_is_used_and_none_puts_an_input_into_its_text() -> None:
    scripts = " ".join(script for _, script, _ in steps())
    assert {path.name for path in ACTION.iterdir()} == {
        "action.yml",
        *re.findall(r"GITHUB_ACTION_PATH/([a-z]+\.[a-z]+)\"", scripts),
    }
    assert "${{" not in scripts  # an input in the text of a script is run as a part of it


def test_the_action_lets_a_safe_candidate_pass(pipeline: Pipeline) -> None:
    code, printed = act(pipeline, deployment=DEPLOYMENT, **{"langgraph-json": "langgraph.json"})
    assert code == 0, printed
    assert pipeline.outputs["verdict"] == "safe"


def test_the_action_stops_a_candidate_that_would_strand_a_thread(pipeline: Pipeline) -> None:
    write_files(pipeline.folder, files("sign"))
    code, printed = act(pipeline, deployment=DEPLOYMENT, **{"langgraph-json": "langgraph.json"})
    assert code == 1, printed
    assert (pipeline.outputs["verdict"], pipeline.outputs["exit-code"]) == ("blocked", "1")
    summary = (pipeline.folder / "summary").read_text()
    assert "would strand" in summary
    assert Path(pipeline.outputs["summary"]).read_text() == summary


def test_the_action_says_why_a_candidate_could_not_be_read(pipeline: Pipeline) -> None:
    write_files(pipeline.folder, {"agent.py": "import nothing_like_this\n"})
    code, printed = act(pipeline, deployment=DEPLOYMENT, **{"langgraph-json": "langgraph.json"})
    assert code == 3
    assert "there is no module 'nothing_like_this'" in printed
    assert pipeline.outputs["summary"] == ""


@pytest.mark.parametrize("given", [
    {"deployment": DEPLOYMENT, "langgraph-json": "nowhere.json"}, {}, {"command": "gate"}, {"command": "deploy"},
    {"deployment": "nobody", "langgraph-json": "langgraph.json"}, {"command": "gate", "drain": "nothing"},
])  # fmt: skip
def test_whatever_the_action_cannot_ask_ends_it_with_3(pipeline: Pipeline, given: dict[str, str]) -> None:
    assert act(pipeline, **given)[0] == 3


def test_an_input_is_never_run(pipeline: Pipeline) -> None:
    act(
        pipeline,
        deployment="$(touch hit)",
        **{"langgraph-json": "`touch hit`; touch hit", "graph-id": '"; touch hit; "'},
    )
    assert not (pipeline.folder / "hit").exists()


def test_the_action_waits_at_a_gate_and_is_seen_there(pipeline: Pipeline) -> None:
    code, printed = act(pipeline, command="gate", drain="drop-await-approval", wait="2s")
    assert code == 1, printed
    waiters = ok(pipeline.http.get("/api/v1/drains/drop-await-approval/waiters"))["items"]
    assert waiters[0]["outcome"] == "ran_out"


@pytest.mark.parametrize(("code", "accepted", "expected"), [
    ("0", "false", 0), ("1", "true", 1), ("2", "false", 2), ("2", "true", 0), ("3", "true", 3), ("", "true", 3), ("130", "true", 3),
])  # fmt: skip
def test_only_0_and_an_accepted_unknown_go_on(pipeline: Pipeline, code: str, accepted: str, expected: int) -> None:
    ran = pipeline.bash('bash "$GITHUB_ACTION_PATH/decide.sh"', CODE=code, ACCEPT_UNKNOWN=accepted)
    assert ran.returncode == expected


# --- The comment -----------------------------------------------------------------------------------------------------


@dataclass
class GitHub:
    """A stand-in for the comments of one pull request."""

    bodies: dict[int, str] = field(default_factory=lambda: {number: f"word {number}" for number in range(1, 130)})
    asked: list[str] = field(default_factory=list)
    url: str = ""
    refuses: bool = False

    def answer(self, method: str, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        self.asked.append(method)
        if self.refuses:
            return 403, {}
        if method == "GET":
            page = int(re.search(r"&page=(\d+)", path)[1])  # type: ignore[index]
            shown = list(self.bodies.items())[(page - 1) * 100 : page * 100]
            return 200, [{"id": number, "body": text} for number, text in shown]
        number = len(self.bodies) + 1 if method == "POST" else int(path.rpartition("/")[2])
        self.bodies[number] = body["body"]
        return 201, {"id": number}


@pytest.fixture
def github() -> Iterator[GitHub]:
    found = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            status, said = found.answer(self.command, self.path, body)
            sent = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PATCH = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def comment(pipeline: Pipeline, github: GitHub, text: str) -> subprocess.CompletedProcess[str]:
    (pipeline.folder / "summary.md").write_text(text)
    (script,) = [script for name, script, _ in steps() if name.startswith("Comment")]
    return pipeline.bash(
        script,
        COMMENT_FILE=str(pipeline.folder / "summary.md"),
        COMMENT_NUMBER="7",
        COMMENT_TOKEN="x",
        GITHUB_API_URL=github.url,
        GITHUB_REPOSITORY="acme/support",
    )


def test_the_comment_is_made_once_and_written_over_afterwards(pipeline: Pipeline, github: GitHub) -> None:
    marker = f"<!-- drainboard-preflight:{DEPLOYMENT} -->"
    for text in ("first", "second"):
        assert comment(pipeline, github, f"{marker}\n{text}\n").returncode == 0
    assert [body for body in github.bodies.values() if body.startswith(marker)] == [f"{marker}\nsecond\n"]
    assert github.asked == ["GET", "GET", "POST", "GET", "GET", "PATCH"]
    comment(pipeline, github, "<!-- drainboard-preflight:other -->\nthird\n")
    assert len(github.bodies) == 131


def test_a_comment_that_may_not_be_written_fails_nothing(pipeline: Pipeline, github: GitHub) -> None:
    github.refuses = True
    ran = comment(pipeline, github, "<!-- m -->\n")
    assert ran.returncode == 0
    assert "::warning::" in ran.stdout


# --- The examples ----------------------------------------------------------------------------------------------------


def test_the_example_for_github_uses_inputs_that_the_action_has() -> None:
    known = set(yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))["inputs"])
    used = [
        step["with"]
        for job in document("github-actions.yml")["jobs"].values()
        for step in job["steps"]
        if "drainboard/action" in step.get("uses", "")
    ]
    assert len(used) == 2
    for given in used:
        assert set(given) <= known
        assert {"server", "token"} <= set(given)


@pytest.mark.parametrize(("node", "code"), [("await_approval", 0), ("sign", 1)])
def test_the_example_for_gitlab_stops_what_would_break(pipeline: Pipeline, node: str, code: int) -> None:
    write_files(pipeline.folder, files(node))
    [line] = document("gitlab-ci.yml")["preflight"]["script"]
    ran = pipeline.bash(line.replace("support-prod", DEPLOYMENT))
    assert ran.returncode == code, ran.stderr
    assert (pipeline.folder / "preflight.md").read_text().startswith("<!-- drainboard-preflight:")


def test_the_gate_of_the_example_for_gitlab_is_a_command_that_is_understood(pipeline: Pipeline) -> None:
    [line] = document("gitlab-ci.yml")["gate"]["script"]
    assert pipeline.bash(line.replace("30m", "1s")).returncode == 1


@pytest.mark.parametrize("name", ["kubernetes-job.yaml", "helm-pre-upgrade.yaml"])
def test_the_job_of_an_example_is_a_command_that_is_understood(pipeline: Pipeline, name: str) -> None:
    values = {
        "Release.Name": "support",
        "Values.drainboard.drain": "drop-await-approval",
        "Values.drainboard.wait": "30m",
    }
    [container] = document(name)["spec"]["template"]["spec"]["containers"]
    filled = [re.sub(r"\{\{ \.([A-Za-z.]+) \}\}", lambda match: values[match[1]], one) for one in container["args"]]
    filled[filled.index("30m")] = "1s"
    ran = subprocess.run(
        ["drainboard", *filled],
        env=pipeline.environment,
        executable=str(pipeline.bin / "drainboard"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert {"DRAINBOARD_SERVER", "DRAINBOARD_TOKEN"} == {one["name"] for one in container["env"]}


def test_the_metric_of_the_example_for_argo_reads_the_exit_code_of_the_gate(pipeline: Pipeline) -> None:
    [metric] = document("argo-rollouts.yaml")["spec"]["metrics"]
    web = metric["provider"]["web"]
    path = httpx.URL(web["url"].replace("{{args.drain}}", "drop-await-approval")).path
    found = ok(pipeline.http.get(path))
    assert web["jsonPath"] == "{$.exit_code}"
    assert (metric["successCondition"], metric["failureCondition"]) == ("result == 0", "result == 1")
    assert found["exit_code"] == 1


# --- Waiting ---------------------------------------------------------------------------------------------------------


def test_a_wait_says_how_it_goes_and_ends_when_it_is_cancelled_on_the_page(pipeline: Pipeline) -> None:
    command = ["drainboard", "gate", "drop-await-approval", "--wait", "10m", "--as", "release 7"]
    path = "/api/v1/drains/drop-await-approval/waiters"

    def waiting() -> list[dict[str, Any]]:
        return [one for one in ok(pipeline.http.get(path))["items"] if one["outcome"] is None]

    with subprocess.Popen(
        command, env=pipeline.environment, executable=str(pipeline.bin / "drainboard"), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        wait_until(waiting)
        [one] = waiting()
        assert (one["caller"], one["verdict"]) == ("release 7", "blocked")
        began = time.monotonic()
        page = pipeline.http.post(
            f"/drains/drop-await-approval/waiters/{one['id']}/cancel", headers={"Sec-Fetch-Site": "same-origin"}
        )
        assert page.status_code == 303
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert time.monotonic() - began < 30
    assert "1 thread still waits at await_approval" in err
    assert "cancelled" in err
    assert "blocked" in out
