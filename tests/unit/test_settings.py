"""Settings: every complaint is one sentence that names the key, and never a value."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from app.durations import parse_duration
from app.errors import SettingsError
from app.settings import Settings, load_settings

SECRET = "hunter2-must-not-be-said"
FINE = """
[[deployments]]
name = "prod"
url = "http://127.0.0.1:8123"

[[drains]]
name = "drop-it"
deployment = "prod"
graph = "support"
remove_nodes = ["await_approval"]
"""


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CONFIG", "DATABASE_URL", "KEY_FILE", "LOG_LEVEL", "WORK", "DEPLOYMENTS", "API_KEY"):
        monkeypatch.delenv(f"DRAINBOARD_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "drainboard.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file)


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as error:
        load(tmp_path, text)
    message = error.value.message
    assert SECRET not in message
    assert "\n" not in message
    assert message.endswith(".")
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
    return message


def test_defaults_are_those_of_the_documentation(tmp_path: Path) -> None:
    settings = load(tmp_path, FINE)
    (deployment,), (drain,) = settings.deployments, settings.drains
    assert (deployment.poll_interval, deployment.sweep_interval) == (timedelta(seconds=30), timedelta(hours=1))
    assert (deployment.requests_per_minute, deployment.concurrency, deployment.page_size) == (1200, 16, 200)
    assert (deployment.verify_idle_per_sweep, deployment.stuck_after) == (1000, timedelta(minutes=15))
    assert (deployment.state_version_key, deployment.metadata_keys, deployment.canary_threads) == (
        "state_version",
        (),
        (),
    )
    policy = drain.policy
    assert (drain.phase, policy.soak_sweeps, policy.soak_hold) == ("observing", 2, timedelta(hours=1))
    assert (policy.max_age, policy.sweep_max_age, policy.trace_window) == (
        timedelta(minutes=15),
        timedelta(hours=24),
        timedelta(hours=72),
    )
    assert (policy.missing_version, policy.neither, policy.accept, policy.require) == ("old", "clear", (), None)


def test_the_example_of_the_documentation_is_understood(tmp_path: Path) -> None:
    load(
        tmp_path,
        """
