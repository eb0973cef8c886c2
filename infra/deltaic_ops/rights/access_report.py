"""Decide whether a recipient can read a table now, by which rule, and how many files and rows."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Recipient, Restrictions, Table
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import DeltaicError, NotFound, PermissionDenied, TooManyRequests, Unauthenticated, Unavailable
from deltaic.protocol.gates import TableGate
from deltaic.sharing.caller import RequestedTable
from deltaic.sharing.rights.admission import check_admitted
from deltaic.sharing.rights.row_filters import filtered_rights
from deltaic.sharing.rights.table_rights import Rights
from msgspec.structs import replace

from deltaic_ops.inspection.filter_checks import missing_properties, row_filters
from deltaic_ops.inspection.shared_schema import SchemaReader

if TYPE_CHECKING:
    from deltaic.delta.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Counted:
    """Size of the result of a query of the latest version."""

    version: int | None = None
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    """None if a file has no row count."""

    not_counted: str = ""
    """Why nothing could be counted; empty if it was."""


def counted(schemas: SchemaReader, table: Table, rights: Rights, first_version: int) -> Counted:
    """Count visible files and rows of a table's latest version, from its log, with the operator's credentials."""
    gate = TableGate(table.name, table.history, first_version)
    try:
        counts = schemas.look(table.location, table.storage, lambda snapshot: _count(snapshot, rights))
        gate.check_version(counts.version or 0)
    except DeltaicError as refusal:
        return Counted(not_counted=refusal.message)
    return counts


def _count(snapshot: "Snapshot", rights: Rights) -> Counted:
    from deltaic.sharing.page import live_rows
    from deltaic.sharing.rights.table_visibility import check_hidden, visibility_of

    check_hidden(rights, snapshot.protocol, snapshot.metadata)
    visible = visibility_of(rights, snapshot.metadata)
    files = size = rows = without_statistics = 0
    for batch in snapshot.files(visible.row_filter(None)):
        files += batch.num_rows
        size += sum(batch["size"].to_pylist())
        without_statistics += batch["stats"].null_count
        rows += sum(live_rows(batch, row) for row in range(batch.num_rows))
    return Counted(snapshot.version, files, size, None if without_statistics else rows)


@dataclass(frozen=True, slots=True)
class Access:
    """The decision about a recipient's request for a table."""

    recipient: str
    table: str
    allowed: bool
    rule: str
    """The rule that decides, as text."""

    row_filters: tuple[str, ...] = ()
    """Filters of the table and of the grant, as SQL."""

    lacked_properties: tuple[str, ...] = ()
    """Properties that a filter needs and the recipient does not have."""

    hidden_columns: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()
    first_version: int | None = None
    """First version of the shared history; None if only the latest version is shared."""

    ends_at: datetime | None = None
    """End of the grant or of the recipient, whichever is earlier."""

    counted: Counted | None = None
    """Visible files and rows, if requested."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to decide about."""

    person: Recipient
    name: RequestedTable
    now: datetime
    address: str = ""
    """IP address of the client; empty for an address that is allowed."""


def access_of(
    admin: CatalogAdmin, reader: CatalogReader, asked: Asked, schemas: Callable[[], SchemaReader] | None = None
) -> Access:
    """Return the decision about a request, with counts if `schemas` is given to read logs.

    Does not consider tokens, limits and errors of the table's log. Raises TooManyRequests and Unavailable if the
    catalog cannot be read.
    """
    person, name = asked.person, asked.name
    try:
        granted = reader.with_admission(_admission(asked)).get_table(person.id, name.share, name.schema, name.table)
        rights, first = filtered_rights(reader, granted)
    except (TooManyRequests, Unavailable):  # temporary errors are no decision
        raise
    except DeltaicError as refusal:
        return Access(person.name, str(name), allowed=False, rule=_why_not(admin, asked, refusal))
    table = granted.table
    lacking = missing_properties(granted.properties, table, granted.grant)
    return Access(
        person.name,
        table.title,
        allowed=True,
        rule=f"grant of share '{granted.grant.share}': {_granted_rows(table, rights, lacking)}",
        row_filters=tuple(row_filters(table, granted.grant)),
        lacked_properties=tuple(lacking),
        hidden_columns=table.hidden_columns,
        access_modes=granted.listing_entry.access_modes,
        first_version=first if table.history else None,
        ends_at=min(filter(None, (granted.grant.ends_at, granted.restrictions.ends_at)), default=None),
        counted=counted(schemas(), table, rights, first) if schemas else None,
    )


def _admission(asked: Asked) -> Callable[[Restrictions], None]:
    def admit(restrictions: Restrictions) -> None:
        anywhere = restrictions if asked.address else replace(restrictions, addresses=())
        check_admitted(anywhere, asked.address, asked.now)

    return admit


def _granted_rows(table: Table, rights: Rights, lacking: list[str]) -> str:
    if lacking:
        return f"no rows, because the recipient does not have these properties: {', '.join(lacking)}"
    if table.view_properties is not None:
        return "the recipient's rows of the view"
    return "rows that match the filters" if rights.filters else "all rows"


def why_ended(person: Recipient) -> str:
    """Return a message that a recipient is cut off or has ended, with the time."""
    if person.cut_off_at is not None:
        return f"'{person.name}' was cut off at {person.cut_off_at:%Y-%m-%d %H:%M} UTC"
    return f"the access of '{person.name}' ended at {person.ends_at:%Y-%m-%d %H:%M} UTC"


def _why_not(admin: CatalogAdmin, asked: Asked, refusal: DeltaicError) -> str:
    person = asked.person
    match refusal:
        case Unauthenticated():
            return why_ended(person)
        case PermissionDenied():
            return f"{asked.address} is not an allowed address of '{person.name}': {', '.join(person.addresses)}"
        case NotFound():
            return _absence(admin, asked)
        case _:
            return refusal.message


def _absence(admin: CatalogAdmin, asked: Asked) -> str:
    """Return what is missing: the grant, share, schema or table, which look the same to recipients."""
    person, name = asked.person, asked.name
    try:
        share = admin.shares.get(name.share).name
        try:
            grant = admin.grants.get(person.name, share)
        except NotFound:
            return f"'{person.name}' has no grant of share '{share}'"
        if grant.has_ended(asked.now):
            return f"the grant of share '{share}' ended at {grant.ends_at:%Y-%m-%d %H:%M} UTC"
        admin.schemas.get(name.share, name.schema)
        table = admin.tables.get(name.share, name.schema, name.table)
    except NotFound as absent:
        return absent.message
    if table.unlisted:
        return f"table '{table.title}' is hidden from recipients: {table.unlisted}"
    return "the catalog has changed in the meantime: try again"
