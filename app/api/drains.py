"""Routes of ``/api/v1`` that make and change drains, and take what people say about them."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import ValidationError

from app.api.routes import DEFAULT_LIMIT, ERRORS, GUARDS, MARKDOWN, Ask, Drains, Format, Limit, Who
from app.drains.bodies import (
    AcknowledgementBody,
    AttestationBody,
    DrainChanges,
    DrainReplacement,
    WaiverBody,
)
from app.drains.drain_markdown import to_markdown
from app.drains.register import DrainDetail, Written
from app.drains.statements import Statements
from app.errors import BadRequest
from app.inventory.views import Activity, CriteriaVersion, Said
from app.settings import DrainSettings, DrainsFile, complaint


@dataclass(frozen=True, slots=True)
class WrittenList:
    """What became of each drain."""

    items: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of a drain's criteria, newest first."""

    items: tuple[CriteriaVersion, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class SaidList:
    """What was just said."""

    items: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class SaidPage:
    """What people said, newest first. What was taken back has ``ended_at``."""

    items: tuple[Said, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How many entries were taken back."""

    ended: int


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Stored answers of a drain, newest first."""

    items: list[dict[str, Any]]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """The audit, newest first."""

    items: tuple[Activity, ...]
    next_cursor: str | None


router = APIRouter(prefix="/api/v1", responses=ERRORS, dependencies=GUARDS)
_MAKES: dict[int | str, dict[str, Any]] = {200: {"model": Written}, 201: {"model": Written}}


def _statements(request: Request) -> Statements:
    found: Statements = request.app.state.statements
    return found


People = Annotated[Statements, Depends(_statements)]


# -- drains --------------------------------------------------------------------------------------------------------


@router.post("/drains", responses=_MAKES)
async def create_drain(body: DrainSettings, drains: Drains, by: Who, response: Response) -> Written:
    """Make a drain: 201. One that is there with the same criteria is left as it is: 200."""
    return _made(await drains.create(body, by), response)


@router.put("/drains")
async def apply_drains(body: DrainsFile, drains: Drains, by: Who) -> WrittenList:
    """Make or replace several drains, all of them or none. Those that are not named stay as they are."""
    return WrittenList(await drains.apply(body.drains, by))


@router.get("/drains/{drain}", response_model=DrainDetail, responses=MARKDOWN)
async def get_drain(drain: str, drains: Drains, ask: Ask, by: Who, format_: Format = "json") -> DrainDetail | Response:
    """The answer of one drain, decided now, with what it asks for and what people said about it; or as Markdown."""
    found = await drains.detail(drain, now=by.now)
    if format_ == "markdown":
        return PlainTextResponse(
            to_markdown(ask.outside.answer(found), by.now), media_type="text/markdown; charset=utf-8"
        )
    return found


@router.put("/drains/{drain}", responses=_MAKES)
async def replace_drain(drain: str, body: DrainReplacement, drains: Drains, by: Who, response: Response) -> Written:
    """Make a drain (201), or make the one of that name ask for exactly this (200)."""
    if body.name not in (None, drain):
        raise BadRequest("The name in the body is not that of the path. A drain keeps its name.", code="invalid")
    wanted = _of_path(drain, body)
    return _made(await drains.replace(wanted, by), response)


@router.patch("/drains/{drain}")
async def change_drain(drain: str, body: DrainChanges, drains: Drains, by: Who) -> Written:
    """Change some of what a drain says. Another criterion makes a new version: what was proved is void."""
    return await drains.change(drain, body.model_dump(exclude_unset=True), by)


@router.delete("/drains/{drain}")
async def close_drain(drain: str, drains: Drains, by: Who) -> Written:
    """Close a drain. It is never deleted; a PATCH of its phase opens it again."""
    return await drains.close(drain, by)


@router.get("/drains/{drain}/versions")
async def list_versions(
    drain: str, drains: Drains, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> Versions:
    """Versions of the criteria that a drain had, newest first."""
    return Versions(*await drains.versions(drain, cursor=cursor, limit=limit))


@router.get("/drains/{drain}/evaluations")
async def list_evaluations(
    drain: str, drains: Drains, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> Evaluations:
    """Stored answers, newest first: why did it say so on Tuesday?"""
    items, following = await drains.evaluations(drain, cursor=cursor, limit=limit)
    return Evaluations(items, following)


def _of_path(name: str, body: DrainReplacement) -> DrainSettings:
    try:
        return DrainSettings.model_validate(body.model_dump(exclude_unset=True) | {"name": name})
    except ValidationError as error:
        raise BadRequest(f"{complaint(error)}. Correct it and ask again.", code="invalid") from None


def _made(written: Written, response: Response) -> Written:
    response.status_code = 201 if written.outcome == "created" else 200
    return written


# -- waivers, acknowledgements, attestations -----------------------------------------------------------------------


@router.post("/drains/{drain}/waivers", status_code=201)
async def waive(drain: str, body: WaiverBody, people: People, by: Who) -> Said:
    """Take threads over: they count no more for this drain. All of them or none."""
    return await people.waive(drain, body.thread_ids, body.owned, by)


@router.get("/drains/{drain}/waivers")
async def list_waivers(drain: str, people: People, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT) -> SaidPage:
    """Waivers that a drain ever had, newest first."""
    return SaidPage(*await people.waivers(drain, cursor=cursor, limit=limit))


@router.delete("/drains/{drain}/waivers/{waiver}")
async def end_waiver(drain: str, waiver: str, people: People, by: Who) -> Ended:
    """Take a waiver back."""
    return Ended(await people.end_waiver(drain, waiver, by))


@router.post("/drains/{drain}/acknowledgements", status_code=201)
async def acknowledge(drain: str, body: AcknowledgementBody, people: People, by: Who) -> Said:
    """Say that a loss was dealt with: stranded or lost threads, or the code ``fell_at_deploy``."""
    return await people.acknowledge(drain, body.thread_ids, body.codes, body.owned, by)


@router.get("/drains/{drain}/acknowledgements")
async def list_acknowledgements(
    drain: str, people: People, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> SaidPage:
    """Acknowledgements of a drain, newest first."""
    return SaidPage(*await people.acknowledgements(drain, cursor=cursor, limit=limit))


@router.delete("/drains/{drain}/acknowledgements/{acknowledgement}")
async def end_acknowledgement(drain: str, acknowledgement: str, people: People, by: Who) -> Ended:
    """Take an acknowledgement back."""
    return Ended(await people.end_acknowledgement(drain, acknowledgement, by))


@router.post("/drains/{drain}/attestations", status_code=201)
async def attest(drain: str, body: AttestationBody, people: People, by: Who) -> SaidList:
    """Tick attestations, for the criteria of today."""
    return SaidList(await people.attest(drain, body.all_names, body.owned, by))


@router.get("/drains/{drain}/attestations")
async def list_attestations(
    drain: str, people: People, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> SaidPage:
    """Attestations that a drain ever had, newest first."""
    return SaidPage(*await people.attestations(drain, cursor=cursor, limit=limit))


@router.delete("/drains/{drain}/attestations/{attestation}")
async def end_attestation(drain: str, attestation: str, people: People, by: Who) -> Ended:
    """Take an attestation back."""
    return Ended(await people.end_attestation(drain, attestation, by))


@router.post("/deployments/{deployment}/acknowledgements", status_code=201)
async def acknowledge_deployment(deployment: str, body: AcknowledgementBody, people: People, by: Who) -> Said:
    """The same for all drains of a deployment; codes ``mass_disappearance``, ``canary_missing`` and ``baseline``."""
    return await people.acknowledge_deployment(deployment, body.thread_ids, body.codes, body.owned, by)


@router.get("/deployments/{deployment}/acknowledgements")
async def list_deployment_acknowledgements(
    deployment: str, people: People, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> SaidPage:
    """Acknowledgements of a deployment that are not of one drain, newest first."""
    return SaidPage(*await people.deployment_acknowledgements(deployment, cursor=cursor, limit=limit))


@router.delete("/deployments/{deployment}/acknowledgements/{acknowledgement}")
async def end_deployment_acknowledgement(deployment: str, acknowledgement: str, people: People, by: Who) -> Ended:
    """Take an acknowledgement back."""
    return Ended(await people.end_deployment_acknowledgement(deployment, acknowledgement, by))


# -- audit ---------------------------------------------------------------------------------------------------------


@router.get("/activity")
async def list_activity(
    drains: Drains, by: Who, deployment: str | None = None, cursor: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> ActivityPage:
    """Every change and every evidence report that was opened, newest first."""
    items, following = await drains.activity(deployment=deployment, cursor=cursor, limit=limit, caller=by.caller)
    return ActivityPage(items, following)
