"""The stand-in's routes: what a tracer posts, and the questions of the SDK with LangSmith's own defaults and limits."""

import contextlib
import gzip
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

import orjson
import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp

from app.clock import utc_now
from app.demo.langsmith.filters import BadFilter, parse
from app.demo.langsmith.runs import Run, Runs, project_uuid

DEFAULT_WINDOW = timedelta(days=1)
V1_LIMIT = 100
V2_LIMIT = 1000
_TENANT = str(uuid.UUID(int=1))
_INGEST = {
    "use_multipart_endpoint": True,
    "size_limit": 100,
    "size_limit_bytes": 20_971_520,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 16,
    "scale_down_nempty_trigger": 4,
}


class _Refused(Exception):
    """A question that LangSmith would not answer."""


def make_standin(runs: Runs, *, version: str = "0.16.20", ignores_selects: bool = False) -> FastAPI:
    """The stand-in as an ASGI application. ``version``: of the backend; ``ignores_selects``: it hands out all it has."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.exception_handler(_Refused)
    async def refused(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    for prefix in ("", "/api/v1"):
        app.include_router(_takes(runs), prefix=prefix)
        app.include_router(_answers(runs, version, everything=ignores_selects), prefix=prefix)
    if tuple(int(part) for part in version.split(".")[:2]) >= (0, 16):
        app.include_router(_answers_v2(runs, everything=ignores_selects))
    return app


def _takes(runs: Runs) -> APIRouter:
    router = APIRouter()

    @router.post("/runs/multipart", status_code=202)
    async def multipart(request: Request) -> dict[str, str]:
        async for run in _posted(request):
            runs.take(run)
        return {}

    @router.post("/runs/batch", status_code=202)
    async def batch(request: Request) -> dict[str, str]:
        body = orjson.loads(await _body(request))
        for run in [*body.get("post", ()), *body.get("patch", ())]:
            runs.take(run)
        return {}

    return router


def _answers(runs: Runs, version: str, *, everything: bool) -> APIRouter:
    router = APIRouter()

    @router.get("/info")
    async def info() -> dict[str, Any]:
        return {"version": version, "batch_ingest_config": _INGEST}

    @router.get("/sessions")
    async def sessions(name: str | None = None) -> list[dict[str, Any]]:
        return [
            {
                "id": project_uuid(project),
                "name": project,
                "tenant_id": _TENANT,
                "start_time": began.isoformat(),
                "reference_dataset_id": None,
            }
            for project, began in runs.projects().items()
            if name in (None, project)
        ]

    @router.get(f"/o/{_TENANT}/projects/p/{{project}}/r/{{trace}}")
    async def trace_page(project: str, trace: str) -> list[dict[str, Any]]:
        """Where a link to a trace leads: its runs, oldest first."""
        found = [run for run in runs.of_project(project) if run.trace_id == trace]
        return [_shown(run, (), everything=False) | {"name": run.name, "status": run.status} for run in reversed(found)]

    @router.post("/runs/query")
    async def query(request: Request) -> dict[str, Any]:
        body = orjson.loads(await request.body())
        page, following = _page(runs, body, "session", ("start_time", "end_time"), _size(body, "limit", V1_LIMIT))
        shown = [_shown(run, body.get("select") or (), everything=everything) for run in page]
        return {"runs": shown, "cursors": {"next": following}}

    return router


def _answers_v2(runs: Runs, *, everything: bool) -> APIRouter:
    router = APIRouter()

    @router.post("/api/v2/runs/query")
    async def query(request: Request) -> dict[str, Any]:
        body = orjson.loads(await request.body())
        size = _size(body, "page_size", V2_LIMIT)
        page, following = _page(runs, body, "project_ids", ("min_start_time", "max_start_time"), size)
        selects = [name.lower() for name in body.get("selects") or ("ID",) if name.isupper()]
        return {"items": [_shown(run, selects, everything=everything) for run in page], "next_cursor": following}

    return router


@contextlib.contextmanager
def serve_standin(app: ASGIApp, *, port: int = 0) -> Iterator[str]:
    """Serve it on this machine from a thread, and give its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="langsmith", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(5)


# -- what is asked ---------------------------------------------------------------------------------------------------


def _size(body: Mapping[str, Any], key: str, most: int) -> int:
    size = body.get(key) or 100
    if not isinstance(size, int) or not 1 <= size <= most:
        raise _Refused(f"{key} must be between 1 and {most}")
    return size


def _page(
    runs: Runs, body: Mapping[str, Any], projects: str, times: tuple[str, str], size: int
) -> tuple[list[Run], str | None]:
    """Runs newest first, by cursor. Without a lower bound: of the last day."""
    wanted = body.get(projects)
    if not isinstance(wanted, list) or not wanted:
        raise _Refused(f"{projects} is required")
    now = utc_now()
    since = _time(body.get(times[0])) or now - DEFAULT_WINDOW
    until = _time(body.get(times[1])) or now
    try:
        holds = parse(body["filter"]) if body.get("filter") else None
    except BadFilter:
        raise _Refused("the filter cannot be read") from None
    found = [
        run
        for project in wanted
        for run in runs.of_project(str(uuid.UUID(project)))
        if since <= run.start_time < until and (holds is None or holds(run)) and _is_type(run, body.get("run_type"))
    ]
    start = next((place + 1 for place, run in enumerate(found) if run.id == body.get("cursor")), 0)
    page = found[start : start + size]
    return page, page[-1].id if start + size < len(found) else None


def _is_type(run: Run, wanted: object) -> bool:
    return wanted is None or run.run_type == str(wanted).lower()


def _time(raw: object) -> datetime | None:
    if not isinstance(raw, str):
        return None
    found = datetime.fromisoformat(raw)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _shown(run: Run, selects: Any, *, everything: bool) -> dict[str, Any]:
    known = {
        "id": run.id,
        "name": run.name,
        "run_type": run.run_type,
        "status": run.status,
        "start_time": run.start_time.isoformat(),
        "end_time": run.end_time.isoformat() if run.end_time else None,
        "trace_id": run.trace_id,
        "thread_id": run.thread_id,
        "session_id": project_uuid(run.project),
    }
    if everything:
        return run.raw | known
    return {key: value for key, value in known.items() if key == "id" or key in selects}


# -- what is posted --------------------------------------------------------------------------------------------------


async def _body(request: Request) -> bytes:
    body = await request.body()
    return gzip.decompress(body) if request.headers.get("content-encoding") == "gzip" else body


async def _posted(request: Request) -> AsyncIterator[dict[str, Any]]:
    """The runs of a multipart body: ``post.ID`` and ``patch.ID``, with parts of their own for what is large."""
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + await _body(request))
    found: dict[str, dict[str, Any]] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        kind, _, rest = str(name).partition(".")
        run_id, _, key = rest.partition(".")
        if kind not in ("post", "patch"):
            continue
        content = orjson.loads(part.get_payload(decode=True) or b"null")  # type: ignore[arg-type]
        run = found.setdefault(f"{kind}.{run_id}", {"id": run_id})
        run |= {key: content} if key else content
    for run in found.values():
        yield run
