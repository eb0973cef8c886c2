"""The entry of a published table in the catalog: the job's last step, so that nothing half written is shared."""

import contextlib
from dataclasses import dataclass
from typing import Protocol, Self

from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases as CatalogLeases
from deltaic.errors import AlreadyExists, Conflict, NotFound
from deltaic.protocol.names import check_schema_name, check_share_name, check_table_name, split_table_name

from deltaic_pipeline.lease import Leases
from deltaic_pipeline.sources import catalog_location


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
        return cls(check_share_name(share), check_schema_name(schema), check_table_name(table))

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


class Register(Protocol):
    """The part of the catalog that a job needs."""

    def check(self, name: TableName, location: str) -> None:
        """Raise `Conflict` when the name is taken by another location; called before anything is written."""
        ...

    def register(self, name: TableName, location: str, *, history: bool, storage: str = "") -> None:
        """Create what is missing of share, schema and table; a table that is there with this location stays."""
        ...


@dataclass(frozen=True, slots=True)
class Catalog:
    """The two things that a job wants of the catalog."""

    leases: Leases
    register: Register


@dataclass(frozen=True, slots=True)
class CatalogRegister:
    """The register in DynamoDB."""

    admin: CatalogAdmin

    def check(self, name: TableName, location: str) -> None:
        """See `Register`."""
        try:
            table = self.admin.tables.get(name.share, name.schema, name.table)
        except NotFound:
            return
        if catalog_location(table.location) != catalog_location(location):
            raise Conflict(
                f"{name} is shared from {table.location} already: choose another name, or give that location."
            )

    def register(self, name: TableName, location: str, *, history: bool, storage: str = "") -> None:
        """See `Register`. Somebody else may create the same entries at the same moment."""
        with contextlib.suppress(AlreadyExists):
            self.admin.shares.create(name.share)
        with contextlib.suppress(AlreadyExists):
            self.admin.schemas.create(name.share, name.schema)
        try:
            self.admin.tables.create(name.share, name.schema, name.table, location, history=history, storage=storage)
        except AlreadyExists:
            self.check(name, location)


def connect(catalog_table: str, tokens_table: str, dynamo: Dynamo | None = None) -> Catalog:
    """Return the catalog in these DynamoDB tables, reached as the environment says unless `dynamo` is given."""
    shared = dynamo or Dynamo()
    return Catalog(
        CatalogLeases(catalog_table, shared), CatalogRegister(CatalogAdmin(catalog_table, tokens_table, shared))
    )
