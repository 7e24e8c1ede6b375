"""Asks LangSmith for runs of nodes, politely, and hands out facts. Reads only.

Ids, names, times, status and thread ids are selected, nothing else; what comes back beyond that is dropped. Methods raise
``SourceError`` with a sentence that quotes nothing of the answer, or ``Throttled`` with the seconds to wait.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import orjson

from app.errors import SourceError, Throttled
from app.facts.raw import in_utc
from app.facts.traces import TracedRun
from app.sources.langsmith.reduce import Malformed, filter_of, reduce_run

PAGE = 1000
OLD_PAGE = 100
MAX_RUNS = 100_000  # that one question reads
SELECTS = ("ID", "NAME", "STATUS", "START_TIME", "END_TIME", "THREAD_ID", "TRACE_ID")
NO_PROJECT = "no_project"
TOO_OLD = "backend_too_old"
_NEW = (0, 16)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Project:
    """A tracing project. ``url``: its page; ``is_old``: the backend has no query of the second kind."""

    id: str
    url: str | None
    began_at: datetime
    is_old: bool


class After(StrEnum):
    """What follows a page: another one, nothing, or one that the backend did not lead to."""

    MORE = "more"
    NOTHING = "nothing"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RunPage:
    """One page of runs. ``is_whole``: each of its runs made sense."""

    runs: tuple[TracedRun, ...]
    is_whole: bool
    after: After


class LangSmith:
    """One deployment's tracing project. Call ``aclose`` at the end."""

    def __init__(
        self, *, deployment: str, project: str, endpoint: str | None, api_key: str | None, web_url: str | None = None
    ) -> None:
        from langsmith import Client  # a third of the time of a start, which most deployments do without
        from langsmith.schemas import LangSmithInfo

        self._deployment = deployment
        self._project = project
        self._client = Client(
            endpoint,
            api_key=api_key or "none",  # the SDK insists on one
            web_url=web_url,
            timeout_ms=(5_000, 60_000),
            auto_batch_tracing=False,
            info=LangSmithInfo(),  # asked for below, where a failure is seen
            profile_config_path=os.devnull,  # no credentials but the ones that the settings name
        )
        self._client.session.max_redirects = 0  # the key must not follow to another host
        for adapter in self._client.session.adapters.values():
            adapter.max_retries = 0  # type: ignore[attr-defined]  # the next poll asks again
        self.requests = 0

    async def open(self) -> Project:
        """Find the project by its name."""
        info = await self._ask(lambda: self._client.request_with_retries("GET", "/info").json())
        found = await self._ask(lambda: self._client.read_project(project_name=self._project))
        if (began_at := in_utc(found.start_time)) is None:
            raise self._nonsense()
        return Project(str(found.id), found.url, began_at, _is_old(info))

    async def pages(
        self, project: Project, names: Iterable[str], *, exact: bool, since: datetime, until: datetime
    ) -> AsyncIterator[RunPage]:
        """Runs of these nodes that began in the window, newest first, page by page to the end, or to ``MAX_RUNS``."""
        wanted = frozenset(names)
        expression = filter_of(wanted, exact=exact)
        ask = self._old_pages if project.is_old else self._new_pages
        count, size = 0, OLD_PAGE if project.is_old else PAGE
        async for items, is_last in ask(project.id, expression, since, until):
            count += len(items)
            is_lost = len(items) >= size if is_last else not items  # a full page without a cursor is no end
            yield _reduced(items, wanted, After.LOST if is_lost else After.NOTHING if is_last else After.MORE)
            if is_lost or count >= MAX_RUNS:
                return

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client._get_langsmith_api().close()
        self._client.session.close()

    async def _new_pages(
        self, project_id: str, expression: str, since: datetime, until: datetime
    ) -> AsyncIterator[tuple[list[Mapping[str, Any]], bool]]:
        api = self._client._get_langsmith_api()  # its HTTP client follows redirects and repeats by default
        api._client.follow_redirects = False
        api.max_retries = 0
        try:
            self.requests += 1
            page = await self._client.runs.query(
                project_ids=[project_id],
                filter=expression,
                min_start_time=since,
                max_start_time=until,
                selects=list(SELECTS),  # type: ignore[arg-type]
                page_size=PAGE,
            )
            while True:
                items = getattr(page, "items", None)
                if not isinstance(items, list):
                    raise self._nonsense()
                is_last = self._following(getattr(page, "next_cursor", None)) is None
                yield [_fields(item) for item in items], is_last
                if is_last:
                    return
                self.requests += 1
                page = await page.get_next_page()
        except SourceError:
            raise
        except Exception as error:  # noqa: BLE001 - the SDK raises of several families, and what a broken answer breaks
            raise self._failure(error) from None

    async def _old_pages(
        self, project_id: str, expression: str, since: datetime, until: datetime
    ) -> AsyncIterator[tuple[list[Mapping[str, Any]], bool]]:
        """``list_runs`` of backends before 0.16, page by page: the SDK's own iterator does not tell how it ended."""
        body: dict[str, Any] = {
            "session": [project_id],
            "filter": expression,
            "start_time": since.isoformat(),
            "end_time": until.isoformat(),
            "select": [name.lower() for name in SELECTS],
            "limit": OLD_PAGE,
        }
        while True:
            sent = orjson.dumps(body)
            answer = await self._ask(
                lambda sent=sent: self._client.request_with_retries(  # type: ignore[misc]
                    "POST", "/runs/query", request_kwargs={"data": sent}
                ).json()
            )
            items = answer.get("runs") if isinstance(answer, dict) else None
            if not isinstance(items, list):
                raise self._nonsense()
            cursors = answer.get("cursors")
            following = self._following(cursors.get("next") if isinstance(cursors, dict) else cursors)
            yield [item if isinstance(item, dict) else {} for item in items], following is None
            if following is None:
                return
            body["cursor"] = following

    def _following(self, cursor: object) -> str | None:
        """The cursor of the next page; None: this one is the last. What is no cursor is no end either."""
        if cursor is None or isinstance(cursor, str):
            return cursor or None
        raise self._nonsense()

    async def _ask(self, call: Callable[[], Found]) -> Found:
        """One request of the SDK's blocking half."""
        self.requests += 1
        try:
            return await asyncio.to_thread(call)
        except Exception as error:  # noqa: BLE001 - see above
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> SourceError:
        from langsmith.utils import LangSmithAuthError, LangSmithNotFoundError, LangSmithRateLimitError

        status = getattr(error, "status_code", None)
        if isinstance(error, LangSmithRateLimitError) or status == 429:
            return Throttled(f"LangSmith asked {self._deployment} to slow down. The next polls go on by themselves.")
        if isinstance(error, LangSmithNotFoundError) and "Project" in str(error):
            return SourceError(
                f"LangSmith has no project with the name that the settings give for {self._deployment}. "
                "Correct langsmith.project, or check that the key belongs to its workspace.",
                code=NO_PROJECT,
            )
        if isinstance(error, LangSmithAuthError) or status in (401, 403):
            return SourceError(f"LangSmith refuses the key of {self._deployment}. Check langsmith.api_key_env.")
        if isinstance(error, LangSmithNotFoundError) or status in (404, 405, 501):
            return SourceError(
                f"The tracing backend of {self._deployment} cannot be asked for runs: it is too old, or langsmith.endpoint "
                "is not its address.",
                code=TOO_OLD,
            )
        if status is not None and 400 <= status < 500:
            return SourceError(f"LangSmith refuses what {self._deployment} asks (status {status}).")
        if isinstance(error, ValueError | TypeError | AttributeError | KeyError):
            return self._nonsense()
        return SourceError(
            f"LangSmith does not answer for {self._deployment}. Check langsmith.endpoint and the network; "
            "the next polls try again."
        )

    def _nonsense(self) -> SourceError:
        return SourceError(
            f"What answers as LangSmith for {self._deployment} does not speak its language. Check langsmith.endpoint: "
            "it may be a proxy or a sign-in page."
        )


def _reduced(items: list[Mapping[str, Any]], names: frozenset[str], after: After) -> RunPage:
    runs, is_whole = [], True
    for item in items:
        try:
            if (run := reduce_run(item, names)) is not None:
                runs.append(run)
        except Malformed:
            is_whole = False
    return RunPage(tuple(runs), is_whole, after)


def _fields(item: object) -> dict[str, Any]:
    """What was asked for, of an object of the SDK."""
    return {name.lower(): getattr(item, name.lower(), None) for name in SELECTS}


def _is_old(info: object) -> bool:
    version = info.get("version") if isinstance(info, dict) else None
    parts = _VERSION.match(version) if isinstance(version, str) else None
    return parts is not None and (int(parts[1]), int(parts[2])) < _NEW
