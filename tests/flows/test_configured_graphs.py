"""A graph that is made from its configuration: one assistant has a node that the others lack.

The server draws a thread's state with the configuration that the thread keeps, which is that of its first assistant; the
row's assistant is the one of the last run. Each way to be wrong about that is done here for real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langgraph_sdk import get_client

from app.demo.agent_server import LocalAgentServer
from app.drains.jsonable import to_jsonable
from app.jobs.dashboard import Dashboard
from app.jobs.runtime import Runtime, open_runtime
from app.settings import load_settings
from tests.agent.fixtures import FreshServer
from tests.agent.situations import Bench, revision
from tests.flows.product import DEPLOYMENT, node_drain, one_deployment, to_toml

DRAIN = "drop-review"
WITH_REVIEW = {"configurable": {"reviewed": True}}


@dataclass
class Office:
    """A server with a graph of two shapes, and an installation that watches one drain on the rarer one."""

    server: LocalAgentServer
    bench: Bench
    runtime: Runtime
    reviewer: str = ""
    threads: dict[str, str] = field(default_factory=dict)

    async def poll(self, *, full: bool = True) -> None:
        summary = await self.runtime.poll(DEPLOYMENT, full=full)
        assert summary.state == "complete", summary.reasons

    async def verdict(self, drain: str = DRAIN) -> str:
        return (await Dashboard(self.runtime).drain(drain)).verdict.value

    async def disposition(self, name: str, drain: str = DRAIN) -> str:
        found = {each.name: each.disposition for each in (await self.evidence(name)).drains}
        return found[drain]

    async def evidence(self, name: str) -> Any:
        return await Dashboard(self.runtime).evidence(DEPLOYMENT, self.threads[name], False)

    async def park(self, name: str, assistant: str) -> None:
        self.threads[name] = await self.bench.thread()
        await self.bench.client.runs.wait(self.threads[name], assistant, input={"note": "n"}, raise_error=False)

    async def answer(self, name: str, assistant: str, **options: Any) -> None:
        thread = self.threads[name]
        await self.bench.client.runs.wait(thread, assistant, command={"resume": "yes"}, raise_error=False, **options)


def play(fresh: FreshServer, folder: Path, drains: Mapping[str, str], story: Any) -> None:
    """Tell a story about a server with the factory graph and these drains (name: node)."""

    async def tell(server: LocalAgentServer) -> None:
        config = folder / "drainboard.toml"
        settings = one_deployment(server.url, *(node_drain(name, "team", node) for name, node in drains.items()))
        config.write_text(to_toml(settings))
        async with get_client(url=server.url) as client, open_runtime(load_settings(config), schedule=False) as runtime:
            office = Office(server, Bench(client, server.folder), runtime)
            office.reviewer = (await client.assistants.create("team", config=WITH_REVIEW))["assistant_id"]
            await story(office)

    with ExitStack():
        asyncio.run(tell(fresh(revision("factory"))))


def test_a_thread_parked_at_a_node_of_one_assistant_blocks_until_it_left(
    fresh_agent_server: FreshServer, tmp_path: Path
) -> None:
    async def story(office: Office) -> None:
        await office.park("plain", "team")
        await office.park("reviewed", office.reviewer)
        await office.poll()
        assert await office.verdict() == "blocked"
        assert await office.disposition("reviewed") == "parked_at_target"
        assert (await office.evidence("reviewed")).pending[0].deployed is True
        await office.answer("reviewed", office.reviewer)
        await office.poll()
        assert await office.disposition("reviewed") == "unaffected"
        assert await office.disposition("plain") == "unaffected", "its storage shows that it never went there"
        assert await office.verdict() == "drained"

    play(fresh_agent_server, tmp_path, {DRAIN: "review"}, story)


def test_a_copy_of_a_thread_that_waits_there_is_never_clear(fresh_agent_server: FreshServer, tmp_path: Path) -> None:
    """The copy keeps no configuration, so its state shows nothing; its metadata still names the assistant."""

    async def story(office: Office) -> None:
        await office.park("reviewed", office.reviewer)
        before = {row["thread_id"] for row in await office.bench.client.threads.search(limit=10)}
        await office.bench.client.threads.copy(office.threads["reviewed"])
        after = {row["thread_id"] for row in await office.bench.client.threads.search(limit=10)}
        (office.threads["copy"],) = after - before
        await office.answer("reviewed", office.reviewer)
        await office.poll()
        await office.poll()
        assert await office.disposition("copy") not in ("unaffected", "passed")
        assert await office.verdict() != "drained"

    play(fresh_agent_server, tmp_path, {DRAIN: "review"}, story)


def test_a_run_that_overrides_the_configuration_hides_nothing(fresh_agent_server: FreshServer, tmp_path: Path) -> None:
    """The run went to `review`; the thread keeps no such configuration, so no state names it. The interrupt's id does."""

    async def story(office: Office) -> None:
        thread = office.threads["overridden"] = await office.bench.thread()
        await office.bench.client.runs.wait(thread, "team", input={"note": "n"}, config=WITH_REVIEW, raise_error=False)
        await office.poll()
        assert await office.verdict() == "blocked"
        assert await office.disposition("overridden") == "stranded"

    play(fresh_agent_server, tmp_path, {DRAIN: "review"}, story)


