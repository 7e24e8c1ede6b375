"""The register of drains: take up those of the settings file, make, change and close the others.

A drain of the settings file is changed in that file only. One that is no longer in the file is closed, stays with all
that it said, and from then on belongs to whoever uses the API or the pages: it can be opened again there.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.drains.answers import Answer, MustActFor, Verdict
from app.drains.criteria import checked, settings_of, spec_of
from app.drains.service import Drains
from app.drains.spec import DrainSpec, from_json, to_json
from app.errors import BadRequest, Conflict, Forbidden, NotFound
from app.facts.traces import run_name
from app.inventory import proofs, reads, register, traces, writes
from app.inventory.encode import Json
from app.inventory.store import Store
from app.inventory.views import Activity, CriteriaVersion, Said
from app.rights import Caller, Right
from app.settings import DeploymentSettings, DrainSettings, Settings, complaint

SETTINGS_FILE = "settings file"
VOID: dict[str, Any] = {  # what a drain has proved, when that was about something else
    "holds_since": None,
    "fell_at": None,
    "leaking_since": None,
    "sweeps": 0,
    "regressed_since": None,
    "drained_at": None,
    "removed": {},
}
Outcome = Literal["created", "changed", "unchanged"]


@dataclass(frozen=True, slots=True)
class By:
    """Who asks for a change, or through which door, and when. ``caller``: what they may."""

    actor: str
    now: datetime
    caller: Caller = field(default_factory=Caller.anybody)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one drain. ``changed``: the keys that are other ones now."""

    drain: str
    outcome: Outcome
    criteria_version: int
    phase: str
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainDetail(Answer):
    """A drain's answer, with what it asks for and the attestations that count now; ``waivers`` has what else was said.

    ``settings``: the drain as one would write it. ``versions``: how many versions its criteria had. ``must_act_by``: the
    threads that block, by the value of each metadata key of the settings that the drain does not select by.
    """

    settings: DrainSettings
    managed_by_file: bool
    closed_at: datetime | None
    versions: int
    attested: tuple[Said, ...]
    must_act_by: Mapping[str, tuple[MustActFor, ...]]


