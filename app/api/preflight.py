"""Topologies over HTTP: pushed after a deploy, or asked about before one."""

from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.routes import ERRORS, GUARDS, MARKDOWN, Drains, Who
from app.drains.jsonable import to_jsonable
from app.drains.preflight_answers import PreflightAnswer
from app.drains.preflight_markdown import to_markdown
from app.drains.preflights import Preflights
from app.errors import BadRequest
from app.facts.candidates import BadTopology, Candidate, read_topology
from app.jobs.preflights import ask_and_open
from app.jobs.topologies import TopologyTaken, take_topology

router = APIRouter(prefix="/api/v1", responses=ERRORS, dependencies=GUARDS)


class PreflightRequest(BaseModel):
    """``topology``: a topology file, as ``drainboard topology`` prints it; it may also be the whole body. ``open_drain``: open the
    drains that are needed first."""

    model_config = ConfigDict(extra="forbid")
    topology: dict[str, Any]
    open_drain: bool = False
    owner: str | None = Field(default=None, max_length=100)


Format = Annotated[Literal["json", "markdown"], Query(alias="format")]
_FILE = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": PreflightRequest.model_json_schema()}},
    }
}


def _preflights(request: Request) -> Preflights:
    found: Preflights = request.app.state.preflights
    return found


@router.put("/deployments/{deployment}/topology", openapi_extra=_FILE)
async def put_topology(deployment: str, request: Request, by: Who) -> TopologyTaken:
    """Say what the graphs look like that were just deployed: joins and deferred nodes are then known exactly."""
    return await take_topology(request.app.state.runtime, deployment, _candidates(await _json(request)), by)


@router.post(
    "/deployments/{deployment}/preflight", openapi_extra=_BODY, response_model=PreflightAnswer, responses=MARKDOWN
)
async def ask_preflight(
    deployment: str, request: Request, drains: Drains, by: Who, format_: Format = "json"
) -> PreflightAnswer | Response:
    """Would this candidate break a live thread? Nothing of the candidate is kept."""
    body = _request(await _json(request))
    is_whole = body.topology.get("whole") is True
    answer = await ask_and_open(
        _preflights(request),
        drains,
        deployment,
        _candidates(body.topology),
        is_whole=is_whole,
        opens=body.open_drain,
        owner=body.owner,
        by=by,
    )
    if format_ == "markdown":
        return PlainTextResponse(to_markdown(to_jsonable(answer)), media_type="text/markdown; charset=utf-8")
    return answer


async def _json(request: Request) -> object:
    try:
        return orjson.loads(await request.body())
    except orjson.JSONDecodeError:
        raise BadRequest("The body is not JSON.") from None


def _request(raw: object) -> PreflightRequest:
    if isinstance(raw, dict) and "schema" in raw:
        return PreflightRequest(topology=raw)
    try:
        return PreflightRequest.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "The body"
        raise BadRequest(f"{place}: {first['msg']}. Correct it and ask again.") from None


def _candidates(raw: object) -> dict[str, Candidate]:
    try:
        return read_topology(raw)
    except BadTopology as error:
        raise BadRequest(str(error), code="bad_topology") from None
