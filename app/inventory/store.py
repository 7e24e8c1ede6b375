"""The inventory as one object: the database, the key of the hashes, and the dictionaries that were met so far."""

import hashlib
import hmac
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFound
from app.facts.privacy import Names
from app.inventory import reads
from app.inventory.db import Database
from app.inventory.index import Comparisons
from app.inventory.reads import InventoryScope
from app.inventory.writes import Dictionaries
from app.settings import DeploymentSettings


@dataclass
class Store:
    """What every step that remembers or asks needs. ``left_locks``: by deployment, holders of its lock that ended here and
    could not give it back, since the database was not there."""

    database: Database
    hash_key: bytes
    left_locks: dict[int, set[str]] = field(default_factory=dict)
    _dictionaries: dict[int, Dictionaries] = field(default_factory=dict)
    _comparisons: dict[int, Comparisons] = field(default_factory=dict)

    def dictionaries(self, deployment_id: int) -> Dictionaries:
        """The dictionary entries of one deployment."""
        return self._dictionaries.setdefault(deployment_id, Dictionaries(deployment_id))

    def comparisons(self, deployment_id: int) -> Comparisons:
        """What became of the listed ids of one deployment."""
        return self._comparisons.setdefault(deployment_id, Comparisons(deployment_id))

    async def names(self, connection: AsyncConnection, deployment_id: int, settings: DeploymentSettings) -> Names:
        """How field names are kept in this deployment: those that were ever declared, in clear."""
        return self._names(await reads.list_declared_fields(connection, deployment_id), settings)

    def _names(self, declared: set[str], settings: DeploymentSettings) -> Names:
        return Names(declared | set(settings.all_version_keys), key=self.key_of(settings))

    def key_of(self, settings: DeploymentSettings) -> bytes:
        """The key of a deployment's hashes. A reporter is told it, so a reported deployment has one of its own, from which
        nobody comes to another's."""
        if not settings.reported:
            return self.hash_key
        return hmac.new(self.hash_key, f"reported\x1f{settings.name}".encode(), hashlib.sha256).digest()

    async def scope(self, connection: AsyncConnection, settings: DeploymentSettings) -> InventoryScope:
        """What a question about a deployment's threads needs. Raises ``NotFound`` before its first poll."""
        row = await reads.find_deployment(connection, settings.name)
        if row is None:
            raise NotFound(f"The deployment {settings.name} was not looked at yet. `drainboard poll` does it now.")
        declared = await reads.list_declared_fields(connection, row.id)
        return InventoryScope(
            deployment_id=row.id,
            deployment=settings.name,
            dictionaries=self.dictionaries(row.id),
            names=self._names(declared, settings),
            version_key=settings.state_version_key,
            fields=tuple(sorted(declared)),
        )
