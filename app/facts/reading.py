"""What to read of a payload, and the shape of a thread's values. Pure."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from app.facts.privacy import Names, compare, kind_of, look_of, shape_of
from app.facts.types import Agreement, FieldFact, Presence, Shape

MOST_LOOKS = 5000  # that are kept in memory; free-form states may each look different

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read of a payload: how names are kept, which keys are versions, renames, allow-listed metadata."""

    names: Names
    version_keys: tuple[str, ...]
    renames: tuple[tuple[str, str], ...]
    metadata_keys: tuple[str, ...]

    _seen: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def shape(self, values: object) -> Shape | None:
        """The shape of a thread's values; None when there are none to look at. Values that look alike get the same object."""
        if not isinstance(values, Mapping):
            return None
        look = look_of(values, version_keys=self.version_keys, renames=self.renames)
        if (found := self._seen.get(look)) is None:
            made = shape_of(values, names=self.names, version_keys=self.version_keys, renames=self.renames)
            found = self._remember(look, made)
        return found if isinstance(found, Shape) else None

    def config(self, config: object) -> str | None:
        """The keyed hash of what a graph is configured with."""
        plain = isinstance(config, Mapping) and not config.get("configurable")
        if not plain:
            return self.names.hashed_config(config)
        return self._seen.get("") or self._remember("", self.names.hashed_config({}))

    def _remember(self, key: Hashable, found: T) -> T:
        if len(self._seen) >= MOST_LOOKS:
            self._seen.clear()
        self._seen[key] = found
        return found

    def nested(self, values: object, inner: Sequence[Mapping[str, Any]]) -> Shape | None:
        """The shape of a state with running subgraphs: fields of either, and a rename that is not done in one of them
        counts as not done (``disagree``), whatever the others hold."""
        root = self.shape(values)
        if root is None or not inner:
            return root
        below = [found for one in inner if (found := self.shape(one)) is not None]
        fields = {name: fact for shape in (*below, root) for name, fact in shape.fields.items()}
        conflicts = dict(root.conflicts)
        for one in inner:
            for old, new in self.renames:
                if old in one and (compare(one, old, new) is not Agreement.AGREE):
                    present = FieldFact(Presence.PRESENT, kind_of(one[old]))
                    fields |= {self.names.kept(old): present, self.names.kept(new): present}
                    conflicts[f"{old}->{new}"] = Agreement.DISAGREE
        return replace(root, fields=dict(sorted(fields.items())), conflicts=dict(sorted(conflicts.items())))
