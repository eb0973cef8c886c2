"""Build a dataset as its file says: `python -m deltaic_datasets.run.job FILE`, also by spark-submit."""

import argparse
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deltaic.errors import NotFound
from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.job_command import Tell, conduct_command, going_on
from deltaic_pipeline.spark.ddl import columns_of
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import Catalog, TableName, connect
from deltaic_pipeline.table.file_schemas import nanoseconds_in, wrong_header
from deltaic_pipeline.table.location_checks import Places
from deltaic_pipeline.table.run_log import refuse_same
from deltaic_terminal.progress import Progress, step

from deltaic_datasets.file.dataset_model import Dataset, DeltaSource, FileSource, Keyed
from deltaic_datasets.file.file_checks import dataset_of
from deltaic_datasets.file.file_text import text_of
from deltaic_datasets.file.named_columns import misnamed_of
from deltaic_datasets.file.sql_text import refused_outputs
from deltaic_datasets.run.batch import build, refuse_unshareable
from deltaic_datasets.run.dry_run import plan
from deltaic_datasets.run.run_recording import recorded
from deltaic_datasets.run.run_state import Run, Summary
from deltaic_datasets.run.sql_steps import placed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    options = parser("run").parse_args(arguments)
    run_id = options.run_id or uuid.uuid4().hex
    stopped = "nothing was changed" if options.dry_run else going_on(run_id)
    return conduct_command(options, partial(job, options, run_id), stopped)


def job(options: argparse.Namespace, run_id: str, progress: Progress, tell: Tell) -> Summary | None:
    """Build a dataset, or tell what would be done (None); raises a DeltaicError for whatever keeps it from that."""
    dataset, document = dataset_of(text_of(options.file), options.file, dict(options.variables))

    def origin(path: Sequence[str | int]) -> str:
        place = document.place(path)
        return f"{options.file}:{place.line}: {place.field}"

    if options.delete_at_most is not None:
        dataset = _with_limit(dataset, options.delete_at_most)
    runs = options.runs or dataset.runs_location
    named = bool(options.run_id) and dataset.stream is None
    run = Run(dataset, run_id, timedelta(seconds=options.wait), origin, runs if named else "")
    catalog = connect(options.catalog)
    if options.runs:
        others = {"the target": dataset.target.location, "the quarantine": dataset.quarantine_location}
        refuse_same(options.runs, others)
    _refuse_what_is_known(options, run, catalog)
    if not options.dry_run:
        again = [] if options.run_id else [f"run {run_id}: if it is killed, start it again with --run-id {run_id}"]
        tell(again, {"event": "begun", "run": run_id, "dataset": dataset.name, "location": dataset.target.location})
    if options.dry_run:
        with step(progress, "Starting Spark") as said:
            spark = spark_of(options, said)
        with placed(run), refusals():
            found = plan(spark, run, progress)
        tell(list(found.lines()), found.event())
        return None
    with recorded(run, runs, catalog, progress) as recording:
        with step(recording.progress, "Starting Spark") as said:
            recording.spark = spark_of(options, said)
        summary = recording.summary = build(recording.spark, run, catalog, recording.progress)
    shared = None if options.json or not dataset.target.share else TableName.parse(dataset.target.share)
    after = catalog.next_step(shared) if shared else ""
    quarantine = dataset.quarantine_location
    event = {"event": "done", **asdict(summary)} | ({"quarantine": quarantine} if summary.quarantined else {})
    tell([*summary_lines(summary, quarantine), *[after] * bool(after)], event)
    return summary


def _with_limit(dataset: Dataset, limit: str) -> Dataset:
    if not isinstance(dataset.write, Keyed) or not dataset.write.delete_missing:
        raise PipelineError("--delete-at-most is for datasets with write.delete_missing, which this one has not.")
    return dataset.model_copy(update={"write": dataset.write.model_copy(update={"at_most": limit})})


def _refuse_what_is_known(options: argparse.Namespace, run: Run, catalog: Catalog) -> None:
    places, location = Places(), run.dataset.target.location

    def said(found: Iterable[tuple[Sequence[str | int], str]]) -> str:
        return "\n".join(f"{run.origin(path)}: {message}" for path, message in found)

    if missing := said(_absent(run.dataset, places, named_run=bool(options.run_id))):
        raise NotFound(missing)
    if other := said(_other_files(run.dataset, places, named_run=bool(options.run_id))):
        raise PipelineError(other)
    if places.absent_table(location) and (refused := said(refused_outputs(run.dataset))):
        raise PipelineError(refused)
    table = places.columns(location)
    if table is not None and (wrong := said(misnamed_of(run.dataset, table))):
        raise PipelineError(wrong)
    refuse_unshareable(run, catalog)
    if not options.dry_run:
        catalog.require_free(location, run.wait)


