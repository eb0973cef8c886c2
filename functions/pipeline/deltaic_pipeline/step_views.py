"""The sources and steps of a dataset as views of a session, of which the last one holds the rows to write."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaic_pipeline.attempt import said_by_spark
from deltaic_pipeline.database import read_database
from deltaic_pipeline.datasets import model
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.runs import Run
from deltaic_pipeline.sources import Source, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows_of(spark: "SparkSession", run: Run, given: "DataFrame | None" = None) -> "DataFrame":
    """Return the rows of the last step (lazily); `given` stands for the source that a stream follows."""
    dataset = run.dataset
    for name, source in dataset.sources.items():
        with said_where(run, ("sources", name)):
            streamed = given is not None and dataset.stream is not None and name == dataset.stream.source
            rows = given if streamed and given is not None else _source(spark, source)
            rows.createOrReplaceTempView(name)
    for number, one in enumerate(dataset.steps):
        with said_where(run, ("steps", number, "sql")):
            spark.sql(one.sql).createOrReplaceTempView(one.view)
    return spark.table(dataset.last_view)


@contextmanager
def said_where(run: Run, path: Sequence[str | int]) -> Iterator[None]:
    """Say of what Spark refuses where the file says it."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as refusal:
        raise PipelineError(f"{run.origin(path)}: {said_by_spark(refusal)}") from refusal
    except PipelineError as refusal:
        raise PipelineError(f"{run.origin(path)}: {refusal.message}") from refusal


def file_source(source: model.FileSource | model.DeltaSource) -> Source:
    """Return what is read of files or a Delta table."""
    if isinstance(source, model.DeltaSource):
        return Source("delta", [source.path], source.options)
    return Source(source.format, source.paths, source.options, source.ddl)


def _source(spark: "SparkSession", source: model.Source) -> "DataFrame":
    return read_database(spark, source) if isinstance(source, model.JdbcSource) else read(spark, file_source(source))
