"""Create a view of each source and step of a dataset; the last view has the rows to write."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from deltaic_pipeline.failures import ExpectationFailed, FileError, PipelineError
from deltaic_pipeline.spark.spark_errors import is_database_error, refusals
from deltaic_pipeline.spark.sql_rules import query_rows
from deltaic_pipeline.table.sources import Reading, Source, explain_misfits, read

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.database import read_database
from deltaic_datasets.run.run_state import Run
from deltaic_datasets.run.windows import Window, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """Rows of the last step as a lazy DataFrame, and the sources from which they were read, by name."""

    rows: "DataFrame"
    sources: Mapping[str, Reading]


def read_dataset(
    spark: "SparkSession",
    run: Run,
    batch: "DataFrame | None" = None,
    windows: Mapping[str, Window] = MappingProxyType({}),
) -> DatasetRows:
    """Return the rows of the last step. `batch` has the stream source's rows; `windows` limits rows of databases."""
    dataset, sources = run.dataset, dict[str, Reading]()
    for name, source in dataset.sources.items():
        with locate_errors_at(run, ("sources", name)):
            streamed = batch is not None and dataset.stream is not None and name == dataset.stream.source
            evolves = dataset.target.evolve_schema
            sources[name] = _source(spark, source, batch if streamed else None, windows.get(name), evolves=evolves)
            sources[name].rows.createOrReplaceTempView(name)
    for number, step in enumerate(dataset.steps):
        with locate_errors_at(run, ("steps", number, "sql")):
            query_rows(spark, step.sql).createOrReplaceTempView(step.view)
    return DatasetRows(spark.table(dataset.last_view), sources)


@contextmanager
def locate_errors_at(run: Run, path: Sequence[str | int]) -> Iterator[None]:
    """Add the position of a field in the dataset file to Spark errors that the block raises."""
    try:
        with refusals():
            yield
    except FileError:
        raise
    except PipelineError as refusal:
        raise FileError(f"{run.origin(path)}: {refusal.message}") from refusal


@contextmanager
def locate_errors(run: Run) -> Iterator[None]:
    """Add the position of the field that is the most likely cause to errors about the rows of a run."""
    try:
        yield
    except ExpectationFailed as refusal:
        number = next((number for number, verdict in enumerate(refusal.verdicts) if verdict.refused), None)
        position = run.origin(("write",) if number is None else ("expectations", number))
        raise ExpectationFailed(f"{position}: {refusal.message}", refusal.verdicts) from refusal
    except PipelineError as refusal:
        if type(refusal) is not PipelineError:
            raise
        raise FileError(f"{run.origin(_find_field(run, refusal))}: {refusal.message}") from refusal


def _find_field(run: Run, refusal: PipelineError) -> Sequence[str | int]:
    by_database = is_database_error(refusal.__cause__)
    candidates = [
        name
        for name, source in run.dataset.sources.items()
        if (by_database and isinstance(source, dataset_model.JdbcSource))
        or any(_glob_prefix(path) in refusal.message for path in getattr(source, "paths", ()))
    ]
    if len(candidates) == 1:
        return "sources", candidates[0]
    fragment = re.search(r"\(in (.+?)\)( Cause: |$)", refusal.message)
    for number, step in enumerate(run.dataset.steps):
        if fragment and fragment[1] in " ".join(step.sql.split()):
            return "steps", number, "sql"
    return ("write",)


def locate_values(run: Run, sources: Mapping[str, Reading]) -> AbstractContextManager[None]:
    """Add to errors of the block the position of the first value that does not match its source's schema."""
    remedy = "correct the files, or choose in `malformed` what happens to such rows"
    return explain_misfits({run.origin(("sources", name)): reading for name, reading in sources.items()}, remedy)


def _glob_prefix(path: str) -> str:
    return re.split(r"[\[\]{}*?\\]", path.partition("://")[2] or path, maxsplit=1)[0]


def file_source(source: dataset_model.FileSource | dataset_model.DeltaSource, *, evolves: bool = False) -> Source:
    """Convert a source of files or a Delta table to the source that `deltaic_pipeline.table` reads."""
    if isinstance(source, dataset_model.DeltaSource):
        return Source("delta", [source.path], source.options)
    # With its default, Spark would skip new files that are a week older than the newest one.
    options = {"maxFileAge": "36500d", **source.options} if source.only_new else source.options
    return Source(source.format, source.paths, options, source.ddl, source.malformed, evolves)


def _source(
    spark: "SparkSession",
    source: dataset_model.Source,
    batch: "DataFrame | None",
    window: Window | None,
    *,
    evolves: bool,
) -> Reading:
    if isinstance(source, dataset_model.JdbcSource):
        rows = read_database(spark, source)
        return Reading(within(rows, window, source.watermark) if window and source.watermark else rows)
    files = file_source(source, evolves=evolves)
    return read(spark, files) if batch is None else Reading(batch, files)
