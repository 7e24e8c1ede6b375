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
from tests.drawing import drawn

MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
SHAPES = [content_type_conformance, response_headers_conformance, response_schema_conformance]
CHECKS = [status_code_conformance, negative_data_rejection, *SHAPES]
ODD_KEYS = ("", "x" * 300, "__proto__", "\u202e", "name")
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        2**63,
        2**200,
        1e308,
        0.1,
        "",
        "\x00",
        "x" * 5000,
        "\ud7ff\u202e",
        "9999-12-31T23:59:59-23:59",
    ),
    *([], [[]], [None] * 2000, {}, {"": {"": {}}}, {"$ref": "#/"}, "0001-01-01T00:00:00+14:00"),
)
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


async def ask(board: Board, *, examples: int, number: int, negative: bool = False) -> Asked:
    """Everything that is described, so many times each; and again with another body than is described: of our own making, or
    (``negative``, which takes its time) of schemathesis'."""
    found, chance = Asked(), random.Random(number)
    for case in cases(board.schema, examples=examples, number=number, negative=negative):
        _name(case, board, chance)
        await _ask(board.http, case, found, CHECKS)
        if isinstance(case.body, dict | list):
            case.body = _spoilt(case.body, chance)
            await _ask(board.http, case, found, [status_code_conformance, *SHAPES])
    return found


async def ask_as_a_stranger(board: Board, *, number: int) -> Asked:
    """Everything once, by somebody without a token."""
    found, token = Asked(), board.http.headers.pop("authorization")
    for case in cases(board.schema, examples=1, number=number, negative=False):
        await _ask(board.http, case, found, [status_code_conformance, *SHAPES])
    board.http.headers["authorization"] = token
    return found


def cases(schema: dict[str, Any], *, examples: int, number: int, negative: bool) -> Iterator[Case]:
    """Cases that the description allows, and those that it does not."""
    described = schemathesis.openapi.from_dict(schema, config=SchemathesisConfig())
    for each in described.get_all_operations():
        operation = each.ok()
        modes = MODES if negative and list(operation.body) else MODES[:1]
        for mode in modes:
            yield from _drawn(operation.as_strategy(generation_mode=mode), examples, number)


def _spoilt(body: Any, chance: random.Random) -> Any:
    """A body of which one part is another one."""
    places = [(holder, key) for holder, key in _places(body)]
    if not places or chance.random() < 0.1:
        return chance.choice((None, 7, "text", [], [body], {}))
    holder, key = chance.choice(places)
    if isinstance(holder, dict) and chance.random() < 0.3:
        holder[chance.choice(ODD_KEYS)] = holder.pop(key)
    else:
        holder[key] = chance.choice(ODD)
    return body


def _places(raw: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(raw) if isinstance(raw, dict) else range(len(raw)) if isinstance(raw, list) else ():
        yield raw, key
        yield from _places(raw[key])


def _drawn(strategy: Any, examples: int, number: int) -> list[Case]:
    with contextlib.suppress(Unsatisfiable):  # nothing is off the description where nothing is asked for
        return drawn(strategy, examples, number=number)[:examples]
    return []


def _name(case: Case, board: Board, chance: random.Random) -> None:
    """What is there is asked for more often than what is not."""
    for key in case.path_parameters or {}:
        if key in board.names and chance.random() < 0.7:
            case.path_parameters[key] = chance.choice(board.names[key])


async def _ask(http: httpx.AsyncClient, case: Case, found: Asked, checks: list[Any]) -> None:
    given = case.as_transport_kwargs(base_url="http://drainboard.test")
    request = httpx.Request(
        given["method"],
        given["url"],
        params=given.get("params"),
        headers=_headers(given.get("headers"), http.headers),
        json=given.get("json"),
        content=given.get("data"),
    )
    answer = await http.send(request)
    found.answers[answer.status_code] += 1
    where = f"{case.method} {case.formatted_path}: {answer.status_code}"
    if answer.status_code == CRASHED:
        found.wrong.append(where)
    try:
        case.validate_response(answer, checks=checks)
    except BaseExceptionGroup as error:
        found.wrong += [f"{where} {each}" for each in error.exceptions]
    except AssertionError as error:
        found.wrong.append(f"{where} {error}")


def _headers(given: Any, ours: Any) -> dict[str, bytes]:
    told = {name.lower(): value for name, value in dict(given or {}).items() if name.lower() != "authorization"}
    told |= dict(ours)
    return {name: str(value).encode() for name, value in told.items()}
