"""API tokens: made, found, revoked. A token is shown once, when it is made; what is stored is its digest."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from app.drains.register import By
from app.errors import BadRequest, Conflict, NotFound
from app.inventory import register, tokens
from app.inventory.store import Store
from app.inventory.views import Token
from app.rights import Caller, Right
from app.settings import Settings

PREFIX = "drb_"  # so that scanners for leaked secrets can know one
LONGEST_NAME = 100
USE_NOTED_EVERY = timedelta(minutes=1)


class Tokens:
    """The tokens of one database. Raises ``BadRequest``, ``Conflict`` (``token_exists``), ``NotFound``."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._used: dict[str, datetime] = {}

    async def create(
        self,
        name: str,
        rights: Sequence[str],
        *,
        deployments: Sequence[str] | None,
        expires_in: timedelta | None,
        by: By,
    ) -> tuple[str, Token]:
        """Make a token: what is to be sent, which nobody sees again, and what is kept of it."""
        made = Token(
            name=_checked_name(name),
            rights=tuple(sorted(_checked_rights(rights))),
            deployments=self._checked_deployments(deployments),
            created_at=by.now,
            expires_at=None if expires_in is None else by.now + expires_in,
        )
        secret = PREFIX + secrets.token_urlsafe(32)
        detail = {"rights": list(made.rights), "deployments": None if made.deployments is None else [*made.deployments]}
        async with self._store.database.write() as connection:
            if not await tokens.add_token(connection, digest_of(secret), made):
                raise Conflict(
                    f"There is a token with the name {made.name} already. Revoke it first, or take another name.",
                    code="token_exists",
                )
            await register.add_activity(
                connection, None, now=by.now, actor=by.actor, action="token.created", subject=made.name, detail=detail
            )
        return secret, made

    async def all(self) -> tuple[Token, ...]:
        """Every token that was ever made, newest first."""
        async with self._store.database.read() as connection:
            return await tokens.list_tokens(connection)

    async def revoke(self, name: str, by: By) -> None:
        """End a token at once."""
        async with self._store.database.write() as connection:
            if not await tokens.revoke_token(connection, name, by.now):
                raise NotFound(
                    f"There is no token with the name {name[:LONGEST_NAME]!r} to revoke. `drainboard tokens list` shows all."
                )
            await register.add_activity(
                connection, None, now=by.now, actor=by.actor, action="token.revoked", subject=name, detail={}
            )

    async def find(self, secret: str, now: datetime) -> Token | None:
        """The token that was sent, if it counts now."""
        return await self.find_digest(digest_of(secret), now)

    async def find_digest(self, digest: str, now: datetime) -> Token | None:
        """The same by what a session remembers of it."""
        async with self._store.database.read() as connection:
            found = await tokens.find_token(connection, digest, now)
        if found is not None:
            await self._note_use(found.name, now)
        return found

    async def _note_use(self, name: str, now: datetime) -> None:
        """At most once a minute, so that a question stays a question."""
        before = self._used.get(name)
        if before is not None and now - before < USE_NOTED_EVERY:
            return
        self._used[name] = now
        async with self._store.database.write() as connection:
            await tokens.note_use(connection, [name], now)

    def _checked_deployments(self, names: Sequence[str] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        if unknown := next((name for name in names if self._settings.deployment(name) is None), None):
            known = ", ".join(each.name for each in self._settings.deployments) or "none"
            raise BadRequest(f"There is no deployment with the name {unknown[:100]!r}. Known: {known}.")
        if not names:
            raise BadRequest("Name at least one deployment, or leave them out for all.")
        return tuple(sorted(set(names)))


def caller_of(token: Token) -> Caller:
    """Who comes with a token."""
    rights = [Right(each) for each in token.rights]
    return Caller.with_rights(f"token {token.name}", rights, deployments=token.deployments)


def digest_of(secret: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _checked_name(raw: str) -> str:
    name = raw.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadRequest(f"A token's name has 1 to {LONGEST_NAME} printable characters.")
    return name


def _checked_rights(rights: Sequence[str]) -> set[Right]:
    known = ", ".join(Right)
    if unknown := next((each for each in rights if each not in list(Right)), None):
        raise BadRequest(f"There is no right {unknown[:40]!r}. Rights are: {known}.")
    if not rights:
        raise BadRequest(f"Name at least one right. Rights are: {known}.")
    return {Right(each) for each in rights}
