"""Copies the rules that the dashboard and the reporter share to ``drainboard_reporter/facts``. Run it after they changed."""

import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "app" / "facts"
TARGET = HERE / "drainboard_reporter" / "facts"
MODULES = ("__init__", "privacy", "raw", "reading", "states", "storage", "topology", "types")


def bring() -> None:
    """Copy them, with their imports renamed. A source distribution has them already, and no ``app`` beside it."""
    if not SOURCE.is_dir():
        return
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for name in MODULES:
        text = (SOURCE / f"{name}.py").read_text(encoding="utf-8")
        (TARGET / f"{name}.py").write_text(text.replace("from app.", "from drainboard_reporter."), encoding="utf-8")


if __name__ == "__main__":
    bring()
