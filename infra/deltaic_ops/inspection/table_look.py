"""What the log of a shared table says at its latest version, for who has to know who can read it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltaic.catalog.items import Table
from deltaic.delta.features import PARQUET_MISREADS

from deltaic_ops.inspection.clients import ClientReads, clients_of
from deltaic_ops.inspection.shared_schema import SchemaReader, SharedSchema

if TYPE_CHECKING:
    from deltaic.delta.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TableLook:
    """A table at its latest version."""

    version: int
    committed_at: datetime
    files: int
    bytes: int
    columns: dict[str, str]
    """Their types by their names."""

    partitioned_by: tuple[str, ...]
    features: tuple[str, ...]
    """The reader features that are in use (Delta protocol, "Table Features")."""

    formats: tuple[str, ...]
    """In which it can be answered: clients that read the other alone are refused."""

    checkpoint: int | None
    """The version of the log's checkpoint; None where every commit is read."""

    clients: tuple[ClientReads, ...]


def look_at(schemas: SchemaReader, table: Table) -> TableLook:
    """Read a table's log with the operator's credentials; raises why it cannot be read."""
    return schemas.look(table.location, table.storage, lambda latest: look_of(latest, table))


def look_of(snapshot: "Snapshot", table: Table | None, schema: SharedSchema | None = None) -> TableLook:
    """Return what a version of a log says; `table` is how it is shared, if it is, `schema` what is known already."""
    live, totals = snapshot.live_features, snapshot.totals()
    schema = schema or SharedSchema(snapshot.metadata, snapshot.protocol, table.location if table else "")
    return TableLook(
        version=snapshot.version,
        committed_at=datetime.fromtimestamp(snapshot.timestamp / 1000, UTC),
        files=totals.num_files,
        bytes=totals.size_in_bytes,
        columns=schema.types,
        partitioned_by=tuple(snapshot.metadata.partition_columns),
        features=tuple(sorted(live)),
        formats=("delta",) if live & PARQUET_MISREADS else ("parquet", "delta"),
        checkpoint=snapshot.checkpoint_version,
        clients=tuple(clients_of(schema, live, table)),
    )
