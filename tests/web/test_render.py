"""Filters and paths: the small words of every page."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from jinja2 import StrictUndefined, UndefinedError

from app.drains.dispositions import Disposition
from app.facts.types import Condition
from app.web import paths, words
from app.web.filters import ThreadQuery
from app.web.render import TEMPLATES, duration, make_environment, moment, plural, short_id, text, ticks, without_indents
from tests.web.fakes import NOW, thread_id


def test_indents_go_but_not_where_text_is_verbatim() -> None:
    html = "<p>\n   a  b\n\n  <b>c</b></p><pre><code>x\n  y</code></pre>\n  <textarea>\n  z\n</textarea>  \n </p>"
    expected = "<p>\na  b\n<b>c</b></p><pre><code>x\n  y</code></pre>\n<textarea>\n  z\n</textarea>\n</p>"
    assert without_indents(html) == expected


def said(template: str, **context: object) -> str:
    return make_environment().from_string(template).render(now=NOW, **context)


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=14), "14 s ago"),
        (timedelta(minutes=22, seconds=59), "22 min ago"),
        (timedelta(hours=3, minutes=10), "3 h ago"),
        (timedelta(days=2), "2 d ago"),
        (timedelta(days=17), "3 May"),
        (timedelta(days=300), "24 Jul 2025"),
        (-timedelta(minutes=12), "in 12 min"),
    ],
)
def test_times_are_relative_and_old_ones_are_dates(ago: timedelta, words: str) -> None:
    assert said("{{ t|ago }}", t=NOW - ago) == words


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(minutes=18), "14:02 UTC"),
        (timedelta(days=2, hours=4), "18 May, 10:20"),
        (timedelta(days=17), "3 May"),
        (timedelta(days=300), "24 Jul 2025"),
    ],
)
def test_since_is_followed_by_a_clock_time_or_a_date(ago: timedelta, words: str) -> None:
    assert said("{{ t|clock }}", t=NOW - ago) == words


def test_the_exact_time_is_in_the_title() -> None:
    assert said("{{ t|exact }} {{ t|iso }}", t=NOW) == "20 May 2026, 14:20:30 UTC 2026-05-20T14:20:30Z"


@pytest.mark.parametrize(
    ("sentence", "html"),
    [
        ("waits at `a`", "waits at <code>a</code>"),
        ("`<b>` & `c`", "<code>&lt;b&gt;</code> &amp; <code>c</code>"),
        ("odd ` tick <i>", "odd ` tick &lt;i&gt;"),
        ("", ""),
    ],
)
def test_backticks_mean_monospace_and_all_else_is_escaped(sentence: str, html: str) -> None:
    assert str(ticks(sentence)) == html


def test_ids_are_shortened_in_the_middle_and_lose_nothing() -> None:
    whole = thread_id(9)
    assert short_id(whole)[0] == "01a22be7"
    assert "".join(short_id(whole)) == whole
    assert short_id("short") == ("short", "", "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(45, "45 s"), (720, "12 min"), (4800, "1 h 20 min"), (3600, "1 h"), (187200, "2 d 4 h"), (0, "0 s")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_numbers_and_values_are_said_in_full() -> None:
    assert plural(1, "thread") == "1 thread"
    assert plural(1234, "thread") == "1,234 threads"
    assert text({"region": "eu", "tier": ["a", "b"]}) == "region = eu, tier = a, b"
    assert (text(None), text(True), text({})) == ("any", "yes", "none")
    assert text(NOW) == "20 May 2026, 14:20:30 UTC"


def test_only_times_are_taken_for_times() -> None:
    assert moment("2026-05-20T14:20:30Z") == NOW
    assert moment("interrupted") is None
    assert moment(NOW) is None


@pytest.mark.parametrize(
    ("api", "page"),
    [
        ("/api/v1/deployments/a/threads?condition=lost", "/deployments/a/threads?condition=lost"),
        ("/api/v1/drains/d/threads?disposition=lost", "/drains/d?disposition=lost#threads"),
        ("/api/v1/drains/d/threads", "/drains/d#threads"),
        ("/api/v1/deployments/a/deploys/7", "/deployments/a/deploys/7"),
        ("/api/v1/drains/d/history", "/api/v1/drains/d/history"),
    ],
)
def test_a_path_of_the_api_has_its_page(api: str, page: str) -> None:
    assert paths.page_path(api) == page


def test_a_filter_is_toggled_and_the_place_forgotten() -> None:
    asked = ThreadQuery({"status": ("idle", "busy")}, sort="created_at", cursor="abc")
    assert asked.toggled("status", "idle") == "?status=busy&sort=created_at"
    assert asked.toggled("pending", "a/b&c") == "?status=idle&status=busy&pending=a/b%26c&sort=created_at"
    assert asked.href(cursor="next") == "?status=idle&status=busy&sort=created_at&cursor=next"
    assert ThreadQuery({"status": ("idle",)}).toggled("status", "idle") == "?"


def test_every_template_compiles_and_none_switches_escaping_off() -> None:
    environment = make_environment()
    assert environment.undefined is StrictUndefined
    for file in sorted(TEMPLATES.glob("*.html")):
        environment.get_template(file.name)
        source = file.read_text()
        assert "|safe" not in source.replace(" ", "")
        assert "autoescape" not in source


def test_a_missing_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UndefinedError):
        make_environment(static_dir=tmp_path).from_string("{{ nobody_knows }}").render()


def test_every_condition_and_disposition_has_its_words() -> None:
    assert set(words.CONDITIONS) == set(Condition)
    known = {name: group for group, members in words.DISPOSITIONS.items() for name in members}
    assert known == {each.value: each.group for each in Disposition}


def test_every_action_that_is_noted_has_words() -> None:
    sources = [
        file.read_text()
        for folder in ("drains", "jobs", "auth")
        for file in (TEMPLATES.parent / "app" / folder).rglob("*.py")
    ]
    noted = {
        name
        for text in sources
        for name in re.findall(r'"((?:wait|topology|token|drain|waiver|evidence)\.[a-z]+)"', text)
    }
    assert {"wait.begun", "topology.pushed", "drain.closed"} <= noted
    assert noted <= set(words.ACTIONS)
