"""What the product should say of every situation, derived from its truth and from design §3 — not from what it prints.

`CONDITIONS` are those once every head was read (a drain that no thread blocks makes the poll read it). `PRESUMED` are
the idle heads that nobody reads without such a drain: rows that are idle, with values, without an interrupt or an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.agent.situations import STATES, Situation

SETTLED, PARKED, FAILED, UNPLACED = "settled", "parked", "failed", "unplaced"
NEVER_RAN, RUNNING, SCHEDULED, UNREAD, HALF_STEP = "never_ran", "running", "scheduled", "unread", "half_step"

CONDITIONS: dict[str, str] = {
    # Ordinary lives
    "never_ran": NEVER_RAN,
    "never_ran_without_a_graph": NEVER_RAN,
    "finished": SETTLED,
    "parked_by_interrupt": PARKED,
    "parked_at_second_question": PARKED,
    "answered": SETTLED,
    "dropped_by_a_new_input": SETTLED,
    "breakpoint_before": PARKED,
    "breakpoint_after": PARKED,
    "node_failed": FAILED,
    "recursion_limit": PARKED,  # a leaf is pending, and no leaf task carries an error
    "bulk_parked": PARKED,
    # Cancelled, copied, updated, deleted
    "cancelled_run": PARKED,  # CancelledError is not the node's own failure
    "cancelled_with_nothing_pending": SETTLED,
    "resume_rolled_back": PARKED,
    "resume_rolled_back_later": HALF_STEP,  # the node that asked has its result: what is left is to apply it
    "new_input_rolled_back": PARKED,
    "first_run_rolled_back": NEVER_RAN,  # the state call shows no checkpoint
    "delayed_run_cancelled_over_parked": PARKED,
    "update_on_finished": PARKED,
    "update_while_parked": PARKED,
    "answered_by_update": PARKED,
    "copy_of_parked": PARKED,
    "copy_of_finished": SETTLED,
    "finishing_run_deleted": HALF_STEP,
    "time_travelled": SETTLED,
    "metadata_patched": PARKED,
    "refused_by_recursion_limit": UNPLACED,
    "refused_by_unknown_checkpoint": UNPLACED,
    # Work is pending under `support`, and the only state call reads with `nested`, which does not show it.
    "answered_under_another_graph": UNREAD,
    "new_input_under_another_graph": PARKED,
    "answered_under_its_twin": SETTLED,
    # Busy
    "delayed_on_never_ran": SCHEDULED,
    "delayed_on_finished": SCHEDULED,
    "delayed_over_parked": SCHEDULED,
    "delayed_run_rolled_back": PARKED,  # busy without an active run is not running
    "running_sync": RUNNING,
    "running_async": RUNNING,
    "running_exit": UNREAD,  # with durability exit the state is not current
    "running_exit_after_parked": UNREAD,
    "running_inside": RUNNING,
    # Several at once, and inside
    "fan_out_parked": PARKED,
    "fan_out_partly_answered": PARKED,
    "inner_parked": PARKED,
    "inner_with_memory_parked": PARKED,
    "two_deep_parked": PARKED,
    "breakpoint_before_subgraph": PARKED,
    "half_step": PARKED,  # an unfinished leaf comes before the finished one beside it
    "goto_half_step": PARKED,
    "join_waiting": PARKED,
    "deferred_waiting": PARKED,
    "join_passed": SETTLED,
    "two_parked_beside": PARKED,
    "failed_beside_parked": FAILED,
    "functional_parked": PARKED,
    "functional_finished": SETTLED,
    # Other ways to get there
    "sent_there_by_a_command": PARKED,
    "sent_there_by_the_run": "stranded",  # its interrupt proves the node, and the state does not schedule it
    "sent_there_and_rolled_back": UNPLACED,
    "sent_from_where_it_asked_and_rolled_back": PARKED,
    "sent_there_and_cancelled": UNPLACED,
    "running_where_it_was_sent": UNREAD,  # the node it began with is in no view
    "run_that_had_nothing_to_do": SETTLED,
    "asked_again_in_a_loop": PARKED,
    "sent_there_out_of_a_subgraph": PARKED,
    "breakpoint_of_the_graph": PARKED,
    "breakpoint_after_the_answer": PARKED,
    "replayed_from_before": PARKED,
    "travelled_back_to_the_question": PARKED,
    "ended_by_update": SETTLED,
    "updated_before_it_ever_ran": PARKED,
    "second_run_interrupted_the_first": PARKED,
    "second_run_rolled_the_first_back": PARKED,
    "second_run_was_rejected": RUNNING,
    "cancelled_inside": PARKED,
    "answered_and_written_at_the_end": SETTLED,
    "copy_of_inner_parked": PARKED,
    "copy_of_half_step": PARKED,
    "one_of_two_answered": PARKED,
    "half_step_inside": PARKED,
    "join_waiting_inside": PARKED,
    "sent_to_a_subgraph": PARKED,
    "two_subgraphs_beside": PARKED,
    "two_deep_with_memory": PARKED,
    "called_subgraph_parked": PARKED,
    "functional_second_task_parked": PARKED,
    "functional_failed": FAILED,
    "deferred_passed": SETTLED,
    # What a state holds
    "personal_keys_parked": PARKED,
    "personal_keys_finished": SETTLED,
    **dict.fromkeys(STATES, SETTLED),
}

# A node of each graph at which nothing is pending in any situation, so that nothing blocks and every head is read.
QUIET = {
    "support": "intake",
    "twin": "intake",
    "fan_out": "plan",
    "nested": "begin",
    "remembering": "begin",
    "deep": "begin",
    "half_step": "a",
    "goto": "a",
    "join": "b1",
    "deferred": "b1",
    "functional": "nowhere",
    "moves": "begin",
}

NAMED_BY_PROOF: Mapping[str, tuple[str, ...]] = {"sent_there_by_the_run": ("ask",)}
"""Leaves that no state view names, and that the interrupt's id does."""

