"""The reference of preflights names everything that one can say, and nothing else."""

import re
from pathlib import Path

from app.drains.preflight import ChangeKind
from app.drains.preflight_outcomes import Outcome
from app.drains.preflight_reasons import _SENTENCES
from app.drains.preflights import WITHHOLD

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "preflight.md").read_text(encoding="utf-8")


def cells(title: str) -> set[str]:
    """The words in the first column of a section's table."""
    section = REFERENCE.split(f"## {title}\n")[1].split("\n## ")[0]
    return {
        word
        for line in section.splitlines()
        if line.startswith("| `")
        for word in re.findall("`([a-z_]+)`", line.split("|")[1])
    }


def test_every_outcome_is_in_the_reference() -> None:
    assert cells("Outcomes") == {outcome.value for outcome in Outcome}


def test_every_kind_of_change_is_in_the_reference() -> None:
    assert cells("Changes") == {kind.value for kind in ChangeKind}


def test_every_reason_is_in_the_reference() -> None:
    [reasons] = re.findall(r"\*\*Reasons\*\*: (.*?)\n\n", REFERENCE, flags=re.DOTALL)
    assert set(re.findall("`([a-z_]+)`", reasons)) == {*_SENTENCES, *WITHHOLD, "idle_unverified"}
