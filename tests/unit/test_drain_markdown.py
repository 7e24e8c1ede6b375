"""A drain as Markdown, and what to do about what blocks."""

from dataclasses import replace

import pytest

from app.drains.answers import TargetAnswer
from app.drains.dispositions import Disposition
from app.drains.drain_markdown import to_markdown
from app.drains.next_steps import next_step_of
from tests.web.fakes import NOW, blocked, drained

NODE = TargetAnswer("node", "await_approval", True, 1)
RENAME = TargetAnswer("rename", "customer_name->display_name", None, 1)


def test_the_verdict_comes_first_and_what_is_left_has_its_next_step() -> None:
    found = to_markdown(blocked(), NOW)
    lines = found.splitlines()
    assert lines[0] == "## Drain `drop-await-approval`: blocked"
    assert lines[2].startswith("**12 threads still wait")
    assert "| `await_approval` | parked at target | 9 | Answer each: it then goes on from `await_approval`. |" in lines
    assert "| `await_approval` | stranded | 3 |" in found
    assert "refunds (9), no assistant (3)" in found
    assert "- traces stale: " in found


def test_a_drained_one_says_of_how_many_nothing_blocks() -> None:
    answer = replace(drained(), reasons=())
    found = to_markdown(answer, NOW)
    assert "Nothing blocks, of 60 threads." in found
    assert "| goes stale | " in found


def test_a_name_with_a_bar_breaks_no_table() -> None:
    odd = replace(blocked(), owner="a | b\nc")
    assert "| owner | a \\| b c |" in to_markdown(odd, NOW)


@pytest.mark.parametrize("found", [each for each in Disposition if each.group == "blocking"])
@pytest.mark.parametrize("target", [NODE, RENAME])
def test_there_is_a_next_step_for_all_that_blocks(found: Disposition, target: TargetAnswer) -> None:
    step = next_step_of(target, found.value)
    assert step.endswith(".")
    assert "{" not in step


def test_each_kind_of_target_has_its_own_step_for_an_old_field() -> None:
    kinds = [TargetAnswer(kind, "f", None, 1) for kind in ("rename", "remove", "erase")]
    steps = {next_step_of(each, "holds_old_field") for each in kinds}
    assert len(steps) == 3
    assert "Look at each." not in steps
