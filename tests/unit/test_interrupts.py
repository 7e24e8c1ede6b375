"""An interrupt's id proves the node that raised it, even after the node is gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from app.facts.interrupts import prove
from app.facts.privacy import node_name
from app.facts.types import Interrupt

TASK = "0fa89786-5130-fd48-501d-53ef2749d145"
ID = "47fdaf0002f2291e3d9ca7f0f95431e7"


def raised(namespace: str, task: str = TASK) -> Interrupt:
    return Interrupt(task, xxh3_128_hexdigest(namespace.encode()))


def test_the_id_that_the_real_server_gave_proves_its_node() -> None:
    assert prove([Interrupt(TASK, ID)], ["intake", "await_approval"]) == {TASK: "await_approval"}


@pytest.mark.parametrize("count", [1, 2, 3, 31])
def test_later_questions_of_the_same_task_are_proved(count: int) -> None:
    assert prove([raised(f"await_approval:{TASK}|{count}")], ["await_approval"]) == {TASK: "await_approval"}


@pytest.mark.parametrize(
    "namespace", [f"other:{TASK}", "await_approval:another-task", f"await_approval:{TASK}|0x", "await_approval"]
)
def test_no_match_proves_nothing(namespace: str) -> None:
    assert prove([raised(namespace)], ["await_approval"]) == {}


def test_an_id_of_another_version_of_langgraph_proves_nothing() -> None:
    assert prove([Interrupt(TASK, "a" * 32), Interrupt(TASK, "")], ["await_approval"]) == {}


def test_every_task_has_its_own_node() -> None:
    interrupts = [raised("a:t1", "t1"), raised("b:t2", "t2"), raised("gone:t3", "t3")]
    assert prove(interrupts, ["a", "b", "c"]) == {"t1": "a", "t2": "b"}


@pytest.mark.parametrize("name", ["ask/again", "50%", "a b", "ünï", "a-b.c"])
def test_a_node_whose_name_is_encoded_in_paths_is_proved(name: str) -> None:
    """Candidates are paths; the server hashed the name itself."""
    assert prove([raised(f"{name}:{TASK}")], [node_name(name)]) == {TASK: node_name(name)}


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters=":|/%"), min_size=1, max_size=10),
        unique=True,
        min_size=1,
        max_size=5,
    )
)
def test_only_the_node_that_raised_it_is_named(nodes: list[str]) -> None:
    assert prove([raised(f"{nodes[0]}:{TASK}")], nodes) == {TASK: nodes[0]}
    assert prove([raised(f"{nodes[0]}:{TASK}")], nodes[1:]) == {}
