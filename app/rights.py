"""Who may do what: a caller's rights, and over which deployments they go. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Self


class Right(StrEnum):
    """One thing that a caller may do. ``index`` and ``facts`` are for what pushes, and for nothing else."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"
    INDEX = "index"
    FACTS = "facts"


Role = Literal["viewer", "operator", "admin"]
ROLES: dict[str, frozenset[Right]] = {
    "viewer": frozenset({Right.READ}),
    "operator": frozenset({Right.READ, Right.OPERATE, Right.INDEX}),
    "admin": frozenset(Right),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights over some deployments: those that are named, or that are of an environment that is named; None of both: all."""

    rights: frozenset[Right]
    deployments: frozenset[str] | None = None
    environments: frozenset[str] | None = None

    @property
    def is_everywhere(self) -> bool:
        """Whether it goes over every deployment, and over what belongs to none."""
        return self.deployments is None and self.environments is None

    def covers(self, deployment: str, environment: str | None) -> bool:
        """Whether it goes over a deployment."""
        return (
            self.is_everywhere
            or deployment in (self.deployments or ())
            or (environment is not None and environment in (self.environments or ()))
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``name``: as the audit writes it; None while nobody has to say who they are."""

    name: str | None
    kind: Literal["open", "token", "person"]
    grants: tuple[Grant, ...]

    def may(self, right: Right, deployment: str, environment: str | None = None) -> bool:
        """Whether this caller has a right over a deployment."""
        return any(right in grant.rights and grant.covers(deployment, environment) for grant in self.grants)

    def may_everywhere(self, right: Right) -> bool:
        """Whether this caller has a right over all, and over what belongs to no deployment."""
        return any(right in grant.rights and grant.is_everywhere for grant in self.grants)

    def may_somewhere(self, right: Right) -> bool:
        """Whether this caller has a right over anything."""
        return any(right in grant.rights for grant in self.grants)

    @classmethod
    def anybody(cls) -> Self:
        """The caller of a dashboard without sign-in."""
        return cls(None, "open", (Grant(frozenset(Right)),))

    @classmethod
    def with_rights(
        cls,
        name: str,
        rights: Iterable[Right],
        *,
        deployments: Iterable[str] | None = None,
        kind: Literal["token", "person"] = "token",
    ) -> Self:
        """A caller with one grant."""
        named = None if deployments is None else frozenset(deployments)
        return cls(name, kind, (Grant(frozenset(rights), named),))
