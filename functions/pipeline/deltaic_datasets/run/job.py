"""Run a dataset file: `python -m deltaic_datasets.run.job FILE`, also with spark-submit."""

import argparse
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deltaic.errors import NotFound
from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.job_command import Report, resume_hint, run_command
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import EntryName, JobCatalog, connect
from deltaic_pipeline.table.location_checks import LocationChecks
from deltaic_pipeline.table.run_log import refuse_overlap
from deltaic_terminal.progress import Progress, step

from deltaic_datasets.file.dataset_model import Dataset, DeltaSource, FileSource, Keyed
from deltaic_datasets.file.file_checks import dataset_of
from deltaic_datasets.file.file_text import text_of
from deltaic_datasets.file.named_columns import table_column_mistakes
from deltaic_datasets.file.sql_text import output_name_mistakes
from deltaic_datasets.run.batch import build, refuse_unshareable
from deltaic_datasets.run.dry_run import plan_run
from deltaic_datasets.run.run_recording import record_run
from deltaic_datasets.run.run_state import Run, RunSummary
from deltaic_datasets.run.sql_steps import locate_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Mistakes = Iterator[tuple[Sequence[str | int], str]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    options = parser("run").parse_args(arguments)
    run_id = options.run_id or uuid.uuid4().hex
    stopped = "nothing was changed" if options.dry_run else resume_hint(run_id)
    return run_command(options, partial(job, options, run_id), stopped)


def job(options: argparse.Namespace, run_id: str, progress: Progress, report: Report) -> RunSummary | None:
    """Run a dataset and return the summary; for a dry run, report it and return None. Raises a DeltaicError."""
    dataset, document = dataset_of(text_of(options.file), options.file, dict(options.variables))

    def origin(path: Sequence[str | int]) -> str:
        position = document.position(path)
        return f"{options.file}:{position.line}: {position.field}"

    if options.delete_at_most is not None:
        dataset = _with_limit(dataset, options.delete_at_most)
    runs = options.runs or dataset.runs_location
    has_name = bool(options.run_id) and dataset.stream is None
    run = Run(dataset, run_id, timedelta(seconds=options.wait), origin, runs if has_name else "")
    catalog = connect(options.catalog)
    if options.runs:
        other_locations = {"the target": dataset.target.location, "the quarantine": dataset.quarantine_location}
        refuse_overlap(options.runs, other_locations)
    _check_without_spark(options, run, catalog)
    if not options.dry_run:
        hint = [] if options.run_id else [f"run {run_id}: if it is killed, start it again with --run-id {run_id}"]
        report(hint, {"event": "begun", "run": run_id, "dataset": dataset.name, "location": dataset.target.location})
    if options.dry_run:
        with step(progress, "Starting Spark") as report_step:
            spark = start_spark(options, report_step)
        with locate_errors(run), refusals():
            dry_run = plan_run(spark, run, progress)
        report(list(dry_run.lines()), dry_run.event())
        return None
    with record_run(run, runs, catalog, progress) as recording:
        with step(recording.progress, "Starting Spark") as report_step:
            recording.spark = start_spark(options, report_step)
        summary = recording.summary = build(recording.spark, run, catalog, recording.progress)
    shared = None if options.json or not dataset.target.share else EntryName.parse(dataset.target.share)
    next_step = catalog.next_step(shared) if shared else ""
    quarantine = dataset.quarantine_location
    event = {"event": "done", **asdict(summary)} | ({"quarantine": quarantine} if summary.quarantined else {})
    report([*summary_lines(summary, quarantine), *[next_step] * bool(next_step)], event)
    return summary


def _with_limit(dataset: Dataset, limit: str) -> Dataset:
    if not isinstance(dataset.write, Keyed) or not dataset.write.delete_missing:
        raise PipelineError("--delete-at-most is only for datasets with write.delete_missing: remove the option.")
    return dataset.model_copy(update={"write": dataset.write.model_copy(update={"at_most": limit})})


def _check_without_spark(options: argparse.Namespace, run: Run, catalog: JobCatalog) -> None:
    checks, location = LocationChecks(), run.dataset.target.location

    def describe(mistakes: Mistakes) -> str:
        return "\n".join(f"{run.origin(path)}: {message}" for path, message in mistakes)

    if missing := describe(_find_missing(run.dataset, checks, named_run=bool(options.run_id))):
        raise NotFound(missing)
    if checks.missing_table(location) and (refused := describe(output_name_mistakes(run.dataset))):
        raise PipelineError(refused)
    table = checks.columns(location)
    if table is not None and (wrong := describe(table_column_mistakes(run.dataset, table))):
        raise PipelineError(wrong)
    refuse_unshareable(run, catalog)
    if not options.dry_run:
        catalog.require_free(location, run.wait)


def _find_missing(dataset: Dataset, checks: LocationChecks, *, named_run: bool) -> Mistakes:
    """Yield the path and an error for each field whose file, table or bucket does not exist.

    With `named_run` (--run-id is set) and an existing table, the run may repeat an earlier one and needs no sources.
    """
    repeated = named_run and checks.missing_table(dataset.target.location) is None
    outputs: list[tuple[Sequence[str | int], str]] = [(("target", "location"), dataset.target.location)]
    if dataset.quarantine:
        outputs.append((("quarantine",), dataset.quarantine))
    if dataset.stream:
        outputs.append((("stream", "checkpoint"), dataset.stream.checkpoint))
    for path, location in outputs:
        if message := checks.missing_bucket(location):
            yield path, message
    for name, source in dataset.sources.items():
        followed = dataset.stream is not None and dataset.stream.source == name  # its files may come later
        check = checks.missing_bucket if followed or repeated else checks.missing_source
        for number, file in enumerate(source.paths if isinstance(source, FileSource) else ()):
            if message := check(file):
                yield ("sources", name, "paths", number), message
        check = checks.missing_bucket if followed or repeated else checks.missing_table
        if isinstance(source, DeltaSource) and (message := check(source.path)):
            yield ("sources", name, "path"), message


def start_spark(options: argparse.Namespace, report: Callable[[str], None]) -> "SparkSession":
    """Return the Spark session of this process; start one if there is none."""
    jars = [Path(jar).absolute() for jar in options.jar]
    for jar in jars:
        if not jar.is_file():
            raise PipelineError(f"--jar {jar} is not a file: check the path.")
    return session(
        "deltaic run",
        S3Access.from_environment(),
        brief=options.dry_run,
        memory=options.memory,
        jars=jars,
        report=report,
    )


def summary_lines(summary: RunSummary, quarantine: str) -> Sequence[str]:
    """Format the summary of a run for a terminal; `quarantine` is the location of the quarantine table."""
    version = "none" if summary.version is None else f"{summary.version}{_history(summary)}"
    fields = {
        "run": summary.run_id,
        "table": summary.location,
        "version": version,
        "rows": f"{summary.rows:,} read in {summary.seconds:.1f} s",
        "written": f"{summary.written:,}",
        "batches": "" if summary.batches == 1 else str(summary.batches),
        **{name: f"{count:,}" for name, count in summary.other_counts.items() if count},
        "read them by": f'deltalake.DeltaTable("{quarantine}").to_pandas()' if summary.quarantined else "",
        **{name: f"{value:,}" for name, value in summary.metrics.items() if name in SHOWN_METRICS and value},
        "created": ", ".join(summary.created),
        **{f"{verdict.name} ({verdict.action})": verdict.message for verdict in summary.verdicts},
        "not met": "; ".join(verdict.text for verdict in summary.verdicts if verdict.failing),
    }
    width = max(len(name) for name in fields)
    return [f"{name:<{width}}  {value}" for name, value in fields.items() if value]


def _history(summary: RunSummary) -> str:
    if summary.repeated:
        return " (repeated)"
    if summary.redelivered:
        return " (unchanged: same delivery as the last run, nothing was read)"
    return "" if summary.committed else " (unchanged: no new rows)"


SHOWN_METRICS = (
    "numFiles",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetFilesAdded",
    "numTargetFilesRemoved",
)
"""Names of the metrics in Delta's commit that the summary shows."""


if __name__ == "__main__":
    sys.exit(main())
