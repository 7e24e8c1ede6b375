"""Which row of `facts/agent_server.md` §2 and §5 is met by which test, and which waits for which issue.

A row is named by a short key of ours, in the order of the page. A test is `module::function` below `tests/flows`; what
waits says for what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Met:
    """By these tests; `waits`: what of the row is not met yet, and for which issue it waits."""

    tests: tuple[str, ...] = ()
    waits: str | None = None


LISTED = "test_situations::test_every_thread_of_the_server_is_listed_and_no_other"
SMALL_PAGES = "test_situations::test_small_pages_list_the_same_threads"
CONDITION = "test_situations::test_the_condition_is_the_one_of_the_design"
PENDING = "test_situations::test_pending_nodes_are_those_that_the_state_names_as_paths"
PRESENCE = "test_situations::test_presence_is_taken_from_keys"
NEVER = "test_verdicts::test_a_drain_on_a_node_that_is_needed_is_never_drained"
BLOCKS = "test_verdicts::test_a_leaf_that_the_state_names_blocks"
UNSEEN = "test_verdicts::test_what_no_view_names_is_unknown_for_its_own_reason"
GREEN = "test_verdicts::test_a_drain_that_nothing_needs_becomes_drained"
OTHER_HITS = "test_deploys::test_other_ways_to_be_hit_by_a_deploy"
STRANDED = "test_deploys::test_a_thread_whose_node_is_gone_is_stranded_there"
HEALS = "test_deploys::test_a_node_that_came_back_heals_the_thread"
AGAIN = "test_deploys::test_what_waits_again_after_the_deploy_back_is_not_drained_and_not_settled"
LOSSES = "test_deploys::test_a_loss_that_only_history_tells_is_never_green_while_the_node_is_gone"

READING: Mapping[str, Met] = {
    "limits and sorts": Met((LISTED, SMALL_PAGES)),
    "paging is by offset, no total": Met((LISTED, SMALL_PAGES)),
    "next cannot be selected": Met((PENDING,)),
    "extract proves no absence": Met((PRESENCE,)),
    "the values filter fails": Met((LISTED,)),
    "busy rows have no values": Met((PRESENCE, CONDITION)),
    "never ran": Met((CONDITION, "test_situations::test_the_state_version_is_read_and_never_guessed")),
    "state with subgraphs": Met((PENDING,)),
    "parallel Send": Met((PENDING,)),
    "errors in row and task": Met((CONDITION,)),
    "static breakpoints": Met((CONDITION, BLOCKS)),
    "update_state on a finished thread": Met((CONDITION, BLOCKS)),
    "cancelled and rolled back": Met((CONDITION, NEVER)),
    "two different 404": Met((OTHER_HITS, "test_situations::test_a_deleted_thread_that_was_never_seen_is_not_found")),
    "a stricter schema": Met((OTHER_HITS,)),
    "xray drawings": Met((PENDING, "test_deploys::test_a_removed_target_is_said_to_be_not_deployed")),
    "joins and deferred nodes": Met((UNSEEN,), "issue 3: storage tells waiting from passed"),
    "the hash decides what a deploy is": Met(
        (STRANDED, "test_deploys::test_before_the_deploy_what_is_done_is_drained")
    ),
    "runs.list": Met((CONDITION,)),
    "info": Met(waits="issue 3: capabilities are recorded"),
    "ttl": Met(waits="no test: the in-memory server never shows it"),
    "storage": Met((GREEN, UNSEEN), "issue 3: erasures and refinement"),
    "scoped keys": Met(waits="issue 4: canaries under custom auth"),
    "killed in a run": Met(waits="issue 3: busy age and stuck runs over a restart"),
}
"""§2."""

FALSE_RULES: Mapping[str, Met] = {
    "idle has nothing pending": Met((CONDITION, NEVER, AGAIN)),
    "pending is in next or a task": Met((UNSEEN, NEVER, LOSSES), "issue 3: what was lost is told by departures"),
    "interrupts name all": Met((BLOCKS, CONDITION)),
    "a row that did not move hides nothing": Met(
        (AGAIN, "test_verdicts::test_a_run_that_is_deleted_behind_a_row_that_does_not_move_is_noticed_by_a_sweep"),
        "nothing: within verify_idle_per_sweep a sweep reads settled heads again",
    ),
    "updated_at moved, so state moved": Met((CONDITION,)),
    "busy is current": Met((CONDITION, NEVER)),
    "busy is running": Met((CONDITION,)),
    "error with empty next is stranded": Met((CONDITION,)),
    "unreadable stays": Met((OTHER_HITS, HEALS)),
    "the row's graph is the thread's": Met((CONDITION, NEVER)),
    "no child is a loss": Met((GREEN,), "issue 3: departures"),
    "storage says what is needed": Met((GREEN,), "issue 3: a join that passed"),
    "counts agree, so complete": Met((LISTED,), "jobs tests: walks over a moving list"),
    "ids sort by time": Met(waits="jobs tests: a copy behind the cursor"),
    "count counts threads": Met(waits="jobs tests: stateless runs in flight"),
    "history tells where it was": Met(waits="issue 3: departures"),
}
"""§5."""
