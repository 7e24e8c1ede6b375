"""The application's thread index over HTTP: what it holds beside what was seen, and batches that are pushed."""

from typing import Any, Literal

import orjson
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.routes import ERRORS, GUARDS
from app.errors import BadRequest, TooLarge
from app.inventory.views import IndexReport, IndexTaken
from app.jobs.index import MAX_ROWS, Push
from app.jobs.listed import Listed

MAX_BYTES = 4_000_000

router = APIRouter(prefix="/api/v1", responses=ERRORS, dependencies=GUARDS)


class Batch(BaseModel):
    """Threads of the application, at most 5,000. With ``snapshot`` they are part of a whole list: ``begin`` in its first
    batch, ``done`` in its last, which forgets what the list no longer has. Without, they are added or replaced."""

    model_config = ConfigDict(extra="forbid")
    threads: list[dict[str, Any]] = Field(max_length=MAX_ROWS)
    snapshot: str | None = Field(default=None, min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")
    begin: bool = False
    done: bool = False
    kind: Literal["push", "file"] = "push"


@router.get("/deployments/{deployment}/index")
async def get_index(deployment: str, request: Request) -> IndexReport:
    """What is listed, and both differences: ids that nobody has seen, with why, and threads that the list lacks."""
    listed = Listed(request.app.state.runtime)
    return await listed.report(deployment)


_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": Batch.model_json_schema()}}}}


@router.put("/deployments/{deployment}/index", openapi_extra=_BODY)
async def put_index(deployment: str, request: Request) -> IndexTaken:
    """Take a batch. The same batch twice is the same as once; a bad line is named and does not keep the others out."""
    listed = Listed(request.app.state.runtime)
    batch = await _batch(request)
    return await listed.take(deployment, Push(batch.threads, batch.snapshot, batch.begin, batch.done, batch.kind))


@router.delete("/deployments/{deployment}/index", status_code=204)
async def delete_index(deployment: str, request: Request) -> None:
    """Forget the list, when the application pushes none any more."""
    await Listed(request.app.state.runtime).forget(deployment)


async def _batch(request: Request) -> Batch:
    """The body, read only as far as it may be long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise TooLarge(f"One batch may have {MAX_BYTES // 1_000_000} MB; send several.")
    try:
        return Batch.model_validate(orjson.loads(bytes(body)))
    except orjson.JSONDecodeError:
        raise BadRequest("The body is not JSON.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"{place}: {first['msg']}. Correct it and send the batch again.") from None
