"""The web application put together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import metrics
from app.api import drains as drains_api
from app.api import erasing as api_erasing
from app.api import facts as facts_api
from app.api import index as api_index
from app.api import preflight as api_preflight
from app.api import routes as api
from app.api import waiters as api_waiters
from app.api import webhooks as api_webhooks
from app.auth.access import Access
from app.auth.callers import Callers
from app.auth.sessions import session_options
from app.auth.tokens import Tokens
from app.cli.connection import MARK
from app.clock import utc_now
from app.drains.erasing import Erasure
from app.drains.jsonable import to_jsonable
from app.drains.preflights import Preflights
from app.drains.waiters import Waiters
from app.errors import DrainboardError
from app.jobs.dashboard import Dashboard
from app.jobs.health import Health, liveness, readiness
from app.jobs.runtime import Runtime, open_runtime
from app.jobs.webhooks import Webhooks
from app.logs import get_logger
from app.places import STATIC
from app.settings import Settings
from app.version import VERSION
from app.web import changes, preflights, settings_page, sign_in
from app.web import routes as web
from app.web.errors import error_page
from app.web.render import SECURITY_HEADERS, Pages
from app.web.request_log import HEADER as REQUEST_ID
from app.web.request_log import RequestLog

# The pages that change something come before the others: a drain cannot be named "new" in an address.
ROUTERS = (
    api.router,
    drains_api.router,
    preflights.router,
    changes.router,
    api_index.router,
    api_preflight.router,
    api_waiters.router,
    api_webhooks.router,
    api_erasing.router,
    facts_api.router,
    web.router,
    sign_in.router,
    settings_page.router,
)
MAX_BODY = 8_000_000  # bytes; a batch of the thread index, the largest thing that is sent, has half of it

log = get_logger("http")


def create_app(
    settings: Settings,
    *,
    schedule: bool = True,
    open_notice: bool = False,
    is_local: bool = False,
    transport: Callable[[str], httpx.AsyncBaseTransport] | None = None,
) -> FastAPI:
    """Drainboard as an ASGI application. ``schedule``: poll in this process; ``is_local``: only this process asks,
    for somebody who can reach the database anyway. ``transport``: of a deployment, for tests."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_runtime(settings, schedule=schedule, transport=transport) as runtime:
            app.state.runtime = runtime
            app.state.dashboard = Dashboard(runtime)
            app.state.register = runtime.register
            app.state.statements = runtime.statements
            app.state.tokens = Tokens(settings, runtime.store)
            app.state.erasure = Erasure(runtime.store, runtime.drains)
            app.state.webhooks = Webhooks(settings, runtime.store)
            app.state.waiters = Waiters(runtime.store, runtime.drains)
            app.state.preflights = Preflights(settings, runtime.store)
            yield

    app = FastAPI(
        title="Drainboard",
        version=VERSION,
        summary="Can this old LangGraph node, state field or state version go?",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        max_body_size=MAX_BODY,
    )
    app.state.pages = Pages(version=VERSION, open_notice=open_notice and settings.sign_in.mode == "open", clock=utc_now)
    for router in ROUTERS:  # not include_router, which would make every route anew for each application
        app.router.routes.extend(router.routes)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    signs_in = settings.sign_in.mode != "open" and not is_local
    callers = Callers(settings, _tokens, is_open=not signs_in)
    app.state.callers = callers
    app.state.provider = _provider(settings) if settings.sign_in.mode == "oidc" and signs_in else None
    app.add_middleware(Access, settings=settings, callers=callers, deployment_of=_deployment_of, respond=_respond)
    if signs_in:
        app.add_middleware(SessionMiddleware, **session_options(settings))
    app.add_middleware(_NoNul)
    app.add_middleware(_Mark)
    app.state.http_metrics = metrics.HttpMetrics()
    app.add_middleware(RequestLog, metrics=app.state.http_metrics, is_quiet=is_local)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    _add_probes(app)
    _add_error_handlers(app)
    return app


def _provider(settings: Settings) -> object:
    from app.auth.provider import Provider  # with Authlib, which takes its time

    return Provider(settings)


def _tokens(request: Request) -> Tokens:
    found: Tokens = request.app.state.tokens
    return found


async def _deployment_of(request: Request, drain: str) -> str | None:
    """The deployment of a drain, or None when there is no such drain."""
    runtime: Runtime = request.app.state.runtime
    return await runtime.register.deployment_of(drain)


