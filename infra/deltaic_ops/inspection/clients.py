"""Which clients can read a table: by what its latest version uses, and by the ways in which it is shared."""

from collections.abc import Iterator
from dataclasses import dataclass

from deltaic.catalog.items import Table
from deltaic.delta.features import PARQUET_MISREADS

from deltaic_ops.inspection.shared_schema import (
    SharedSchema,
    is_odd,
    missed_by_folder,
    missed_by_iceberg,
    unread_in_folders,
)


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
