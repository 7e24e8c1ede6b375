"""What to do about threads that block, by why they do. Pure."""

from app.drains.answers import TargetAnswer
from app.drains.dispositions import Disposition
from app.drains.sentences import names

_STEPS = {
    Disposition.GRAPH_MISSING: "Deploy the graph again: what waits in it is untouched.",
    Disposition.UNREADABLE: "Loosen the graph's schema until their state loads again, or repair the state of each.",
    Disposition.STRANDED: "Put {target} back and deploy before anybody answers: each then waits there again.",
    Disposition.LOST: "Do by hand what the lost step should have done, then acknowledge the loss.",
    Disposition.PARKED_AT_TARGET: "Answer each: it then goes on from {target}.",
    Disposition.FAILED_AT_TARGET: "Mend the cause and start a run on each, or take them over.",
    Disposition.RUNNING_AT_TARGET: "Wait: the next poll sees when they stop.",
    Disposition.SCHEDULED_AT_TARGET: "Let the pending runs begin, or cancel them.",
    Disposition.CONFLICT: "Decide which of the two values is right, and write it into the new field.",
    Disposition.WRONG_KIND: "Write the field anew in the kind that {target} asks for.",
    Disposition.BAD_VERSION: "Find what wrote the version, and migrate each.",
    Disposition.OLD_VERSION: "Migrate each to {target}.",
    Disposition.FUTURE_VERSION: "Name the newer version in the drain, or find who writes it.",
}
_HOLDING = {
    "rename": "Copy the old field into the new one: {target}.",
    "remove": "Let the pending work finish, or clear {target} in each.",
    "erase": "Delete the threads, or {target} with all checkpoints that hold it.",
}


def next_step_of(target: TargetAnswer, disposition: str) -> str:
    """What to do about threads that block for a target in this way."""
    found = Disposition(disposition)
    step = _HOLDING.get(target.kind, "") if found is Disposition.HOLDS_OLD_FIELD else _STEPS.get(found, "")
    return step.format(target=names([target.name])) or "Look at each."
