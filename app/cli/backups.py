"""``drainboard db backup`` and ``db restore``: the SQLite database with the key of its hashes."""

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import output
from app.errors import SettingsError

if TYPE_CHECKING:
    from app.settings import Settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def backup(
    file: Annotated[Path, typer.Argument(help="Where to; it must not be there yet.")], json: Json = False
) -> None:
    """Copy the SQLite database while Drainboard runs, and its key to FILE.key. For PostgreSQL use pg_dump."""
    from app.inventory.backup import check_backup, copy_database, database_file
    from app.settings import load_settings

    settings = load_settings()
    source, key = database_file(settings.resolved_database_url), _key_of(file)
    for place in (file, key):
        _require_free(place, "Give another name, or remove it.")
    copy_database(source, file)
    _copy_key(settings.resolved_key_file, key)
    if json:
        output.as_json({"database": str(file), "key": str(key), "revision": check_backup(file)})
        return
    output.out.print(
        output.plain(f"{file} has the database, and {key} the key of its hashes. Keep both: with another key")
    )
    output.out.print("names of undeclared fields are not known again, and people have to sign in again.")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `db backup` has written, with its .key beside it.")],
    json: Json = False,
) -> None:
    """Put a backup where the settings say that the database is. Stop Drainboard first; what is there is never overwritten."""
    from app.inventory.backup import check_backup, database_file, restore_database
    from app.settings import load_settings

    settings = load_settings()
    target, key = database_file(settings.resolved_database_url), _key_of(file)
    revision = check_backup(file)
    for place in (target, *(target.with_name(target.name + end) for end in ("-wal", "-shm"))):
        _require_free(place, "Stop Drainboard and move it away first.")
    _require_same_key(settings, key)
    target.parent.mkdir(parents=True, exist_ok=True)
    restore_database(file, target)
    if not settings.resolved_key_file.exists():
        _copy_key(key, settings.resolved_key_file)
    if json:
        output.as_json({"database": str(target), "key": str(settings.resolved_key_file), "revision": revision})
        return
    output.out.print(output.plain(f"{target} is as it was, at revision {revision}. Drains soak anew."))


def distrust_all(json: Json = False) -> None:
    """After a database was restored by other tools, like pg_restore: nothing that was proved counts before everything was swept."""
    from app.inventory.backup import distrust
    from app.inventory.db import Database
    from app.settings import load_settings

    async def work() -> None:
        database = Database(load_settings().resolved_database_url)
        try:
            await database.upgrade()
            async with database.write() as connection:
                await connection.run_sync(distrust)
        finally:
            await database.close()

    asyncio.run(work())
    if json:
        output.as_json({"distrusted": True})
        return
    output.out.print("Every deployment is swept once more, and drains soak anew.")


def _key_of(file: Path) -> Path:
    return file.with_name(file.name + ".key")


def _require_free(place: Path, advice: str) -> None:
    if place.exists():
        raise SettingsError(f"{place} is there already. {advice}")


def _require_same_key(settings: "Settings", kept: Path) -> None:
    """Either the backup's key comes along, or it is the one that is in place."""
    there = settings.resolved_key_file
    if not kept.is_file() and not there.is_file():
        raise SettingsError(
            f"The key {kept} is missing. Put it there: without it the backup's names are not known again."
        )
    if kept.is_file() and there.is_file() and kept.read_bytes() != there.read_bytes():
        raise SettingsError(f"{there} is another key than {kept}. Move it away first.")


def _copy_key(source: Path, target: Path) -> None:
    if not source.is_file():
        raise SettingsError(f"There is no key file at {source}. Check key_file.")
    target.touch(mode=0o600, exist_ok=False)
    shutil.copyfile(source, target)
