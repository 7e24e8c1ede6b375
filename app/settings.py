"""Settings: ``drainboard.toml``, then ``DRAINBOARD_<KEY>`` for top-level scalars. Unknown keys are errors.

Secrets come by name, from the environment or a file; they are never in here, in the database or in a log.
"""

import base64
import contextlib
import os
import re
import secrets
import tempfile
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from app.durations import duration_text, parse_duration
from app.errors import SettingsError
from app.rights import Role

LONGEST_ANSWER = timedelta(seconds=30)  # of a webhook's receiver
MAX_TARGETS = 200  # of one kind; each is a condition in the question for a drain's threads
DEFAULT_FILE = "drainboard.toml"
WANTS_POSTGRESQL = "needs PostgreSQL: set database_url to postgresql+psycopg://…, which all processes share"
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")


def _interval(found: timedelta) -> timedelta:
    if found < timedelta(seconds=1):
        raise ValueError("an interval is 1s at least")
    return found


def _for_a_week(found: timedelta) -> timedelta:
    if found < timedelta(days=7):
        raise ValueError("it is kept for 7d at least")
    return found


def _for_a_month(found: timedelta) -> timedelta:
    if found < timedelta(days=32):
        raise ValueError("it is kept for 32d at least, since a burn-down shows up to 31 days")
    return found


def _not_a_boolean(raw: object) -> object:
    if isinstance(raw, bool):
        raise ValueError("write a version as a number")
    return raw


def _checked_name(raw: str) -> str:
    if not _NAME.match(raw):
        raise ValueError("use letters, digits, dot, dash and underscore, at most 100, and start with a letter or digit")
    return raw


def _checked_drain_name(raw: str) -> str:
    if raw == "new":
        raise ValueError("a drain cannot have the name new: /drains/new is the form that makes one")
    return _checked_name(raw)


def _checked_url(raw: str) -> str:
    try:
        parts = urlsplit(raw)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in raw
    except ValueError:
        fine = False
    if not fine:
        raise ValueError("give an address like http://127.0.0.1:8123")
    return raw.rstrip("/")


def representable(found: datetime) -> datetime:
    """A time that can be written in UTC. Raises ``ValueError`` with a sentence."""
    try:
        found.astimezone(UTC)
    except OverflowError:
        raise ValueError("write a time between the years 1 and 9999, as UTC has it") from None
    return found


Moment = Annotated[datetime, AfterValidator(representable)]
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(duration_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["15m", "90d"]}),
]
Interval = Annotated[timedelta, BeforeValidator(parse_duration), AfterValidator(_interval)]
KeptFor = Annotated[timedelta, BeforeValidator(parse_duration), AfterValidator(_for_a_week)]
KeptForHistory = Annotated[timedelta, BeforeValidator(parse_duration), AfterValidator(_for_a_month)]
VersionNumber = Annotated[int, BeforeValidator(_not_a_boolean), Field(strict=True, ge=0, le=9999)]
Budget = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
NonEmpty = Annotated[str, Field(min_length=1, max_length=500)]
Name = Annotated[str, AfterValidator(_checked_name)]
DrainName = Annotated[str, AfterValidator(_checked_drain_name)]
Url = Annotated[str, AfterValidator(_checked_url)]


def _blank_is_absent(raw: object) -> object:
    return None if isinstance(raw, str) and not raw.strip() else raw


def without_nul(raw: object) -> object:
    """What was sent, unless a text in it holds a NUL, which no PostgreSQL can store. Raises ``ValueError`` with a sentence."""
    texts = [raw] if isinstance(raw, str) else [*raw, *raw.values()] if isinstance(raw, dict) else raw
    if isinstance(texts, list | tuple) and any(isinstance(each, str) and "\x00" in each for each in texts):
        raise ValueError("a text may not hold the character NUL")
    return raw


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _holds_no_nul(cls, raw: object) -> object:
        return without_nul(raw)


