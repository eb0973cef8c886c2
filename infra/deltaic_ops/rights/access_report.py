"""Explain whether and why a recipient can read a table, and count the files and rows that it sees."""

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
class ResultSize:
    """Size of what a recipient can read of a table's latest version."""

    version: int | None = None
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    """Number of rows; None if a file has no row count in its statistics."""

    not_counted: str = ""
    """Error message if files and rows could not be counted; otherwise empty."""


def count_result(schemas: SchemaReader, table: Table, rights: Rights, first_version: int) -> ResultSize:
    """Count the files and rows of a table's latest version that a recipient sees, with operator's credentials."""
    gate = TableGate(table.name, table.history, first_version)
    try:
        counts = schemas.look(table, lambda snapshot: _count(snapshot, rights))
        gate.check_version(counts.version or 0)
    except DeltaicError as refusal:
        return ResultSize(not_counted=refusal.message)
    return counts


def _count(snapshot: "Snapshot", rights: Rights) -> ResultSize:
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
    return ResultSize(snapshot.version, files, size, None if without_statistics else rows)


@dataclass(frozen=True, slots=True)
class Access:
    """Decision about a recipient's request for a table, and the rule on which it is based."""

    recipient: str
    table: str
    allowed: bool
    rule: str
    """The rule on which the decision is based, as a phrase, such as `grant of share 'sales': all rows`."""

    row_filters: tuple[str, ...] = ()
    """Row filters of the table and of the grant, as SQL."""

    lacked_properties: tuple[str, ...] = ()
    """Names of properties that a row filter needs and the recipient does not have."""

    hidden_columns: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()
    first_version: int | None = None
    """First version of the shared history; None if only the latest version is shared."""

    ends_at: datetime | None = None
    """Expiry time of the grant or of the recipient's access, whichever is earlier; None without expiry."""

    counted: ResultSize | None = None
    """Files and rows that the recipient sees; None if no count was requested."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A hypothetical request of a recipient for a table, at a time and from an IP address."""

    recipient: Recipient
    name: RequestedTable
    now: datetime
    address: str = ""
    """IP address of the client; empty to assume an allowed address."""


def access_of(
    admin: CatalogAdmin,
    reader: CatalogReader,
    request: AccessRequest,
    schemas: Callable[[], SchemaReader] | None = None,
) -> Access:
    """Return whether the server would allow a request, and why; with `schemas`, also count the visible rows.

    Ignores tokens, request and byte limits, and errors in the table's log. Raises TooManyRequests and Unavailable if
    the catalog cannot be read.
    """
    recipient, name = request.recipient, request.name
    try:
        admitted = reader.with_admission(_admission(request))
        granted = admitted.get_table(recipient.id, name.share, name.schema, name.table)
        rights, first = filtered_rights(reader, granted)
    except (TooManyRequests, Unavailable):  # temporary errors are no decision
        raise
    except DeltaicError as refusal:
        return Access(recipient.name, str(name), allowed=False, rule=_why_not(admin, request, refusal))
    table = granted.table
    missing = missing_properties(granted.properties, table, granted.grant)
    return Access(
        recipient.name,
        table.title,
        allowed=True,
        rule=f"grant of share '{granted.grant.share}': {_granted_rows(table, rights, missing)}",
        row_filters=tuple(row_filters(table, granted.grant)),
        lacked_properties=tuple(missing),
        hidden_columns=table.hidden_columns,
        access_modes=granted.listing_entry.client_modes,
        first_version=first if table.history else None,
        ends_at=min(filter(None, (granted.grant.ends_at, granted.restrictions.ends_at)), default=None),
        counted=count_result(schemas(), table, rights, first) if schemas else None,
    )


def _admission(request: AccessRequest) -> Callable[[Restrictions], None]:
    def admit(restrictions: Restrictions) -> None:
        anywhere = restrictions if request.address else replace(restrictions, addresses=())
        check_admitted(anywhere, request.address, request.now)

    return admit


def _granted_rows(table: Table, rights: Rights, missing: list[str]) -> str:
    if missing:
        return f"no rows, because the recipient does not have these properties: {', '.join(missing)}"
    if table.view_properties is not None:
        return "the recipient's rows of the view"
    return "rows that match the filters" if rights.filters else "all rows"


def why_ended(recipient: Recipient) -> str:
    """Return a message that a recipient was cut off, or that its access has expired, and when."""
    if recipient.cut_off_at is not None:
        return f"'{recipient.name}' was cut off at {recipient.cut_off_at:%Y-%m-%d %H:%M} UTC"
    return f"the access of '{recipient.name}' ended at {recipient.ends_at:%Y-%m-%d %H:%M} UTC"


def _why_not(admin: CatalogAdmin, request: AccessRequest, refusal: DeltaicError) -> str:
    recipient = request.recipient
    match refusal:
        case Unauthenticated():
            return why_ended(recipient)
        case PermissionDenied():
            return (
                f"{request.address} is not an allowed address of '{recipient.name}': {', '.join(recipient.addresses)}"
            )
        case NotFound():
            return _absence(admin, request)
        case _:
            return refusal.message


def _absence(admin: CatalogAdmin, request: AccessRequest) -> str:
    """Return a message that names the missing grant, share, schema or table."""
    recipient, name = request.recipient, request.name
    try:
        share = admin.shares.get(name.share).name
        try:
            grant = admin.grants.get(recipient.name, share)
        except NotFound:
            return f"'{recipient.name}' has no grant of share '{share}'"
        if grant.has_ended(request.now):
            return f"the grant of share '{share}' ended at {grant.ends_at:%Y-%m-%d %H:%M} UTC"
        admin.schemas.get(name.share, name.schema)
        table = admin.tables.get(name.share, name.schema, name.table)
    except NotFound as absent:
        return absent.message
    if table.unlisted:
        return f"table '{table.title}' is hidden from recipients: {table.unlisted}"
    return "the catalog has changed in the meantime: try again"
