"""The burn-down: points of stored answers, gaps where nobody looked, flow by poll."""

from __future__ import annotations

from datetime import timedelta

from app.drains.burndown import FlowCount, Gap, burn_point, find_gaps, sum_flow
from app.drains.dispositions import Disposition
from app.drains.jsonable import to_jsonable
from app.drains.verdicts import decide
from tests.unit.builders import HOUR, MINUTE, NOW, evidence

D = Disposition


def test_a_point_counts_what_blocks_and_what_is_unknown_of_the_whole_population() -> None:
    counts = {D.PARKED_AT_TARGET: 3, D.STRANDED: 1, D.UNREAD: 2, D.UNAFFECTED: 10, D.GONE: 4, D.WAIVED: 5}
    point = burn_point(to_jsonable(decide(evidence(dispositions=counts), NOW)), NOW)
    assert (point.blocking, point.unknown, point.size, point.verdict) == (4, 2, 25, "blocked")


def test_a_gap_is_where_no_complete_look_was() -> None:
    looks = [NOW, NOW + MINUTE, NOW + 2 * HOUR, NOW + 2 * HOUR + MINUTE]
    found = find_gaps(looks, since=NOW - HOUR, until=NOW + 4 * HOUR, longest=timedelta(minutes=2))
    assert found == (Gap(NOW + MINUTE, NOW + 2 * HOUR), Gap(NOW + 2 * HOUR + MINUTE, NOW + 4 * HOUR))


def test_nobody_ever_looked_is_one_gap() -> None:
    assert find_gaps([], since=NOW, until=NOW + HOUR, longest=MINUTE) == (Gap(NOW, NOW + HOUR),)


def test_the_flow_of_all_nodes_adds_up_by_poll() -> None:
    counts = [
        FlowCount(NOW, 1, 2, {"completed": 1}, True),
        FlowCount(NOW, 1, 1, {"completed": 1, "lost": 1}, True),
        FlowCount(NOW + MINUTE, 2, 0, {"abandoned": 3}, False),
    ]
    found = sum_flow(counts)
    assert [(one.poll, one.arrived, dict(one.left)) for one in found] == [
        (1, 3, {"completed": 2, "lost": 1}),
        (2, 0, {"abandoned": 3}),
    ]
