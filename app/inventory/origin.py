"""Which server the threads of a deployment are of. After another address or key what is remembered is of the one before, and
proves nothing until everything was listed again.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.errors import SettingsError
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
    return _hash(hash_key, [settings.url, key, list(settings.metadata_keys), list(settings.all_version_keys)])


def place_of(settings: DeploymentSettings, hash_key: bytes) -> str:
    """A keyed hash of the address."""
    return _hash(hash_key, [settings.url])


def origin_of(raw: Mapping[str, Any] | None) -> Origin | None:
    """An origin as it is kept."""
    if raw is None:
        return None
    changed = raw["changed_at"]
    return Origin(raw["asked"], raw["place"], None if changed is None else datetime.fromisoformat(changed))


def kept(origin: Origin) -> dict[str, str | None]:
    """The reverse."""
    changed = origin.changed_at
    return {
        "asked": origin.asked,
        "place": origin.place,
        "changed_at": None if changed is None else changed.isoformat(),
    }


def _hash(hash_key: bytes, parts: list[Any]) -> str:
    return hmac.new(hash_key, repr(parts).encode(), hashlib.sha256).hexdigest()[:24]
