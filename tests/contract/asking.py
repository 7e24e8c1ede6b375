"""Cases that schemathesis makes from the description, asked of a board in this process, and what is wrong with the answers."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.contract.board import Board

MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
CRASHED = 500
"""What no answer may be. A source that cannot be asked (502) and a verdict that is not known (503) are answers."""


@dataclass
class Asked:
    """``answers`` by status; ``wrong``: what an answer is that must not be."""

    answers: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return sum(self.answers.values())


async def ask(board: Board, *, examples: int, number: int, headers: dict[str, str] | None = None) -> Asked:
    """Everything that is described, with so many cases of each kind for each operation."""
    found, chance = Asked(), random.Random(number)
    for case in cases(board.schema, examples=examples, number=number):
        _name(case, board, chance)
        await _ask(board.http, case, found, headers)
    return found


def cases(schema: dict[str, Any], *, examples: int, number: int) -> Iterator[Case]:
    """Cases that the description allows, and cases that it does not."""
    described = schemathesis.openapi.from_dict(schema, config=SchemathesisConfig())
    for each in described.get_all_operations():
        for mode in MODES:
            yield from _drawn(each.ok().as_strategy(generation_mode=mode), examples, number)


def _drawn(strategy: Any, examples: int, number: int) -> list[Case]:
    found: list[Case] = []

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def draw(case: Case) -> None:
        found.append(case)

    with contextlib.suppress(Unsatisfiable):  # nothing is off the description where nothing is asked for
        draw()
    return found[:examples]


def _name(case: Case, board: Board, chance: random.Random) -> None:
    """What is there is asked for more often than what is not."""
    for key in case.path_parameters or {}:
        if key in board.names and chance.random() < 0.7:
            case.path_parameters[key] = chance.choice(board.names[key])


async def _ask(http: httpx.AsyncClient, case: Case, found: Asked, headers: dict[str, str] | None) -> None:
    given = case.as_transport_kwargs(base_url="http://drainboard.test")
    request = httpx.Request(
        given["method"],
        given["url"],
        params=given.get("params"),
        headers=_headers(given.get("headers"), http.headers if headers is None else headers),
        json=given.get("json"),
        content=given.get("data"),
    )
    answer = await http.send(request)
    found.answers[answer.status_code] += 1
    where = f"{case.method} {case.formatted_path}: {answer.status_code}"
    if answer.status_code == CRASHED:
        found.wrong.append(where)
    try:
        case.validate_response(answer, checks=CHECKS)
    except BaseExceptionGroup as error:
        found.wrong += [f"{where} {each}" for each in error.exceptions]
    except AssertionError as error:
        found.wrong.append(f"{where} {error}")


def _headers(given: Any, ours: Any) -> dict[str, str]:
    return {name: str(value) for name, value in {**dict(given or {}), **dict(ours)}.items()}
