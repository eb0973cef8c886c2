"""Job that refreshes views: `python -m deltaic_pipeline.views NAME...`, also through spark-submit."""

import argparse
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from deltaic.catalog.items import View
from deltaic.errors import Conflict, DeltaicError
from deltaic_terminal.progress import Progress, silent, step

from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import LeaseLost, PipelineError
from deltaic_pipeline.job_command import Report, run_command
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.spark.task_progress import show_tasks
from deltaic_pipeline.table.catalog_entry import JobCatalog, connect
from deltaic_pipeline.table.leased_run import leased_run
from deltaic_pipeline.table.sources import catalog_location
from deltaic_pipeline.view_refresh.catalog_session import definition_of, finish_task, named_views, start_task, why_due
from deltaic_pipeline.view_refresh.refresh import RefreshResult, refresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ViewRefreshResult:
    """Result of refreshing one view, with its recipients and duration."""

    view: str
    refreshed: RefreshResult
    recipients: int
    audiences: int
    seconds: float

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text for the terminal."""
        done = self.refreshed
        changed = f"+{done.inserted:,} ~{done.updated:,} -{done.deleted:,}"
        read = ", ".join(f"{name} {version}" for name, version in done.sources.items())
        yield f"{self.view}"
        yield f"  version     {done.version} (rows {changed}; sources: {read})"
        yield f"  rows        {sum(done.rows.values()):,} in {done.bytes:,} bytes"
        yield f"  recipients  {self.recipients:,}, of {self.audiences:,} audiences"
        yield f"  computed    {f'all rows: {done.full_because}' if done.full_because else 'changed rows'}"
        yield f"  time        {self.seconds:.1f} s"

    def event(self) -> dict[str, object]:
        """Return the result as a JSON event."""
        facts = asdict(self.refreshed)
        return {
            "event": "refreshed",
            "view": self.view,
            "fullBecause": facts.pop("full_because"),
            **facts,
            "rows": sum(self.refreshed.rows.values()),
            "recipients": self.recipients,
            "audiences": self.audiences,
            "seconds": round(self.seconds, 3),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    options = parser("views").parse_args(arguments)
    stopped = "refreshed views stay refreshed; run the same command to continue"
    return run_command(options, partial(_job, options), stopped)


def refresh_view(  # noqa: PLR0913 -- the view, its clients, and how long to wait
    spark: "SparkSession",
    view: View,
    catalog: JobCatalog,
    run_id: str,
    *,
    progress: Progress = silent,
    wait: timedelta = timedelta(0),
) -> ViewRefreshResult:
    """Refresh one view under the writer lease of its table.

    Raises `Conflict` if another job refreshes the view or its entry was changed meanwhile, `LeaseLost`,
    `PipelineError`, `InvalidParameter` and `NotFound`. After an error, recipients see the same rows as before or fewer.
    """
    began, admin = time.monotonic(), catalog.admin
    location = catalog_location(admin.views.table(view).location)
    with leased_run(spark, catalog, [location], run_id, progress, wait=wait) as attempt:
        task = start_task(admin, view)
        definition = definition_of(admin, task.view, task.table)
        with (
            step(progress, f"Refreshing {view.title}") as report,
            show_tasks(spark, attempt.group, report),
            attempt.refusals(),
        ):
            # A unique id for each attempt: the rows of a killed attempt are compared with the table, and not trusted.
            attempt_id = f"{run_id}-{uuid.uuid4().hex}"
            done = refresh(attempt.spark, definition, task.audiences, task.existing, attempt_id)
            attempt.confirm()
            report(f"version {done.version}, {sum(done.rows.values()):,} rows for {task.recipients:,} recipients")
        finish_task(admin, task, done, run_id, time.monotonic() - began)
    return ViewRefreshResult(view.title, done, task.recipients, len(task.audiences), time.monotonic() - began)


def _job(options: argparse.Namespace, progress: Progress, report: Report) -> None:
    catalog = connect(options.catalog)
    admin = catalog.admin
    with step(progress, "Reading the catalog") as report_progress:
        views = named_views(admin, options.names) if options.names else list(admin.views.list_all())
        if options.due:
            views = [view for view in views if why_due(admin, view)]
        report_progress(f"{len(views)} to refresh")
    run_id = options.run_id or uuid.uuid4().hex
    report([], {"event": "begun", "run": run_id, "views": [view.title for view in views]})
    if views:
        with step(progress, "Starting Spark") as report_progress:
            spark = session("deltaic views", S3Access.from_environment(), memory=options.memory, report=report_progress)
        wait = timedelta(seconds=options.wait)
        refresh_views(spark, views, catalog, run_id, report=report, progress=progress, wait=wait)
    report([] if views else ["no view is due"], {"event": "done", "run": run_id, "views": len(views)})


def refresh_views(  # noqa: PLR0913 -- the views, their clients, and how long to wait
    spark: "SparkSession",
    views: Sequence[View],
    catalog: JobCatalog,
    run_id: str,
    *,
    report: Report,
    progress: Progress = silent,
    wait: timedelta = timedelta(0),
) -> None:
    """Refresh views one after the other, continue after errors, and report each result.

    The catalog stores the reason for each failure. At the end, raises the original error if there is only one view,
    `Conflict` if other writers caused all failures, or else `PipelineError`.
    """
    failures: dict[str, DeltaicError] = {}
    for view in views:
        try:
            done = refresh_view(spark, view, catalog, run_id, progress=progress, wait=wait)
        except DeltaicError as failure:
            failures[view.title] = failure
            with suppress(DeltaicError):  # the failure itself matters more
                catalog.admin.views.record_failure(view, failure.message)
            report(
                [f"{view.title}: not refreshed"] if len(views) > 1 else [],
                {"event": "notRefreshed", "view": view.title, "code": failure.code, "message": failure.message},
            )
        else:
            report(list(done.lines()), done.event())
    if len(failures) == len(views) == 1:
        raise next(iter(failures.values()))
    if failures:
        reasons = "\n".join(f"{name}: {failure.message}" for name, failure in failures.items())
        # Running the job again is enough only if other writers caused all failures.
        busy = all(isinstance(failure, Conflict | LeaseLost) for failure in failures.values())
        refusal = f"{len(failures)} of {len(views)} views were not refreshed\n{reasons}"
        raise (Conflict if busy else PipelineError)(refusal) from next(iter(failures.values()))


if __name__ == "__main__":
    sys.exit(main())
