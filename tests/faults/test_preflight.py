"""A candidate beside an inventory: what is never read is never safe, and what a deploy did is told afterwards, too."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer, refuse

PATH = f"/api/v1/deployments/{NAME}/preflight"
NODES = ("intake", "await_approval", "finish")
FIELDS = ("note", "state_version", "customer_name", "display_name")


def topology(
    *nodes: str, fields: Any = FIELDS, graph: str = "support", whole: bool = False, **more: Any
) -> dict[str, Any]:
    """A topology file of one graph, without edges as the fake server draws none."""
    found = {name: {"schema": {"type": "string"}} for name in fields} if not isinstance(fields, dict) else fields
    one = {"kind": "graph", "nodes": list(nodes or NODES), "edges": [], "fields": found, **more}
    return {"schema": "drainboard.topology/1", "graphs": {graph: one}, "whole": whole}


async def ask(it: Board, candidate: dict[str, Any], *, expect: int = 200, **more: Any) -> dict[str, Any]:
    answer = await it.http.post(PATH, json={"topology": candidate, **more})
    assert answer.status_code == expect, answer.text
    found: dict[str, Any] = answer.json()
    if expect == 200:
        assert found["exit_code"] == {"safe": 0, "blocked": 1, "unknown": 2}[found["verdict"]]
    return found


def outcomes(found: dict[str, Any]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in found["changes"]:
        if one["outcome"] != "safe":
            counts[one["outcome"]] += one["count"]
    return counts


def codes(found: dict[str, Any]) -> set[str]:
    return {one["code"] for one in found["reasons"]}


WITHOUT = ("intake", "finish")
BLOCKED = {"name": "blocked", "deployment": NAME, "graph": "support", "remove_nodes": ["finish"]}
"""A drain that a thread at `finish` blocks, so that no poll reads what only a green verdict needs."""


# --- What was not seen -----------------------------------------------------------------------------------------------


async def test_without_a_sweep_nothing_is_safe(board: Open) -> None:
    async with board() as it:
        await it.app.state.runtime.server(NAME)
        found = await ask(it, topology())
        assert (found["verdict"], codes(found)) == ("unknown", {"never_swept"})


@pytest.mark.parametrize(("wait", "code"), [({"minutes": 16}, "scan_stale"), ({"hours": 25}, "sweep_stale")])
async def test_what_was_safe_is_unknown_when_nobody_has_looked_lately(
    board: Open, server: FakeAgentServer, wait: dict[str, float], code: str
) -> None:
    server.settled(3)
    async with board() as it:
        await it.poll(full=True)
        assert (await ask(it, topology()))["verdict"] == "safe"
        it.clock.tick(**wait)
        found = await ask(it, topology())
        assert found["verdict"] == "unknown"
        assert code in codes(found)


async def test_after_a_sweep_that_was_cut_short_nothing_is_safe(board: Open, server: FakeAgentServer) -> None:
    server.settled(9)
    async with board() as it:
        await it.poll(full=True)
        server.fail("POST /threads/search", refuse)
        await it.poll(full=True)
        found = await ask(it, topology())
        assert found["verdict"] == "unknown"
        assert codes(found) == {"source_failed", "sweep_incomplete"}


async def test_what_was_swept_of_one_server_makes_nothing_safe_on_another(board: Open, server: FakeAgentServer) -> None:
    server.settled(3)
    async with board() as it:
        await it.poll(full=True)
        assert (await ask(it, topology(*WITHOUT)))["verdict"] == "safe"
    async with board(url="http://other.test") as it:
        found = await ask(it, topology(*WITHOUT))
        assert (found["verdict"], codes(found)) == ("unknown", {"sweep_incomplete"})
        await it.poll(full=True)
        assert (await ask(it, topology(*WITHOUT)))["verdict"] == "safe"


async def test_threads_that_vanished_in_great_numbers_withhold_it(board: Open, server: FakeAgentServer) -> None:
    for _ in range(30):
        server.parked("intake")
    async with board() as it:
        await it.poll(full=True)
        server.threads.clear()
        server.settled(2)
        await it.poll(full=True)
        assert "mass_disappearance" in codes(await ask(it, topology()))


async def test_idle_threads_that_nobody_read_are_unknown_until_a_drain_makes_a_poll_read_them(
    board: Open, server: FakeAgentServer
) -> None:
    server.settled(3)
    server.parked("finish")
    async with board(drains=[BLOCKED]) as it:
        await it.poll(full=True)
        found = await ask(it, topology(*WITHOUT), open_drain=True)
        assert (found["verdict"], outcomes(found)) == ("unknown", {"unknown": 3})
        assert len(found["opened"]) == 1
        await it.poll(full=True)
        found = await ask(it, topology(*WITHOUT), open_drain=True)
        assert (found["verdict"], outcomes(found), found["opened"]) == ("safe", {}, [])


async def test_a_thread_whose_state_cannot_be_read_is_unknown(board: Open, server: FakeAgentServer) -> None:
    thread = server.parked("intake")
    server.fail(f"GET /threads/{thread.id}/state", lambda _: httpx.Response(503))
    async with board() as it:
        await it.poll(full=True)
        found = await ask(it, topology(*WITHOUT))
        assert outcomes(found)["unknown"] == 1
        assert found["verdict"] == "unknown"


async def test_a_graph_that_cannot_be_drawn_is_unknown(board: Open, server: FakeAgentServer) -> None:
    server.settled(2)
    server.fail("GET /assistants/a-support/graph", lambda _: httpx.Response(422))
    async with board() as it:
        await it.poll(full=True)
        found = await ask(it, topology())
        assert found["verdict"] == "unknown"
        assert [one["kind"] for one in found["changes"]] == ["graph_unreadable"]


async def test_idle_threads_that_last_ran_under_another_graph_may_be_of_this_one(
    board: Open, server: FakeAgentServer
) -> None:
    server.deploy("other", "a")
    server.thread(graph="other", head_graph="other")
    server.parked("finish")
    async with board(drains=[BLOCKED]) as it:
        await it.poll(full=True)
        found = await ask(it, topology(*WITHOUT))
        assert (found["verdict"], codes(found)) == ("unknown", {"idle_unverified"})


# --- What is said ----------------------------------------------------------------------------------------------------


async def test_the_same_graph_again_is_safe(board: Open, server: FakeAgentServer) -> None:
    server.parked()
    server.settled(3)
    async with board() as it:
        await it.poll(full=True)
        found = await ask(it, topology())
        assert (found["verdict"], found["changes"], found["drains"]) == ("safe", [], [])


async def test_a_removed_node_where_threads_wait_blocks_and_names_them(board: Open, server: FakeAgentServer) -> None:
    waiting = [server.parked(), server.parked()]
    async with board() as it:
        await it.poll(full=True)
        found = await ask(it, topology(*WITHOUT))
        [one] = found["changes"]
        assert (one["kind"], one["name"], one["outcome"], one["count"]) == (
            "node_removed",
            "await_approval",
            "would_strand",
            2,
        )
        assert set(one["examples"]) == {thread.id for thread in waiting}
        assert (await it.get(one["threads"]))["total"] == 2
        assert found["headline"] == one["sentence"]


async def test_a_rename_is_suggested_and_never_assumed(board: Open, server: FakeAgentServer) -> None:
    server.parked()
    server.edges = [("intake", "await_approval"), ("await_approval", "finish")]
    async with board() as it:
        await it.poll(full=True)
        edges = [["intake", "sign", False], ["sign", "finish", False]]
        [gone, new] = (await ask(it, topology("intake", "sign", "finish", edges=edges)))["changes"]
        assert (gone["outcome"], gone["renamed_to"], new["kind"]) == ("would_strand", "sign", "node_added")
        elsewhere = [["intake", "finish", False], ["intake", "sign", False]]
        [gone, new] = (await ask(it, topology("intake", "sign", "finish", edges=elsewhere)))["changes"]
        assert gone["renamed_to"] is None
        [gone, *_] = (await ask(it, topology("intake", "sign", "stamp", "finish", edges=edges)))["changes"]
        assert gone["renamed_to"] is None


async def test_a_graph_of_a_whole_candidate_that_is_not_in_it_is_dropped(board: Open, server: FakeAgentServer) -> None:
    server.deploy("old", "a")
    server.thread(graph="old", head_graph="old")
    server.thread(graph="old", head_graph="old", ran=False, values=None)
    async with board() as it:
        await it.poll(full=True)
        assert (await ask(it, topology()))["verdict"] == "safe"
        found = await ask(it, topology(whole=True))
        assert outcomes(found) == {"would_fail_to_load": 1}
        renamed = topology(whole=True)
        renamed["graphs"]["new"] = topology("a")["graphs"]["support"]
        [one, *_] = (await ask(it, renamed))["changes"]
        assert (one["kind"], one["renamed_to"]) == ("graph_removed", "new")


async def test_a_graph_under_a_name_that_is_not_deployed_compares_with_nothing_and_is_refused(
    board: Open, server: FakeAgentServer
) -> None:
    server.parked()
    async with board() as it:
        await it.poll(full=True)
        for candidate in (topology(graph="graph"), topology(graph="graph", whole=True)):
            found = await ask(it, candidate, expect=422)
            assert found["error"]["code"] == "graph_unknown"
            assert "--graph-id" in found["error"]["message"]


async def test_a_field_that_goes_hides_what_waiting_threads_hold(board: Open, server: FakeAgentServer) -> None:
    server.parked(values={"note": "x", "customer_name": "Ada"})
    server.parked(values={"note": "x"})
    server.thread(values={"note": "x", "customer_name": "Ada"})
    async with board() as it:
        await it.poll(full=True)
        fields = ("note", "state_version", "display_name")
        [one, *rest] = (await ask(it, topology(fields=fields)))["changes"]
        assert (one["kind"], one["outcome"], one["count"]) == ("field_removed", "would_hide", 1)
        assert {each["outcome"] for each in rest} <= {"unknown"}


async def test_a_field_that_a_node_needs_fails_threads_that_lack_it(board: Open, server: FakeAgentServer) -> None:
    server.parked(values={"note": "x", "customer_name": "Ada"})
    server.parked(values={"note": "x"})
    fields: dict[str, Any] = {name: {"schema": {"type": "string"}} for name in FIELDS}
    async with board() as it:
        await it.poll(full=True)
        fields["customer_name"] |= {"required_by": list(NODES)}
        assert outcomes(await ask(it, topology(fields=fields))) == {"would_fail_to_load": 1}
        fields["customer_name"] |= {"required_by": ["finish"]}  # they may come there, or not
        assert outcomes(await ask(it, topology(fields=fields))) == {"unknown": 1}


@pytest.mark.parametrize(("schema", "checked", "expected"), [
    ({"type": "array"}, True, {"would_fail_to_load": 1}),
    ({"type": "array"}, False, {"unknown": 1}),
    ({"type": "integer"}, True, {"unknown": 1}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True, {}),
    ({"type": "string", "maxLength": 3}, True, {"unknown": 1}),
    ({"type": "string", "maxLength": 3}, False, {}),
    ({}, True, {}),
])  # fmt: skip
async def test_another_type_of_a_field_is_judged_by_what_threads_hold(
    board: Open, server: FakeAgentServer, schema: dict[str, Any], checked: bool, expected: dict[str, int]
) -> None:
    server.parked(values={"note": "x", "customer_name": "Ada"})
    server.parked(values={"note": "x"})
    fields: dict[str, Any] = {name: {"schema": {"type": "string"}} for name in FIELDS}
    fields["customer_name"] = {"schema": schema, "checked_by": list(NODES) if checked else []}
    async with board() as it:
        await it.poll(full=True)
        assert outcomes(await ask(it, topology(fields=fields))) == expected


# --- Topologies that are pushed --------------------------------------------------------------------------------------


async def push(it: Board, candidate: dict[str, Any]) -> list[bool | None]:
    answer = await it.http.put(f"/api/v1/deployments/{NAME}/topology", json=candidate)
    assert answer.status_code == 200, answer.text
    return [one["matches"] for one in answer.json()["graphs"]]


async def test_a_pushed_topology_counts_where_the_server_draws_the_same(board: Open, server: FakeAgentServer) -> None:
    server.edges = [("intake", "finish"), ("await_approval", "finish")]
    edges = [["intake", "finish", False], ["await_approval", "finish", False]]
    async with board() as it:
        assert await push(it, topology(edges=edges)) == [None]
        await it.poll(full=True)
        assert (await joins(it)) == []  # two edges, and no join
        await push(it, topology(edges=edges, joins=[{"sources": ["await_approval", "intake"], "target": "finish"}]))
        assert (await joins(it)) == ["finish"]
        server.edges.append(("intake", "await_approval"))
        await it.poll(full=True)
        assert (await joins(it)) == ["finish"]  # drawn only: several edges may be a join
        assert await push(it, topology(edges=edges)) == [False]


async def joins(it: Board) -> list[str]:
    newest = max((await it.deployment())["revisions"], key=lambda one: one["id"])
    return list(newest["joins"])


async def test_a_join_that_waits_for_others_may_strand_what_has_come_to_it(
    board: Open, server: FakeAgentServer
) -> None:
    server.parked("await_approval", channels={"note", "branch:to:await_approval", "join:await_approval+intake:finish"})
    server.parked("intake")
    server.settled(2)
    server.edges = [("intake", "finish"), ("await_approval", "finish")]
    edges = [["intake", "finish", False], ["await_approval", "finish", False]]
    both = [{"sources": ["await_approval", "intake"], "target": "finish"}]
    async with board() as it:
        await it.poll(full=True)
        found = await ask(it, topology(edges=edges))
        assert (found["verdict"], outcomes(found)) == ("unknown", {"unknown": 3})  # two of them rest, and were not read
        assert "Push the topology" in found["headline"]
        assert (await ask(it, topology(edges=edges, joins=both)))["verdict"] == "safe"
        before = server.asked("/storage$")
        await it.poll()
        assert server.asked("/storage$") == before
        await push(it, topology(edges=edges, joins=both))
        assert (await ask(it, topology(edges=edges, joins=both)))["verdict"] == "safe"
        found = await ask(it, topology(edges=edges))
        assert (found["verdict"], outcomes(found)) == ("unknown", {"may_strand": 1, "unknown": 2})


async def test_storage_that_a_preflight_needed_is_read_with_its_history_when_a_drain_needs_it(
    board: Open, server: FakeAgentServer
) -> None:
    joined = server.parked("intake", channels={"note", "branch:to:intake", "join:await_approval+intake:finish"})
    blocking = server.parked("finish")
    server.edges = [("intake", "finish"), ("await_approval", "finish")]
    async with board(drains=[BLOCKED]) as it:
        for _ in range(2):
            await it.poll()
        asked = f"/threads/{joined.id}/(storage|history)$"
        assert server.asked(asked) <= 3  # a sweep tries all routes on one thread
        it.clock.tick(minutes=1)
        server.finish(blocking)
        server.requests.clear()
        for _ in range(2):
            await it.poll()
        assert server.asked(asked) == 2


async def test_where_the_server_tells_the_fields_of_subgraphs_nobody_has_to_push_them(
    board: Open, server: FakeAgentServer
) -> None:
    server.deploy("support", "intake", "desk", "finish")
    server.parked("desk")
    schema = {"properties": {"ticket": {"type": "string"}}}
    tell = httpx.Response(200, json={"desk": {"state_schema": schema}})
    same = {"desk": {"fields": {"ticket": {"schema": {"type": "string"}}}}}
    candidate = topology("intake", "desk", "finish", subgraphs=same)
    async with board() as it:
        await it.poll(full=True)
        [one] = (await ask(it, candidate))["changes"]
        assert (one["kind"], one["outcome"], one["count"]) == ("inner_fields_unseen", "unknown", 1)
        server.fail("GET /assistants/a-support/subgraphs", lambda _: tell)
        await it.poll(full=True)
        assert (await ask(it, candidate))["verdict"] == "safe"
        same["desk"]["fields"]["ticket"]["schema"] = {"type": "integer"}
        [one] = (await ask(it, candidate))["changes"]
        assert (one["kind"], one["name"], one["outcome"]) == ("inner_field_changed", "desk.ticket", "unknown")


# --- A deploy, by itself ---------------------------------------------------------------------------------------------


async def test_a_deploy_is_compared_with_the_moment_before_it(board: Open, server: FakeAgentServer) -> None:
    server.parked()
    server.parked("intake", values={"note": "x", "customer_name": "Ada"})
    async with board() as it:
        await it.poll(full=True)
        server.deploy("support", *WITHOUT)
        server.fields.remove("customer_name")
        await it.poll()
        [deploy] = (await it.get(f"/api/v1/deployments/{NAME}/deploys"))["items"]
        said = {(one["kind"], one["outcome"]): one["count"] for one in deploy["comparison"] if one["outcome"] != "safe"}
        assert said[("node_removed", "would_strand")] == 1
        assert said[("field_removed", "would_hide")] == 1
        alarms = {alarm["code"]: alarm for alarm in (await it.deployment())["alarms"]}
        assert {"removed_while_waiting", "deploy_broke", "stranded"} <= set(alarms)
        assert "customer_name" in alarms["deploy_broke"]["sentence"]
        it.clock.tick(hours=25)
        await it.poll(full=True)
        codes = {alarm["code"] for alarm in (await it.deployment())["alarms"]}
        assert ("removed_while_waiting" in codes, "deploy_broke" in codes) == (True, False)


async def test_the_first_look_at_a_deployment_compares_nothing(board: Open, server: FakeAgentServer) -> None:
    server.parked()
    async with board() as it:
        await it.poll(full=True)
        assert (await it.get(f"/api/v1/deployments/{NAME}/deploys"))["items"] == []


# --- As Markdown -----------------------------------------------------------------------------------------------------


async def test_the_comment_begins_with_the_same_marker_whatever_it_says(board: Open, server: FakeAgentServer) -> None:
    server.parked()
    async with board() as it:
        await it.poll(full=True)
        texts = [
            (await it.http.post(f"{PATH}?format=markdown", json={"topology": candidate})).text
            for candidate in (topology(), topology(*WITHOUT))
        ]
        assert {text.splitlines()[0] for text in texts} == {f"<!-- drainboard-preflight:{NAME} -->"}
        assert "| `support` | node removed `await_approval` | 1 | would strand |" in texts[1]


async def test_a_name_cannot_break_out_of_the_comment(board: Open, server: FakeAgentServer) -> None:
    server.deploy("support", "a|b", "<script>x</script>", "-->")
    async with board() as it:
        await it.poll(full=True)
        text = (await it.http.post(f"{PATH}?format=markdown", json={"topology": topology("x")})).text
        rows = [line for line in text.splitlines() if line.startswith("| `support`")]
        assert len(rows) == 4
        assert text.count("-->") == 1
        assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)
        assert "<script>" not in re.sub("`[^`]*`", "", text)


# --- Who waits -------------------------------------------------------------------------------------------------------

GATE = "/api/v1/drains/drop-it"


async def test_who_waits_is_listed_until_the_wait_is_over(board: Open, server: FakeAgentServer) -> None:
    server.parked()
    async with board() as it:
        await it.poll(full=True)
        begun = (await it.http.post(f"{GATE}/waiters", json={"caller": "release 7", "wait": "30m"})).json()
        assert (begun["verdict"], begun["asked"], begun["outcome"]) == ("blocked", 1, None)
        path = f"{GATE}/waiters/{begun['id']}"
        touched = (await it.http.put(path, json={"verdict": "blocked"})).json()
        assert (touched["asked"], touched["is_silent"]) == (2, False)
        it.clock.tick(minutes=2)
        [shown] = (await it.get(f"{GATE}/waiters"))["items"]
        assert shown["is_silent"]
        ended = (await it.http.put(path, json={"verdict": "drained", "outcome": "drained"})).json()
        assert ended["outcome"] == "drained"
        it.clock.tick(hours=2)
        assert (await it.get(f"{GATE}/waiters"))["items"] == []


async def test_a_wait_is_cancelled_once_and_stays_so(board: Open) -> None:
    async with board() as it:
        begun = (await it.http.post(f"{GATE}/waiters", json={"caller": "release 7", "wait": "30m"})).json()
        path = f"{GATE}/waiters/{begun['id']}"
        for _ in range(2):
            assert (await it.http.delete(path)).json()["outcome"] == "cancelled"
        late = (await it.http.put(path, json={"verdict": "drained", "outcome": "drained"})).json()
        assert late["outcome"] == "cancelled"
        actions = [item["action"] for item in (await it.get("/api/v1/activity"))["items"]]
        assert actions.count("wait.cancelled") == 1


async def test_a_waiter_that_died_is_no_longer_shown_when_its_time_is_over(board: Open) -> None:
    async with board() as it:
        await it.http.post(f"{GATE}/waiters", json={"caller": "release 7", "wait": "30m"})
        it.clock.tick(minutes=32)
        assert (await it.get(f"{GATE}/waiters"))["items"] == []


@pytest.mark.parametrize(
    "body", [{}, {"caller": "", "wait": "1m"}, {"caller": "x", "wait": "8d"}, {"caller": "x", "wait": "0s"}]
)
async def test_a_wait_that_cannot_be_is_refused(board: Open, body: dict[str, str]) -> None:
    async with board() as it:
        assert (await it.http.post(f"{GATE}/waiters", json=body)).status_code == 422


async def test_nobody_waits_where_there_is_no_drain(board: Open) -> None:
    async with board() as it:
        assert (await it.http.get("/api/v1/drains/nothing/waiters")).status_code == 404
        assert (await it.http.delete(f"{GATE}/waiters/nobody")).status_code == 404
