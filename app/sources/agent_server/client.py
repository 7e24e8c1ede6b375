"""Asks the Agent Server, politely, and hands out facts. Reads only.

Every method raises ``SourceError`` with a sentence that says what to do and quotes nothing of the answer, or
``Throttled`` when the server keeps asking to slow down. A thread's own failure is an outcome, not an exception.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

import httpx
import orjson
import stamina

from app.clock import monotonic
from app.errors import SourceError, Throttled
from app.facts.topology import UNREADABLE, unreadable_topology
from app.facts.types import CheckpointFacts, RowFacts, RunFacts, StateFacts, StateFailure, StorageFacts, Topology
from app.sources.agent_server.lanes import client_of, transport_of
from app.sources.agent_server.observed import Observed, SortBy
from app.sources.agent_server.pace import Pace
from app.sources.agent_server.reduce import (
    Malformed,
    Reading,
    reduce_assistant_id,
    reduce_drawing,
    reduce_durability,
    reduce_ended,
    reduce_expiry,
    reduce_graph,
    reduce_graph_id,
    reduce_history,
    reduce_last_run,
    reduce_row,
    reduce_runs,
    reduce_state,
    reduce_storage,
)

ROW_FIELDS = [
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "status",
    "values",
    "interrupts",
]
MAX_ASSISTANTS = 100  # a page; some servers refuse more
SMALLER_PAGES = (100, 10)  # for a server that refuses larger ones
PAGE_BYTES = 8_000_000  # a page is made smaller when rows are large
LEAST_ROWS = 10
MAX_NAMES = 500
MOST_ROWS = 1000
MAX_HISTORY = 200
HISTORY_PAGE = 10
NEWEST_RUNS = 10
STOPPED = "stopped"  # the code of the failure after ``stop``
_GRAPH_NOT_FOUND = re.compile(r"^(Graph .{1,300} not found|.{0,200}: Graph not found: )", re.DOTALL)
_NAMES_A_THREAD = re.compile(r"(?<![/\w])thread(?!s)", re.IGNORECASE)  # not as a part of an address, as gateways do
_THREAD_NOT_FOUND = re.compile(r"^Thread\b", re.DOTALL)
# Pending first: a run that starts between the two questions is then in both answers, not in neither.
_ACTIVE: tuple[Literal["running", "pending"], ...] = ("pending", "running")
_PASSING = frozenset({408, 425, 502, 503, 504})
_NOT_UNDERSTOOD = frozenset({400, 422})
_ATTEMPTS = 4
_LONGEST_WAIT = 30.0
_FAILED_IN_A_ROW = 20  # state calls: then it is the server and not the threads


@dataclass(frozen=True, slots=True)
class RowPage:
    """One page of ``threads.search``. ``size`` counts what the server sent, ``malformed`` what could not be read."""

    rows: tuple[RowFacts, ...]
    size: int
    malformed: int


@dataclass(frozen=True, slots=True)
class Assistant:
    """An assistant whose drawing stands for a graph under one configuration (a keyed hash of it).

    ``edited_at``: the server's own ``updated_at``, which also moves when the server starts.
    """

    graph_id: str
    assistant_id: str
    config: str = ""
    edited_at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Deployed:
    """The graphs that are deployed, one assistant for each, and the names of assistants by id (bounded).

    ``others``: one more assistant for each further configuration of a graph, since a graph may be made from it.
    """

    graphs: tuple[Assistant, ...]
    names: Mapping[str, str]
    others: tuple[Assistant, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What ``/info`` says; None where the server does not say."""

    version: str | None
    langgraph_version: str | None


