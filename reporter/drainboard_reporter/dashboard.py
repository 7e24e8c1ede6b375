"""The dashboard as the reporter meets it: one route, one token. Every failure is one sentence that says what to do."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import quote

import httpx

MARK = "x-drainboard"
ATTEMPTS = 4
LONGEST_WAIT = 20.0
Json = dict[str, Any]


class ReporterError(Exception):
    """What went wrong, in one sentence. ``passes``: it may be over by the next pass."""

    def __init__(self, message: str, *, code: str = "failed", passes: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.passes = passes


class Dashboard:
    """Where facts are sent. Use as an async context manager."""

    def __init__(
        self, server: str, deployment: str, token: str | None, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._server = server.rstrip("/")
        self._deployment = deployment
        headers = {"User-Agent": "drainboard-reporter"} | ({"Authorization": f"Bearer {token}"} if token else {})
        try:
            self._http = httpx.AsyncClient(
                headers=headers, timeout=httpx.Timeout(60, connect=5), follow_redirects=False, transport=transport
            )
        except (UnicodeEncodeError, ValueError):
            raise ReporterError("The token in DRAINBOARD_TOKEN has characters that no token has.") from None

    async def __aenter__(self) -> "Dashboard":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def send(self, **message: Any) -> Json:
        """Send one message and have its answer. Raises ``ReporterError``."""
        url = f"{self._server}/api/v1/deployments/{quote(self._deployment, safe='')}/facts"
        response: httpx.Response | None = None
        for attempt in range(1, ATTEMPTS + 1):
            response = await self._try(url, message)
            if response is not None and response.status_code < 500 and response.status_code != 429:
                return self._answer(response)
            if attempt < ATTEMPTS:
                await asyncio.sleep(_wait(response, attempt))
        raise ReporterError(f"The dashboard at {self._server} {_trouble(response)}", passes=True)

    async def _try(self, url: str, message: Mapping[str, Any]) -> httpx.Response | None:
        try:
            return await self._http.post(url, json=message)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise ReporterError(f"{self._server} is no address. Give --server like http://127.0.0.1:8400.") from None
        except httpx.HTTPError:
            return None

    def _answer(self, response: httpx.Response) -> Json:
        code = response.status_code
        if code in (401, 403):
            self._fail(
                f"refuses the token for the deployment {self._deployment}. Set DRAINBOARD_TOKEN to one with the right facts "
                f"for it. {_message(response)}".rstrip(),
                code="refused",
            )
        if not _is_ours(response):
            self._fail(f"answers with {code} and does not look like a Drainboard. Is --server right?")
        if code >= 400:
            self._fail(f"does not take the facts of {self._deployment}. {_message(response)}", code=_code(response))
        found = response.json()
        return found if isinstance(found, dict) else {}

    def _fail(self, what: str, *, code: str = "failed", passes: bool = False) -> NoReturn:
        raise ReporterError(f"The dashboard at {self._server} {what}", code=code, passes=passes)


def _trouble(response: httpx.Response | None) -> str:
    """What did not work, however often it was tried."""
    if response is None:
        return "cannot be reached. Is it running, and is --server right?"
    if _is_ours(response):
        return f"could not take the facts. {_message(response)}"
    return f"answers with {response.status_code} and does not look like a Drainboard."


def _is_ours(response: httpx.Response) -> bool:
    return MARK in response.headers


def _error(response: httpx.Response) -> Mapping[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, dict) else {}


def _message(response: httpx.Response) -> str:
    return str(_error(response).get("message", ""))


def _code(response: httpx.Response) -> str:
    return str(_error(response).get("code", "failed"))


def _wait(response: httpx.Response | None, attempt: int) -> float:
    asked = response.headers.get("retry-after", "") if response is not None else ""
    return min(LONGEST_WAIT, float(asked) if asked.isdigit() else 0.5 * 2**attempt)


def pairs(raw: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """``[[a, b], …]`` of an answer."""
    return tuple((str(one[0]), str(one[1])) for one in raw)
