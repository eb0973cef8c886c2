"""The location that a load writes, and the catalog entries that share it."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.entry_admin import checked_location
from deltaic.catalog.items import Table
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound, UnsupportedOperation
from deltaic.protocol.names import check_name

from deltaic_ops.inspection.filter_checks import validate_table
from deltaic_ops.inspection.shared_schema import SchemaReader
from deltaic_ops.load.table_load import LoadMode


def find_target(
    admin: CatalogAdmin, name: Sequence[str], mode: LoadMode, location: str, bucket: str
) -> tuple[str, Table | None, list[str]]:
    """Return location (by default in `bucket`), entry, and missing share and schema; raises a DeltaicError."""
    missing, entry, title = list[str](), None, ".".join(name)
    stores: list[Any] = [admin.shares, admin.schemas, admin.tables]
    for depth, (kind, store) in enumerate(zip(("share", "schema", "table"), stores, strict=True), 1):
        check_name(kind, name[depth - 1])
        try:
            entry = store.get(*name[:depth])
        except NotFound:
            missing.append(f"{kind} {'.'.join(name[:depth])}")
    if not isinstance(entry, Table):
        for grant in () if f"share {name[0]}" in missing else admin.grants.of_share(name[0]):
            if grant.partition_filter:  # found here, because the entry is created after the load
                raise InvalidParameter(
                    f"the grant of '{grant.share}' to '{grant.recipient}' has a row filter, but a loaded table has no "
                    "partition columns: load it into another share"
                )
        if not location and not bucket:
            raise InvalidParameter("the table needs a location: use --to s3://bucket/folder")
        return checked_location(location or f"s3://{bucket}/{'/'.join(name)}"), None, missing[:-1]
    if mode == "create":
        raise AlreadyExists(f"table '{title}' exists: add rows with --append, or replace them with --replace")
    if entry.view_properties is not None or entry.format != "delta" or entry.storage:
        raise UnsupportedOperation(f"'{title}' is a view, an Iceberg table or outside AWS S3: load into another table")
    if location and checked_location(location) != entry.location:
        raise InvalidParameter(f"table '{title}' is at {entry.location}: leave out --to, or load into another table")
    return entry.location, entry, []


def share_target(
    admin: CatalogAdmin, name: Sequence[str], location: str, schemas: SchemaReader
) -> tuple[Table, list[str]]:
    """Create the missing share and schema and the table's entry after a load; return the entry and warnings."""
    warnings: list[str] = []

    def validate(table: Table, before: Table | None) -> Table:
        checked, warnings[:] = validate_table(admin, lambda: schemas, table, before)
        return checked

    share, schema, table = name
    with suppress(AlreadyExists):
        admin.shares.create(share)
    with suppress(AlreadyExists):
        admin.schemas.create(share, schema)
    return admin.tables.create(share, schema, table, location, validate=validate), warnings
