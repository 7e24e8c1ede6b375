"""The cookie of who has signed in: signed with the key file, for some hours, of nobody else's use."""

import hashlib
from typing import Any

from app.settings import Settings

COOKIE = "drainboard_session"


def session_options(settings: Settings) -> dict[str, Any]:
    """How Starlette's ``SessionMiddleware`` keeps the session. The cookie is ``HttpOnly`` by itself."""
    return {
        "secret_key": hashlib.sha256(b"session" + settings.hash_key()).hexdigest(),
        "session_cookie": COOKIE,
        "max_age": int(settings.sign_in.session.total_seconds()),
        "same_site": "lax",  # the provider's answer comes from its own site, by a link
        "https_only": settings.sign_in.secure_cookies,
    }
