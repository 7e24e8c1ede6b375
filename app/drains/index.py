"""What the application's own list of threads proves for a drain (design §4.3, proof 5). Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from app.clock import is_too_old
from app.drains.answers import Check, Reason, Verdict
from app.inventory.views import Comparison, SourceStatus

_WHY = {
    "unknown": "{n} unknown to the server",
    "hidden": "{n} on the server but not listed, so the key may not see every thread",
    "other_form": "{n} in another form than the server's, with a prefix or a suffix (give the query the server's ids)",
    "no_id": "{n} in no form of a thread's id",
    "unchecked": "{n} that the server is still to be asked for",
}


@dataclass(frozen=True, slots=True)
class IndexEvidence:
    """The listed ids of a drain's population, by what became of them. ``source``: how the list was read."""

    source: SourceStatus
    comparison: Comparison
    max_age: timedelta

    def reasons(self, now: datetime) -> Iterator[Reason]:
        """What is not known."""
        if self.source.as_of is None:
            yield self._reason("source_failed" if self.source.status == "failed" else "index_stale", now)
            return
        if is_too_old(self.source.as_of, self.max_age, now):
            if self.source.status == "failed":
                yield self._reason("source_failed", now)
            yield self._reason("index_stale", now)
        elif self.source.status == "incomplete":
            yield self._reason("source_failed", now)
        if not self.comparison.listed:
            yield self._reason("source_failed:empty", now)
        if unresolved := sum(self.comparison.unresolved.values()):
            yield self._reason("index_only", now, unresolved)

    def _reason(self, code: str, now: datetime, count: int | None = None) -> Reason:
        sentence = self._sentence(code, now)
        return Reason(code.partition(":")[0], Verdict.UNKNOWN, count, "index", self.source.as_of, sentence)

    def _sentence(self, code: str, now: datetime) -> str:
        match code:
            case "source_failed:empty":
                return (
                    "The thread index lists no thread of this graph, and nothing proves nothing. Is it the right list?"
                )
            case "source_failed":
                return f"The thread index could not be read to its end. {self.source.sentence or ''}".strip()
            case "index_stale" if self.source.as_of is None:
                return "The thread index was not read yet. The next poll does it, or somebody pushes it."
            case "index_stale":
                hours = int((now - (self.source.as_of or now)).total_seconds() // 3600)
                return f"The thread index is {hours:,} h old. Push it again, or see why its query is not asked."
            case _:
                return self._only()

    def _only(self) -> str:
        unresolved = self.comparison.unresolved
        total = sum(unresolved.values())
        ids = "1 id is" if total == 1 else f"{total:,} ids are"
        whys = [_WHY.get(word, "{n} others").format(n=f"{count:,}") for word, count in sorted(unresolved.items())]
        return f"{ids} in the thread index, and no such thread was seen: {'; '.join(whys)}."

    @property
    def valid_until(self) -> datetime | None:
        """When this evidence gets too old by itself."""
        return self.source.as_of + self.max_age if self.source.as_of is not None else None

    def status(self, now: datetime) -> SourceStatus:
        """The source as this drain sees it."""
        is_stale = self.source.as_of is not None and is_too_old(self.source.as_of, self.max_age, now)
        is_empty = self.source.as_of is not None and not self.comparison.listed
        status, sentence = self.source.status, self.source.sentence
        if status == "complete" and (is_stale or is_empty):
            status = "stale" if is_stale else "incomplete"
            sentence = self._sentence("index_stale" if is_stale else "source_failed:empty", now)
        unresolved = sum(self.comparison.unresolved.values())
        return replace(
            self.source,
            status=status,
            sentence=sentence,
            expected=self.comparison.listed,
            seen=self.comparison.listed - unresolved,
        )

    def check(self, now: datetime) -> Check:
        """Its line in the checklist."""
        found = list(self.reasons(now))
        if found:
            return Check("index", "unknown", " ".join(reason.sentence for reason in found), self.source.as_of)
        words = self.comparison.by_word
        settled = words.get("closed", 0) + words.get("expired", 0)
        sentence = (
            f"{words.get('seen', 0):,} of {self.comparison.listed:,} listed ids were seen, {settled:,} are settled."
        )
        return Check("index", "pass", sentence, self.source.as_of)
