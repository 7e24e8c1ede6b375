"""What is the matter with one thread, and what to do next: the tree that an engineer would walk. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.drains.sentences import names
from app.facts.types import Agreement, Condition, Presence, Reading, Shape, ThreadFacts
from app.inventory.views import Diagnosis, DrainMention, NextStep, PendingEvidence

SETTLED = frozenset({Condition.SETTLED, Condition.PRESUMED_SETTLED})
RESTS = SETTLED | {Condition.PARKED, Condition.FAILED, Condition.HALF_STEP}
OLD_FORMS = frozenset({"holds_old_field", "old_version", "wrong_kind"})
_UNANSWERED = "Do not answer it now: the run would succeed, and the answer would be lost."


@dataclass(frozen=True, slots=True)
class Patient:
    """What a diagnosis is made from. ``declared``: the state fields that the thread's graph has now, None when nobody knows."""

    deployment: str
    facts: ThreadFacts
    pending: tuple[PendingEvidence, ...]
    shape: Shape | None
    declared: frozenset[str] | None
    mentions: tuple[DrainMention, ...]

    @property
    def where(self) -> str:
        """`` at `node` and `node/inner` ``; empty when nothing is pending. A subgraph's node goes without saying."""
        nodes = {found.node for found in self.pending}
        inmost = sorted(node for node in nodes if not any(other.startswith(f"{node}/") for other in nodes))
        return f" at {names(inmost)}" if inmost else ""

    @property
    def look_again(self) -> NextStep:
        """The step that is always there."""
        return NextStep("Look again now.", self.command("evidence", self.facts.row.thread_id, "--live"), True)

    def command(self, *words: str) -> str:
        """A command of ours about this deployment, to copy."""
        first, *rest = words
        return " ".join(["drainboard", first, self.deployment, *rest])

    def listing(self, condition: Condition) -> NextStep:
        """See who else is in the same condition."""
        command = f"drainboard threads list {self.deployment} --condition {condition.value}"
        return NextStep("See which other threads are.", command, True)


def unknown_thread(deployment: str, thread_id: str) -> Diagnosis:
    """Nobody has seen the thread."""
    steps = (
        NextStep("Check the whole id, and whether your application adds a prefix or a suffix to it.", None, True),
        NextStep(f"Check the deployment: this is {deployment}. Other environments have other threads.", None, True),
        NextStep("Check the tenant: the key may not be allowed to see this thread.", None, True),
        NextStep("Check the backend: the application may keep its checkpoints elsewhere.", None, True),
        NextStep(
            "Ask the server now: it may have been made since the last poll.",
            f"drainboard evidence {deployment} {thread_id} --live",
            True,
        ),
    )
    return Diagnosis("not_found", "No poll has seen this thread here.", steps)


def diagnose(patient: Patient) -> Diagnosis:
    """Stop at the first thing that is the matter."""
    for found in _walk(patient):
        if found is not None:
            return found
    sentence, steps = _CONDITIONS[patient.facts.condition]
    told = tuple(_with_command(step, patient) for step in steps)
    code = patient.facts.condition.value
    return Diagnosis(code, sentence.format(where=patient.where), (*told, patient.look_again))


def _walk(patient: Patient) -> Iterator[Diagnosis | None]:
    yield _cut_off(patient)
    yield _no_progress(patient)
    yield _all_fields_missing(patient)
    if patient.facts.condition is Condition.PARKED:
        yield _unasked(patient)
        return
    yield _conflict(patient)
    yield _bad_version(patient)
    yield _unmigrated(patient)


def _cut_off(patient: Patient) -> Diagnosis | None:
    """Stranded, lost, or waiting at a node that is not deployed."""
    facts = patient.facts
    if facts.condition is Condition.STRANDED:
        intact = " Its interrupt is intact." if facts.row.interrupts else ""
        sentence = f"It waits{patient.where}, but the deployed graph does not schedule that. {_UNANSWERED}{intact}"
        return Diagnosis("stranded", sentence, (*_put_back(), patient.listing(Condition.STRANDED), patient.look_again))
    if facts.condition is Condition.LOST:
        decide = NextStep("Decide by hand what the lost step should have done, and do it.", None, False)
        sentence = f"It waited{patient.where}, and a run went past without doing it: its answer is lost."
        return Diagnosis("lost", sentence, (decide, patient.listing(Condition.LOST), patient.look_again))
    undeployed = [found.node for found in patient.pending if found.deployed is False]
    if undeployed and facts.condition is not Condition.GONE:
        sentence = f"It waits at `{undeployed[0]}`, which is not deployed. {_UNANSWERED}"
        if facts.condition is Condition.GRAPH_MISSING:
            sentence = f"It waits at `{undeployed[0]}`, and its graph is not deployed."
        return Diagnosis("parked_at_undeployed", sentence, (*_put_back(), patient.look_again))
    return None


def _no_progress(patient: Patient) -> Diagnosis | None:
    facts = patient.facts
    if facts.is_ghost:
        steps = (
            NextStep(
                "Cancel what is left of the run, or start a new one: the thread goes on from its head.", None, False
            ),
            patient.look_again,
        )
        return Diagnosis("no_progress", "Its row says busy, but no run is active: nobody works on it.", steps)
    if facts.condition is Condition.RUNNING and facts.stuck:
        run = facts.runs[0].run_id if facts.runs else ""
        steps = (
            NextStep(f"Look for the run {run} in the server's log; cancel it if it hangs.", None, True),
            patient.look_again,
        )
        return Diagnosis("no_progress", f"It runs{patient.where}, and has written no checkpoint for too long.", steps)
    return None


