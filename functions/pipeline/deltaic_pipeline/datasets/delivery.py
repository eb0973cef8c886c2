"""The delivery of a run: a digest of all that decides its rows, so that the same delivery is not read twice (202)."""

import json
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltaic_pipeline
from deltaic_pipeline.datasets import model
from deltaic_pipeline.datasets.run_state import Run
from deltaic_pipeline.table.locations import Places
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import latest
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Transaction, Written, committed, exists, last_write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIES = re.compile(
    r"\b(current_\w+|curdate|local(time|timestamp)|unix_timestamp|today|tomorrow|yesterday|_metadata|tablesample"
    r"|rand(n|om|str)?|monotonically_increasing_id|spark_partition_id)\b|\b(now|uuid|uniform|shuffle)\s*\(|'\s*now\b",
    re.IGNORECASE,
)
"""What SQL says where its rows may differ although it reads the same: in doubt, files are read once more."""


def delivery_of(spark: "SparkSession", run: Run) -> str:
    """Return the digest of files, tables, dataset and code; empty if reading them again may give other rows.

    Only rows by key have one: to write the same rows again changes nothing there.
    """
    dataset = run.dataset
    sql = [step.sql for step in dataset.steps]
    sql += [one.condition for one in dataset.expectations if isinstance(one, model.Condition)]
    varies = any(isinstance(one, model.Freshness) for one in dataset.expectations)
    if not isinstance(dataset.write, model.Keyed) or dataset.stream is not None or varies:
        return ""
    if VARIES.search("\n".join([*sql, dataset.write.delete_when or ""])):
        return ""
    read = [_read(spark, source) for source in dataset.sources.values()]
    if not all(read):
        return ""
    said = [_code(), spark.version, dataset.model_dump_json(), read]
    return sha256(json.dumps(said).encode()).hexdigest()


def written_before(spark: "SparkSession", run: Run, target: Target, delivery: str) -> Written | None:
    """Return the table's latest version if its last write was this dataset's, of the same delivery, and is complete."""
    last = last_write(spark, target) if delivery and exists(spark, target) else None
    if last is None or last.get("dataset") != run.dataset.name or last.get("delivery") != delivery:
        return None
    if last.get("aside"):
        transaction = Transaction.of_run(last["run"], run.dataset.name).of_target(target.location)
        if committed(spark, Target(run.dataset.quarantine_location, "append"), transaction) is None:
            return None
    version = int(latest(spark, spark_path(target.location)).version())
    return Written(version, repeated=False, metrics={}, committed=False)


def _read(spark: "SparkSession", source: model.Source) -> list[Any] | None:
    """Return what tells the content of a source from any other; None if nothing does."""
    match source:
        case model.FileSource():
            places = Places()
            files = [places.files(path) for path in source.paths]
            return None if None in files else files
        case model.DeltaSource():
            table = latest(spark, spark_path(source.path))
            return [str(table.metadata().id()), int(table.version())]
        case _:
            return None


@cache
def _code() -> str:
    folder, digest = Path(deltaic_pipeline.__path__[0]), sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
