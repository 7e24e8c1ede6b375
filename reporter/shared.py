"""Copies the rules that the dashboard and the reporter share to ``drainboard_reporter/facts``. Run it after they changed."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "app" / "facts"
TARGET = HERE / "drainboard_reporter" / "facts"
MODULES = ("__init__", "privacy", "raw", "reading", "states", "storage", "topology", "types")


def bring() -> None:
    """Copy them, with their imports renamed. A source distribution has them already, and no ``app`` beside it."""
    if not SOURCE.is_dir():
        return
    TARGET.mkdir(parents=True, exist_ok=True)
    wanted = {f"{name}.py": _renamed(SOURCE / f"{name}.py") for name in MODULES}
    for stale in {path.name for path in TARGET.glob("*.py")} - set(wanted):
        (TARGET / stale).unlink()
    for name, text in wanted.items():
        file = TARGET / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:  # somebody may be reading it
            file.write_text(text, encoding="utf-8")


def _renamed(file: Path) -> str:
    return file.read_text(encoding="utf-8").replace("from app.", "from drainboard_reporter.")


if __name__ == "__main__":
    bring()
