"""The runs table: a row of Delta for each run, appended under the table's lease, once for each run that is done.

deltalake writes it where it is installed, which takes no Spark and some milliseconds; a cluster's package has none,
which would be 54 MB more, and there the session of the run writes it.
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
from deltaic_pipeline.table.table_properties import latest
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Transaction
from deltaic_pipeline.table.writing import write

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

WAIT = timedelta(seconds=60)
"""How long a run waits for another one that writes its row into the same table."""


def schema() -> "pa.Schema":
    """Return the columns of the table."""
    import pyarrow as pa

    text, count, moment = pa.string(), pa.int64(), pa.timestamp("us", tz="UTC")
    expectation = [("name", text), ("action", text), ("at_most", text), ("failing", count), ("met", pa.bool_())]
    phases = [("phase", text), ("seconds", pa.float64())]
    return pa.schema(
        [
            ("dataset", text),
            ("run", text),
            ("location", text),
            ("began", moment),
            ("seconds", pa.float64()),
            ("exit", pa.int32()),
            ("message", text),
            ("repeated", pa.bool_()),
            ("version_before", count),
            ("version_after", count),
            *(
                (f"rows_{name}", count)
                for name in ("read", "written", "changed", "deleted", "unchanged", "quarantined", "dropped")
            ),
            ("expectations", pa.list_(pa.struct(expectation))),
            ("phases", pa.list_(pa.struct(phases))),
        ]
    )


def transaction_of(dataset: str, location: str, run_id: str, *, done: bool, unchanged: str = "") -> Transaction:
    """Return the transaction of a row: one for a run that is done, another for each attempt that was not.

    `unchanged` is the id of a table whose log has nothing of the run, for it said all of it already.
    """
    which = {"table": unchanged} if unchanged else {}
    if not done:
        which = {"attempt": uuid.uuid4().hex}
    mark = {"dataset": dataset, "run": run_id, "target": catalog_location(location), **which}
    return Transaction(f"deltaic-runs/{json.dumps(mark, sort_keys=True)}", 1, mark)


def opened(location: str, access: S3Access) -> "DeltaTable | None":
    """Return a table by its log alone; None where there is none, where it cannot be read, and without deltalake."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:  # a cluster's package has none: 54 MB more, for a row a run
        return None
    try:
        return DeltaTable(catalog_location(location), storage_options=access.deltalake())
    except (DeltaError, OSError, ValueError):
        return None


def has(spark: "SparkSession", location: str, transaction: Transaction) -> bool:
    """Tell whether the table has a row."""
    known = latest(spark, spark_path(catalog_location(location))).transactions()
    return bool(known.contains(transaction.application))


def append(  # noqa: PLR0913, PLR0917 -- what stands where, and who writes it
    location: str,
    row: Mapping[str, Any],
    leases: Leases,
    access: S3Access,
    spark: "SparkSession | None",
    unchanged: str = "",
) -> None:
    """Append the row of a run, unless it is one that is done and stands there; raises a DeltaicError.

    Without deltalake the session of the run writes it; None: there is none, and so no row. `unchanged` is as in
    `transaction_of`.
    """
    import pyarrow as pa

    place, rows = catalog_location(location), pa.Table.from_pylist([dict(row)], schema())
    done = row["exit"] == 0
    transaction = transaction_of(row["dataset"], row["location"], row["run"], done=done, unchanged=unchanged)
    try:
        import deltalake  # noqa: F401 -- whether it is there
    except ImportError:
        if spark is None:
            return
        with acquire(leases, place, holder_name(row["run"]), wait=WAIT) as lease, refusals():
            target = Target(place, "append", change_data_feed=False, evolve_schema=True)
            write(spark, spark.createDataFrame(rows), target, transaction)
            lease.confirm()
        return
    with acquire(leases, place, holder_name(row["run"]), wait=WAIT) as lease:
        _append(place, rows, transaction, access)
        lease.confirm()


def _append(place: str, rows: "pa.Table", transaction: Transaction, access: S3Access) -> None:
    from deltalake import CommitProperties, write_deltalake
    from deltalake import Transaction as Mark

    table = opened(place, access)
    if table is not None and table.transaction_version(transaction.application) is not None:
        return
    marks = CommitProperties(
        custom_metadata={"userMetadata": transaction.user_metadata},
        app_transactions=[Mark(transaction.application, transaction.version)],
    )
    try:
        write_deltalake(
            place,
            rows,
            mode="append",
            schema_mode="merge",
            storage_options=access.deltalake(),
            commit_properties=marks,
        )
    except Exception as failure:  # where a table's columns are others, deltalake raises nothing more special
        raise PipelineError(f"{type(failure).__name__}: {failure}") from failure


def rows(location: str, access: S3Access, dataset: str = "", *, failed: bool = False) -> list[dict[str, Any]]:
    """Return the rows of the table by their beginning, those of one dataset if it is named; read without Spark.

    `failed`: only those of runs that did not end with 0. Raises NotFound where there is no table, and Unavailable.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    wanted = pc.scalar(value=True)
    if dataset:
        wanted &= pc.field("dataset") == dataset
    if failed:
        wanted &= pc.field("exit") != 0
    try:
        table = DeltaTable(catalog_location(location), storage_options=access.deltalake())
        found: list[dict[str, Any]] = table.to_pyarrow_dataset().to_table(filter=wanted).to_pylist()
    except TableNotFoundError:
        raise NotFound(f"there is no table of runs at {location}: each run of a dataset adds a row to it") from None
    except (DeltaError, OSError, ValueError, pa.ArrowException) as failure:
        raise Unavailable(f"the table of runs {location} cannot be read: {failure}") from failure
    return sorted(found, key=lambda row: row["began"])


def refuse_same(runs: str, others: Mapping[str, str]) -> None:
    """Raise `PipelineError` where the table would lie in another one's folder, or around it."""
    place = f"{catalog_location(runs)}/"
    for name, location in others.items():
        other = f"{catalog_location(location)}/"
        if place.startswith(other) or other.startswith(place):
            raise PipelineError(f"--runs {runs} is a table of its own, and not in the folder of {name}, {location}.")
