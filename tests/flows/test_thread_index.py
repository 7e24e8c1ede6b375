"""The thread index end to end: a real Agent Server, and the same list by query, file and push."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.product import DEPLOYMENT, Product, node_drain, one_deployment
from tests.flows.tracing import Traced, traced_server

GHOST = "00000000-0000-4000-8000-00000000dead"
CANARY = "canary-in-the-application"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Traced, list[str]]]:
    with traced_server(tmp_path_factory.mktemp("indexed")) as found:
        yield found, found.run({"topic": "opening hours"}, {"topic": "delivery"})


def _rows(ids: list[str]) -> list[dict[str, Any]]:
    """The application's list: one thread that is there, one that it closed, one that nobody knows."""
    closed = {"thread_id": "00000000-0000-4000-8000-0000000000c1", "closed_at": "2026-01-02T00:00:00Z"}
    return [{"thread_id": ids[0], "closed_at": None, "email": CANARY}, closed, {"thread_id": GHOST, "closed_at": None}]


def _product(folder: Path, url: str, **more: Any) -> Product:
    product = Product(folder)
    product.configure(one_deployment(url, node_drain("fax", "support", "legacy_triage"), metadata_keys=[], **more))
    return product


def _by_query(folder: Path, server: tuple[Traced, list[str]]) -> Product:
    folder.mkdir(exist_ok=True)
    with sqlite3.connect(folder / "app.db") as database:
        database.execute("create table conversation (id text, ended text, email text)")
        rows = [(row["thread_id"], row["closed_at"], row.get("email")) for row in _rows(server[1])]
        database.executemany("insert into conversation values (?, ?, ?)", rows)
    database.close()
    query = "select id as thread_id, ended as closed_at, email from conversation"
    product = _product(folder, server[0].url, thread_index={"url_env": "APPLICATION", "query": query})
    product.environment["APPLICATION"] = f"sqlite:///{folder / 'app.db'}"
    return product


def _by_file(folder: Path, server: tuple[Traced, list[str]], *, lines: bool) -> Product:
    product = _product(folder, server[0].url)
    rows = _rows(server[1])
    if lines:
        text = "\n".join(json.dumps(row) for row in rows)
    else:
        text = "thread_id,closed_at,email\n" + "\n".join(
            f"{r['thread_id']},{r['closed_at'] or ''},{CANARY}" for r in rows
        )
    (folder / "list.txt").write_text(text, encoding="utf-8")
    imported = product.ask("index", "import", DEPLOYMENT, str(folder / "list.txt"), "--json")
    assert imported.code == 0, imported.said
    (folder / "list.txt").unlink()
    return product


@pytest.mark.parametrize("way", ["query", "csv", "jsonl"])
def test_a_list_gives_the_same_answer_however_it_came(
    server: tuple[Traced, list[str]], tmp_path: Path, way: str
) -> None:
    folder = tmp_path / "product"
    product = _by_query(folder, server) if way == "query" else _by_file(folder, server, lines=way == "jsonl")

    assert product.ask("poll", "--full", "--json").code == 0
    answer = product.gate("fax")
    report = product.ask("index", "show", DEPLOYMENT, "--json").json

    assert answer.code == 2
    [reason] = [found for found in answer.json["reasons"] if found["source"] == "index"]
    assert (reason["code"], reason["count"]) == ("index_only", 1)
    assert report["by_word"] == {"seen": 1, "closed": 1, "unknown": 1}
    assert report["only_on_server"] == 1
    assert [line["thread_id"] for line in report["only_in_index"]] == [GHOST]
    evidence = product.ask("evidence", DEPLOYMENT, server[1][0], "--json").json
    assert evidence["index"] == {"listed": True, "closed": False}
    assert CANARY.encode() not in product.database.read_bytes()


def test_a_list_that_agrees_lets_a_drain_finish(server: tuple[Traced, list[str]], tmp_path: Path) -> None:
    product = _product(tmp_path, server[0].url)
    (tmp_path / "list.csv").write_text("thread_id\n" + "\n".join(server[1]) + "\n")
    assert product.ask("index", "import", DEPLOYMENT, str(tmp_path / "list.csv"), "--json").code == 0

    product.ask("poll", "--full", "--json")
    answer = product.gate("fax")

    assert answer.code == 0, answer.json["reasons"]
    [source] = [found for found in answer.json["sources"] if found["name"] == "index"]
    assert (source["status"], source["expected"], source["seen"]) == ("complete", 2, 2)


def test_a_file_without_the_column_or_without_a_row_is_a_sentence(
    server: tuple[Traced, list[str]], tmp_path: Path
) -> None:
    product = _product(tmp_path, server[0].url)
    for text in ("id\nx\n", "thread_id\n", '{"thread_id": "a"}\n{broken\n'):
        (tmp_path / "list").write_text(text)
        refused = product.ask("index", "import", DEPLOYMENT, str(tmp_path / "list"), "--json")

        assert refused.code == 3
        assert "list" in refused.json["error"]["message"]


def test_batches_over_http_are_bounded_and_checked(server: tuple[Traced, list[str]], tmp_path: Path) -> None:
    product = _product(tmp_path, server[0].url)
    with product.serve() as client:
        path = f"/api/v1/deployments/{DEPLOYMENT}/index"
        taken = client.put(path, json={"threads": _rows(server[1]), "snapshot": "a", "begin": True, "done": True})
        again = client.put(path, json={"threads": [{"thread_id": ""}, {"thread_id": GHOST}]})
        bad = [
            client.put(path, json={"threads": [{"thread_id": GHOST}], "snapshot": "b"}),
            client.put(path, json={"threads": [{"thread_id": GHOST}] * 5001}),
            client.put(path, content=b"x" * 4_000_001),
            client.put(path, content=b"{"),
            client.put(path, json={"threads": [], "colour": CANARY}),
        ]
        nowhere = client.put("/api/v1/deployments/nowhere/index", json={"threads": []})
        report = client.get(path).json()
        forgotten = client.delete(path)
        after = client.get(path).json()

    assert (taken.status_code, taken.json()["listed"]) == (200, 3)
    assert again.json()["problems"] == [{"line": 1, "message": "there is no thread_id"}]
    assert [found.status_code for found in bad] == [422, 422, 413, 422, 422]
    assert all(CANARY not in found.text for found in bad)
    assert nowhere.status_code == 404
    assert (report["listed"], report["closed"]) == (3, 1)
    assert (forgotten.status_code, after["listed"], after["kind"]) == (204, 0, None)
