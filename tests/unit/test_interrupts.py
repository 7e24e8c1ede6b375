"""An interrupt's id proves the node that raised it, even after the node is gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from app.facts.interrupts import Place, Proof, prove
from app.facts.privacy import node_name
from app.facts.types import Interrupt

TASK = "0fa89786-5130-fd48-501d-53ef2749d145"
ID = "47fdaf0002f2291e3d9ca7f0f95431e7"


def raised(namespace: str, task: str = TASK) -> Interrupt:
    return Interrupt(task, xxh3_128_hexdigest(namespace.encode()))


def named(interrupts: list[Interrupt], candidates: list[str]) -> dict[str, str]:
    """The node of each task, by the row alone."""
    return {proof.task_id: proof.node for proof in prove(interrupts, candidates)}


def test_the_id_that_the_real_server_gave_proves_its_node() -> None:
    assert named([Interrupt(TASK, ID)], ["intake", "await_approval"]) == {TASK: "await_approval"}


@pytest.mark.parametrize("count", [1, 2, 3, 31])
def test_later_questions_of_the_same_task_are_proved(count: int) -> None:
    assert named([raised(f"await_approval:{TASK}|{count}")], ["await_approval"]) == {TASK: "await_approval"}


@pytest.mark.parametrize(
    "namespace", [f"other:{TASK}", "await_approval:another-task", f"await_approval:{TASK}|0x", "await_approval"]
)
def test_no_match_proves_nothing(namespace: str) -> None:
    assert named([raised(namespace)], ["await_approval"]) == {}


def test_an_id_of_another_version_of_langgraph_proves_nothing() -> None:
    assert named([Interrupt(TASK, "a" * 32), Interrupt(TASK, "")], ["await_approval"]) == {}


def test_every_task_has_its_own_node() -> None:
    interrupts = [raised("a:t1", "t1"), raised("b:t2", "t2"), raised("gone:t3", "t3")]
    assert named(interrupts, ["a", "b", "c"]) == {"t1": "a", "t2": "b"}


@pytest.mark.parametrize("name", ["ask/again", "50%", "a b", "ünï", "a-b.c"])
def test_a_node_whose_name_is_encoded_in_paths_is_proved(name: str) -> None:
    """Candidates are paths; the server hashed the name itself."""
    assert named([raised(f"{name}:{TASK}")], [node_name(name)]) == {TASK: node_name(name)}


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters=":|/%"), min_size=1, max_size=10),
        unique=True,
        min_size=1,
        max_size=5,
    )
)
def test_only_the_node_that_raised_it_is_named(nodes: list[str]) -> None:
    assert named([raised(f"{nodes[0]}:{TASK}")], nodes) == {TASK: nodes[0]}
    assert named([raised(f"{nodes[0]}:{TASK}")], nodes[1:]) == {}


# Copied from a real server: the head, the inner head, and the row's interrupt of threads that asked inside `desk`.
HEAD = Place("", "1f1ecce7-945d-6fac-8001-f4adb35542ee", 1)
OUTER = "bcbd49ad-6be7-6ec0-7559-af7db944ea98"
INSIDE = Place(f"desk:{OUTER}", "1f1ecce7-946d-68e6-8001-fd30ac197a7f", 1)
ASKED_INSIDE = Interrupt(OUTER, "c1d11eeb9659a087a9f17e23f30bfb5d")
INNER = "62ca5c34-2a76-c8a5-85be-72dd1d33a845"
REMEMBERING = "c3448ccc-770c-cf69-4bf2-957a129a703a"


def test_an_inner_node_is_not_proved_by_the_row_alone() -> None:
    assert prove([ASKED_INSIDE], ["desk", "desk/sub_wait"]) == ()


def test_an_inner_node_is_proved_by_the_checkpoint_that_scheduled_it() -> None:
    found = prove([ASKED_INSIDE], ["desk", "desk/sub_start", "desk/sub_wait"], [HEAD, INSIDE])
    assert found == (Proof("desk/sub_wait", INSIDE.ns, INNER, 1),)


def test_an_inner_node_of_a_subgraph_with_one_history_is_proved() -> None:
    inside = Place(f"desk:{REMEMBERING}", "1f1ecce7-946e-6cee-8001-e2efd9c57ff7", 1)
    [found] = prove([Interrupt(REMEMBERING, "3c98b8c3937abde3c94006f96eaa8523")], ["desk/sub_wait"], [inside])
    assert (found.node, found.task_id) == ("desk/sub_wait", "9da5f188-b5bf-61b2-12cc-3c26e3167dac")


@pytest.mark.parametrize("places", [[HEAD], [HEAD, Place(INSIDE.ns, INSIDE.checkpoint_id, None)]])
def test_without_the_inner_checkpoint_the_outer_node_is_proved_and_no_more(places: list[Place]) -> None:
    found = prove([ASKED_INSIDE], ["desk", "desk/sub_wait", "other"], places)
    assert found == (Proof("desk", "", OUTER, 1, inside=True),)


@pytest.mark.parametrize(
    "inside",
    [
        Place(INSIDE.ns, HEAD.checkpoint_id, 1),
        Place(INSIDE.ns, INSIDE.checkpoint_id, 2),
        Place(INSIDE.ns, "not a checkpoint", 1),
        Place("desk:another-task", INSIDE.checkpoint_id, 1),
    ],
)
def test_another_checkpoint_proves_nothing_inside(inside: Place) -> None:
    assert prove([ASKED_INSIDE], ["desk/sub_wait", "desk/other"], [inside]) == ()


def test_several_questions_in_one_task_are_counted() -> None:
    asked = [raised(f"a:{TASK}"), raised(f"a:{TASK}|1"), raised(f"b:{TASK}")]
    assert prove(asked, ["a"]) == (Proof("a", "", TASK, 2),)