class Register:
    """All drains as they are written. Every method opens its own short transactions."""

    def __init__(self, settings: Settings, store: Store, drains: Drains) -> None:
        self._settings = settings
        self._store = store
        self._drains = drains

    # -- the settings file ---------------------------------------------------------------------------------------

    async def take_up(self, now: datetime) -> None:
        """Write the settings' deployments and drains. A file's drain that is no longer in the file is closed."""
        by = By(SETTINGS_FILE, now)
        async with self._store.database.write() as connection:
            for deployment in self._settings.deployments:
                await writes.ensure_deployment(connection, deployment.name, now)
            names = {row.name for row in await reads.list_drains(connection)}
            places = [deployment.name for deployment in self._settings.deployments]
            await register.lock_places(connection, drains=names, deployments=places)
            await proofs.distrust_other_rules(connection, places, now)
            for drain in self._settings.drains:
                spec = spec_of(drain, self._deployment(drain.deployment))
                known = await register.lock_drain(connection, spec.name)
                await self._write(connection, known, spec, by, managed_by_file=True)
            written = {drain.name for drain in self._settings.drains}
            for row in await reads.list_drains(connection):
                if row.managed_by_file and row.name not in written:
                    await self._let_go(connection, row, by)

    async def _let_go(self, connection: AsyncConnection, row: Any, by: By) -> None:
        await writes.update_drain(connection, row.id, managed_by_file=False, closed_at=row.closed_at or by.now)
        await _note(connection, row, by, "drain.closed", {"reason": "not in the settings file any more"})

    # -- making and changing -------------------------------------------------------------------------------------

    async def create(self, drain: DrainSettings, by: By) -> Written:
        """Make a drain. One that is there with the same criteria is left as it is.

        Raises ``NotFound`` (deployment), ``BadRequest``, ``Conflict``: ``drain_exists``, ``managed_by_file``,
        ``name_taken``, ``not_drained``.
        """
        spec = self._spec(drain, by)
        async with self._store.database.write() as connection:
            await register.lock_places(connection, drains=[spec.name], deployments=[spec.deployment])
            row = await register.lock_drain(connection, spec.name)
            if row is None and spec.phase == "removing":
                raise _not_drained(spec.name)
            if row is None and await self._insert(connection, spec, by):
                return Written(spec.name, "created", 1, spec.phase)
            return self._existing(row or await self._locked(connection, spec.name), spec)

    def _existing(self, row: Any, spec: DrainSpec) -> Written:
        """A drain that is made a second time."""
        _check_place(row, spec)
        same = row.criteria_digest == spec.criteria_digest()
        if same and (row.closed_at is None or spec.phase == "closed"):
            return Written(row.name, "unchanged", row.criteria_version, _phase(row))
        if row.managed_by_file:
            raise self.managed(row.name)
        what = "asks for something else" if not same else "is closed"
        raise Conflict(
            f"There is a drain with the name {row.name}, and it {what}. Change it with PUT /api/v1/drains/{row.name} or "
            "`drainboard drains apply`, or take another name.",
            code="drain_exists",
        )

    async def replace(self, drain: DrainSettings, by: By, *, seen: str | None = None) -> Written:
        """Make a drain, or make the one of that name ask for this from now on. Raises as ``create`` does.

        ``seen``: the digest of what the caller saw of it; ``Conflict`` (``changed_meanwhile``) when it says something else now.
        """
        spec = self._spec(drain, by)
        drained = await self._drained([spec], by)
        async with self._store.database.write() as connection:
            row = await register.lock_drain(connection, spec.name)
            if seen is not None and row is not None and seen != digest_of(drain_settings(row)):
                raise _changed_meanwhile(spec.name)
            return await self._replace(connection, spec, by, drained=drained)

    async def apply(self, drains: Sequence[DrainSettings], by: By) -> tuple[Written, ...]:
        """Make or replace several drains, all of them or none. Raises as ``create`` does."""
        specs = [self._spec(drain, by) for drain in drains]
        drained = await self._drained(specs, by)
        async with self._store.database.write() as connection:
            await register.lock_places(
                connection, drains=[spec.name for spec in specs], deployments=[spec.deployment for spec in specs]
            )
            return tuple([await self._replace(connection, spec, by, drained=drained) for spec in sorted_by_name(specs)])

    async def preview(self, drain: DrainSettings, by: By) -> Answer:
        """What the drain would say now if it asked for this; nothing is stored. Raises ``NotFound`` and ``BadRequest``."""
        return await self._drains.preview(self._spec(drain, by), now=by.now)

    async def change(self, name: str, changes: Mapping[str, Any], by: By) -> Written:
        """Change the given keys of a drain; tables are merged, a key of None goes back to its default.

        Raises ``NotFound``, ``BadRequest``, and ``Conflict`` as ``create`` does.
        """
        if other := next((key for key in ("name", "deployment") if key in changes), None):
            raise BadRequest(f"A drain keeps its {other}. Make another drain instead.", code="invalid")
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
        drained = await self._drained([self._spec(self._patched(row, changes), by)], by)
        async with self._store.database.write() as connection:
            row = await self._locked(connection, name)
            return await self._replace(connection, self._spec(self._patched(row, changes), by), by, drained=drained)

    async def close(self, name: str, by: By) -> Written:
        """Close a drain: its gate answers unknown from now on. Closing twice is harmless."""
        async with self._store.database.write() as connection:
            row = await self._locked(connection, name)
            if row.closed_at is not None:
                return Written(name, "unchanged", row.criteria_version, "closed")
            if row.managed_by_file:
                raise self.managed(name)
            await writes.update_drain(connection, row.id, closed_at=by.now)
            await _note(connection, row, by, "drain.closed", {})
            return Written(name, "changed", row.criteria_version, "closed", ("phase",))

    async def _replace(
        self, connection: AsyncConnection, spec: DrainSpec, by: By, *, drained: Mapping[str, int]
    ) -> Written:
        row = await register.lock_drain(connection, spec.name)
        if row is None and spec.phase == "removing":
            raise _not_drained(spec.name)
        if row is None and await self._insert(connection, spec, by):
            return Written(spec.name, "created", 1, spec.phase)
        row = row or await self._locked(connection, spec.name)
        _check_place(row, spec)
        changed = _changed(row, spec)
        if not changed:
            return Written(spec.name, "unchanged", row.criteria_version, _phase(row))
        if row.managed_by_file:
            raise self.managed(spec.name)
        same = row.criteria_digest == spec.criteria_digest()
        begins = spec.phase == "removing" and _phase(row) != "removing"
        if spec.phase == "removing" and (not same or (begins and drained.get(spec.name) != row.criteria_version)):
            raise _not_drained(spec.name)
        version = await self._write(connection, row, spec, by, managed_by_file=False)
        return Written(spec.name, "changed", version, spec.phase, changed)

    async def _drained(self, specs: Iterable[DrainSpec], by: By) -> dict[str, int]:
        """Of the drains that are to be removed: those that are drained now, with the version that is."""
        found = {}
        for spec in specs:
            if spec.phase != "removing":
                continue
            try:
                answer = await self._drains.answer(spec.name, now=by.now)
            except NotFound:
                continue
            if answer.verdict is Verdict.DRAINED:
                found[spec.name] = answer.criteria_version
        return found

    # -- writing -------------------------------------------------------------------------------------------------

    async def _insert(self, connection: AsyncConnection, spec: DrainSpec, by: By) -> bool:
        """Write a new drain; False when somebody was first."""
        deployment_id = await writes.ensure_deployment(connection, spec.deployment, by.now)
        values = _values(None, spec, deployment_id, by.now) | {"managed_by_file": False, "created_at": by.now}
        if not await register.insert_drain(connection, values):
            return False
        await _begin_anew(connection, deployment_id, spec, by)
        row = await self._row(connection, spec.name)
        await register.add_version(connection, row, now=by.now, actor=by.actor)
        await _note(connection, row, by, "drain.created", _noted(spec, 1))
        return True

    async def _write(
        self, connection: AsyncConnection, known: Any | None, spec: DrainSpec, by: By, *, managed_by_file: bool
    ) -> int:
        """Write a drain as it is asked for now; its criteria version. What was proved of other criteria is void."""
        deployment_id = await writes.ensure_deployment(connection, spec.deployment, by.now)
        values = _values(known, spec, deployment_id, by.now) | {"managed_by_file": managed_by_file}
        starts_anew = known is not None and "sweeps" in values
        await writes.upsert_drain(connection, values | {"created_at": by.now})
        if known is None or starts_anew:
            await _begin_anew(connection, deployment_id, spec, by)
        row = await self._row(connection, spec.name)
        if known is not None and starts_anew:
            await writes.forget_arrivals(connection, known.id)
        if known is None or known.criteria_version != row.criteria_version:
            await register.add_version(connection, row, now=by.now, actor=by.actor)
        await self._note_written(connection, known, row, spec, by)
        return int(row.criteria_version)

    async def _note_written(
        self, connection: AsyncConnection, known: Any | None, row: Any, spec: DrainSpec, by: By
    ) -> None:
        if known is None:
            await _note(connection, row, by, "drain.created", _noted(spec, 1))
            return
        changed = _changed(known, spec)
        if known.managed_by_file != row.managed_by_file:
            changed += ("managed_by_file",)
        if changed:
            await _note(connection, row, by, "drain.changed", _noted(spec, row.criteria_version, changed))

    # -- looking -------------------------------------------------------------------------------------------------

    async def detail(self, name: str, *, now: datetime) -> DrainDetail:
        """A drain's answer with what it asks for, and what people said about it. Raises ``NotFound``."""
        answer, must_act_by = await self._drains.answer_with_actors(name, now=now)
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            version = row.criteria_version
            return DrainDetail(
                **{each.name: getattr(answer, each.name) for each in fields(answer)},
                settings=drain_settings(row),
                managed_by_file=row.managed_by_file,
                closed_at=row.closed_at,
                versions=await register.count_versions(connection, row.id),
                attested=await register.active_attestations(connection, row.id, criteria_version=version, now=now),
                must_act_by=must_act_by,
            )

    async def deployment_of(self, name: str) -> str | None:
        """The deployment of a drain, or None when there is no such drain."""
        async with self._store.database.read() as connection:
            row = await reads.find_drain(connection, name)
        return None if row is None else str(row.spec["deployment"])

    async def versions(
        self, name: str, *, cursor: str | None = None, limit: int = reads.MAX_LIMIT
    ) -> tuple[tuple[CriteriaVersion, ...], str | None]:
        """A page of the versions of a drain's criteria, newest first, and the cursor of the next. Raises ``NotFound``."""
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            return await register.list_versions(connection, row.id, cursor=cursor, limit=limit)

    async def evaluations(self, name: str, *, cursor: str | None, limit: int) -> tuple[list[Json], str | None]:
        """The stored answers of a drain, newest first, and the cursor of the next page. Raises ``NotFound``."""
        before = None if cursor is None else register.before_id(cursor, "evaluations")
        async with self._store.database.read() as connection:
            row = await self._row(connection, name)
            found = await reads.list_evaluations(connection, row.id, limit=limit + 1, before=before)
        following = register.id_cursor("evaluations", found[limit - 1].id) if len(found) > limit else None
        return [each.answer for each in found[:limit]], following

    async def activity(
        self, *, deployment: str | None, cursor: str | None, limit: int, caller: Caller
    ) -> tuple[tuple[Activity, ...], str | None]:
        """The audit, newest first, as far as a caller may see it, and the cursor of its next page."""
        names = self._visible(caller) if deployment is None else [self._seen(deployment, caller).name]
        async with self._store.database.read() as connection:
            return await register.list_activity(connection, deployments=names, cursor=cursor, limit=limit)

    def _visible(self, caller: Caller) -> list[str] | None:
        """The deployments that a caller may read; None: all, and what belongs to none."""
        if caller.may_everywhere(Right.READ):
            return None
        return [each.name for each in self._settings.deployments if caller.may(Right.READ, each.name, each.environment)]

    def _seen(self, name: str, caller: Caller) -> DeploymentSettings:
        """A deployment that a caller may read. Raises ``NotFound``."""
        found = self._settings.deployment(name)
        if found is None or not caller.may(Right.READ, found.name, found.environment):
            if caller.may_everywhere(Right.READ):
                return self._deployment(name)
            raise NotFound(f"There is no deployment with the name {name[:100]!r}, or it is not yours to see.")
        return found

    async def opened(self, deployment: str, thread_id: str, by: By, *, live: bool, found: bool) -> None:
        """Note that an evidence report was opened."""
        async with self._store.database.write() as connection:
            row = await reads.find_deployment(connection, deployment)
            await register.add_activity(
                connection,
                row.id if row is not None else None,
                now=by.now,
                actor=by.actor,
                action="evidence.opened",
                subject=thread_id,
                detail={"live": live, "found": found},
            )

    # -- by name -------------------------------------------------------------------------------------------------

    def _spec(self, drain: DrainSettings, by: By) -> DrainSpec:
        found = self._seen(drain.deployment, by.caller)
        if not by.caller.may(Right.OPERATE, found.name, found.environment):
            raise Forbidden(f"This needs the right operate over {found.name}, which you do not have.")
        return checked(drain, found)

    def _patched(self, row: Any, changes: Mapping[str, Any]) -> DrainSettings:
        before = drain_settings(row).model_dump(mode="json")
        merged = _merged(before, changes)
        if "minimum_state_version" in changes:  # another way to write one of the minimum versions
            key = self._deployment(before["deployment"]).state_version_key
            versions = {name: value for name, value in (merged.get("minimum_versions") or {}).items() if name != key}
            merged["minimum_versions"] = versions
        try:
            return DrainSettings.model_validate(merged)
        except ValidationError as error:
            raise BadRequest(f"{complaint(error)}. Correct it and ask again.", code="invalid") from None

    def _deployment(self, name: str) -> DeploymentSettings:
        found = self._settings.deployment(name)
        if found is None:
            known = ", ".join(each.name for each in self._settings.deployments) or "none"
            raise NotFound(f"There is no deployment with the name {name[:100]!r}. Known: {known}.")
        return found

    async def _row(self, connection: AsyncConnection, name: str) -> Any:
        return self._known(await reads.find_drain(connection, name), name)

    async def _locked(self, connection: AsyncConnection, name: str) -> Any:
        return self._known(await register.lock_drain(connection, name), name)

    def _known(self, row: Any | None, name: str) -> Any:
        if row is None or self._settings.deployment(row.spec["deployment"]) is None:
            raise NotFound(f"There is no drain with the name {name[:100]!r}. `drainboard drains list` shows all.")
        return row

    def managed(self, name: str) -> Conflict:
        """The refusal to change a drain of the settings file anywhere else."""
        place = str(self._settings.file) if self._settings.file else "the settings that Drainboard was started with"
        return Conflict(
            f"The drain {name} is written in {place}, so it can only be changed there. Start Drainboard again afterwards.",
            code="managed_by_file",
        )


