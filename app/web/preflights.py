"""The page that asks about a candidate, and the button that ends a wait."""

from collections.abc import Mapping
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.auth.callers import by_of
from app.auth.same_origin import require_same_origin
from app.clock import utc_now
from app.drains.preflights import Preflights
from app.drains.register import Register
from app.drains.waiters import Waiters
from app.errors import BadRequest, Conflict
from app.facts.candidates import BadTopology, Candidate, read_topology
from app.jobs.preflights import ask_and_open
from app.web import paths
from app.web.contexts import PreflightPage
from app.web.forms import Form, read_form
from app.web.render import Pages
from app.web.routes import Data

router = APIRouter(
    default_response_class=HTMLResponse, include_in_schema=False, dependencies=[Depends(require_same_origin)]
)


async def _form(request: Request) -> Form:
    return read_form(await request.body())


Sent = Annotated[Form, Depends(_form)]


@router.get("/deployments/{name}/preflight")
async def blank(request: Request, name: str, data: Data) -> HTMLResponse:
    return _pages(request).respond(request, PreflightPage(await data.deployment(name)))


@router.post("/deployments/{name}/preflight")
async def ask(request: Request, name: str, data: Data, form: Sent) -> Response:
    status, typed = await data.deployment(name), form.one("topology")
    preflights: Preflights = request.app.state.preflights
    register: Register = request.app.state.register
    try:
        candidates, is_whole = _candidates(typed)
        answer = await ask_and_open(
            preflights,
            register,
            name,
            candidates,
            is_whole=is_whole,
            opens=form.has("open_drain", "yes"),
            owner=None,
            by=by_of(request, "browser", utc_now()),
        )
    except (BadRequest, Conflict) as error:
        page = PreflightPage(status, typed, error.message)
        return _pages(request).respond(request, page, status=error.status)
    return _pages(request).respond(request, PreflightPage(status, typed, None, answer))


@router.post("/drains/{name}/waiters/{waiter}/cancel")
async def cancel_wait(request: Request, name: str, waiter: str) -> RedirectResponse:
    waiters: Waiters = request.app.state.waiters
    await waiters.cancel(name, waiter, by_of(request, "browser", utc_now()))
    return RedirectResponse(f"{paths.drain_path(name)}#waiters-title", 303)


def _candidates(typed: str) -> tuple[Mapping[str, Candidate], bool]:
    try:
        raw = orjson.loads(typed)
        return read_topology(raw), raw.get("whole") is True
    except orjson.JSONDecodeError:
        raise BadRequest("This is not JSON. Paste all that `drainboard topology` printed.") from None
    except BadTopology as error:
        raise BadRequest(str(error)) from None


def _pages(request: Request) -> Pages:
    found: Pages = request.app.state.pages
    return found