class LangSmithSettings(_Strict):
    """Where this deployment's traces are. ``retention``: how long the backend keeps them, where that is known."""

    project: str = Field(min_length=1, max_length=200)
    """The tracing project's name."""
    endpoint: Url | None = None
    """The address of a self-hosted backend; else LangSmith's own."""
    web_url: Url | None = None
    """The address of its pages, for links to traces; else it follows `endpoint`."""
    api_key_env: str | None = None
    """The *name* of an environment variable with the key."""
    sampling_rate: float = Field(default=1.0, strict=True, gt=0, le=1)
    """The share of traces that is kept; below 1 an entry may leave none, so drains are `traces_sampled`."""
    retention: Duration | None = None
    """How long the backend keeps traces, where that is known; shorter than a drain's window is `traces_window_short`."""

    def api_key(self) -> str | None:
        """The key, looked up by name now. Raises ``SettingsError`` when the name leads nowhere."""
        if not self.api_key_env:
            return None
        found = os.environ.get(self.api_key_env, "")
        if not found or not found.isascii() or not found.isprintable():
            raise SettingsError(
                f"The traces of {self.project} take their key from the environment variable {self.api_key_env}, which is "
                "not set to a key. Set it, or remove langsmith.api_key_env."
            )
        return found


class ThreadIndexSettings(_Strict):
    """The application's own list of threads: a query, or what is imported and pushed.

    ``expires_after``: an id that nobody ever saw here, that the server does not know, and that is older, has expired.
    """

    url_env: str | None = None
    """The *name* of an environment variable with the database's address, as SQLAlchemy writes it."""
    query: str | None = None
    """Gives `thread_id`, and if it can `graph_id`, `created_at`, `closed_at`, `state_version`, `state`."""
    timeout: Interval = timedelta(minutes=5)
    """How long the query may take."""
    expires_after: Duration = timedelta(days=90)
    """An id that nobody ever saw, that the server does not know and that is older than this has expired."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.url_env is None) != (self.query is None):
            raise ValueError(
                "a thread index that is asked needs both url_env and query; one that is pushed has neither"
            )
        return self

    def url(self) -> str:
        """The database's address, looked up by name now. Raises ``SettingsError``."""
        if not (found := os.environ.get(self.url_env or "")):
            raise SettingsError(
                f"The thread index takes its address from the environment variable {self.url_env}, which is not set. "
                "Set it to an address like postgresql+psycopg://reader@host/database."
            )
        return found


class DeploymentSettings(_Strict):
    """One Agent Server and the sources that belong to it; or, ``reported``, a graph without one, whose application tells."""

    name: Name
    """How it is called in addresses and commands."""
    environment: str | None = None
    """A label, like `production`."""
    reported: bool = Field(default=False, strict=True)
    """There is no Agent Server: a [reporter](../how-to/without-an-agent-server.md) beside the application tells of the threads."""
    url: Url | None = Field(default=None, validate_default=True)
    """The Agent Server's address, without a path. Required, unless `reported`."""
    api_key_env: str | None = None
    """The *name* of an environment variable with the key."""
    api_key_file: Path | None = None
    """A file with the key."""
    poll_interval: Interval = timedelta(seconds=30)
    """How often it is looked for what moved."""
    sweep_interval: Interval = timedelta(hours=1)
    """How often everything is looked at."""
    requests_per_minute: Budget = 1200
    """At most so many requests."""
    concurrency: int = Field(default=16, strict=True, ge=1, le=256)
    """At most so many requests at once."""
    page_size: int = Field(default=200, strict=True, ge=1, le=1000)
    """Threads in one answer of the server."""
    verify_idle_per_sweep: int = Field(default=1000, strict=True, ge=0)
    """Idle heads that a sweep reads for drains that nothing blocks."""
    erase_requests_per_minute: Budget | None = None
    """How many threads' storage may be read for erasures; else `verify_idle_per_sweep` in each poll."""
    stuck_after: Duration = timedelta(minutes=15)
    """A run without a new checkpoint for so long is stuck."""
    state_version_key: str = "state_version"
    """The field that is read as the state's version."""
    version_keys: tuple[str, ...] = ()
    """More fields that are read as versions."""
    metadata_keys: tuple[str, ...] = ()
    """Thread metadata that may be kept, and that a drain may select by."""
    canary_threads: tuple[str, ...] = ()
    """Ids of threads that every sweep must list; one that is not makes drains `unknown`."""
    langsmith: LangSmithSettings | None = None
    """`[deployments.langsmith]`, below: where the traces are."""
    thread_index: ThreadIndexSettings | None = None
    """`[deployments.thread_index]`, below: the application's own list of threads."""

    @field_validator("url")
    @classmethod
    def _is_one_way_to_know(cls, url: str | None, info: ValidationInfo) -> str | None:
        reported = info.data.get("reported")
        if url is None and reported is False:
            raise ValueError("a deployment needs a url, or reported = true where a reporter tells of its threads")
        if url is not None and reported:
            raise ValueError("a deployment has a url or is reported, not both. Remove one of them")
        return url

    @model_validator(mode="after")
    def _asks_nothing_where_it_is_told(self) -> Self:
        given = [key for key in ("api_key_env", "api_key_file", "canary_threads") if getattr(self, key)]
        if self.reported and given:
            raise ValueError(f"{given[0]} is for a server, and a reported deployment has none. Remove it")
        return self

    @property
    def all_version_keys(self) -> tuple[str, ...]:
        """Every key that is read as a version, the deployment's main one first."""
        return (self.state_version_key, *(key for key in self.version_keys if key != self.state_version_key))

    def api_key(self) -> str | None:
        """The key, looked up by name now. Raises ``SettingsError`` when the name leads nowhere."""
        if self.api_key_env:
            if not (found := os.environ.get(self.api_key_env)):
                raise SettingsError(
                    f"The deployment {self.name} takes its key from the environment variable {self.api_key_env}, "
                    "which is not set. Set it, or remove api_key_env."
                )
            return self._sendable(found, self.api_key_env)
        if self.api_key_file:
            try:
                found = self.api_key_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                raise SettingsError(
                    f"The deployment {self.name} takes its key from {self.api_key_file}, which cannot be read as text."
                ) from None
            return self._sendable(found, str(self.api_key_file))
        return None

    def _sendable(self, key: str, place: str) -> str:
        """A key that fits into a header."""
        if not key.isascii() or not key.isprintable():
            raise SettingsError(f"The key of the deployment {self.name} in {place} has characters that no key has.")
        return key


