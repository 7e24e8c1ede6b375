"""People who go on working in the storm. What was answered with success must be in the audit afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.storm.world import REMOVED, World

Entry = tuple[str, str, str]
"""Action, subject and, where what was said has one, its id."""

WORDS = {"owner": "payments team", "reason": "seen to by hand"}


@dataclass
class People:
    """``done``: the entries that the audit owes; ``doubtful``: threads that may be waived since nobody got an answer."""

    http: httpx.AsyncClient
    world: World
    deployment: str
    chance: random.Random
    done: Counter[Entry] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)
    waived: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    doubtful: dict[str, set[str]] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    number: int = 0

    async def act(self) -> None:
        """One of the things that people do."""
        deed = self.chance.choice(
            (self.waive, self.waive, self.take_back, self.acknowledge, self.make, self.change, self.close, self.open)
        )
        await deed()

    async def waive(self) -> None:
        drain = self.chance.choice(("approvals", "old-steps", "names"))
        threads = [thread.id for thread in self.world.needing(drain)][:2]
        if not threads:
            return
        self.doubtful.setdefault(drain, set()).update(threads)
        answer = await self.send("POST", f"/drains/{drain}/waivers", {"thread_ids": threads} | WORDS)
        if answer is not None:
            self.done["threads.waived", drain, answer["id"]] += 1
            self.waived.setdefault(drain, {})[answer["id"]] = set(threads)

    async def take_back(self) -> None:
        if known := [(drain, each) for drain, found in self.waived.items() for each in found]:
            await self._take_back(*self.chance.choice(known))

    async def _take_back(self, drain: str, waiver: str) -> None:
        if await self.send("DELETE", f"/drains/{drain}/waivers/{waiver}", None) is not None:
            self.done["waiver.ended", drain, waiver] += 1
            del self.waived[drain][waiver]

    async def acknowledge(self) -> None:
        threads = [thread.id for thread in self.world.server.threads.values() if REMOVED in dict(thread.pending)]
        body = {"thread_ids": threads} | WORDS
        answer = await self.send("POST", f"/deployments/{self.deployment}/acknowledgements", body)
        if answer is not None:
            self.done["acknowledged", self.deployment, answer["id"]] += 1

    async def make(self) -> None:
        self.number += 1
        name = f"made-{self.number}"
        body = {"name": name, "deployment": self.deployment, "graph": "support", "remove_nodes": ["finish"]}
        if await self.send("POST", "/drains", body) is not None:
            self.done["drain.created", name, ""] += 1
            self.made.append(name)

    async def change(self) -> None:
        if self.made:
            self.number += 1
            name = self.chance.choice(self.made)
            answer = await self.send("PATCH", f"/drains/{name}", {"owner": f"team {self.number}"})
            if answer is not None:
                self.done["drain.changed", name, ""] += 1

    async def close(self) -> None:
        if len(self.made) > 3:
            name = self.made.pop(0)
            if await self.send("DELETE", f"/drains/{name}", None) is not None:
                self.done["drain.closed", name, ""] += 1

    async def open(self) -> None:
        thread = self.chance.choice(sorted(self.world.ids()))
        if await self.send("GET", f"/deployments/{self.deployment}/threads/{thread}/evidence", None) is not None:
            self.done["evidence.opened", thread, ""] += 1

    async def send(self, method: str, path: str, body: Any) -> Any | None:
        """What was answered with success, else None."""
        answer = await self.http.request(method, f"/api/v1{path}", json=body)
        if answer.is_success:
            return answer.json()
        code = answer.json()["error"]["code"]
        self.refused[code] += 1
        if code == "internal":
            self.crashes.append(f"{method} {path} crashed")
        return None

    async def undo(self) -> None:
        """In fine weather: take back every waiver, those included of which nobody knew that they were made."""
        for drain in sorted(self.doubtful):
            items = (await self.http.get(f"/api/v1/drains/{drain}/waivers?limit=500")).json()["items"]
            for item in items:
                if item["ended_at"] is None:
                    self.waived.setdefault(drain, {}).setdefault(item["id"], set())
                    await self._take_back(drain, item["id"])
            self.waived.pop(drain, None)
        self.doubtful.clear()

    async def missing(self) -> list[str]:
        """What was answered with success and is not in the audit."""
        written: Counter[Entry] = Counter()
        async for item in self._activity():
            written[item["action"], item["subject"], item["detail"].get("id", "")] += 1
        short = self.done - written
        return [
            f"the audit lacks {action} {subject} {number} ({count})"
            for (action, subject, number), count in short.items()
        ]

    async def _activity(self) -> Any:
        cursor = ""
        while True:
            page = (await self.http.get(f"/api/v1/activity?limit=500{cursor}")).json()
            items: Sequence[Any] = page["items"]
            for item in items:
                yield item
            if page["next_cursor"] is None:
                return
            cursor = f"&cursor={page['next_cursor']}"
