"""The ``drainboard`` command. The web application is made where a command needs one: to ask a server does not."""

from typing import TYPE_CHECKING, Any

from app.cli.main import run_with

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.settings import Settings


def run() -> None:
    """Run the command that the process was started with."""
    run_with(_make_app)


def _make_app(settings: "Settings", **more: Any) -> "FastAPI":
    from app.main import create_app

    return create_app(settings, **more)
