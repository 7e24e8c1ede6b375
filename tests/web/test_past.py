"""What an old answer says of itself: as of then, and never as if it were said now."""

from datetime import UTC, datetime, timedelta

from app.inventory.evaluations import StoredAnswer
from app.web.past import past_answers, past_detail

AT = datetime(2026, 5, 3, 9, 12, 4, tzinfo=UTC)
AS_OF = AT - timedelta(seconds=2)
SWEPT = "52 threads looked at, the last complete sweep 1 h 20 min ago."
RAW = {
    "headline": "Nothing needs `old`. Held for 7 s over 1 complete sweep. Checked 2 s ago.",
    "next_step": "Remove `old`, and keep this drain until the deploy is through.",
    "population": {"size": 52, "as_of": AS_OF.isoformat()},
    "checks": [{"name": "sweep", "status": "pass", "sentence": SWEPT, "as_of": AS_OF.isoformat()}],
    "reasons": [{"code": "x", "verdict": "drained", "sentence": "`old_ago` was entered, the last one 3 d ago."}],
}


def test_an_old_answer_says_when_it_was_checked_and_tells_no_age_as_of_now() -> None:
    stored = StoredAnswer(7, AT, "drained", 1, RAW)
    found = past_detail(stored)
    assert found.headline.endswith("Held for 7 s over 1 complete sweep. Checked on 3 May 2026 at 09:12:02 UTC.")
    assert found.next_step == RAW["next_step"]
    assert found.checks[0].sentence == SWEPT.replace(" ago", " earlier")
    assert found.reasons[0].sentence == "`old_ago` was entered, the last one 3 d earlier."
    [short] = past_answers([StoredAnswer(7, AT, "drained", 1, {**RAW, "reasons": []})])
    assert short.sentence == found.headline


def test_an_answer_that_does_not_say_when_it_looked_was_checked_when_it_was_given() -> None:
    stored = StoredAnswer(7, AT, "drained", 1, {"headline": "Nothing needs `old`. Checked 0 s ago."})
    assert past_detail(stored).headline == "Nothing needs `old`. Checked on 3 May 2026 at 09:12:04 UTC."