NOT_LISTED = frozenset({"deleted"})

UNASKED_BUSY = frozenset({RUNNING, SCHEDULED, UNREAD})
"""Without a drain that needs it `runs.list` is not asked: then nobody can tell these apart, and nobody may say settled."""


def conditions_unasked(situation: Situation) -> frozenset[str]:
    """The conditions that a sweep may give without reading idle heads and runs."""
    said = condition(situation)
    if situation.status == "busy":
        return UNASKED_BUSY
    if situation.status == "idle" and situation.values == "present" and situation.interrupts == 0:
        return frozenset({"presumed_settled"})
    return said


def condition(situation: Situation) -> frozenset[str]:
    """The conditions that are right once everything was read."""
    return frozenset({CONDITIONS[situation.name]})


VERSIONS: Mapping[str, tuple[str, int | None]] = {
    "version_1": ("integer", 1),
    "version_2": ("integer", 2),
    "version_true": ("malformed", None),
    "version_float": ("malformed", None),
    "version_text": ("malformed", None),
    "version_null": ("malformed", None),
    "version_negative": ("malformed", None),
}
"""Readings of those that hold the key; every other thread with values is `missing`."""

WITHOUT_VALUES = frozenset(
    {"never_ran", "never_ran_without_a_graph", "first_run_rolled_back", "delayed_on_never_ran", "running_exit"}
)
"""No checkpoint was ever written: row and state have nothing to read a version from, so `unknown`."""

MAY_BE_UNKNOWN = frozenset({"functional_parked", "functional_second_task_parked", "functional_failed"})
"""Its row has null values and its state may show none."""

FIELDS: Mapping[str, Mapping[str, tuple[str, str | None]]] = {
    "old_field_null": {"customer_name": ("null", "null")},
    "old_field_empty": {"customer_name": ("empty", "text")},
    "old_field_empty_list": {"customer_name": ("empty", "list")},
    "old_field_present": {"customer_name": ("present", "text")},
    "old_field_false": {"customer_name": ("present", "boolean")},
    "old_field_zero": {"customer_name": ("present", "integer")},
    "old_field_number": {"customer_name": ("present", "number")},
    "old_field_object": {"customer_name": ("present", "object")},
    "new_field_only": {"display_name": ("present", "text")},
    "rename_agrees": {"customer_name": ("present", "text"), "display_name": ("present", "text")},
    "rename_disagrees": {"customer_name": ("present", "text"), "display_name": ("present", "text")},
    "old_null_new_present": {"customer_name": ("null", "null"), "display_name": ("present", "text")},
    "old_present_new_empty": {"customer_name": ("present", "text"), "display_name": ("empty", "text")},
    "kind_text": {"retry_count": ("present", "text")},
    "kind_integer": {"retry_count": ("present", "integer")},
    "to_erase": {"passport_number": ("present", "text"), "legacy_notes": ("present", "text")},
    "version_1": {"state_version": ("present", "integer")},
    "version_2": {"state_version": ("present", "integer")},
    "version_true": {"state_version": ("present", "boolean")},
    "version_float": {"state_version": ("present", "number")},
    "version_text": {"state_version": ("present", "text")},
    "version_null": {"state_version": ("null", "null")},
    "version_negative": {"state_version": ("present", "integer")},
    "copy_of_finished": {"customer_name": ("present", "text")},
    "personal_keys_parked": {"customer_name": ("present", "text")},
}
"""Presence and kind of the fields that a thread holds, of those in `WATCHED`; every other one is absent."""

WATCHED = ("customer_name", "display_name", "retry_count", "legacy_notes", "passport_number", "state_version")


def presence(situation: Situation, name: str) -> str:
    """The presence of a watched field in the thread's values."""
    found = FIELDS.get(situation.name, {}).get(name)
    return found[0] if found else "absent"


REFUSED = frozenset({"never_ran", "first_run_rolled_back"})
"""A run without an input is refused where there is no checkpoint: an error without work, `unplaced`."""

DEPARTURES: Mapping[str, Mapping[str, set[str]]] = {
    "recursion_limit": {"spin": {"completed"}},  # it went around and waits at the same node, in another task
}
"""How the leaves left that did not simply run to their end, once the thread went on with an answer to each question."""


def departures(situation: Situation) -> dict[str, set[str]]:
    """How each leaf that was named left after the thread went on: it was completed, unless the table says otherwise."""
    named = {*situation.seen, *NAMED_BY_PROOF.get(situation.name, ())}
    return {**{node: {"completed"} for node in named}, **DEPARTURES.get(situation.name, {})}