def _respond(request: Request, error: DrainboardError) -> Response:
    return _error(request, error.status, error.code, error.message)


class _Mark:
    """Says on every answer that it is Drainboard's, and of which version."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with one more header."""

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[MARK] = VERSION
            await send(message)

        await self._app(scope, receive, marked if scope["type"] == "http" else send)


class _NoNul:
    """Refuses an address with the character NUL, which no database can look for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] == "http" and ("\x00" in scope["path"] or b"%00" in scope["query_string"]):
            sentence = "The address holds the character NUL. Take it out."
            await _error(Request(scope), 422, "invalid", sentence)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _add_probes(app: FastAPI) -> None:
    @app.get("/healthz", include_in_schema=False)
    async def healthz(request: Request) -> JSONResponse:
        return _probed(liveness(request.app.state.runtime))

    @app.get("/readyz", include_in_schema=False)
    async def readyz(request: Request) -> JSONResponse:
        return _probed(await readiness(request.app.state.runtime))

    @app.get("/metrics", include_in_schema=False)
    async def metrics_(request: Request) -> Response:
        snapshot = await _snapshot(request)
        body = metrics.render(snapshot, request.app.state.http_metrics)
        return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


def _probed(found: Health) -> JSONResponse:
    return JSONResponse(to_jsonable(found), found.http_status, {"Cache-Control": "no-store"})


async def _snapshot(request: Request) -> metrics.Snapshot:
    state, caller = request.app.state, request.state.caller
    runtime: Runtime = state.runtime
    dashboard: Dashboard = state.dashboard.seen_by(caller)
    deployments = await dashboard.deployments()
    seen = {each.name for each in deployments}
    return metrics.Snapshot(
        now=utc_now(),
        deployments=deployments,
        drains=await dashboard.drains(),
        webhooks=await state.webhooks.all(caller),
        asked=[metrics.Asked(*found) for found in runtime.asked() if found[0] in seen],
        schedule=runtime.schedule.counts,
        workers=len((await dashboard.work()).alive),
    )


def _add_error_handlers(app: FastAPI) -> None:
    """Every error has one shape: JSON below ``/api``, a page elsewhere. None repeats what the caller sent."""

    @app.exception_handler(DrainboardError)
    async def known(request: Request, error: DrainboardError) -> Response:
        return _error(request, error.status, error.code, error.message)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        return _error(request, 422, "invalid", f"{place}: {message}. Correct it and ask again.")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code, message = {
            400: ("unreadable", "The body could not be read. Send JSON in UTF-8, not nested deeply."),
            413: ("too_large", f"The body is longer than {MAX_BODY // 1_000_000} MB. Send it in several parts."),
            404: ("not_found", "There is nothing at this address. The routes are listed at /api/v1/openapi.json."),
            405: ("method_not_allowed", "This address does not take that method. See /api/v1/openapi.json."),
        }.get(error.status_code, ("http_error", "The request could not be served as it was sent."))
        found = _error(request, error.status_code, code, message if _is_api(request) else None)
        found.headers.update(error.headers or {})
        if error.status_code == 405:
            found.headers["allow"] = ", ".join(_methods(request))
        return found

    @app.exception_handler(Exception)
    async def crash(request: Request, error: Exception) -> Response:
        request_id = getattr(request.state, "request_id", "none")
        route = getattr(request.scope.get("route"), "path", "none")
        log.error("request.crashed", request=request_id, route=route, kind=type(error).__name__)
        message = (
            "Something in Drainboard went wrong; its log has the kind. Nothing was changed."
            if _is_api(request)
            else None
        )
        found = _error(request, 500, "internal", message)
        found.headers[REQUEST_ID] = request_id
        return found


def _methods(request: Request) -> list[str]:
    """Every method that some route at this address takes; the router names those of the first one alone."""
    found: set[str] = set()
    for route in (route for router in ROUTERS for route in router.routes if isinstance(route, Route)):
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


def _is_api(request: Request) -> bool:
    return request.url.path.startswith(("/api/", "/healthz", "/readyz", "/metrics"))


def _error(request: Request, status: int, code: str, message: str | None) -> Response:
    if _is_api(request):
        return JSONResponse(dict(api.error_body(code, message or "")), status, headers=dict(SECURITY_HEADERS))
    return error_page(request, status=status, code=code, message=message)