class RenameSettings(_Strict):
    """A field that becomes another."""

    old: str = Field(min_length=1)
    """The field that goes."""
    new: str = Field(min_length=1)
    """The field that comes."""

    @model_validator(mode="after")
    def _is_a_rename(self) -> Self:
        if self.old == self.new:
            raise ValueError("a field cannot be renamed to itself")
        return self


class RetentionSettings(_Strict):
    """Settled threads that idle this long do not count."""

    idle_for: Duration
    """Settled threads whose state last changed longer ago do not count, except for an erasure."""
    reason: str = Field(min_length=1)
    """Why, for whoever reads the verdict."""


class PopulationSettings(_Strict):
    """Which threads a drain is about, beside its graph."""

    metadata: dict[str, str] = Field(default_factory=dict)
    """Only threads with these values of allow-listed metadata keys."""
    created_before: Moment | None = None
    """Only threads created before."""


Source = Literal["threads", "traces", "index"]
Limit = Literal[
    "idle_unverified", "intake_unseen", "half_step_unseen", "deferred_unseen", "traces_sampled", "history_unseen"
]


class PolicySettings(_Strict):
    """What a drain asks of its evidence."""

    max_age: Duration = timedelta(minutes=15)
    """How old the last look may be."""
    sweep_max_age: Duration = timedelta(hours=24)
    """How old the last complete sweep may be."""
    trace_window: Duration = timedelta(hours=72)
    """How far back traces must be quiet."""
    soak_sweeps: int = Field(default=2, strict=True, ge=1, le=1000)
    """Over how many complete sweeps nothing may block."""
    soak_hold: Duration = timedelta(hours=1)
    """For how long nothing may block."""
    require: tuple[Source, ...] | None = None
    """Sources that must have been read; else every configured one."""
    retention: RetentionSettings | None = None
    """`[drains.policy.retention]`, below."""
    missing_version: Literal["old", "unaffected"] = "old"
    """What a thread without a version is."""
    neither: Literal["clear", "block"] = "clear"
    """What a thread with neither side of a rename means."""
    accept: tuple[Limit, ...] = ()
    """Limits that a person accepts."""
    attestations: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """What a person must confirm, for each version of the criteria. Of a `reported` deployment always also: `no run is under way with
    durability="exit"`."""


