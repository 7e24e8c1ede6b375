"""The evidence report of a thread, as it is pasted into a ticket."""

from app.drains.evidence_markdown import to_markdown
from tests.web.fakes import NOW, evidence, missing, thread_id


def test_yes_and_no_are_words() -> None:
    told = to_markdown(evidence(thread_id(1), deploys=()), NOW)
    assert "| stuck | no |" in told
    assert "False" not in told


def test_of_a_thread_that_was_not_found_no_fact_is_told() -> None:
    told = to_markdown(missing("unknown-id"), NOW)
    assert "Neither the inventory" in told
    assert "### Facts" not in told
