"""What happens to threads of a graph without a server is told as it is told of one with a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agent.situations import CANARY, CANARY_KEY
from tests.flows import truth
from tests.reporter.library import MADE, NEED_A_SERVER, STORIES
from tests.reporter.plays import TARGETS, Act, Stage, stage

NAMES = [recipe.build.__name__ for recipe in MADE]
SEEN = {recipe.build.__name__: recipe.truth for recipe in MADE}
SAVERS = {"sqlite": "AsyncSqliteSaver", "postgres": "AsyncPostgresSaver"}


@dataclass(frozen=True)
class Play:
    """Every act, with the folder in which requests and database are."""

    saver: str
    folder: Path
    before: Act
    untouched: Act
    after: Act
    back: Act


@pytest.fixture(scope="module", params=SAVERS)
def play(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    saver = "sqlite" if request.param == "sqlite" else request.getfixturevalue("checkpoints_postgres")
    folder = tmp_path_factory.mktemp(request.param)
    with stage(folder, saver) as found:
        yield _played(found, request.param)


def _played(found: Stage, saver: str) -> Play:
    found.deploy("before")
    found.run("make")
    before = found.report(with_evidence=True)
    found.deploy("before", "after")
    untouched = found.report()
    found.run("act")
    after = found.report(with_evidence=True)
    found.deploy("before")
    return Play(saver, found.folder, before, untouched, after, found.report())


# --- Situations ----------------------------------------------------------------------------------------------------------------------


def test_every_situation_is_made_or_needs_a_server() -> None:
    named = {*NAMES, *NEED_A_SERVER}
    assert {*truth.CONDITIONS, *truth.NOT_LISTED} == named
    assert not NEED_A_SERVER & set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_condition_is_the_one_that_a_server_has(play: Play, name: str) -> None:
    assert play.before.threads[name]["condition"] == truth.CONDITIONS[name]
    assert play.before.evidence[name]["condition"] == truth.CONDITIONS[name]


@pytest.mark.parametrize("name", NAMES)
def test_pending_nodes_are_named_as_a_server_names_them(play: Play, name: str) -> None:
    recipe_truth = SEEN[name]
    left = list(recipe_truth.get("pending", ()))
    for leaf in recipe_truth.get("unseen", ()):
        left.remove(leaf)
    named = (*left, *truth.NAMED_BY_PROOF.get(name, ()))
    assert play.before.threads[name]["pending"] == sorted(set(named))
    tasks: Counter[str] = Counter()
    for pending in play.before.evidence[name]["pending"] or ():
        tasks[pending["node"]] += pending["tasks"]
    assert tasks == Counter(named)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in truth.MAY_BE_UNKNOWN])
def test_the_state_version_is_read_and_never_guessed(play: Play, name: str) -> None:
    said = play.before.threads[name]["state_version"]
    assert (said["reading"], said["value"]) == truth.VERSIONS.get(name, ("missing", None))


@pytest.mark.parametrize("name", [name for name in NAMES if SEEN[name]["graph"] == "support"])
def test_presence_and_kind_are_those_that_a_server_shows(play: Play, name: str) -> None:
    fields = play.before.evidence[name]["fields"]
    for field in truth.WATCHED:
        presence, kind = truth.FIELDS.get(name, {}).get(field, ("absent", None))
        said = fields[field]
        assert (field, said["row"], said["state"], said["kind"]) == (field, presence, presence, kind)


@pytest.mark.parametrize("name", ["rename_agrees", "rename_disagrees"])
def test_a_provenance_names_the_saver_and_that_it_was_told(play: Play, name: str) -> None:
    said = play.before.evidence[name]["provenance"]
    assert (said["source"], said["saver"]) == ("reported", SAVERS[play.saver])


def test_no_value_and_no_personal_key_is_in_any_request_or_in_the_database(play: Play) -> None:
    sent = (play.folder / "requests.bin").read_bytes()
    assert sent.count(b"/facts\n") > 20  # so there is something to search
    kept = b"".join(path.read_bytes() for path in (play.folder / "drainboard").glob("drainboard.db*"))
    assert b"await_approval" in sent
    assert b"await_approval" in kept
    for secret in (CANARY, CANARY_KEY, "May we?"):
        assert secret.encode() not in sent
        assert secret.encode() not in kept


# --- A change of the code ------------------------------------------------------------------------------------------------------------

TOLD = {story.name: story for story in STORIES}
STRANDED = [story.name for story in STORIES if story.after.get("stranded") and story.act is None]
HIDDEN = frozenset({"half_step_renamed", "join_renamed", "deferred_renamed"})
"""No view ever named the node: `may_hold_target` before, and not clear after."""


@pytest.mark.parametrize("name", [story.name for story in STORIES])
def test_before_the_change_it_waits_where_it_asked(play: Play, name: str) -> None:
    story = TOLD[name]
    left = list(story.before.get("pending", ()))
    for leaf in story.before.get("unseen", ()):
        left.remove(leaf)
    assert play.before.threads[name]["pending"] == sorted(set(left))


@pytest.mark.parametrize("name", [name for name in STRANDED if name not in HIDDEN])
def test_a_node_that_the_code_no_longer_has_is_named(play: Play, name: str) -> None:
    assert play.untouched.threads[name]["condition"] == "stranded"
    assert set(TOLD[name].after["stranded"]) <= set(play.untouched.threads[name]["pending"])


ANSWERED = {"renamed_and_answered": "lost", "send_target_renamed_and_answered": "stranded"}
LEFT: dict[str, set[str]] = {
    "renamed_and_answered": {"lost"},
    "send_target_renamed_and_answered": set(),
    "inner_renamed_and_answered": {"unexplained"},
}


@pytest.mark.parametrize(
    "name", ["renamed_and_answered", "send_target_renamed_and_answered", "inner_renamed_and_answered"]
)
def test_an_answer_that_nothing_took_is_never_taken_for_done(play: Play, name: str) -> None:
    """Where the checkpoint keeps the answer, it is lost. An answer to one of several questions is kept nowhere, so the thread is
    stranded still; how a run wrote is not stored either, so what an inner node did not do is not explained."""
    said = play.after.evidence[name]
    left = {one["departure"] for one in said["departures"] if one["node"] == TARGETS[TOLD[name].graph]}
    assert said["condition"] == ANSWERED.get(name, "settled")
    assert left == LEFT[name]
    assert play.after.answers[f"drop-{TOLD[name].graph}"]["verdict"] != "drained"


@pytest.mark.parametrize("graph", sorted({story.graph for story in STORIES if story.before}))
@pytest.mark.parametrize("act", ["before", "untouched", "after", "back"])
def test_a_drain_of_a_node_where_threads_wait_or_waited_is_never_drained(play: Play, graph: str, act: str) -> None:
    assert getattr(play, act).answers[f"drop-{graph}"]["verdict"] != "drained"


def test_a_stricter_schema_makes_a_thread_unreadable_in_two_passes(play: Play) -> None:
    assert play.untouched.threads["stricter_schema"]["condition"] == "unread"
    assert play.after.threads["stricter_schema"]["condition"] == "unreadable"
    assert play.back.threads["stricter_schema"]["condition"] == "parked"


@pytest.mark.parametrize(
    "name", ["renamed", "inner_renamed", "two_deep_renamed", "send_target_renamed", "one_of_two_removed"]
)
def test_a_node_that_came_back_heals_the_thread(play: Play, name: str) -> None:
    assert play.back.threads[name]["condition"] == "parked"
    assert play.back.threads[name]["pending"] == sorted(set(TOLD[name].back["pending"]))
