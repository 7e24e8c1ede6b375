"""What a reporter tells of a deployment without a server, over HTTP."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.routes import ERRORS, GUARDS
from app.errors import BadRequest, TooLarge
from app.jobs.reporting import MAX_LEFT, MAX_LINES
from app.jobs.runtime import Runtime
from app.jobs.told import AskLeft, Begin, End, FactsTaken, Message

MAX_BYTES = 8_000_000
Short = Annotated[str, Field(min_length=1, max_length=100)]

router = APIRouter(prefix="/api/v1", responses=ERRORS, dependencies=GUARDS)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class BeginPart(_Part):
    """A pass begins, under the code that has this topology. Another reporter's pass with other code ends by it."""

    topology: dict[str, Any]
    saver: Short
    langgraph: Annotated[str, Field(min_length=1, max_length=40)]
    ids: Literal["file", "index"]


class LeftPart(_Part):
    """Which threads the pass has not told of: of ``ids``, or of all that are known or listed, after one of them."""

    ids: list[Annotated[str, Field(min_length=1, max_length=255)]] | None = Field(default=None, max_length=MAX_LEFT)
    after: Annotated[str, Field(max_length=255)] = ""
    limit: Annotated[int, Field(ge=1, le=MAX_LEFT)] = 200


class FactsMessage(_Part):
    """One message of a pass. ``end``: nothing is left, the reporter thinks; it was given ``ids`` ids, and could not tell of
    ``problems`` of them."""

    pass_: Annotated[str, Field(alias="pass", min_length=1, max_length=64)]
    begin: BeginPart | None = None
    threads: list[dict[str, Any]] = Field(default_factory=list, max_length=MAX_LINES)
    left: LeftPart | None = None
    end: bool = False
    ids: Annotated[int, Field(ge=0)] = 0
    problems: Annotated[int, Field(ge=0)] = 0

    def message(self) -> Message:
        """As the job takes it."""
        begin, left = self.begin, self.left
        return Message(
            pass_id=self.pass_,
            begin=None if begin is None else Begin(begin.topology, begin.saver, begin.langgraph, begin.ids),
            threads=self.threads,
            left=None if left is None else AskLeft(left.ids, left.after, left.limit),
            end=End(self.ids, self.problems) if self.end else None,
        )


def _inlined(part: Any, named: Mapping[str, Any]) -> Any:
    """A schema without references: those of pydantic begin at the schema, and a reader looks for them in the document."""
    if isinstance(part, list):
        return [_inlined(each, named) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(named[part["$ref"].rpartition("/")[2]], named)
    return {key: _inlined(each, named) for key, each in part.items() if key != "$defs"}


_SCHEMA = FactsMessage.model_json_schema()
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _inlined(_SCHEMA, _SCHEMA.get("$defs", {}))}},
    }
}


@router.post("/deployments/{deployment}/facts", openapi_extra=_BODY)
async def post_facts(deployment: str, request: Request) -> FactsTaken:
    """Take a message of a reporter's pass. The same message twice is the same as once; a bad line is named and does not keep
    the others out."""
    runtime: Runtime = request.app.state.runtime
    settings = runtime.deployment(deployment)
    return await runtime.reporting.take(settings, (await _message(request)).message())


async def _message(request: Request) -> FactsMessage:
    """The body, read only as far as it may be long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise TooLarge(f"One message may have {MAX_BYTES // 1_000_000} MB; send fewer threads at once.")
    if rb"\u0000" in body:
        raise BadRequest("The message holds the character NUL, which no database takes.")
    try:
        return FactsMessage.model_validate_json(bytes(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise BadRequest("The body is not JSON.") from None
        place = next((f"{part}: " for part in first["loc"][:1] if part in _PARTS), "")
        raise BadRequest(f"{place}{first['msg']}. Use the reporter of this version.") from None


_PARTS = {field.alias or name for name, field in FactsMessage.model_fields.items()}
