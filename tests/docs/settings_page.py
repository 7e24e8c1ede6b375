"""The reference of the settings, from the classes that read them: keys, defaults and words are there, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from app import settings
from app.durations import duration_text
from tests.docs.tables import below, code, table

INTRODUCTION = """\
# Settings

Drainboard reads `drainboard.toml` in the working directory, or the file that `DRAINBOARD_CONFIG` names. {scalars} can also
be set in the environment, as `DRAINBOARD_DATABASE_URL` and so on. Unknown keys are errors. Relative paths start at the
file's folder. Durations are a number and a unit: `30s`, `15m`, `1h`, `90d`. Secrets come by name, from the environment or a
file.

This page is written by `./scripts/reference` from `app/settings.py`. Do not edit it.
"""

INTERNAL = {"home", "file"}

SECTIONS: dict[type[BaseModel], tuple[str, str]] = {
    settings.Settings: ("## Top level", ""),
    settings.SignInSettings: ("## `[sign_in]`", "[Who may see and do what](../how-to/sign-in.md) shows how to use it."),
    settings.GrantSettings: (
        "### `[[sign_in.grants]]`",
        "Without `deployments` and `environments` a grant is good for all.",
    ),
    settings.KeepSettings: (
        "## `[keep]`",
        "Durations from `7d` on. [What is stored](../explanation/privacy.md#how-long) says what stays longer, and why.",
    ),
    settings.WebhookSettings: ("## `[[webhooks]]`", "[Be told](../how-to/webhooks.md) shows what is sent."),
    settings.DeploymentSettings: ("## `[[deployments]]`", ""),
    settings.LangSmithSettings: (
        "### `[deployments.langsmith]`",
        "[Traces from LangSmith](../how-to/langsmith.md) shows how to use it.",
    ),
    settings.ThreadIndexSettings: (
        "### `[deployments.thread_index]`",
        "A list that is pushed or imported needs no `url_env` and no `query`. [A thread index](../how-to/thread-index.md) "
        "shows each way.",
    ),
    settings.DrainSettings: (
        "## `[[drains]]`",
        "At least one of what goes is needed: nodes, fields or versions. [Drains](drains.md) says more.",
    ),
    settings.RenameSettings: ("### `rename_fields`", ""),
    settings.PopulationSettings: ("### `[drains.population]`", ""),
    settings.PolicySettings: ("### `[drains.policy]`", ""),
    settings.RetentionSettings: ("### `[drains.policy.retention]`", ""),
}
"""Each class with its title, and what else is said. Those of the settings that are not here are no part of the file."""

FILES_ONLY = {settings.DrainsFile}  # what `drainboard drains apply` reads: `[[drains]]` alone


def page() -> str:
    """The whole page."""
    scalars = ", ".join(code(key) for key in settings._ScalarEnv.KEYS)
    lines = INTRODUCTION.format(scalars=scalars).splitlines()
    for model, (title, sentence) in SECTIONS.items():
        lines += ["", title, "", *([sentence, ""] if sentence else []), *_section(model)[:-1]]
    return "\n".join(lines) + "\n"


def models() -> set[type[BaseModel]]:
    """Every class of settings that has keys."""
    found = {one for one in vars(settings).values() if isinstance(one, type) and issubclass(one, BaseModel)}
    return {one for one in found if one.__module__ == settings.__name__ and one.model_fields} - FILES_ONLY


def _section(model: type[BaseModel]) -> list[str]:
    return table(("key", "default", ""), _rows(model))


def _rows(model: type[BaseModel]) -> Iterator[tuple[str, str, str]]:
    said = below(model)
    for key, found in model.model_fields.items():
        if key not in INTERNAL:
            choices = " ".join((said[key], _choices(found.annotation))).strip()
            yield code(key), _default(found), choices


def _choices(annotation: Any) -> str:
    values = list(_literals(annotation))
    if len(values) < 2:
        return ""
    return f"One of {', '.join(code(value) for value in values)}."


def _literals(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for inner in get_args(annotation):
            yield from _literals(inner)


def _default(found: FieldInfo) -> str:
    default = found.default
    if default is PydanticUndefined and found.default_factory is None:
        return "required"
    if isinstance(found.default_factory, type) and issubclass(found.default_factory, BaseModel):
        return "as below"
    if default in (PydanticUndefined, None, ()):
        return "none"
    if isinstance(default, tuple):
        return "all"
    if isinstance(default, bool):
        return code(str(default).lower())
    return code(duration_text(default) if isinstance(default, timedelta) else default)
