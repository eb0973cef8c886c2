"""Create the catalog entry of a published table, as the last step, so that no incomplete table is shared."""

import contextlib
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.entry_admin import checked_location
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import AlreadyExists, Conflict, DeltaicError, NotFound
from deltaic.protocol import names
from deltaic.protocol.names import check_name, split_table_name
from deltaic.settings import settings
from deltaic_terminal.nearest import did_you_mean

from deltaic_pipeline.table.lease import TIME_TO_LIVE
from deltaic_pipeline.table.sources import catalog_location


@dataclass(frozen=True, slots=True)
class EntryName:
    """Name of a table for recipients: share, schema and table."""

    share: str
    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `share.schema.table`. The share's name can contain periods. Raises `InvalidParameter`."""
        share, schema, table = split_table_name(text)
        return cls(check_name("share", share), check_name("schema", schema), check_name("table", table))

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """Catalog entry that a job creates for its table."""

    name: EntryName
    location: str
    history: bool = True
    storage: str = ""
    create_share: bool = False


def entry_from(options: Namespace, *, history: bool = True) -> CatalogEntry | None:
    """Return the catalog entry that the command line requests, or None without --table."""
    if not options.table:
        return None
    location = catalog_location(options.to)
    return CatalogEntry(EntryName.parse(options.table), location, history, options.storage, options.create_share)


@dataclass(frozen=True, slots=True)
class JobCatalog:
    """Parts of the DynamoDB catalog that a job uses: writer leases of tables, and catalog entries."""

    leases: Leases
    admin: CatalogAdmin
    lease_life: timedelta = TIME_TO_LIVE
    """Lifetime of a lease that is not renewed."""

    def require_free(self, location: str, wait: timedelta) -> None:
        """Check before Spark starts that no other job writes the table.

        Raises `Conflict` if another job holds the lease and `wait` is zero, and any error of the catalog.
        """
        with contextlib.suppress(*[Conflict] * bool(wait)):
            self.leases.require_free(catalog_location(location))

    def check(self, entry: CatalogEntry) -> None:
        """Raise a `DeltaicError`, before rows are written, if the entry could not be created afterwards."""
        name = entry.name
        try:
            table = self.admin.tables.get(name.share, name.schema, name.table)
        except NotFound:
            checked_location(entry.location)
            self._check_share_and_storage(entry)
            return
        if catalog_location(table.location) != catalog_location(entry.location):
            raise Conflict(
                f"{name} is already shared from {table.location}. Choose another name, or use that location."
            )

    def _check_share_and_storage(self, entry: CatalogEntry) -> None:
        share = entry.name.share
        try:
            self.admin.shares.get(share)
        except NotFound:
            if not entry.create_share:
                near = did_you_mean(share, (item.name for item in self.admin.shares.list()))
                raise NotFound(
                    f"there is no share '{share}'{near or '.'} Create it with `deltaic share create {share}`, or let "
                    "the job create it: set create_share: true in the dataset's target, or pass --create-share."
                ) from None
        storages = [storage.name for storage in self.admin.storages.list()] if entry.storage else []
        if entry.storage and names.key(entry.storage) not in map(names.key, storages):
            raise NotFound(f"there is no storage '{entry.storage}'{did_you_mean(entry.storage, storages)}")

    def register(self, entry: CatalogEntry) -> Sequence[str]:
        """Create the missing catalog entries, and return their names, such as `table a.b.c`.

        An existing entry with the same location stays unchanged. Safe while another job creates the same entries.
        """
        name, created = entry.name, []
        if entry.create_share:
            with contextlib.suppress(AlreadyExists):
                created.append(f"share {self.admin.shares.create(name.share).name}")
        with contextlib.suppress(AlreadyExists):
            created.append(f"schema {name.share}.{self.admin.schemas.create(name.share, name.schema).name}")
        try:
            self.admin.tables.create(
                name.share, name.schema, name.table, entry.location, history=entry.history, storage=entry.storage
            )
            created.append(f"table {name}")
        except AlreadyExists:
            self.check(entry)
        return created

    def next_step(self, name: EntryName) -> str:
        """Return the command that an operator must run so that recipients can read the table; empty if not needed."""
        with contextlib.suppress(DeltaicError):
            if next(self.admin.grants.of_share(name.share), None) is None:
                return f"no recipient can read {name.share} yet; next: deltaic grant create <recipient> {name.share}"
        return ""


def connect(catalog_table: str | None = None, tokens_table: str = "", dynamo: Dynamo | None = None) -> JobCatalog:
    """Return the catalog in these DynamoDB tables, by default those in the environment variables."""
    client, catalog_table = dynamo or Dynamo(), catalog_table or settings().catalog_table
    admin = CatalogAdmin(catalog_table, tokens_table or settings().tokens_table, client)
    return JobCatalog(Leases(catalog_table, client), admin)
