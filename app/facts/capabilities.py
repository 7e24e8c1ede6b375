"""What a missing ability of a server means for verdicts, in a sentence each. Pure.

Missing means unknown: no ability that is missing ever makes anything clear.
"""

from collections.abc import Mapping

MEANINGS = {
    "sort_by_thread_id": "It does not list threads in order of id; they are listed in order of creation or change instead.",
    "sort_by_updated_at": "It does not list threads in order of change, so every scan goes through all of them.",
    "select": "It sends whole rows whatever is asked for; they are reduced at once, and pages are smaller where rows are large.",
    "limit": "It sends more rows a page than asked for.",
    "row_values": "Its rows have no values, so every thread's fields are read from its state.",
    "row_interrupts": "Its rows have no interrupts, so a removed node cannot be proved from a row; only what was seen before "
    "names it.",
    "row_state_time": "Its rows do not say when a state changed, so a row that stands still proves nothing: every state is "
    "read in each sweep, and again in each scan for a drain that nothing blocks, up to verify_idle_per_sweep. The rest is "
    "unknown.",
    "row_by_id_values": "A thread asked for by id has no values either.",
    "row_by_id_state_time": "A thread asked for by id does not say when its state changed either.",
    "count": "It does not count threads, so a key that sees too few of them raises no alarm. Ids are the proof.",
    "storage": "It does not tell which channels a thread has stored: joins and deferred nodes stay deferred_unseen, and "
    "threads that began since intake closed stay intake_unseen.",
    "runs": "It does not list runs, so a busy thread stays running_unseen.",
    "run_durability": "Its runs do not say how they write checkpoints, so a running thread stays unread, and a loss can be "
    "unexplained.",
    "run_select": "It sends whole runs, with input and output; they are dropped at once.",
    "history": "It does not tell checkpoints, so how a thread left a node is unexplained.",
    "history_namespaces": "Its history does not keep to a namespace, so how a thread left an inner node is unexplained.",
    "head_graph": "Its checkpoints do not name their graph; with several graphs it is taken from the run that wrote them, and "
    "a thread whose run is gone stays unread.",
    "task_paths": "Its tasks do not say whether they were made by Send, so what a waiting thread holds besides its fields is "
    "unknown.",
    "task_interrupts": "Its tasks have no interrupts: a thread that waits is parked for an unknown cause.",
    "drawing": "A graph cannot be drawn, so no drain on it can be drained.",
    "schemas": "It does not tell the fields of a graph's state.",
    "subgraphs": "It does not tell the schemas of subgraphs: a preflight does not know their fields, unless they are pushed. Their nodes "
    "come from the drawing.",
}
SHOWN = tuple(MEANINGS)
VERSIONS = ("version", "langgraph_version")
NO_VERSION = "It does not say. Nothing depends on it: what the server can do is tried, not looked up."
NOT_SHOWN = "Nothing has shown it yet; until then it counts as missing."


def notes(capabilities: Mapping[str, bool | str | None]) -> dict[str, str]:
    """A sentence for each ability that is missing or was not seen, by its name."""
    found = {name: NO_VERSION for name in VERSIONS if name in capabilities and not capabilities[name]}
    for name, meaning in MEANINGS.items():
        if name in capabilities and capabilities[name] is not True:
            found[name] = meaning if capabilities[name] is False else NOT_SHOWN
    return found
