"""The page Settings: API tokens, and what became of messages to webhooks."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from app.auth.callers import by_of
from app.auth.same_origin import require_same_origin
from app.auth.tokens import Tokens
from app.clock import utc_now
from app.durations import parse_duration
from app.errors import BadRequest, Conflict
from app.jobs.webhooks import Webhooks
from app.rights import Right
from app.web.contexts import SettingsPage
from app.web.forms import GENERAL, Form, read_form
from app.web.render import Pages

DEFAULT_EXPIRY = "90d"
DELIVERIES_SHOWN = 50

router = APIRouter(
    default_response_class=HTMLResponse, include_in_schema=False, dependencies=[Depends(require_same_origin)]
)


async def _form(request: Request) -> Form:
    return read_form(await request.body())


def _tokens(request: Request) -> Tokens:
    found: Tokens = request.app.state.tokens
    return found


def _webhooks(request: Request) -> Webhooks:
    found: Webhooks = request.app.state.webhooks
    return found


Sent = Annotated[Form, Depends(_form)]
Api = Annotated[Tokens, Depends(_tokens)]
Hooks = Annotated[Webhooks, Depends(_webhooks)]


@router.get("/settings")
async def settings_page(request: Request, tokens: Api, webhooks: Hooks) -> HTMLResponse:
    return await _settings_page(request, (tokens, webhooks), Form({"expires": (DEFAULT_EXPIRY,), "rights": ("read",)}))


@router.post("/settings/tokens")
async def create_token(request: Request, tokens: Api, webhooks: Hooks, form: Sent) -> HTMLResponse:
    both = tokens, webhooks
    try:
        expires = form.one("expires").strip()
        secret, made = await tokens.create(
            form.one("name"),
            form.lines("rights"),
            deployments=form.lines("deployments") or None,
            expires_in=parse_duration(expires) if expires else None,
            by=by_of(request, "browser", utc_now()),
        )
    except (BadRequest, Conflict) as error:
        place = "name" if error.code == "token_exists" else GENERAL
        return await _settings_page(request, both, form.with_wrong({place: error.message}), status=error.status)
    except ValueError as error:
        wrong = {"expires": f"{str(error).capitalize()}."}
        return await _settings_page(request, both, form.with_wrong(wrong), status=422)
    blank = Form({"expires": (DEFAULT_EXPIRY,), "rights": ("read",)})
    return await _settings_page(request, both, blank, made=(made.name, secret), status=201)


@router.post("/settings/tokens/{name:path}/revoke")
async def revoke_token(request: Request, name: str, tokens: Api) -> RedirectResponse:
    await tokens.revoke(name, by_of(request, "browser", utc_now()))
    return RedirectResponse("/settings", 303)


async def _settings_page(
    request: Request,
    both: tuple[Tokens, Webhooks],
    form: Form,
    *,
    made: tuple[str, str] | None = None,
    status: int = 200,
) -> HTMLResponse:
    settings, caller = request.app.state.runtime.settings, request.state.caller
    tokens, webhooks = both
    deliveries, _ = await webhooks.deliveries(caller, webhook=None, state=None, cursor=None, limit=DELIVERIES_SHOWN)
    dead, _ = await webhooks.deliveries(caller, webhook=None, state="dead", cursor=None, limit=DELIVERIES_SHOWN)
    page = SettingsPage(
        work=await request.app.state.dashboard.work(),
        mode=settings.sign_in.mode,
        tokens=await tokens.all(),
        form=form,
        made=made,
        rights=tuple(Right),
        deployments=tuple(each.name for each in settings.deployments),
        webhooks=await webhooks.all(caller),
        dead=dead,
        deliveries=tuple(each for each in deliveries if each.state != "dead"),
    )
    return _pages(request).respond(request, page, status=status)


@router.post("/settings/webhooks/{webhook}/test")
async def test_webhook(request: Request, webhook: str, webhooks: Hooks) -> RedirectResponse:
    await webhooks.test(webhook, by_of(request, "browser", utc_now()))
    return RedirectResponse("/settings#webhooks", 303)


@router.post("/settings/deliveries/{delivery}/send")
async def send_again(request: Request, delivery: str, webhooks: Hooks) -> RedirectResponse:
    await webhooks.send_again(delivery, by_of(request, "browser", utc_now()))
    return RedirectResponse("/settings#webhooks", 303)


def _pages(request: Request) -> Pages:
    found: Pages = request.app.state.pages
    return found
