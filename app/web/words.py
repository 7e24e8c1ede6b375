"""The words of the pages: what each condition, disposition and state means, in the reader's terms."""

from collections.abc import Mapping
from typing import Literal

Group = Literal["blocking", "unknown", "clear", "excluded"]

CONDITIONS = {
    "gone": "The server no longer has it; these are its last known facts",
    "graph_missing": "Its graph is not deployed",
    "unreadable": "Its state cannot be read: the call failed in the same way in two polls",
    "unread": "Listed, but its state was not read yet or cannot be trusted as current",
    "running": "A run is active",
    "scheduled": "No run is active, but a delayed or enqueued run is pending",
    "never_ran": "It has no checkpoint and no run is pending",
    "lost": "A pending answer was thrown away, and nobody has acknowledged it",
    "stranded": "It waits at a node that the deployed graph no longer schedules",
    "unplaced": "It did not finish, but no node can be named",
    "failed": "A task ended with an error",
    "parked": "It waits at a node",
    "half_step": "A finished task of a parallel step is not applied yet",
    "presumed_settled": "Idle, but its head was not read since it last moved",
    "settled": "Its head was read, and nothing is pending",
}

ALARMING = frozenset({"lost", "stranded", "failed", "graph_missing", "unreadable"})
UNCERTAIN = frozenset({"unread", "unplaced", "half_step"})
AT_REST = frozenset({"settled", "never_ran"})  # only these are known to wait nowhere
QUIET = frozenset({"settled", "presumed_settled", "never_ran", "gone"})

DISPOSITIONS: dict[Group, dict[str, str]] = {
    "blocking": {
        "graph_missing": "Its graph is not deployed",
        "unreadable": "Its state cannot be read",
        "stranded": "It waited at the target when that was removed",
        "lost": "Its answer at the target was thrown away",
        "parked_at_target": "It waits at the target",
        "failed_at_target": "It failed at the target",
        "running_at_target": "It runs at the target",
        "scheduled_at_target": "A pending run will enter the target",
        "conflict": "Old and new field are both present and disagree",
        "holds_old_field": "It still holds the old field",
        "wrong_kind": "The field has another kind than it must have",
        "bad_version": "Its version is malformed",
        "old_version": "Its version is below the minimum",
        "future_version": "Its version is newer than the newest known",
    },
    "unknown": {
        "unread": "Its state was not read yet, or not under a graph that has the target",
        "unplaced": "It did not finish, but no node can be named",
        "may_hold_target": "Half a step, a waiting join or an inner place that cannot be seen may hold the target",
        "running_unseen": "It runs, and its last current reading is too old",
        "presumed": "Idle, but its head was not read since it last moved",
    },
    "clear": {
        "migrated": "It has the new form",
        "passed": "It was at the target and completed",
        "neither_field": "It has neither the old nor the new field",
        "unaffected": "It does not need the target",
    },
    "excluded": {
        "gone": "The server no longer has it",
        "waived": "A person took it over",
        "acknowledged": "A person has dealt with the loss",
        "retention": "Settled, and idle beyond the retention rule",
    },
}

GROUP_TITLES: dict[Group, str] = {
    "blocking": "Blocks",
    "unknown": "Not known",
    "clear": "Clear",
    "excluded": "Left out",
}

LIMITS = {
    "idle_unverified": "Idle threads whose heads were not read",
    "intake_unseen": "New threads of which nothing shows whether they entered",
    "half_step_unseen": "Half steps whose next nodes do not show",
    "deferred_unseen": "Joins and deferred nodes that may wait unseen",
    "traces_sampled": "Traces of a part of the runs only",
    "history_unseen": "Checkpoints of the past that cannot be seen",
}

KINDS = ("boolean", "integer", "number", "text", "list", "object")
ALARMS_TO_ACKNOWLEDGE = {
    "mass_disappearance": "many threads vanished at once, and that is explained",
    "canary_missing": "a thread that is always there was not listed, and that is explained",
}

SAID = {
    "waiver": "taken over",
    "acknowledgement": "acknowledged",
    "attestation": "attested",
}

ACTIONS = {
    "drain.created": "made the drain",
    "drain.changed": "changed the drain",
    "drain.closed": "closed the drain",
    "threads.waived": "took threads over for",
    "waiver.ended": "took a waiver back of",
    "acknowledged": "acknowledged for",
    "acknowledgement.ended": "took an acknowledgement back of",
    "attested": "attested for",
    "attestation.ended": "took an attestation back of",
    "evidence.opened": "opened the evidence of",
    "token.created": "made the API token",
    "token.revoked": "revoked the API token",
    "topology.pushed": "told the topology of",
    "wait.begun": "began to wait on",
    "wait.cancelled": "ended a wait on",
}

DELIVERY_PROBLEMS = {
    "timeout": "did not answer in time",
    "unreachable": "could not be reached",
    "refused": "refused it",
    "redirected": "sent us elsewhere, where we do not go",
    "gone": "wants no more messages",
    "overtaken": "is not told: a later message says what holds now",
    "no_secret": "has no secret where the settings say",
}

RIGHTS = {
    "read": "see pages and ask the API",
    "operate": "change drains, waive, acknowledge, poll",
    "admin": "make and revoke tokens",
    "index": "push the application's list of threads",
    "facts": "push what a reporter found, and topologies",
}

TARGETS = {
    "node": "node",
    "rename": "rename",
    "kind": "kind of field",
    "remove": "field to remove",
    "erase": "field to erase",
    "version": "minimum version",
}

SOURCES = {
    "complete": "complete",
    "incomplete": "incomplete",
    "stale": "stale",
    "failed": "not readable",
    "not_configured": "not configured",
    "not_evaluated": "not read yet",
}

PENDING_SOURCES = {
    "state": "read from the state",
    "interrupt_id": "proved by interrupt id",
    "last_seen": "last seen there",
}

CAUSES = {
    "dynamic": "interrupt",
    "static": "breakpoint",
    "update": "state update",
    "cancelled": "cancelled run",
    "unknown": "not known",
}


def plain(code: str) -> str:
    """``parked_at_target`` as ``parked at target``."""
    return code.replace("_", " ")


def tone(condition: str) -> str:
    """How loud a condition is: ``bad``, ``unsure``, ``quiet`` or ``live``."""
    if condition in ALARMING:
        return "bad"
    if condition in UNCERTAIN:
        return "unsure"
    return "quiet" if condition in QUIET else "live"


def condition_meaning(condition: str) -> str:
    return CONDITIONS.get(condition, plain(condition))


def disposition_group(disposition: str) -> Group:
    """The group of a disposition; what we do not know yet is *unknown*, never clear."""
    return next((group for group, members in DISPOSITIONS.items() if disposition in members), "unknown")


def left_of(counts: Mapping[str, int]) -> dict[Group, int]:
    """Threads by group."""
    found: dict[Group, int] = dict.fromkeys(DISPOSITIONS, 0)
    for disposition, count in counts.items():
        found[disposition_group(disposition)] += count
    return found


def disposition_meaning(disposition: str) -> str:
    return DISPOSITIONS[disposition_group(disposition)].get(disposition, plain(disposition))
