"""Whatever the description allows, and what it does not, is answered as it says, and with no crash. More: `scripts/fuzz-api`."""

from __future__ import annotations

from pathlib import Path

from tests.contract.asking import ask, ask_as_a_stranger
from tests.contract.board import opened


def _copy(migrated: Path, home: Path) -> str:
    (home / "board.db").write_bytes(migrated.read_bytes())
    return f"sqlite+aiosqlite:///{home}/board.db"


async def test_every_route_answers_as_it_is_described(tmp_path: Path, migrated_sqlite: Path) -> None:
    async with opened(tmp_path, _copy(migrated_sqlite, tmp_path), signs_in=False) as board:
        found = await ask(board, examples=2, number=1)
    assert found.wrong == []
    assert found.answers[200] > 20, found.answers
    assert found.answers[422] > 20, found.answers


async def test_a_stranger_is_told_nothing_and_in_the_words_of_the_description(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    async with opened(tmp_path, _copy(migrated_sqlite, tmp_path), signs_in=True) as board:
        stranger = await ask_as_a_stranger(board, number=2)
        assert (await board.http.get("/api/v1/drains")).status_code == 200
    assert stranger.wrong == []
    assert set(stranger.answers) == {401}
