"""What a request needs: a right, and the object that it is about. Pure; by the address alone, so that a route that somebody
adds tomorrow is closed until it is known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.rights import Right

PUBLIC = frozenset({"static", "healthz", "readyz", "sign-in", "sign-out", "favicon.ico"})
ADMINS = frozenset({"settings", "tokens"})
_ASKS = frozenset({"GET", "HEAD", "OPTIONS"})
_PUSHES = {"index": Right.INDEX, "facts": Right.FACTS, "topology": Right.FACTS}
_ASKED_BY_POST = frozenset({"preflight"})
_A_WAITER = 4  # parts of its address


@dataclass(frozen=True, slots=True)
class Need:
    """Any of these rights over an object; ``noun`` None: over something, of which the answer then shows no more than the caller
    may see. ``everywhere``: over all."""

    rights: frozenset[Right]
    noun: Literal["deployment", "drain"] | None = None
    name: str | None = None
    everywhere: bool = False


def needed(method: str, path: str) -> Need | None:
    """What a request needs; None: nothing, everybody may have it."""
    parts = [part for part in path.split("/") if part]
    if parts[:2] == ["api", "v1"]:
        parts = parts[2:]
    if parts and parts[0] in PUBLIC:
        return None
    if parts and parts[0] in ADMINS:
        return Need(frozenset({Right.ADMIN}), everywhere=True)
    rights = _rights(method, parts)
    if len(parts) > 1 and parts[0] == "deployments":
        return Need(rights, "deployment", parts[1])
    if len(parts) > 1 and parts[0] == "drains" and parts[1] != "new":
        return Need(rights, "drain", parts[1])
    return Need(rights)


def _rights(method: str, parts: Sequence[str]) -> frozenset[Right]:
    what = parts[2] if len(parts) > 2 and parts[0] == "deployments" else ""
    if parts[:1] == ["drains"] and parts[2:3] == ["waiters"] and method in ("POST", "PUT") and len(parts) <= _A_WAITER:
        return frozenset(
            {Right.READ}
        )  # who may ask the gate may be seen to wait at it; to cancel a wait is an operator's
    if what == "threads" and method == "DELETE":
        return frozenset({Right.ADMIN})  # what is erased does not come back by itself
    if method in _ASKS or what in _ASKED_BY_POST:
        # What reports is told which threads there are to report.
        return frozenset({Right.READ, Right.FACTS}) if what == "index" else frozenset({Right.READ})
    return frozenset({_PUSHES.get(what, Right.OPERATE)})
