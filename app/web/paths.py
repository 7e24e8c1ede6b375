"""Where things are: every link of the pages, and the page behind a path of the API. Ids may hold any character."""

import re
from collections.abc import Mapping
from urllib.parse import quote

from app.drains.answers import NOBODY, Actor
from app.inventory.finding import Hit, HitKind

API = "/api/v1"

_THREADS = re.compile(rf"{API}/(?P<path>deployments/[^/?]+/threads)(?P<query>\?.*)?")
_DEPLOY = re.compile(rf"{API}/(?P<path>deployments/[^/?]+/deploys/\d+)(?P<query>\?.*)?")
_DRAIN_THREADS = re.compile(rf"{API}/(?P<path>drains/[^/?]+)/threads(?P<query>\?.*)?")


def query(values: Mapping[str, tuple[str, ...]]) -> str:
    """``?status=idle&pending=nested/sub_wait``; a lone ``?`` when there is nothing, which a link takes as "no query"."""
    pairs = [f"{quote(key)}={quote(value, safe=':/')}" for key, many in values.items() for value in many]
    return "?" + "&".join(pairs)


def deployment_path(name: str) -> str:
    return f"/deployments/{quote(name, safe='')}"


def threads_path(deployment: str, **filters: str) -> str:
    path = f"{deployment_path(deployment)}/threads"
    return path + query({key: (value,) for key, value in filters.items()}) if filters else path


def thread_path(deployment: str, thread_id: str) -> str:
    return f"{deployment_path(deployment)}/threads/{quote(thread_id, safe='')}"


def markdown_path(deployment: str, thread_id: str) -> str:
    """The evidence report as Markdown, to paste into a ticket."""
    return f"{API}{thread_path(deployment, thread_id)}/evidence?format=markdown"


def preflight_path(deployment: str) -> str:
    """Ask about a candidate before it is deployed."""
    return f"{deployment_path(deployment)}/preflight"


def deploy_path(deployment: str, deploy: int | str, fate: str | None = None, cursor: str | None = None) -> str:
    """What a deploy did, and the threads that it met."""
    given = {key: (value,) for key, value in {"fate": fate, "cursor": cursor}.items() if value is not None}
    return f"{deployment_path(deployment)}/deploys/{deploy}" + (query(given) + "#threads" if given else "")


def drain_path(name: str) -> str:
    return f"/drains/{quote(name, safe='')}"


def drain_markdown_path(name: str) -> str:
    """The answer of a drain as Markdown, for a ticket."""
    return f"{API}{drain_path(name)}?format=markdown"


def drain_json_path(name: str) -> str:
    return f"{API}{drain_path(name)}"


def answers_path(name: str, number: int | None = None) -> str:
    """What a drain said before: all of it, or one answer."""
    return f"{drain_path(name)}/answers" + (f"/{number}" if number is not None else "")


def json_path(deployment: str, thread_id: str) -> str:
    """The evidence report of a thread as JSON."""
    return f"{API}{thread_path(deployment, thread_id)}/evidence"


def studio_path(url: str, thread_id: str) -> str:
    """The thread in LangGraph Studio, which asks the server from the reader's own browser."""
    return f"https://smith.langchain.com/studio/thread/{quote(thread_id, safe='')}?baseUrl={quote(url.rstrip('/'), safe='')}"


def drain_threads_path(
    name: str,
    disposition: str | None = None,
    cursor: str | None = None,
    *,
    reason: str | None = None,
    target: str | None = None,
    actor: Actor | None = None,
) -> str:
    values = {"disposition": disposition, "target": target, "reason": reason, **_asked(actor), "cursor": cursor}
    given = {key: (value,) for key, value in values.items() if value is not None}
    return drain_path(name) + (query(given) if given else "") + "#threads"


def _asked(actor: Actor | None) -> dict[str, str | None]:
    """What ``Actor.asked`` reads."""
    if actor is None:
        return {}
    return {"assistant": actor.name or NOBODY} if actor.key is None else {"by": actor.key, "value": actor.name}


def hit_path(hit: Hit) -> str:
    """The page of what a search found."""
    match hit.kind:
        case HitKind.THREAD:
            return thread_path(hit.deployment, hit.name)
        case HitKind.DRAIN:
            return drain_path(hit.name)
        case HitKind.NODE:
            return deployment_path(hit.deployment) + query({"pending": (hit.name,)})
        case HitKind.FIELD:
            return deployment_path(hit.deployment) + query({"fields": (f"{hit.name}:present",)})
        case HitKind.DEPLOYMENT:
            return deployment_path(hit.deployment)


def page_path(api_path: str) -> str:
    """The page that shows what ``api_path`` answers; the API's own answer where there is no such page."""
    if found := _THREADS.fullmatch(api_path) or _DEPLOY.fullmatch(api_path):
        return f"/{found['path']}{found['query'] or ''}"
    if found := _DRAIN_THREADS.fullmatch(api_path):
        return f"/{found['path']}{found['query'] or ''}#threads"
    return api_path
