"""The job that refreshes views: `python -m deltaic_pipeline.views NAME...`, here and by spark-submit."""

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
from deltaic_pipeline.job_command import Tell, conduct_command
from deltaic_pipeline.spark.session import session
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.spark.task_progress import tasks_shown
from deltaic_pipeline.table.catalog_entry import Catalog, connect
from deltaic_pipeline.table.leased_run import leased_run
from deltaic_pipeline.table.sources import catalog_location
from deltaic_pipeline.view_refresh.catalog_session import begin, definition_of, due, named_views, settle
from deltaic_pipeline.view_refresh.refresh import RefreshResult, refresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the refresh of one view."""

    view: str
    refreshed: RefreshResult
    recipients: int
    audiences: int
    seconds: float

    def lines(self) -> Iterator[str]:
        """Say it to people."""
        done = self.refreshed
        changed = f"+{done.inserted:,} ~{done.updated:,} -{done.deleted:,}"
        read = ", ".join(f"{name} {version}" for name, version in done.sources.items())
        yield f"{self.view}"
        yield f"  version     {done.version} (rows {changed}; sources: {read})"
        yield f"  rows        {sum(done.rows.values()):,} in {done.bytes:,} bytes"
        yield f"  recipients  {self.recipients:,}, of {self.audiences:,} audiences"
        yield f"  computed    {f'all rows: {done.full_because}' if done.full_because else 'what changed'}"
        yield f"  time        {self.seconds:.1f} s"

    def event(self) -> dict[str, object]:
        """Say it to programs."""
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
    stopped = "views that were refreshed are, and the same command goes on"
    return conduct_command(options, partial(_job, options), stopped)


def refresh_view(  # noqa: PLR0913 -- what, with what, and how long to wait
    spark: "SparkSession",
    view: View,
    catalog: Catalog,
    run_id: str,
    *,
    progress: Progress = silent,
    wait: timedelta = timedelta(0),
) -> Outcome:
    """Refresh one view under the lease on its location.

    Raises `Conflict` when another job refreshes it or it was changed meanwhile, `LeaseLost`, `PipelineError`,
    `InvalidParameter` and `NotFound`. Whatever fails, recipients see what they saw, or less.
    """
    began, admin = time.monotonic(), catalog.admin
    location = catalog_location(admin.views.table(view).location)
    with leased_run(spark, catalog, [location], run_id, progress, wait=wait) as attempt:
        task = begin(admin, view)
        definition = definition_of(admin, task.view, task.table)
        with (
            step(progress, f"Refreshing {view.title}") as tell,
            tasks_shown(spark, attempt.group, tell),
            attempt.refusals(),
        ):
            # A name of its own for each attempt: one that was killed is compared with the table, not believed.
            attempted = f"{run_id}-{uuid.uuid4().hex}"
            done = refresh(attempt.spark, definition, task.wanted, task.known, attempted)
            attempt.confirm()
            tell(f"version {done.version}, {sum(done.rows.values()):,} rows for {task.recipients:,} recipients")
        settle(admin, task, done, run_id, time.monotonic() - began)
    return Outcome(view.title, done, task.recipients, len(task.wanted), time.monotonic() - began)


def _job(options: argparse.Namespace, progress: Progress, tell: Tell) -> None:
    catalog = connect(options.catalog)
    admin = catalog.admin
    with step(progress, "Reading the catalog") as report:
        views = named_views(admin, options.names) if options.names else list(admin.views.list_all())
        if options.due:
            views = [view for view in views if due(admin, view)]
        report(f"{len(views)} to refresh")
    run_id = options.run_id or uuid.uuid4().hex
    tell([], {"event": "begun", "run": run_id, "views": [view.title for view in views]})
    if views:
        with step(progress, "Starting Spark") as report:
            spark = session("deltaic views", S3Access.from_environment(), memory=options.memory, report=report)
        wait = timedelta(seconds=options.wait)
        refresh_views(spark, views, catalog, run_id, tell=tell, progress=progress, wait=wait)
    tell([] if views else ["no view is due"], {"event": "done", "run": run_id, "views": len(views)})


def refresh_views(  # noqa: PLR0913 -- what, with what, and how long to wait
    spark: "SparkSession",
    views: Sequence[View],
    catalog: Catalog,
    run_id: str,
    *,
    tell: Tell,
    progress: Progress = silent,
    wait: timedelta = timedelta(0),
) -> None:
    """Refresh views one after the other, whatever becomes of the others, and tell of each.

    Raises at the end for those that failed, which the catalog keeps the reasons of: what it was for the only view there
    is, `Conflict` when all were in another writer's hands, else `PipelineError`.
    """
    failures: dict[str, DeltaicError] = {}
    for view in views:
        try:
            done = refresh_view(spark, view, catalog, run_id, progress=progress, wait=wait)
        except DeltaicError as failure:
            failures[view.title] = failure
            with suppress(DeltaicError):  # the failure itself matters more
                catalog.admin.views.record_failure(view, failure.message)
            tell(
                [f"{view.title}: not refreshed"] if len(views) > 1 else [],
                {"event": "notRefreshed", "view": view.title, "code": failure.code, "message": failure.message},
            )
        else:
            tell(list(done.lines()), done.event())
    if len(failures) == len(views) == 1:
        raise next(iter(failures.values()))
    if failures:
        told = "\n".join(f"{name}: {failure.message}" for name, failure in failures.items())
        # Only if each failure was another writer's, running again is enough.
        busy = all(isinstance(failure, Conflict | LeaseLost) for failure in failures.values())
        refusal = f"{len(failures)} of {len(views)} views were not refreshed\n{told}"
        raise (Conflict if busy else PipelineError)(refusal) from next(iter(failures.values()))


if __name__ == "__main__":
    sys.exit(main())
