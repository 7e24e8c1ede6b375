"""A preflight, and the drains that it says are needed first."""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import ValidationError

from app.drains.preflight_answers import PreflightAnswer
from app.drains.preflights import Preflights
from app.drains.register import By, Register
from app.errors import BadRequest
from app.facts.candidates import Candidate
from app.settings import DrainSettings, complaint


async def ask_and_open(
    preflights: Preflights,
    register: Register,
    deployment: str,
    candidates: Mapping[str, Candidate],
    *,
    is_whole: bool,
    opens: bool,
    owner: str | None,
    by: By,
) -> PreflightAnswer:
    """Ask, and open the drains where that is wanted. Asking twice opens each once."""
    answer = await preflights.ask(deployment, candidates, is_whole=is_whole, now=by.now)
    if not opens:
        return answer
    opened = []
    for drain in answer.drains:
        try:
            wanted = DrainSettings.model_validate({**drain, **({"owner": owner} if owner else {})})
        except ValidationError as error:
            raise BadRequest(f"The drain cannot be opened by itself: {complaint(error)}.", code="invalid") from None
        opened.append((await register.create(wanted, by)).drain)
    return replace(answer, opened=tuple(opened))
