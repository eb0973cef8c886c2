"""Validate row filters and hidden columns against tables, and warn of recipients who would see no rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Grant, Recipient, Table
from deltaic.errors import DeltaicError, InvalidParameter, NotFound, UnsupportedOperation
from deltaic.partition_filters import parse
from deltaic.partition_filters.conditions import (
    Condition,
    FilterAnd,
    FilterComparison,
    FilterIn,
    FilterNot,
    FilterOr,
    FilterStartsWith,
    PartitionFilter,
    Property,
)
from deltaic.partition_filters.properties import value_of
from deltaic.storage.locations import Location
from msgspec.structs import replace

from deltaic_ops.inspection.client_limits import folder_limits, history_limits, iceberg_limits
from deltaic_ops.inspection.folder_contents import tables_below
from deltaic_ops.inspection.shared_schema import SchemaReader, SharedSchema, check_filter, check_hidden
from deltaic_ops.inspection.survey import survey
from deltaic_ops.inspection.table_lint import lint_warnings

READERS = 8
"""Number of Delta logs that are read concurrently."""


def validate_table(
    admin: CatalogAdmin,
    schemas: Callable[[], SchemaReader],
    table: Table,
    before: Table | None,
    *,
    unchecked: bool = False,
) -> tuple[Table, list[str]]:
    """Validate a catalog entry of a table; return warnings, and the entry with hidden columns in the table's case.

    Warnings name recipients who see no rows because of a new row filter. For a new or moved table they include findings
    of `deltaic lint`, otherwise only problems of newly enabled access modes. Raises InvalidParameter unless row filter,
    hidden columns and filters of grants match the table, and the reader's error if the table cannot be read. Settings
    that equal those of `before` are not checked again; an `unchecked` table is read only if it is filtered.
    """
    place = ("location", "storage", "format", "metadata_location")
    moved = before is None or any(getattr(table, name) != getattr(before, name) for name in place)

    def is_changed(name: str) -> bool:
        return moved or getattr(table, name) != getattr(before, name)

    unknown = unknown_bucket(admin, table.location) if moved else []
    rows = table.partition_filter if is_changed("partition_filter") else ""
    hidden = table.hidden_columns if is_changed("hidden_columns") else ()
    candidates = admin.grants.of_share(table.share) if is_changed("access_modes") else ()
    grants = [grant for grant in candidates if grant.partition_filter]
    is_filtered = bool(rows or hidden or grants)
    if table.format == "iceberg":
        is_read = not unchecked and (is_changed("access_modes") or is_changed("iceberg"))
        lines = schemas().check_iceberg(table) if is_read else []
        if is_filtered:
            _check_filters(rows, grants, table, schemas().read(table))
        return table, [*lines, *unknown, *(_warn_recipients(admin, table) if rows else [])]
    by_folder = "dir" in table.access_modes and is_changed("access_modes")
    by_iceberg = bool(table.iceberg) and (moved or is_changed("iceberg"))
    is_read = is_filtered or (not unchecked and (moved or by_folder or by_iceberg))
    with_history = table.history and is_changed("history") and not unchecked
    if not (is_read or with_history):
        return table, unknown
    try:
        surveyed = survey(schemas(), table.location, table.storage, table) if moved and not unchecked else None
        schema = surveyed.schema if surveyed else schemas().read(table)
    except NotFound:  # the storage, which the message names
        raise
    except DeltaicError as refusal:
        if not is_read:
            return table, unknown
        if isinstance(refusal, UnsupportedOperation):  # recipients cannot read it either
            raise
        if tables := tables_below(schemas(), table.location, table.storage):
            remedy = f"share them with `deltaic share follow {table.share} --folder {table.location}`, or name one"
            message = f"{table.location} is no Delta table, but a folder of tables ({', '.join(tables)}): {remedy}"
            raise type(refusal)(message) from refusal
        remedy = "" if is_filtered else ", or skip this check with --unchecked"
        raise type(refusal)(f"{refusal.message}. Correct --location or --storage{remedy}") from refusal
    _check_filters(rows, grants, table, schema)
    stored = replace(table, hidden_columns=check_hidden(hidden, schema)) if hidden else table
    if surveyed:
        lines = lint_warnings(surveyed, table)
    else:
        checks = ((by_folder, folder_limits), (with_history, history_limits), (by_iceberg, iceberg_limits))
        lines = [line for applies, check in checks if applies for line in check(schema)]
    return stored, [*lines, *unknown, *(_warn_recipients(admin, stored) if rows else [])]


def unknown_bucket(admin: CatalogAdmin, location: str) -> list[str]:
    """Return a warning if overlaps of a location with other shared folders cannot be checked."""
    warning = (
        f"cannot check whether other shared folders overlap {location}: the bucket of its access point is unknown. Use "
        "the bucket instead of the access point, or credentials that can call s3:GetAccessPoint"
    )
    return [warning] if admin.buckets.is_unknown(Location.parse(location)) else []


def iceberg_warnings(schemas: Callable[[], SchemaReader], table: Table) -> list[str]:
    """Return warnings if a table is shared with Iceberg clients, but they cannot read it; reads the table's log."""
    if not table.iceberg:
        return []
    try:
        if table.format == "iceberg":
            return schemas().check_iceberg(table)
        return list(iceberg_limits(schemas().read(table)))
    except DeltaicError as refusal:
        return [f"cannot check whether Iceberg clients can read the table: {refusal.message}"]


