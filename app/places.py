"""Where the folders beside the package are: templates, static files and migrations. The only place that knows."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "templates"
STATIC = ROOT / "static"
MIGRATIONS = ROOT / "alembic"
