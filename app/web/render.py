"""The Jinja environment, the filters, and how a page or its live part becomes a response."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from jinja2_fragments import render_block
from markupsafe import Markup, escape

from app.clock import utc_now
from app.drains.answers import Actor
from app.places import STATIC, TEMPLATES
from app.rights import Caller
from app.web import contexts, paths, words
from app.web.contexts import ErrorPage, Page, SignInPage
from app.web.forms import Form
from app.web.graph_picture import REMOVED_LABEL

LIVE_BLOCK = "live"
NOTICE_BLOCK = "notice"

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

MINUTE, HOUR, DAY = 60, 3600, 86400
AGO_UNTIL = 14 * DAY
LONGEST_WHOLE_ID = 18

_UNIT = re.compile(r"(?<=\d) (?=(?:s|min|h|d)\b)")
_VERBATIM = re.compile(r"(<pre\b.*?</pre>|<textarea\b.*?</textarea>)", re.DOTALL)
_INDENT = re.compile(r"\s*\n\s*")
_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_PART = re.compile(r'<(table|thead|tbody|tr|td|th scope="col"|th scope="row")(?=[\s>])')
_ROLES = {
    "table": "table",
    "thead": "rowgroup",
    "tbody": "rowgroup",
    "tr": "row",
    "td": "cell",
    'th scope="col"': "columnheader",
    'th scope="row"': "rowheader",
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


class Pages:
    """Renders contexts. One for the whole process: templates and the names of static files are read once."""

    def __init__(
        self,
        *,
        version: str,
        open_notice: bool = False,
        clock: Callable[[], datetime] = utc_now,
        templates_dir: Path = TEMPLATES,
        static_dir: Path = STATIC,
    ) -> None:
        self._clock = clock
        self._common = {"version": version, "open_notice": open_notice}
        self._environment = make_environment(templates_dir, static_dir)

    def respond(self, request: Request, page: Page, *, status: int = 200) -> HTMLResponse:
        """The whole page, or its live part when htmx asks for that."""
        return self._respond(request, page, status=status, block=LIVE_BLOCK)

    def respond_error(self, request: Request, page: ErrorPage) -> HTMLResponse:
        """An error page. When htmx asked, a notice above the last good content, which stays."""
        response = self._respond(request, page, status=page.status, block=NOTICE_BLOCK)
        if is_partial(request):
            response.headers["HX-Retarget"] = "#live-notice"
            response.headers["HX-Reswap"] = "innerHTML"
        return response

    def _respond(self, request: Request, page: Page, *, status: int, block: str) -> HTMLResponse:
        html = self.render(
            page, url=_url(request), block=block if is_partial(request) else None, caller=_caller(request)
        )
        headers = {**SECURITY_HEADERS, "Vary": "HX-Request-Type, Cookie", "Cache-Control": "no-store"}
        return HTMLResponse(html, status, headers)

    def render(self, page: Page, *, url: str, block: str | None = None, caller: str | None = None) -> str:
        """A context as HTML. ``block``: only that block of its template."""
        context: dict[str, Any] = {each.name: getattr(page, each.name) for each in fields(page)}
        context |= self._common | {
            "now": self._clock(),
            "url": url,
            "caller": caller,
            "shows_places": not isinstance(page, SignInPage),
        }
        # The macros are made with the page's `now`; a block alone would skip the page's own imports.
        context["ui"] = self._environment.get_template("ui.html").make_module(context)
        if block:
            html = str(render_block(self._environment, page.template, block, context))
        else:
            html = self._environment.get_template(page.template).render(context)
        return with_table_roles(without_indents(html))


def without_indents(html: str) -> str:
    """The same page a quarter smaller. What is written as it shall be read stays."""
    parts = _VERBATIM.split(html)
    return "".join(part if place % 2 else _INDENT.sub("\n", part) for place, part in enumerate(parts))


def with_table_roles(html: str) -> str:
    """The same page with the role of each part of its tables written out.

    On a phone a row becomes a paragraph (``display``), and Safari then forgets that it was one of a table.
    """
    return _TABLE.sub(lambda table: _PART.sub(_with_role, table[0]), html)


def _with_role(part: re.Match[str]) -> str:
    return f'<{part[1]} role="{_ROLES[part[1]]}"'


def _caller(request: Request) -> str | None:
    """Who is signed in; None: nobody has to, or nobody is known yet."""
    found: Caller | None = getattr(request.state, "caller", None)
    return None if found is None else found.name


def is_partial(request: Request) -> bool:
    """htmx asks for a part of the page. Its history and boosted requests ask for all of it."""
    return request.headers.get("hx-request-type") == "partial"


def make_environment(templates_dir: Path = TEMPLATES, static_dir: Path = STATIC) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_dir),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ago=ago,
        age=age,
        clock=clock,
        exact=exact,
        day=day,
        moment=moment,
        iso=iso,
        duration=duration,
        short_id=short_id,
        count=count,
        plural=plural,
        ticks=ticks,
        text=text,
        plain=words.plain,
        tone=words.tone,
        condition_meaning=words.condition_meaning,
        disposition_meaning=words.disposition_meaning,
        disposition_group=words.disposition_group,
        left_of=words.left_of,
        page_path=paths.page_path,
    )
    environment.globals.update(
        deployment_path=paths.deployment_path,
        threads_path=paths.threads_path,
        thread_path=paths.thread_path,
        markdown_path=paths.markdown_path,
        deploy_path=paths.deploy_path,
        preflight_path=paths.preflight_path,
        drain_path=paths.drain_path,
        actor=Actor,
        drain_threads_path=paths.drain_threads_path,
        drain_markdown_path=paths.drain_markdown_path,
        drain_json_path=paths.drain_json_path,
        answers_path=paths.answers_path,
        json_path=paths.json_path,
        studio_path=paths.studio_path,
        silent_source=contexts.silent_source,
        removed_label=REMOVED_LABEL,
        words=words,
        no_form=Form(),
        asset=_assets(static_dir),
    )
    return environment


def short_id(value: str) -> tuple[str, str, str]:
    """An id in three parts: what to show, what to hide until it is copied, what to show."""
    if len(value) <= LONGEST_WHOLE_ID:
        return value, "", ""
    return value[:8], value[8:-4], value[-4:]


def count(number: int) -> str:
    """``48,210``."""
    return f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 thread``, ``1,234 threads``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def exact(moment: datetime) -> str:
    """``3 May 2026, 09:12:04 UTC``."""
    utc = moment.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y, %H:%M:%S} UTC"


def day(moment: datetime) -> str:
    """``3 May, 09:12``."""
    utc = moment.astimezone(UTC)
    return f"{utc.day} {utc:%b, %H:%M}"


@pass_context
def ago(context: Context, moment: datetime) -> str:
    """``14 s ago``, ``in 12 min``; a date when it is more than two weeks away."""
    now: datetime = context["now"]
    seconds = (now - moment).total_seconds()
    if abs(seconds) > AGO_UNTIL:
        utc = moment.astimezone(UTC)
        return f"{utc.day} {utc:%b}" if utc.year == now.year else f"{utc.day} {utc:%b %Y}"
    if abs(seconds) < 1:
        return "just now"
    return f"{_rough(seconds)} ago" if seconds > 0 else f"in {_rough(-seconds)}"


@pass_context
def age(context: Context, moment: datetime) -> str:
    """How old, without "ago": ``14 s``."""
    now: datetime = context["now"]
    return _rough(max(0.0, (now - moment).total_seconds()))


@pass_context
def clock(context: Context, moment: datetime) -> str:
    """What follows "since": ``14:02 UTC`` today, ``18 May, 14:02`` within two weeks, else a date."""
    now: datetime = context["now"]
    utc = moment.astimezone(UTC)
    if utc.date() == now.astimezone(UTC).date():
        return f"{utc:%H:%M} UTC"
    day = f"{utc.day} {utc:%b}" if utc.year == now.year else f"{utc.day} {utc:%b %Y}"
    return f"{day}, {utc:%H:%M}" if (now - moment).total_seconds() < AGO_UNTIL else day


def moment(value: object) -> datetime | None:
    """The time that a text of a report holds, if it is one."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return None
    return datetime.fromisoformat(value)


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``1 h 20 min``, ``2 d 4 h``."""
    seconds = int(seconds)
    for size, unit, part, part_unit in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min")):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit} {rest} {part_unit}" if rest else f"{seconds // size} {unit}"
    return f"{seconds // MINUTE} min" if seconds >= MINUTE else f"{seconds} s"


def ticks(sentence: str) -> Markup:
    """A sentence with `` `names` `` in monospace; all of it escaped. An odd backtick stays what it is.

    A number stays on one line with its unit of time.
    """
    parts = re.split(r"`([^`]+)`", _UNIT.sub("\N{NO-BREAK SPACE}", sentence))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


def text(value: object) -> str:
    """A value of a population's definition, as one would say it."""
    if isinstance(value, datetime):
        return exact(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {text(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(text(each) for each in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "any" if value is None else str(value)


def _rough(seconds: float) -> str:
    if seconds < MINUTE:
        return f"{int(seconds)} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min"
    if seconds < 2 * DAY:
        return f"{int(seconds // HOUR)} h"
    return f"{int(seconds // DAY)} d"


def _assets(static_dir: Path) -> Callable[[str], str]:
    """The URL of a static file with a part of its hash, so that a new release is never shown with old looks."""
    known: dict[str, str] = {}

    def asset(name: str) -> str:
        if name not in known:
            file = static_dir / name
            stamp = hashlib.sha256(file.read_bytes()).hexdigest()[:10] if file.is_file() else "missing"
            known[name] = f"/static/{name}?v={stamp}"
        return known[name]

    return asset


def _url(request: Request) -> str:
    """Path and query as the browser asked for them: the live part asks again."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    path = raw.decode("latin-1").partition("?")[0]
    return f"{path}?{request.url.query}" if request.url.query else path
