"""Who may see what: every request passes here before any route. What is not known to be public needs a right."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.auth.callers import Callers
from app.auth.needs import Need, needed
from app.errors import DrainboardError, Forbidden, NotFound, Unauthenticated
from app.rights import Caller, Right
from app.settings import DeploymentSettings, Settings

FindDeployment = Callable[[Request, str], Awaitable[str | None]]
Respond = Callable[[Request, DrainboardError], Response]


class Access:
    """Finds out who asks, puts it at ``request.state.caller``, and refuses what they may not.

    An object that a caller may not even read is answered as one that is not there. ``deployment_of``: the deployment of a drain.
    """

    def __init__(
        self, app: ASGIApp, *, settings: Settings, callers: Callers, deployment_of: FindDeployment, respond: Respond
    ) -> None:
        self._app = app
        self._settings = settings
        self._callers = callers
        self._deployment_of = deployment_of
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            request.state.caller = await self._admit(request)
        except Unauthenticated as error:
            await self._ask_to_sign_in(request, error)(scope, receive, send)
        except DrainboardError as error:
            await self._respond(request, error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _admit(self, request: Request) -> Caller | None:
        need = needed(request.method, _route_path(request.scope))
        if need is None:
            return None
        caller = await self._callers.of(request)
        await self._check(request, caller, need)
        return caller

    async def _check(self, request: Request, caller: Caller, need: Need) -> None:
        if need.everywhere:
            fine = any(caller.may_everywhere(right) for right in need.rights)
        elif need.noun is None or need.name is None:
            fine = any(caller.may_somewhere(right) for right in need.rights)
        else:
            fine = await self._check_object(request, caller, need, need.name)
        if not fine:
            raise _forbidden(need)

    async def _check_object(self, request: Request, caller: Caller, need: Need, name: str) -> bool:
        if any(caller.may_everywhere(right) for right in need.rights):
            return True
        of_drain = need.noun == "drain"
        owner = await self._deployment_of(request, name) if of_drain else name
        if of_drain and owner is None:  # there is none, or it is made now: then what it says is checked
            return any(caller.may_somewhere(right) for right in need.rights)
        deployment = self._settings.deployment(owner or "")
        if deployment is None or not any(_may(caller, right, deployment) for right in Right):
            raise NotFound(f"There is no {need.noun} with the name {name[:100]!r}, or it is not yours to see.")
        return any(_may(caller, right, deployment) for right in need.rights)

    def _ask_to_sign_in(self, request: Request, error: Unauthenticated) -> Response:
        path = request.scope["path"]
        is_page = not path.startswith(("/api/", "/metrics")) and "hx-request" not in request.headers
        if is_page and request.method in ("GET", "HEAD"):
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"/sign-in?next={quote(path + query, safe='')}", 303, {"Cache-Control": "no-store"})
        response = self._respond(request, error)
        response.headers["WWW-Authenticate"] = "Bearer"
        return response


def _route_path(scope: Scope) -> str:
    """The path as the routes are matched by it: below the place that a proxy mounts us at."""
    path: str = scope["path"]
    below = path.removeprefix(scope.get("root_path", ""))
    return below if below.startswith("/") else path


def _may(caller: Caller, right: Right, deployment: DeploymentSettings) -> bool:
    return caller.may(right, deployment.name, deployment.environment)


def _forbidden(need: Need) -> Forbidden:
    rights = " or ".join(sorted(need.rights))
    where = f"over this {need.noun}" if need.noun else "over everything" if need.everywhere else "over any deployment"
    return Forbidden(f"This needs the right {rights} {where}, which you do not have. Ask an administrator for it.")