def _absent(dataset: Dataset, places: Places, *, named_run: bool) -> Iterator[tuple[Sequence[str | int], str]]:
    """Yield the fields of a dataset whose places are not there, and what to say.

    A run with a name may be a repetition, which needs no source once there is a table.
    """
    repeated = named_run and places.absent_table(dataset.target.location) is None
    written: list[tuple[Sequence[str | int], str]] = [(("target", "location"), dataset.target.location)]
    if dataset.quarantine:
        written.append((("quarantine",), dataset.quarantine))
    if dataset.stream:
        written.append((("stream", "checkpoint"), dataset.stream.checkpoint))
    for path, location in written:
        if message := places.absent_bucket(location):
            yield path, message
    for name, source in dataset.sources.items():
        followed = dataset.stream is not None and dataset.stream.source == name  # its files may come later
        look = places.absent_bucket if followed or repeated else places.absent_source
        for number, file in enumerate(source.paths if isinstance(source, FileSource) else ()):
            if message := look(file):
                yield ("sources", name, "paths", number), message
        look = places.absent_bucket if followed or repeated else places.absent_table
        if isinstance(source, DeltaSource) and (message := look(source.path)):
            yield ("sources", name, "path"), message


def _other_files(dataset: Dataset, places: Places, *, named_run: bool) -> Iterator[tuple[Sequence[str | int], str]]:
    if named_run and places.absent_table(dataset.target.location) is None:
        return
    for name, source in dataset.sources.items():
        followed = dataset.stream is not None and dataset.stream.source == name
        read = not dataset.steps or any(name.lower() in one.sql.lower() for one in dataset.steps)
        if not isinstance(source, FileSource) or not read or followed:
            continue
        messages: Iterable[str | None] = ()
        if source.format == "csv" and source.ddl:
            columns = [column.name for column in columns_of(source.ddl)]
            begins = filter(None, map(places.beginning, source.paths))
            messages = (wrong_header(*file, columns, source.options) for file in begins)
        elif source.format == "parquet":
            messages = (nanoseconds_in(*file) for file in filter(None, map(places.footer, source.paths)))
        if message := next(filter(None, messages), None):
            yield ("sources", name), message


def spark_of(options: argparse.Namespace, report: Callable[[str], None]) -> "SparkSession":
    """Return the session of a run; that of this process if it has one."""
    jars = [Path(jar).absolute() for jar in options.jar]
    for jar in jars:
        if not jar.is_file():
            raise PipelineError(f"--jar {jar} is not a file.")
    return session(
        "deltaic run",
        S3Access.from_environment(),
        brief=options.dry_run,
        memory=options.memory,
        jars=jars,
        report=report,
    )


def summary_lines(summary: Summary, quarantine: str) -> Sequence[str]:
    """Return the summary for people; `quarantine` is where its quarantined rows are."""
    version = "none" if summary.version is None else f"{summary.version}{_history(summary)}"
    fields = {
        "run": summary.run_id,
        "table": summary.location,
        "version": version,
        "rows": f"{summary.rows:,} read in {summary.seconds:.1f} s",
        "written": f"{summary.written:,}",
        "batches": "" if summary.batches == 1 else str(summary.batches),
        **{name: f"{count:,}" for name, count in summary.apart.items() if count},
        "read them by": f'deltalake.DeltaTable("{quarantine}").to_pandas()' if summary.quarantined else "",
        **{name: f"{value:,}" for name, value in summary.metrics.items() if name in SHOWN and value},
        "made": ", ".join(summary.made),
        **{f"{verdict.name} ({verdict.action})": verdict.said for verdict in summary.verdicts},
        "not met": "; ".join(verdict.told for verdict in summary.verdicts if verdict.failing),
    }
    width = max(len(name) for name in fields)
    return [f"{name:<{width}}  {value}" for name, value in fields.items() if value]


def _history(summary: Summary) -> str:
    if summary.repeated:
        return " (repeated)"
    if summary.redelivered:
        return " (unchanged: same delivery as the last run, nothing was read)"
    return "" if summary.committed else " (as it was: nothing new)"


SHOWN = (
    "numFiles",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetFilesAdded",
    "numTargetFilesRemoved",
)
"""What of Delta's own counts the summary shows."""


if __name__ == "__main__":
    sys.exit(main())
