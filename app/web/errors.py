"""Error pages: a sentence that says what happened, and what to do."""

from fastapi import Request
from fastapi.responses import HTMLResponse

from app.web.contexts import ErrorPage
from app.web.render import Pages

TITLES = {
    401: "Sign in first",
    403: "Not allowed",
    404: "Not found",
    405: "Not this way",
    409: "Not possible now",
    422: "That question cannot be read",
    429: "Too many questions",
    500: "Drainboard failed",
    502: "The server could not be asked",
    503: "Not available now",
}
ADVICE = {
    401: "Open the overview and sign in there.",
    403: "Ask an administrator for the right, or use another account.",
    404: "Check the name in the address, or start from the overview: names are case-sensitive.",
    405: "Open this address as a page instead of sending a form to it.",
    409: "Reload the page that you came from: somebody else may have changed it meanwhile.",
    422: "Correct the address, or start again without filters.",
    429: "Wait a minute, then try again.",
    500: "Try again. If it stays, look at the log of the Drainboard server at this time; no verdict was changed.",
    502: "Check that the Agent Server is up and that its key is valid, then try again.",
    503: "Try again in a minute. Nothing that was stored is lost.",
}
ADVICE_BY_CODE = {
    "managed_by_file": "Change it in that file and start Drainboard again.",
    "cross_site": "Drainboard takes a form only from its own pages.",
}
MESSAGES = {
    404: "There is no page at this address.",
    405: "This address does not take that kind of request.",
    422: "Something in the address or the form has a form that Drainboard does not know.",
    500: "Something in Drainboard itself went wrong while it made this page.",
}
FALLBACK_STATUS = 500


def error_page(request: Request, *, status: int, code: str, message: str | None = None) -> HTMLResponse:
    """The page for any error. Without a ``message`` (FastAPI's own 404, 405, 422; a crash) it brings its own."""
    known = status if status in TITLES else FALLBACK_STATUS
    page = ErrorPage(
        status=status,
        code=code,
        title=TITLES[known],
        message=message or MESSAGES.get(known, TITLES[known] + "."),
        advice=ADVICE_BY_CODE.get(code, ADVICE[known]),
    )
    pages: Pages = request.app.state.pages
    return pages.respond_error(request, page)
