"""Describe the latest version of a table, and which clients can read it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltaic.catalog.items import Table
from deltaic.delta.features import PARQUET_MISREADS

from deltaic_ops.inspection.client_limits import (
    folder_limits,
    iceberg_limits,
    iceberg_refusal,
    is_odd,
    unsupported_in_folders,
)
from deltaic_ops.inspection.shared_schema import SchemaReader, SharedSchema

if TYPE_CHECKING:
    from deltaic.delta.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ClientReads:
    """Result for a group of clients: whether they can read the table, with a remark."""

    clients: str
    reads: bool
    remark: str = ""
    """Reason why they cannot read it, or a limitation if they can; empty without either."""


def clients_of(schema: SharedSchema, features: frozenset[str], table: Table | None) -> Iterator[ClientReads]:
    """Yield for each group of clients whether it can read a table; `table` is None if not shared."""
    by_url = table is None or "url" in table.access_modes
    folder_alone = "" if by_url else "needs --access-mode url"
    kernel = f"except Python, which rejects {schema.unscaled[0]}" if schema.unscaled else ""
    misread = sorted(features & PARQUET_MISREADS)
    yield ClientReads("delta format: Python 1.1 and later, Spark, the page /explore", by_url, folder_alone or kernel)
    yield ClientReads(
        "parquet format: Python before 1.1, npm, streamed change feeds of Spark",
        by_url and not misread,
        folder_alone or (f"{', '.join(misread)}: share a view, or a copy without the feature" if misread else ""),
    )
    by_folder = table is None or "dir" in table.client_modes
    yield ClientReads(
        "credentials for the folder: deltalake, polars, duckdb, daft, Snowflake",
        by_folder and not (unsupported_in_folders(schema) or is_odd(schema.location) or schema.unscaled),
        "; ".join(folder_limits(schema)) if by_folder else _folder_remark(table),
    )
    is_iceberg = table is not None and table.format == "iceberg"
    refusal = "" if is_iceberg else iceberg_refusal(schema)
    if table is not None and not table.iceberg:
        can_read, remark = False, refusal or "needs --iceberg signed" + " --access-mode dir" * is_iceberg
    else:
        can_read, remark = not refusal, "" if is_iceberg else "; ".join(iceberg_limits(schema))
    yield ClientReads("Iceberg: pyiceberg, Spark, DuckDB", can_read, remark)


def _folder_remark(table: Table | None) -> str:
    if table is not None and table.format == "iceberg":
        return "not possible: they read Delta logs"
    if table is not None and table.is_filtered:
        return (
            "not possible: the table is filtered, and credentials give access to all files (Snowflake and BigQuery "
            "document no other way to read)"
        )
    return "needs --access-mode url --access-mode dir --history"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Size, columns, features and readers of the latest version of a table."""

    version: int
    committed_at: datetime
    files: int
    bytes: int
    columns: dict[str, str]
    """Column types (as in SQL) by column name."""

    partitioned_by: tuple[str, ...]
    features: tuple[str, ...]
    """Reader features in use (Delta protocol, "Table Features")."""

    formats: tuple[str, ...]
    """Response formats that can represent the table; requests for another format get an error."""

    checkpoint: int | None
    """Version of the last checkpoint in the log; None without a checkpoint, as for Iceberg tables."""

    clients: tuple[ClientReads, ...]


def read_facts(schemas: SchemaReader, table: Table) -> TableFacts:
    """Read the facts about a shared table; raises DeltaicError if Delta Sharing clients cannot read it."""
    return schemas.look(table, lambda latest: facts_of(latest, table))


def facts_of(snapshot: "Snapshot", table: Table | None, schema: SharedSchema | None = None) -> TableFacts:
    """Return the facts about a snapshot; `table` is its catalog entry, or None if it is not shared."""
    live, totals = snapshot.live_features, snapshot.totals()
    schema = schema or SharedSchema(snapshot.metadata, snapshot.protocol, table.location if table else "")
    return TableFacts(
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
