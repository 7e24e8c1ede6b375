"""The image, without an engine: what its steps need is there, what is in it is enough, and it writes to its data alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.delivery.commands import parse
from tests.delivery.dockerfile import ROOT, comes_in, context, stages

STAGES = stages()
IMAGE = STAGES[-1]

# Starts and asks as a person does; tells what was opened for writing, and what was imported from where.
_PROGRAM = """
import asyncio, json, os, sys
written = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        written.append(arguments[0])
    if event in ("sqlite3.connect", "os.mkdir") and isinstance(arguments[0], str):
        written.append(arguments[0])
sys.addaudithook(hook)
import httpx
import app
from app.main import create_app
from app.settings import load_settings
async def ask():
    application = create_app(load_settings(), schedule=False)
    async with application.router.lifespan_context(application):
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return {path: (await http.get(path)).status_code for path in sys.argv[1:]}
print(json.dumps({"app": app.__file__, "answers": asyncio.run(ask()), "written": written}))
"""


def test_what_is_copied_is_in_the_context_and_from_a_stage_that_is_there() -> None:
    there = context()
    names = [stage.name for stage in STAGES]
    for stage in STAGES:
        for copied in stage.all("COPY"):
            *sources, _ = [word for word in copied.split() if not word.startswith("--")]
            if "--from=" in copied:
                assert copied.split()[0].removeprefix("--from=") in names
            else:
                assert all(any(source in (name, ".") for name in there) for source in sources), copied


def test_what_is_installed_is_locked_with_hashes_and_has_no_agent_server() -> None:
    [build] = [stage for stage in STAGES if stage.name == "build"]
    installs = [part for run in build.all("RUN") for part in run.split("&&") if "pip install" in part]
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or "--no-deps" in install
        for lock in (word for word in install.split() if word.endswith(".lock")):
            assert lock in " ".join(build.all("COPY"))
            assert "\nlanggraph-api==" not in (ROOT / lock).read_text()
    [front_end] = [stage for stage in STAGES if stage.name == "front-end"]
    assert front_end.all("RUN") == ["npm ci --omit=dev --ignore-scripts"]
    [taken] = [copied for copied in build.all("COPY") if "--from=front-end" in copied]
    package = taken.split("node_modules/")[1].split("/dist/")[0]
    assert f"node_modules/{package}" in json.loads((ROOT / "package-lock.json").read_text())["packages"]


def test_it_runs_as_an_ordinary_user_by_number() -> None:
    instructions = [instruction for instruction, _ in IMAGE.steps]
    assert IMAGE.all("USER") == ["10001:10001"]
    assert "--uid 10001" in IMAGE.all("RUN")[0]
    assert "RUN" not in instructions[instructions.index("USER") :]
    assert (IMAGE.all("VOLUME"), IMAGE.all("WORKDIR")[-1]) == (["/data"], "/data")


def test_its_command_is_one_of_ours_and_its_health_is_asked_where_it_listens() -> None:
    assert IMAGE.last_list("ENTRYPOINT") == ["drainboard"]
    parse(IMAGE.last_list("CMD"))
    [port] = IMAGE.all("EXPOSE")
    [health] = IMAGE.all("HEALTHCHECK")
    assert f"http://127.0.0.1:{port}/healthz" in health
    compile(json.loads(health.partition("CMD ")[2])[2], "health check", "exec")


def test_nothing_but_the_program_comes_into_the_context() -> None:
    assert {name.partition("/")[0] for name in context()} == {
        ".npmrc", "README.md", "alembic", "alembic.ini", "app", "package-lock.json", "package.json", "pyproject.toml",
        "requirements", "static", "templates",
    }  # fmt: skip
    for name in (
        "drainboard.toml",
        "drainboard.db",
        "drainboard.key",
        ".env",
        ".git/config",
        "static/vendor/htmx.min.js",
    ):
        assert not comes_in(name), name


def test_what_is_in_the_image_starts_and_writes_to_its_data_alone(tmp_path: Path) -> None:
    """The image's root file system may be read-only: this is the tree that it has, and whatever is opened to write is seen."""
    image, data = tmp_path / "image", tmp_path / "data"
    data.mkdir()
    for name in context():
        (image / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, image / name)
    for package in [one for one in (image / "app").rglob("*") if one.is_dir()]:  # what is compiled already
        (package / "__pycache__").symlink_to(ROOT / package.relative_to(image) / "__pycache__")
    paths = {
        "/": 200,
        "/drains/new": 200,
        "/static/drainboard.css": 200,
        "/readyz": 200,
        "/healthz": 200,
        "/metrics": 200,
    }
    ran = subprocess.run(
        [sys.executable, "-B", "-c", _PROGRAM, *paths],
        cwd=data,
        env={"PYTHONPATH": str(image), "HOME": str(data), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["app"] == str(image / "app" / "__init__.py")
    assert told["answers"] == paths
    opened = {str(data / name.removeprefix("file:")) for name in told["written"]}
    assert {name for name in opened if not name.startswith((str(data), "/dev/"))} == set()
    assert {"drainboard.db", "drainboard.key"} <= {one.name for one in data.iterdir()}
