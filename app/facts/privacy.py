"""What may be kept of a payload: kinds, presence, names that were declared. Values are looked at here and dropped."""

import hashlib
import hmac
import re
from collections.abc import Collection, Hashable, Iterable, Mapping
from urllib.parse import quote

import orjson

from app.facts.types import Agreement, FieldFact, Kind, Presence, Reading, Shape, VersionReading

_IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_.]{0,79}\Z")
_REPRESENTATION = re.compile(r"^([A-Za-z_][A-Za-z0-9_]{0,79})\(")
_HASHED = "#"
PSEUDONYM = "th_"
MAX_VERSION = 9999


def pseudonym(key: bytes, deployment: str, thread_id: str) -> str:
    """What a thread is called outside: ``th_`` and 24 hex digits, the same each time, from which nobody without the key comes back
    to the id."""
    digest = hmac.digest(key, f"thread\x1f{deployment}\x1f{thread_id}".encode(errors="surrogatepass"), "sha256")
    return f"{PSEUDONYM}{digest.hex()[:24]}"


class Names:
    """Decides how a field's name is kept: in clear when it was ever declared, else as a keyed hash.

    A drain that names the field later still finds it: ``find`` looks under both.
    """

    def __init__(self, declared: Iterable[str], *, key: bytes) -> None:
        self._declared = frozenset(declared)
        self._key = key

    def kept(self, name: str) -> str:
        """The name as it is stored."""
        return name if name in self._declared and not name.startswith(_HASHED) else self.hashed(name)

    def hashed(self, name: str) -> str:
        """The keyed hash of a name: ``#`` and 24 hex digits."""
        return _HASHED + hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()[:24]

    def hashed_config(self, config: object) -> str | None:
        """The keyed hash of what a graph is configured with; no configuration, and an empty one, are the same. None when
        there is no mapping to look at."""
        if not isinstance(config, Mapping):
            return None
        configurable = config.get("configurable")
        try:
            return self.hashed(_canonical(configurable or {}).decode())
        except (orjson.JSONEncodeError, RecursionError):
            return None

    def find(self, fields: Mapping[str, FieldFact], name: str) -> FieldFact | None:
        """The fact of a field, however its name was kept at the time; None when absent."""
        return fields.get(name) or fields.get(self.hashed(name))

    def in_clear(self, fields: Mapping[str, FieldFact]) -> dict[str, FieldFact]:
        """The fields with their names in clear, as far as the names are declared now."""
        hashes = {self.hashed(name): name for name in self._declared}
        return {hashes.get(kept, kept): fact for kept, fact in fields.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._declared


def is_hashed(name: str) -> bool:
    """Whether a stored name is a keyed hash."""
    return name.startswith(_HASHED)


def kind_of(value: object) -> Kind:
    """The kind of a JSON value. ``True`` is a boolean, never an integer; ``1.0`` is a number."""
    match value:
        case None:
            return Kind.NULL
        case bool():
            return Kind.BOOLEAN
        case int():
            return Kind.INTEGER
        case float():
            return Kind.NUMBER
        case str():
            return Kind.TEXT
        case list() | tuple():
            return Kind.LIST
        case _:
            return Kind.OBJECT


def fact_of(value: object) -> FieldFact:
    """Presence and kind of a value that has a key. Empty text, list and object are ``empty``; 0 and false are present."""
    kind = kind_of(value)
    if kind is Kind.NULL:
        return FieldFact(Presence.NULL, kind)
    if kind in (Kind.TEXT, Kind.LIST, Kind.OBJECT) and not value:
        return FieldFact(Presence.EMPTY, kind)
    return FieldFact(Presence.PRESENT, kind)


def read_version(values: Mapping[str, object], key: str) -> VersionReading:
    """The version that ``values[key]`` declares: an integer 0..9999, missing, or malformed with its kind."""
    if key not in values:
        return VersionReading(Reading.MISSING)
    value = values[key]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_VERSION:
        return VersionReading(Reading.INTEGER, value)
    return VersionReading(Reading.MALFORMED, kind=kind_of(value))


def compare(values: Mapping[str, object], old: str, new: str) -> Agreement | None:
    """Whether both sides of a rename hold the same; None unless both are present (not null, not empty)."""
    if any(name not in values or fact_of(values[name]).presence is not Presence.PRESENT for name in (old, new)):
        return None
    try:
        same = _canonical(values[old]) == _canonical(values[new])
    except (orjson.JSONEncodeError, RecursionError):  # deeper than any state should be
        same = False
    return Agreement.AGREE if same else Agreement.DISAGREE


def _canonical(value: object) -> bytes:
    """A value as JSON: ``1``, ``1.0`` and ``true`` differ, also inside."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def shape_of(
    values: Mapping[str, object], *, names: Names, version_keys: Collection[str], renames: Collection[tuple[str, str]]
) -> Shape:
    """Reduce a thread's values to their shape. Nothing of a value is in the result."""
    conflicts = {f"{old}->{new}": found for old, new in renames if (found := compare(values, old, new)) is not None}
    return Shape(
        fields={names.kept(name): fact_of(value) for name, value in sorted(values.items())},
        versions={key: read_version(values, key) for key in sorted(version_keys)},
        conflicts=dict(sorted(conflicts.items())),
    )


def look_of(
    values: Mapping[str, object], *, version_keys: Collection[str], renames: Collection[tuple[str, str]]
) -> Hashable:
    """What a shape depends on, cheaper than the shape: values that look alike have the same one. It has names in clear, so
    it stays in memory."""
    return (
        tuple(values),
        tuple([(type(value), not value) for value in values.values()]),
        tuple([read_version(values, key) for key in version_keys]),
        tuple([compare(values, old, new) for old, new in renames]),
    )


def error_class(raw: object) -> str:
    """The class name of an error; ``error`` when there is none that looks like an identifier.

    A row has ``{"error": CLASS, "message": text}``, a task the representation ``CLASS(text)``; the text is dropped.
    """
    if isinstance(raw, Mapping):
        name = raw.get("error")
        return name if isinstance(name, str) and _IDENTIFIER.match(name) else "error"
    if isinstance(raw, str) and raw.endswith(")") and (found := _REPRESENTATION.match(raw)):
        return found.group(1)
    return "error"


def node_name(raw: str) -> str:
    """A node's own name as one step of a path: a ``/`` inside it, and a ``%``, are percent-encoded."""
    return raw if "/" not in raw and "%" not in raw else quote(raw, safe=" !\"#$&'()*+,-.:;<=>?@[]^_`{|}~")


def identifier(raw: object, *, limit: int = 255) -> str | None:
    """An id as the server gives it, bounded and without NUL, which no database takes; None when it is no text."""
    return (raw.replace("\0", "")[:limit] or None) if isinstance(raw, str) else None