def _all_fields_missing(patient: Patient) -> Diagnosis | None:
    """A state without any field that its graph declares: a rename takes one away, never all."""
    shape, facts = patient.shape, patient.facts
    if facts.condition not in RESTS or shape is None or not patient.declared:
        return None
    there = {name for name, fact in shape.fields.items() if fact.presence is not Presence.ABSENT}
    if there & patient.declared:
        return None
    steps = (
        NextStep("Check that it is the thread you mean, and not one that another graph or version made.", None, True),
        NextStep("Check that the server reads the storage in which the thread was written.", None, True),
        patient.look_again,
    )
    sentence = (
        "It has checkpoints, but none of the fields that its graph declares: the wrong thread or storage, not a rename."
    )
    return Diagnosis("all_fields_missing", sentence, steps)


def _unasked(patient: Patient) -> Diagnosis | None:
    """A thread that stopped without a question, as at a breakpoint: an answer would be an input of its own."""
    if patient.facts.row.interrupts or any(found.interrupts for found in patient.pending):
        return None
    step = NextStep("Run it again without input: it asked nothing, and goes on from there.", None, False)
    return Diagnosis("parked", f"It waits{patient.where}.", (step, patient.look_again))


def _conflict(patient: Patient) -> Diagnosis | None:
    conflicts = patient.shape.conflicts if patient.shape is not None else {}
    label = next((label for label, value in conflicts.items() if value is Agreement.DISAGREE), None)
    if label is None:
        return None
    names = label.replace("->", "` and `")
    step = NextStep("Decide which of the two is right, and write it to both.", None, False)
    return Diagnosis("conflict", f"`{names}` are both present and differ.", (step, patient.look_again))


def _bad_version(patient: Patient) -> Diagnosis | None:
    versions = patient.shape.versions if patient.shape is not None else {}
    key = next((key for key, found in versions.items() if found.reading is Reading.MALFORMED), None)
    if key is None:
        return None
    step = NextStep("Write the version as a number, or fix what writes it.", None, True)
    return Diagnosis("bad_version", f"`{key}` is no number from 0 to 9999.", (step, patient.look_again))


def _unmigrated(patient: Patient) -> Diagnosis | None:
    old = [found.name for found in patient.mentions if found.disposition in OLD_FORMS]
    if not old or patient.facts.condition not in SETTLED:
        return None
    steps = (
        NextStep("Migrate its state, or finish it with code that still knows the old form.", None, True),
        NextStep("See what else the drain waits for.", f"drainboard drains show {old[0]}", True),
        patient.look_again,
    )
    return Diagnosis("unmigrated", f"Nothing waits, but it is in the old form that `{old[0]}` removes.", steps)


def _put_back() -> tuple[NextStep, ...]:
    return (
        NextStep("Put the node back and deploy: the thread waits there again.", None, True),
        NextStep("Or finish it on the old revision.", None, False),
    )


def _with_command(step: NextStep, patient: Patient) -> NextStep:
    """The step with what its command is about."""
    if step.command is None:
        return step
    return NextStep(step.text, step.command.format(deployment=patient.deployment), step.safe_to_repeat)


_CONDITIONS: dict[Condition, tuple[str, tuple[NextStep, ...]]] = {
    Condition.GONE: (
        "The server says that this thread does not exist any more. Below is what was last known.",
        (NextStep("Check whether it was deleted on purpose, or the server's store was changed.", None, True),),
    ),
    Condition.GRAPH_MISSING: (
        "Its graph is not deployed, so nobody can go on with it.",
        (NextStep("Deploy the graph again; the thread is untouched.", None, True),),
    ),
    Condition.UNREADABLE: (
        "Its state cannot be read under the deployed graph: most likely the state schema became stricter.",
        (NextStep("Loosen the schema so that the old state is valid.", None, True),),
    ),
    Condition.UNREAD: (
        "Its state was not read yet, or cannot be trusted as current.",
        (NextStep("Wait for the next poll.", "drainboard poll {deployment}", True),),
    ),
    Condition.RUNNING: ("A run is active{where}.", (NextStep("Wait until it stops.", None, True),)),
    Condition.SCHEDULED: ("A run is waiting to start.", (NextStep("Wait, or cancel the run.", None, True),)),
    Condition.NEVER_RAN: ("It was created and never ran.", ()),
    Condition.UNPLACED: (
        "Its row says that it failed or waits, but nothing is pending and no node can be named.",
        (NextStep("Look at its last run in the server's log: it may have been refused.", None, True),),
    ),
    Condition.FAILED: (
        "It failed{where} and goes on there when it is retried.",
        (NextStep("Fix the cause, then run it again without input: it repeats the failed step.", None, False),),
    ),
    Condition.PARKED: (
        "It waits{where}.",
        (NextStep("Answer it: the run goes on from there.", None, False),),
    ),
    Condition.HALF_STEP: (
        "A parallel step is half done: finished parts wait to be applied.",
        (NextStep("Run it again without input, so that the step ends.", None, True),),
    ),
    Condition.PRESUMED_SETTLED: (
        "It is idle; its head was not looked at since it last moved.",
        (NextStep("Let a sweep look at it.", "drainboard poll {deployment} --full", True),),
    ),
    Condition.SETTLED: ("Nothing is pending.", ()),
}
