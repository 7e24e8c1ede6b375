"""Refuses changes that another site asks for. Needs no token: browsers say where a request comes from."""

from urllib.parse import urlsplit

from fastapi import Request

from app.errors import Forbidden


def require_same_origin(request: Request) -> None:
    """A dependency of whatever changes something. A caller that sends neither header is not a browser, so nobody's
    session is abused; a question changes nothing and is let through.

    Only the host is compared with ``Origin``: behind a proxy that ends TLS the scheme differs.
    """
    if request.method in {"GET", "HEAD", "OPTIONS"}:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        allowed = site in {"same-origin", "none"}
    else:
        origin = request.headers.get("origin")
        allowed = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not allowed:
        raise Forbidden(
            "This was sent from another site, so nothing was done. Open Drainboard itself and repeat it there.",
            code="cross_site",
        )
