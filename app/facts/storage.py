"""Which channels a thread has stored -> routes and fields. Pure; only names are looked at."""

import re
from collections.abc import Mapping

from app.facts.privacy import node_name
from app.facts.reading import Reading
from app.facts.types import StorageFacts

_SENDS = "__pregel_tasks"
_WHOLE = "__root__"
_PLUMBING = re.compile(r"^(__|branch:|join:)")


def is_field(channel: str) -> bool:
    """Whether a channel is a field of the state, and not one of LangGraph's own."""
    return not _PLUMBING.match(channel)


def storage_of(versions: Mapping[str, int], reading: Reading, *, checkpoints: int | None) -> StorageFacts:
    """The channels that were ever written, each with how many versions of it are stored."""
    return StorageFacts(
        branches=frozenset(
            node_name(name.removeprefix("branch:to:")) for name in versions if name.startswith("branch:to:")
        ),
        joins=frozenset(node_name(name.rpartition(":")[2]) for name in versions if name.startswith("join:")),
        sends=_SENDS in versions,
        fields=frozenset(reading.names.kept(name) for name in versions if is_field(name)),
        nameless=_WHOLE in versions,
        checkpoints=checkpoints,
        versions={reading.names.kept(name): count for name, count in versions.items() if is_field(name)},
        waits_for=frozenset(waits_for(name) for name in versions if name.startswith("join:")),
    )


def waits_for(channel: str) -> tuple[str, frozenset[str]]:
    """``join:a+b:t``: its target, and what it waits for. A name with a plus in it makes names that no graph has."""
    sources, _, target = channel.removeprefix("join:").rpartition(":")
    return node_name(target), frozenset(node_name(source) for source in sources.split("+"))
