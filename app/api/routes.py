"""Routes of ``/api/v1``: parse, ask the dashboard, answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from pydantic import AwareDatetime, BaseModel, ConfigDict, StrictBool, TypeAdapter

from app.auth.callers import by_of
from app.auth.same_origin import require_same_origin
from app.clock import utc_now
from app.drains.answers import Actor, Answer, BlockingThread
from app.drains.burndown import BurnDown
from app.drains.evidence_markdown import to_markdown
from app.drains.jsonable import to_jsonable
from app.drains.outside import Outside
from app.drains.register import By, Register
from app.durations import parse_duration
from app.errors import BadRequest
from app.inventory.finding import Found
from app.inventory.reads import FACETS, Filters
from app.inventory.views import (
    DeploymentStatus,
    DeployPage,
    DeployReport,
    Evidence,
    Inventory,
    NodeEntries,
    NodeReport,
    PollSummary,
    ThreadPage,
)
from app.jobs.dashboard import Dashboard
from app.version import COMMAND_LINE, FOUND

DEFAULT_LIMIT = 50
_ANSWER = TypeAdapter(Answer)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What happened and what to do."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Every error of the API."""

    error: ErrorBody


@dataclass(frozen=True, slots=True)
class DeploymentList:
    """Deployments, by name. ``next_cursor`` None: the end."""

    items: tuple[DeploymentStatus, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class DrainList:
    """The answers of drains: pages by name, on a page what blocks first. ``next_cursor`` None: the end."""

    items: tuple[Answer, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class BlockingPage:
    """Threads of a drain, oldest last change first."""

    items: tuple[BlockingThread, ...]
    next_cursor: str | None
    total: int


@dataclass(frozen=True, slots=True)
class PollStarted:
    """The poll that was started, or that runs already."""

    poll: int


class PollRequest(BaseModel):
    """``full``: a complete sweep; otherwise a scan of what moved."""

    model_config = ConfigDict(extra="forbid")
    full: StrictBool = False


_AN_ERROR = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}}
ERRORS: dict[int | str, dict[str, Any]] = {
    422: {"model": ErrorAnswer},  # once as a model, of which FastAPI makes one for each route; the others refer to it
    **dict.fromkeys((400, 401, 403, 404, 405, 409, 413, 429, 500, 502, 503), _AN_ERROR),
}
_TOKEN = HTTPBearer(
    auto_error=False, description="An API token; only where people sign in. `drainboard tokens create` makes one."
)
GUARDS = [Depends(require_same_origin), Depends(_TOKEN)]
"""Of every route. Who may what was decided before, by the address; the token is here for the description."""
router = APIRouter(prefix="/api/v1", responses=ERRORS, dependencies=GUARDS)


def _dashboard(request: Request) -> Dashboard:
    found: Dashboard = request.app.state.dashboard
    return found.seen_by(request.state.caller)


def _register(request: Request) -> Register:
    found: Register = request.app.state.register
    return found


def _by(request: Request) -> By:
    """Through which door a caller comes. The command line says so in its User-Agent."""
    agent = request.headers.get("user-agent", "")
    return by_of(request, "command line" if agent.startswith(COMMAND_LINE) else "API", utc_now())


Ask = Annotated[Dashboard, Depends(_dashboard)]
Drains = Annotated[Register, Depends(_register)]
Who = Annotated[By, Depends(_by)]


def read_filters(request: Request) -> Filters:
    """The filters of a query: parameters with a facet's name. Unknown parameters are refused, since a filter that is
    misspelt would otherwise count everything."""
    found: dict[str, tuple[str, ...]] = {}
    for key in request.query_params:
        if key in FACETS:
            found[key] = tuple(request.query_params.getlist(key))
        elif key not in ("cursor", "limit", "sort"):
            raise BadRequest(f"There is no filter {key[:40]!r}. Filters are: {', '.join(FACETS)}.")
    return found


FilterQuery = Annotated[Filters, Depends(read_filters)]
Limit = Annotated[int, Query(ge=1, le=500)]
Id = Annotated[int, Path(ge=1, le=2**53)]
_FILTER_DOCS = {
    "parameters": [
        {"name": name, "in": "query", "required": False, "schema": {"type": "array", "items": {"type": "string"}}}
        for name in FACETS
    ]
}


