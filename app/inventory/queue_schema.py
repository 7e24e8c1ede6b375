"""The tables of the workers' queue: Procrastinate's own, brought by our migrations, on PostgreSQL only.

A revision says by name which of the library's migrations it needs. An empty database gets the schema of the installed
library at once; a later revision, made when the library has new migrations, applies what the database does not have yet.
Which that is stands beside the jobs, as their table's comment.
"""

from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import Connection, text

PREFIX = "procrastinate_"
JOBS = "procrastinate_jobs"

_REMOVE = """
DO $$
DECLARE found record;
BEGIN
    FOR found IN SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() AND starts_with(tablename, 'procrastinate_')
    LOOP EXECUTE format('DROP TABLE %I CASCADE', found.name); END LOOP;
    FOR found IN SELECT oid::regprocedure AS name FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND starts_with(proname, 'procrastinate_')
    LOOP EXECUTE format('DROP FUNCTION %s CASCADE', found.name); END LOOP;
    FOR found IN SELECT typname AS name FROM pg_type
        WHERE typnamespace = current_schema()::regnamespace AND typtype IN ('c', 'e') AND starts_with(typname, 'procrastinate_')
    LOOP EXECUTE format('DROP TYPE %I CASCADE', found.name); END LOOP;
END $$
"""


def migrations() -> tuple[Path, ...]:
    """The migrations that the installed library brings, oldest first."""
    return tuple(sorted((_sql() / "migrations").glob("*.sql")))


def bring_to(connection: Connection, name: str) -> None:
    """Make the queue's tables, or apply what they lack up to the migration ``name``. Raises ``LookupError`` when the installed
    library is older than that."""
    if connection.dialect.name != "postgresql":
        return
    brought = [migration.stem for migration in migrations()]
    if name not in brought:
        raise LookupError(f"The installed procrastinate has no migration {name}. Install the version of requirements/.")
    present = find(connection)
    if present is None:
        _run(connection, (_sql() / "schema.sql").read_text(encoding="utf-8"))
        _note(connection, brought[-1])
        return
    for migration in migrations():
        if present < migration.stem <= name:
            _run(connection, migration.read_text(encoding="utf-8"))
            _note(connection, migration.stem)


def find(connection: Connection) -> str | None:
    """The newest of the library's migrations that the database has; None without a queue."""
    found = connection.scalar(text("SELECT obj_description(to_regclass(:jobs), 'pg_class')"), {"jobs": JOBS})
    return None if found is None else str(found)


def remove(connection: Connection) -> None:
    """Remove the queue with all that waits in it."""
    if connection.dialect.name == "postgresql":
        _run(connection, _REMOVE)


def is_ours(name: str | None, kind: str, _parents: object = None) -> bool:
    """Whether a name in the database is one that our own tables describe: Alembic's ``include_name``."""
    return kind != "table" or not (name or "").startswith(PREFIX)


def _sql() -> Path:
    """Where the library keeps its scripts. Every command looks at the revisions, so the library itself is not imported."""
    spec = find_spec("procrastinate")
    if spec is None or spec.origin is None:
        raise LookupError("procrastinate is not installed. Run ./scripts/setup.")
    return Path(spec.origin).parent / "sql"


def _run(connection: Connection, script: str) -> None:
    """A script of several statements, in the transaction that is open."""
    connection.execution_options(no_parameters=True).exec_driver_sql(script)


def _note(connection: Connection, name: str) -> None:
    _run(connection, f"COMMENT ON TABLE {JOBS} IS '{name}'")
