"""Which server, or reporter, the threads of a deployment are of. After another address or key what is remembered is of the one
before, and proves nothing until everything was listed again.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import SettingsError
from app.inventory import reads, writes
from app.settings import DeploymentSettings


@dataclass(frozen=True, slots=True)
class Origin:
    """``asked``: a keyed hash of the address, the key, and what is read of a row; ``place``: one of the address alone, which
    can be told without the key. ``changed_at``: when either was last another one."""

    asked: str
    place: str
    changed_at: datetime | None = None


def asked_of(settings: DeploymentSettings, hash_key: bytes) -> str | None:
    """A keyed hash of what makes the rows of a list what they are. None: the key is not to be had any more."""
    try:
        key = settings.api_key()
    except SettingsError:
        return None
    read = [list(settings.metadata_keys), list(settings.all_version_keys)]
    return _hash(hash_key, [place_of(settings, hash_key), key, *read])


def place_of(settings: DeploymentSettings, hash_key: bytes) -> str:
    """A keyed hash of the address; a deployment that is reported has none."""
    return _hash(hash_key, [None if settings.reported else settings.url])


async def keep_origin(
    connection: AsyncConnection, settings: DeploymentSettings, hash_key: bytes, *, was_swept: bool, now: datetime
) -> bool:
    """Keep whom a poll, or a reporter, is about to tell of. Whether that is another one than what was swept is of: then a
    sweep is wanted, since a scan would only see what changed there of late. What was swept before this was kept is of nobody
    knows whom."""
    row = await reads.find_deployment(connection, settings.name)
    asked, place = asked_of(settings, hash_key), place_of(settings, hash_key)
    if row is None or asked is None:
        return False
    if is_asked(row.source, settings, hash_key):
        return False
    before = origin_of(row.source)
    is_other = before is not None or was_swept
    await writes.update_deployment(connection, row.id, source=_kept(Origin(asked, place, now if is_other else None)))
    if is_other:
        await writes.update_deployment(connection, row.id, sweep_wanted_at=now)
    return is_other


def is_asked(raw: Mapping[str, Any] | None, settings: DeploymentSettings, hash_key: bytes) -> bool:
    """Whether what is kept of a deployment came with the address, the key and the rest that the settings have."""
    origin = origin_of(raw)
    return origin is not None and (origin.asked, origin.place) == (
        asked_of(settings, hash_key),
        place_of(settings, hash_key),
    )


def other_server_at(raw: Mapping[str, Any] | None, settings: DeploymentSettings, hash_key: bytes) -> datetime | None:
    """When another server began to be asked than before, by what is kept of a deployment; in the future, when the settings name
    one that no poll has asked yet. What was swept earlier proves nothing."""
    origin = origin_of(raw)
    if origin is None:
        return None
    is_asked = origin.place == place_of(settings, hash_key)
    return origin.changed_at if is_asked else datetime.max.replace(tzinfo=UTC)


def origin_of(raw: Mapping[str, Any] | None) -> Origin | None:
    """An origin as it is kept."""
    if raw is None:
        return None
    changed = raw["changed_at"]
    return Origin(raw["asked"], raw["place"], None if changed is None else datetime.fromisoformat(changed))


def _kept(origin: Origin) -> dict[str, str | None]:
    changed = origin.changed_at
    return {
        "asked": origin.asked,
        "place": origin.place,
        "changed_at": None if changed is None else changed.isoformat(),
    }


def _hash(hash_key: bytes, parts: list[Any]) -> str:
    return hmac.new(hash_key, repr(parts).encode(), hashlib.sha256).hexdigest()[:24]
