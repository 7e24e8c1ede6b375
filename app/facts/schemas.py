"""What the JSON schema of a state field says of the values that it takes. Pure; a schema is code, no value is in it.

Two schemas are compared by their hash, once references are put in and words are left out. The topology script writes them so.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping

from app.facts.types import FieldType, Kind

_WORDS = frozenset({"title", "description", "default", "examples", "$defs", "definitions", "deprecated"})
_KINDS = {
    "string": Kind.TEXT,
    "integer": Kind.INTEGER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "array": Kind.LIST,
    "object": Kind.OBJECT,
    "null": Kind.NULL,
}
_CHOICES = ("anyOf", "oneOf")
_DEEPEST = 12


def field_type(schema: object, known: object = None) -> FieldType:
    """The type of a field from its schema; ``known``: the schemas that it refers to by name."""
    names = known if isinstance(known, Mapping) else {}
    plain = _flat(schema, names, ()) if isinstance(schema, Mapping) else {}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
    kinds = _kinds(plain)
    return FieldType(digest, None if kinds is None else frozenset(kinds), _is_loose(plain))


def _flat(schema: object, known: Mapping[str, object], within: tuple[str, ...]) -> object:
    """A schema without references and words. One that contains itself ends there."""
    if isinstance(schema, list):
        return [_flat(one, known, within) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        name = reference.rpartition("/")[2]
        if name in within or len(within) > _DEEPEST:
            return {}
        return _flat(known.get(name, {}), known, (*within, name))
    found: dict[str, object] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            found[key] = {name: _flat(one, known, within) for name, one in value.items()}
        elif key not in _WORDS:
            found[key] = _flat(value, known, within)
    return found


def _kinds(schema: object) -> set[Kind] | None:
    if not isinstance(schema, Mapping):
        return None
    for key in _CHOICES:
        if isinstance(choices := schema.get(key), list):
            return _all(_kinds(one) for one in choices)
    if isinstance(values := schema.get("enum"), list):
        return _all(_kinds_of_value(one) for one in values)
    if "const" in schema:
        return _kinds_of_value(schema["const"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _all(_kinds({"type": one}) for one in kind)
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    return {Kind.NUMBER, Kind.INTEGER} if kind == "number" else {_KINDS[kind]}


def _all(found: Iterable[set[Kind] | None]) -> set[Kind] | None:
    kinds: set[Kind] = set()
    for one in found:
        if one is None:
            return None
        kinds |= one
    return kinds or None


def _kinds_of_value(value: object) -> set[Kind] | None:
    match value:
        case None:
            return {Kind.NULL}
        case bool():
            return {Kind.BOOLEAN}
        case int():
            return {Kind.INTEGER}
        case float():
            return {Kind.NUMBER}
        case str():
            return {Kind.TEXT}
        case _:
            return None


def _is_loose(schema: object) -> bool:
    """Whether the schema asks for a kind and no more."""
    if not isinstance(schema, Mapping):
        return True
    for key in _CHOICES:
        if isinstance(choices := schema.get(key), list):
            return set(schema) == {key} and all(_is_loose(one) for one in choices)
    return set(schema) <= {"type"} or schema in (
        {"type": "array", "items": {}},
        {"type": "object", "additionalProperties": True},
    )
