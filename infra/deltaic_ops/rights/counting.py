"""How much of a table a recipient gets now: its files, their bytes and their rows, by the rights that answer it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError
from deltaic.protocol.gates import TableGate
from deltaic.sharing.rights.rights import Rights

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