class AgentServer:
    """One deployment's Agent Server. Use as an async context manager, or call ``aclose``."""

    def __init__(
        self,
        *,
        name: str,
        url: str,
        api_key: str | None,
        reading: Reading,
        requests_per_minute: int,
        concurrency: int,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._name = name
        self._url = url
        self.reading = reading
        headers = {"User-Agent": "drainboard"} | ({"x-api-key": api_key} if api_key else {})
        self._http = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=httpx.Timeout(connect=5, read=60, write=30, pool=60),
            follow_redirects=False,
            transport=transport or transport_of(concurrency),
            event_hooks={"response": [self._weigh]},
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
        )
        self._client = client_of(self._http)
        self.pace = Pace(requests_per_minute, concurrency)
        self.requests = 0
        self.throttled = 0
        self._stopped = asyncio.Event()
        self._failed_in_a_row = 0
        self.has_storage: bool | None = None
        self.has_count: bool | None = None
        self.observed = Observed()
        self._selects = True
        self._most_rows = self._fitting_rows = MOST_ROWS
        self._page_bytes = 0
        self._graph_of_assistant: dict[str, str] = {}

    async def __aenter__(self) -> "AgentServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def stop(self) -> None:
        """Ask nothing more: what still wants to ask fails, so that a poll ends soon and on its own terms."""
        self._stopped.set()

    def look_anew(self) -> None:
        """Forget what the server was seen to do: a sweep finds out again, since it may have been replaced."""
        self.observed = Observed()
        self._selects, self._most_rows = True, MOST_ROWS
        self.has_storage = self.has_count = None
        self._graph_of_assistant.clear()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # -- the whole server ----------------------------------------------------------------------------------------

    async def info(self) -> ServerInfo:
        """Versions, where the server says them. Not having ``/info`` is no failure; not answering is."""
        try:
            raw = await self._ask(lambda: self._client.http.get("/info"))
        except _Refused:
            return ServerInfo(None, None)
        info = raw if isinstance(raw, dict) else {}
        return ServerInfo(_short(info.get("version")), _short(info.get("langgraph_py_version")))

    async def deployed(self) -> Deployed:
        """The graphs that are deployed, each with the server's own assistant, else the first by id."""
        chosen: dict[str, tuple[bool, str]] = {}
        names: dict[str, str] = {}
        configured: dict[tuple[str, str], Assistant] = {}
        seen: set[str] = set()
        offset = 0
        while True:
            page = await self._whole(partial(self._client.assistants.search, limit=MAX_ASSISTANTS, offset=offset))
            if not isinstance(page, list):
                raise self._nonsense()
            before = len(seen)
            for raw in page:
                if not _choose(chosen, names, raw):
                    raise self._nonsense()  # dropping it would read as a graph that is no longer deployed
                _keep_config(configured, raw, chosen[raw["graph_id"]][1], self.reading)
                seen.add(raw["assistant_id"])
            offset += len(page)
            new = len(seen) > before
            if len(page) < MAX_ASSISTANTS or not new:
                return _deployed(chosen, names, configured)

    async def topology(self, assistant: Assistant) -> Topology:
        """A graph as deployed now. One that cannot be drawn has no nodes that are known: it does not take others down."""
        client, one = self._client.assistants, assistant.assistant_id
        try:
            xray = await self._ask(lambda: client.get_graph(one, xray=True))
            plain = await self._ask(lambda: client.get_graph(one))
            schemas = await self._ask(lambda: client.get_schemas(one))
            subgraphs = await self._subgraphs(one)
            found = reduce_graph(assistant.graph_id, one, plain=plain, xray=xray, schemas=schemas, subgraphs=subgraphs)
            self.observed.note("drawing", works=True)
            self.observed.note("schemas", works=bool(found.fields))
            return found
        except (_Refused, Malformed):
            self.observed.note("drawing", works=False)
            return unreadable_topology(assistant.graph_id, one)

    async def _subgraphs(self, assistant_id: str) -> object:
        """The schemas of a graph's subgraphs, for ``reduce``; None where the server does not tell them."""
        try:
            raw = await self._ask(lambda: self._client.assistants.get_subgraphs(assistant_id, recurse=True))
        except (_Refused, _Passing, _Nonsense):
            raw = None
        self.observed.note("subgraphs", works=isinstance(raw, dict))
        return raw

    async def drawing_hash(self, assistant: Assistant) -> str:
        """The hash of the drawing with inner nodes: one request that tells whether a graph was deployed anew."""
        try:
            raw = await self._ask(lambda: self._client.assistants.get_graph(assistant.assistant_id, xray=True))
            return reduce_drawing(raw)
        except (_Refused, Malformed):
            return UNREADABLE

    # -- threads -------------------------------------------------------------------------------------------------

    async def page(self, *, sort_by: SortBy, descending: bool, offset: int, limit: int) -> RowPage:
        """One page of rows; it may be smaller than asked for. A row that cannot be read is counted, and the rest is kept.
        Raises ``SortRefused`` when the server does not sort that way."""
        raw, limit = await self._search(sort_by=sort_by, descending=descending, offset=offset, limit=limit)
        if not isinstance(raw, list):
            raise self._nonsense()
        rows = []
        for item in raw:
            try:
                rows.append(reduce_row(item, self.reading))
            except Malformed:
                continue
        self.observed.page(raw, asked=ROW_FIELDS, selected=self._selects, limit=limit)
        self.observed.order(sort_by, [getattr(row, sort_by) for row in rows], descending=descending)
        return RowPage(tuple(rows), len(raw), len(raw) - len(rows))

    async def _search(self, *, sort_by: SortBy, descending: bool, offset: int, limit: int) -> tuple[Any, int]:
        """Search with ``select``, without it where it is refused, and with smaller pages where large ones are."""
        while True:
            most = min(limit, self._most_rows, self._fitting_rows)
            ask = partial(
                self._client.threads.search,
                limit=most,
                offset=offset,
                sort_by=sort_by,
                sort_order="desc" if descending else "asc",
                select=ROW_FIELDS if self._selects else None,  # type: ignore[arg-type]
            )
            try:
                raw = await self._ask(ask)
                if isinstance(raw, list) and raw:
                    self._fitting_rows = max(LEAST_ROWS, PAGE_BYTES * len(raw) // max(1, self._page_bytes))
                return raw, most
            except _Refused as refused:
                if refused.status not in _NOT_UNDERSTOOD:
                    raise self._source_error(refused) from None
                if self._selects:
                    self._selects = False
                elif smaller := next((size for size in SMALLER_PAGES if size < most), None):
                    self._most_rows = smaller
                else:
                    self._selects, self._most_rows = True, MOST_ROWS  # neither was to blame
                    self.observed.note(f"sort_by_{sort_by}", works=False)
                    raise SortRefused(
                        f"{self._where} refuses to list threads in order of {sort_by}.", code="sort_refused"
                    ) from None

    async def count(self) -> int | None:
        """How many threads the server counts; None when it cannot count. An alarm, never a proof."""
        try:
            raw = await self._ask(self._client.threads.count)
        except _Refused:
            self.has_count = False
            return None
        self.has_count = isinstance(raw, int)
        return raw if isinstance(raw, int) and not isinstance(raw, bool) else None

    async def thread(self, thread_id: str) -> RowFacts | None:
        """A thread's row by id; None when the server says that there is none."""
        try:
            raw = await self._ask(lambda: self._client.threads.get(thread_id))
            found = reduce_row(raw, self.reading)
            self.observed.thread(raw)
            return found
        except _Refused as refused:
            if refused.no_such_thread:
                return None
            raise self._source_error(refused) from None
        except Malformed:
            raise self._nonsense() from None

    async def state(self, thread_id: str) -> StateFacts | StateFailure:
        """The head checkpoint under the graph deployed now, down through subgraphs."""
        if not _can_be_asked_for(thread_id):
            return StateFailure.PASSING  # a route cannot name it, and a 404 would look like a thread that is gone
        try:
            raw = await self._ask(lambda: self._client.threads.get_state(thread_id, subgraphs=True))
            self._failed_in_a_row = 0
            found = reduce_state(raw, self.reading)
            self.observed.state(raw)
            return found
        except _Refused as refused:
            return await self._state_failure(thread_id, refused)
        except Malformed:
            return StateFailure.LASTING
        except (_Passing, _Nonsense):
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= _FAILED_IN_A_ROW:
                raise
            return StateFailure.PASSING

    async def _state_failure(self, thread_id: str, refused: "_Refused") -> StateFailure:
        if refused.graph_not_found:
            return StateFailure.GRAPH_MISSING
        if refused.status == httpx.codes.NOT_FOUND:
            gone = await self.thread(thread_id) is None
            return StateFailure.THREAD_MISSING if gone else StateFailure.PASSING
        return StateFailure.PASSING if refused.status in _PASSING else StateFailure.LASTING

    async def runs(self, thread_id: str, *, active: bool = True) -> tuple[RunFacts, ...] | None:
        """The active runs of a thread; None when the server would not say. ``active=False``: the newest run, of any
        status, is looked at to see what the server tells of runs.

        The newest runs, all on one page, mostly tell. That none of them is active is asked for by status.
        """
        try:
            if not active:
                return reduce_runs(await self._runs(thread_id, None, limit=1))
            newest = await self._runs(thread_id, None, limit=NEWEST_RUNS)
            found = reduce_runs(newest)
            if found and len(newest) < NEWEST_RUNS:
                return found
            pages = [await self._runs(thread_id, status, limit=100) for status in _ACTIVE]
            return tuple(run for page in pages for run in reduce_runs(page))
        except _Refused:
            self.observed.note("runs", works=False)
            return None
        except (_Passing, _Nonsense, Malformed):
            return None

    async def _runs(self, thread_id: str, status: Literal["running", "pending"] | None, *, limit: int) -> Any:
        fields: list[Any] = ["run_id", "status", "created_at", "kwargs"]
        raw = await self._ask(partial(self._client.runs.list, thread_id, limit=limit, status=status, select=fields))
        self.observed.runs(raw)
        return raw

    async def ended(self, thread_id: str) -> tuple[datetime, ...] | None:
        """When the newest runs of a thread ended that succeeded; None when the server would not say."""
        fields: list[Any] = ["run_id", "status", "updated_at"]
        ask = partial(self._client.runs.list, _in_path(thread_id), limit=10, select=fields)
        try:
            return reduce_ended(await self._ask(ask))
        except (_Refused, _Passing, _Nonsense, Malformed):
            return None

    async def last_run(self, thread_id: str) -> RunFacts | None:
        """The newest run of a thread, whatever its status; None when there is none or the server would not say."""
        fields: list[Any] = ["run_id", "status", "created_at", "kwargs"]
        try:
            return reduce_last_run(
                await self._ask(lambda: self._client.runs.list(_in_path(thread_id), limit=1, select=fields))
            )
        except (_Refused, _Passing, _Nonsense, Malformed):
            return None

    async def expires_at(self, thread_id: str) -> datetime | None:
        """When the server deletes a thread by itself; None when it never does or would not say."""
        params = {"include": "ttl"}
        try:
            return reduce_expiry(
                await self._ask(lambda: self._client.http.get(f"/threads/{_in_path(thread_id)}", params=params))
            )
        except (_Refused, _Passing, _Nonsense, Malformed):
            return None

    async def lineage(self, thread_id: str, *, limit: int) -> tuple[CheckpointFacts, ...] | None:
        """The newest checkpoints of a thread's root; None when the server would not say."""
        return await self.history(thread_id, ns="", down_to="", limit=limit)

    async def ever_ran(self, thread_id: str) -> bool | None:
        """Whether the server remembers a run of a thread; None when it would not say."""
        try:
            raw = await self._ask(lambda: self._client.runs.list(thread_id, limit=1))
        except (_Refused, _Passing, _Nonsense):
            return None
        return bool(raw) if isinstance(raw, list) else None

    async def graph_of_run(self, thread_id: str, run_id: str) -> str | None:
        """The graph that a run ran; None when the server would not say."""
        try:
            run = await self._ask(lambda: self._client.runs.get(thread_id, run_id))
            assistant = reduce_assistant_id(run)
            if assistant not in self._graph_of_assistant:
                raw = await self._ask(lambda: self._client.assistants.get(assistant))
                self._graph_of_assistant[assistant] = reduce_graph_id(raw)
        except (_Refused, _Passing, _Nonsense, Malformed):
            return None
        return self._graph_of_assistant[assistant]

    async def history(
        self, thread_id: str, *, ns: str, down_to: str, limit: int = MAX_HISTORY
    ) -> tuple[CheckpointFacts, ...] | None:
        """Checkpoints of a namespace, newest first, down to one of them if it is within the limit; None when the server would
        not say. An answer may carry whole values, which are dropped at once; pages are small for that reason."""
        found: list[CheckpointFacts] = []
        try:
            while len(found) < limit:
                body: dict[str, Any] = {"limit": min(HISTORY_PAGE, limit)}
                body |= {"checkpoint": {"checkpoint_ns": ns}} if ns else {}
                body |= {"before": {"configurable": {"checkpoint_id": found[-1].id}}} if found else {}
                ask = partial(self._client.http.post, f"/threads/{_in_path(thread_id)}/history", json=body)
                page = reduce_history(await self._ask(ask))
                known = {checkpoint.id for checkpoint in found}
                fresh = [checkpoint for checkpoint in page if checkpoint.id not in known]
                found.extend(fresh)
                if not fresh or len(page) < HISTORY_PAGE or any(checkpoint.id == down_to for checkpoint in fresh):
                    break
        except (_Refused, _Passing, _Nonsense, Malformed):
            return None
        return tuple(found)

    async def durability(self, thread_id: str, run_id: str) -> str | None:
        """How a run wrote its checkpoints; None when the server would not say."""
        try:
            return reduce_durability(await self._ask(lambda: self._client.runs.get(thread_id, run_id)))
        except (_Refused, _Passing, _Nonsense, Malformed):
            return None

    async def storage(self, thread_id: str) -> StorageFacts | None:
        """Which channels the thread's checkpoints ever held; None when the server cannot tell (404, 501, old)."""
        if self.has_storage is False:
            return None
        try:
            raw = await self._ask(lambda: self._client.http.get(f"/threads/{_in_path(thread_id)}/storage"))
            facts = reduce_storage(raw, self.reading)
        except _Refused as refused:
            if refused.status == httpx.codes.NOT_IMPLEMENTED or refused.no_such_route:
                self.has_storage = False
            return None
        except (_Passing, _Nonsense, Malformed):
            return None
        self.has_storage = True
        return facts

    async def _weigh(self, response: httpx.Response) -> None:
        """How much a page of rows weighed: whole conversations come along."""
        if response.request.url.path.endswith("/threads/search"):
            self._page_bytes = len(await response.aread())

    # -- asking --------------------------------------------------------------------------------------------------

    async def _whole(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Ask for something that must be there: a refusal is the source's failure."""
        try:
            return await self._ask(call)
        except _Refused as refused:
            raise self._source_error(refused) from None

    async def _ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Ask once, or again where the failure may pass. Raises ``_Refused`` for an answer that will stay."""
        async for attempt in stamina.retry_context(
            on=_wait_for, attempts=_ATTEMPTS, timeout=120, wait_initial=0.2, wait_max=_LONGEST_WAIT, wait_jitter=0.3
        ):
            with attempt:
                return await self._once(call)
        raise AssertionError("stamina returns or raises")  # pragma: no cover

    async def _once(self, call: Callable[[], Awaitable[Any]]) -> Any:
        async with self.pace.turn():
            if self._stopped.is_set():
                raise SourceError("Drainboard is stopping.", code=STOPPED)
            self.requests += 1
            began = monotonic()
            try:
                found = await call()
                self.pace.answered(monotonic() - began)
                return found
            except httpx.HTTPStatusError as error:
                raise self._status_error(error.response) from None
            except httpx.TimeoutException:
                raise _Passing(f"{self._where} did not answer in time. Is it overloaded?") from None
            except httpx.TransportError:
                raise _Passing(f"{self._where} cannot be reached. Is it running, and is the address right?") from None
            except (orjson.JSONDecodeError, UnicodeDecodeError):
                raise self._nonsense() from None
            except (httpx.InvalidURL, httpx.DecodingError, TypeError, AttributeError):
                raise self._nonsense() from None

    def _status_error(self, response: httpx.Response) -> Exception:
        status = response.status_code
        if status == httpx.codes.TOO_MANY_REQUESTS:
            self.throttled += 1
            wait = _retry_after(response)
            self.pace.complained(wait)
            return _Slower(
                f"{self._where} keeps answering 429 (too many requests). Lower requests_per_minute for this deployment.",
                wait=wait,
            )
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return SourceError(
                f"{self._where} answered {status}: the API key is missing, wrong or not allowed to read threads.",
                code="unauthorized",
            )
        if status in _PASSING:
            return _Passing(f"{self._where} answered {status}. Look at the server's own log.", status=status)
        detail = _detail(response)
        return _Refused(
            status,
            graph_not_found=_GRAPH_NOT_FOUND.match(detail) is not None,
            no_such_route=status == httpx.codes.NOT_FOUND and _THREAD_NOT_FOUND.match(detail) is None,
            no_such_thread=status == httpx.codes.NOT_FOUND and _NAMES_A_THREAD.search(detail) is not None,
        )

    def _source_error(self, refused: "_Refused") -> SourceError:
        if refused.status >= httpx.codes.INTERNAL_SERVER_ERROR:
            return SourceError(f"{self._where} answered {refused.status}. Look at the server's own log.")
        if 300 <= refused.status < 400:
            return SourceError(f"{self._where} redirects elsewhere. Give the address that answers itself.")
        return SourceError(
            f"{self._where} answered {refused.status}. Is it the address of a LangGraph Agent Server, without a path?"
        )

    def _nonsense(self) -> "_Nonsense":
        return _Nonsense(
            f"{self._where} answered something that is not what an Agent Server answers. Is the address right?",
            code="not_an_agent_server",
        )

    @property
    def _where(self) -> str:
        return f"{self._name} ({without_secrets(self._url)})"


class SortRefused(SourceError):
    """The server does not list threads in the order that was asked for."""


class _Refused(Exception):
    """The server answered, with a status that will not pass by itself."""

    def __init__(self, status: int, *, graph_not_found: bool, no_such_route: bool, no_such_thread: bool) -> None:
        super().__init__(status)
        self.status = status
        self.graph_not_found = graph_not_found
        self.no_such_route = no_such_route
        self.no_such_thread = no_such_thread


class _Passing(SourceError):
    """A failure that may pass."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, code="unreachable")
        self.answered = status


class _Nonsense(SourceError):
    """An answer that no Agent Server gives: HTML, half a JSON."""


class _Slower(Throttled):
    def __init__(self, message: str, *, wait: float | None) -> None:
        super().__init__(message)
        self.wait = wait


def _wait_for(error: Exception) -> bool | float:
    """stamina's question: try again, and when? The server's own ``Retry-After`` is honoured up to a cap."""
    if isinstance(error, _Slower):
        return True if error.wait is None else min(error.wait, _LONGEST_WAIT)
    return isinstance(error, _Passing)


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers.get("retry-after", "")))
    except ValueError:
        return None


