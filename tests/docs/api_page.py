"""The reference of the JSON API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.main import create_app
from app.settings import Settings
from tests.docs.tables import code, table, words

INTRODUCTION = """\
# JSON API

All of it is below `/api/v1`; `/api/v1/openapi.json` describes it for programs, and a client can be generated from that.
Times are RFC 3339 in UTC. Lists have `items` and `next_cursor`; give that back as `cursor` for the next page. Where one
signs in, send `Authorization: Bearer` with [a token](../how-to/sign-in.md).

Every error is `{"error": {"code": "…", "message": "what happened and what to do"}}`: 400 for what makes no sense, 401 and 403
for who may not, 404 for what is not there, 409 for what does not fit what is there, 413 for what is too large, 422 for a
parameter or body of the wrong form, 502 for an Agent Server that cannot be asked, 503 for a database that cannot.

`GET /healthz`, `/readyz` and `/metrics` are at the root.

This page is written by `./scripts/reference` from the OpenAPI document. Do not edit it.
"""


def page() -> str:
    """The whole page."""
    document = create_app(Settings(), schedule=False).openapi()
    lines = INTRODUCTION.splitlines()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines += ["", f"## {method.upper()} {path.removeprefix('/api/v1')}", "", *_operation(operation, document)]
    lines += ["", "# Bodies and answers", "", "A `?` stands after what can be `null`, `[]` after a list."]
    for name, schema in document["components"]["schemas"].items():
        if schema.get("properties"):
            text = words(schema.get("description"))
            lines += ["", f"## {name}", "", *([text, ""] if text else []), *table(("key", "", ""), _keys(schema))[:-1]]
    return "\n".join(lines) + "\n"


def _operation(operation: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    yield words(operation.get("description"))
    rows = [
        (
            code(each["name"]),
            each["in"],
            "required" if each.get("required") else _default(each["schema"]),
            words(each.get("description")),
        )
        for each in operation.get("parameters", ())
        if each["in"] != "header"
    ]
    if rows:
        yield from ("", *table(("parameter", "in", "default", ""), rows)[:-1])
    if "requestBody" in operation:
        yield from ("", f"Body: {_of(operation['requestBody'])}.")
    yield from ("", f"Answer: {', '.join(_answers(operation['responses'], document))}.")


def _answers(responses: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    for status, answer in sorted(responses.items()):
        if status.startswith("2"):
            yield f"{status} {_of(answer)}".strip()


def _of(content: Mapping[str, Any]) -> str:
    found = content.get("content", {}).get("application/json", {}).get("schema")
    return _type(found) if found else ""


def _keys(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    required = set(schema.get("required", ()))
    for key, found in schema["properties"].items():
        default = "required" if key in required else _default(found)
        yield code(key), _type(found), " ".join(filter(None, (default, words(found.get("description")))))


def _default(found: Mapping[str, Any]) -> str:
    default = found.get("default")
    return "" if default in (None, [], {}) else code(str(default).lower() if isinstance(default, bool) else default)


def _type(found: Mapping[str, Any]) -> str:
    """A schema in a few words, with links to those that have a name."""
    if "$ref" in found:
        name = found["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "allOf" in found:
        return " and ".join(_type(one) for one in found["allOf"])
    if options := found.get("anyOf") or found.get("oneOf"):
        shown = list(dict.fromkeys(_type(one) for one in options if one.get("type") != "null"))
        return " or ".join(shown) + ("?" if any(one.get("type") == "null" for one in options) else "")
    if "enum" in found:
        return " or ".join(code(value) for value in found["enum"])
    if "const" in found:
        return code(found["const"])
    return _plain(found)


def _plain(found: Mapping[str, Any]) -> str:
    kind = found.get("type")
    if kind == "array":
        return f"{_type(found.get('items', {}))}[]"
    if kind == "object" and isinstance(more := found.get("additionalProperties"), Mapping):
        return f"object of {_type(more)}"
    return {"date-time": "time"}.get(str(found.get("format")), str(kind or "anything"))
