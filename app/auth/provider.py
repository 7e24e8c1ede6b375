"""OpenID Connect: to the provider and back. What comes back is a name and the values of one claim."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authlib.integrations.base_client import OAuthError
from authlib.integrations.starlette_client import OAuth
from joserfc.errors import JoseError
from starlette.requests import Request
from starlette.responses import Response

from app.errors import SourceError, Unauthenticated
from app.logs import get_logger
from app.settings import Settings, SignInSettings

try:  # Authlib asks with httpx2 where that is installed, and with httpx elsewhere
    import httpx2 as httpx
except ImportError:
    import httpx  # type: ignore[no-redef]

CALLBACK = "/sign-in/callback"
MOST_VALUES = 100  # of the claim; a session is a cookie

log = get_logger("sign_in")


@dataclass(frozen=True, slots=True)
class Person:
    """Who has signed in, and what the claim of their roles says."""

    name: str
    values: tuple[str, ...]


class Provider:
    """One provider, as the settings name it. Raises ``SourceError`` when it cannot be asked, ``Unauthenticated`` when it says
    no or what it says cannot be trusted."""

    def __init__(self, settings: Settings) -> None:
        self._settings: SignInSettings = settings.sign_in
        oauth = OAuth()
        oauth.register(
            "provider",
            client_id=self._settings.client_id,
            client_secret=self._settings.client_secret(),
            server_metadata_url=f"{self._settings.issuer}/.well-known/openid-configuration",
            client_kwargs={"scope": self._settings.scopes, "code_challenge_method": "S256", "timeout": 10},
        )
        self._client: Any = oauth.create_client("provider")

    async def start(self, request: Request) -> Response:
        """The way to the provider."""
        public = self._settings.public_url or str(request.base_url).rstrip("/")
        try:
            response: Response = await self._client.authorize_redirect(request, public + CALLBACK)
        except (httpx.HTTPError, ValueError, KeyError, OAuthError) as error:
            raise _failed(error) from None
        return response

    async def finish(self, request: Request) -> Person:
        """Who came back from the provider."""
        try:
            answer = await self._client.authorize_access_token(request)
        except (OAuthError, JoseError) as error:
            log.warning("sign_in.refused", kind=type(error).__name__)
            raise Unauthenticated("The provider did not sign you in, or this took too long. Try again.") from None
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise _failed(error) from None
        claims: Mapping[str, Any] = answer.get("userinfo") or {}
        name = claims.get("email") or claims.get("preferred_username") or claims.get("sub")
        if not isinstance(name, str) or not name:
            raise Unauthenticated("The provider does not say who you are: neither email, preferred_username nor sub.")
        return Person(name[:150], _values(claims.get(self._settings.roles_claim)))


def _values(claim: object) -> tuple[str, ...]:
    found = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return tuple(each for each in found if isinstance(each, str))[:MOST_VALUES]


def _failed(error: Exception) -> SourceError:
    log.warning("sign_in.provider_failed", kind=type(error).__name__)
    return SourceError("The sign-in provider could not be asked. Try again, and check sign_in.issuer if it stays.")