def _detail(response: httpx.Response) -> str:
    """What a refusal says, to tell kinds of 404 apart: a gateway that lost its way says so, too. It is looked at here and dropped."""
    try:
        body = orjson.loads(response.content)
    except (orjson.JSONDecodeError, httpx.ResponseNotRead):
        return ""
    detail = body.get("detail", body.get("message")) if isinstance(body, dict) else None
    return detail if isinstance(detail, str) else ""


def _in_path(thread_id: str) -> str:
    """An id as a part of a path that we write ourselves: some servers take any text as an id, and what follows a ``?``
    would be cut off."""
    return quote(thread_id, safe="")


def _can_be_asked_for(thread_id: str) -> bool:
    return "/" not in thread_id and thread_id not in (".", "..")


def _choose(chosen: dict[str, tuple[bool, str]], names: dict[str, str], raw: object) -> bool:
    """Keep the server's own assistant of a graph, else the one with the lowest id; and names that people gave. False: the
    item could not be understood."""
    if not isinstance(raw, dict):
        return False
    graph, assistant, metadata = raw.get("graph_id"), raw.get("assistant_id"), raw.get("metadata")
    if not isinstance(graph, str) or not isinstance(assistant, str):
        return False
    made_by_system = isinstance(metadata, dict) and metadata.get("created_by") == "system"
    if (name := _short(raw.get("name"))) and len(names) < MAX_NAMES:
        names[assistant] = name
    candidate = (not made_by_system, assistant)
    if graph not in chosen or candidate < chosen[graph]:
        chosen[graph] = candidate
    return True


