"""What ``drainboard db check`` says."""

from dataclasses import asdict

from app.cli import output
from app.inventory.cube import Checked
from app.inventory.db import head_revision

SCHEMA_DIFFERS, COUNTS_DIFFER = 2, 3
MOST_TOLD = 20


def exit_code(revision: str | None, checked: Checked) -> int:
    """0 when all is as it should be, or is again."""
    if revision != head_revision():
        return SCHEMA_DIFFERS
    return COUNTS_DIFFER if _differs(checked) else 0


def tell(revision: str | None, checked: Checked, *, as_json: bool) -> None:
    """Print it."""
    if as_json:
        output.as_json(_body(revision, checked))
    elif revision != head_revision():
        found = f"The schema is at revision {revision}, not {head_revision()}" if revision else "There is no schema yet"
        output.out.print(f"{found}. Run `drainboard db upgrade`.")
    else:
        output.out.print(f"The schema is at revision {revision}, as this version expects.")
        _tell_counts(checked)


def _differs(checked: Checked) -> bool:
    return bool(checked.differences) and not checked.is_repaired


def _body(revision: str | None, checked: Checked) -> dict[str, object]:
    return {
        "revision": revision,
        "expected": head_revision(),
        "ok": revision == head_revision() and not _differs(checked),
        "threads": checked.threads,
        "differences": len(checked.differences),
        "repaired": checked.is_repaired,
        "first_differences": [asdict(one) for one in checked.differences[:MOST_TOLD]],
    }


def _tell_counts(checked: Checked) -> None:
    if not checked.differences:
        output.out.print(f"The counts are those of the {checked.threads:,} threads.")
        return
    rows = [
        [
            one.deployment,
            f"{one.kept:,}",
            f"{one.counted:,}",
            " ".join(f"{key}={each}" for key, each in one.cell.items()),
        ]
        for one in checked.differences[:MOST_TOLD]
    ]
    output.table(["deployment", "kept", "counted", "of the threads with"], rows)
    if checked.is_repaired:
        output.out.print(f"{len(checked.differences):,} counts differed; they were made anew from the threads.")
    else:
        output.out.print(f"{len(checked.differences):,} counts differ. `drainboard db check --repair` makes them anew.")
