"""API tokens: their hashes, rights and ends. The tokens themselves are never stored."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.inventory import tables
from app.inventory.views import Token

_token = tables.api_token


async def add_token(connection: AsyncConnection, digest: str, found: Token) -> bool:
    """Store a token by its digest; False when its name is taken by one that still stands."""
    standing = select(_token.c.id).where(_token.c.name == found.name, _token.c.revoked_at.is_(None))
    if (await connection.execute(standing)).first() is not None:
        return False
    values = {
        "digest": digest,
        "name": found.name,
        "rights": sorted(found.rights),
        "deployments": None if found.deployments is None else sorted(found.deployments),
        "created_at": found.created_at,
        "expires_at": found.expires_at,
    }
    await connection.execute(_token.insert().values(**values))
    return True


async def find_token(connection: AsyncConnection, digest: str, now: datetime) -> Token | None:
    """The token of a digest, if it counts now."""
    row = (await connection.execute(select(_token).where(_token.c.digest == digest, _counts(now)))).one_or_none()
    return None if row is None else _told(row)


async def list_tokens(connection: AsyncConnection) -> tuple[Token, ...]:
    """Every token that was ever made, newest first."""
    return tuple(_told(row) for row in await connection.execute(select(_token).order_by(_token.c.id.desc())))


async def revoke_token(connection: AsyncConnection, name: str, now: datetime) -> bool:
    """End a token; False when none of that name stands."""
    where = and_(_token.c.name == name, _token.c.revoked_at.is_(None))
    return bool((await connection.execute(update(_token).where(where).values(revoked_at=now))).rowcount)


async def note_use(connection: AsyncConnection, names: Iterable[str], now: datetime) -> None:
    """When tokens were last used."""
    where = and_(_token.c.name.in_(list(names)), _token.c.revoked_at.is_(None))
    await connection.execute(update(_token).where(where).values(last_used_at=now))


def _counts(now: datetime) -> Any:
    return and_(_token.c.revoked_at.is_(None), or_(_token.c.expires_at.is_(None), _token.c.expires_at > now))


def _told(row: Any) -> Token:
    return Token(
        name=row.name,
        rights=tuple(row.rights),
        deployments=None if row.deployments is None else tuple(row.deployments),
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )
