"""What the log of a table says at its latest version, and which clients can read it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltaic.catalog.items import Table
from deltaic.delta.features import PARQUET_MISREADS

from deltaic_ops.inspection.shared_schema import (
    SchemaReader,
    SharedSchema,
    is_odd,
    missed_by_folder,
    missed_by_iceberg,
    unread_in_folders,
)

if TYPE_CHECKING:
    from deltaic.delta.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ClientReads:
    """What the clients of one kind can do with a table."""

    clients: str
    reads: bool
    remark: str = ""
    """Why they cannot, or what they have to know."""


def clients_of(schema: SharedSchema, features: frozenset[str], table: Table | None) -> Iterator[ClientReads]:
    """Yield each kind of clients; of a table that is not shared yet by its log alone."""
    by_url = table is None or "url" in table.access_modes
    folder_alone = "" if by_url else "it is shared by its folder alone: --access-mode url"
    kernel = f"all but Python's, which refuses {schema.unscaled[0]}" if schema.unscaled else ""
    misread = sorted(features & PARQUET_MISREADS)
    yield ClientReads("delta format: Python's from 1.1 on, Spark's, the page /explore", by_url, folder_alone or kernel)
    yield ClientReads(
        "parquet format: Python's before 1.1, npm's, Spark's feeds in streams",
        by_url and not misread,
        folder_alone or (f"{', '.join(misread)}: a view, or a copy without, serves them" if misread else ""),
    )
    by_folder = table is None or "dir" in table.access_modes
    yield ClientReads(
        "the folder by credentials: deltalake, polars, duckdb, daft",
        by_folder and not (unread_in_folders(schema) or is_odd(schema.location) or schema.unscaled),
        "; ".join(missed_by_folder(schema)) if by_folder else _no_folder(table),
    )
    unread = list(missed_by_iceberg(schema))
    open_to_iceberg = table is None or bool(table.iceberg)
    yield ClientReads(
        "Iceberg: pyiceberg, Spark, DuckDB",
        open_to_iceberg and not unread,
        "; ".join(unread) or ("" if open_to_iceberg else "it is not open to them: --iceberg signed"),
    )


def _no_folder(table: Table | None) -> str:
    if table is not None and table.is_restricted:
        return "not all of it is shared, and credentials read all"
    return "it is shared by URLs alone: --access-mode url --access-mode dir --history"


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
