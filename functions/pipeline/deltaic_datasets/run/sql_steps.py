"""The sources and steps of a dataset as views of a session, of which the last one holds the rows to write."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from deltaic_pipeline.failures import ExpectationFailed, PipelineError, PlacedError
from deltaic_pipeline.spark.spark_errors import of_database, refusals
from deltaic_pipeline.spark.sql_rules import answer
from deltaic_pipeline.table.sources import Reading, Source, read, values_told

from deltaic_datasets.file import dataset_model
from deltaic_datasets.run.database import read_database
from deltaic_datasets.run.run_state import Run
from deltaic_datasets.run.windows import Window, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Answer:
    """What the last step gives (lazily), and what it was made of."""

    rows: "DataFrame"
    sources: Mapping[str, Reading]


def answer_of(
    spark: "SparkSession",
    run: Run,
    batch: "DataFrame | None" = None,
    windows: Mapping[str, Window] = MappingProxyType({}),
) -> Answer:
    """Return the rows of the last step; `batch` is one of the source that a stream follows, `windows` are by source."""
    dataset, sources = run.dataset, dict[str, Reading]()
    for name, source in dataset.sources.items():
        with said_where(run, ("sources", name)):
            streamed = batch is not None and dataset.stream is not None and name == dataset.stream.source
            evolves = dataset.target.evolve_schema
            sources[name] = _source(spark, source, batch if streamed else None, windows.get(name), evolves=evolves)
            sources[name].rows.createOrReplaceTempView(name)
    for number, one in enumerate(dataset.steps):
        with said_where(run, ("steps", number, "sql")):
            answer(spark, one.sql).createOrReplaceTempView(one.view)
    return Answer(spark.table(dataset.last_view), sources)


@contextmanager
def said_where(run: Run, path: Sequence[str | int]) -> Iterator[None]:
    """Say of what Spark refuses where the file says it."""
    try:
        with refusals():
            yield
    except PlacedError:
        raise
    except PipelineError as refusal:
        raise PlacedError(f"{run.origin(path)}: {refusal.message}") from refusal


@contextmanager
def placed(run: Run) -> Iterator[None]:
    """Begin every refusal of a run's rows with the place in the dataset file that it is about."""
    try:
        yield
    except ExpectationFailed as refusal:
        number = next((number for number, one in enumerate(refusal.verdicts) if one.refused), None)
        place = run.origin(("write",) if number is None else ("expectations", number))
        raise ExpectationFailed(f"{place}: {refusal.message}", refusal.verdicts) from refusal
    except PipelineError as refusal:
        if type(refusal) is not PipelineError:
            raise
        raise PlacedError(f"{run.origin(_at_fault(run, refusal))}: {refusal.message}") from refusal


def _at_fault(run: Run, refusal: PipelineError) -> Sequence[str | int]:
    by_database = of_database(refusal.__cause__)
    having = [
        name
        for name, source in run.dataset.sources.items()
        if (by_database and isinstance(source, dataset_model.JdbcSource))
        or any(_before_glob(path) in refusal.message for path in getattr(source, "paths", ()))
    ]
    if len(having) == 1:
        return "sources", having[0]
    fragment = re.search(r"\(in (.+?)\)( Cause: |$)", refusal.message)
    for number, step in enumerate(run.dataset.steps):
        if fragment and fragment[1] in " ".join(step.sql.split()):
            return "steps", number, "sql"
    return ("write",)


def said_of_values(run: Run, sources: Mapping[str, Reading]) -> AbstractContextManager[None]:
    """Say of values that do not fit a schema, and for which the run must fail, where the first one is."""
    remedy = "put the files right, or say in `malformed` where such rows go"
    return values_told({run.origin(("sources", name)): reading for name, reading in sources.items()}, remedy)


def _before_glob(path: str) -> str:
    return re.split(r"[\[\]{}*?\\]", path.partition("://")[2] or path, maxsplit=1)[0]


def file_source(source: dataset_model.FileSource | dataset_model.DeltaSource, *, evolves: bool = False) -> Source:
    """Return what is read of files or a Delta table."""
    if isinstance(source, dataset_model.DeltaSource):
        return Source("delta", [source.path], source.options)
    # Of files that are read once Spark would leave out those that are a week older than the newest.
    options = {"maxFileAge": "36500d", **source.options} if source.only_new else source.options
    return Source(source.format, source.paths, options, source.ddl, source.malformed, evolves)


def _source(
    spark: "SparkSession",
    source: dataset_model.Source,
    given: "DataFrame | None",
    window: Window | None,
    *,
    evolves: bool,
) -> Reading:
    if isinstance(source, dataset_model.JdbcSource):
        rows = read_database(spark, source)
        return Reading(within(rows, window, source.watermark) if window and source.watermark else rows)
    files = file_source(source, evolves=evolves)
    return read(spark, files) if given is None else Reading(given, files)