class DrainSettings(_Strict):
    """One tracked removal, as the settings file writes it."""

    name: DrainName
    """How it is called in addresses and commands; not `new`."""
    deployment: Name
    """The name of a deployment."""
    graph: str = Field(min_length=1, max_length=255)
    """The graph's id, as `langgraph.json` has it."""
    owner: Annotated[Annotated[str, Field(max_length=100)] | None, BeforeValidator(_blank_is_absent)] = None
    """Who is asked."""
    phase: Literal["additive", "observing", "removing", "closed"] = "observing"
    """`additive`: old and new exist on purpose, so never drained; `closed`: nobody asks any more. [Phases](drains.md#phases)."""
    remove_nodes: tuple[NonEmpty, ...] = Field(default=(), max_length=MAX_TARGETS)
    """Paths of nodes: `await_approval`, `refund/confirm_refund`."""
    rename_fields: tuple[RenameSettings, ...] = Field(default=(), max_length=MAX_TARGETS)
    """`[{ old = "customer_name", new = "display_name" }]`"""
    require_kinds: dict[str, Literal["boolean", "integer", "number", "text", "list", "object"]] = Field(
        default_factory=dict, max_length=MAX_TARGETS
    )
    """`{ retry_count = "integer" }`: what a field must be; an integer is a `number` too, null is not."""
    remove_fields: tuple[NonEmpty, ...] = Field(default=(), max_length=MAX_TARGETS)
    """Fields that the schema will lose; they matter where work is pending."""
    erase_fields: tuple[NonEmpty, ...] = Field(default=(), max_length=MAX_TARGETS)
    """Fields that must be stored nowhere, history included."""
    minimum_versions: dict[str, VersionNumber] = Field(default_factory=dict)
    """`{ flow_version = 3 }`, by version key."""
    minimum_state_version: VersionNumber | None = None
    """The same for the deployment's `state_version_key`."""
    newest_versions: dict[str, VersionNumber] = Field(default_factory=dict)
    """`{ state_version = 2 }`: a higher version than this blocks."""
    intake_closed_at: Moment | None = None
    """Threads created later must not enter; else when the drain began to observe."""
    population: PopulationSettings = Field(default_factory=PopulationSettings)
    """`[drains.population]`, below; else all threads of the graph."""
    policy: PolicySettings = Field(default_factory=PolicySettings)
    """`[drains.policy]`, below: what the drain asks of its evidence."""

    @model_validator(mode="after")
    def _has_a_target(self) -> Self:
        targets = (
            self.remove_nodes,
            self.rename_fields,
            self.require_kinds,
            self.remove_fields,
            self.erase_fields,
            self.minimum_versions,
        )
        if not any(targets) and self.minimum_state_version is None:
            raise ValueError("a drain needs something to remove: remove_nodes, rename_fields, minimum_versions …")
        return self

    @model_validator(mode="after")
    def _times_have_a_zone(self) -> Self:
        for when in (self.intake_closed_at, self.population.created_before):
            if when is not None and when.tzinfo is None:
                raise ValueError("write times with a zone, like 2026-12-01T00:00:00Z")
        return self


class DrainsFile(_Strict):
    """A file of drains alone, for ``drainboard drains apply``."""

    drains: tuple[DrainSettings, ...] = Field(min_length=1, max_length=500)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        _unique("drain", [drain.name for drain in self.drains])
        return self


class GrantSettings(_Strict):
    """A role for people whose claim has a value: over the deployments or environments that are named, over all without."""

    value: str = Field(min_length=1, max_length=200)
    """A value of the claim."""
    role: Role
    """What who has it may do."""
    deployments: tuple[Name, ...] | None = None
    """In these deployments only."""
    environments: tuple[NonEmpty, ...] | None = None
    """In deployments with these labels only."""


