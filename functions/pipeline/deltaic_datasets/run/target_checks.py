"""Decides, when the rows' columns are known and nothing is written, whether the table can become what is asked for."""

from typing import TYPE_CHECKING

from deltaic_pipeline.failures import PlacedError
from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.spark.sql_rules import refuse_queries
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import (
    check_clustering,
    check_new_properties,
    check_properties,
    is_delta_table,
)
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import exists

from deltaic_datasets.file.named_columns import misnamed, refused_name
from deltaic_datasets.run.expectations import Expectations
from deltaic_datasets.run.run_state import Run
from deltaic_datasets.run.sql_steps import said_where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refuse_unfit(spark: "SparkSession", rows: "DataFrame", run: Run, target: Target) -> None:
    """Raise `PipelineError` for columns, clustering and properties that would be refused behind the rows' commit."""
    present = exists(spark, target)
    keeps = present and not target.rewrites
    before = spark.read.format("delta").load(spark_path(target.location)).schema.names if keeps else []
    columns = {field.name: field.dataType.typeName() for field in rows.schema.fields}
    told = [f"{run.origin(path)}: {message}" for path, message in misnamed(run.dataset, columns, before)]
    refused = {} if present else {name: refused_name(name, target.properties) for name in columns}
    told += [f"{run.origin(('target',))}: {message}" for message in refused.values() if message]
    if told:
        raise PlacedError("\n".join(told))
    with said_where(run, ("target", "properties")):
        (check_properties if present else check_new_properties)(spark, target)
    has_all = {name.lower() for name in target.cluster_by} <= {name.lower() for name in before}
    if has_all or not present:  # how an existing table will call its new columns is Delta's to say
        with said_where(run, ("target", "cluster_by")):
            check_clustering(spark, target, "" if present else rows.schema.json())
    for number, one in enumerate(run.dataset.expectations):
        with said_where(run, ("expectations", number)):
            Expectations([one]).flagged(rows)
    for field, condition in (("where", target.where), ("delete_when", target.delete_when)):
        if condition:
            with said_where(run, ("write", field)):
                refuse_queries(spark, condition)
                rows.where(condition)
    if run.dataset.quarantines:
        with said_where(run, ("quarantine",)):
            _refuse_other_columns(spark, rows, run.dataset.quarantine_location)


def _refuse_other_columns(spark: "SparkSession", rows: "DataFrame", location: str) -> None:
    """Have Delta refuse rows whose columns do not go into the table beside those that it has."""
    if is_delta_table(spark, location):
        # Neither Delta nor pyspark has a public way to try this without a commit.
        there = spark.read.format("delta").load(spark_path(location))._jdf.schema()  # noqa: SLF001 -- as above
        merging = java_class("org.apache.spark.sql.delta.schema.SchemaMergingUtils")
        defaults = [getattr(merging, f"mergeSchemas$default${number}")() for number in (3, 4, 5, 6)]
        merging.mergeSchemas(there, rows._jdf.schema(), *defaults)  # noqa: SLF001 -- as above
