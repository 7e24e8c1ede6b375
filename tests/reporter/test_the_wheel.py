"""The reporter is a distribution of its own: it works where there is no Drainboard, and brings no package named ``app``."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `pip wheel reporter` builds it, with what is installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT / "reporter")], check=True, timeout=120)
    [found] = folder.glob("*.whl")
    return found


def test_it_brings_one_package_and_it_is_not_app(wheel: Path) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"drainboard_reporter"}


def test_nothing_in_it_imports_app(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        sources = {name: packed.read(name).decode() for name in packed.namelist() if name.endswith(".py")}
    assert "drainboard_reporter/facts/states.py" in sources
    assert not [name for name, text in sources.items() if "from app" in text or "import app" in text]


def test_it_needs_langgraph_and_an_http_client_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        [metadata] = [packed.read(name).decode() for name in packed.namelist() if name.endswith("METADATA")]
    needs = sorted(line for line in metadata.splitlines() if line.startswith("Requires-Dist"))
    assert needs == ["Requires-Dist: httpx>=0.27", "Requires-Dist: langgraph>=1.0"]


def test_it_works_in_an_environment_without_drainboard(wheel: Path, tmp_path: Path) -> None:
    """A new environment with the wheel in it; what the wheel needs is lent from here, without Drainboard."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    [site] = (tmp_path / "env" / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    lent = tmp_path / "lent"
    lent.mkdir()
    for place in Path(sys.prefix).glob("lib/python*/site-packages/*"):
        if "drainboard" not in place.name and place.suffix != ".pth":
            (lent / place.name).symlink_to(place)
    asked = "import drainboard_reporter, importlib.util as u; print(u.find_spec('app'), drainboard_reporter.report.__name__)"
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(lent)}
    done = subprocess.run(
        [python, "-c", asked], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["None", "report"]), done.stderr
    help_ = subprocess.run(
        [python, "-m", "drainboard_reporter", "--help"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert help_.returncode == 0
    for option in ("--graph", "--deployment", "--server", "--ids", "--index", "--once", "--interval"):
        assert option in help_.stdout
