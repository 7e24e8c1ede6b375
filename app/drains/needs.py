"""What is still to be read for a green verdict: conditions on threads, by kind of reading."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, or_

from app.drains.deployed import deployed_targets
from app.drains.dispositions import Disposition
from app.drains.gathering import elsewhere
from app.drains.looking import Look, blocks
from app.drains.waiting import root_nodes
from app.facts.topology import at_or_below
from app.facts.types import Condition
from app.inventory import reads, tables
from app.inventory.encode import is_counted

_thread = tables.thread


@dataclass(frozen=True, slots=True)
class GreenNeed:
    """What one drain still needs. None: not needed.

    ``recheck``: threads whose settled heads a sweep may read again with what is left of its budget, since deleting a run
    changes a head without moving its row. ``storage``: threads whose stored channels were not read since they moved.
    ``stored_again``: threads that nothing but their storage holds against the drain; deleting a run empties it unseen.
    ``counted``: all threads that the drain counts, to read again where no row tells that a state changed.
    """

    idle_heads: ColumnElement[bool] | None = None
    recheck: ColumnElement[bool] | None = None
    busy: ColumnElement[bool] | None = None
    storage: ColumnElement[bool] | None = None
    stored_again: ColumnElement[bool] | None = None
    counted: ColumnElement[bool] | None = None


def green_need(look: Look) -> GreenNeed:
    """What a drain that no thread blocks still needs. An erasure wants its storage read whatever blocks: how many threads
    hold the field is what it asks. And what blocks only until it is known to be settled, being past retention, is read."""
    erases = any(target.kind == "erase" for target in look.spec.targets)
    if look.is_blocked:
        return GreenNeed(
            idle_heads=_past_retention(look),
            storage=_unread_storage(look) if erases else None,
            stored_again=_held_by_storage(look) if erases else None,
        )
    alive = and_(look.population, reads.is_alive())
    if not look.spec.nodes:
        seen = [found.id for found in look.revisions]
        idle = and_(alive, reads.is_unverified_idle(seen))
        storage = _unread_storage(look) if erases or _removes_behind_joins(look) else None
        return GreenNeed(idle_heads=idle, recheck=_recheck(look), busy=_busy(look), storage=storage, counted=alive)
    return GreenNeed(
        idle_heads=_idle_heads(look),
        recheck=_recheck(look),
        busy=_busy(look),
        storage=_storage(look, erases=erases),
        counted=or_(alive, elsewhere(look)),
    )


def _past_retention(look: Look) -> ColumnElement[bool] | None:
    keys = [key for key, standing in look.standings.items() if key.is_past_retention and blocks(standing)]
    if not keys:
        return None
    return and_(look.of(keys), reads.is_unverified_idle([found.id for found in look.revisions]))


def _removes_behind_joins(look: Look) -> bool:
    """Whether fields are to be removed of a graph in which work may wait that only storage shows."""
    return any(target.kind == "remove" for target in look.spec.targets) and bool(root_nodes(look.rules))


def _busy(look: Look) -> ColumnElement[bool]:
    return and_(look.population, reads.is_alive(), _thread.c.status == "busy")


def _idle_heads(look: Look) -> ColumnElement[bool]:
    nodes = set(look.spec.nodes)
    able = [revision for revision, has in look.rules.revision_nodes.items() if nodes <= set(has)]
    unverified = and_(look.population, reads.is_alive(), reads.is_unverified_idle(able))
    return or_(unverified, and_(elsewhere(look), _is_readable()))


def _recheck(look: Look) -> ColumnElement[bool] | None:
    current = [found for found in look.revisions if found.vanished_at is None]
    if not all(found is True for found in deployed_targets(look.spec, current).values()):
        return None
    graphs = [found.graph for found in current]
    return and_(look.population, reads.is_alive(), _thread.c.graph_id.in_(graphs))


def _storage(look: Look, *, erases: bool) -> ColumnElement[bool]:
    nodes = look.spec.nodes
    waiting = {node for node in look.rules.joins | look.rules.deferred if any(at_or_below(node, n) for n in nodes)}
    unreadable = and_(elsewhere(look), ~_is_readable(), _thread.c.routes_id.is_(None))
    ran = _unread_storage(look)
    if waiting or erases or _removes_behind_joins(look):
        return or_(ran, unreadable)
    wanted = [unreadable]
    if look.closed_at is not None:
        wanted.append(and_(ran, _thread.c.created_at > look.closed_at))
    if any(found.graph == look.spec.graph and found.variant is not None for found in look.revisions):
        wanted.append(and_(ran, _thread.c.state_read_at.is_not(None), _is_read_without(look)))
    return or_(*wanted)


def _is_read_without(look: Look) -> ColumnElement[bool]:
    """Threads whose configuration draws no target: only their storage can show that they never entered one."""
    able = [found for found, has in look.rules.revision_nodes.items() if set(look.spec.nodes) <= set(has)]
    return or_(_thread.c.revision_id.is_(None), _thread.c.revision_id.not_in(able))


def _unread_storage(look: Look) -> ColumnElement[bool]:
    """Threads whose storage was not read, or without looking at which joins nothing waits."""
    partly = [one for one, raw in look.dictionaries.routes.items() if not is_counted(raw)]
    unread = _thread.c.routes_id.is_(None)
    return and_(
        look.population,
        reads.is_alive(),
        _thread.c.condition != Condition.NEVER_RAN.value,
        or_(unread, _thread.c.routes_id.in_(partly)) if partly else unread,
    )


def _held_by_storage(look: Look) -> ColumnElement[bool]:
    return and_(look.of(look.keys([Disposition.HOLDS_OLD_FIELD])), _thread.c.routes_id.is_not(None))


def _is_readable() -> ColumnElement[bool]:
    return _thread.c.condition != Condition.GRAPH_MISSING.value
