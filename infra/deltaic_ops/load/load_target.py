"""The location that a load writes, and the catalog entries that share it."""

from collections.abc import Sequence
from contextlib import suppress

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.entry_admin import checked_location
from deltaic.catalog.items import Table
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound, UnsupportedOperation
from deltaic.protocol.names import check_name


def find_target(
    admin: CatalogAdmin, names: Sequence[str], location: str, bucket: str, *, creates: bool
) -> tuple[str, Table | None]:
    """Return the location, by default in `bucket`, and the entry if the table is shared; raises a DeltaicError."""
    title = ".".join(names)
    try:
        entry = admin.tables.get(*names)
    except NotFound:
        for kind, name in zip(("share", "schema", "table"), names, strict=True):
            check_name(kind, name)
        with suppress(NotFound):  # checked here, because the entry is created after the load
            if grant := next((grant for grant in admin.grants.of_share(names[0]) if grant.partition_filter), None):
                raise InvalidParameter(
                    f"the grant of '{grant.share}' to '{grant.recipient}' has a row filter, but a loaded table has no "
                    "partition columns: load it into another share"
                ) from None
        if not location and not bucket:
            raise InvalidParameter("the table needs a location: use --to s3://bucket/folder") from None
        return checked_location(location or f"s3://{bucket}/{'/'.join(names)}"), None
    if creates:
        raise AlreadyExists(f"table '{title}' exists: add rows with --append, or replace them with --replace")
    if entry.view_properties is not None or entry.format != "delta" or entry.storage:
        raise UnsupportedOperation(f"'{title}' is a view, an Iceberg table or outside AWS S3: load into another table")
    if location and checked_location(location) != entry.location:
        raise InvalidParameter(f"table '{title}' is at {entry.location}: leave out --to, or load into another table")
    return entry.location, entry


def share_table(admin: CatalogAdmin, names: Sequence[str], location: str) -> Table:
    """Create the missing share and schema, and the table's entry; return the entry."""
    share, schema, table = names
    with suppress(AlreadyExists):
        admin.shares.create(share)
    with suppress(AlreadyExists):
        admin.schemas.create(share, schema)
    return admin.tables.create(share, schema, table, location)