class SignInSettings(_Strict):
    """Who may look. ``open``: everybody who reaches the address. ``token``: who pastes an API token. ``oidc``: whom a provider of
    OpenID Connect knows; ``roles_claim`` names what tells their roles, ``grants`` what each of its values is good for (without:
    the values viewer, operator and admin are these roles)."""

    mode: Literal["open", "token", "oidc"] = "open"
    """`open`: everybody who reaches the address; `token`: who has an API token; `oidc`: whom a provider of OpenID Connect knows."""
    issuer: Url | None = None
    """The provider's address."""
    client_id: str | None = None
    """What the provider calls this Drainboard."""
    client_secret_env: str | None = None
    """The *name* of an environment variable with the client secret."""
    roles_claim: NonEmpty = "roles"
    """The claim that tells the roles."""
    scopes: NonEmpty = "openid profile email"
    """What is asked for at the provider."""
    grants: tuple[GrantSettings, ...] = ()
    """What the claim's values are good for, below; without any: the values `viewer`, `operator` and `admin` are these roles."""
    session: Interval = timedelta(hours=12)
    """How long a sign-in lasts."""
    secure_cookies: bool = Field(default=True, strict=True)
    """`false` only to try it out without TLS."""
    public_url: Url | None = None
    """Where people come back to, behind a proxy; else the request's own address."""

    @property
    def all_grants(self) -> tuple[GrantSettings, ...]:
        """The grants, or those that go without saying."""
        return self.grants or tuple(GrantSettings(value=role, role=role) for role in get_args(Role))

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.mode == "oidc" and not (self.issuer and self.client_id and self.client_secret_env):
            raise ValueError("mode oidc needs issuer, client_id and client_secret_env")
        if self.mode != "oidc" and (self.issuer or self.client_id or self.client_secret_env or self.grants):
            raise ValueError('issuer, client_id, client_secret_env and grants go with mode = "oidc" only')
        return self

    def client_secret(self) -> str:
        """The secret, looked up by name now. Raises ``SettingsError``."""
        if not (found := os.environ.get(self.client_secret_env or "")):
            raise SettingsError(
                f"sign_in takes its client secret from the environment variable {self.client_secret_env}, which is not "
                "set. Set it, or use another mode."
            )
        return found


WebhookEvent = Literal["drained", "withdrawn", "regressed", "stranded", "lost", "evidence_stale"]


