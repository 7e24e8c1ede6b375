"""The pages of signing in and out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.auth.callers import Callers, person_with
from app.auth.same_origin import require_same_origin
from app.auth.tokens import Tokens, digest_of
from app.errors import DrainboardError, NotFound, TooMany, Unauthenticated
from app.settings import SignInSettings
from app.web.contexts import SignInPage
from app.web.forms import Form, read_form
from app.web.render import Pages

if TYPE_CHECKING:  # Authlib is loaded where a provider is configured
    from app.auth.provider import Provider

router = APIRouter(
    default_response_class=HTMLResponse, include_in_schema=False, dependencies=[Depends(require_same_origin)]
)


async def _form(request: Request) -> Form:
    return read_form(await request.body())


def _tokens(request: Request) -> Tokens:
    found: Tokens = request.app.state.tokens
    return found


Sent = Annotated[Form, Depends(_form)]


# -- signing in and out --------------------------------------------------------------------------------------------


@router.get("/sign-in")
async def sign_in_page(request: Request, next: str = "/") -> Response:  # noqa: A002 - as the address has it
    if _settings(request).mode == "open":
        return RedirectResponse("/", 303)
    return _page(request, _local(next))


@router.post("/sign-in")
async def sign_in(request: Request, form: Sent) -> Response:
    """With a token that somebody pastes. What the session remembers of it is its digest."""
    place, secret = _local(form.one("next")), form.one("token").strip()
    if _settings(request).mode != "token":
        raise NotFound("Nobody signs in with a token here. See sign_in in the settings.")
    callers: Callers = request.app.state.callers
    try:
        await callers.with_token(request, secret)
    except (Unauthenticated, TooMany) as error:
        return _page(request, place, wrong=error.message, status=error.status)
    _remember(request, {"token": digest_of(secret)})
    return RedirectResponse(place, 303)


@router.get("/sign-in/start")
async def start(request: Request, next: str = "/") -> Response:  # noqa: A002
    provider = _provider(request)
    request.session["next"] = _local(next)
    return await provider.start(request)


@router.get("/sign-in/callback")
async def callback(request: Request) -> Response:
    provider = _provider(request)
    place = _local(str(request.session.get("next", "/")))
    try:
        person = await provider.finish(request)
    except DrainboardError as error:
        return _page(request, place, wrong=error.message, status=error.status)
    settings = request.app.state.runtime.settings
    if not person_with(person.name, person.values, settings).grants:
        wrong = f"You are signed in as {person.name}, but have no role here. Ask an administrator for one."
        return _page(request, place, wrong=wrong, status=403)
    _remember(request, {"person": person.name, "roles": list(_useful(person.values, settings.sign_in))})
    return RedirectResponse(place, 303)


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    if _settings(request).mode != "open":
        request.session.clear()
    return RedirectResponse("/sign-in", 303)


def _settings(request: Request) -> SignInSettings:
    found: SignInSettings = request.app.state.runtime.settings.sign_in
    return found


def _provider(request: Request) -> "Provider":
    if _settings(request).mode != "oidc":
        raise NotFound("No sign-in provider is configured here. See sign_in in the settings.")
    found: Provider = request.app.state.provider
    return found


def _useful(values: tuple[str, ...], settings: SignInSettings) -> tuple[str, ...]:
    """The values that a grant names: a cookie has room for some, and what is none of ours is not kept."""
    known = {grant.value for grant in settings.all_grants}
    return tuple(value for value in values if value in known)


def _remember(request: Request, who: Mapping[str, Any]) -> None:
    request.session.clear()
    request.session.update(who)


def _local(place: str) -> str:
    """A place here, never another site."""
    fine = place.startswith("/") and not place.startswith(("//", "/\\")) and place.isprintable() and "\\" not in place
    return place if fine and not place.startswith("/sign-in") else "/"


def _page(request: Request, place: str, *, wrong: str | None = None, status: int = 200) -> Response:
    page = SignInPage(mode=_settings(request).mode, next=place, wrong=wrong)
    return _pages(request).respond(request, page, status=status)


def _pages(request: Request) -> Pages:
    found: Pages = request.app.state.pages
    return found
