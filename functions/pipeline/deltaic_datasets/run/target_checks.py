"""Check, before anything is written, that the table accepts the new rows, clustering and properties."""

from typing import TYPE_CHECKING

from deltaic_pipeline.failures import FileError
from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.spark.sql_rules import refuse_queries
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import (
    check_clustering,
    check_new_properties,
    check_properties,
    is_delta_table,
)
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import exists

from deltaic_datasets.file.named_columns import column_mistakes, name_refusal
from deltaic_datasets.run.expectations import Expectations
from deltaic_datasets.run.run_state import Run
from deltaic_datasets.run.sql_steps import locate_errors_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_target(spark: "SparkSession", rows: "DataFrame", run: Run, target: DeltaTarget) -> None:
    """Raise `PipelineError` for columns, clustering and properties that Delta would reject after the commit."""
    present = exists(spark, target)
    keeps_columns = present and not target.rewrites
    existing = spark.read.format("delta").load(spark_path(target.location)).schema.names if keeps_columns else []
    columns = {field.name: field.dataType.typeName() for field in rows.schema.fields}
    messages = [f"{run.origin(path)}: {message}" for path, message in column_mistakes(run.dataset, columns, existing)]
    refusals = {} if present else {name: name_refusal(name, target.properties) for name in columns}
    messages += [f"{run.origin(('target',))}: {message}" for message in refusals.values() if message]
    if messages:
        raise FileError("\n".join(messages))
    with locate_errors_at(run, ("target", "properties")):
        (check_properties if present else check_new_properties)(spark, target)
    has_all = {name.lower() for name in target.cluster_by} <= {name.lower() for name in existing}
    if has_all or not present:  # only Delta knows the names of new columns in an existing table
        with locate_errors_at(run, ("target", "cluster_by")):
            check_clustering(spark, target, "" if present else rows.schema.json())
    for number, expectation in enumerate(run.dataset.expectations):
        with locate_errors_at(run, ("expectations", number)):
            Expectations([expectation]).add_flags(rows)
    for field, condition in (("where", target.where), ("delete_when", target.delete_when)):
        if condition:
            with locate_errors_at(run, ("write", field)):
                refuse_queries(spark, condition)
                rows.where(condition)
    if run.dataset.quarantines:
        with locate_errors_at(run, ("quarantine",)):
            _refuse_other_columns(spark, rows, run.dataset.quarantine_location)


def _refuse_other_columns(spark: "SparkSession", rows: "DataFrame", location: str) -> None:
    """Let Delta raise an error if the columns of the rows conflict with those of the table."""
    if is_delta_table(spark, location):
        # Neither Delta nor pyspark has a public way to try this without a commit.
        existing = spark.read.format("delta").load(spark_path(location))._jdf.schema()  # noqa: SLF001 -- as above
        merging = java_class("org.apache.spark.sql.delta.schema.SchemaMergingUtils")
        defaults = [getattr(merging, f"mergeSchemas$default${number}")() for number in (3, 4, 5, 6)]
        merging.mergeSchemas(existing, rows._jdf.schema(), *defaults)  # noqa: SLF001 -- as above
