"""How threads are called in what people carry away: evidence reports, drains as Markdown, answers of gates. By their ids, or by
keyed pseudonyms, which only this Drainboard leads back to a thread.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from app.drains.answers import Answer
from app.facts.privacy import pseudonym
from app.inventory.scrubbing import scrubbed

PSEUDONYM = re.compile(r"th_[0-9a-f]{24}")

AnyAnswer = TypeVar("AnyAnswer", bound=Answer)


@dataclass(frozen=True, slots=True)
class Outside:
    """``hides_ids``: threads are called by pseudonyms; ``key``: of the hashes."""

    key: bytes
    hides_ids: bool

    def report(self, deployment: str, thread_id: str, content: Any) -> Any:
        """A report about one thread, as text or as JSON: its id may stand anywhere in it, in addresses too."""
        if not self.hides_ids:
            return content
        called = pseudonym(self.key, deployment, thread_id)
        return scrubbed(content, dict.fromkeys((thread_id, quote(thread_id), quote(thread_id, safe="")), called))

    def answer(self, answer: AnyAnswer) -> AnyAnswer:
        """A drain's answer. It names its oldest thread, and no other."""
        if not self.hides_ids or answer.oldest is None:
            return answer
        called = pseudonym(self.key, answer.deployment, answer.oldest.thread_id)
        return replace(answer, oldest=replace(answer.oldest, thread_id=called))
