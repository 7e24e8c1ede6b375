"""Which graph revision a state is read under now. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.inventory.views import Drawing, RevisionSummary


@dataclass(frozen=True, slots=True)
class Current:
    """Which revision a state is read under now, by graph and by what the thread is configured with."""

    primary: Mapping[str, RevisionSummary]
    by_config: Mapping[tuple[str, str], RevisionSummary | None]
    varying: frozenset[str]

    def of(self, graph: str | None, config: str | None) -> RevisionSummary | None:
        """The revision of a thread's graph; None when nobody knows how its configuration draws it.

        A configuration that no assistant has (any more) cannot be drawn: where all others always drew the same, so will it.
        """
        if graph is None:
            return None
        if (graph, config or "") in self.by_config:
            return self.by_config[graph, config or ""]
        return None if graph in self.varying else self.primary.get(graph)


def current_of(revisions: Iterable[RevisionSummary], drawings: Iterable[Drawing]) -> Current:
    """Sort the revisions that are deployed now. A graph varies if two configurations ever drew it in two ways."""
    revisions = list(revisions)
    deployed = {found.id: found for found in revisions if found.vanished_at is None}
    primary = {found.graph: found for found in deployed.values() if found.variant is None}
    by_config = {
        (found.graph, found.config): deployed.get(found.revision_id) if found.revision_id is not None else None
        for found in drawings
    }
    return Current(primary, by_config, frozenset(found.graph for found in revisions if found.variant is not None))
