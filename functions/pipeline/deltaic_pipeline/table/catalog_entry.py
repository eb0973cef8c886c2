"""The entry of a published table in the catalog: the job's last step, so that nothing half written is shared."""

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
class TableName:
    """The three names under which recipients find a table."""

    share: str
    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `share.schema.table` (a share's name may hold periods); raises `InvalidParameter`."""
        share, schema, table = split_table_name(text)
        return cls(check_name("share", share), check_name("schema", schema), check_name("table", table))

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Entry:
    """The catalog entry that a job makes."""

    name: TableName
    location: str
    history: bool = True
    storage: str = ""
    create_share: bool = False


def entry_of(options: Namespace, *, history: bool = True) -> Entry | None:
    """Return the entry that a command line asks for; None where it shares nothing."""
    if not options.table:
        return None
    location = catalog_location(options.to)
    return Entry(TableName.parse(options.table), location, history, options.storage, options.create_share)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a job wants of the catalog in DynamoDB: the leases of its tables, and the entries that it makes."""

    leases: Leases
    admin: CatalogAdmin
    lease_life: timedelta = TIME_TO_LIVE
    """How long a lease lasts that is not renewed."""

    def require_free(self, location: str, wait: timedelta) -> None:
        """Refuse before Spark starts: raise `Conflict` where a table is being written and nobody waits for the end.

        Whatever keeps the catalog from being asked is raised too.
        """
        with contextlib.suppress(*[Conflict] * bool(wait)):
            self.leases.require_free(catalog_location(location))

    def check(self, entry: Entry) -> None:
        """Raise what would keep the entry from being made; called before anything is written."""
        name = entry.name
        try:
            table = self.admin.tables.get(name.share, name.schema, name.table)
        except NotFound:
            checked_location(entry.location)
            self._check_place(entry)
            return
        if catalog_location(table.location) != catalog_location(entry.location):
            raise Conflict(
                f"{name} is shared from {table.location} already: choose another name, or give that location."
            )

    def _check_place(self, entry: Entry) -> None:
        share = entry.name.share
        try:
            self.admin.shares.get(share)
        except NotFound:
            if not entry.create_share:
                near = did_you_mean(share, (each.name for each in self.admin.shares.list()))
                raise NotFound(
                    f"there is no share '{share}'{near or '.'} Make it with `deltaic share create {share}`, or let the "
                    "job make it: create_share: true in the dataset's target, --create-share on the command line."
                ) from None
        storages = [each.name for each in self.admin.storages.list()] if entry.storage else []
        if entry.storage and names.key(entry.storage) not in map(names.key, storages):
            raise NotFound(f"there is no storage '{entry.storage}'{did_you_mean(entry.storage, storages)}")

    def register(self, entry: Entry) -> Sequence[str]:
        """Create what is missing and return what that was; a table that is there with this location stays.

        Somebody else may create the same entries at the same moment.
        """
        name, made = entry.name, []
        if entry.create_share:
            with contextlib.suppress(AlreadyExists):
                made.append(f"share {self.admin.shares.create(name.share).name}")
        with contextlib.suppress(AlreadyExists):
            made.append(f"schema {name.share}.{self.admin.schemas.create(name.share, name.schema).name}")
        try:
            self.admin.tables.create(
                name.share, name.schema, name.table, entry.location, history=entry.history, storage=entry.storage
            )
            made.append(f"table {name}")
        except AlreadyExists:
            self.check(entry)
        return made

    def next_step(self, name: TableName) -> str:
        """Return what is to be done before anybody can read the table; empty if somebody may."""
        with contextlib.suppress(DeltaicError):
            if next(self.admin.grants.of_share(name.share), None) is None:
                return f"nobody may read {name.share} yet; next: deltaic grant create <recipient> {name.share}"
        return ""


def connect(catalog_table: str | None = None, tokens_table: str = "", dynamo: Dynamo | None = None) -> Catalog:
    """Return the catalog in these DynamoDB tables, else in those that the environment names."""
    shared, catalog_table = dynamo or Dynamo(), catalog_table or settings().catalog_table
    admin = CatalogAdmin(catalog_table, tokens_table or settings().tokens_table, shared)
    return Catalog(Leases(catalog_table, shared), admin)
