"""The reference of conditions names every condition, departure, reason and diagnosis that can be answered, and no other."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from app.drains import diagnosis, index, sentences, traces, verdicts
from app.drains.dispositions import THREAD_REASONS, Disposition
from app.facts.types import Condition, Departure

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "conditions.md").read_text(encoding="utf-8")
FILTERED = {"_missing", "_proofs", "_phase", "_freshness", "_unknown_threads", "_unseen_targets", "reasons"}
"""The functions that yield codes, alone or with a count."""


def first_cells(title: str) -> list[str]:
    """The words in the first column of a section's tables."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [word for row in rows for word in re.findall("`([a-z_]+)`", row)]


def told(module: ModuleType) -> Iterator[str]:
    """The codes that a module's source names where it makes a reason or says that one is missing."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef) and node.name in FILTERED:
            yield from _yielded(node)
        if isinstance(node, ast.Call) and _name(node.func) in ("Reason", "_reason", "_block"):
            yield from (found for argument in node.args for found in _texts(argument))


def _yielded(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Yield) and node.value is not None:
            first = node.value.elts[0] if isinstance(node.value, ast.Tuple) else node.value
            yield from _texts(first)
        if isinstance(node, ast.For):  # `for code in (…)`
            yield from _texts(node.iter)


def _texts(node: ast.AST) -> Iterator[str]:
    """Codes in an expression, without the part of one that only the sentence needs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.partition(":")[0]
    elif isinstance(node, ast.Tuple):
        yield from (text for each in node.elts for text in _texts(each))
    elif isinstance(node, ast.IfExp):
        yield from (text for each in (node.body, node.orelse) for text in _texts(each))
    elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        yield str(node.values[0].value).partition(":")[0]


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def reasons() -> set[str]:
    """Every code that a verdict can answer."""
    named = {code for module in (verdicts, traces, index) for code in told(module)} - {"threads", "index", "traces"}
    return named | {found.value for found in Disposition if found.group == "blocking"} | THREAD_REASONS


def test_every_reason_is_on_the_page_once_and_no_other_is() -> None:
    documented = first_cells("Reason codes")
    assert sorted(documented) == sorted(reasons())


def test_the_codes_found_in_the_source_are_those_that_have_a_sentence() -> None:
    beside = {"node_still_entered", *(code for code in reasons() if code.startswith(("traces_", "index_")))}
    of_its_own = {"source_failed", "attestation_missing", "idle_unverified", "soaking", "not_evaluated"}
    blocking = {found.value for found in Disposition if found.group == "blocking"}
    written = {code.partition(":")[0] for code in sentences._UNKNOWN}
    assert reasons() - beside - of_its_own - blocking == written


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("What a thread's condition means", {found.value for found in Condition}),
        ("How a parked leaf left", {found.value for found in Departure}),
    ],
)
def test_every_condition_and_departure_is_on_the_page(title: str, words: set[str]) -> None:
    assert set(first_cells(title)) == words


def test_every_other_diagnosis_is_on_the_page() -> None:
    calls = ast.walk(ast.parse(inspect.getsource(diagnosis)))
    made = [node for node in calls if isinstance(node, ast.Call) and _name(node.func) == "Diagnosis"]
    codes = {code for call in made for code in _texts(call.args[0])} - {found.value for found in Condition}
    assert set(first_cells("Other diagnoses")) == codes
