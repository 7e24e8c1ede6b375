"""Writes `docs/reference/situations.md` from the tables that the tests check on a real server: `python -m tests.docs.situations_page`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.agent.deploys import STORIES, Story
from tests.agent.situations import RECIPES, STATES, Recipe, Situation
from tests.flows import truth
from tests.flows.test_departures import WAYS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "situations.md"

INTRODUCTION = """\
# Situations

What can happen to a thread, and what Drainboard says of it. Each row was made on a real Agent Server by doing what its second
column says; the tests compare conditions and pending nodes with what the product answers, and with what really runs when
the thread goes on. [Conditions and reasons](conditions.md) says what to do about each condition.

*Waits at* names the nodes that would run next, and how that is known: from the **state**, from the **interrupt's id** where no
state names it, or by **no view** of the server: then a drain of that node is `unknown`, whatever else is seen.
*A drain of it* is what a drain of the node that is waited at says; where nothing waits, a drain of any other node.

This page is written by `./scripts/situations`. Do not edit it.
"""

GROUPS = {
    "never_ran": ("Ordinary lives", ""),
    "cancelled_run": (
        "Cancelled, copied, updated, deleted",
        "Most of these rows lie: they are idle, or say too little, while a node waits.",
    ),
    "delayed_on_never_ran": ("Busy", "Busy means that a run is under way, is due later, or was cut off."),
    "fan_out_parked": (
        "Several at once, and inside subgraphs",
        "A `/` stands between a subgraph's node and what is in it.",
    ),
    "sent_there_by_a_command": ("Other ways to get there", ""),
    "personal_keys_parked": (
        "What a state holds",
        "Keys of a free-form state may be personal: they are counted, never named.",
    ),
}
"""The first situation of each group."""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for (title, sentence), recipes in _grouped():
        rows = [_row(recipe) for recipe in recipes]
        parts.append(
            _section(title, sentence, ("situation", "how it is made", "condition", "waits at", "a drain of it"), rows)
        )
    parts.append(
        _section(
            "How a parked thread left",
            "It was parked, polled, left in this way, and polled again.",
            ("what was done", "it waited at", "departure", "condition then"),
            [
                (
                    _sentence(name),
                    f"`{way.node}`",
                    _code(way.departure) if way.departure else "none",
                    _code(way.condition),
                )
                for name, (way, _) in WAYS.items()
            ],
        )
    )
    parts.append(
        _section(
            "Threads that live through a deploy",
            "The node, or graph, that they wait at is renamed or removed; then the old version is deployed again. In the stories that "
            "end in a word like *answered*, that happened in between. No drain of such a node is `drained` in any act while "
            "something waits there, is stranded or was lost.",
            ("story", "graph", "before", "after the deploy", "after the deploy back"),
            [(_sentence(one.name), f"`{one.graph}`", *(_act(truths) for truths in _acts(one))) for one in STORIES],
        )
    )
    return "\n".join(parts)


def drain_says(situation: Situation) -> str:
    """What a drain of the node that a thread waits at says of it."""
    if situation.seen or situation.name in truth.NAMED_BY_PROOF:
        return "blocked"
    conditions = truth.condition(situation) if situation.name not in truth.NOT_LISTED else {"gone"}
    clear = conditions <= {"settled", "never_ran", "scheduled", "gone"} and not situation.pending
    return "clear" if clear else "unknown"


def situation_of(recipe: Recipe) -> Situation:
    """The truth of a recipe, without making it."""
    return Situation(name=recipe.build.__name__, thread_id="", description="", **recipe.truth)


def _grouped() -> Iterator[tuple[tuple[str, str], list[Recipe]]]:
    group: tuple[str, str] = ("", "")
    found: list[Recipe] = []
    for recipe in RECIPES:
        name = recipe.build.__name__
        if name in STATES:
            continue
        if name in GROUPS:
            if found:
                yield group, found
            group, found = GROUPS[name], []
        found.append(recipe)
    yield group, found


def _row(recipe: Recipe) -> tuple[str, ...]:
    one = situation_of(recipe)
    conditions = truth.condition(one) if one.name not in truth.NOT_LISTED else {"gone"}
    made = " ".join((recipe.build.__doc__ or "").split("\n\n", 1)[0].split())
    return (
        _sentence(one.name),
        made,
        " or ".join(_code(condition) for condition in sorted(conditions)),
        _waits(one),
        _code(drain_says(one)),
    )


def _waits(one: Situation) -> str:
    proved = truth.NAMED_BY_PROOF.get(one.name, ())
    known = Counter((leaf, "state") for leaf in one.seen if leaf not in one.outdated)
    known += Counter((leaf, "interrupt's id" if leaf in proved else "no view") for leaf in one.unseen)
    said = [f"`{leaf}`{f' ({count} times)' if count > 1 else ''} ({source})" for (leaf, source), count in known.items()]
    said += [f"`{leaf}` is shown, and does not run" for leaf in one.outdated]
    return ", ".join(said) or "nothing"


def _acts(story: Story) -> tuple[Mapping[str, Any], ...]:
    return story.before, story.after, story.back


def _act(truths: Mapping[str, Any]) -> str:
    said = [f"waits at {_nodes(truths['pending'])}"] if truths.get("pending") else []
    said += [f"{word} at {_nodes(truths[word])}" for word in ("stranded", "lost") if truths.get(word)]
    if truths.get("next", ()) is None:
        said.append("its state cannot be read")
    return ", ".join(said) or "nothing waits"


def _nodes(leaves: Iterable[str]) -> str:
    return ", ".join(f"`{leaf}`{f' ({count} times)' if count > 1 else ''}" for leaf, count in Counter(leaves).items())


def _section(title: str, sentence: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"## {title}", ""]
    lines += [sentence, ""] if sentence else []
    lines += [_line(head), "|" + "---|" * len(head), *(_line(row) for row in rows), ""]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(word: str) -> str:
    return f"`{word}`"


def _sentence(name: str) -> str:
    words = name.replace("_", " ")
    return words[0].upper() + words[1:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