def sorted_by_name(specs: Iterable[DrainSpec]) -> list[DrainSpec]:
    """The order in which drains are locked, the same for everybody."""
    return sorted(specs, key=lambda spec: spec.name)


def drain_settings(row: Any) -> DrainSettings:
    """A stored drain as one would write it."""
    return settings_of(replace(from_json(row.spec), phase=_phase(row)))


def digest_of(settings: DrainSettings) -> str:
    """What tells one wording of a drain from every other."""
    return hashlib.sha256(settings.model_dump_json().encode()).hexdigest()[:24]


def _changed_meanwhile(name: str) -> Conflict:
    return Conflict(
        f"Somebody has changed the drain {name} since you opened the form. Compare, and save again to overwrite that.",
        code="changed_meanwhile",
    )


def _values(known: Any | None, spec: DrainSpec, deployment_id: int, now: datetime) -> dict[str, Any]:
    digest = spec.criteria_digest()
    same = known is not None and known.criteria_digest == digest and known.deployment_id == deployment_id
    observes = spec.phase not in ("additive", "closed")
    starts = observes and (known is None or known.closed_at is not None or known.observing_since is None)
    values: dict[str, Any] = {
        "name": spec.name,
        "deployment_id": deployment_id,
        "spec": to_json(spec),
        "criteria_digest": digest,
        "criteria_version": 1 if known is None else known.criteria_version + (not same),
        "observing_since": now if starts else known.observing_since if known is not None and observes else None,
        "closed_at": (known.closed_at if known is not None else None) or now if spec.phase == "closed" else None,
    }
    return values | VOID if not same or starts else values