@router.get("/deployments")
async def list_deployments(ask: Ask, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT) -> DeploymentList:
    """A page of the deployments, by name: freshness per source, last polls, graph revisions."""
    return DeploymentList(*await ask.deployments_page(cursor, limit))


@router.get("/deployments/{deployment}")
async def get_deployment(deployment: str, ask: Ask) -> DeploymentStatus:
    """One deployment."""
    return await ask.deployment(deployment)


@router.post("/deployments/{deployment}/poll", status_code=202)
async def start_poll(deployment: str, ask: Ask, body: PollRequest | None = None) -> PollStarted:
    """Start a poll; one that runs already is never started twice."""
    summary = await ask.start_poll(deployment, body.full if body else False)
    return PollStarted(summary.id)


@router.get("/deployments/{deployment}/polls/{poll}")
async def get_poll(deployment: str, poll: Id, ask: Ask) -> PollSummary:
    """State and outcome of a poll."""
    return await ask.poll(deployment, poll)


@router.get("/deployments/{deployment}/deploys")
async def list_deploys(
    deployment: str, ask: Ask, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> DeployPage:
    """The deploys that were noticed, newest first: what each changed, and what became of the threads that it met."""
    return await ask.deploys(deployment, cursor, limit)


@router.get("/deployments/{deployment}/deploys/{deploy}")
async def get_deploy(
    deployment: str,
    deploy: Id,
    ask: Ask,
    fate: str | None = None,
    cursor: str | None = None,
    limit: Limit = DEFAULT_LIMIT,
) -> DeployReport:
    """One deploy, with the threads that waited at a node which it removed, a moment before."""
    return await ask.deploy_threads(deployment, deploy, fate, cursor, limit)


@router.get("/deployments/{deployment}/nodes")
async def get_nodes(deployment: str, ask: Ask) -> NodeReport:
    """The deployed nodes in the traces: entered, left and errored on each of the last 30 days, and which nobody has entered."""
    return await ask.node_report(deployment)


@router.get("/deployments/{deployment}/nodes/entries")
async def list_node_entries(deployment: str, node: str, ask: Ask, limit: Limit = DEFAULT_LIMIT) -> NodeEntries:
    """The newest traced runs of a node (``node``: its path), newest first, each with its thread and its trace."""
    return NodeEntries(await ask.entries(deployment, [node], limit))


@router.get("/deployments/{deployment}/inventory", openapi_extra=_FILTER_DOCS)
async def get_inventory(deployment: str, ask: Ask, filters: FilterQuery) -> Inventory:
    """Counts by facet of the threads that the filters let through: same key OR, different keys AND."""
    return await ask.inventory(deployment, filters)


@router.get("/deployments/{deployment}/threads", openapi_extra=_FILTER_DOCS)
async def list_threads(
    deployment: str,
    ask: Ask,
    filters: FilterQuery,
    cursor: str | None = None,
    limit: Limit = DEFAULT_LIMIT,
    sort: Literal["-updated_at", "created_at", "thread_id"] = "-updated_at",
) -> ThreadPage:
    """A page of threads, by key."""
    return await ask.threads(deployment, filters, cursor, limit, sort)


def _as_markdown(found: Evidence, outside: Outside | None = None) -> Response:
    headers, text = {FOUND: str(found.found).lower()}, to_markdown(found, utc_now())
    if outside is not None:
        text = outside.report(found.deployment, found.thread_id, text)
    return PlainTextResponse(text, 200, headers, "text/markdown; charset=utf-8")


MARKDOWN: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/markdown": {"schema": {"type": "string"}}}, "description": "JSON, or the same as Markdown"}
}
Format = Annotated[Literal["json", "markdown"], Query(alias="format")]


# An application's own ids may hold a slash, so the longer path comes first.
@router.get("/deployments/{deployment}/threads/{thread_id:path}/evidence", response_model=Evidence, responses=MARKDOWN)
async def get_evidence(
    deployment: str,
    thread_id: str,
    ask: Ask,
    drains: Drains,
    by: Who,
    live: bool = False,
    format_: Format = "json",
) -> Evidence | Response:
    """The evidence report of one thread, to be carried away; ``live`` reads the server now. With the setting ``exported_ids``
    the thread is called by its pseudonym."""
    found = await ask.evidence(deployment, thread_id, live)
    await drains.opened(deployment, found.thread_id, by, live=live, found=found.found)
    if format_ == "markdown":
        return _as_markdown(found, ask.outside)
    if ask.outside.hides_ids:
        return JSONResponse(ask.outside.report(deployment, found.thread_id, to_jsonable(found)))
    return found