def _check_filters(rows: str, grants: Iterable[Grant], table: Table, schema: SharedSchema) -> None:
    """Raise InvalidParameter unless a row filter and those of grants, whose recipients it names, match the table."""
    if rows:
        check_filter(rows, schema)
    for grant in grants:
        try:
            _check_urls(table)
            check_filter(grant.partition_filter, schema)
        except InvalidParameter as error:
            raise InvalidParameter(
                f"the grant of '{grant.share}' to '{grant.recipient}' has the filter {grant.partition_filter}, which "
                f"does not match this table: {error.message}. Put the table into another share, or change the filter: "
                f"deltaic grant update {grant.recipient} {grant.share}"
            ) from error


def _check_urls(table: Table) -> None:
    if table.view_properties is not None:
        raise InvalidParameter("the table is a view, whose SQL selects recipients' rows: use a share without views")
    if "url" not in table.access_modes:
        raise InvalidParameter(
            "the table has only access mode 'dir', with credentials for the whole folder: add access mode 'url'"
        )


def check_grant(text: str, tables: Iterable[Table], schemas: SchemaReader) -> None:
    """Raise DeltaicError, which names the table, unless a grant's row filter matches all tables of its share."""
    parse(text)

    def check(table: Table) -> None:
        try:
            _check_urls(table)
            check_filter(text, schemas.read(table))
        except InvalidParameter as error:
            raise InvalidParameter(f"the filter does not match table {table.title}: {error.message}") from error
        except DeltaicError as error:
            name = table.title
            raise type(error)(
                f"the filter cannot be checked against table {name}: {error.message}. Correct its entry or stop "
                f"sharing it: deltaic table update {name} --location ..., or deltaic table delete {name}"
            ) from error

    with ThreadPoolExecutor(READERS) as pool:
        # Unlisted tables are checked when they are listed again (deltaic.scheduled.source_check).
        list(pool.map(check, [table for table in tables if not table.unlisted]))


def row_filters(table: Table, grant: Grant) -> list[str]:
    """Return the row filters of a table and a grant, as SQL; both are empty for views, which filter themselves."""
    return [text for text in (table.partition_filter, grant.partition_filter) if text]


def missing_properties(properties: Mapping[str, str], table: Table, grant: Grant) -> list[str]:
    """Return the names of properties that a recipient lacks, but needs to see rows of a table."""
    filters = map(parse, row_filters(table, grant))
    return missing_for_filters(properties, filters, table.view_properties or ())


def missing_for_filters(
    properties: Mapping[str, str], filters: Iterable[PartitionFilter], view_properties: Iterable[str] = ()
) -> list[str]:
    """Return the names of properties that row filters and a view need, but that `properties` does not provide.

    A property does not count if its value is an empty list, or a list where the filter compares a single value. Types
    of columns are not considered.
    """
    filters = list(filters)
    needed = {name for filter_ in filters for name in filter_.properties}.union(view_properties)
    values = {name: value_of(properties[name]) for name in needed & properties.keys()}
    lists = {name for name, value in values.items() if isinstance(value, tuple)}
    single = {name for filter_ in filters for name in _single_value_properties(filter_.condition)}
    return sorted(name for name in needed if name not in values or values[name] == () or name in lists & single)


def _single_value_properties(condition: Condition) -> Iterator[str]:
    """Yield the names of properties that a condition compares as a single value, not as a list."""
    match condition:
        case FilterAnd(conditions) | FilterOr(conditions):
            for operand in conditions:
                yield from _single_value_properties(operand)
        case FilterNot(inner):
            yield from _single_value_properties(inner)
        case FilterComparison(_, left, right):
            yield from (operand.name for operand in (left, right) if isinstance(operand, Property))
        case FilterIn(Property() as operand) | FilterStartsWith(Property() as operand):
            yield operand.name


def warnings(admin: CatalogAdmin, recipient: Recipient, grants: Iterable[Grant]) -> list[str]:
    """Return a warning for each table of which a recipient sees no rows, because it lacks a property."""
    lines: list[str] = []
    for grant in grants:
        with suppress(NotFound):  # the share is being deleted
            lines += [line for table in admin.tables.list(grant.share) if (line := _warning(recipient, table, grant))]
    return lines


def _warn_recipients(admin: CatalogAdmin, table: Table) -> list[str]:
    grants = {grant.recipient_id: grant for grant in admin.grants.of_share(table.share)}
    candidates = ((recipient, grants[recipient.id]) for recipient in admin.recipients.list() if recipient.id in grants)
    return [line for recipient, grant in candidates if (line := _warning(recipient, table, grant))]


def _warning(recipient: Recipient, table: Table, grant: Grant) -> str:
    names = missing_properties(recipient.properties, table, grant)
    if not names:
        return ""
    missing = f"propert{'y' if len(names) == 1 else 'ies'} {', '.join(names)}"
    return f"'{recipient.name}' sees no rows of {table.title}: missing {missing}"
