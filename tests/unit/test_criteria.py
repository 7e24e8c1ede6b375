"""What a drain asks for, there and back; and the register on both databases."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.drains.criteria import settings_of, spec_of
from app.drains.register import By, Register
from app.drains.service import Drains
from app.drains.spec import from_json, to_json
from app.durations import duration_text, parse_duration
from app.errors import Conflict
from app.inventory.db import Database
from app.inventory.store import Store
from app.settings import DeploymentSettings, DrainSettings, Settings
from tests.unit.builders import NOW

PROD = DeploymentSettings(name="prod", url="http://agent.test", metadata_keys=("region",))
BY = By("API", NOW)

words = st.text("abcxyz_/", min_size=1, max_size=8)
numbers = st.integers(0, 9999)
durations = st.integers(1, 10**6).map(lambda seconds: timedelta(seconds=seconds))
times = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)) | st.none()  # noqa: DTZ001
drains = st.builds(
    DrainSettings,
    name=st.just("drop-it"),
    deployment=st.just("prod"),
    graph=words,
    owner=st.none() | words,
    phase=st.sampled_from(["additive", "observing", "removing", "closed"]),
    remove_nodes=st.lists(words, min_size=1, max_size=3, unique=True).map(tuple),
    rename_fields=st.lists(st.fixed_dictionaries({"old": words, "new": words.map("n".__add__)}), max_size=2),
    require_kinds=st.dictionaries(words, st.sampled_from(["integer", "text"]), max_size=2),
    remove_fields=st.lists(words, max_size=2),
    erase_fields=st.lists(words, max_size=2),
    minimum_versions=st.dictionaries(st.just("state_version"), numbers, max_size=1),
    newest_versions=st.dictionaries(words, numbers, max_size=2),
    intake_closed_at=times,
    population=st.fixed_dictionaries(
        {"metadata": st.dictionaries(st.just("region"), words, max_size=1), "created_before": times}
    ),
    policy=st.fixed_dictionaries(
        {
            "max_age": durations,
            "soak_sweeps": st.integers(1, 9),
            "soak_hold": durations,
            "require": st.none() | st.just(("threads", "traces")),
            "retention": st.none() | st.fixed_dictionaries({"idle_for": durations, "reason": words}),
            "missing_version": st.sampled_from(["old", "unaffected"]),
            "neither": st.sampled_from(["clear", "block"]),
            "accept": st.just(()) | st.just(("idle_unverified",)),
            "attestations": st.lists(words, max_size=2, unique=True),
        }
    ),
)


@hypothesis_settings(deadline=None)
@given(drains.filter(lambda drain: all(each.old != each.new for each in drain.rename_fields)))
def test_what_is_stored_reads_back_as_what_was_written(drain: DrainSettings) -> None:
    spec = spec_of(drain, PROD)
    again = settings_of(from_json(to_json(spec)))
    assert again == drain
    as_json = DrainSettings.model_validate_json(again.model_dump_json())
    assert spec_of(as_json, PROD).criteria_digest() == spec.criteria_digest()


@given(st.integers(0, 10**7))
def test_a_duration_is_written_as_it_is_read(seconds: int) -> None:
    assert parse_duration(duration_text(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (90, "90s"), (900, "15m"), (86400, "1d"), (604800, "7d")])
def test_a_duration_is_written_in_the_largest_unit_that_fits(seconds: int, text: str) -> None:
    assert duration_text(timedelta(seconds=seconds)) == text


def register_of(database: Database, tmp_path: Any, **settings: Any) -> Register:
    made = Settings(database_url=database.url, key_file=tmp_path / "key", deployments=[PROD], **settings)
    store = Store(database, made.hash_key())
    return Register(made, store, Drains(made, store))


def drain(**changes: Any) -> DrainSettings:
    return DrainSettings(**{"name": "drop-it", "deployment": "prod", "graph": "g", "remove_nodes": ["a"]} | changes)


async def test_of_two_that_make_the_same_name_one_wins_and_nobody_fails(database: Database, tmp_path: Any) -> None:
    registers = [register_of(database, tmp_path) for _ in range(2)]
    await registers[0].take_up(NOW)
    wanted = [drain(), drain(remove_nodes=["b"])] * 4
    found = await asyncio.gather(
        *(registers[index % 2].create(each, BY) for index, each in enumerate(wanted)), return_exceptions=True
    )
    made = [each for each in found if not isinstance(each, BaseException)]
    refusals = [each for each in found if isinstance(each, BaseException)]
    assert sorted(each.outcome for each in made) == ["created", "unchanged", "unchanged", "unchanged"]
    assert [(type(each), getattr(each, "code", None)) for each in refusals] == [(Conflict, "drain_exists")] * 4
    assert len((await registers[0].versions("drop-it"))[0]) == 1


async def test_changes_at_once_are_all_kept(database: Database, tmp_path: Any) -> None:
    registers = [register_of(database, tmp_path) for _ in range(2)]
    await registers[0].take_up(NOW)
    await registers[0].create(drain(), BY)
    changes: list[dict[str, Any]] = [
        {"owner": "ops"},
        {"remove_fields": ["x"]},
        {"erase_fields": ["y"]},
        {"policy": {"soak_sweeps": 5}},
    ]
    await asyncio.gather(*(registers[i % 2].change("drop-it", each, BY) for i, each in enumerate(changes)))
    found = (await registers[0].versions("drop-it"))[0][0]
    assert found.version == 4
    spec = from_json(found.spec)
    assert {target.name for target in spec.targets} == {"a", "x", "y"}
    assert spec.policy.soak_sweeps == 5


async def test_processes_that_start_at_once_take_up_the_same_file(database: Database, tmp_path: Any) -> None:
    registers = [register_of(database, tmp_path, drains=[drain()]) for _ in range(4)]
    await asyncio.gather(*(each.take_up(NOW) for each in registers))
    await asyncio.gather(*(each.take_up(NOW) for each in registers))
    ((version,), _) = await registers[0].versions("drop-it")
    assert (version.version, version.actor) == (1, "settings file")


async def test_a_name_that_belongs_to_another_deployment_is_taken(database: Database, tmp_path: Any) -> None:
    stage = DeploymentSettings(name="stage", url="http://stage.test")
    made = Settings(database_url=database.url, key_file=tmp_path / "key", deployments=[PROD, stage])
    store = Store(database, made.hash_key())
    register = Register(made, store, Drains(made, store))
    await register.take_up(NOW)
    await register.create(drain(), BY)
    for attempt in (register.create, register.replace):
        with pytest.raises(Conflict, match="prod") as refusal:
            await attempt(drain(deployment="stage"), BY)
        assert refusal.value.code == "name_taken"