@router.get("/deployments/{deployment}/threads/{thread_id:path}", response_model=Evidence, responses=MARKDOWN)
async def get_thread(
    deployment: str, thread_id: str, ask: Ask, drains: Drains, by: Who, format_: Format = "json"
) -> Evidence | Response:
    """What is known of one thread, by its id or its pseudonym. An unknown thread answers 200 with ``found: false``."""
    found = await ask.evidence(deployment, thread_id, False)
    await drains.opened(deployment, found.thread_id, by, live=False, found=found.found)
    return _as_markdown(found) if format_ == "markdown" else found


@router.get("/drains")
async def list_drains(ask: Ask, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT) -> DrainList:
    """The answers of a page of drains, by name; on the page what blocks comes first."""
    return DrainList(*await ask.drains_page(cursor, limit))


@router.get(
    "/drains/{drain}/gate",
    response_model=Answer,
    responses={
        200: {"description": "A verdict; with http_status=1 only drained"},
        409: {"description": "Blocked"},
        503: {"description": "Unknown"},
    },
)
async def gate(
    drain: str,
    ask: Ask,
    request: Request,
    max_age: str | None = None,
    http_status: Literal["0", "1"] = "0",
) -> Response:
    """The verdict. Always 200; with ``http_status=1``: 200 drained, 409 blocked, 503 unknown."""
    if odd := sorted(set(request.query_params) - {"max_age", "http_status"}):  # a misspelt one would ask for less
        raise BadRequest(f"The gate has no parameter {odd[0][:40]!r}. There are max_age and http_status.")
    answer = await ask.drain(drain, None if max_age is None else _duration(max_age))
    status = answer.verdict.http_status if http_status == "1" else 200
    headers = {} if answer.retry_after_seconds is None else {"Retry-After": str(answer.retry_after_seconds)}
    return Response(_body(answer, ask.outside), status, headers, "application/json")


_bodies: dict[str, tuple[Answer, bytes]] = {}


def _body(answer: Answer, outside: Outside) -> bytes:
    """The JSON of an answer, written once for all who share it."""
    found = _bodies.get(answer.drain)
    if found is None or found[0] is not answer:
        found = _bodies[answer.drain] = (answer, _ANSWER.dump_json(outside.answer(answer)))
    return found[1]


@router.get("/drains/{drain}/history")
async def get_history(
    drain: str, ask: Ask, since: AwareDatetime | None = None, until: AwareDatetime | None = None
) -> BurnDown:
    """How a drain went: what was left, what came and what left, where nobody looked. By default the last seven days."""
    return await ask.history(drain, since, until)


@router.get("/drains/{drain}/threads")
async def list_drain_threads(
    drain: str,
    ask: Ask,
    disposition: str | None = None,
    reason: str | None = None,
    assistant: str | None = None,
    by: str | None = None,
    value: str | None = None,
    cursor: str | None = None,
    limit: Limit = DEFAULT_LIMIT,
) -> BlockingPage:
    """Threads of a drain by disposition or reason; by default all that block. ``assistant`` (an id, or none), or ``by`` (a
    metadata key) with its ``value`` (none: that lack it): only those that this one must act on."""
    actor = Actor.asked(assistant, by, value)
    items, following, total = await ask.drain_threads(drain, disposition, cursor, limit, reason=reason, actor=actor)
    return BlockingPage(items, following, total)


@router.get("/search")
async def search(ask: Ask, q: Annotated[str, Query(max_length=2000)]) -> Found:
    """Threads by the beginning of their id; nodes, fields, drains and deployments by their names."""
    return await ask.find(q)


def _duration(raw: str) -> Any:
    try:
        return parse_duration(raw)
    except ValueError as error:
        raise BadRequest(f"max_age: {error}.") from None


def error_body(code: str, message: str) -> Mapping[str, object]:
    """The shape of every error."""
    return {"error": {"code": code, "message": message}}
