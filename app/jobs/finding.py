"""The search: reads what somebody typed or pasted, and looks through all deployments and drains for it."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.outside import PSEUDONYM
from app.drains.spec import from_json
from app.inventory import finding, reads
from app.inventory.finding import Found, Hit, HitKind, Looked
from app.inventory.views import RevisionSummary
from app.jobs.runtime import Runtime

MOST = 20
LONGEST = 255
SHORTEST_ID = 4

_WHOLE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PASTED_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}(?![0-9a-f])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEX = re.compile(r"[0-9a-f]+")
_GROUPS = (8, 12, 16, 20)


async def find(runtime: Runtime, text: str, sees: Callable[[str], bool]) -> Found:
    """What the text names, or begins like, in the deployments that the caller ``sees``. An empty text finds nothing."""
    query = " ".join(_CONTROL.sub(" ", text).split())[:LONGEST]
    beginning = read_thread_id(query)
    hits: list[Hit] = []
    looked = []
    async with runtime.store.database.read() as connection:
        visible = [each for each in runtime.settings.deployments if sees(each.name)]
        for settings in visible:
            row = await reads.find_deployment(connection, settings.name)
            if row is None:
                continue
            looked.append(await _looked(connection, row.id, settings.name))
            if query:
                hits += await _threads(connection, row.id, settings.name, beginning, query)
                hits += await _called(connection, row.id, settings.name, query, runtime.store.hash_key)
                hits += _names(await reads.list_revisions(connection, row.id), settings.name, query)
                hits += _of(HitKind.DEPLOYMENT, settings.name, settings.name, query)
        if query:
            hits += _drains(await reads.list_drains(connection), {each.name for each in visible}, query)
    shown, cut = _best(hits, query)
    is_whole = beginning is not None and _WHOLE_ID.fullmatch(beginning) is not None
    return Found(query, beginning, is_whole, shown, cut, tuple(looked))


def read_thread_id(text: str) -> str | None:
    """The id of a thread, or its beginning, as servers write it; None where the text is none. A whole id may stand in an
    address or a line of a log; spaces, capitals and missing dashes do not matter."""
    lower = text.lower()
    pasted = _PASTED_ID.search(lower)
    plain = re.sub(r"[\s\"'`{}-]", "", pasted.group() if pasted else lower)
    if not SHORTEST_ID <= len(plain) <= 32 or not _HEX.fullmatch(plain):
        return None
    return "-".join(part for part in _parts(plain) if part)


def _parts(plain: str) -> Iterator[str]:
    start = 0
    for end in (*_GROUPS, 32):
        yield plain[start:end]
        start = end


async def _looked(connection: AsyncConnection, deployment_id: int, name: str) -> Looked:
    sweep = await reads.find_latest_poll(connection, deployment_id, kinds=("sweep",), states=("complete",))
    return Looked(name, sweep.started_at if sweep else None, sweep.threads_seen if sweep else None)


async def _threads(
    connection: AsyncConnection, deployment_id: int, deployment: str, beginning: str | None, query: str
) -> list[Hit]:
    """By the id as servers write it, else by what was typed: a deployment without an Agent Server may use any text."""
    typed = query if len(query) >= SHORTEST_ID else None
    for wanted in dict.fromkeys((beginning, typed)):
        if wanted is None:
            continue
        rows = await finding.list_beginning(connection, deployment_id, wanted, limit=MOST + 1)
        if rows:
            return [
                Hit(HitKind.THREAD, row.thread_id, deployment, row.thread_id == wanted, (row.condition,))
                for row in rows
            ]
    return []


async def _called(
    connection: AsyncConnection, deployment_id: int, deployment: str, query: str, key: bytes
) -> list[Hit]:
    """The thread of a pseudonym that somebody pasted, maybe with more around it."""
    typed = PSEUDONYM.search(query.lower())
    if typed is None:
        return []
    found = await finding.find_pseudonym(connection, deployment_id, deployment, typed.group(), key=key)
    return [] if found is None else [Hit(HitKind.THREAD, found.thread_id, deployment, True, (found.condition,))]


def _names(revisions: Iterable[RevisionSummary], deployment: str, query: str) -> Iterator[Hit]:
    """Nodes and fields of every graph that was ever seen."""
    graphs: dict[tuple[HitKind, str], set[str]] = {}
    deployed: set[tuple[HitKind, str]] = set()
    for each in revisions:
        nodes = [(HitKind.NODE, node) for node in each.nodes if not node.rpartition("/")[2].startswith("__")]
        for key in (*nodes, *((HitKind.FIELD, name) for name in each.fields)):
            graphs.setdefault(key, set()).add(each.graph)
            if each.vanished_at is None:
                deployed.add(key)
    for (kind, name), found in graphs.items():
        yield from _of(kind, name, deployment, query, tuple(sorted(found)), deployed=(kind, name) in deployed)


def _drains(rows: Iterable[Any], known: set[str], query: str) -> Iterator[Hit]:
    """Drains by name, owner or target."""
    for row in rows:
        spec = from_json(row.spec)
        if spec.deployment not in known:
            continue
        targets = tuple(target.label for target in spec.targets)
        if _rank(row.name, query) is not None:
            yield from _of(HitKind.DRAIN, row.name, spec.deployment, query, targets)
        elif any(_rank(text, query) is not None for text in (*targets, spec.owner or "")):
            yield Hit(HitKind.DRAIN, row.name, spec.deployment, False, targets)


def _of(
    kind: HitKind, name: str, deployment: str, query: str, about: tuple[str, ...] = (), *, deployed: bool | None = None
) -> Iterator[Hit]:
    rank = _rank(name, query)
    if rank is not None:
        yield Hit(kind, name, deployment, rank == 0, about, deployed)


def _rank(name: str, query: str) -> int | None:
    """0: the whole name, or the last part of a path; 1: its beginning; 2: within; None: not at all."""
    low, wanted = name.casefold(), query.casefold()
    if wanted in (low, low.rpartition("/")[2]):
        return 0
    if low.startswith(wanted):
        return 1
    return 2 if wanted in low else None


def _best(hits: Iterable[Hit], query: str) -> tuple[tuple[Hit, ...], tuple[HitKind, ...]]:
    """The best of each kind, and the kinds of which there are more."""
    by_kind: dict[HitKind, list[Hit]] = {kind: [] for kind in HitKind}
    for hit in hits:
        by_kind[hit.kind].append(hit)
    shown: list[Hit] = []
    for found in by_kind.values():
        found.sort(key=lambda hit: (not hit.is_exact, _rank(hit.name, query) or 0, hit.name, hit.deployment))
        shown += found[:MOST]
    return tuple(shown), tuple(kind for kind, found in by_kind.items() if len(found) > MOST)
