"""What to read of a payload, and the shape of a thread's values. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.facts.privacy import Names, compare, kind_of, shape_of
from app.facts.types import Agreement, FieldFact, Presence, Shape


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read of a payload: how names are kept, which keys are versions, renames, allow-listed metadata."""

    names: Names
    version_keys: tuple[str, ...]
    renames: tuple[tuple[str, str], ...]
    metadata_keys: tuple[str, ...]

    def shape(self, values: object) -> Shape | None:
        """The shape of a thread's values; None when there are none to look at."""
        if not isinstance(values, Mapping):
            return None
        kept = {str(name): value for name, value in values.items()}
        return shape_of(kept, names=self.names, version_keys=self.version_keys, renames=self.renames)

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
