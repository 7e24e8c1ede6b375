"""Filters in the URL: read them, toggle them, and show each facet as values with a count and a link."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from app.errors import BadRequest
from app.inventory.views import Inventory
from app.web import paths, words

FACETS = ("condition", "status", "pending", "state_version", "graph", "age")
FILTERS = (*FACETS, "fields")
SORTS = {"-updated_at": "last changed", "created_at": "oldest", "thread_id": "thread id"}
DEFAULT_SORT = "-updated_at"

TITLES = {
    "condition": "Condition",
    "status": "Status",
    "pending": "Waits at",
    "state_version": "State version",
    "graph": "Graph",
    "age": "State last changed",
    "fields": "Field",
}
AGES = {
    "1h": "less than an hour ago",
    "1d": "an hour to a day",
    "7d": "1 to 7 days",
    "30d": "7 to 30 days",
    "90d": "30 to 90 days",
    "older": "longer ago",
}
PRESENCES = ("present", "empty", "null", "absent", "unknown")
MONOSPACE = frozenset({"pending", "graph", "fields"})

Values = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class FacetValue:
    """One value of a facet. ``href`` toggles it; ``share`` is its part of the total, 0 to 100."""

    value: str
    label: str
    count: int
    share: float
    active: bool
    href: str


@dataclass(frozen=True, slots=True)
class Facet:
    """One facet, or one field, with its values."""

    key: str
    title: str
    monospace: bool
    values: tuple[FacetValue, ...]


@dataclass(frozen=True, slots=True)
class Chip:
    """One active filter. ``href`` removes it."""

    title: str
    label: str
    monospace: bool
    href: str


@dataclass(frozen=True, slots=True)
class ThreadQuery:
    """What a page of threads was asked for: filters, order and place."""

    filters: Values
    sort: str = DEFAULT_SORT
    cursor: str | None = None

    def href(self, filters: Values | None = None, *, sort: str | None = None, cursor: str | None = None) -> str:
        """A link relative to the page; a changed filter or order starts from the first page."""
        values = dict(self.filters if filters is None else filters)
        order = sort or self.sort
        if order != DEFAULT_SORT:
            values["sort"] = (order,)
        if cursor:
            values["cursor"] = (cursor,)
        return paths.query(values)

    def narrowed(self, **values: str | None) -> str:
        """The query of a list of threads: these filters, with some of them set to one value."""
        return paths.query({**self.filters, **{key: (value,) for key, value in values.items() if value is not None}})

    def toggled(self, key: str, value: str) -> str:
        """The link that adds the value to the filter, or takes it away."""
        given = self.filters.get(key, ())
        kept = tuple(each for each in given if each != value) if value in given else (*given, value)
        return self.href({k: v for k, v in {**self.filters, key: kept}.items() if v})


def read_query(params: QueryParams) -> ThreadQuery:
    """Filters, order and cursor of a page. A parameter that we do not know is refused, not ignored: it would count all."""
    strange = sorted({key for key in params if key not in (*FILTERS, "sort", "cursor")})
    if strange:
        raise BadRequest(f"There is no filter `{strange[0]}`. Known filters: {', '.join(FILTERS)}.")
    sort = params.get("sort", DEFAULT_SORT)
    if sort not in SORTS:
        raise BadRequest(f"Threads cannot be sorted by `{sort}`. Known orders: {', '.join(SORTS)}.")
    filters = {key: tuple(dict.fromkeys(params.getlist(key))) for key in FILTERS if key in params}
    return ThreadQuery(filters, sort, params.get("cursor") or None)


def facets(inventory: Inventory, asked: ThreadQuery) -> tuple[Facet, ...]:
    """The facets in the order in which a person asks."""
    return tuple(
        Facet(key, TITLES[key], key in MONOSPACE, _values(key, _counts(inventory, key), inventory.total, asked))
        for key in FACETS
    )


def field_facets(inventory: Inventory, asked: ThreadQuery) -> tuple[Facet, ...]:
    """One facet for each state field, by presence."""
    fields = inventory.facets.get("fields", {})
    return tuple(
        Facet(name, name, True, _presences(name, counts, inventory.total, asked))
        for name, counts in fields.items()
        if not isinstance(counts, int)
    )


def chips(asked: ThreadQuery) -> tuple[Chip, ...]:
    """The active filters."""
    return tuple(
        Chip(TITLES[key], _label(key, value), key in MONOSPACE, asked.toggled(key, value))
        for key, values in asked.filters.items()
        for value in values
    )


def _counts(inventory: Inventory, key: str) -> dict[str, int]:
    return {value: count for value, count in inventory.facets.get(key, {}).items() if isinstance(count, int)}


def _values(key: str, counts: Mapping[str, int], total: int, asked: ThreadQuery) -> tuple[FacetValue, ...]:
    active = asked.filters.get(key, ())
    ordered = list(_ordered(key, counts))
    ordered += [(value, 0) for value in active if value not in counts]
    return tuple(
        FacetValue(value, _label(key, value), count, share(count, total), value in active, asked.toggled(key, value))
        for value, count in ordered
    )


def _presences(name: str, counts: Mapping[str, int], total: int, asked: ThreadQuery) -> tuple[FacetValue, ...]:
    active = asked.filters.get("fields", ())
    return tuple(
        FacetValue(
            presence,
            presence,
            counts.get(presence, 0),
            share(counts.get(presence, 0), total),
            f"{name}:{presence}" in active,
            asked.toggled("fields", f"{name}:{presence}"),
        )
        for presence in PRESENCES
    )


def _ordered(key: str, counts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Ages and versions in their own order, all else by count."""
    if key == "age":
        yield from ((age, counts[age]) for age in AGES if age in counts)
    elif key == "state_version":
        yield from sorted(counts.items(), key=lambda item: (not item[0].isdigit(), item[0].zfill(4)))
    else:
        yield from sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _label(key: str, value: str) -> str:
    if key == "age":
        return AGES.get(value, value)
    if key == "fields":
        return value.replace(":", ": ", 1)
    return value if key in MONOSPACE else words.plain(value)


def share(count: int, total: int) -> float:
    """The part of the total, 0 to 100; a count that is not zero stays visible."""
    return max(1.5, round(100 * count / total, 1)) if count and total else 0
