"""An application with the pages and a fake dashboard."""

from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.testclient import TestClient
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import DrainboardError
from app.rights import Caller
from app.web import changes, preflights
from app.web.errors import error_page
from app.web.render import Pages
from app.web.routes import router
from tests.web.fakes import (
    NOW,
    FakeDashboard,
    FakePreflights,
    FakeRegister,
    FakeStatements,
    FakeWaiters,
    full_dashboard,
)

Open = Callable[..., TestClient]


def make_app(dashboard: FakeDashboard, *, open_notice: bool = False) -> FastAPI:
    app = FastAPI()
    app.add_middleware(_Anybody)
    app.state.dashboard = dashboard
    app.state.pages = Pages(version="0.1.0", open_notice=open_notice, clock=lambda: NOW)
    app.state.register = FakeRegister(dashboard)
    app.state.statements = FakeStatements()
    app.state.waiters = FakeWaiters()
    app.state.preflights = FakePreflights()
    app.include_router(preflights.router)
    app.include_router(changes.router)
    app.include_router(router)

    @app.exception_handler(DrainboardError)
    async def ours(request: Request, error: DrainboardError) -> Response:
        return error_page(request, status=error.status, code=error.code, message=error.message)

    @app.exception_handler(HTTPException)
    async def theirs(request: Request, error: HTTPException) -> Response:
        return error_page(request, status=error.status_code, code="http")

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        return error_page(request, status=422, code="bad_request")

    @app.exception_handler(Exception)
    async def crashed(request: Request, error: Exception) -> Response:
        return error_page(request, status=500, code="internal")

    return app


class _Anybody:
    """Lets everybody in, as a dashboard without sign-in does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["caller"] = Caller.anybody()
        await self._app(scope, receive, send)


@pytest.fixture
def dashboard() -> FakeDashboard:
    return full_dashboard()


@pytest.fixture
def web(dashboard: FakeDashboard) -> Iterator[TestClient]:
    with TestClient(make_app(dashboard), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def empty_web() -> Iterator[TestClient]:
    with TestClient(make_app(FakeDashboard()), raise_server_exceptions=False) as client:
        yield client
