"""Whether a recipient may read a table now, the rule that says so, and how much of it there is to read."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Recipient, Restrictions, Table
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import DeltaicError, NotFound, PermissionDenied, TooManyRequests, Unauthenticated, Unavailable
from deltaic.protocol.gates import TableGate
from deltaic.sharing.caller import TableName
from deltaic.sharing.rights.admission import check_admitted
from deltaic.sharing.rights.rights import Rights
from deltaic.sharing.rights.row_filters import restricted_rights
from msgspec.structs import replace

from deltaic_ops.inspection.filter_checks import lacked, row_filters
from deltaic_ops.inspection.shared_schema import SchemaReader

if TYPE_CHECKING:
    from deltaic.delta.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Counted:
    """What a query of the latest version would give."""

    version: int | None = None
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    """None where a file does not tell its rows."""

    not_counted: str = ""
    """Why nothing could be counted."""


def counted(schemas: SchemaReader, table: Table, rights: Rights, first_version: int) -> Counted:
    """Count what rights leave of a table's latest version, whose log is read with the operator's credentials."""
    gate = TableGate(table.name, table.history, first_version)
    try:
        found = schemas.look(table.location, table.storage, lambda snapshot: _count(snapshot, rights))
        gate.check_version(found.version or 0)
    except DeltaicError as refusal:
        return Counted(not_counted=refusal.message)
    return found


def _count(snapshot: "Snapshot", rights: Rights) -> Counted:
    from deltaic.sharing.page import live_rows
    from deltaic.sharing.rights.table_visibility import check_hidden, visibility_of

    check_hidden(rights, snapshot.protocol, snapshot.metadata)
    visible = visibility_of(rights, snapshot.metadata)
    files = size = rows = untold = 0
    for batch in snapshot.files(visible.row_filter(None)):
        files += batch.num_rows
        size += sum(batch["size"].to_pylist())
        untold += batch["stats"].null_count
        rows += sum(live_rows(batch, place) for place in range(batch.num_rows))
    return Counted(snapshot.version, files, size, None if untold else rows)


@dataclass(frozen=True, slots=True)
class Access:
    """What a request of a recipient for a table comes to."""

    recipient: str
    table: str
    allowed: bool
    rule: str
    """What decides, in words."""

    row_filters: tuple[str, ...] = ()
    """The SQL of those that keep rows back: the table's, the grant's."""

    lacked_properties: tuple[str, ...] = ()
    """Properties of the recipient that a filter asks for and that it has not."""

    hidden_columns: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()
    first_version: int | None = None
    """Of the history that is shared; None: the latest version alone."""

    ends_at: datetime | None = None
    """When the grant or the recipient ends, whichever is first."""

    counted: Counted | None = None
    """What is there to read, if that was asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is judged."""

    person: Recipient
    name: TableName
    now: datetime
    address: str = ""
    """From where; empty: from where the recipient is answered."""


def access_of(
    admin: CatalogAdmin, reader: CatalogReader, asked: Asked, schemas: Callable[[], SchemaReader] | None = None
) -> Access:
    """Return what a request comes to, counted where logs can be read by `schemas`.

    Whether the recipient has a key is another matter, and so are its limits and the table's log. Raises TooManyRequests
    and Unavailable where the catalog cannot be asked.
    """
    person, name = asked.person, asked.name
    try:
        granted = reader.admitting(_admission(asked)).get_table(person.id, name.share, name.schema, name.table)
        rights, first = restricted_rights(reader, granted)
    except (TooManyRequests, Unavailable):  # trouble on the way decides nothing
        raise
    except DeltaicError as refusal:
        return Access(person.name, str(name), allowed=False, rule=_why_not(admin, asked, refusal))
    table = granted.table
    lacking = lacked(granted.properties, table, granted.grant)
    return Access(
        person.name,
        table.title,
        allowed=True,
        rule=f"a grant of the share '{granted.grant.share}', {_told(table, rights, lacking)}",
        row_filters=tuple(row_filters(table, granted.grant)),
        lacked_properties=tuple(lacking),
        hidden_columns=table.hidden_columns,
        access_modes=granted.listed.access_modes,
        first_version=first if table.history else None,
        ends_at=min(filter(None, (granted.grant.ends_at, granted.restrictions.ends_at)), default=None),
        counted=counted(schemas(), table, rights, first) if schemas else None,
    )


def _admission(asked: Asked) -> Callable[[Restrictions], None]:
    def admit(restrictions: Restrictions) -> None:
        anywhere = restrictions if asked.address else replace(restrictions, addresses=())
        check_admitted(anywhere, asked.address, asked.now)

    return admit


def _told(table: Table, rights: Rights, lacking: list[str]) -> str:
    if lacking:
        return f"of no rows: they are chosen by properties that the recipient has not ({', '.join(lacking)})"
    if table.view_properties is not None:
        return "of the rows that the view has for the recipient"
    return "of the rows that a filter keeps" if rights.filters else "of all rows"


def why_ended(person: Recipient) -> str:
    """Return since when nothing is answered to a recipient that is cut off or has ended."""
    if person.cut_off_at is not None:
        return f"'{person.name}' is cut off since {person.cut_off_at:%Y-%m-%d %H:%M} UTC"
    return f"'{person.name}' has ended at {person.ends_at:%Y-%m-%d %H:%M} UTC"


def _why_not(admin: CatalogAdmin, asked: Asked, refusal: DeltaicError) -> str:
    person = asked.person
    match refusal:
        case Unauthenticated():
            return why_ended(person)
        case PermissionDenied():
            return f"'{person.name}' is answered at {', '.join(person.addresses)}, and {asked.address} is none of them"
        case NotFound():
            return _absence(admin, asked)
        case _:
            return refusal.message


def _absence(admin: CatalogAdmin, asked: Asked) -> str:
    """Return what of a table is missing: to recipients all of it looks alike."""
    person, name = asked.person, asked.name
    try:
        share = admin.shares.get(name.share).name
        try:
            held = admin.grants.get(person.name, share)
        except NotFound:
            return f"'{person.name}' has no grant of the share '{share}'"
        if held.has_ended(asked.now):
            return f"the grant of the share '{share}' has ended at {held.ends_at:%Y-%m-%d %H:%M} UTC"
        admin.schemas.get(name.share, name.schema)
        table = admin.tables.get(name.share, name.schema, name.table)
    except NotFound as absent:
        return absent.message
    if table.unlisted:
        return f"'{table.title}' has left the listings: {table.unlisted}"
    return "the catalog has changed meanwhile: ask again"
