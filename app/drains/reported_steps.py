"""What to do next where there is no server to ask: the application's reporter looks again, not we. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from app.inventory.views import Diagnosis, NextStep

_OURS = ("drainboard poll ", " --live")
LOOK_AGAIN = NextStep(
    "Let the reporter make a pass beside the application, then look here again.",
    "python -m drainboard_reporter … --once",
    True,
)
_NO_SERVER = {
    "the server's log": "the application's log",
    "the server's store": "the checkpointer's database",
    "the server reads the storage": "the reporter reads the storage",
}


def for_reported(diagnosis: Diagnosis) -> Diagnosis:
    """The same diagnosis, with steps that can be taken."""
    return replace(diagnosis, next_steps=tuple(dict.fromkeys(_steps(diagnosis.next_steps))))


def _steps(steps: Iterable[NextStep]) -> Iterator[NextStep]:
    for step in steps:
        if step.command is not None and any(mark in step.command for mark in _OURS):
            yield LOOK_AGAIN
            continue
        text = step.text
        for said, instead in _NO_SERVER.items():
            text = text.replace(said, instead)
        yield replace(step, text=text)
