"""The burn-down: points of stored answers, gaps where nobody looked, flow by poll."""

from __future__ import annotations

import re
from datetime import timedelta

from app.drains.burndown import BurnDown, BurnPoint, FlowCount, Gap, burn_point, find_gaps, sum_flow
from app.drains.dispositions import Disposition
from app.drains.jsonable import to_jsonable
from app.drains.verdicts import decide
from app.web.burndown_picture import draw_burndown, say_burndown
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


def series(*counts: int, came: int = 0, left: int = 0, gaps: tuple[Gap, ...] = ()) -> BurnDown:
    """One answer an hour, up to now."""
    since = NOW - len(counts) * HOUR
    points = tuple(BurnPoint(since + at * HOUR, "blocked", count, 0, 40, 1) for at, count in enumerate(counts))
    flow = (FlowCount(since, 1, came, {"completed": left}, True),)
    return BurnDown("drop-it", since, NOW, points, flow, gaps, ())


def test_the_words_name_an_end_only_where_more_leave_than_come() -> None:
    assert "none is left in about 4 h" in say_burndown(series(20, 10, came=0, left=5))
    assert "no end in sight" in say_burndown(series(20, 10, came=5, left=5))
    assert "about" not in say_burndown(series(20, 0, came=0, left=20))


def test_the_words_say_for_how_long_nobody_looked() -> None:
    assert "For 30 min nobody looked." in say_burndown(series(3, 3, gaps=(Gap(NOW - HOUR, NOW - HOUR / 2),)))


def test_the_line_stops_where_nobody_looked_and_goes_on_after_it() -> None:
    whole = draw_burndown(series(4, 2))
    gapped = draw_burndown(series(4, 2, gaps=(Gap(NOW - 1.5 * HOUR, NOW - 0.5 * HOUR),)))
    assert whole is not None
    assert gapped is not None
    assert (whole.blocking.count("M"), gapped.blocking.count("M")) == (1, 2)
    assert [float(x) for x in re.findall(r"H([0-9.]+)", gapped.blocking)] == [211.0, 712.0]


def test_there_is_no_picture_without_an_answer() -> None:
    assert draw_burndown(series()) is None


def test_a_drain_that_is_new_fills_its_picture() -> None:
    found = series(3)
    new = BurnDown(found.drain, NOW - 168 * HOUR, NOW, (BurnPoint(NOW - HOUR, "blocked", 3, 0, 4, 1),), (), (), ())
    picture = draw_burndown(new)
    assert picture is not None
    assert (picture.since, picture.blocking) == (NOW - HOUR, "M44.0 12.0H712.0")
