"""What the product says, held against what is true."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.truth.drains import Watched
from tests.truth.figures import AT_TARGET, CLEAR, DISPOSITIONS, Figures, Lie
from tests.truth.lives import Life
from tests.truth.product import Product
from tests.truth.world import World

NOTICES = frozenset({"stranded", "lost", "graph_missing", "unreadable", "unread", "unplaced", "running", "scheduled"})
"""Conditions that do not let a stranded or lost wait go unnoticed."""


async def check(
    product: Product,
    world: World,
    drains: Sequence[Watched],
    lives: Sequence[Life],
    figures: Figures,
    *,
    is_sweep: bool,
) -> None:
    """After a complete poll, with the lives that nothing was done with since it began."""
    answers, conditions = await product.answers(), await product.conditions()
    counts, alarms = await product.counts()
    figures.conditions.update(counts)
    figures.alarms.update(alarms)
    for watched in drains:
        answer = answers[watched.name]
        count(answer, figures)
        figures.lies += _adds_up(watched, answer)
        seen = [life for life in lives if is_sweep or not life.run_deleted]
        figures.lies += false_drained(watched, answer, seen)
        figures.lies += [lie async for lie in _threads(product, watched, answer, seen, is_sweep=is_sweep)]
    figures.lies += [lie async for lie in _unnoticed(product, world, conditions, lives)]


def count(answer: Mapping[str, Any], figures: Figures) -> None:
    """Keep what occurred."""
    figures.checks += 1
    figures.drained_answers += answer["verdict"] == "drained"
    figures.dispositions.update(answer["dispositions"])
    figures.reasons.update({reason["code"] for reason in answer["reasons"]})


def false_drained(watched: Watched, answer: Mapping[str, Any], lives: Sequence[Life]) -> Iterator[Lie]:
    """The one thing that must never be."""
    if answer["verdict"] != "drained":
        return
    for life in lives:
        if watched.needed_by([life]) or watched.was_lost_by(life):
            yield Lie("false drained", watched.history, f"{watched.name}: {life.as_one_line}")


def _adds_up(watched: Watched, answer: Mapping[str, Any]) -> Iterator[Lie]:
    counts = answer["dispositions"]
    if list(counts) != DISPOSITIONS:
        yield Lie("keys", watched.history, f"{watched.name}: {sorted(set(DISPOSITIONS) ^ set(counts))}")
    if sum(counts.values()) != answer["population"]["size"]:
        yield Lie("sum", watched.history, f"{watched.name}: {counts} is not {answer['population']['size']}")


async def _threads(
    product: Product, watched: Watched, answer: Mapping[str, Any], lives: Sequence[Life], *, is_sweep: bool
) -> Any:
    """No thread that needs the target is clear, and none that does not is at it."""
    counts, mine = answer["dispositions"], [life for life in lives if life.history == watched.history]
    needing = [life for life in watched.needed_by(mine) if life.row_graph == life.graph]
    clear = set()
    for disposition in CLEAR:
        if needing and counts[disposition]:
            clear |= await product.of_disposition(watched.name, disposition)
    for life in needing:
        if life.thread_id in clear:
            yield Lie("clear", watched.history, f"{watched.name}: {life.as_one_line} {await _said_of(product, life)}")
    if not watched.nodes:
        return
    unneeded = {
        life.thread_id: life for life in mine if watched.surely_unneeded(life) and (is_sweep or not life.is_gone)
    }
    for disposition in AT_TARGET:
        if counts[disposition] and unneeded:
            for thread_id in await product.of_disposition(watched.name, disposition) & set(unneeded):
                yield Lie(
                    "overstated", watched.history, f"{watched.name}: {disposition}: {unneeded[thread_id].as_one_line}"
                )


async def _unnoticed(product: Product, world: World, conditions: Mapping[str, str], lives: Sequence[Life]) -> Any:
    """Stranded and thrown-away waits that a poll had seen must show: as a condition, or as how they left."""
    for life in lives:
        found = conditions.get(life.thread_id)
        if life.is_gone or life.row_graph != life.graph or found in NOTICES:
            continue
        missing = {leaf for leaf in life.at if not world.has(life.graph, leaf)}
        if stranded := (missing & life.seen_at) - life.hidden:
            yield Lie("unnoticed", life.history, f"{found}, stranded {sorted(stranded)}: {life.as_one_line}")
        elif (
            life.lost_due & life.lost_shown
            and not life.at
            and not {"lost", "unexplained"} & set(await _departed(product, life))
        ):
            yield Lie("unnoticed", life.history, f"{found}, lost {sorted(life.lost_due)}: {life.as_one_line}")


async def _said_of(product: Product, life: Life) -> str:
    report = await product.evidence(life.thread_id)
    pending = [one["node"] for one in report["pending"] or ()]
    kept = {
        name: report[name] for name in ("status", "condition", "graph_id", "head_graph_id", "unapplied", "checkpoint")
    }
    return f"(said: pending {pending}, {kept}, {report['provenance']})"


def departures(product: Product, figures: Figures) -> None:
    """At the end: how leaves left, from the product's database, since a report for each thread takes long."""
    with sqlite3.connect(product.folder / "board.db") as connection:
        rows = connection.execute("select departure from observation where departure is not null")
        figures.departures.update(departure for (departure,) in rows)


async def _departed(product: Product, life: Life) -> list[str]:
    report = await product.evidence(life.thread_id)
    return [one["departure"] for one in report.get("departures") or ()]