async def _begin_anew(connection: AsyncConnection, deployment_id: int, spec: DrainSpec, by: By) -> None:
    """Look again at everything that new criteria are about; their window may reach further back than what is kept of traces."""
    await writes.update_deployment(connection, deployment_id, sweep_wanted_at=by.now)
    await traces.forget_coverage(connection, deployment_id, {run_name(node) for node in spec.nodes})


def _phase(row: Any) -> str:
    return "closed" if row.closed_at is not None else str(row.spec["phase"])


def _changed(row: Any, spec: DrainSpec) -> tuple[str, ...]:
    """The keys of a drain that would be other ones."""
    before, after = drain_settings(row).model_dump(), settings_of(spec).model_dump()
    return tuple(key for key, value in after.items() if before[key] != value)


def _check_place(row: Any, spec: DrainSpec) -> None:
    if row.spec["deployment"] != spec.deployment:
        raise Conflict(
            f"The name {spec.name} belongs to a drain of the deployment {row.spec['deployment']}. Take another name.",
            code="name_taken",
        )


def _not_drained(name: str) -> Conflict:
    return Conflict(
        f"The drain {name} is not drained now, so its target cannot be removed yet. `drainboard gate {name}` says why.",
        code="not_drained",
    )


def _merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch (RFC 7396) of what a drain says, but for its targets and versions, which are replaced whole."""
    found = dict(before)
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        elif key in ("population", "policy") and isinstance(value, Mapping):
            found[key] = _merged(before[key], value)
        else:
            found[key] = value
    return found


async def _note(connection: AsyncConnection, row: Any, by: By, action: str, detail: dict[str, Any]) -> None:
    await register.add_activity(
        connection, row.deployment_id, now=by.now, actor=by.actor, action=action, subject=row.name, detail=detail
    )


def _noted(spec: DrainSpec, version: int, changed: Iterable[str] = ()) -> dict[str, Any]:
    found: dict[str, Any] = {"criteria_version": version, "phase": spec.phase}
    return found | ({"changed": list(changed)} if changed else {})
