"""``drainboard tokens``: API tokens, made and revoked on the configured database by whoever can reach it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from app.cli import output
from app.clock import utc_now
from app.durations import parse_duration

if TYPE_CHECKING:
    from app.auth.tokens import Tokens
    from app.drains.register import By
    from app.inventory.views import Token

NEVER = "never"

tokens = typer.Typer(help="API tokens for scripts, and for what pushes.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@tokens.command("create")
def create(
    name: str,
    rights: Annotated[str, typer.Option(help="Some of read,operate,admin,index,facts.")],
    deployments: Annotated[str | None, typer.Option(help="Names, with commas. Without: all.")] = None,
    expires: Annotated[str, typer.Option(help="Like 90d, or never.")] = "90d",
    json: Json = False,
) -> None:
    """Make a token and print it. Nobody can see it again."""
    ends = _expiry(expires)

    async def work(found: "Tokens") -> None:
        named = None if deployments is None else _split(deployments)
        secret, made = await found.create(name, _split(rights), deployments=named, expires_in=ends, by=_by())
        if json:
            output.as_json({"token": secret, **_jsonable(made)})
            return
        output.err.print(output.plain(f"{made.name} may {', '.join(made.rights)} over {_over(made)}. Copy it now:"))
        output.out.print(output.plain(secret), soft_wrap=True)

    _run(work)


@tokens.command("list")
def list_all(json: Json = False) -> None:
    """Every token that was ever made, without its secret."""

    async def work(found: "Tokens") -> None:
        items = await found.all()
        if json:
            output.as_json({"items": [_jsonable(one) for one in items]})
        elif not items:
            output.out.print("There is no token yet. `drainboard tokens create` makes one.")
        else:
            output.table(["token", "may", "over", "ends", "last used"], [_row(token) for token in items])

    _run(work)


@tokens.command("revoke")
def revoke(name: str, json: Json = False) -> None:
    """End a token at once."""

    async def work(found: "Tokens") -> None:
        await found.revoke(name, _by())
        if json:
            output.as_json({"revoked": name})
        else:
            output.out.print(output.plain(f"{name} is revoked."))

    _run(work)


def _by() -> "By":
    from app.drains.register import By

    return By("command line", utc_now())


def _jsonable(token: "Token") -> dict[str, Any]:
    from app.drains.jsonable import to_jsonable

    found: dict[str, Any] = to_jsonable(token)
    return found


def _run(work: Callable[["Tokens"], Awaitable[None]]) -> NoReturn:
    from app.auth.tokens import Tokens
    from app.jobs.runtime import open_runtime
    from app.settings import load_settings

    async def ask() -> None:
        settings = load_settings()
        async with open_runtime(settings, schedule=False) as runtime:
            await work(Tokens(settings, runtime.store))

    asyncio.run(ask())
    raise typer.Exit(0)


def _split(raw: str) -> list[str]:
    return [part.strip() for part in raw.split(",") if part.strip()]


def _expiry(raw: str) -> timedelta | None:
    if raw == NEVER:
        return None
    try:
        return parse_duration(raw)
    except ValueError as error:
        raise typer.BadParameter(f"--expires: {error}, or never.") from None


def _over(token: "Token") -> str:
    return "all deployments" if token.deployments is None else ", ".join(token.deployments)


def _row(token: "Token") -> tuple[str, ...]:
    ends = token.revoked_at or token.expires_at
    said = NEVER if ends is None else f"{'revoked ' if token.revoked_at else ''}{ends:%Y-%m-%d %H:%M}"
    used = NEVER if token.last_used_at is None else f"{token.last_used_at:%Y-%m-%d %H:%M}"
    return tuple(output.plain(each) for each in (token.name, ", ".join(token.rights), _over(token), said, used))