def _keep_config(
    configured: dict[tuple[str, str], Assistant], raw: dict[str, Any], chosen: str, reading: Reading
) -> None:
    """Keep one assistant for each configuration of a graph: the chosen one, else the one with the lowest id."""
    graph, assistant = raw["graph_id"], raw["assistant_id"]
    config = reading.names.hashed_config(raw.get("config") or {}) or ""
    found = Assistant(graph, assistant, config, _short(raw.get("updated_at")))
    key = (graph, config)
    if key not in configured or assistant == chosen or (assistant < configured[key].assistant_id != chosen):
        configured[key] = found


def _deployed(
    chosen: Mapping[str, tuple[bool, str]], names: Mapping[str, str], configured: Mapping[tuple[str, str], Assistant]
) -> Deployed:
    by_id = {(found.graph_id, found.assistant_id): found for found in configured.values()}
    graphs = tuple(by_id[graph, assistant] for graph, (_, assistant) in sorted(chosen.items()))
    others = sorted(set(configured.values()) - set(graphs), key=lambda found: (found.graph_id, found.config))
    return Deployed(graphs, names, tuple(others))


def _short(raw: object) -> str | None:
    return raw[:80] if isinstance(raw, str) else None


def without_secrets(url: str) -> str:
    """The address without a password or a query, for a sentence."""
    parsed = httpx.URL(url)
    return str(parsed.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