def test_a_thread_that_keeps_the_configuration_of_a_deleted_assistant_is_never_clear_by_another_drawing(
    fresh_agent_server: FreshServer, tmp_path: Path
) -> None:
    """Its state is still made without `approve`, which the only assistant that is left has."""

    async def story(office: Office) -> None:
        await office.park("reviewed", office.reviewer)
        await office.answer("reviewed", office.reviewer)
        await office.park("plain", "team")
        await office.answer("plain", "team")
        await office.poll()
        await office.bench.client.assistants.delete(office.reviewer)
        await office.poll()
        await office.poll()
        assert await office.disposition("plain", "drop-approve") == "unaffected"
        evidence = await office.evidence("reviewed")
        assert evidence.provenance.graph_revision is None

    play(fresh_agent_server, tmp_path, {"drop-approve": "approve"}, story)


def test_an_assistant_that_is_made_between_two_scans_is_drawn_once(
    fresh_agent_server: FreshServer, tmp_path: Path
) -> None:
    async def story(office: Office) -> None:
        await office.park("plain", "team")
        for number in range(12):
            config = {"configurable": {"prompt": f"p{number}"}}
            await office.bench.client.assistants.create("team", config=config)
        await office.poll()
        plain = await office.runtime.poll(DEPLOYMENT, full=False)
        await office.bench.client.assistants.create("team", config={"configurable": {"prompt": "one more"}})
        with_new = await office.runtime.poll(DEPLOYMENT, full=False)
        again = await office.runtime.poll(DEPLOYMENT, full=False)
        assert (with_new.kind, again.kind) == ("scan", "scan")
        assert with_new.requests == plain.requests + 1
        assert again.requests == plain.requests
        assert plain.requests < 12, "fourteen configurations, two drawings"

    play(fresh_agent_server, tmp_path, {DRAIN: "review"}, story)


def test_a_deploy_that_takes_the_node_of_one_assistant_away_is_noticed_by_a_scan_and_strands(
    fresh_agent_server: FreshServer, tmp_path: Path
) -> None:
    async def story(office: Office) -> None:
        await office.park("plain", "team")
        await office.park("reviewed", office.reviewer)
        await office.poll()
        await asyncio.to_thread(office.server.deploy, revision("factory", "factory_after"))
        await office.poll(full=False)
        assert await office.verdict() == "blocked"
        assert await office.disposition("reviewed") == "stranded"
        page = await Dashboard(office.runtime).deploys(DEPLOYMENT, None, 10)
        (deploy,) = page.items
        (change,) = deploy.changes
        assert (change.graph, change.kind, change.nodes_removed, change.nodes_added) == (
            "team",
            "changed",
            ("review",),
            ("check",),
        )
        assert (deploy.threads, deploy.fates["stranded"]) == (1, 1)
        listed = await Dashboard(office.runtime).deploy_threads(DEPLOYMENT, deploy.id, None, None, 10)
        assert [(each.thread_id, each.node, each.fate) for each in listed.items] == [
            (office.threads["reviewed"], "review", "stranded")
        ]
        assert "canary" not in str(to_jsonable(page))

    play(fresh_agent_server, tmp_path, {DRAIN: "review"}, story)
