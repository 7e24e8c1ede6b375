"""From a request to a caller: by its token, by its session, or, without sign-in, anybody."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from limits import parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import MovingWindowRateLimiter
from starlette.requests import Request

from app.auth.tokens import Tokens, caller_of
from app.clock import utc_now
from app.drains.register import By
from app.errors import TooMany, Unauthenticated
from app.rights import ROLES, Caller, Grant
from app.settings import GrantSettings, Settings

FAILURES = parse("10/minute")


class Callers:
    """Finds out who asks. ``tokens``: of the running application; ``is_open``: nobody has to say who they are.

    Raises ``Unauthenticated`` and ``TooMany``.
    """

    def __init__(
        self,
        settings: Settings,
        tokens: Callable[[Request], Tokens],
        *,
        is_open: bool,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._settings = settings
        self._is_open = is_open
        self._tokens = tokens
        self._clock = clock
        self._failures = MovingWindowRateLimiter(MemoryStorage())

    async def of(self, request: Request) -> Caller:
        """The caller of a request. A token that is sent counts, also where nobody has to send one."""
        if secret := _bearer(request):
            return await self.with_token(request, secret)
        if self._is_open:
            return Caller.anybody()
        caller = await self._of_session(request)
        if caller is None:
            raise Unauthenticated("Sign in, or send an API token as `Authorization: Bearer …`.")
        return caller

    async def with_token(self, request: Request, secret: str) -> Caller:
        """Who comes with a token. Few wrong ones a minute are looked at for each address; a right one is never held up, since many
        callers may share the address of a proxy."""
        found = await self._tokens(request).find(secret, self._clock())
        if found is None:
            place = request.client.host if request.client else "?"
            if not await self._failures.hit(FAILURES, place):
                raise TooMany("Too many tokens that are none came from this address. Wait a minute.")
            raise Unauthenticated("This API token is not known, has expired or was revoked. Ask for another one.")
        return caller_of(found)

    async def _of_session(self, request: Request) -> Caller | None:
        session: Mapping[str, Any] = request.session
        if digest := session.get("token"):
            found = await self._tokens(request).find_digest(str(digest), self._clock())
            return None if found is None else caller_of(found)
        if person := session.get("person"):
            return person_with(str(person), session.get("roles") or (), self._settings)
        return None


def by_of(request: Request, door: str, now: datetime) -> By:
    """Who asks for a change, as the audit writes it: a name where there is one, and the door."""
    caller: Caller = request.state.caller
    return By(door if caller.name is None else f"{caller.name[:150]} ({door})", now, caller)


def person_with(name: str, values: Any, settings: Settings) -> Caller:
    """Who has signed in, with the grants that the values of their claim bring."""
    given = {values} if isinstance(values, str) else {each for each in values if isinstance(each, str)}
    grants = tuple(_grant(each) for each in settings.sign_in.all_grants if each.value in given)
    return Caller(name, "person", grants)


def _grant(settings: GrantSettings) -> Grant:
    deployments, environments = settings.deployments, settings.environments
    return Grant(
        ROLES[settings.role],
        None if deployments is None else frozenset(deployments),
        None if environments is None else frozenset(environments),
    )


def _bearer(request: Request) -> str | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() or None if kind.lower() == "bearer" else None
