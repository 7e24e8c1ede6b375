"""``drainboard db check`` compares the counts that are kept with the threads themselves, and can make them anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands.test_command_line import Installed, installed
from tests.flows.product import node_drain, one_deployment


@pytest.fixture
def run(tmp_path: Path) -> Installed:
    """An installation with one thread, put there by hand, since only the counts matter."""
    run = installed(tmp_path, one_deployment("http://127.0.0.1:9", node_drain("drop-it", "support", "hold")))
    assert run("drains", "list").code == 0
    with closing(sqlite3.connect(run.product.database)) as connection, connection:
        (deployment,) = connection.execute("select id from deployment").fetchone()
        _put(connection, "work", id=1, deployment_id=deployment)
        _put(connection, "thread", deployment_id=deployment, condition="parked", work_id=1)
    return run


def _put(connection: sqlite3.Connection, table: str, **given: object) -> None:
    """A row with something in every column that needs it."""
    needed = connection.execute(f"select name, type from pragma_table_info('{table}') where \"notnull\" or pk")
    values = {name: given.get(name, _of(kind)) for name, kind in needed.fetchall()}
    names, marks = ",".join(f'"{name}"' for name in values), ",".join("?" * len(values))
    connection.execute(f"insert into {table} ({names}) values ({marks})", list(values.values()))


def _of(kind: str) -> object:
    return (
        "2026-11-30 12:00:00.000000"
        if kind.startswith("DATETIME")
        else 0
        if "INT" in kind or kind == "BOOLEAN"
        else "x"
    )


def _break(run: Installed, statement: str) -> None:
    with closing(sqlite3.connect(run.product.database)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


def test_counts_that_are_right_are_said_to_be(run: Installed) -> None:
    said = run("db", "check", "--json").json
    assert (said["ok"], said["threads"], said["differences"]) == (True, 1, 0)
    assert "1 threads" in run("db", "check").out


@pytest.mark.parametrize("wrong", ["update thread_cell set n = n + 1", "delete from thread_cell"])
def test_counts_that_differ_are_named_and_exit_3_until_they_are_made_anew(run: Installed, wrong: str) -> None:
    _break(run, wrong)
    checked = run("db", "check", "--json")
    assert (checked.code, checked.json["ok"], checked.json["differences"]) == (3, False, 1)
    (first,) = checked.json["first_differences"]
    assert (first["counted"], first["cell"]["condition"]) == (1, "parked")
    assert "--repair" in run("db", "check").out
    assert run("db", "check", "--repair").code == 0
    assert run("db", "check").code == 0


def test_an_update_behind_everybodys_back_is_counted_too(run: Installed) -> None:
    _break(run, "update thread set condition = 'settled'")
    assert run("db", "check").code == 0