database_url = "sqlite+aiosqlite:///drainboard.db"
key_file = "drainboard.key"
[[deployments]]
name = "support-prod"
environment = "production"
url = "http://127.0.0.1:8123"
api_key_env = "SUPPORT_PROD_KEY"
poll_interval = "30s"
sweep_interval = "1h"
requests_per_minute = 1200
concurrency = 16
page_size = 200
verify_idle_per_sweep = 1000
stuck_after = "15m"
state_version_key = "state_version"
metadata_keys = ["region"]
canary_threads = []
[deployments.langsmith]
project = "support-prod"
sampling_rate = 1.0
[deployments.thread_index]
url_env = "APP_DATABASE_URL"
query = "select thread_id from conversation"
[[drains]]
name = "drop-await-approval"
deployment = "support-prod"
graph = "support"
owner = "payments team"
phase = "observing"
remove_nodes = ["await_approval"]
rename_fields = [{ old = "customer_name", new = "display_name" }]
require_kinds = { retry_count = "integer" }
remove_fields = ["legacy_notes"]
erase_fields = ["passport_number"]
minimum_versions = { state_version = 2 }
[drains.population]
metadata = { region = "eu" }
created_before = 2026-12-01T00:00:00Z
[drains.policy]
max_age = "15m"
sweep_max_age = "24h"
trace_window = "72h"
soak_sweeps = 2
soak_hold = "1h"
require = ["threads", "traces", "index"]
retention = { idle_for = "90d", reason = "conversations expire after 90 days, policy DP-12" }
missing_version = "old"
neither = "clear"
accept = []
attestations = ["recovery replicas", "export queues"]
""",
    )


DEPLOYMENT = '[[deployments]]\nname = "prod"\nurl = "http://127.0.0.1:8123"\n'
DRAIN = '[[drains]]\nname = "d"\ndeployment = "prod"\ngraph = "g"\n'
BAD: list[tuple[str, str]] = [
    ("colour = 1", "colour"),
    ('work = "elsewhere"', "work"),
    ('work = "workers"', "needs PostgreSQL"),
    (f'api_key = "{SECRET}"', "api_key"),
    (f'{DEPLOYMENT}api_key = "{SECRET}"', "deployments.0.api_key"),
    (f'[[deployments]]\nname = "prod"\nurl = "{SECRET}"', "deployments.0.url"),
    (f'[[deployments]]\nname = "prod"\nurl = "ftp://user:{SECRET}@host"', "deployments.0.url"),
    (f'[[deployments]]\nname = "{SECRET} with spaces"\nurl = "http://x"', "deployments.0.name"),
    ('[[deployments]]\nname = "prod"', "deployments.0.url"),
    (f"{DEPLOYMENT}reported = true", "deployments.0.url"),
    ('[[deployments]]\nname = "prod"\nreported = "yes"', "deployments.0.reported"),
    (f'[[deployments]]\nname = "prod"\nreported = true\napi_key_env = "{SECRET}"', "deployments.0"),
    ('[[deployments]]\nname = "prod"\nreported = true\ncanary_threads = ["a"]', "deployments.0"),
    (f'{DEPLOYMENT}poll_interval = "{SECRET}"', "deployments.0.poll_interval"),
    (f"{DEPLOYMENT}poll_interval = 30", "deployments.0.poll_interval"),
    (f'{DEPLOYMENT}poll_interval = "-30s"', "deployments.0.poll_interval"),
    (f'{DEPLOYMENT}poll_interval = "0s"', "deployments.0.poll_interval"),
    (f'{DEPLOYMENT}sweep_interval = "999999999w"', "deployments.0.sweep_interval"),
    (f"{DEPLOYMENT}page_size = 0", "deployments.0.page_size"),
    (f"{DEPLOYMENT}page_size = 1001", "deployments.0.page_size"),
    (f'{DEPLOYMENT}page_size = "{SECRET}"', "deployments.0.page_size"),
    (f"{DEPLOYMENT}concurrency = 0", "deployments.0.concurrency"),
    (f"{DEPLOYMENT}requests_per_minute = 0", "deployments.0.requests_per_minute"),
    (f"{DEPLOYMENT}{DEPLOYMENT}", "prod"),
    (f"{DEPLOYMENT}{DRAIN}", "drains.0"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = "{SECRET}"', "drains.0.remove_nodes"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = [""]', "drains.0.remove_nodes"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\nphase = "{SECRET}"', "drains.0.phase"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n{DRAIN}remove_nodes = ["b"]', "name d"),
    (f'{DRAIN}remove_nodes = ["a"]', "prod"),
    (f"{DEPLOYMENT}{DRAIN}minimum_versions = {{ other = 2 }}", "other"),
    (f"{DEPLOYMENT}{DRAIN}minimum_versions = {{ state_version = 10000 }}", "drains.0.minimum_versions"),
    (f"{DEPLOYMENT}{DRAIN}minimum_versions = {{ state_version = true }}", "drains.0.minimum_versions"),
    (f"{DEPLOYMENT}{DRAIN}minimum_state_version = -1", "drains.0.minimum_state_version"),
    (f"{DEPLOYMENT}{DRAIN}minimum_versions = {{ state_version = 2 }}\nminimum_state_version = 3", "minimum"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n[drains.population]\nmetadata = {{ region = "{SECRET}" }}', "region"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n[drains.population]\ncreated_before = 2026-12-01T00:00:00', "drains.0"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\nintake_closed_at = "{SECRET}"', "drains.0.intake_closed_at"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n[drains.policy]\nsoak_sweeps = 0', "drains.0.policy.soak_sweeps"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n[drains.policy]\nsoak_hold = "-1h"', "drains.0.policy.soak_hold"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n[drains.policy]\naccept = ["{SECRET}"]', "drains.0.policy.accept"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n[drains.policy]\naccept = ["source_failed"]', "drains.0.policy.accept"),
    (f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n[drains.policy]\nrequire = ["{SECRET}"]', "drains.0.policy.require"),
    (
        f'{DEPLOYMENT}{DRAIN}remove_nodes = ["a"]\n[drains.policy]\nretention = {{ idle_for = "90d" }}',
        "drains.0.policy.retention.reason",
    ),
    (f'{DEPLOYMENT}{DRAIN}rename_fields = [{{ old = "a", new = "a" }}]', "rename_fields"),
    (f'{DEPLOYMENT}{DRAIN}rename_fields = [{{ old = "a" }}]', "drains.0.rename_fields.0.new"),
    (f'{DEPLOYMENT}{DRAIN}require_kinds = {{ a = "{SECRET}" }}', "drains.0.require_kinds"),
    (f'[sign_in]\nmode = "{SECRET}"', "sign_in.mode"),
    (f'log_level = "{SECRET}"', "log_level"),
    (f'deployments = "{SECRET}"', "deployments"),
]


@pytest.mark.parametrize(("text", "key"), BAD, ids=[f"{number}-{key}" for number, (_, key) in enumerate(BAD)])
def test_a_wrong_setting_is_one_sentence_with_its_key(tmp_path: Path, text: str, key: str) -> None:
    assert key in complaint(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        f'api_key = "{SECRET}',
        f"api_key = {SECRET}",
        f'x = "a"\nx = "{SECRET}"',
        f'database_url = "postgresql://u:{SECRET}@h/d" trailing',
        f"[{SECRET}\n",
        f'[x]\n"{SECRET}" = 1\n"{SECRET}" = 2\n',
    ],
)
def test_toml_that_does_not_parse_is_said_with_its_line_and_without_its_content(tmp_path: Path, text: str) -> None:
    message = complaint(tmp_path, text)
    assert "TOML" in message
    assert "line" in message or "end of document" in message


def test_a_file_that_is_not_utf8_is_an_error_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "drainboard.toml").write_bytes(b'x = "\xff"')
    with pytest.raises(SettingsError):
        load_settings(tmp_path / "drainboard.toml")


def test_a_file_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAINBOARD_CONFIG", str(tmp_path / "nowhere.toml"))
    with pytest.raises(SettingsError, match=r"nowhere\.toml"):
        load_settings()


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    assert load_settings().deployments == ()


def test_the_environment_overrides_scalars_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAINBOARD_DATABASE_URL", "sqlite+aiosqlite:///other.db")
    monkeypatch.setenv("DRAINBOARD_LOG_LEVEL", "debug")
    settings = load(tmp_path, 'database_url = "sqlite+aiosqlite:///file.db"\n' + FINE)
    assert settings.database_url == "sqlite+aiosqlite:///other.db"
    assert settings.log_level == "debug"


def test_an_empty_variable_overrides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAINBOARD_DATABASE_URL", "")
    assert load(tmp_path, 'database_url = "sqlite+aiosqlite:///file.db"').database_url.endswith("file.db")


def test_the_environment_sets_no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAINBOARD_DEPLOYMENTS", "[]")
    assert len(load(tmp_path, FINE).deployments) == 1


def test_a_wrong_variable_is_said_without_its_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAINBOARD_LOG_LEVEL", SECRET)
    assert "log_level" in complaint(tmp_path, FINE).lower()


def test_relative_paths_start_at_the_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    settings = load(folder, 'key_file = "my.key"\ndatabase_url = "sqlite+aiosqlite:///data.db"\n')
    assert settings.resolved_database_url == f"sqlite+aiosqlite:///{folder}/data.db"
    assert settings.hash_key()
    assert (folder / "my.key").stat().st_mode & 0o777 == 0o600


def test_a_relative_key_file_of_a_deployment_starts_at_the_files_folder(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "prod.key").write_text("abc\n")
    assert load(folder, f'{DEPLOYMENT}api_key_file = "prod.key"').deployments[0].api_key() == "abc"


def test_absolute_paths_and_other_databases_stay_as_they_are(tmp_path: Path) -> None:
    assert (
        load(tmp_path, 'database_url = "sqlite+aiosqlite:////var/x.db"').resolved_database_url
        == "sqlite+aiosqlite:////var/x.db"
    )
    url = "postgresql+psycopg://u:p@h/d"
    assert load(tmp_path, f'database_url = "{url}"').resolved_database_url == url


def test_the_hash_key_is_made_once(tmp_path: Path) -> None:
    settings = load(tmp_path, "")
    assert settings.hash_key() == load(tmp_path, "").hash_key()


@pytest.mark.parametrize("content", ["", "short"])
def test_a_hash_key_that_is_too_short_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "drainboard.key").write_text(content)
    with pytest.raises(SettingsError, match="too short"):
        load(tmp_path, "").hash_key()


def test_a_key_by_a_name_that_leads_nowhere_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    for text, named in (
        (f'{DEPLOYMENT}api_key_env = "NO_SUCH_KEY"', "NO_SUCH_KEY"),
        (f'{DEPLOYMENT}api_key_file = "/no/such"', "/no/such"),
    ):
        with pytest.raises(SettingsError, match=named):
            load(tmp_path, text).deployments[0].api_key()


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("30s", timedelta(seconds=30)),
        ("1.5h", timedelta(minutes=90)),
        (" 90 d ", timedelta(days=90)),
        ("2w", timedelta(weeks=2)),
        (timedelta(1), timedelta(1)),
    ],
)
def test_durations(raw: object, found: timedelta) -> None:
    assert parse_duration(raw) == found


@pytest.mark.parametrize("raw", ["", "30", 30, "s", "-1s", "1 s s", "1y", "1e3s", None, "99999999999999999999d"])
def test_what_is_no_duration(raw: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(raw)