class WebhookSettings(_Strict):
    """An address that is told of transitions, signed as Standard Webhooks say. ``events`` and ``deployments``: those alone."""

    name: Name
    """How it is called."""
    url: Url
    """Where it is."""
    secret_env: str | None = None
    """The *name* of an environment variable with the secret `whsec_…`. This or `secret_file` is required."""
    secret_file: Path | None = None
    """A file with the secret."""
    events: tuple[WebhookEvent, ...] = Field(default=get_args(WebhookEvent), min_length=1)
    """What it is told of; all of it without."""
    deployments: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Of these deployments only."""
    timeout: Interval = timedelta(seconds=10)
    """How long the receiver may take to answer, `30s` at most."""

    @model_validator(mode="after")
    def _is_signed(self) -> Self:
        if (self.secret_env is None) == (self.secret_file is None):
            raise ValueError("a webhook takes its secret from secret_env or from secret_file: give one of them")
        if self.timeout > LONGEST_ANSWER:
            raise ValueError(f"a webhook's receiver has at most {duration_text(LONGEST_ANSWER)} to answer")
        return self

    def wants(self, event: str, deployment: str) -> bool:
        """Whether it is to be told of an event in a deployment."""
        return event in self.events and (self.deployments is None or deployment in self.deployments)

    def secret(self) -> str:
        """The secret, looked up by name now. Raises ``SettingsError``."""
        place = self.secret_env or str(self.secret_file)
        try:
            found = os.environ.get(place, "") if self.secret_env else Path(place).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            found = ""
        try:
            is_secret = found.startswith("whsec_") and len(base64.b64decode(found[6:] + "==", validate=True)) >= 24
        except ValueError:
            is_secret = False
        if not is_secret:
            raise SettingsError(
                f"The webhook {self.name} takes its secret from {place}, where there is none: `whsec_` and at least 24 bytes in "
                "base64. Set it there; what waits is then sent."
            )
        return found


class KeepSettings(_Strict):
    """How long what is over is kept. What a verdict rests on stays longer, and what is as it is now is never forgotten."""

    tombstones: KeptFor = timedelta(days=90)
    """Threads that the server no longer has, with their last known facts."""
    history: KeptForHistory = timedelta(days=90)
    """How work came to nodes and left them, polls, and stored answers of drains. `32d` at least: a burn-down shows up to 31 days."""
    deploys: KeptFor = timedelta(days=400)
    """Deploys, and the threads that waited at a node which one removed."""
    audit: KeptFor = timedelta(days=400)
    """Who did what, and who opened an evidence report."""


class Settings(BaseSettings):
    """All settings. ``home`` is the folder of the settings file ``file``; relative paths start there. ``work``: whether ``serve``
    polls, or leaves that to ``drainboard worker``."""

    model_config = SettingsConfigDict(
        env_prefix="DRAINBOARD_", extra="forbid", frozen=True, hide_input_in_errors=True, env_ignore_empty=True
    )

    database_url: str = "sqlite+aiosqlite:///drainboard.db"
    """Where everything is kept: a SQLite file, or `postgresql+psycopg://…`."""
    key_file: Path = Path("drainboard.key")
    """The key of the hashes of undeclared names and of sessions; made at the first start. Keep it with the database's backups."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""
    work: Literal["here", "workers"] = "here"
    """`here`: `serve` polls; `workers`: it only serves, and [`drainboard worker`](../how-to/scaling-out.md) polls (PostgreSQL only)."""
    exported_ids: Literal["clear", "pseudonyms"] = "clear"
    """`pseudonyms`: threads are called `th_…` in [what people carry away](../explanation/privacy.md#thread-ids-outside)."""
    log_format: Literal["text", "json"] = "text"
    """`json`: one object a line, for what collects logs."""
    deployments: tuple[DeploymentSettings, ...] = ()
    """`[[deployments]]`, below."""
    drains: tuple[DrainSettings, ...] = ()
    """`[[drains]]`, below."""
    sign_in: SignInSettings = Field(default_factory=SignInSettings)
    """`[sign_in]`, below: who may look."""
    webhooks: tuple[WebhookSettings, ...] = Field(default=(), max_length=50)
    """`[[webhooks]]`, below: who is told."""
    keep: KeepSettings = Field(default_factory=KeepSettings)
    """`[keep]`, below: how long what is over is kept."""
    home: Path = Path()
    file: Path | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """First what the command line says, then the environment, then the file."""
        return init_settings, _ScalarEnv(settings_cls), TomlConfigSettingsSource(settings_cls, _file.current)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _unique("deployment", [deployment.name for deployment in self.deployments])
        _unique("drain", [drain.name for drain in self.drains])
        by_name = {deployment.name: deployment for deployment in self.deployments}
        self._resolve_key_files()
        if self.work == "workers" and not self.is_on_postgresql:
            raise ValueError(f'work = "workers" {WANTS_POSTGRESQL}')
        for grant in self.sign_in.grants:
            if unknown := next((name for name in grant.deployments or () if name not in by_name), None):
                raise ValueError(f"a grant of sign_in names the deployment {unknown}, which is not there")
        for drain in self.drains:
            if (deployment := by_name.get(drain.deployment)) is None:
                raise ValueError(f"the drain {drain.name} names the deployment {drain.deployment}, which is not there")
            check_deployment(drain, deployment)
        _unique("webhook", [webhook.name for webhook in self.webhooks])
        for webhook in self.webhooks:
            if unknown := next((name for name in webhook.deployments or () if name not in by_name), None):
                raise ValueError(f"the webhook {webhook.name} names the deployment {unknown}, which is not there")
        return self

    def _resolve_key_files(self) -> None:
        """A relative path starts at the settings' folder."""
        for deployment in self.deployments:
            file = deployment.api_key_file
            if file is not None and not file.is_absolute():
                object.__setattr__(deployment, "api_key_file", self.home / file)
        for webhook in self.webhooks:
            if webhook.secret_file is not None and not webhook.secret_file.is_absolute():
                object.__setattr__(webhook, "secret_file", self.home / webhook.secret_file)

    def deployment(self, name: str) -> DeploymentSettings | None:
        """The settings of a deployment, or None."""
        return next((deployment for deployment in self.deployments if deployment.name == name), None)

    def webhook(self, name: str) -> WebhookSettings | None:
        """The settings of a webhook, or None."""
        return next((webhook for webhook in self.webhooks if webhook.name == name), None)

    @property
    def is_on_postgresql(self) -> bool:
        """Whether other processes, on other machines, can work on the same database."""
        return self.database_url.startswith("postgresql")

    @property
    def resolved_database_url(self) -> str:
        """The database's address, with a relative SQLite file made absolute from the settings' folder."""
        prefix = "sqlite+aiosqlite:///"
        if not self.database_url.startswith(prefix):
            return self.database_url
        path = Path(self.database_url.removeprefix(prefix))
        return prefix + str(path if path.is_absolute() else (self.home / path).absolute())

    @property
    def resolved_key_file(self) -> Path:
        """The key file, from the settings' folder when it is relative."""
        return self.key_file if self.key_file.is_absolute() else self.home / self.key_file

    def hash_key(self) -> bytes:
        """The key for keyed hashes; made on first use, shared by web and workers."""
        path = self.resolved_key_file
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_once(path, secrets.token_hex(32))
            key = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise SettingsError(
                f"The key file {path} cannot be read or made. Set key_file to a writable place, or remove a damaged one."
            ) from None
        if len(key) < 32:
            raise SettingsError(f"The key file {path} is too short. Remove it to have a new one made.")
        return key.encode()


