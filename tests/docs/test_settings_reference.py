"""The settings reference names every setting, and nothing else."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from app import settings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
MODELS: list[type[BaseModel]] = [
    settings.Settings,
    settings.SignInSettings,
    settings.WebhookSettings,
    settings.DeploymentSettings,
    settings.LangSmithSettings,
    settings.ThreadIndexSettings,
    settings.DrainSettings,
    settings.PopulationSettings,
    settings.PolicySettings,
    settings.RetentionSettings,
]
INTERNAL = {"home", "file"}


def _keys() -> set[str]:
    return {name for model in MODELS for name in model.model_fields} - INTERNAL


def _documented() -> set[str]:
    rows = [line for line in REFERENCE.read_text().splitlines() if line.startswith("|")]
    return {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}


@pytest.mark.parametrize("key", sorted(_keys()))
def test_a_setting_is_in_the_reference(key: str) -> None:
    assert key in _documented()


@pytest.mark.parametrize("key", sorted(_documented()))
def test_the_reference_names_only_settings_that_exist(key: str) -> None:
    assert key in _keys()
