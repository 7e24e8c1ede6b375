"""The pages that change something, and the audit. A form that cannot be taken is shown again as it was typed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from app.auth.callers import by_of
from app.auth.same_origin import require_same_origin
from app.clock import utc_now
from app.drains.answers import Answer
from app.drains.bodies import AcknowledgementBody, AttestationBody, WaiverBody
from app.drains.register import By, Register, digest_of
from app.drains.statements import Statements
from app.errors import BadRequest, Conflict, DrainboardError
from app.settings import DrainSettings
from app.web import paths
from app.web.contexts import ActivityPage, DrainFormPage, Suggestions, suggestions
from app.web.dashboard import Dashboard
from app.web.filters import ThreadQuery
from app.web.forms import (
    DRAIN_PLACES,
    GENERAL,
    Form,
    complaints,
    differences,
    drain_of,
    form_of,
    read_form,
    time_of,
)
from app.web.render import Pages
from app.web.routes import Data, show_deployment, show_drain

ENTRIES = 50

router = APIRouter(
    default_response_class=HTMLResponse, include_in_schema=False, dependencies=[Depends(require_same_origin)]
)


def _register(request: Request) -> Register:
    found: Register = request.app.state.register
    return found


def _statements(request: Request) -> Statements:
    found: Statements = request.app.state.statements
    return found


async def _form(request: Request) -> Form:
    return read_form(await request.body())


def _by(request: Request) -> By:
    return by_of(request, "browser", utc_now())


Drains = Annotated[Register, Depends(_register)]
People = Annotated[Statements, Depends(_statements)]
Sent = Annotated[Form, Depends(_form)]
Who = Annotated[By, Depends(_by)]


# -- drains --------------------------------------------------------------------------------------------------------


@router.get("/drains/new")
async def new_drain(
    request: Request, data: Data, deployment: str = "", node: str = "", graph: str = ""
) -> HTMLResponse:
    known = [each.name for each in await data.deployments()]
    chosen = deployment if deployment in known else next(iter(known), "")
    blank = Form({"deployment": (chosen,), "remove_nodes": (node,), "graph": (graph,)})
    return await _form_page(request, data, blank)


@router.post("/drains/new")
async def create_drain(request: Request, data: Data, drains: Drains, form: Sent, by: Who) -> Response:
    return await _take(request, data, form, drains.create, by, drains=drains)


@router.get("/drains/{name}/edit")
async def edit_drain(request: Request, name: str, data: Data, drains: Drains, by: Who) -> HTMLResponse:
    detail = await drains.detail(name, now=by.now)
    if detail.managed_by_file:
        raise drains.managed(name)
    return await _form_page(request, data, form_of(detail.settings), name=name, seen=digest_of(detail.settings))


@router.post("/drains/{name}/edit")
async def replace_drain(request: Request, *, name: str, data: Data, drains: Drains, form: Sent, by: Who) -> Response:
    before = (await drains.detail(name, now=by.now)).settings
    kept = {"name": (name,), "deployment": (before.deployment,)}

    async def write(drain: DrainSettings, by: By) -> None:
        await drains.replace(drain, by, seen=form.one("seen") or None)

    return await _take(request, data, Form({**form.typed, **kept}), write, by, drains=drains, before=before)


@router.post("/drains/{name}/close")
async def close_drain(name: str, drains: Drains, by: Who) -> RedirectResponse:
    await drains.close(name, by)
    return RedirectResponse(paths.drain_path(name), 303)


async def _take(
    request: Request,
    data: Dashboard,
    form: Form,
    write: Callable[[DrainSettings, By], Awaitable[Any]],
    by: By,
    *,
    drains: Register,
    before: DrainSettings | None = None,
) -> Response:
    """Write a drain, or show the form again: with what is wrong, or with what the drain would say. ``before``: what is stored
    of a drain that is changed."""
    name, seen, differs = None if before is None else before.name, form.one("seen"), {}
    drain = None
    try:
        drain = DrainSettings.model_validate(drain_of(form))
        if form.has("do", "preview"):
            found = await drains.preview(drain, by)
            return await _form_page(request, data, form, name=name, seen=seen, preview=found)
        await write(drain, by)
    except ValidationError as error:
        wrong, status = complaints(error, DRAIN_PLACES), 422
    except (BadRequest, Conflict) as error:
        if error.code == "managed_by_file":
            raise
        place = "name" if error.code in ("drain_exists", "name_taken") else GENERAL
        wrong, status = {place: error.message}, error.status
        if error.code == "changed_meanwhile" and before is not None and drain is not None:
            seen, differs = digest_of(before), differences(before, drain)
    else:
        return RedirectResponse(paths.drain_path(drain.name), 303)
    again = form.with_wrong(wrong)
    return await _form_page(request, data, again, name=name, seen=seen, differs=differs, status=status)


async def _form_page(
    request: Request,
    data: Dashboard,
    form: Form,
    *,
    name: str | None = None,
    seen: str = "",
    differs: Mapping[str, str] | None = None,
    preview: Answer | None = None,
    status: int = 200,
) -> HTMLResponse:
    deployments = await data.deployments()
    known: Suggestions = suggestions(deployments, form.one("deployment"))
    page = DrainFormPage(
        form=form,
        name=name,
        deployments=tuple(each.name for each in deployments),
        known=known,
        seen=seen,
        differs=differs or {},
        preview=preview,
    )
    return _pages(request).respond(request, page, status=status)


# -- waivers, acknowledgements, attestations -----------------------------------------------------------------------


@router.post("/drains/{name}/waivers")
async def waive(request: Request, *, name: str, data: Data, people: People, form: Sent, by: Who) -> Response:
    async def write() -> None:
        body = WaiverBody.model_validate(_owned(form) | {"thread_ids": form.lines("thread_ids")})
        await people.waive(name, body.thread_ids, body.owned, by)

    return await _say(request, data, form, write, name=name, place="thread_ids")


@router.post("/drains/{name}/acknowledgements")
async def acknowledge(request: Request, *, name: str, data: Data, people: People, form: Sent, by: Who) -> Response:
    async def write() -> None:
        said = {"thread_ids": form.lines("thread_ids"), "codes": form.lines("codes")}
        body = AcknowledgementBody.model_validate(_owned(form) | said)
        await people.acknowledge(name, body.thread_ids, body.codes, body.owned, by)

    return await _say(request, data, form, write, name=name, place="thread_ids")


@router.post("/drains/{name}/attestations")
async def attest(request: Request, *, name: str, data: Data, people: People, form: Sent, by: Who) -> Response:
    async def write() -> None:
        body = AttestationBody.model_validate(_owned(form) | {"names": form.lines("names")})
        await people.attest(name, body.all_names, body.owned, by)

    return await _say(request, data, form, write, name=name, place="names")


@router.post("/drains/{name}/waivers/{said}/end")
async def end_waiver(name: str, said: str, people: People, by: Who) -> RedirectResponse:
    await people.end_waiver(name, said, by)
    return RedirectResponse(f"{paths.drain_path(name)}#said-title", 303)


@router.post("/drains/{name}/acknowledgements/{said}/end")
async def end_acknowledgement(name: str, said: str, people: People, by: Who) -> RedirectResponse:
    await people.end_acknowledgement(name, said, by)
    return RedirectResponse(f"{paths.drain_path(name)}#said-title", 303)


@router.post("/drains/{name}/attestations/{said}/end")
async def end_attestation(name: str, said: str, people: People, by: Who) -> RedirectResponse:
    await people.end_attestation(name, said, by)
    return RedirectResponse(f"{paths.drain_path(name)}#said-title", 303)


@router.post("/deployments/{name}/acknowledgements")
async def acknowledge_deployment(
    request: Request, *, name: str, data: Data, people: People, form: Sent, by: Who
) -> Response:
    try:
        body = AcknowledgementBody.model_validate(_owned(form) | {"codes": form.lines("codes")})
        await people.acknowledge_deployment(name, [], body.codes, body.owned, by)
    except ValidationError as error:
        wrong, status = complaints(error, {GENERAL: "codes"}), 422
    except (BadRequest, Conflict) as error:
        wrong, status = {_place(error): error.message}, error.status
    else:
        return RedirectResponse(paths.deployment_path(name), 303)
    return await show_deployment(request, name, data, ThreadQuery({}), say=form.with_wrong(wrong), status=status)


@router.post("/deployments/{name}/acknowledgements/{said}/end")
async def end_deployment_acknowledgement(name: str, said: str, people: People, by: Who) -> RedirectResponse:
    await people.end_deployment_acknowledgement(name, said, by)
    return RedirectResponse(paths.deployment_path(name), 303)


def _owned(form: Form) -> dict[str, Any]:
    until = time_of(form.one("until"))
    return {"owner": form.one("owner"), "reason": form.one("reason").strip() or None, "until": until}


async def _say(
    request: Request, data: Dashboard, form: Form, write: Callable[[], Awaitable[None]], *, name: str, place: str
) -> Response:
    """Write what somebody says, or show the drain again with the form as it was typed. ``place``: the field for what is
    wrong with none of them."""
    try:
        await write()
    except ValidationError as error:
        wrong, status = complaints(error, {GENERAL: place}), 422
    except (BadRequest, Conflict) as error:
        wrong, status = {_place(error): error.message}, error.status
    else:
        return RedirectResponse(f"{paths.drain_path(name)}#said-title", 303)
    again = form.with_wrong(wrong)
    say, attest = (None, again) if place == "names" else (again, None)
    return await show_drain(request, name, data, say=say, attest=attest, status=status)


def _place(error: DrainboardError) -> str:
    if error.code in ("unknown_threads", "not_acknowledgeable", "nothing_to_acknowledge"):
        return "thread_ids"
    return "until" if error.message.startswith("until") else GENERAL


# -- audit ---------------------------------------------------------------------------------------------------------


@router.get("/activity")
async def activity(
    request: Request, drains: Drains, by: Who, deployment: str | None = None, cursor: str | None = None
) -> HTMLResponse:
    items, following = await drains.activity(deployment=deployment, cursor=cursor, limit=ENTRIES, caller=by.caller)
    page = ActivityPage(items=items, next_cursor=following, cursor=cursor, deployment=deployment)
    return _pages(request).respond(request, page)


def _pages(request: Request) -> Pages:
    found: Pages = request.app.state.pages
    return found
