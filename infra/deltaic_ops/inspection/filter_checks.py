"""What narrows a share must fit its tables before it is stored; and who sees nothing, as it lacks a property."""

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

from deltaic_ops.inspection.lint import warned
from deltaic_ops.inspection.shared_schema import (
    SchemaReader,
    SharedSchema,
    check_filter,
    check_hidden,
    missed_by_folder,
    missed_by_history,
    missed_by_iceberg,
)
from deltaic_ops.inspection.survey import survey

READERS = 8
"""Logs that are read at the same time, each of which may have many commits behind its checkpoint."""


def fitted(
    admin: CatalogAdmin,
    schemas: Callable[[], SchemaReader],
    wanted: Table,
    before: Table | None,
    *,
    unchecked: bool = False,
) -> tuple[Table, list[str]]:
    """Return a table entry as it may be stored, its hidden columns spelled as the table spells them; and warnings.

    Warnings are of who sees no rows by a new filter, and of what those run into with whom it is shared: of a table that
    is shared newly or moves all that `deltaic lint` finds, or else what concerns a way that is new.
    Raises InvalidParameter unless its filter, its hidden columns and the filters of grants of its share fit the table,
    and what the reader raises where there is no table that can be read. What is as it was `before` is not looked at
    again; an `unchecked` table is read only where something narrows it.
    """
    moved = before is None or (wanted.location, wanted.storage) != (before.location, before.storage)
    unknown = unknown_bucket(admin, wanted.location) if moved else []
    if wanted.format == "iceberg":
        if moved and not unchecked:
            schemas().check_iceberg(wanted)
        return wanted, unknown

    def new(name: str) -> bool:
        return moved or getattr(wanted, name) != getattr(before, name)

    rows = wanted.partition_filter if new("partition_filter") else ""
    hidden = wanted.hidden_columns if new("hidden_columns") else ()
    held = admin.grants.of_share(wanted.share) if new("access_modes") else ()
    grants = [grant for grant in held if grant.partition_filter]
    narrowed_somehow = bool(rows or hidden or grants)
    by_folder = "dir" in wanted.access_modes and new("access_modes")
    by_iceberg = bool(wanted.iceberg) and (moved or new("iceberg"))
    looked_at = narrowed_somehow or (not unchecked and (moved or by_folder or by_iceberg))
    with_history = wanted.history and new("history") and not unchecked
    if not (looked_at or with_history):
        return wanted, unknown
    try:
        whole = survey(schemas(), wanted.location, wanted.storage, wanted) if moved and not unchecked else None
        schema = whole.schema if whole else schemas().read(wanted.location, wanted.storage)
    except NotFound:  # its storage, told by its name
        raise
    except DeltaicError as refusal:
        if not looked_at:
            return wanted, unknown
        if isinstance(refusal, UnsupportedOperation):  # by recipients neither
            raise
        remedy = "" if narrowed_somehow else ", or share it unseen: --unchecked"
        raise type(refusal)(f"{refusal.message}. Correct --location or --storage{remedy}") from refusal
    if rows:
        check_filter(rows, schema)
    _check_held(grants, wanted, schema)
    stored = replace(wanted, hidden_columns=check_hidden(hidden, schema)) if hidden else wanted
    if whole:
        told = warned(whole, wanted)
    else:
        told = [*(missed_by_folder(schema) if by_folder else []), *(missed_by_history(schema) if with_history else [])]
        told += missed_by_iceberg(schema) if by_iceberg else []
    return stored, [*told, *unknown, *(_unseen(admin, stored) if rows else [])]


def unknown_bucket(admin: CatalogAdmin, location: str) -> list[str]:
    """Return a warning if nobody can tell which other folders overlap a location."""
    warning = (
        f"whether other shared folders overlap {location} cannot be checked, since the bucket of its access point is "
        "unknown: name the bucket itself, or use credentials that may call s3:GetAccessPoint"
    )
    return [warning] if admin.buckets.is_unknown(Location.parse(location)) else []


def unread_by_iceberg(schemas: Callable[[], SchemaReader], table: Table) -> list[str]:
    """Return why clients to whom a table is open cannot read it, if that can be told; its log is read for that."""
    if not table.iceberg:
        return []
    try:
        if table.format == "iceberg":
            schemas().check_iceberg(table)
            return []
        return list(missed_by_iceberg(schemas().read(table.location, table.storage)))
    except DeltaicError as refusal:
        return [f"whether Iceberg clients can read it cannot be told: {refusal.message}"]


