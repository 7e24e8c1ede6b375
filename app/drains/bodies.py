"""What callers send, through API or pages: the bodies of requests that change something. Unknown keys are errors."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from app.drains.statements import MAX_THREADS, Owned
from app.settings import DrainName, DrainSettings, NonEmpty, RenameSettings, VersionNumber, representable, without_nul


def _text(longest: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=longest)


Owner = Annotated[str, _text(100)]
Why = Annotated[str, _text(500)]
ThreadId = Annotated[str, _text(255)]
Time = Annotated[AwareDatetime, AfterValidator(representable)]
Until = Annotated[Time | None, Field(description="With a zone. Absent: until it is taken back.")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _holds_no_nul(cls, raw: object) -> object:
        return without_nul(raw)


class DrainReplacement(DrainSettings):
    """A drain, as the settings file writes it. The name is that of the path; it may be repeated."""

    name: DrainName | None = None  # type: ignore[assignment]


class DrainChanges(_Body):
    """What is to be another one. A key that is absent stays; null goes back to its default; tables are merged, but for
    targets and versions, which are replaced whole. ``minimum_state_version`` changes that one key of ``minimum_versions``."""

    graph: str | None = None
    owner: str | None = None
    phase: Literal["additive", "observing", "removing", "closed"] | None = None
    remove_nodes: list[NonEmpty] | None = None
    rename_fields: list[RenameSettings] | None = None
    require_kinds: dict[str, str] | None = None
    remove_fields: list[NonEmpty] | None = None
    erase_fields: list[NonEmpty] | None = None
    minimum_versions: dict[str, VersionNumber] | None = None
    minimum_state_version: VersionNumber | None = None
    newest_versions: dict[str, VersionNumber] | None = None
    intake_closed_at: Time | None = None
    population: dict[str, Any] | None = None
    policy: dict[str, Any] | None = None


class WaiverBody(_Body):
    """Threads that a person takes over."""

    thread_ids: list[ThreadId] = Field(min_length=1, max_length=MAX_THREADS)
    owner: Owner
    reason: Why
    until: Until = None

    @property
    def owned(self) -> Owned:
        """Who stands for it."""
        return Owned(self.owner, self.reason, self.until)


class AcknowledgementBody(WaiverBody):
    """Threads that are stranded or lost, or codes, that a person has dealt with."""

    thread_ids: list[ThreadId] = Field(default_factory=list, max_length=MAX_THREADS)
    codes: list[Annotated[str, _text(40)]] = Field(default_factory=list, max_length=10)


class AttestationBody(_Body):
    """Attestations that the drain's policy asks for."""

    names: list[Annotated[str, _text(200)]] = Field(default_factory=list, max_length=50)
    name: Annotated[str, _text(200)] | None = None
    owner: Owner
    reason: Why | None = None
    until: Until = None

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if not self.all_names:
            raise ValueError("name at least one attestation in names")
        return self

    @property
    def all_names(self) -> list[str]:
        """``names``, and ``name``."""
        return [*self.names, *([self.name] if self.name is not None else [])]

    @property
    def owned(self) -> Owned:
        """Who stands for it."""
        return Owned(self.owner, self.reason, self.until)
