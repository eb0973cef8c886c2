"""Skip a run if its input has the same digest as the input that the last run has already written."""

import json
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltaic_pipeline
from deltaic_pipeline.table.location_checks import LocationChecks
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest_snapshot
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction, WriteResult, exists, find_commit, last_write

import deltaic_datasets
from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.run_state import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIES = re.compile(
    r"\b(current_\w+|curdate|local(time|timestamp)|unix_timestamp|today|tomorrow|yesterday|_metadata|tablesample"
    r"|rand(n|om|str)?|monotonically_increasing_id|spark_partition_id)\b|\b(now|uuid|uniform|shuffle)\s*\(|'\s*now\b",
    re.IGNORECASE,
)
"""Matches SQL that may return other rows for the same input. A false match only means that files are read again."""


def delivery_of(spark: "SparkSession", run: Run) -> str:
    """Return a digest of a run's input: its files, Delta table versions, dataset, our code and Spark's version.

    Returns an empty string if equal input may result in other rows, or if writing equal rows again changes the table.
    """
    dataset = run.dataset
    if not isinstance(dataset.write, dataset_model.Keyed) or dataset.stream is not None:
        return ""
    sql = [*(step.sql for step in dataset.steps), dataset.write.delete_when or ""]
    sql += [rule.condition for rule in dataset.expectations if isinstance(rule, dataset_model.Condition)]
    by_time = any(isinstance(rule, dataset_model.FreshnessExpectation) for rule in dataset.expectations)
    if by_time or VARIES.search("\n".join(sql)):
        return ""
    inputs = [_input(spark, source) for source in dataset.sources.values()]
    if not all(inputs):
        return ""
    content = [_code(), spark.version, dataset.model_dump_json(), inputs]
    return sha256(json.dumps(content).encode()).hexdigest()


def written_before(spark: "SparkSession", run: Run, target: DeltaTarget, delivery: str) -> WriteResult | None:
    """Return the table's version if its last write was a complete run with another id but the same input digest."""
    last = last_write(spark, target) if delivery and exists(spark, target) else {}
    if (last.get("dataset"), last.get("delivery")) != (run.dataset.name, delivery) or last["run"] == run.run_id:
        return None
    if last["aside"]:
        transaction = Transaction.of_run(last["run"], run.dataset.name).of_target(target.location)
        if find_commit(spark, DeltaTarget(run.dataset.quarantine_location, "append"), transaction) is None:
            return None
    version = int(latest_snapshot(spark, spark_path(target.location)).version())
    return WriteResult(version, repeated=False, metrics={}, committed=False)


def _input(spark: "SparkSession", source: dataset_model.Source) -> list[Any] | None:
    match source:
        case dataset_model.FileSource():
            locations = LocationChecks()
            files = [locations.files(path) for path in source.paths]
            return None if None in files else files
        case dataset_model.DeltaSource():
            table = latest_snapshot(spark, spark_path(source.path))
            return [str(table.metadata().id()), int(table.version())]
        case _:
            return None


@cache
def _code() -> str:
    digest = sha256()
    for package in (deltaic_datasets, deltaic_pipeline):
        for file in sorted(Path(package.__path__[0]).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