def _check_held(grants: Iterable[Grant], table: Table, schema: SharedSchema) -> None:
    """Raise InvalidParameter, naming the recipient, unless the filters of grants fit a table of their share."""
    for grant in grants:
        try:
            _check_urls(table)
            check_filter(grant.partition_filter, schema)
        except InvalidParameter as wrong:
            raise InvalidParameter(
                f"'{grant.recipient}' holds '{grant.share}' with the filter {grant.partition_filter}, which does not "
                f"fit this table: {wrong.message}. Put the table into another share, or change the filter: "
                f"deltaic grant update {grant.recipient} {grant.share}"
            ) from wrong


def _check_urls(table: Table) -> None:
    if table.view_properties is not None:
        raise InvalidParameter("it is a view, whose SQL says what each recipient sees: grant a share without views")
    if "url" not in table.access_modes:
        raise InvalidParameter(
            "it is shared by access mode 'dir' alone, whose credentials read the whole folder: add the "
            "access mode 'url'"
        )


def check_grant(text: str, tables: Iterable[Table], schemas: SchemaReader) -> None:
    """Raise what is wrong, naming the table, unless the filter of a grant fits every table of its share."""
    parse(text)

    def check(table: Table) -> None:
        try:
            _check_urls(table)
            check_filter(text, schemas.read(table.location, table.storage))
        except InvalidParameter as wrong:
            raise InvalidParameter(f"the filter does not fit {table.title}: {wrong.message}") from wrong
        except DeltaicError as broken:
            name = table.title
            raise type(broken)(
                f"the filter cannot be compared with {name}: {broken.message}. Correct its entry, or share it no more, "
                f"then try again: deltaic table update {name} --location ..., or deltaic table delete {name}"
            ) from broken

    with ThreadPoolExecutor(READERS) as pool:
        # One that is not listed is compared when it comes back (deltaic.scheduled.following).
        list(pool.map(check, [table for table in tables if not table.unlisted]))


def row_filters(table: Table, grant: Grant) -> list[str]:
    """Return the SQL of what keeps rows of a table back from who holds a grant; of a view its own SQL does that."""
    return [text for text in (table.partition_filter, grant.partition_filter) if text]


def lacked(properties: Mapping[str, str], table: Table, grant: Grant) -> list[str]:
    """Return the properties without which who has these sees no rows of a table."""
    return lacked_by(properties, [parse(text) for text in row_filters(table, grant)], table.view_properties or ())


def lacked_by(
    properties: Mapping[str, str], filters: Iterable[PartitionFilter], of_view: Iterable[str] = ()
) -> list[str]:
    """Return the properties without which filters and a view keep all rows back from who has these.

    An empty list is none, and neither is a list where one value is compared. Whether a value is one of its column's
    type only the table tells.
    """
    filters = list(filters)
    asked = {name for one in filters for name in one.properties}.union(of_view)
    found = {name: value_of(properties[name]) for name in asked & properties.keys()}
    lists = {name for name, value in found.items() if isinstance(value, tuple)}
    alone = {name for one in filters for name in _compared_alone(one.condition)}
    return sorted(name for name in asked if name not in found or found[name] == () or name in lists & alone)


def _compared_alone(condition: Condition) -> Iterator[str]:
    """Yield the properties of which a condition takes one value, and no list."""
    match condition:
        case FilterAnd(conditions) | FilterOr(conditions):
            for one in conditions:
                yield from _compared_alone(one)
        case FilterNot(inner):
            yield from _compared_alone(inner)
        case FilterComparison(_, left, right):
            yield from (one.name for one in (left, right) if isinstance(one, Property))
        case FilterIn(operand) | FilterStartsWith(operand):
            yield from (one.name for one in (operand,) if isinstance(one, Property))


def warnings(admin: CatalogAdmin, recipient: Recipient, grants: Iterable[Grant]) -> list[str]:
    """Return a line for each table of which a recipient sees no rows, as it lacks a property."""
    said = []
    for grant in grants:
        with suppress(NotFound):  # a share whose deletion was begun
            said += [line for table in admin.tables.list(grant.share) if (line := _warning(recipient, table, grant))]
    return said


def _unseen(admin: CatalogAdmin, table: Table) -> list[str]:
    grants = {grant.recipient_id: grant for grant in admin.grants.of_share(table.share)}
    held = ((recipient, grants[recipient.id]) for recipient in admin.recipients.list() if recipient.id in grants)
    return [line for recipient, grant in held if (line := _warning(recipient, table, grant))]


def _warning(recipient: Recipient, table: Table, grant: Grant) -> str:
    names = lacked(recipient.properties, table, grant)
    if not names:
        return ""
    words = f"propert{'y' if len(names) == 1 else 'ies'} {', '.join(names)}"
    return f"'{recipient.name}' sees no rows of {table.title}: it lacks the {words}"
