"""What a drain asks for: as people write it (``DrainSettings``) and as the rules see it (``DrainSpec``)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.drains.spec import NONE_WRITES_AT_ITS_END, DrainSpec, Policy, Target
from app.errors import BadRequest
from app.settings import DeploymentSettings, DrainSettings, check_deployment


def checked(drain: DrainSettings, deployment: DeploymentSettings) -> DrainSpec:
    """A drain as the rules see it. Raises ``BadRequest`` when its deployment does not tell what it asks for."""
    try:
        check_deployment(drain, deployment)
    except ValueError as error:
        sentence = str(error)
        raise BadRequest(f"{sentence[0].upper()}{sentence[1:]}.", code="invalid") from None
    return spec_of(drain, deployment)


def spec_of(drain: DrainSettings, deployment: DeploymentSettings) -> DrainSpec:
    """A drain of the settings as the rules see it."""
    policy = drain.policy
    minimums = dict(drain.minimum_versions)
    if drain.minimum_state_version is not None:
        minimums[deployment.state_version_key] = drain.minimum_state_version
    return DrainSpec(
        name=drain.name,
        deployment=drain.deployment,
        graph=drain.graph,
        targets=tuple(_targets(drain, minimums)),
        owner=drain.owner,
        phase=drain.phase,
        metadata=drain.population.metadata,
        created_before=drain.population.created_before,
        intake_closed_at=drain.intake_closed_at,
        newest_versions=drain.newest_versions,
        policy=Policy(
            max_age=policy.max_age,
            sweep_max_age=policy.sweep_max_age,
            trace_window=policy.trace_window,
            soak_sweeps=policy.soak_sweeps,
            soak_hold=policy.soak_hold,
            require=policy.require,
            retention_idle_for=policy.retention.idle_for if policy.retention else None,
            retention_reason=policy.retention.reason if policy.retention else None,
            missing_version=policy.missing_version,
            neither=policy.neither,
            accept=policy.accept,
            attestations=_attestations(policy.attestations, deployment),
        ),
    )


def _attestations(asked: tuple[str, ...], deployment: DeploymentSettings) -> tuple[str, ...]:
    """What a person must confirm: what the drain asks for, and what nothing else can tell of its deployment."""
    implied = (NONE_WRITES_AT_ITS_END,) if deployment.reported else ()
    return tuple(dict.fromkeys((*asked, *implied)))


def as_asked(spec: DrainSpec, deployment: DeploymentSettings) -> DrainSpec:
    """A stored drain with everything that is asked of it today; an earlier version may have asked for less."""
    asked = _attestations(spec.policy.attestations, deployment)
    return replace(spec, policy=replace(spec.policy, attestations=asked))


def settings_of(spec: DrainSpec) -> DrainSettings:
    """The reverse: how a person would write this drain. ``minimum_state_version`` is among ``minimum_versions``."""
    policy = spec.policy
    return DrainSettings.model_validate(
        {
            "name": spec.name,
            "deployment": spec.deployment,
            "graph": spec.graph,
            "owner": spec.owner,
            "phase": spec.phase,
            **_by_kind(spec.targets),
            "newest_versions": spec.newest_versions,
            "intake_closed_at": spec.intake_closed_at,
            "population": {"metadata": spec.metadata, "created_before": spec.created_before},
            "policy": {
                "max_age": policy.max_age,
                "sweep_max_age": policy.sweep_max_age,
                "trace_window": policy.trace_window,
                "soak_sweeps": policy.soak_sweeps,
                "soak_hold": policy.soak_hold,
                "require": policy.require,
                "retention": _retention(policy),
                "missing_version": policy.missing_version,
                "neither": policy.neither,
                "accept": policy.accept,
                "attestations": policy.attestations,
            },
        }
    )


def _targets(drain: DrainSettings, minimums: Mapping[str, int]) -> Iterable[Target]:
    yield from (Target("node", node) for node in drain.remove_nodes)
    yield from (Target("rename", rename.old, new=rename.new) for rename in drain.rename_fields)
    yield from (Target("kind", name, required_kind=kind) for name, kind in drain.require_kinds.items())
    yield from (Target("remove", name) for name in drain.remove_fields)
    yield from (Target("erase", name) for name in drain.erase_fields)
    yield from (Target("version", key, minimum=minimum) for key, minimum in minimums.items())


def _by_kind(targets: Iterable[Target]) -> dict[str, Any]:
    every = tuple(targets)
    return {
        "remove_nodes": [each.name for each in every if each.kind == "node"],
        "rename_fields": [{"old": each.name, "new": each.new} for each in every if each.kind == "rename"],
        "require_kinds": {each.name: each.required_kind for each in every if each.kind == "kind"},
        "remove_fields": [each.name for each in every if each.kind == "remove"],
        "erase_fields": [each.name for each in every if each.kind == "erase"],
        "minimum_versions": {each.name: each.minimum for each in every if each.kind == "version"},
    }


def _retention(policy: Policy) -> dict[str, Any] | None:
    if policy.retention_idle_for is None:
        return None
    return {"idle_for": policy.retention_idle_for, "reason": policy.retention_reason}