def check_deployment(drain: DrainSettings, deployment: DeploymentSettings) -> None:
    """Raise ``ValueError`` with a sentence when a drain asks for what its deployment does not tell."""
    twice = drain.minimum_versions.get(deployment.state_version_key)
    if None not in (twice, drain.minimum_state_version) and twice != drain.minimum_state_version:
        raise ValueError(
            f"the drain {drain.name} has two minimums for {deployment.state_version_key}: keep one of them"
        )
    if unknown := sorted(set(drain.minimum_versions) - set(deployment.all_version_keys)):
        raise ValueError(
            f"the drain {drain.name} has a minimum for {unknown[0]}, which is neither state_version_key nor one of "
            f"version_keys of {deployment.name}"
        )
    if unknown := sorted(set(drain.population.metadata) - set(deployment.metadata_keys)):
        raise ValueError(
            f"the drain {drain.name} selects by the metadata key {unknown[0]}, which is not one of metadata_keys "
            f"of {deployment.name}"
        )


class _ScalarEnv(PydanticBaseSettingsSource):
    """``DRAINBOARD_<KEY>`` for top-level scalars only."""

    KEYS = ("database_url", "key_file", "log_level", "log_format", "work", "exported_ids")

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        """Part of pydantic-settings' interface."""
        return os.environ.get(f"DRAINBOARD_{field_name.upper()}") or None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """All scalars that the environment sets."""
        found = {key: os.environ.get(f"DRAINBOARD_{key.upper()}") for key in self.KEYS}
        return {key: value for key, value in found.items() if value}


class _File:
    """The settings file that is being read; pydantic-settings takes it through a class method only."""

    current: Path | None = None


_file = _File()


def load_settings(path: Path | None = None, **overrides: Any) -> Settings:
    """Read the settings. ``path`` defaults to ``DRAINBOARD_CONFIG``, then ``drainboard.toml`` here, if there is one.

    Raises ``SettingsError``: one sentence that names the file and the key, and never a value.
    """
    named = path or (Path(found) if (found := os.environ.get("DRAINBOARD_CONFIG")) else None)
    if named is not None and not named.is_file():
        raise SettingsError(f"There is no settings file at {named}. Check DRAINBOARD_CONFIG.")
    file = named or (Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None)
    _file.current = file
    try:
        home: dict[str, Any] = {"home": file.parent.absolute(), "file": file.absolute()} if file else {}
        return Settings(**home, **overrides)
    except ValidationError as error:
        raise SettingsError(f"{file or 'Settings'}: {complaint(error)}.") from None
    except ValueError as error:  # TOML that does not parse; tomllib's message has a line and no content
        raise SettingsError(f"{file} is not valid TOML: {error}.") from None
    except RecursionError:
        raise SettingsError(f"{file} is nested too deeply.") from None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read ({error.strerror}).") from None
    finally:
        _file.current = None


def load_drains(path: Path) -> DrainsFile:
    """Read a file with ``[[drains]]`` and nothing else. Raises ``SettingsError`` as ``load_settings`` does."""
    try:
        return DrainsFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise SettingsError(f"{path}: {complaint(error)}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not text in UTF-8.") from None
    except ValueError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from None


def complaint(error: ValidationError) -> str:
    """The first complaint, with the path of its key. Pydantic is told to leave inputs out."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"the key {key} is unknown. Check its spelling and its table"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


def _unique(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"there are two {what}s with the name {name}")
        seen.add(name)


def _write_once(path: Path, text: str) -> None:
    """Make a private file whole, unless another process was first: several may start at once."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8") as made:  # only its owner may read it
        made.write(text + "\n")
        made.flush()
        with contextlib.suppress(FileExistsError):
            os.link(made.name, path)


def quick_deployment(name: str, url: str, **more: Any) -> Mapping[str, object]:
    """The settings of a deployment that the command line names (``--url``, ``--demo``)."""
    key = {"api_key_env": "DRAINBOARD_API_KEY"} if os.environ.get("DRAINBOARD_API_KEY") else {}
    return {"name": name, "url": url, **key, **more}
