"""Write and read the runs table: a Delta table with one row for each run, appended under the table's lease.

The library deltalake writes the row in some milliseconds, without Spark. The package for clusters does not contain it,
because it would add 54 MB, so there the run's Spark session writes the row.
"""

import json
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaic.catalog.leases import Leases
from deltaic.errors import NotFound, Unavailable

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.lease import acquire, holder_name
from deltaic_pipeline.table.sources import catalog_location, spark_path
from deltaic_pipeline.table.table_properties import latest_snapshot
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction
from deltaic_pipeline.table.writing import write

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

WAIT = timedelta(seconds=60)
"""Maximum time to wait while another run writes its row into the same table."""


def schema() -> "pa.Schema":
    """Return the columns of the runs table."""
    import pyarrow as pa

    text, count, instant = pa.string(), pa.int64(), pa.timestamp("us", tz="UTC")
    expectation = [("name", text), ("action", text), ("at_most", text), ("failing", count), ("met", pa.bool_())]
    phases = [("phase", text), ("seconds", pa.float64())]
    counts = ("read", "written", "changed", "deleted", "unchanged", "quarantined", "dropped")
    return pa.schema([
        ("dataset", text), ("run", text), ("location", text), ("began", instant), ("seconds", pa.float64()),
        ("exit", pa.int32()), ("message", text), ("repeated", pa.bool_()), ("version_before", count),
        ("version_after", count), *((f"rows_{name}", count) for name in counts),
        ("expectations", pa.list_(pa.struct(expectation))), ("phases", pa.list_(pa.struct(phases))),
    ])  # fmt: skip


def transaction_of(dataset: str, location: str, run_id: str, *, done: bool, unchanged: str = "") -> Transaction:
    """Return the transaction that appends a run's row; a finished run that is repeated gets the same transaction.

    Each failed attempt (not `done`) gets a new transaction, so that its row is always appended. `unchanged` is the id
    of the target table if the run had nothing to commit.
    """
    extra = {"table": unchanged} if unchanged else {}
    if not done:
        extra = {"attempt": uuid.uuid4().hex}
    mark = {"dataset": dataset, "run": run_id, "target": catalog_location(location), **extra}
    return Transaction(f"deltaic-runs/{json.dumps(mark, sort_keys=True)}", 1, mark)


def open_table(location: str, access: S3Access) -> "DeltaTable | None":
    """Return the runs table; None if it does not exist or cannot be read, or if deltalake is not installed."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:  # in the package for clusters
        return None
    try:
        return DeltaTable(catalog_location(location), storage_options=access.deltalake())
    except (DeltaError, OSError, ValueError):
        return None


def has_row(spark: "SparkSession", location: str, transaction: Transaction) -> bool:
    """Return whether the runs table contains the row that a transaction appended."""
    transactions = latest_snapshot(spark, spark_path(catalog_location(location))).transactions()
    return bool(transactions.contains(transaction.application))


def append(  # noqa: PLR0913, PLR0917 -- the row, its table, and the clients that write it
    location: str,
    row: Mapping[str, Any],
    leases: Leases,
    access: S3Access,
    spark: "SparkSession | None",
    unchanged: str = "",
) -> None:
    """Append the row of a run, unless the table contains it already; raises DeltaicError.

    Without deltalake, `spark` writes the row; without `spark`, no row is written. `unchanged`: see `transaction_of`.
    """
    import pyarrow as pa

    table_location, rows = catalog_location(location), pa.Table.from_pylist([dict(row)], schema())
    done = row["exit"] == 0
    transaction = transaction_of(row["dataset"], row["location"], row["run"], done=done, unchanged=unchanged)
    try:
        import deltalake  # noqa: F401 -- checks that it is installed
    except ImportError:
        if spark is None:
            return
        with acquire(leases, table_location, holder_name(row["run"]), wait=WAIT) as lease, refusals():
            target = DeltaTarget(table_location, "append", change_data_feed=False, evolve_schema=True)
            write(spark, spark.createDataFrame(rows), target, transaction)
            lease.confirm()
        return
    with acquire(leases, table_location, holder_name(row["run"]), wait=WAIT) as lease:
        _append(table_location, rows, transaction, access)
        lease.confirm()


def _append(location: str, rows: "pa.Table", transaction: Transaction, access: S3Access) -> None:
    from deltalake import CommitProperties, write_deltalake
    from deltalake import Transaction as Mark

    table = open_table(location, access)
    if table is not None and table.transaction_version(transaction.application) is not None:
        return
    properties = CommitProperties(
        custom_metadata={"userMetadata": transaction.user_metadata},
        app_transactions=[Mark(transaction.application, transaction.version)],
    )
    try:
        write_deltalake(
            location,
            rows,
            mode="append",
            schema_mode="merge",
            storage_options=access.deltalake(),
            commit_properties=properties,
        )
    except Exception as failure:  # for a table with other columns, deltalake raises a plain Exception
        raise PipelineError(f"{type(failure).__name__}: {failure}") from failure


def rows(location: str, access: S3Access, dataset: str = "", *, failed: bool = False) -> list[dict[str, Any]]:
    """Return the runs of one dataset or of all, sorted by begin, from the runs table; needs no Spark.

    `failed` selects runs whose exit code is not 0. Raises NotFound if there is no runs table, and Unavailable.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    condition = pc.scalar(value=True)
    if dataset:
        condition &= pc.field("dataset") == dataset
    if failed:
        condition &= pc.field("exit") != 0
    try:
        table = DeltaTable(catalog_location(location), storage_options=access.deltalake())
        runs: list[dict[str, Any]] = table.to_pyarrow_dataset().to_table(filter=condition).to_pylist()
    except TableNotFoundError:
        raise NotFound(f"there is no runs table at {location}: the first run of a dataset creates it") from None
    except (DeltaError, OSError, ValueError, pa.ArrowException) as failure:
        raise Unavailable(f"the runs table {location} cannot be read: {failure}") from failure
    return sorted(runs, key=lambda row: row["began"])


def refuse_overlap(runs: str, tables: Mapping[str, str]) -> None:
    """Raise `PipelineError` if the folder of the runs table overlaps with the folder of one of `tables`."""
    folder = f"{catalog_location(runs)}/"
    for name, location in tables.items():
        other = f"{catalog_location(location)}/"
        if folder.startswith(other) or other.startswith(folder):
            raise PipelineError(f"--runs {runs} overlaps the folder of {name}, {location}. Choose a separate folder.")
